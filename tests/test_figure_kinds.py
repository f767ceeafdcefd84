"""Figures of vertical runs: time and epochs, speed-up with parties, final values."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from matplotlib.colors import rgb_to_hsv, to_hex, to_rgb
from matplotlib.figure import Figure as Canvas
from pydantic import ValidationError
from scipy import stats

import figure_factory
from fedatlas.figures.style import draw
from fedatlas.schema.figures import Figure
from figure_factory import figure_of, legend, medians
from test_slope_claims import runs
from trace_factory import auroc_trace, falling_trace, linear_trace, make_trace, vertical_trace

NAN = np.nan
TITLES = {"async": "VFB²-SVRG", "sync": "VFB-SVRG", "pooled": "NonF"}
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


def composed(made: dict[str, Any], figure: Figure, title: str = "A title") -> Canvas:
    return figure_factory.composed(made, figure, TITLES, title)


PUBLISHED = {"async": 0.9382, "sync": 0.9366}


def aurocs(*ends: float, spread: float = 0.001) -> dict[str, Any]:
    """Runs of five seeds about the given ends."""
    seeds = spread * np.array([-1, -0.5, 0, 0.5, 1])
    return {
        run: {"p": auroc_trace(np.stack([np.full(5, 0.5), end + seeds], axis=1))}
        for run, end in zip(TITLES, ends, strict=False)
    }


def final_auroc(**published: float) -> Figure:
    return figure_of(kind="final", measurement="test_auroc", published=published)


TIME = figure_of(
    measurement="suboptimality",
    costs=("simulated_time", "update_epoch"),
    points="selected",
    dashed={"sync": "async"},
)
CASES: dict[str, tuple[dict[str, Any], Figure]] = {
    "time and epochs": (traces(), TIME),
    "one column": (traces(), figure_of(measurement="objective", costs=("update_epoch",))),
    "accuracy": (traces(), figure_of(measurement="test_accuracy", costs=("epoch", "bytes"))),
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
    "final, AUROC apart": (aurocs(0.969, 0.9695, 0.971), final_auroc(**PUBLISHED)),
    "final, min-max": (aurocs(0.9, 0.6), figure_of(kind="final", measurement="min_max_objective")),
    "final, levels": (traces(), figure_of(kind="final", measurement="suboptimality")),
}


def test_time_on_a_logarithmic_axis_keeps_all_of_its_accuracies():
    slow = linear_trace([0.1] * 5, seconds_per_epoch=100.0, test_accuracy=ACCURACY)
    made = {"async": {"p": linear_trace([0.1] * 5, test_accuracy=ACCURACY)}, "sync": {"p": slow}}
    figure = figure_of(measurement="test_accuracy", costs=("simulated_time",), points="selected")
    (place,) = composed(made, figure).axes
    assert place.get_xscale() == "log"
    # Of 41 records the second has no less than 0.5 + 0.3 / 40; the best ends with 0.84.
    margin = 0.05 * (0.84 - 0.5075)
    assert place.get_ylim() == pytest.approx((0.5075 - margin, 0.84 + margin))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", CASES)
def test_it_draws(case: str, tmp_path: Path):
    output = tmp_path / "figure.png"
    draw([output], composed, *CASES[case])
    inked = (matplotlib.image.imread(output)[..., :3] < 0.9).any(axis=2)
    assert 0.002 < inked.mean() < 0.5


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
        assert set(legend(canvas.axes[1])) >= {"star", *TITLES.values()}
        assert ("full rounds" in legend(canvas.axes[1])) == (costs[0] == "round")
        alone = composed({"star": {"p": star}}, figure).axes[costs.index("simulated_time")]
        assert [text.get_text() for text in alone.texts] == ["nothing to draw"]


def test_suboptimality_is_drawn_down_to_the_accuracy_of_the_optimum():
    place = composed({"pooled": traces()["pooled"]}, figure_of(measurement="suboptimality")).axes[0]
    assert min(line.get_ydata().min() for line in place.lines) == 1e-10


def test_a_dashed_run_has_the_colour_of_its_partner():
    handles = composed(traces(), TIME).axes[-1].get_legend().legend_handles
    by_label = {handle.get_label(): handle for handle in handles}
    first, dashed, other = (by_label[TITLES[run]] for run in ("async", "sync", "pooled"))
    hues = [rgb_to_hsv(to_rgb(line.get_color()))[0] for line in (first, dashed, other)]
    assert hues[0] == pytest.approx(hues[1]) and abs(hues[0] - hues[2]) > 0.05
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


def test_further_measurements_have_rows_of_their_own():
    figure = figure_of(measurement="objective", also=("test_accuracy",), costs=("epoch", "bytes"))
    made = {"async": {"p": linear_trace([0.1] * 5, test_accuracy=ACCURACY)}}
    above, above_right, below, below_right = composed(made, figure).axes
    assert above.get_ylabel() == "objective f(x)"
    assert below.get_ylabel() == "accuracy on the test samples\n(curves start below this axis)"
    assert (above.get_xlabel(), below.get_xlabel()) == ("", "gradient evaluations per sample")
    for place, values in ((above, made["async"]["p"].objective), (below, ACCURACY)):
        (line,) = medians(place).values()
        np.testing.assert_allclose(line[:, 1], np.median(values, axis=0))
    # Only accuracies are drawn from what they are after the first tenth.
    assert below.get_ylim()[0] > ACCURACY.min()
    assert above.get_ylim()[0] < made["async"]["p"].objective.min()
    assert legend(above_right) == [TITLES["async"]]
    assert below_right.get_legend() is None  # the curves are those above


@pytest.mark.parametrize("measurement", ["objective", "test_accuracy"])
def test_scales_follow_what_is_measured(measurement):
    assert composed(traces(), figure_of(measurement=measurement)).axes[0].get_yscale() == "linear"


def test_a_long_title_is_no_wider_than_the_figure():
    for made, figure in (CASES["one column"], CASES["scaling"], CASES["final"], CASES["accuracy"]):
        canvas = composed(made, figure, "l2-logistic regression, " * 12)
        canvas.draw_without_rendering()
        extent = canvas._suptitle.get_window_extent()
        assert extent.x0 >= 0
        assert extent.x1 <= canvas.bbox.width


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
    assert "communication rounds to norm of the full gradient" in canvas.get_suptitle()


def test_speed_up_to_an_accuracy_says_at_least():
    made, figure = speed_ups(target=0.8)
    assert "simulated time to sub-optimality f(x) − f* ≤ 0.8; " in (
        composed(made, figure).get_suptitle()
    )
    figure = figure.model_copy(update={"measurement": "test_accuracy"})
    assert "accuracy on the test samples ≥ 0.8; " in composed(made, figure).get_suptitle()


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
    assert [line.get_xdata().tolist() for line in published] == [[0.8]]
    assert [tick.get_text() for tick in place.get_yticklabels()] == list(TITLES.values())
    assert legend(place) == ["seed", "mean, 95 % interval", "published"]
    (place,) = composed(made, CASES["final, levels"][1]).axes
    assert place.get_xscale() == "log"
    assert legend(place) == ["seed", "geometric mean, 95 % interval"]
    (place,) = composed(lost(), figure_of(kind="final", measurement="test_accuracy")).axes
    assert place.get_yticklabels()[0].get_text() == "VFB²-SVRG\n3 of 3 seeds diverged"


def test_final_keeps_what_is_far_apart_readable():
    left, right = composed(*CASES["final, AUROC apart"]).axes
    # Ours reach from 0.968 to 0.972, the published from 0.9366 to 0.9382.
    assert left.get_xlim() == pytest.approx((0.9362, 0.9386))
    assert right.get_xlim() == pytest.approx((0.9676, 0.9724))
    assert [tick.get_text() for tick in left.get_yticklabels()] == list(TITLES.values())
    steps = [np.diff(place.get_xticks()) for place in (left, right)]
    assert np.concatenate(steps) == pytest.approx(steps[0][0])
    assert left.get_xlabel() == right.get_xlabel() == ""
    assert left.figure.get_supxlabel() == "area under the ROC curve on the test samples"
    assert right.get_legend() is not None and left.get_legend() is None
    left.figure.draw_without_rendering()
    widths = [place.get_position().width for place in (left, right)]
    assert widths[1] / widths[0] == pytest.approx(2, rel=0.01)  # one scale


@pytest.mark.parametrize("case", ["final, AUROC", "final, AUROC apart"])
def test_labels_of_final_values_do_not_overlap(case):
    canvas = composed(*CASES[case])
    canvas.draw_without_rendering()
    shown = [
        label.get_window_extent()
        for place in canvas.axes
        for label, at in zip(place.get_xticklabels(), place.get_xticks(), strict=True)
        if place.get_xlim()[0] <= at <= place.get_xlim()[1]
    ]
    assert all(left.x1 < right.x0 for left, right in pairwise(shown))


def test_final_of_one_scale_has_one_panel():
    for ends, published in (
        ((0.937, 0.9375, 0.938), PUBLISHED),
        ((0.9, 0.95), {"async": 0.99}),  # as far beyond ours as ours are apart
        ((0.97, 0.97), {}),
    ):
        (place,) = composed(aurocs(*ends), final_auroc(**published)).axes
        assert place.get_xlabel() == "area under the ROC curve on the test samples"
    # One value of each kind: nothing to tell apart.
    one = {"async": {"p": auroc_trace([[0.5, 0.97]])}}
    assert len(composed(one, final_auroc(**{"async": 0.93})).axes) == 1
    gone = {"async": {"p": auroc_trace([[NAN, NAN]] * 2)}}
    assert len(composed(gone, final_auroc(**{"async": 0.93})).axes) == 1


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
