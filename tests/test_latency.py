"""Simulated latency: the formula, costs that name it, what claims and figures make of it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

import figure_factory
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.levels import common_budget, cost_axis, mean_along, reached
from fedatlas.evaluation.selection import Choice
from fedatlas.evaluation.verdicts import Verdict
from fedatlas.pages.results_table import results_table
from fedatlas.schema.figures import Figure
from fedatlas.schema.quantities import Cost, LinkLatencies, link_latencies
from figure_factory import figure_of
from judging import verdict
from trace_factory import falling_trace, tiered_trace

NAN = np.nan
COST = TypeAdapter(Cost)
NUMBERS = st.floats(0, 1e6, allow_nan=False)


def falling(*rates: float, steps: int = 10, records: int = 31, **options: Any):
    """A run over silos: the objective is 2 · rateⁿ after n rounds; with a rate NaN it is lost."""
    values = 2 * np.asarray(rates)[:, None] ** np.arange(records)
    values[np.isnan(rates)] = [2.0, *[NAN] * (records - 1)]
    return tiered_trace(values, local_steps=steps, schedule=range(records), **options)


# --- the formula ---


def test_a_round_of_ten_steps_takes_three_round_trips_and_ten_units():
    trace = falling(0.9, 0.8, records=3)  # rounds 0, 1, 2
    assert cost_axis(trace, "latency(100)").tolist() == [[0, 310, 620]] * 2
    assert cost_axis(trace, "latency(10)").tolist() == [[0, 40, 80]] * 2
    assert cost_axis(trace, "latency(0)").tolist() == [[0, 10, 20]] * 2
    assert cost_axis(trace, "latency(10, 100)").tolist() == [[0, 130, 260]] * 2
    assert cost_axis(trace, "latency(100, 10)").tolist() == [[0, 220, 440]] * 2
    assert cost_axis(trace, "latency(7, 0)").tolist() == [[0, 24, 48]] * 2


@given(
    hub_client=NUMBERS,
    hub_hub=NUMBERS,
    counts=st.lists(st.tuples(*[st.integers(0, 10**6)] * 3), min_size=1, max_size=5),
)
def test_time_is_what_trips_and_steps_take_one_after_the_other(hub_client, hub_hub, counts):
    to_clients, to_hubs, steps = np.array(counts).T
    trace = tiered_trace(
        np.ones((1, len(counts))),
        hub_client_trips=to_clients[None],
        hub_hub_trips=to_hubs[None],
        iteration=steps[None],
    )
    expected = [hub_client * a + hub_hub * b + 1.0 * c for a, b, c in counts]
    assert cost_axis(trace, f"latency({hub_client!r}, {hub_hub!r})")[0] == pytest.approx(expected)


def test_a_run_without_hubs_says_what_it_counts():
    with pytest.raises(FedatlasError, match=r"run 'star' has no 'hub_client_trips'.*round, it"):
        cost_axis(falling_trace([0.5], run="star"), "latency(1)")


# --- costs by name ---


@pytest.mark.parametrize(
    ("cost", "hub_client", "hub_hub"),
    [
        ("latency(100)", 100, 100),
        ("latency(0)", 0, 0),
        ("latency(10, 100)", 10, 100),
        ("latency(10,0.5)", 10, 0.5),
        ("latency( 1e3 , 2.5e-1 )", 1000, 0.25),
    ],
)
def test_latencies_are_read_from_the_name_of_a_cost(cost, hub_client, hub_hub):
    assert COST.validate_python(cost) == cost
    assert link_latencies(cost) == LinkLatencies(hub_client, hub_hub)


OTHERS = r"one of round, iteration, .*latency\(t_hub.*network\("
NO_LATENCIES = ("", "latency", "latency(-1)", "latency(1,2,3)", "latency(nan)", "latency(1)\n")
REFUSED = dict.fromkeys((*NO_LATENCIES, "Latency(1)", "latency(٣)"), OTHERS)
REFUSED |= dict.fromkeys(("latency(1e999)", "latency(1, 1e999)"), "must be finite")


@pytest.mark.parametrize(("cost", "message"), REFUSED.items())
def test_other_costs_are_refused_with_those_that_there_are(cost, message):
    with pytest.raises(ValidationError, match=message):
        COST.validate_python(cost)


# --- claims ---


def to_target(**more: Any) -> dict[str, Any]:
    names = {"kind": "cost_to_target", "first": "a", "second": "b", "relation": "faster"}
    return {**names, "measurement": "objective", "target": 0.5, **more}


def judged(test: dict[str, Any], **traces: Any) -> Verdict:
    return verdict(test, selected_by="objective", **traces)


def test_budgets_and_levels_at_equal_latency():
    slow, fast = falling(0.9, 0.9, steps=1), falling(0.5, 0.5, steps=10, records=11)
    assert common_budget([slow, fast], "latency(10)") == 10 * 40
    assert common_budget([slow, fast], "latency(0)") == 30
    # From 380 to 400 units, of which a round of the slow one takes 31.
    level = np.log10(2 * 0.9 ** (390 / 31))
    assert reached(slow, "objective", "latency(10)", 400, 0.05) == pytest.approx([level] * 2)


def test_a_cost_to_a_target_by_iterations_and_by_latency_may_come_out_differently():
    # 0.5 is reached by 2 · 0.9ⁿ at n = 13.16 (as many steps), by 2 · 0.5ⁿ at n = 2 (60 steps).
    a, b = falling(*[0.5] * 6, steps=30), falling(*[0.9] * 6, steps=1)
    by_steps = judged(to_target(cost="iteration"), a=a, b=b)
    assert by_steps.outcome == "contradicted"
    assert by_steps.evidence.startswith("iterations to objective ≤ 0.5: a 60, b 13.2; 4.56 times ")
    by_time = judged(to_target(cost="latency(100)"), a=a, b=b)
    assert by_time.outcome == "reproduced"
    assert by_time.evidence.startswith(
        "time units (t_comm = 100) to objective ≤ 0.5: a 660, b 3960; 0.167 times "
    )
    uneven = judged(to_target(cost="latency(10, 100)"), a=a, b=b)
    assert uneven.evidence.startswith(
        "time units (t_comm = 10 hub–client, 100 hub–hub) to objective ≤ 0.5: a 300, b 1592; "
    )


def test_means_along_latency():
    score = np.array([[0.0, 0.8, 0.8, 0.8]])
    a = tiered_trace(2 - score, local_steps=30, test_f1=score)  # records at 0, 330, 660, 990
    b = tiered_trace(2 - score, local_steps=1, test_f1=score)  # and at 0, 40, 80, 120
    assert mean_along(a, "test_f1", "latency(1)", 0, 120) == pytest.approx([0.8 * 60 / 330])
    assert mean_along(b, "test_f1", "latency(1)", 0, 120) == pytest.approx([(0.4 + 0.8 * 2) / 3])


# --- figures and tables ---


def composed(figure: Figure, **traces: Any):
    return figure_factory.composed({run: {"p": trace} for run, trace in traces.items()}, figure)


def test_axes_are_named_after_their_latency():
    costs = ("iteration", "latency(100)", "latency(10, 100)")
    canvas = composed(figure_of(measurement="objective", costs=costs), a=falling(0.9, 0.8))
    assert [place.get_xlabel() for place in canvas.axes] == [
        "iterations (sequential gradient steps)",
        "simulated time units, t_comm = 100",
        "simulated time units,\nt_comm = 10 hub–client, 100 hub–hub",
    ]
    ends = [max(line.get_xdata().max() for line in place.lines) for place in canvas.axes]
    assert ends == [300, 30 * 310, 30 * 130]


def test_costs_far_apart_are_drawn_on_a_logarithmic_axis():
    figure = figure_of(measurement="objective", costs=("latency(100)", "iteration"))
    # 30 rounds of one step and one round of 30: 9030 and 330 units, 30 iterations each.
    apart = composed(figure, a=falling(0.9, steps=1), b=falling(0.9, steps=30, records=2))
    assert [place.get_xscale() for place in apart.axes] == ["log", "linear"]
    # 30 rounds each: 9030 and 9900 units, 30 and 900 iterations.
    other = composed(figure, a=falling(0.9, steps=1), b=falling(0.9, steps=30))
    assert [place.get_xscale() for place in other.axes] == ["linear", "log"]


def test_the_table_tells_what_latency_is_made_of():
    points = {"a": {"p": falling(0.9, 0.8)}}
    (row,) = results_table(points, {"a": Choice("p", {})})
    assert (row["iteration_median"], row["hub_client_trips_median"]) == (300, 60)
    assert (row["hub_hub_trips_median"], row["bytes_median"]) == (30, 30 * 875)
