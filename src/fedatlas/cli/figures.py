"""Commands: what is drawn."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fedatlas.cli.options import (
    Drawings,
    SelectionRecord,
    TraceFiles,
    json_with,
    read_traces,
)
from fedatlas.schema.models import read_json, validated


def figure(
    spec: Annotated[Any, json_with("title", "figure", "runs")],
    traces: TraceFiles,
    selection: SelectionRecord,
    output: Drawings,
) -> None:
    """Draw an experiment's figure."""
    from fedatlas.evaluation.selection import choices
    from fedatlas.figures.draw import compose
    from fedatlas.figures.style import Shown, draw
    from fedatlas.schema.claims import Claim
    from fedatlas.schema.figures import Figure
    from fedatlas.schema.runs import Selection

    declared, record = validated(Figure, spec["figure"], "--spec"), read_json(selection)
    rule = validated(Selection, record.get("rule"), f"{selection}: key 'rule'")
    claims = tuple(validated(Claim, claim, "--spec") for claim in spec.get("claims", ()))
    shown = Shown(declared, spec["runs"], read_traces(traces), choices(record), rule, claims)
    draw(output, compose, spec["title"], shown)


def trees(
    parties: Annotated[int, typer.Argument(help="Number of parties.")], output: Drawings
) -> None:
    """Draw the two trees along which parties sum."""
    from fedatlas.federations.vertical.secure_sum import two_trees
    from fedatlas.figures.style import draw
    from fedatlas.figures.trees import compose

    titles = ("masked shares, to party 0", "masks, to party 0")
    draw(output, compose, two_trees(parties), titles)


def recovery_figure(
    recovery: Annotated[Path, typer.Argument(help="Attacks on histories (.csv).", exists=True)],
    spec: Annotated[Any, json_with("title")],
    output: Drawings,
) -> None:
    """Draw how much histories of shares reveal against their length."""
    from fedatlas.evaluation.recovery_table import read_recovery
    from fedatlas.figures.recovery import compose
    from fedatlas.figures.style import draw

    draw(output, compose, spec["title"], read_recovery(recovery))


def landscape_figure(
    surface: Annotated[Path, typer.Argument(help="Landscape (.json).", exists=True)],
    spec: Annotated[Any, json_with("title")],
    output: Drawings,
) -> None:
    """Draw a loss surface with its stationary points."""
    from fedatlas.evaluation.study_files import read_surface
    from fedatlas.figures.landscape import compose
    from fedatlas.figures.style import draw

    draw(output, compose, spec["title"], read_surface(surface))


def validation_figure(
    curves: Annotated[Path, typer.Argument(help="Curves of validate-parties.", exists=True)],
    spec: Annotated[Any, json_with("title")],
    output: Drawings,
) -> None:
    """Draw the simulated network beside processes."""
    from fedatlas.figures.style import draw
    from fedatlas.figures.validation import compose
    from fedatlas.studies.validation import read_pairs

    draw(output, compose, spec["title"], read_pairs(curves))


def budgets_figure(
    budgets: Annotated[Path, typer.Argument(help="Budgets (.nc).", exists=True)],
    spec: Annotated[Any, json_with("title", "runs")],
    output: Drawings,
) -> None:
    """Draw privacy budgets by iteration and by horizon."""
    from fedatlas.evaluation.study_files import read_budgets
    from fedatlas.figures.budgets import compose
    from fedatlas.figures.style import draw

    draw(output, compose, spec["title"], spec["runs"], read_budgets(budgets))


def theory_figure(
    traces: TraceFiles,
    theory: Annotated[Path, typer.Option(help="Table of theorems (.csv).", exists=True)],
    spec: Annotated[Any, json_with("title", "runs")],
    output: Drawings,
) -> None:
    """Draw the bounds of theorems over what runs measured."""
    from fedatlas.evaluation.theory_table import read_theory
    from fedatlas.figures.style import draw
    from fedatlas.figures.theory import compose

    draw(output, compose, spec["title"], spec["runs"], read_traces(traces), read_theory(theory))


def graphs(spec: Annotated[Any, json_with("title", "graphs", "agents")], output: Drawings) -> None:
    """Draw who sends to whom."""
    from fedatlas.figures.graphs import compose
    from fedatlas.figures.style import draw
    from fedatlas.schema.graphs import Graphs, weight_matrix

    pair = validated(Graphs, spec["graphs"], "--spec: graphs")
    weights = {
        name: weight_matrix(graph, spec["agents"], name)
        for name, graph in (("states", pair.states), ("trackers", pair.trackers))
        if graph is not None
    }
    draw(output, compose, spec["title"], weights)


COMMANDS = (
    figure,
    trees,
    recovery_figure,
    landscape_figure,
    validation_figure,
    budgets_figure,
    theory_figure,
    graphs,
)
