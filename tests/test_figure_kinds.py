"""Figures of sensitivity, of slopes and of trees: what is drawn, and what legends say of it."""

import os
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure as Canvas
from pydantic import ValidationError

import reference
from experiment_files import plan_of_all
from fedatlas.algorithms import algorithm_class
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.selection import choices, select
from fedatlas.federations.vertical.secure_sum import two_trees
from fedatlas.figures.colours import METHODS
from fedatlas.figures.graphs import compose_trees
from fedatlas.figures.style import Shown
from fedatlas.plan import results
from fedatlas.schema.claims import Claim
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.runs import Selection
from figure_factory import TITLES, figure_of, is_drawn, legend, legend_of, shown
from trace_factory import auroc_trace, linear_trace, make_trace

CONFIG = Path(__file__).parents[1] / "config"
EXPERIMENTS = plan_of_all().experiments
NAN = np.nan
LOCAL = (1e-4, 1e-2)
STEPS = (0.1, 0.03)
ROUNDS = 200
SEEDS = np.array([0.9, 1.0, 1.2])
WHOLE = Selection(window=1)
SENSITIVITY = {"kind": "sensitivity", "hyper_parameter": "local_step_size"}


def level(early: Any, late: Any = None, **options: Any):
    """Gradient norms of three seeds: constant over the first 100 rounds, then another constant.

    NaN diverges; a start of 1 is far above.
    """
    ends = np.broadcast_to(early if late is None else late, 3) * SEEDS
    values = np.repeat((np.broadcast_to(early, 3) * SEEDS)[:, None], 21, axis=1)
    values[:, 11:] = ends[:, None]
    return make_trace(values, **options)


def point(step: float, early: Any, late: Any = None, **hyper_parameters: Any):
    name = "_".join(f"{key}-{value}" for key, value in hyper_parameters.items())
    return level(
        early,
        late,
        step=step,
        point=f"step-{step}_{name}",
        hyper_parameters={"effective_step": step, **hyper_parameters},
    )


def grid() -> dict[str, Any]:
    """FedPAGE is best at the small local step, SCAFFOLD by option I at the large one."""
    page = [
        point(s, 0.2 + 20 * eta, s * (1 + eta), local_step_size=eta) for s in STEPS for eta in LOCAL
    ]
    scaffold = [
        point(s, 0.3, s * (1.5 - eta + extra), local_step_size=eta, option=option)
        for s in STEPS
        for eta in LOCAL
        for option, extra in (("I", 0.0), ("II", 0.2))
    ]
    return by_point(page=page, scaffold=scaffold)


def by_point(**runs: list[Any]) -> dict[str, Any]:
    return {run: {trace.attrs["point"]: trace for trace in traces} for run, traces in runs.items()}


def composed(traces: Any, rule: Selection = WHOLE, **figure: Any) -> Canvas:
    declared = figure_of(**SENSITIVITY | figure)
    titles = {run: TITLES.get(run, run) for run in traces}
    return declared.compose("A title", Shown(titles, traces, choices(select(traces, rule)), rule))


def curves(place: Axes) -> dict[tuple[str, str], np.ndarray]:
    """Medians by colour and marker."""
    return {
        (to_hex(line.get_color()), str(line.get_marker())): line.get_xydata()
        for line in place.lines
        if line.get_linestyle() != "None" and line.get_marker() != "None"
    }


def rings(place: Axes) -> dict[str, list[float]]:
    """Where a ring is, by colour."""
    found = [line for line in place.lines if line.get_markerfacecolor() == "none"]
    return {to_hex(line.get_markeredgecolor()): line.get_xydata()[0].tolist() for line in found}


def crosses(place: Axes, marker: str) -> list[tuple[float, float]]:
    """Values where seeds were lost, and their heights on the panel."""
    found = [line.get_xydata() for line in place.lines if line.get_marker() == marker]
    return [tuple(at) for line in found for at in line.tolist()]


