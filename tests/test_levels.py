"""Levels at equal cost, costs to a target, and the interval that verdicts rest on."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.costs import cost_axis
from fedatlas.evaluation.levels import (
    Interval,
    common_budget,
    common_start,
    cost_to_reach,
    difference,
    diverged,
    log_measurement,
    log_target,
    lowest_median,
    mean_along,
    reached,
    value_at,
)
from fedatlas.schema.measurements import LARGER_IS_BETTER, LEVELS
from trace_factory import (
    BYTES_PER_ROUND,
    auroc_trace,
    falling_trace,
    levels_trace,
    make_trace,
    tiered_trace,
    vertical_trace,
)

NAN, INF = np.nan, np.inf
VALUES = st.floats(-15, 15)
PAIRS = st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=8).map(
    lambda pairs: tuple(np.array(pairs).T)
)


def bounds(interval: Interval) -> tuple[float, float, float]:
    return interval.centre, interval.low, interval.high


# --- reading a trace ---


def test_bytes_are_both_directions_and_other_axes_are_read_as_they_are():
    trace = falling_trace([0.5, 0.5], cost_scale=[1, 2])
    assert cost_axis(trace, "bytes")[:, 1].tolist() == [10 * BYTES_PER_ROUND, 20 * BYTES_PER_ROUND]
    assert cost_axis(trace, "round")[:, 1].tolist() == [10, 10]


def test_bytes_are_the_sum_of_what_a_run_counts():
    trace = tiered_trace([[2.0, 1.0]])  # 500, 250 and 125 bytes a round
    assert cost_axis(trace, "bytes")[0].tolist() == [0, 8750]
    between_agents = trace.drop_vars(["bytes_up", "bytes_down"])
    assert cost_axis(between_agents, "bytes")[0].tolist() == [0, 1250]
    with pytest.raises(FedatlasError, match="run 'first' has no 'bytes'"):
        cost_axis(between_agents.drop_vars("bytes_sent"), "bytes")


def test_a_seed_that_is_not_ok_diverged_whatever_the_word():
    trace = falling_trace([0.5, 0.5, 0.5])
    trace["status"] = ("seed", ["ok", "diverged", "timeout"])
    assert diverged(trace).tolist() == [False, True, True]


def test_zero_has_a_finite_level_no_better_than_rounding_error():
    levels = log_measurement(make_trace([[1.0, 0.0, 1e-30]]), "gradient_norm")[0]
    assert levels[0] == 0
    assert -16 < levels[1] == levels[2] < -15


@pytest.mark.parametrize(
    ("trace", "measurement", "expected"),
    [
        # Not told below the accuracy of the optimum.
        (vertical_trace([[0.1, 1e-10, 3e-11, 0, -2e-12]]), "suboptimality", [-1] + [-10] * 4),
        # Best at one: the distance to it, of which a millionth is the least.
        (auroc_trace([[0.0, 0.5, 0.99, 0.93]]), "test_auroc", [0, -0.30103, -2, -1.154902]),
        (auroc_trace([[0.5, 1.0, 1 - 1e-9, 1 - 1e-5]]), "test_auroc", [-0.30103, -6, -6, -5]),
        (
            auroc_trace([[0.5] * 3], train_accuracy=[[0.2, 0.8, 0.6]]),
            "train_accuracy",
            [-0.09691, -0.69897, -0.39794],
        ),
    ],
)
def test_levels_by_measurement(trace, measurement, expected):
    assert log_measurement(trace, measurement)[0] == pytest.approx(expected, abs=1e-5)


def test_auroc_counts_wherever_the_objective_is():
    """A short run may leave a constant's loss of 1 upwards, and rank better than it did."""
    trace = auroc_trace([[0.5, 0.9, 0.99]], objective=[[1.0, 0.4, 1.2]])
    assert log_measurement(trace, "test_auroc")[0].tolist()[1:] == pytest.approx([-1, -2])
    assert log_measurement(trace, "objective")[0, 2] == INF


