"""Figures of convergence, of speed-up and of final values: what they show, and what they say."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.colors import rgb_to_hsv, to_hex, to_rgb
from pydantic import ValidationError
from scipy import stats

from fedatlas.evaluation.selection import Effort
from fedatlas.figures.style import draw
from fedatlas.schema.figures import Figure
from fedatlas.schema.runs import Selection
from figure_factory import (
    TITLES,
    caption,
    composed,
    figure_of,
    is_drawn,
    legend,
    legend_of,
    medians,
    shown,
)
from test_slope_claims import runs
from trace_factory import (
    auroc_trace,
    falling_trace,
    levels_trace,
    linear_trace,
    make_trace,
    vertical_trace,
)

NAN = np.nan
STEPS = (0.1, 0.03)
VERTICAL = ["VFB²-SVRG", "VFB-SVRG", "NonF"]


def noisy(rate: float, seeds: int = 3, **options: Any):
    random = np.random.default_rng(7)
    values = np.maximum(rate ** np.arange(31), 1e-3) * 10 ** random.normal(0, 0.1, (seeds, 31))
    values[:, 0] = 1
    return make_trace(values, **options)


def by_step():
    full = np.floor(np.arange(31) / 8) + 1
    return {
        "page": {f"p{s}": noisy(0.6, step=s, full_participations=full) for s in STEPS},
        "avg": {f"p{s}": noisy(0.8, step=s) for s in STEPS},
    }


def rising(*ends: float, first: float = 0.9, **options: Any):
    """Rounds 0 to 200: a constant's AUROC, one of 0.7, `first` by round 20, evenly to the ends."""
    values = np.linspace(np.full(len(ends), first), ends, 19).T
    start = np.full((len(ends), 2), [0.5, 0.7])
    return auroc_trace(np.hstack([start, values]), **options)


def by_partition():
    return {
        f"{run}-{clients}": {
            f"p{step}": noisy(0.7, step=step, clients=clients, cost_scale=clients) for step in STEPS
        }
        for run in ("page", "avg")
        for clients in (1000, 10)
    }


def grid_of(canvas) -> np.ndarray:
    return np.array(canvas.axes).reshape(-1, 3)


ACCURACY = np.linspace([0.5] * 5, [0.80, 0.81, 0.82, 0.83, 0.84], 41).T


def traces() -> dict[str, Any]:
    made = {
        "async": linear_trace([0.1] * 5, test_accuracy=ACCURACY),
        "sync": linear_trace([0.1] * 5, seconds_per_epoch=2.0),
        "pooled": linear_trace([0.4] * 5),
    }
    return {run: {"p": trace} for run, trace in made.items()}


def lost() -> dict[str, Any]:
    values = np.full((3, 41), NAN)
    return {"async": {"p": vertical_trace(values, test_accuracy=values)}}


def speed_ups(**more: Any) -> tuple[dict[str, Any], Figure]:
    fast, slow = runs("a", -1.0, spread=0), runs("b", -0.5, spread=0)
    figure = figure_of(
        kind="scaling",
        measurement="suboptimality",
        groups={"asynchronous": tuple(fast), "synchronous": tuple(slow)},
        dashed=dict(zip(slow, fast, strict=True)),
        **more,
    )
    return {run: {"p": trace} for run, trace in (fast | slow).items()}, figure


PUBLISHED = {"async": 0.9382, "sync": 0.9366}


def aurocs(*ends: float, spread: float = 0.001) -> dict[str, Any]:
    """Runs of five seeds about the given ends."""
    seeds = spread * np.array([-1, -0.5, 0, 0.5, 1])
    return {
        run: {"p": auroc_trace(np.stack([np.full(5, 0.5), end + seeds], axis=1))}
        for run, end in zip(("async", "sync", "pooled"), ends, strict=False)
    }


def final_auroc(**published: float) -> Figure:
    return figure_of(kind="final", measurement="test_auroc", published=published)