PAGE, OPTION_I, OPTION_II = ("#d55e00", "o"), ("#753400", "o"), ("#753400", "s")
CASES: dict[str, tuple[Any, Selection, dict[str, Any]]] = {
    "rows by step": (grid(), WHOLE, {"rows": "effective_step_size"}),
    "one row": (grid(), Selection(), {}),
    "a row for each run": (
        grid(),
        WHOLE,
        {"rows": "run", "hyper_parameter": "effective_step_size", "bounds": {"page": {"T": 0.01}}},
    ),
    "lost": (by_point(page=[point(0.1, NAN, local_step_size=eta) for eta in LOCAL]), WHOLE, {}),
    "one point": (by_point(page=[point(0.1, 0.1, local_step_size=0.5)]), WHOLE, {}),
    "AUROC": (
        by_point(
            page=[
                auroc_trace(
                    [[0.5, 0.9], [0.5, 0.95]], point=f"{eta}", hyper_parameters={"eta": eta}
                )
                for eta in (1, 2)
            ]
        ),
        Selection(measurement="test_auroc"),
        {"measurement": "test_auroc", "hyper_parameter": "eta"},
    ),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", CASES)
def test_it_draws(case: str, tmp_path: Path):
    traces, rule, figure = CASES[case]
    is_drawn([tmp_path / "figure.png"], lambda: composed(traces, rule, **figure))


def test_columns_are_early_by_the_rule_and_late():
    page = by_point(page=[point(0.1, 0.3, 0.003, local_step_size=eta) for eta in LOCAL])
    early, scored, late = composed(page).axes
    assert [place.get_title() for place in (early, scored, late)] == [
        "first tenth of the rounds",
        "all rounds,\nby which points are chosen",
        "last tenth of the rounds",
    ]
    heights = [curves(place)[PAGE][:, 1] for place in (early, scored, late)]
    # 100 of 200 rounds at 0.3, 90 at 0.003 and 10 between: half of the levels' sum of -0.52 - 2.52.
    middle = 10 ** np.mean(np.log10([0.3, 0.003]))
    np.testing.assert_allclose(heights[0], 0.3)
    np.testing.assert_allclose(heights[1], middle * 10 ** (5 * 2 / ROUNDS), rtol=1e-6)
    np.testing.assert_allclose(heights[2], 0.003)
    early, scored = composed(page, Selection(window=0.1)).axes
    assert scored.get_title() == "last 10 % of the rounds,\nby which points are chosen"
    np.testing.assert_allclose(curves(scored)[PAGE][:, 1], 0.003)
    assert len(composed(page, Selection(window=0.05)).axes) == 2


def test_bars_reach_over_the_seeds_that_are_left():
    traces = by_point(page=[point(0.1, [0.1, 0.1, NAN], local_step_size=eta) for eta in LOCAL])
    place = composed(traces).axes[0]
    (bars,) = (bar.get_segments() for bar in place.collections)
    np.testing.assert_allclose([bar[:, 1] for bar in bars], [[0.09, 0.1]] * 2)
    # The lost seed counts as the worst, so the median is the worse of the two others.
    np.testing.assert_allclose(curves(place)[PAGE], [[eta, 0.1] for eta in LOCAL])


def test_what_else_varies_has_a_line_of_its_own_in_the_colour_of_its_run():
    for place in composed(grid(), rows="effective_step_size").axes:
        assert {*curves(place)} == {PAGE, OPTION_I, OPTION_II}
        for line in curves(place).values():
            np.testing.assert_array_equal(line[:, 0], LOCAL)
        assert place.get_xscale() == place.get_yscale() == "log"
    upper, lower = (composed(grid(), rows="effective_step_size").axes[number] for number in (2, 5))
    assert legend(upper) == [
        "FedPAGE",
        "SCAFFOLD, option I",
        "SCAFFOLD, option II",
        "chosen of a run",
    ]
    assert legend(lower) == legend(upper)
    one_row = composed(grid()).axes[-1]
    assert legend(one_row)[:3] == [
        "FedPAGE, effective step 0.1",
        "FedPAGE, effective step 0.03",
        "SCAFFOLD, effective step 0.1, option I",
    ]


def test_rows_have_the_step_of_their_points():
    axes = np.array(composed(grid(), rows="effective_step_size").axes).reshape(-1, 3)
    assert [row[0].get_ylabel().partition(":")[0] for row in axes] == [
        "effective step 0.1",
        "effective step 0.03",
    ]
    for row, step in zip(axes, STEPS, strict=True):
        # By the last tenth SCAFFOLD is at 1.5 steps less the local one.
        np.testing.assert_allclose(
            curves(row[2])[OPTION_I][:, 1], [step * (1.5 - eta) for eta in LOCAL]
        )
    assert axes[0, 0].get_xlabel() == ""
    assert axes[-1, 0].get_xlabel() == "local step size"


def test_the_best_of_every_row_is_ringed_as_runs_that_state_the_step_take_it():
    axes = np.array(composed(grid(), rows="effective_step_size").axes).reshape(-1, 3)
    for row in axes:
        for place in row:
            ringed = rings(place)
            assert {colour: at[0] for colour, at in ringed.items()} == {
                PAGE[0]: LOCAL[0],
                OPTION_I[0]: LOCAL[1],
            }
            by_line = curves(place)
            assert ringed[PAGE[0]][1] == by_line[PAGE][0, 1]
            assert ringed[OPTION_I[0]][1] == by_line[OPTION_I][1, 1]
    # In one row the choice of the run, at the smaller step, is the only one.
    assert rings(composed(grid()).axes[1])[PAGE[0]][0] == LOCAL[0]


def test_the_ring_is_where_the_record_says_even_if_these_seeds_say_otherwise():
    traces = grid()
    record = select(traces, WHOLE)
    # Tuning seeds liked the large local step.
    for candidate in record["runs"]["page"]["candidates"]:
        candidate["score"] = -candidate["score"]
    record["runs"]["page"]["selected"] = [*traces["page"]][1]
    figure = figure_of(**SENSITIVITY, rows="effective_step_size")
    canvas = figure.compose("A title", Shown(TITLES, traces, choices(record), WHOLE))
    assert [rings(place)[PAGE[0]][0] for place in canvas.axes] == [LOCAL[1]] * 6


def test_a_run_that_takes_the_point_of_another_is_ringed_there():
    rule = Selection(window=1, shared={"page": "other"})
    runs = {
        "other": [point(0.1, 0.1, 0.1 - eta, local_step_size=eta) for eta in LOCAL],
        "page": [point(0.1, 0.1, 0.1 + eta, local_step_size=eta) for eta in LOCAL],
    }
    place = composed(by_point(**runs), rule).axes[1]
    assert [at[0] for at in rings(place).values()] == [LOCAL[1]] * 2


def test_lost_seeds_are_crosses_on_top():
    page = [
        point(0.1, 0.1, local_step_size=1e-4),
        point(0.1, [0.1, NAN, 0.1], local_step_size=1e-3),
        point(0.1, NAN, local_step_size=1e-2),
    ]
    scaffold = [point(0.1, 0.2, local_step_size=1e-4), point(0.1, NAN, local_step_size=1e-2)]
    for place in composed(by_point(page=page, scaffold=scaffold)).axes:
        low, high = place.get_ylim()
        ((at, some),) = crosses(place, "+")
        every = crosses(place, "x")
        assert (at, [value for value, _ in every]) == (1e-3, [1e-2, 1e-2])
        # Those of two runs at one value do not hide each other, nor what is drawn below them.
        heights = sorted(height for _, height in every)
        assert 0.8 < heights[0] < heights[1] - 0.02 and some in heights and heights[1] < 1
        drawn = np.concatenate([line[:, 1] for line in curves(place).values()])
        drawn = np.log(np.nanmax(drawn) / low) / np.log(high / low)
        assert drawn < heights[0]
        assert np.isnan(curves(place)[PAGE][-1, 1])
    assert legend(place)[-3:] == ["chosen of a run", "every seed lost", "some seeds lost"]


def test_a_run_that_left_its_start_upwards_is_lost_though_its_gradient_is_small():
    values = np.full((3, 21), 1e-3)
    away = make_trace(
        values,
        objective=np.linspace([1.0] * 3, 5.0, 21).T,
        hyper_parameters={"local_step_size": 1.0},
    )
    for place in composed(by_point(page=[away])).axes:
        assert [value for value, _ in crosses(place, "x")] == [1.0]


def test_where_every_point_of_a_row_lost_seeds_none_is_ringed():
    page = [point(s, NAN if s == 0.1 else s, local_step_size=eta) for s in STEPS for eta in LOCAL]
    upper, lower = np.array(composed(by_point(page=page), rows="effective_step_size").axes).reshape(
        -1, 3
    )
    assert not any(rings(place) for place in upper)
    assert all(rings(place) for place in lower)
    assert [text.get_text() for text in upper[0].texts] == ["every seed was lost"]


def test_bounds_of_theorems_are_lines_in_every_panel_of_their_run():
    bounds = {"page": {"Theorem 4.2": 2e-6}, "scaffold": {"Theorem 4.2": 2e-6, "another": 1.0}}
    canvas = composed(grid(), rows="effective_step_size", bounds=bounds)
    for place in canvas.axes:
        upright = [line for line in place.lines if [*line.get_ydata()] == [0, 1]]
        assert [line.get_xdata()[0] for line in upright] == [2e-6, 1.0]
        left, right = place.get_xlim()
        assert left < 2e-6 and right > 1.0
    assert legend(canvas.axes[2])[3:5] == ["bound of Theorem 4.2: 2e-06", "bound of another: 1"]
    # Of one run it has that run's colour, of two neither's.
    shared, own = legend_of(canvas.axes[2]).legend_handles[3:5]
    assert to_hex(own.get_color()) == OPTION_I[0]
    assert to_hex(shared.get_color()) not in (PAGE[0], OPTION_I[0])


def test_a_row_for_each_run_tells_its_lines_by_colour():
    page, scaffold = np.array(
        composed(
            grid(), rows="run", hyper_parameter="effective_step_size", bounds={"page": {"T": 1.0}}
        ).axes
    ).reshape(-1, 3)
    assert page[0].get_ylabel().startswith("FedPAGE:")
    assert legend(page[-1])[:3] == [
        "local step size 0.0001",
        "local step size 0.01",
        "bound of T: 1",
    ]
    assert len({colour for colour, _ in curves(page[0])}) == 2
    assert "local step size 0.0001, option I" in legend(scaffold[-1])
    assert len({colour for colour, _ in curves(scaffold[0])}) == 4
    for line in curves(page[0]).values():
        np.testing.assert_array_equal(line[:, 0], sorted(STEPS))


def test_values_close_together_have_a_linear_axis():
    traces = by_point(page=[point(0.1, 0.1, momentum=value) for value in (0.0, 0.5, 0.9)])
    assert composed(traces, hyper_parameter="momentum").axes[0].get_xscale() == "linear"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("option", "'option' of run 'first' is 'I', not a number"),
        ("momentum", "run 'first' has no hyper-parameter 'momentum'; it has effective_step"),
    ],
)
def test_hyper_parameters_that_cannot_be_drawn_are_named(name, message):
    traces = by_point(page=[point(0.1, 0.1, option="I")])
    with pytest.raises(FedatlasError, match=message):
        composed(traces, hyper_parameter=name)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "fedpage-grid-fig2a",
            SENSITIVITY | {"hyper_parameter": "momentum"},
            "run 'fedpage' states no 'momentum'",
        ),
        (
            "fedpage-grid-fig2a",
            SENSITIVITY | {"measurement": "objective"},
            "shows objective, but points are chosen by gradient_norm",
        ),
        (
            "fedpage-grid-fig2a",
            SENSITIVITY | {"bounds": {"nobody": {"T": 1.0}}},
            "the figure names the run 'nobody'",
        ),
        (
            "tdcd-rates-a9a",
            {"kind": "slopes", "claims": ["no-such"]},
            "'no-such' is no claim of a slope; .*remark-5",
        ),
    ],
)
def test_figures_that_do_not_fit_their_experiment_are_refused(name, change, message):
    declared = EXPERIMENTS[name].model_dump(exclude_unset=True) | {"figure": change}
    with pytest.raises(ValidationError, match=message):
        Experiment.model_validate(declared)