@given(pair=st.tuples(st.floats(0, 1), st.floats(0, 1)), measurement=st.sampled_from(LEVELS))
def test_levels_are_in_the_order_of_what_is_better(pair, measurement):
    worse, better = sorted(pair, reverse=measurement not in LARGER_IS_BETTER)
    trace = make_trace([[1.0, 1.0]])
    trace[measurement] = (("seed", "record"), [[worse, better]])
    levels = log_measurement(trace, measurement)[0]
    assert levels[0] >= levels[1]
    # Beyond rounding, and beyond what is not told apart, the order is strict.
    if abs(better - worse) > 1e-5:
        assert levels[0] > levels[1]


@given(target=st.floats(1e-4, 0.9999), measurement=st.sampled_from(LEVELS))
def test_a_target_becomes_a_level_and_returns(target, measurement):
    assert value_at(measurement, log_target(measurement, target)) == pytest.approx(target, rel=1e-9)


def test_targets_are_stated_in_units_of_the_measurement():
    assert log_target("test_auroc", 0.9) == pytest.approx(-1)
    assert log_target("test_rmse", 0.01) == pytest.approx(-2)
    assert value_at("train_auroc", -2) == pytest.approx(0.99)


@given(auroc=st.floats(0.5, 0.999))
def test_a_record_of_just_the_target_meets_it(auroc):
    trace = auroc_trace([[0.4, auroc - 0.01, auroc]])
    target = log_target("test_auroc", auroc)
    assert cost_to_reach(trace, "test_auroc", "round", target).tolist() == [20]


def test_what_a_run_does_not_count_is_an_error_that_says_what_it_counts():
    with pytest.raises(FedatlasError, match=r"run 'a' has no 'simulated_time'.*round.*objective"):
        cost_axis(falling_trace([0.5], run="a"), "simulated_time")
    with pytest.raises(FedatlasError, match=r"'auc' has no 'gradient_norm'.*train_auroc, test_au"):
        log_measurement(auroc_trace([[0.5, 0.9]], run="auc"), "gradient_norm")
    with pytest.raises(FedatlasError, match="run 'first' has no 'suboptimality'"):
        log_measurement(falling_trace([0.5]), "suboptimality")


# --- levels at equal cost ---


def test_common_budget_is_the_least_that_a_healthy_seed_spent():
    fast = falling_trace([0.5, 0.5], cost_scale=[3, 2])
    slow = falling_trace([0.5, 0.5], cost_scale=[9, 8], records=11)
    assert common_budget([fast, slow], "bytes") == 2 * 200 * BYTES_PER_ROUND
    assert common_budget([fast, slow], "round") == 100


def test_a_diverged_seed_does_not_shorten_the_budget():
    one_lost, all_lost = levels_trace([0.1, NAN], records=11), levels_trace([NAN, NAN], records=21)
    assert common_budget([one_lost], "round") == 100
    assert common_budget([all_lost], "round") == 0
    assert common_budget([all_lost, one_lost], "round") == 100


def test_level_is_the_mean_logarithm_over_the_window():
    values = 10.0 ** -np.arange(11)[None]
    trace = make_trace(values)  # rounds 0 to 100
    assert reached(trace, "gradient_norm", "round", 100, 0.1) == pytest.approx([-10])
    assert reached(trace, "gradient_norm", "round", 100, 0.3) == pytest.approx([-9])
    assert reached(trace, "gradient_norm", "round", 100, 1.0) == pytest.approx([-5.5])
    assert reached(trace, "gradient_norm", "round", 59.9, 0.2) == pytest.approx([-5])
    assert reached(trace, "objective", "round", 100, 0.1) == pytest.approx(
        [np.log10(2.2e-16)], 1e-3
    )


def test_without_a_record_in_the_window_the_last_one_within_the_budget_counts():
    trace = make_trace([[1.0, 0.1, 0.01]], schedule=[0, 10, 1000])
    assert reached(trace, "gradient_norm", "round", 500, 0.1) == pytest.approx([-1])
    assert reached(trace, "gradient_norm", "round", 5, 0.1) == pytest.approx([0])


