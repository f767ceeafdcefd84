"""Figures of tuning as a cost: what lines show, against all subsets counted one by one."""

from itertools import combinations

import numpy as np
import pytest
from pydantic import ValidationError

from fedatlas.evaluation.selection import choices, select
from fedatlas.figures.style import Shown
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.runs import Selection
from figure_factory import figure_of, is_drawn
from trace_factory import make_trace

LEVELS = {"p": -3.0, "q": -1.0, "r": -2.0, "lost": np.nan}


def shown(shared: dict[str, str] | None = None) -> Shown:
    """Two runs of four points of constant level; one point diverges."""
    rule = Selection(shared=shared or {})
    traces = {
        run: {
            point: make_trace([[1.0] + [10.0 ** (level + shift)] * 20] * 3, run=run, point=point)
            for point, level in LEVELS.items()
        }
        for run, shift in (("a", 0.0), ("b", 0.5))
    }
    return Shown({"a": "Method A", "b": "Method B"}, traces, choices(select(traces, rule)), rule)


def test_lines_are_expectations_over_all_draws():
    canvas = figure_of(kind="tries").compose("A title", shown())
    (axes,) = canvas.axes
    line = axes.get_lines()[0]
    order = [-3.0, -2.0, -1.0, np.inf]
    expected = []
    for tries in range(1, 5):
        kept = [min(draw) for draw in combinations(order, tries)]
        expected.append(10 ** np.mean(kept) if np.isfinite(kept).all() else np.nan)
    assert line.get_xdata().tolist() == [1, 2, 3, 4]
    np.testing.assert_allclose(line.get_ydata(), expected, rtol=1e-9)
    assert np.isnan(expected[0]) and np.isfinite(expected[1:]).all()


def test_a_run_that_shares_a_choice_has_no_line(tmp_path):
    canvas = figure_of(kind="tries").compose("A title", shown({"b": "a"}))
    assert len(canvas.axes[0].get_lines()) == 3  # the expectation and two ends of the band
    files = [tmp_path / "figure.png", tmp_path / "figure.svg"]
    is_drawn(files, figure_of(kind="tries").compose, "A title", shown())


def test_an_experiment_without_a_grid_is_refused(experiment_without_grid: Experiment):
    with pytest.raises((ValueError, ValidationError), match="no run has a grid"):
        figure_of(kind="tries").check(experiment_without_grid)


@pytest.fixture
def experiment_without_grid() -> object:
    """All that the check looks at."""
    run = type("Run", (), {"grid": {}})()
    return type("Declared", (), {"runs": {"a": run}})()
