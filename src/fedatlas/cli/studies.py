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
from fedatlas.schema.models import validated

log = logging.getLogger(__name__)


def leaks(
    shards: Annotated[list[Path], typer.Argument(help="Files of all parties, in order.")],
    spec: ObjectiveSpecification,
    output: Output,
) -> None:
    """Tabulate what curious or colluding parties learn from a vertical method's messages."""
    from fedatlas.evaluation.comma_separated import to_csv
    from fedatlas.federations.vertical.shards import read_party_shards
    from fedatlas.schema.objectives import LinearObjective
    from fedatlas.studies.leaks import find_leaks
    from fedatlas.training.solver import solve

    objective = validated(LinearObjective, spec, "--spec")
    data = read_party_shards(shards)
    rows, active = data.train, data.metadata["partition"]["active"]
    w, _ = solve(rows, objective)
    findings = find_leaks(
        objective, rows.label, 0 * rows.label, rows.features @ w, rows.parties, active
    )
    write_text(output, to_csv([asdict(finding) for finding in findings]))


def landscape(
    shard: Annotated[Path, typer.Argument(help="Shard file of all clients.")],
    spec: Annotated[Any, json_with("objective", "landscape")],
    output: Output,
) -> None:
    """Compute the loss surface of a network with two parameters and its stationary points."""
    from fedatlas.evaluation.stationary_points import described, write_surface
    from fedatlas.federations.client_shards import read_shard
    from fedatlas.schema.objectives import AucObjective
    from fedatlas.schema.studies import Landscape
    from fedatlas.studies.landscape import AucSurface, explore

    objective = validated(AucObjective, spec["objective"], "--spec: objective")
    region = validated(Landscape, spec["landscape"], "--spec: landscape")
    surface = explore(AucSurface(read_shard(shard), objective), region)
    write_surface(surface, output)
    for point in surface.stationary_points:
        log.info("%s", described(point))


def budgets(
    spec: Annotated[Any, json_with("budgets", "runs")],
    output: Output,
    conditions: Annotated[Path, typer.Option(help="Table of theorems' conditions to write.")],
) -> None:
    """Compute what runs spend of privacy, and list theorems' conditions; nothing is trained."""
    from fedatlas.evaluation.comma_separated import to_csv
    from fedatlas.schema.studies import BudgetStudy
    from fedatlas.studies.budgets import CONDITION_COLUMNS, compute_budgets, tabulate_conditions
    from fedatlas.traces.netcdf import write_netcdf

    runs, study = _study(spec, "budgets", BudgetStudy)
    write_netcdf(compute_budgets(runs, study), output)
    write_text(conditions, to_csv(tabulate_conditions(runs, study), CONDITION_COLUMNS))


def attacks(spec: Annotated[Any, json_with("privacy_audit", "runs")], output: Output) -> None:
    """Hold what runs claim of privacy against pairs of data sets of a tiny problem."""
    from fedatlas.evaluation.comma_separated import to_csv
    from fedatlas.schema.studies import PrivacyAudit
    from fedatlas.studies.lemma_3 import tabulate_pairs

    runs, study = _study(spec, "privacy_audit", PrivacyAudit)
    write_text(output, to_csv(tabulate_pairs(runs, study)))


def theory(
    traces: TraceFiles,
    output: Output,
    shards: Annotated[Path, typer.Option(help="Folder of all shards.")] = Path("results/shards"),
) -> None:
    """Tabulate which theorems cover runs, by how much steps exceed them, and what they promise."""
    from fedatlas.evaluation.comma_separated import to_csv
    from fedatlas.evaluation.theory_table import COLUMNS
    from fedatlas.studies.theory import tabulate_theory

    write_text(output, to_csv(tabulate_theory(read_traces(traces), shards), COLUMNS))


def _study(spec: dict[str, Any], key: str, model: Any) -> tuple[list[Any], Any]:
    """The runs of a specification, and the study under its key."""
    from fedatlas.schema.runs import RunSpec

    runs = [validated(RunSpec, run, "--spec: runs") for run in spec["runs"]]
    return runs, validated(model, spec[key], f"--spec: {key}")


COMMANDS = (leaks, landscape, budgets, attacks, theory)