# The largest number of ones in a row of the first `samples` rows, whose values are all 0 or 1.
ONES = {"a9a": 14, "w8a": 114}
#: Data set and number of clients → L of Assumption 2.2, of losses whose curvature is at most 1.
AVERAGE = {
    ("a9a", 3250): 6.6756,
    ("a9a", 325): 6.3288,
    ("a9a", 10): 6.2892,
    ("w8a", 4800): 5.8081,
    ("w8a", 480): 4.1918,
    ("w8a", 10): 2.8528,
}
THEOREMS = {
    "Theorem 4.1, corrected": lambda run, p, smoothness: reference.page_step_bound(
        smoothness, p, run.clients_per_round
    ),
    "Theorem 4.2, corrected": lambda run, p, smoothness: reference.fedpage_step_bound(
        smoothness, p, run.clients_per_round
    ),
    "Theorem 4.2": lambda run, p, smoothness: reference.fedpage_local_bound(
        smoothness, p, run.clients_per_round, run.local_steps
    ),
    "SCAFFOLD's nonconvex theorem": lambda run, p, smoothness: p ** (2 / 3) / (24 * smoothness),
}
DECLARED = {
    name: experiment
    for name, experiment in EXPERIMENTS.items()
    if experiment.figure.kind == "sensitivity" and name.startswith("fedpage-")
}


