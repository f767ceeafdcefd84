"""Figures of slopes: what is drawn, what the legend says of it, and which claims have any."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from pydantic import ValidationError

from fedatlas.evaluation.selection import Choice
from fedatlas.figures.style import Shown
from fedatlas.plan import results
from fedatlas.plan.build import build_plan
from fedatlas.schema.claims import Claim
from fedatlas.schema.experiments import Experiment
from figure_factory import figure_of, legend
from trace_factory import linear_trace, make_trace

CONFIG = Path(__file__).parents[1] / "config"
ROUNDS = (16, 64, 256)
SPREAD = np.array([0.9, 1.0, 1.2])


def errors(name: str, power: float, lost: int = 0) -> dict[str, Any]:
    """Runs of 16, 64 and 256 rounds whose squared gradient norms are R^power all along."""
    found = {}
    for rounds in ROUNDS:
        values = np.repeat(SPREAD[:, None] * rounds ** (power / 2), 5, 1)
        values[:lost, 3:] = np.nan
        run = f"{name}-r{rounds}"
        found[run] = make_trace(
            values, run=run, schedule=np.linspace(0, rounds, 5).astype(int).tolist()
        )
    return found


def claim(identifier: str, test: dict[str, Any]) -> Claim:
    return Claim.model_validate(
        {"id": identifier, "source": "Remark 1", "statement": "Errors fall", "test": test}
    )


def of_rounds(*names: str) -> Claim:
    """Errors fall as 1/√R, in a cell for each name."""
    shared = {"kind": "error_scaling", "size": "rounds", "power": -0.5}
    cells = {name: {"series": [f"{name}-r{rounds}" for rounds in ROUNDS]} for name in names}
    if len(names) == 1:
        return claim("rounds", shared | cells[names[0]])
    return claim("rounds", {"kind": "region", "test": shared, "cells": cells})


def composed(traces: dict[str, Any], *claims: Claim) -> Canvas:
    points = {run: trace.attrs["point"] for run, trace in traces.items()}
    shown = Shown(
        {run: run for run in traces},
        {run: {points[run]: trace} for run, trace in traces.items()},
        {run: Choice(point, {}) for run, point in points.items()},
        claims=claims,
    )
    figure = figure_of(kind="slopes", claims=[one.id for one in claims])
    return figure.compose("A title", shown)


def lines(axes: Axes) -> list[np.ndarray]:
    """(points, 2) of what is drawn; the claimed slope is last."""
    return [np.column_stack(line.get_data()) for line in axes.lines]


def test_a_line_is_the_mean_of_seeds_and_the_claim_is_drawn_through_its_middle():
    (axes,) = composed(errors("q1", -0.2), of_rounds("q1")).axes
    drawn, claimed = lines(axes)
    square = np.exp(np.log(SPREAD**2).mean())
    np.testing.assert_allclose(drawn, [(r, square * r**-0.2) for r in ROUNDS])
    np.testing.assert_allclose(claimed[1], drawn[1])
    np.testing.assert_allclose(claimed[0, 1] / claimed[2, 1], 16**0.5)
    assert legend(axes) == ["slope −0.20\n(−0.20 to −0.20)", "claimed: slope −0.50"]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_cells_are_lines_in_the_order_of_their_numbers():
    traces = errors("Q = 4", -0.4) | errors("Q = 16", -0.6)
    (axes,) = composed(traces, of_rounds("Q = 16", "Q = 4")).axes
    assert [text.split(":")[0] for text in legend(axes)] == ["Q = 4", "Q = 16", "claimed"]


def test_lost_seeds_are_left_out_and_told():
    (axes,) = composed(errors("q1", -0.5, lost=1), of_rounds("q1")).axes
    assert legend(axes)[0].endswith("\n1 of 3 seeds left out")
    (axes,) = composed(errors("q1", -0.5, lost=3), of_rounds("q1")).axes
    assert legend(axes)[0] == "no seed has all"
    assert not axes.lines


def test_what_is_level_looks_level():
    (axes,) = composed(errors("q1", -0.001), of_rounds("q1")).axes
    low, high = np.log10(axes.get_ylim())
    assert high - low >= 0.5
    assert legend(axes)[0] == "slope 0.00\n(0.00 to 0.00)"


def test_times_of_two_methods_are_two_lines_without_a_claimed_one():
    traces = {
        f"{name}{count}": linear_trace(
            [0.01, 0.011],
            records=401,
            run=f"{name}{count}",
            parties=count,
            seconds_per_epoch=10.0 * count**power,
        )
        for name, power in (("a", -1.0), ("b", -0.5))
        for count in (2, 4, 8)
    }
    one, other = ([f"{name}{count}" for count in (2, 4, 8)] for name in "ab")
    test = {"kind": "scaling", "series": one, "compare_with": other}
    (axes,) = composed(traces, claim("times", test)).axes
    assert legend(axes) == [
        "slope −1.00\n(−1.00 to −1.00)",
        "compared with: slope −0.50\n(−0.50 to −0.50)",
    ]
    assert axes.get_xlabel() == "parties"


def test_each_claim_has_a_panel():
    canvas = composed(errors("q1", -0.2), of_rounds("q1"), of_rounds("q1"), of_rounds("q1"))
    assert [axes.get_visible() for axes in canvas.axes] == [True, True, True, False]


def rates() -> Experiment:
    return build_plan(CONFIG).experiments["tdcd-rates-a9a"]


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"kind": "slopes", "claims": ["no-such"]}, "'no-such' is no claim of a slope; .*remark-5"),
    ],
)
def test_figures_without_slopes_are_refused(declared, message):
    whole = rates().model_dump(exclude_unset=True) | {"figure": declared}
    with pytest.raises(ValidationError, match=message):
        Experiment.model_validate(whole)


def test_a_figure_depends_on_the_claims_that_it_draws_and_on_their_judges():
    plan = build_plan(CONFIG)
    drawn = results.figure_spec(plan, "tdcd-rates-a9a")["claims"]
    assert drawn[0]["id"] == "remark-5"
    assert "claims" not in results.figure_spec(plan, "tdcd-fig6-fashion-mnist")
    modules = results.drawing_code(plan, "tdcd-rates-a9a")
    assert "fedatlas.evaluation.claims.slope" in modules
    assert results.drawing_code(plan, "tdcd-fig6-fashion-mnist") == [
        "fedatlas.figures.kinds.convergence"
    ]