TIME = figure_of(
    measurement="suboptimality",
    costs=("simulated_time", "update_epoch"),
    points="selected",
    dashed={"sync": "async"},
)
HORIZONTAL: dict[str, tuple[Any, ...]] = {
    "rows by step": (by_step(), figure_of(rows="effective_step_size")),
    "rows by partition, selected": (
        by_partition(),
        figure_of(rows="partition", points="selected"),
        {run: TITLES[run.split("-")[0]] for run in by_partition()},
    ),
    "all points in one row": (by_step(),),
    "accuracy": (by_step(), figure_of(measurement="train_accuracy")),
    "AUROC": (
        {"page": {"p": rising(0.94, 0.95)}, "avg": {"p": rising(0.92, 0.93, cost_scale=2)}},
        figure_of(measurement="test_auroc"),
    ),
    "min-max objective": (
        {"page": {"p": rising(0.94, 0.95)}},
        figure_of(measurement="min_max_objective"),
    ),
    "AUROC, all diverged": (
        {"page": {"p": auroc_trace([[NAN, NAN]])}},
        figure_of(measurement="test_auroc"),
    ),
    "one run diverged": (
        {"page": {"p": levels_trace([NAN, NAN])}, "avg": {"p": falling_trace([0.5, 0.6])}},
    ),
    "all diverged": ({"page": {"p": levels_trace([NAN, NAN])}},),
    "one seed": ({"page": {"p": falling_trace([0.5])}},),
    "zeros": ({"page": {"p": make_trace([[1.0, 0.1, 0.0, 0.0], [1.0, 0.2, 0.1, 0.0]])}},),
}
CASES: dict[str, tuple[Any, ...]] = HORIZONTAL | {
    "time and epochs": (traces(), TIME),
    "one column": (traces(), figure_of(measurement="objective", costs=("update_epoch",))),
    "parties": (
        traces(),
        figure_of(measurement="test_accuracy", costs=("epoch", "bytes")),
    ),
    "lost objective": (lost(), figure_of(measurement="objective", costs=("simulated_time",))),
    "scaling": speed_ups(),
    "scaling without an end": speed_ups(target=1e-9),
    "final": (
        traces(),
        figure_of(kind="final", measurement="test_accuracy", published={"sync": 0.8}),
    ),
    "final, one seed": ({"async": {"p": linear_trace([0.1])}}, figure_of(kind="final")),
    "final, lost": (lost(), figure_of(kind="final", measurement="test_accuracy")),
    "final, AUROC": (aurocs(0.937, 0.9375, 0.938), final_auroc(**PUBLISHED)),
    "final, min-max": (aurocs(0.9, 0.6), figure_of(kind="final", measurement="min_max_objective")),
    "final, levels": (traces(), figure_of(kind="final", measurement="suboptimality")),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", CASES)
def test_it_draws(case: str, tmp_path: Path):
    is_drawn([tmp_path / "figure.png"], composed, *CASES[case])


def test_equal_input_gives_equal_svg(tmp_path: Path):
    paths = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for path in paths:
        draw([path], composed, *CASES["accuracy"])
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert paths[0].read_text(encoding="utf-8").rstrip().endswith("</svg>")


@pytest.mark.parametrize("kind", ["convergence", "final"])
def test_words_are_drawn_as_they_are(tmp_path, kind):
    words = "costs $5 and \\frac{ or $6 \x1b[31m <b>"
    (traces,) = CASES["one seed"]
    outputs = [tmp_path / "figure.svg", tmp_path / "figure.png"]
    draw(outputs, composed, traces, figure_of(kind=kind), dict.fromkeys(TITLES, words), words)
    content = ElementTree.parse(tmp_path / "figure.svg")
    assert content.getroot().tag.endswith("svg")
    written = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    assert "\\frac{ or $6" in written and "<b>" not in written


def test_labels_and_title_say_what_is_shown():
    axes = grid_of(composed(by_step(), figure_of(rows="effective_step_size")))
    assert [place.get_xlabel() for place in axes[-1]] == [
        "communication rounds",
        "bytes communicated",
        "per-sample gradients",
    ]
    assert [row[0].get_title(loc="left") for row in axes] == [
        f"effective step {step}" for step in ("0.1", "0.03")
    ]
    assert {row[0].get_ylabel() for row in axes} == {"norm of the full gradient ‖∇f(x)‖"}
    assert {place.get_yscale() for place in axes.flat} == {"log"}
    rounds, sent = (place.xaxis.get_major_formatter() for place in axes[0, :2])
    assert (rounds(2500), sent(2_500_000)) == ("2.5k", "2.5 MB")
    canvas = composed({"page": {"p": falling_trace([0.5])}}, title="Alone")
    assert (canvas.get_suptitle(), caption(canvas)) == ("Alone", "One seed.")
    assert caption(composed(by_step())) == (
        "Lines: median, bands: range of 3 seeds. "
        "Wider lines lie below lines that coincide with them."
    )


def test_panels_of_a_group_of_many_curves_are_numbered():
    named = {"algorithm_title": "page"}
    points = {
        f"p{number}": falling_trace([0.5 + number / 50] * 3).assign_attrs(named)
        for number in range(9)
    }
    rows = grid_of(composed({"page": points}, figure_of(rows="algorithm", points="all")))
    assert [row[0].get_title(loc="left") for row in rows] == ["page (1 of 2)", "page (2 of 2)"]


def test_auroc_is_not_squeezed_by_its_start():
    traces = {"page": {"p": rising(0.94, 0.96)}, "avg": {"p": rising(0.93, 0.95, first=0.91)}}
    canvas = composed(traces, figure_of(measurement="test_auroc"))
    axes = grid_of(canvas)
    for place in axes.flat:
        assert place.get_yscale() == "linear"
        # From 0.9 after the first tenth of the rounds to the best seed's end, and a twentieth more.
        assert place.get_ylim() == pytest.approx((0.897, 0.963))
        assert place.yaxis.get_major_formatter().get_useOffset() is False
    assert axes[0, 0].get_ylabel() == "area under the ROC curve on the\ntest samples"
    assert "Curves start below the axis of area under the ROC curve" in caption(canvas)
    low, high = medians(axes[0, 0]).values()
    assert {low[0, 1], high[0, 1]} == {0.5}  # drawn from its start on


def test_a_cheap_run_is_not_left_out_of_the_limits():
    cheap, dear = rising(0.7, 0.7, first=0.6, cost_scale=0.05), rising(0.94, 0.95)
    figure = figure_of(measurement="test_auroc", costs=("bytes",))
    (place,) = composed({"page": {"p": cheap}, "avg": {"p": dear}}, figure).axes
    assert place.get_ylim() == pytest.approx((0.5883333, 0.9672222))


def test_a_seed_that_falls_does_not_squeeze_the_others():
    """It leaves the axis, and the caption says so; two that fall are a band, and stay."""
    ends = [0.957, 0.958, 0.959, 0.96, 0.961, 0.962]
    for fallen, low in ((1, 0.89), (2, 0.2)):
        trace = rising(*ends)
        trace.test_auroc[:fallen, -2] = 0.2
        canvas = composed({"page": {"p": trace}}, figure_of(measurement="test_auroc"))
        place = canvas.axes[0]
        assert (place.get_ylim()[0] > low) == (fallen == 1)
        assert ("A seed leaves the axis" in caption(canvas)) == (fallen == 1)


def test_an_early_record_does_not_squeeze_a_logarithmic_axis():
    """A constant scores 0.2 and has a cost already, as tables of gradients have."""
    late = np.linspace(0.9, 0.96, 39)
    early = auroc_trace(np.r_[0.1, 0.2, late][None], cost_scale=0.05)
    figure = figure_of(measurement="test_auroc", costs=("bytes",))
    canvas = composed({"page": {"p": early}, "avg": {"p": rising(0.94, 0.95)}}, figure)
    (place,) = canvas.axes
    assert place.get_xscale() == "log"
    low, high = place.get_ylim()
    assert 0.89 < low < 0.9 and 0.96 < high < 0.97
    assert "Curves start below the axis" in caption(canvas)


def test_a_min_max_objective_is_drawn_with_its_sign():
    axes = grid_of(composed(*CASES["min-max objective"]))
    (line,) = medians(axes[0, 0]).values()
    assert axes[0, 0].get_yscale() == "linear"
    # 2 (1 − AUROC) − 0.7, of 0.5 and of the mean of 0.94 and 0.95
    assert line[[0, -1], 1] == pytest.approx([0.3, -0.59])


def test_the_legend_names_every_run_its_step_and_its_losses():
    by_row = grid_of(composed(by_step(), figure_of(rows="effective_step_size")))
    assert legend(by_row[0, -1]) == ["FedPAGE", "FedAvg", "full rounds"]
    selected = grid_of(composed(by_step(), figure_of(points="selected")))
    assert legend(selected[0, -1]) == [
        "FedPAGE, step size 0.1",
        "FedAvg, step size 0.1",
        "full rounds",
    ]
    of_runs = grid_of(composed(by_step(), figure_of(rows="run")))
    assert [row[0].get_title(loc="left") for row in of_runs] == ["FedPAGE", "FedAvg"]
    assert {*legend(selected[0, -1])} <= {*legend(of_runs[0, 0])}
    for method, points in (found := by_step()).items():
        for trace in points.values():
            trace.attrs["algorithm_title"] = method
    of_methods = grid_of(composed(found, figure_of(rows="algorithm", points="selected")))
    assert [row[0].get_title(loc="left") for row in of_methods] == ["page", "avg"]
    everything = grid_of(composed(by_step()))
    assert legend(everything[0, -1])[:2] == ["FedPAGE, step size 0.1", "FedPAGE, step size 0.03"]
    lost = {"page": {"p": levels_trace([0.1, NAN, NAN])}, "avg": {"p": falling_trace([0.5] * 3)}}
    canvas = composed(lost)
    assert legend(canvas.axes[0]) == ["FedPAGE", "FedAvg"]
    assert "2 of 3 seeds diverged: FedPAGE." in caption(canvas)
    worse = {"page": {"p": levels_trace([0.1, NAN, 1.2])}, "avg": {"p": falling_trace([0.5] * 3)}}
    told = "1 of 3 seeds diverged: FedPAGE. 1 of 3 seeds end above the start: FedPAGE."
    assert told in caption(composed(worse))


def test_legends_name_what_the_grid_states():
    """Not a step that follows from it, which may be another value of the grid."""
    declared = {"local_steps": 10, "noise": {"kind": "normal", "scale": 0.5}}

    def at(**own: Any):
        # Ten local steps of 0.03 make an effective step of 0.3.
        return noisy(0.6, step=0.3, hyper_parameters=declared | own)

    steps = {"a": at(local_step_size=0.3), "b": at(local_step_size=0.03)}
    noises = {"a": at(noise={"kind": "normal", "scale": 1.5}), "b": at()}
    stages = {"a": at(first_stage_rounds=None), "b": at(first_stage_rounds=6)}
    for points, told in (
        (steps, "local step size 0.3"),
        (noises, "noise.scale 1.5"),
        (stages, "no first stage rounds"),
    ):
        assert legend(grid_of(composed({"page": points}))[0, -1])[0] == f"FedPAGE, {told}"


def test_points_of_one_run_differ_in_their_line():
    traces = {"page": {f"p{n}": noisy(0.6, step=n + 1.0) for n in range(7)}}
    handles = legend_of(grid_of(composed(traces))[0, -1]).legend_handles
    assert len({str(handle._dash_pattern) for handle in handles}) == 7
    assert len({handle.get_color() for handle in handles}) == 1


def test_runs_of_one_title_share_a_colour_across_rows():
    axes = grid_of(composed(*CASES["rows by partition, selected"]))
    assert [row[0].get_title(loc="left") for row in axes] == ["1000 clients", "10 clients"]
    assert medians(axes[0, 0]).keys() == medians(axes[1, 0]).keys()
    assert len(medians(axes[0, 0])) == 2


def test_no_panel_hides_data():
    for case in HORIZONTAL.values():
        for place in composed(*case).axes:
            left, right = place.get_xlim()
            ends = [data[:, 0].max() for data in medians(place).values()]
            assert left == 0
            assert all(right >= end for end in ends)
            # and none squeezes it into a corner, if a round costs the same in all panels it shares
            assert not ends or max(ends) > 0.5 * right


def test_lines_are_medians_over_healthy_seeds():
    values = np.array([[1, 0.5, 0.1], [1, 0.4, 0.2], [1, 0.3, 0.3], [1, NAN, NAN]])
    place = grid_of(composed({"page": {"p": make_trace(values)}}))[0, 0]
    (line,) = medians(place).values()
    np.testing.assert_allclose(line, [[0, 1], [10, 0.4], [20, 0.2]])


def test_medians_are_taken_at_equal_cost_and_never_extrapolated():
    # The second seed pays twice per round for the same progress: at equal bytes it is behind.
    trace = falling_trace([0.5, 0.5, 0.5], records=5, cost_scale=[1, 2, 2])
    (line,) = medians(grid_of(composed({"page": {"p": trace}}))[0, 1]).values()
    bytes_spent, level = line[2]
    assert bytes_spent == 40_000
    assert level == 0.5**2
    assert line[:, 0].max() == 40_000  # where the cheapest seed ended


def test_values_below_the_accuracy_of_the_optimum_are_told_in_the_caption():
    for last, told in ((1e-12, True), (-1e-13, True), (1e-9, False)):
        below = make_trace([[1, 0.1]] * 2, suboptimality=[[1, 1e-3], [1, last]])
        for kind in ("convergence", "final"):
            figure = figure_of(kind=kind, measurement="suboptimality")
            note = "Values below 1e-10 are drawn at 1e-10: below it they are not told apart."
            assert (note in caption(composed({"page": {"p": below}}, figure))) == told


def test_the_delta_of_an_epsilon_is_told_unless_it_is_0():
    figure = figure_of(measurement="gradient_norm", costs=("round", "epsilon"))
    spent = np.linspace(0, 20, 31) * np.ones((3, 1))
    runs = {
        run: {"p": noisy(0.7, epsilon=spent, delta=spent * delta)}
        for run, delta in (("page", 1e-6), ("scaffold", 2e-6), ("avg", 0.0))
    }
    canvas = composed(runs, figure)
    told = caption(canvas)
    assert "ε at different δ above 0 is not comparable; δ in the end: 2e-05 of" in told
    assert ", 4e-05 of " in told and "; 0 of all others, which holds at every δ" in told
    one = caption(composed({run: runs[run] for run in ("page", "avg")}, figure))
    assert "comparable" not in one and "δ in the end: 2e-05 of" in one
    assert canvas.axes[1].get_xlabel() == "privacy spent, ε\n(at each run's own δ)"
    pure = composed({"avg": runs["avg"]}, figure)
    assert "δ" not in caption(pure) + pure.axes[1].get_xlabel()


@pytest.mark.parametrize(
    ("measurement", "tried", "points", "told"),
    [
        ("test_accuracy", 4, "selected", True),
        ("test_accuracy", 4, "all", False),
        ("test_accuracy", 1, "selected", False),
        ("objective", 4, "selected", False),
    ],
)
def test_a_choice_by_test_rows_is_told_in_the_caption(measurement, tried, points, told):
    own = shown({"page": {"p": noisy(0.7)}})
    chosen = {run: replace(one, effort=Effort((), tried)) for run, one in own.chosen.items()}
    own = replace(own, chosen=chosen, rule=Selection(measurement=measurement))
    said = caption(figure_of(points=points).compose("A title", own))
    assert ("points chosen by test_accuracy on test rows" in said) == told


def test_full_rounds_are_marked_where_they_are_rare():
    def marks(full):
        place = grid_of(composed({"page": {"p": noisy(0.6, full_participations=full)}}))[0]
        return "full rounds" in legend(place[-1])

    assert marks(np.floor(np.arange(31) / 8) + 1)
    assert not marks(0.0)
    assert not marks(np.arange(31.0))


def test_costs_choose_the_columns():
    time, epochs = composed(traces(), TIME).axes
    assert time.get_xlabel() == "simulated time in seconds"
    assert epochs.get_xlabel() == "epochs (dominated updates per sample)"
    assert (time.get_xlim()[1] > 40, 20 < epochs.get_xlim()[1] < 25) == (True, True)
    assert epochs.xaxis.get_major_formatter()(0.5) != "500m"
    assert time.get_yscale() == "log"


def test_a_column_shows_the_runs_that_count_its_cost():
    objective = np.linspace([1.0] * 3, 0.1, 31).T
    full = np.floor(np.arange(31) / 8)  # rare events, which are marked along the first cost
    star = falling_trace([0.5] * 3, records=31, objective=objective, full_participations=full)
    for costs in (("round", "simulated_time"), ("simulated_time", "round")):
        figure = figure_of(measurement="objective", costs=costs, points="selected")
        canvas = composed({"star": {"p": star}} | traces(), figure)
        of_cost = dict(zip(costs, canvas.axes, strict=True))
        lines, timed = medians(of_cost["round"]), medians(of_cost["simulated_time"])
        assert (len(lines), len(timed)) == (4, 3)
        (own,) = (colour for colour, line in lines.items() if line[:, 0].max() == 300)
        assert own not in timed
        assert set(legend(canvas.axes[1])) >= {"star", *VERTICAL}
        assert ("full rounds" in legend(canvas.axes[1])) == (costs[0] == "round")
        alone = composed({"star": {"p": star}}, figure).axes[costs.index("simulated_time")]
        assert [text.get_text() for text in alone.texts] == ["nothing to draw"]


def test_suboptimality_is_drawn_down_to_the_accuracy_of_the_optimum():
    place = composed({"pooled": traces()["pooled"]}, figure_of(measurement="suboptimality")).axes[0]
    assert min(line.get_ydata().min() for line in place.lines) == 1e-10


def test_a_dashed_run_has_the_colour_of_its_partner():
    handles = legend_of(composed(traces(), TIME).axes[-1]).legend_handles
    by_label = {handle.get_label(): handle for handle in handles}
    first, dashed, other = (by_label[TITLES[run]] for run in ("async", "sync", "pooled"))
    hues = [rgb_to_hsv(to_rgb(line.get_color()))[0] for line in (first, dashed)]
    assert hues[0] == pytest.approx(hues[1], abs=0.01)
    assert other.get_color() not in (first.get_color(), dashed.get_color())
    assert (first.is_dashed(), dashed.is_dashed()) == (False, True)


def test_dashes_are_seen_where_a_run_coincides_with_its_partner():
    same = linear_trace([0.1] * 5)
    made = {"async": {"p": same}, "sync": {"p": same}}
    (place,) = composed(made, TIME.model_copy(update={"costs": ("epoch",)})).axes
    solid, dashed = sorted(
        (line for line in place.lines if line.get_lw() > 1), key=lambda line: line.get_zorder()
    )
    assert (solid.is_dashed(), dashed.is_dashed()) == (False, True)
    # The one below is wide and pale, its dashes thin and dark: neither hides the other.
    assert solid.get_lw() > 2 * dashed.get_lw()
    light, dark = (rgb_to_hsv(to_rgb(line.get_color()))[2] for line in (solid, dashed))
    assert light - dark > 0.15


def test_further_measurements_are_drawn_by_the_first_cost():
    figure = figure_of(measurement="objective", also=("test_accuracy",), costs=("epoch", "bytes"))
    made = {"async": {"p": linear_trace([0.1] * 5, test_accuracy=ACCURACY)}}
    canvas = composed(made, figure)
    above, above_right, below = (place for place in canvas.axes if place.axison)
    assert above.get_ylabel() == "objective f(x)"
    assert below.get_ylabel() == "accuracy on the test samples"
    assert [above_right.get_xlabel(), below.get_xlabel()] == [
        "bytes communicated",
        "gradient evaluations per sample",
    ]
    for place, values in ((above, made["async"]["p"].objective), (below, ACCURACY)):
        (line,) = medians(place).values()
        np.testing.assert_allclose(line[:, 1], np.median(values, axis=0))
    # Only accuracies are drawn from what they are after the first tenth.
    assert below.get_ylim()[0] > ACCURACY.min()
    assert above.get_ylim()[0] < made["async"]["p"].objective.min()
    assert legend(above_right) == [TITLES["async"]]
    assert (above.get_yscale(), below.get_yscale()) == ("linear", "linear")


def test_a_long_title_leaves_its_source_to_the_caption():
    for made, figure in (
        CASES["one column"],
        CASES["scaling"],
        CASES["final"],
        CASES["parties"],
    ):
        canvas = composed(made, figure, title="l2-logistic regression " * 6 + "— Figure 2, here")
        canvas.draw_without_rendering()
        extent = canvas._suptitle.get_window_extent()
        assert extent.x0 >= 0
        assert extent.x1 <= canvas.bbox.width
        assert "\n" not in canvas.get_suptitle() and caption(canvas).startswith("Figure 2, here. ")


def test_speed_up_is_the_ratio_of_times_by_seed():
    made, figure = speed_ups()
    (place,) = composed(made, figure).axes
    lines = [line for line in place.lines if line.get_marker() not in ("None", None)]
    for line, power in zip(lines, (1.0, 0.5), strict=True):
        np.testing.assert_array_equal(line.get_xdata(), [1, 2, 4, 8])
        np.testing.assert_allclose(line.get_ydata(), np.array([1, 2, 4, 8]) ** power)
    assert to_hex(lines[0].get_color()) == to_hex(lines[1].get_color())
    assert lines[1].is_dashed()
    assert legend(place) == ["asynchronous", "synchronous", "ideal"]
    assert (place.get_xscale(), place.get_yscale()) == ("log", "log")
    assert [f"{tick:g}" for tick in place.get_xticks()] == ["1", "2", "4", "8"]


def test_speed_up_with_clients_is_the_ratio_of_their_costs():
    """A decade in four records of one client, in one record of four."""
    decades = np.arange(9.0) * np.ones((3, 1))
    made = {
        "n1": {"p": make_trace(10 ** (-decades / 4), clients=1)},
        "n4": {"p": make_trace(10**-decades, clients=4)},
    }
    groups = {"a": ("n1", "n4")}
    canvas = composed(made, figure_of(kind="scaling", target=0.1, cost="round", groups=groups))
    (place,) = canvas.axes
    (line,) = (line for line in place.lines if line.get_marker() not in ("None", None))
    np.testing.assert_allclose(line.get_ydata(), [1, 4])
    assert (place.get_xlabel(), place.get_ylabel()) == ("clients", "speed-up over one client")
    assert "ommunication rounds to norm of the full gradient" in caption(canvas)


def test_speed_up_to_an_accuracy_says_at_least():
    made, figure = speed_ups(target=0.8)
    told = caption(composed(made, figure))
    assert "Simulated time to sub-optimality f(x) − f* ≤ 0.8. " in told
    figure = figure.model_copy(update={"measurement": "test_accuracy"})
    assert "accuracy on the test samples ≥ 0.8. " in caption(composed(made, figure))


def test_speed_up_tells_which_seeds_missed_the_target():
    made, figure = speed_ups()
    rates = [0.01, 0.01, 0.0001, 0.01, 0.01, 0.01]
    made["a8"] = {"p": linear_trace(rates, records=401, run="a8", parties=8)}
    (place,) = composed(made, figure).axes
    assert legend(place)[0] == "asynchronous\n1 of 6 seeds miss the target"


def test_final_shows_seeds_their_mean_interval_and_the_published_value():
    made, figure = traces(), CASES["final"][1]
    (place,) = composed(made, figure).axes
    ends = ACCURACY[:, -1]
    seeds, interval, mean = place.lines[:3]
    np.testing.assert_array_equal(seeds.get_xdata(), ends)
    half = stats.t.ppf(0.975, 4) * stats.sem(ends)
    np.testing.assert_allclose(interval.get_xdata(), [ends.mean() - half, ends.mean() + half])
    assert mean.get_xdata() == pytest.approx([ends.mean()])
    published = [line for line in place.lines if line.get_marker() == "D"]
    assert [np.asarray(line.get_xdata()).tolist() for line in published] == [[0.8]]
    assert [tick.get_text() for tick in place.get_yticklabels()] == list(VERTICAL)
    assert legend(place) == ["seed", "mean, 95 % interval", "published"]
    (place,) = composed(made, CASES["final, levels"][1]).axes
    assert place.get_xscale() == "log"
    assert legend(place) == ["seed", "geometric mean, 95 % interval"]
    (place,) = composed(lost(), figure_of(kind="final", measurement="test_accuracy")).axes
    assert place.get_yticklabels()[0].get_text() == "VFB²-SVRG\n3 of 3 seeds diverged"


def test_labels_of_final_values_do_not_overlap():
    canvas = composed(*CASES["final, AUROC"])
    canvas.draw_without_rendering()
    (place,) = canvas.axes
    shown = [
        label.get_window_extent()
        for label, at in zip(place.get_xticklabels(), place.get_xticks(), strict=True)
        if place.get_xlim()[0] <= at <= place.get_xlim()[1]
    ]
    assert all(left.x1 < right.x0 for left, right in pairwise(shown))


def test_final_of_a_min_max_objective_keeps_its_sign():
    (place,) = composed(*CASES["final, min-max"]).axes
    # 2 (1 − 0.9) − 0.7 and 2 (1 − 0.6) − 0.7
    means = [line.get_xdata()[0] for line in place.lines if line.get_markersize() == 6.5]
    assert means == pytest.approx([-0.5, 0.1])


GROUPED = {"kind": "scaling", "groups": {"a": ["x"]}}
SENSITIVITY = {"kind": "sensitivity", "hyper_parameter": "effective_step_size"}


@pytest.mark.parametrize(
    ("figure", "message"),
    [
        ({"groups": {"a": ["x", "y"]}}, "groups"),
        ({"kind": "final", "costs": ["round"]}, "costs"),
        ({"published": {"x": 1.0}}, "published"),
        ({"kind": "pie"}, "must be one of convergence, final"),
        ({"kind": "scaling", "measurement": "suboptimality"}, "groups"),
        ({"kind": "scaling", "groups": {}}, "groups"),
        (
            {**GROUPED, "measurement": "min_max_objective"},
            "must be one of objective",
        ),
        ({**GROUPED, "measurement": "test_accuracy"}, "test_accuracy needs a 'target' of its own"),
        ({**GROUPED, "measurement": "test_auroc", "target": 1}, "target: 1 of test_auroc must lie"),
        ({"dashed": {"x": "y"}}, "dashed needs points: selected"),
        ({"dashed": {"x": "x"}, "points": "selected"}, "dashed itself"),
        ({"costs": []}, "at least 1"),
        ({"costs": ["hours"]}, "must be one of round, iteration"),
        ({"also": ["gradient_norm"]}, "stands twice in gradient_norm, gradient_norm"),
        ({"kind": "final", "also": ["objective"]}, "also"),
        ({"kind": "sensitivity"}, "hyper_parameter"),
        ({**SENSITIVITY, "rows": "effective_step_size"}, "of which a row has several values"),
        ({**SENSITIVITY, "bounds": {"x": {"T": 0}}}, "greater than 0"),
        (
            {**SENSITIVITY, "measurement": "min_max_objective"},
            "must be one of objective",
        ),
        ({"kind": "slopes"}, "claims"),
        ({"kind": "region", "pairs": {}}, "pairs"),
        (
            {"kind": "region", "pairs": {"a": "b"}, "outlined": {"ratios": ["c"]}},
            "'c' is not the first run of a pair",
        ),
    ],
)
def test_figures_that_make_no_sense_are_refused(figure, message):
    with pytest.raises(ValidationError, match=message):
        Figure.model_validate(figure)