@pytest.mark.parametrize("name", DECLARED)
def test_stated_bounds_are_those_of_the_theorems(name: str):
    experiment = DECLARED[name]
    for run, bounds in experiment.figure.bounds.items():
        declared, clients = experiment.runs[run], experiment.partition_of(run).clients
        of_samples = experiment.objective.smoothness(ONES[experiment.dataset] ** 0.5)
        first = {key: values[0] for key, values in declared.grid.items()}
        method = algorithm_class(declared.algorithm)(**declared.hyper_parameters, **first)
        for theorem, value in bounds.items():
            p = method.clients_per_round / clients
            average = theorem.startswith("Theorem 4.1")
            smoothness = AVERAGE[experiment.dataset, clients] if average else of_samples
            found = THEOREMS[theorem](method, p, smoothness)
            assert value == pytest.approx(found, rel=5e-4)
            # So says the method itself, of the step that is drawn.
            problem = SimpleNamespace(
                clients=clients, smoothness=smoothness, average_smoothness=smoothness
            )
            own = {bound.theorem.split(" (")[0]: bound for bound in method.step_bounds(problem)}
            assert own[theorem].bound == pytest.approx(found)
            local = experiment.figure.hyper_parameter == "local_step_size"
            assert (own[theorem].step == "η_l") == local


