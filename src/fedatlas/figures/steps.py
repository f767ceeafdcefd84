"""Steps that draw; see `fedatlas.steps`. Drawings are .svg or .png, by their names."""

from pathlib import Path

from fedatlas.figures.style import draw
from fedatlas.schema.claims import Claim
from fedatlas.schema.figures import Figure
from fedatlas.schema.graphs import Graphs


def draw_figure(
    title: str,
    figure: Figure,
    runs: dict[str, str],
    traces: list[Path],
    selection: Path,
    output: list[Path],
    claims: list[Claim] = [],  # noqa: B006
) -> None:
    """Draw an experiment's figure. runs: with titles. claims: whose slopes it has."""
    from fedatlas.evaluation.selection import choices
    from fedatlas.evaluation.steps import read_runs
    from fedatlas.figures.draw import compose
    from fedatlas.figures.style import Shown
    from fedatlas.schema.models import read_json, validated
    from fedatlas.schema.runs import Selection

    record = read_json(selection)
    rule = validated(Selection, record.get("rule"), f"{selection}: key 'rule'")
    shown = Shown(figure, runs, read_runs(traces), choices(record), rule, tuple(claims))
    draw(output, compose, title, shown)


def draw_trees(parties: int, output: list[Path]) -> None:
    """Draw the two trees along which parties sum."""
    from fedatlas.federations.vertical.secure_sum import two_trees
    from fedatlas.figures.trees import compose

    titles = ("masked shares, to party 0", "masks, to party 0")
    draw(output, compose, two_trees(parties), titles)


def draw_recovery(title: str, recovery: Path, output: list[Path]) -> None:
    """Draw how much histories of shares reveal against their length."""
    from fedatlas.evaluation.recovery_table import read_recovery
    from fedatlas.figures.recovery import compose

    draw(output, compose, title, read_recovery(recovery))


def draw_landscape(title: str, landscape: Path, output: list[Path]) -> None:
    """Draw a loss surface with its stationary points."""
    from fedatlas.evaluation.study_files import read_surface
    from fedatlas.figures.landscape import compose

    draw(output, compose, title, read_surface(landscape))


def draw_validation(title: str, curves: Path, output: list[Path]) -> None:
    """Draw the simulated network beside processes."""
    from fedatlas.figures.validation import compose
    from fedatlas.studies.validation import read_pairs

    draw(output, compose, title, read_pairs(curves))


def draw_budgets(title: str, runs: dict[str, str], budgets: Path, output: list[Path]) -> None:
    """Draw privacy budgets by iteration and by horizon. runs: with titles."""
    from fedatlas.evaluation.study_files import read_budgets
    from fedatlas.figures.budgets import compose

    draw(output, compose, title, runs, read_budgets(budgets))


def draw_theory(
    title: str, runs: dict[str, str], traces: list[Path], theory: Path, output: list[Path]
) -> None:
    """Draw the bounds of theorems over what runs measured. runs: with titles."""
    from fedatlas.evaluation.steps import read_runs
    from fedatlas.evaluation.theory_table import read_theory
    from fedatlas.figures.theory import compose

    draw(output, compose, title, runs, read_runs(traces), read_theory(theory))


def draw_graphs(title: str, graphs: Graphs, agents: int, output: list[Path]) -> None:
    """Draw who sends to whom."""
    from fedatlas.figures.graphs import compose
    from fedatlas.schema.graphs import weight_matrix

    weights = {
        name: weight_matrix(graph, agents, name)
        for name, graph in (("states", graphs.states), ("trackers", graphs.trackers))
        if graph is not None
    }
    draw(output, compose, title, weights)