def test_levels_are_by_each_seeds_own_cost():
    trace = falling_trace([0.1, 0.1], records=11, cost_scale=[1, 2])
    budget = common_budget([trace], "bytes")
    levels = reached(trace, "gradient_norm", "bytes", budget, 0.1)
    assert levels == pytest.approx([-10, -5])


def test_a_diverged_seed_has_an_infinite_level():
    trace = levels_trace([0.1, NAN, 0.01])
    assert reached(trace, "gradient_norm", "round", 200, 0.1) == pytest.approx([-1, INF, -2])
    assert reached(levels_trace([NAN]), "gradient_norm", "round", 0, 0.1).tolist() == [INF]


# --- means along a cost ---


def test_the_mean_is_the_area_under_straight_lines_over_its_base():
    trace = auroc_trace([[0.5, 0.9, 1.0], [0.5, NAN, NAN], [0.5, 0.5, 0.7]])
    # 10 · (0.5 + 0.9)/2 + 10 · (0.9 + 1)/2 = 16.5, over 20; the third: 5 + 6 = 11
    assert mean_along(trace, "test_auroc", "round", 0, 20) == pytest.approx(
        [0.825, NAN, 0.55], nan_ok=True
    )
    # 7 + 5 · (0.9 + 0.95)/2 = 11.625, over 15; the third: 5 + 2.75 = 7.75
    assert mean_along(trace, "test_auroc", "round", 0, 15) == pytest.approx(
        [0.775, NAN, 7.75 / 15], nan_ok=True
    )
    # 5 · (0.7 + 0.9)/2 + 4.625 = 8.625, over 10
    assert mean_along(trace, "test_auroc", "round", 5, 15)[0] == pytest.approx(0.8625)


def test_a_mean_within_a_jump_between_records_takes_both_sides_of_it():
    trace = auroc_trace([[0.5, 0.7, 0.9, 0.9]], schedule=[0, 10, 10, 20])
    # 10 · (0.5 + 0.7)/2 + 10 · 0.9 = 15
    assert mean_along(trace, "test_auroc", "round", 0, 20) == pytest.approx([0.75])


def test_means_are_along_each_seeds_own_cost():
    trace = auroc_trace([[0.5, 0.7, 0.9]] * 2, cost_scale=[1, 2])
    # By half of the budget the second is where the first is by a quarter of it.
    budget = common_budget([trace], "bytes")
    assert mean_along(trace, "test_auroc", "bytes", 0, budget) == pytest.approx([0.7, 0.6])


@given(
    values=st.lists(st.floats(0, 1), min_size=3, max_size=8),
    shares=st.tuples(st.floats(0.05, 0.5), st.floats(0.5, 0.95)),
)
def test_means_add_up_and_lie_between_the_extremes(values, shares):
    trace = auroc_trace([values])
    end = 10.0 * (len(values) - 1)
    cuts = [0.0, *(share * end for share in shares), end]
    parts = [
        mean_along(trace, "test_auroc", "round", low, high)[0] * (high - low)
        for low, high in pairwise(cuts)
        if high > low
    ]
    (whole,) = mean_along(trace, "test_auroc", "round", 0, end)
    assert sum(parts) / end == pytest.approx(whole, abs=1e-9)
    assert min(values) - 1e-9 <= whole <= max(values) + 1e-9


def test_the_common_start_is_where_the_last_healthy_seed_begins():
    early, late = auroc_trace([[0.5, 0.9]] * 2), auroc_trace([[0.5, 0.9]], schedule=[4, 10])
    lost = auroc_trace([[0.5, NAN]], schedule=[7, 10])
    assert common_start([early], "round") == 0
    assert common_start([early, late, lost], "round") == 4
    assert common_start([lost], "round") == 0


# --- cost to a target ---


def test_cost_of_the_first_record_at_or_above_a_target_auroc():
    trace = auroc_trace([[0.5, 0.8, 0.93, 0.95], [0.5, 0.94, 0.9, 0.97], [0.5, 0.99, NAN, NAN]])
    for target, costs in ((0.93, [20, 10, INF]), (0.931, [30, 10, INF]), (0.96, [INF, 30, INF])):
        level = log_target("test_auroc", target)
        assert cost_to_reach(trace, "test_auroc", "round", level).tolist() == costs