@pytest.mark.parametrize("name", ONES)
def test_the_data_have_the_constants_of_stated_bounds(name: str):
    mirror = os.environ.get("FEDATLAS_MIRROR")
    path = Path(mirror or "", "libsvm", name)
    if not mirror or not path.is_file():
        pytest.skip(f"needs libsvm/{name} in the folder that FEDATLAS_MIRROR names")
    counts = [clients for of, clients in AVERAGE if of == name]
    lines = path.read_text(encoding="utf-8").splitlines()[: 10 * max(counts)]
    features = np.zeros((len(lines), 300))
    for place, line in enumerate(lines):
        for pair in line.split()[1:]:
            column, value = pair.split(":")
            features[place, int(column) - 1] = float(value)
    assert {*np.unique(features)} == {0.0, 1.0}
    assert features.sum(axis=1).max() == ONES[name]
    for clients in counts:
        # A client's gradient changes by at most ‖A_i‖ ‖A_i v‖/M along v; squares are averaged.
        total = np.zeros((300, 300))
        for own in np.split(features, clients):
            few = own @ own.T if len(own) < 300 else own.T @ own
            scale = np.linalg.eigvalsh(few)[-1] / len(own) ** 2 / clients
            total += scale * (own.T @ own)
        found = np.linalg.eigvalsh(total)[-1] ** 0.5
        assert AVERAGE[name, clients] == pytest.approx(found, rel=1e-4)


