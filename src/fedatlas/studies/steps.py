"""Steps of questions beside training; see `fedatlas.steps`."""

import logging
from dataclasses import asdict
from pathlib import Path

from fedatlas.evaluation.comma_separated import to_csv
from fedatlas.files import canonical_json, write_text
from fedatlas.plain_text import say
from fedatlas.schema.objectives import AucObjective, LinearObjective
from fedatlas.schema.runs import RunSpec
from fedatlas.schema.studies import BudgetStudy, Landscape, PartyValidation, PrivacyAudit

log = logging.getLogger(__name__)


def tabulate_leaks(
    rows: list[Path], objective: LinearObjective, output: Path, recovery: Path
) -> None:
    """Tabulate what curious or colluding parties learn from a vertical method's messages.

    rows: the files of all parties, in order. recovery: the table of attacks on histories.
    """
    from fedatlas.federations.vertical.shards import read_party_shards
    from fedatlas.studies.leaks import find_leaks
    from fedatlas.studies.recovery import SmallProblem, summarised, tabulate_recovery
    from fedatlas.training.solver import solve

    data = read_party_shards(rows)
    train, active = data.train, data.metadata["partition"]["active"]
    w, _ = solve(train, objective)
    label = train.label
    findings = find_leaks(objective, label, 0 * label, train.features @ w, train.parties, active)
    recovered = tabulate_recovery(SmallProblem.of(train, objective))
    write_text(recovery, to_csv([row._asdict() for row in recovered]))
    findings += summarised(recovered)
    write_text(output, to_csv([asdict(finding) for finding in findings]))


def tabulate_collusion(output: Path, pairs: Path) -> None:
    """Tabulate which groups of parties unmask shares, and what Definition 4 of VFB² is worth."""
    from fedatlas.studies.leaks import tabulate_groups, tabulate_pairs

    write_text(output, to_csv([row._asdict() for row in tabulate_groups()]))
    write_text(pairs, to_csv([row._asdict() for row in tabulate_pairs()]))


def validate_parties(
    validation: PartyValidation, shards: list[Path], output: Path, curves: Path, times: Path
) -> None:
    """Compare the simulated network with processes: times, staleness, speed-up.

    shards: files of partitions, each with another number of parties. curves: all that was
    measured, as JSON. times: single times of the most parties, asynchronous.
    """
    from fedatlas.studies.validation import compare_backends, single_times, tabulate

    folders = list(dict.fromkeys(file.parent for file in shards))
    pairs = compare_backends(folders, validation)
    write_text(output, to_csv([asdict(row) for row in tabulate(pairs)]))
    write_text(curves, canonical_json([asdict(pair) for pair in pairs]))
    last = max((pair for pair in pairs if not pair.synchronous), key=lambda pair: pair.parties)
    write_text(times, to_csv(single_times(last)))


def compute_landscape(
    rows: Path, objective: AucObjective, landscape: Landscape, output: Path
) -> None:
    """Compute the loss surface of a network with two parameters and its stationary points.

    rows: the shard file of all clients.
    """
    from fedatlas.evaluation.study_files import describe_point, write_surface
    from fedatlas.federations.shards import read_shard
    from fedatlas.studies.landscape import AucSurface, explore

    surface = explore(AucSurface(read_shard(rows), objective), landscape)
    write_surface(surface, output)
    for point in surface.stationary_points:
        log.info("%s", describe_point(point))


def compute_budgets(
    budgets: BudgetStudy, runs: list[RunSpec], output: Path, conditions: Path
) -> None:
    """Compute what runs spend of privacy, and list theorems' conditions; nothing is trained."""
    from fedatlas.store.netcdf import write_netcdf
    from fedatlas.studies import budgets as study

    write_netcdf(study.compute_budgets(runs, budgets), output)
    write_text(
        conditions, to_csv(study.tabulate_conditions(runs, budgets), study.CONDITION_COLUMNS)
    )


def attack_budgets(privacy_audit: PrivacyAudit, runs: list[RunSpec], output: Path) -> None:
    """Hold what runs claim of privacy against pairs of data sets of a tiny problem."""
    from fedatlas.studies.privacy_audit import tabulate_pairs

    write_text(output, to_csv(tabulate_pairs(runs, privacy_audit)))


def tabulate_theory(traces: Path, shards: Path, output: Path) -> None:
    """Tabulate which theorems cover runs, by how much steps exceed them, what they promise.

    traces: an experiment's, in one file. shards: the folder of all shards. Each row of the table
    names its theorem.
    """
    from fedatlas.evaluation.steps import read_runs
    from fedatlas.studies import theory

    rows = theory.tabulate_theory(read_runs(traces), shards)
    write_text(output, to_csv(rows, theory.COLUMNS))
    if not rows:
        say(f"{output}: no theorem is known here of the methods of these runs")
