"""Commands: what is drawn."""

from pathlib import Path
from typing import Annotated

import typer

from fedatlas.cli.options import (
    Drawings,
    SelectionRecord,
    Specification,
    TraceFiles,
    json_with,
    members,
    read_choices,
    read_traces,
)
from fedatlas.schema.models import validated


def figure(
    spec: Specification, traces: TraceFiles, selection: SelectionRecord, output: Drawings
) -> None:
    """Draw an experiment's figure."""
    from fedatlas.figures.draw import draw
    from fedatlas.schema.figures import Figure

    content = members(spec, "title", "figure", "runs")
    draw(
        content["title"],
        validated(Figure, content["figure"], "--spec"),
        content["runs"],
        read_traces(traces),
        read_choices(selection),
        output,
    )


def trees(
    parties: Annotated[int, typer.Argument(help="Number of parties.")], output: Drawings
) -> None:
    """Draw the two trees along which parties sum."""
    from fedatlas.federations.vertical.secure_sum import two_trees
    from fedatlas.figures.trees import draw_trees

    titles = ("masked shares, to party 0", "masks, to party 0")
    draw_trees(two_trees(parties), titles, output)


def landscape_figure(
    surface: Annotated[Path, typer.Argument(help="Landscape (.json).", exists=True)],
    title: Annotated[str, typer.Option(help="Title of the figure.")],
    output: Drawings,
) -> None:
    """Draw a loss surface with its stationary points."""
    from fedatlas.evaluation.stationary_points import read_surface
    from fedatlas.figures.landscape import draw_landscape

    draw_landscape(title, read_surface(surface), output)


def budgets_figure(
    budgets: Annotated[Path, typer.Argument(help="Budgets (.nc).", exists=True)],
    spec: Annotated[str, json_with("title and runs")],
    output: Drawings,
) -> None:
    """Draw privacy budgets by iteration and by horizon."""
    from fedatlas.evaluation.budgets import read_budgets
    from fedatlas.figures.budgets import draw_budgets

    content = members(spec, "title", "runs")
    draw_budgets(content["title"], content["runs"], read_budgets(budgets), output)


def graphs(spec: Annotated[str, json_with("title, graphs and agents")], output: Drawings) -> None:
    """Draw who sends to whom."""
    from fedatlas.figures.graphs import draw_graphs
    from fedatlas.schema.graphs import Graphs, weight_matrix

    content = members(spec, "title", "graphs", "agents")
    pair = validated(Graphs, content["graphs"], "--spec: graphs")
    weights = {
        name: weight_matrix(graph, content["agents"], name)
        for name, graph in (("states", pair.states), ("trackers", pair.trackers))
        if graph is not None
    }
    draw_graphs(content["title"], weights, output)


COMMANDS = (figure, trees, landscape_figure, budgets_figure, graphs)