def test_every_grid_of_fedpage_shows_its_sensitivity():
    grids = {name for name in EXPERIMENTS if name.startswith("fedpage-grid-")}
    assert grids == {*DECLARED}
    # Of the convex objective Theorem 5.2 names no constant.
    without = {name for name in grids if not DECLARED[name].figure.bounds}
    assert without == {"fedpage-grid-convex-a9a"}


def test_methods_that_an_experiment_compares_have_colours_of_their_own():
    for name, experiment in EXPERIMENTS.items():
        methods = {run.algorithm for run in experiment.runs.values()}
        own = [METHODS[method] for method in methods if method in METHODS]
        assert len(own) == len({*own}), name


# Slopes.

SIZES = (16, 64, 256)


def errors(name: str, power: float, lost: int = 0) -> dict[str, Any]:
    """Runs of 16, 64 and 256 rounds whose squared gradient norms are R^power all along."""
    found = {}
    for rounds in SIZES:
        values = np.repeat(SEEDS[:, None] * rounds ** (power / 2), 5, 1)
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
    cells = {name: {"series": [f"{name}-r{rounds}" for rounds in SIZES]} for name in names}
    if len(names) == 1:
        return claim("rounds", shared | cells[names[0]])
    return claim("rounds", {"kind": "region", "test": shared, "cells": cells})


def sloping(traces: dict[str, Any], *claims: Claim) -> Canvas:
    own = replace(shown({run: {"p": trace} for run, trace in traces.items()}), claims=claims)
    figure = figure_of(kind="slopes", claims=[one.id for one in claims])
    return figure.compose("A title", own)


def drawn_lines(axes: Axes) -> list[np.ndarray]:
    """(points, 2) of what is drawn; the claimed slope is last."""
    return [np.column_stack(line.get_data()) for line in axes.lines]


def test_a_line_is_the_mean_of_seeds_and_the_claim_is_drawn_through_its_middle():
    (axes,) = sloping(errors("q1", -0.2), of_rounds("q1")).axes
    drawn, claimed = drawn_lines(axes)
    square = np.exp(np.log(SEEDS**2).mean())
    np.testing.assert_allclose(drawn, [(r, square * r**-0.2) for r in SIZES])
    np.testing.assert_allclose(claimed[1], drawn[1])
    np.testing.assert_allclose(claimed[0, 1] / claimed[2, 1], 16**0.5)
    assert legend(axes) == ["slope −0.20 (−0.20 to −0.20)", "claimed: slope −0.50"]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_cells_are_lines_in_the_order_of_their_numbers():
    traces = errors("Q = 4", -0.4) | errors("Q = 16", -0.6)
    (axes,) = sloping(traces, of_rounds("Q = 16", "Q = 4")).axes
    assert [text.split(":")[0] for text in legend(axes)] == ["Q = 4", "Q = 16", "claimed"]