def test_cost_of_the_first_record_at_or_below_the_target():
    trace = falling_trace([0.1, 0.01], records=5)
    assert cost_to_reach(trace, "gradient_norm", "round", -2).tolist() == [20, 10]
    assert cost_to_reach(trace, "gradient_norm", "round", -4.5).tolist() == [INF, 30]


def test_a_target_met_at_the_start_costs_the_first_record():
    trace = falling_trace([0.1, 0.5], cost_scale=[1, 2])
    assert cost_to_reach(trace, "gradient_norm", "round", 1).tolist() == [10, 10]
    # Less than one epoch: a small cost is a cost.
    assert cost_to_reach(trace, "gradient_norm", "epoch", -0.5).tolist() == [2, 8]
    small = falling_trace([0.1, 0.1], cost_scale=0.01)
    assert cost_to_reach(small, "gradient_norm", "epoch", -1) == pytest.approx([0.02, 0.02])


def test_a_seed_that_diverged_later_has_not_reached_the_target():
    values = np.array([[1.0, 0.1, NAN], [1.0, 0.5, 0.1]])
    assert cost_to_reach(make_trace(values), "gradient_norm", "round", -1).tolist() == [INF, 20]


def test_the_lowest_median_at_any_record():
    """Not the last one and not the luckiest seed's; diverged seeds count as worst."""
    values = np.array([[1, 0.1, 0.5], [1, 0.2, 0.5], [1, 0.001, 0.5]])
    assert lowest_median(make_trace(values), "gradient_norm") == pytest.approx(np.log10(0.1))
    assert lowest_median(levels_trace([0.1, NAN, 0.01]), "gradient_norm") == pytest.approx(-1)
    assert lowest_median(levels_trace([0.1, NAN, NAN]), "gradient_norm") == INF
    trace = auroc_trace([[0.5, 0.9, 0.8], [0.5, 0.92, 0.85], [0.5, 0.999, 0.9]])
    assert value_at("test_auroc", lowest_median(trace, "test_auroc")) == pytest.approx(0.92)


# --- the interval ---


def by_hand(first, second):
    """The paired t-interval from its textbook formula."""
    gaps = [a - b for a, b in zip(first, second, strict=True)]
    n = len(gaps)
    mean = sum(gaps) / n
    variance = sum((gap - mean) ** 2 for gap in gaps) / (n - 1)
    half = stats.t.ppf(0.975, n - 1) * (variance / n) ** 0.5
    return mean, mean - half, mean + half


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([1.0, 2.0, 4.0, 0.0, 1.5], [0.5, 0.1, 0.9, 0.3, 0.2]),
        ([-3.1, -3.0], [-3.3, -3.1]),
        ([1.0, 1.0, 1.0], [0.5, 0.6, 0.9]),
    ],
)
def test_interval_is_the_paired_t_interval(first, second):
    assert bounds(difference(np.array(first), np.array(second))) == pytest.approx(
        by_hand(first, second)
    )


LEVEL = st.one_of(st.just(INF), st.floats(-5, 5))


@given(pairs=st.lists(st.tuples(LEVEL, LEVEL), min_size=1, max_size=5))
def test_swapping_negates_whatever_is_lost(pairs):
    first, second = np.array(pairs).T
    there, back = difference(first, second), difference(second, first)
    expected = (-there.centre, -there.high, -there.low)
    assert bounds(back) == pytest.approx(expected, nan_ok=True)
    assert not np.isnan([there.low, there.high]).any()
    assert there.low <= there.high
    assert np.isnan(there.centre) or there.low <= there.centre <= there.high


@given(pairs=PAIRS, scale=st.floats(0.01, 100), shift=st.floats(-10, 10))
def test_scaling_and_shifting(pairs, scale, shift):
    first, second = pairs
    assume(np.ptp(first - second) > 1e-3)
    plain = difference(first, second)
    changed = difference(scale * first + shift, scale * second)
    expected = [scale * value + shift for value in bounds(plain)]
    assert bounds(changed) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_deterministic_sides_differ_exactly():
    assert bounds(difference(np.full(5, -2.0), np.full(5, -1.0))) == (-1, -1, -1)
    # (0.1 + 0.1 + 0.1) / 3 is not 0.1: the mean must not make a tie a difference.
    assert bounds(difference(np.full(3, 0.1), np.full(3, 0.1))) == (0, 0, 0)


