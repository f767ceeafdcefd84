"""Commands: questions beside training."""

import logging
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from fedatlas.cli.options import (
    ObjectiveSpecification,
    Output,
    TraceFiles,
    json_with,
    read_traces,
)
from fedatlas.files import write_text
from fedatlas.plain_text import say
from fedatlas.schema.models import validated

log = logging.getLogger(__name__)


def leaks(
    shards: Annotated[list[Path], typer.Argument(help="Files of all parties, in order.")],
    spec: ObjectiveSpecification,
    output: Output,
    recovery: Annotated[Path, typer.Option(help="Table of attacks on histories to write.")],
) -> None:
    """Tabulate what curious or colluding parties learn from a vertical method's messages."""
    from fedatlas.evaluation.comma_separated import to_csv
    from fedatlas.federations.vertical.shards import read_party_shards
    from fedatlas.schema.objectives import LinearObjective
    from fedatlas.studies.leaks import find_leaks
    from fedatlas.studies.recovery import SmallProblem, summarised, tabulate_recovery
    from fedatlas.training.solver import solve

    objective = validated(LinearObjective, spec, "--spec")
    data = read_party_shards(shards)
    rows, active = data.train, data.metadata["partition"]["active"]
    w, _ = solve(rows, objective)
    findings = find_leaks(
        objective, rows.label, 0 * rows.label, rows.features @ w, rows.parties, active
    )
    recovered = tabulate_recovery(SmallProblem.of(rows, objective))
    write_text(recovery, to_csv([row._asdict() for row in recovered]))
    findings += summarised(recovered)
    write_text(output, to_csv([asdict(finding) for finding in findings]))


def collusion(
    output: Output,
    pairs: Annotated[Path, typer.Option(help="Table of pairs of trees to write.")],
) -> None:
    """Tabulate which groups of parties unmask shares, and what Definition 4 of VFB² is worth."""
    from fedatlas.evaluation.comma_separated import to_csv
    from fedatlas.studies.leaks import tabulate_groups, tabulate_pairs

    write_text(output, to_csv([row._asdict() for row in tabulate_groups()]))
    write_text(pairs, to_csv([row._asdict() for row in tabulate_pairs()]))


def validate_parties(
    shards: Annotated[list[Path], typer.Argument(help="Folders of partitions, one for each q.")],
    spec: Annotated[Any, json_with("objective", "network", "step_size", "rounds", "updates")],
    output: Output,
    curves: Annotated[Path, typer.Option(help="What was measured, as JSON, to write.")],
    times: Annotated[
        Path, typer.Option(help="Single times of the last q, asynchronous, as CSV, to write.")
    ],
) -> None:
    """Compare the simulated network with processes: times, staleness, speed-up."""
    from fedatlas.evaluation.comma_separated import to_csv
    from fedatlas.files import canonical_json
    from fedatlas.schema.studies import PartyValidation
    from fedatlas.studies.validation import compare_backends, single_times, tabulate

    study = validated(PartyValidation, spec, "--spec")
    pairs = compare_backends(shards, study)
    write_text(output, to_csv([asdict(row) for row in tabulate(pairs)]))
    write_text(curves, canonical_json([asdict(pair) for pair in pairs]))
    last = max((pair for pair in pairs if not pair.synchronous), key=lambda pair: pair.parties)
    write_text(times, to_csv(single_times(last)))


def landscape(
    shard: Annotated[Path, typer.Argument(help="Shard file of all clients.")],
    spec: Annotated[Any, json_with("objective", "landscape")],
    output: Output,
) -> None:
    """Compute the loss surface of a network with two parameters and its stationary points."""
    from fedatlas.evaluation.study_files import describe_point, write_surface
    from fedatlas.federations.client_shards import read_shard
    from fedatlas.schema.objectives import AucObjective
    from fedatlas.schema.studies import Landscape
    from fedatlas.studies.landscape import AucSurface, explore

    objective = validated(AucObjective, spec["objective"], "--spec: objective")
    region = validated(Landscape, spec["landscape"], "--spec: landscape")
    surface = explore(AucSurface(read_shard(shard), objective), region)
    write_surface(surface, output)
    for point in surface.stationary_points:
        log.info("%s", describe_point(point))


def budgets(
    spec: Annotated[Any, json_with("budgets", "runs")],
    output: Output,
    conditions: Annotated[Path, typer.Option(help="Table of theorems' conditions to write.")],
) -> None:
    """Compute what runs spend of privacy, and list theorems' conditions; nothing is trained."""
    from fedatlas.evaluation.comma_separated import to_csv
    from fedatlas.schema.studies import BudgetStudy
    from fedatlas.store.netcdf import write_netcdf
    from fedatlas.studies.budgets import CONDITION_COLUMNS, compute_budgets, tabulate_conditions

    runs, study = _study(spec, "budgets", BudgetStudy)
    write_netcdf(compute_budgets(runs, study), output)
    write_text(conditions, to_csv(tabulate_conditions(runs, study), CONDITION_COLUMNS))


def attacks(spec: Annotated[Any, json_with("privacy_audit", "runs")], output: Output) -> None:
    """Hold what runs claim of privacy against pairs of data sets of a tiny problem."""
    from fedatlas.evaluation.comma_separated import to_csv
    from fedatlas.schema.studies import PrivacyAudit
    from fedatlas.studies.privacy_audit import tabulate_pairs

    runs, study = _study(spec, "privacy_audit", PrivacyAudit)
    write_text(output, to_csv(tabulate_pairs(runs, study)))


def theory(
    traces: TraceFiles,
    output: Output,
    shards: Annotated[Path, typer.Option(help="Folder of all shards.")] = Path("results/shards"),
) -> None:
    """Tabulate which theorems cover runs, by how much steps exceed them, and what they promise.

    Traces are files below results/experiments/EXPERIMENT/traces. The table is CSV; each row names
    its theorem.
    """
    from fedatlas.evaluation.comma_separated import to_csv
    from fedatlas.evaluation.theory_table import COLUMNS
    from fedatlas.studies.theory import tabulate_theory

    rows = tabulate_theory(read_traces(traces), shards)
    write_text(output, to_csv(rows, COLUMNS))
    if not rows:
        say(f"{output}: no theorem is known here of the methods of these runs")


def _study(spec: dict[str, Any], key: str, model: Any) -> tuple[list[Any], Any]:
    """The runs of a specification, and the study under its key."""
    from fedatlas.schema.runs import RunSpec

    runs = [validated(RunSpec, run, "--spec: runs") for run in spec["runs"]]
    return runs, validated(model, spec[key], f"--spec: {key}")


COMMANDS = (leaks, collusion, validate_parties, landscape, budgets, attacks, theory)