def test_lost_seeds_are_left_out_and_told():
    (axes,) = sloping(errors("q1", -0.5, lost=1), of_rounds("q1")).axes
    assert legend(axes)[0].endswith("\n1 of 3 seeds left out")
    (axes,) = sloping(errors("q1", -0.5, lost=3), of_rounds("q1")).axes
    assert legend(axes)[0] == "no seed has all"
    assert not axes.lines


def test_what_is_level_looks_level():
    (axes,) = sloping(errors("q1", -0.001), of_rounds("q1")).axes
    low, high = np.log10(axes.get_ylim())
    assert high - low >= 0.5
    assert legend(axes)[0] == "slope 0.00 (0.00 to 0.00)"


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
    (axes,) = sloping(traces, claim("times", test)).axes
    assert legend(axes) == [
        "slope −1.00 (−1.00 to −1.00)",
        "compared with: slope −0.50 (−0.50 to −0.50)",
    ]
    assert axes.get_xlabel() == "parties"


def test_each_claim_has_a_panel():
    canvas = sloping(errors("q1", -0.2), of_rounds("q1"), of_rounds("q1"), of_rounds("q1"))
    assert [axes.axison for axes in canvas.axes] == [True, True, True, False]


def test_a_figure_depends_on_the_claims_that_it_draws_and_on_their_judges():
    plan = plan_of_all()
    drawn = results.figure_spec(plan, "tdcd-rates-a9a")["claims"]
    assert drawn[0]["id"] == "remark-5"
    assert "claims" not in results.figure_spec(plan, "tdcd-fig6-fashion-mnist")
    modules = results.drawing_code(plan, "tdcd-rates-a9a")
    assert "fedatlas.evaluation.claims.slope" in modules
    assert results.drawing_code(plan, "tdcd-fig6-fashion-mnist") == [
        "fedatlas.figures.kinds.convergence"
    ]


# Trees.

SUMMED = ["masked shares", "masks"]


def nodes(axes):
    return [note for note in axes.texts if note.get_text()]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("parties", [2, 3, 16])
def test_trees_are_drawn(parties: int, tmp_path: Path):
    outputs = [tmp_path / "trees.svg", tmp_path / "trees.png"]
    is_drawn(outputs, compose_trees, two_trees(parties), SUMMED)


@pytest.mark.parametrize("parties", [2, 3, 5, 8, 16])
def test_every_party_and_every_message_is_drawn_once(parties: int):
    trees = two_trees(parties)
    canvas = compose_trees(trees, SUMMED)
    assert [axes.get_title() for axes in canvas.axes] == SUMMED
    for axes, tree in zip(canvas.axes, trees, strict=True):
        leaves = [note.get_text() for note in nodes(axes) if note.xy[1] == 0]
        assert sorted(leaves, key=int) == [str(party) for party in range(parties)]
        above = [note.get_text() for note in nodes(axes) if note.xy[1] > 0]
        assert above == [str(receiver) for receiver, _ in tree.steps]
        assert len(axes.texts) - len(nodes(axes)) == len(axes.lines) == parties - 1


@pytest.mark.parametrize("parties", [4, 7, 16, 32])
def test_no_two_nodes_touch(parties: int):
    canvas = compose_trees(two_trees(parties), SUMMED)
    FigureCanvasAgg(canvas).draw()
    for axes in canvas.axes:
        boxes = [note.get_bbox_patch().get_window_extent() for note in nodes(axes)]
        assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))


def test_lines_do_not_cross():
    """The children of a node stand side by side: what is below it fills a gapless range."""
    trees = two_trees(13)
    for axes, tree in zip(compose_trees(trees, SUMMED).axes, trees, strict=True):
        place = {int(note.get_text()): note.xy[0] for note in nodes(axes) if note.xy[1] == 0}
        for part in tree.leaf_sets():
            places = sorted(place[party] for party in part)
            assert places[-1] - places[0] == len(part) - 1