def test_one_seed_tells_of_no_spread():
    assert bounds(difference(np.array([-2.0]), np.array([-1.0]))) == (-1, -INF, INF)
    assert bounds(difference(np.array([-2.0]), np.array([INF])))[1:] == (-INF, INF)


def test_runs_with_other_seeds_are_not_compared():
    with pytest.raises(FedatlasError, match="runs with 1 and 2 seeds"):
        difference(np.array([-2.0]), np.array([-1.0, -1.1]))


def test_partly_lost_sides_leave_one_bound_open():
    some, well = np.array([-2.0, -2.15, INF]), np.array([-1.0, -1.1, -1.2])
    mean, low, _ = by_hand(some[:2], well[:2])
    assert bounds(difference(some, well)) == pytest.approx((mean, low, INF))
    assert bounds(difference(well, some)) == pytest.approx((-mean, -INF, -low))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # A side lost altogether is infinitely worse; losses on both sides leave nothing to say.
        ([INF] * 3, [-1.0, -1.1, -1.2], (INF, INF)),
        ([-1.0, -1.1, -1.2], [INF] * 3, (-INF, -INF)),
        ([INF, INF], [INF, INF], (-INF, INF)),
        ([INF, INF], [INF, -1.0], (-INF, INF)),
        ([-1.0, INF], [INF, INF], (-INF, INF)),
        ([-1.0, -1.1, INF], [-1.0, -1.2, INF], (-INF, INF)),
        ([INF, INF, -1.0], [INF, INF, -1.0], (-INF, INF)),
    ],
)
def test_bounds_where_seeds_were_lost(first, second, expected):
    assert bounds(difference(np.array(first), np.array(second)))[1:] == expected


@pytest.mark.parametrize(
    ("interval", "region", "verdict"),
    [
        ((-1, -2, -0.5), (-INF, 0), "reproduced"),
        ((-1, -2, 0.5), (-INF, 0), "inconclusive"),
        ((1, 0.5, 2), (-INF, 0), "not reproduced"),
        ((0, 0, 0), (-INF, 0), "inconclusive"),  # a tie is not "faster"
        ((0, -0.1, 0.1), (-0.2, 0.2), "reproduced"),
        ((0, -0.3, 0.1), (-0.2, 0.2), "inconclusive"),
        ((-1, -1.3, -0.9), (-0.2, 0.2), "not reproduced"),
        ((-INF, -INF, -INF), (-INF, 0), "reproduced"),
        ((INF, INF, INF), (-INF, 0), "not reproduced"),
        ((-INF, -INF, -INF), (-0.2, 0.2), "not reproduced"),
        ((0, -INF, INF), (-INF, 0), "inconclusive"),
        ((-1, -INF, -0.5), (-INF, 0), "reproduced"),
        ((NAN, -INF, INF), (-INF, 0), "inconclusive"),
    ],
)
def test_verdict_of_an_interval(interval, region, verdict):
    assert Interval(*interval).verdict(*region) == verdict


def test_a_run_that_left_its_start_reaches_nothing_however_small_its_gradient():
    """The robust loss is flat far away: its gradient falls while the objective rises."""
    falling = np.geomspace([1.0, 1.0], [1e-6, 1e-6], 21).T
    objective = np.stack([np.linspace(0.4, 12, 21), np.linspace(0.4, 0.1, 21)])
    trace = make_trace(falling, objective=objective)
    assert reached(trace, "gradient_norm", "round", 200, 0.1)[0] == INF
    assert cost_to_reach(trace, "gradient_norm", "round", -5)[0] == INF
    assert np.isfinite(reached(trace, "gradient_norm", "round", 200, 0.1)[1])
    assert np.isfinite(cost_to_reach(trace, "gradient_norm", "round", -5)[1])
