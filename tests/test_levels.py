"""Levels at equal cost, and costs to a target."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.levels import (
    common_budget,
    common_start,
    common_target,
    cost_axis,
    cost_to_reach,
    crossings,
    diverged,
    log_measurement,
    log_target,
    mean_along,
    reached,
    value_at,
)
from fedatlas.schema.quantities import LARGER_IS_BETTER, LEVELS
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
    assert reached(trace, "test_auroc", "round", 20, 0.1)[0] < -1
    assert reached(trace, "objective", "round", 20, 0.1)[0] == INF


def test_a_record_above_the_start_is_no_better_than_the_start():
    norms, objective = [[1.0, 0.1, 0.01, 10.0, 1e-3]], [[1.0, 1.5, 0.5, 2.0, 0.4]]
    trace = make_trace(norms, objective=objective)
    assert log_measurement(trace, "gradient_norm")[0].tolist() == pytest.approx([0, 0, -2, 1, -3])
    # It is lost only where it stands there at the end of what is judged.
    ends = [reached(trace, "gradient_norm", "round", budget, 1)[0] for budget in (10, 20, 30, 40)]
    assert ends == pytest.approx([INF, -0.5, INF, (0 / 2 + 0 - 2 + 1 - 3 / 2) / 4])
    # Half way from 1.5 to 0.5 the objective is that of the start, and just before it is above.
    assert reached(trace, "gradient_norm", "round", 15.0, 1)[0] == pytest.approx(-1 / 6)
    assert reached(trace, "gradient_norm", "round", 14.9, 1)[0] == INF
    # It crosses no level on the way.
    assert cost_to_reach(trace, "gradient_norm", "round", -0.5)[0] == pytest.approx(12.5)


@given(pair=st.tuples(st.floats(0, 1), st.floats(0, 1)), measurement=st.sampled_from(list(LEVELS)))
def test_levels_are_in_the_order_of_what_is_better(pair, measurement):
    worse, better = sorted(pair, reverse=measurement not in LARGER_IS_BETTER)
    trace = make_trace([[1.0, 1.0]])
    trace[measurement] = (("seed", "record"), [[worse, better]])
    levels = log_measurement(trace, measurement)[0]
    assert levels[0] >= levels[1]
    # Beyond rounding, and beyond what is not told apart, the order is strict.
    if abs(better - worse) > 1e-5:
        assert levels[0] > levels[1]


@given(target=st.floats(1e-4, 0.9999), measurement=st.sampled_from(list(LEVELS)))
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
    assert cost_to_reach(trace, "test_auroc", "round", target) == pytest.approx([20])


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
    trace = make_trace(values)  # rounds 0 to 100: a line from 0 to -10
    assert reached(trace, "gradient_norm", "round", 100, 0.1) == pytest.approx([-9.5])
    assert reached(trace, "gradient_norm", "round", 100, 0.3) == pytest.approx([-8.5])
    assert reached(trace, "gradient_norm", "round", 100, 1.0) == pytest.approx([-5])
    assert reached(trace, "gradient_norm", "round", 60, 0.2) == pytest.approx([-5.4])
    assert reached(trace, "objective", "round", 100, 0.1) == pytest.approx(
        [np.log10(2.2e-16)], 1e-3
    )


def test_no_level_is_stale_where_records_are_far_apart():
    """Between records the curve is a line of levels; an old record does not stand for later."""
    trace = make_trace([[1.0, 0.1, 0.01]], schedule=[0, 10, 1010])
    assert reached(trace, "gradient_norm", "round", 510, 1e-6) == pytest.approx([-1.5], abs=1e-5)
    assert reached(trace, "gradient_norm", "round", 5, 1e-6) == pytest.approx([-0.5], abs=1e-5)


@given(rates=st.lists(st.floats(0.3, 0.9), min_size=1, max_size=3), every=st.integers(2, 10))
def test_a_level_does_not_depend_on_how_often_a_line_was_recorded(rates, every):
    often = falling_trace(rates, records=21)
    seldom = often.isel(record=sorted({*range(0, 21, every), 20}))
    for window in (0.1, 0.35):
        levels = [
            reached(trace, "gradient_norm", "round", 200, window) for trace in (often, seldom)
        ]
        assert levels[0] == pytest.approx(levels[1], abs=1e-9)


def test_levels_are_by_each_seeds_own_cost():
    trace = falling_trace([0.1, 0.1], records=11, cost_scale=[1, 2])
    budget = common_budget([trace], "bytes")
    levels = reached(trace, "gradient_norm", "bytes", budget, 0.1)
    assert levels == pytest.approx([-9.5, -4.75])


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


def test_cost_is_read_off_the_line_of_levels_between_two_records():
    trace = auroc_trace([[0.5, 0.9, 0.99, 0.999], [0.5, 0.99, NAN, NAN]])
    level = log_target("test_auroc", 0.9)
    assert cost_to_reach(trace, "test_auroc", "round", level) == pytest.approx([10, INF])
    # Halfway between the levels -1 and -2.
    found = crossings(trace, "test_auroc", "round", -1.5)
    assert 10**found.cost == pytest.approx([15, INF])
    assert (10 ** found.before[0], 10 ** found.after[0]) == pytest.approx((10, 20))


@given(rate=st.floats(0.5, 0.9), every=st.integers(2, 7), target=st.floats(-0.9, -0.05))
def test_a_cost_does_not_depend_on_how_often_a_line_was_recorded(rate, every, target):
    often = falling_trace([rate], records=43)
    seldom = often.isel(record=sorted({*range(0, 43, every), 42}))
    level = target * -np.log10(rate) * 42
    costs = [cost_to_reach(trace, "gradient_norm", "round", level) for trace in (often, seldom)]
    assert costs[0] == pytest.approx(costs[1])
    found = crossings(seldom, "gradient_norm", "round", level)
    assert found.before <= found.cost <= found.after


@given(exponent=st.integers(-200, -17), zeros=st.integers(1, 3))
def test_zero_reaches_every_target_and_a_small_value_those_above_it(exponent, zeros):
    target, small = 10.0**exponent, np.full(zeros, 10.0 ** (exponent + 1))
    trace = make_trace([[1.0, 1e-13, *np.zeros(zeros)], [1.0, 1e-13, *small]])
    level = log_target("gradient_norm", target)
    found = cost_to_reach(trace, "gradient_norm", "round", level)
    assert found == pytest.approx([20, INF])
    perfect = auroc_trace([[0.5, 0.99, 1.0], [0.5, 0.99, 1 - 1e-8]])
    level = log_target("test_auroc", 1 - 1e-9)
    assert cost_to_reach(perfect, "test_auroc", "round", level) == pytest.approx([20, INF])


def test_suboptimality_is_known_to_the_accuracy_of_the_optimum_only():
    trace = vertical_trace([[0.3, 1e-3, 0.0]])
    assert cost_to_reach(trace, "suboptimality", "round", -10.0) == pytest.approx([20])
    assert cost_to_reach(trace, "suboptimality", "round", -10.1) == [INF]


def test_a_target_met_at_the_start_costs_the_first_record():
    trace = falling_trace([0.1, 0.5], cost_scale=[1, 2])
    assert cost_to_reach(trace, "gradient_norm", "round", 1).tolist() == [10, 10]
    # Less than one epoch: a small cost is a cost.
    assert cost_to_reach(trace, "gradient_norm", "epoch", -0.5) == pytest.approx([1, 6.64386])
    small = falling_trace([0.1, 0.1], cost_scale=0.01)
    assert cost_to_reach(small, "gradient_norm", "epoch", -1) == pytest.approx([0.02, 0.02])


def test_the_lowest_median_at_any_record():
    """Not the last one and not the luckiest seed's; diverged seeds count as worst."""
    values = np.array([[1, 0.1, 0.5], [1, 0.2, 0.5], [1, 0.001, 0.5]])
    lowest, lost = make_trace(values), levels_trace([0.1, NAN, NAN])
    assert common_target([lowest, lost], "gradient_norm") == pytest.approx(np.log10(0.1))
    worse = levels_trace([0.2, NAN, 0.01])
    assert common_target([lowest, worse], "gradient_norm") == pytest.approx(np.log10(0.2))
    assert common_target([lost], "gradient_norm") == -INF
    trace = auroc_trace([[0.5, 0.9, 0.8], [0.5, 0.92, 0.85], [0.5, 0.999, 0.9]])
    assert value_at("test_auroc", common_target([trace], "test_auroc")) == pytest.approx(0.92)
