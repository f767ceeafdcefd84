"""The order of convergence: which of two idealised curves fits better."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from fedatlas.evaluation.claims.one_run import fits
from judging import verdict
from trace_factory import linear_trace, vertical_trace

NAN = np.nan
EPOCHS = 50.0
TIMES = np.linspace(0, EPOCHS, 101)
SEEDS = 6


def order(name: str, **more: Any) -> dict[str, Any]:
    return {"kind": "convergence_order", "run": "a", "order": name, **more}


def curves(levels: np.ndarray, noise: float = 0.0, seeds: int = SEEDS):
    """A run whose seeds follow log10 levels (records,) with noise about them, but for the start."""
    random = np.random.default_rng(11)
    noisy = levels + noise * random.normal(size=(seeds, len(levels)))
    noisy[:, 0] = levels[0]
    return vertical_trace(10.0**noisy, epochs=EPOCHS)


def power_law(decades: float, power: float = 1.0) -> np.ndarray:
    """1/(t + c)^power that falls by the given decades over the span."""
    offset = EPOCHS / (10 ** (decades / power) - 1)
    return -0.5 - power * np.log10(1 + TIMES / offset)


def quick_then_linear(quick: float, steady: float) -> np.ndarray:
    return -0.5 - quick * (1 - np.exp(-TIMES)) - steady * TIMES / EPOCHS


LINEAR = {
    "exponential": -0.5 - 0.1 * TIMES,
    "exponential, converged half-way": np.maximum(-0.5 - 0.4 * TIMES, -10),
    "quick first phase, then exponential": quick_then_linear(2, 6),
    "quick first phase of half the decades": quick_then_linear(4, 4),
    "slow exponential": -0.5 - 0.05 * TIMES,
}
SUBLINEAR = {
    "1/t over one decade": power_law(1.5),
    "1/t over three decades": power_law(3),
    "1/√t": power_law(1.5, 0.5),
    "1/t²": power_law(3, 2),
    "plateau": np.maximum(-0.5 - 0.2 * TIMES, -2.5),
    "early plateau": np.maximum(-0.5 - 1.0 * TIMES, -2.0),
}


#: Curves that change on the way: what would contradict a claim depends on the budget.
TURNING = [
    ("quick first phase of half the decades", 0.0),
    ("quick first phase of half the decades", 0.1),
    ("plateau", 0.0),
    ("early plateau", 0.0),
    ("early plateau", 0.1),
]


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("name", [*LINEAR, *SUBLINEAR])
def test_idealised_curves_are_told_apart(name, noise):
    trace = curves((LINEAR | SUBLINEAR)[name], noise)
    expected = ["reproduced", "contradicted"]
    if name in SUBLINEAR:
        expected.reverse()
    if (name, noise) in TURNING:
        expected[expected.index("contradicted")] = "not testable"
    found = [verdict(order(kind), a=trace).outcome for kind in ("linear", "sublinear")]
    assert found == expected


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_power_laws_of_the_iteration_are_sublinear_however_often_they_are_recorded(power):
    """k^-p with iterations counted from 1, 400 of them in an update epoch."""
    for records in (12, 101, 1001):
        times = np.linspace(0, EPOCHS, records)
        values = np.repeat(0.3 * (1 + 400 * times[None]) ** -power, SEEDS, axis=0)
        trace = vertical_trace(np.maximum(values, 1e-10), epochs=EPOCHS)
        assert verdict(order("sublinear"), a=trace).outcome == "reproduced"


@pytest.mark.parametrize(("decades", "power"), [(2.5, 1.0), (1.5, 0.5), (3.0, 2.0)])
def test_the_fits_agree_with_those_of_scipy(decades, power):
    levels = power_law(decades, power) + 0.05 * np.random.default_rng(1).normal(size=len(TIMES))
    (fit,) = fits(vertical_trace(10.0 ** levels[None], epochs=EPOCHS))
    assert fit is not None
    slope, intercept = np.polyfit(TIMES, levels, 1)
    assert fit.rate == pytest.approx(-slope)
    straight = np.mean((levels - slope * TIMES - intercept) ** 2)

    def law(times: np.ndarray, level: float, power: float, log_offset: float) -> np.ndarray:
        return level - power * np.log10(times + 10**log_offset)

    bounds = ([-20, 0, np.log10(EPOCHS) - 4], [20, 2, np.log10(EPOCHS)])
    found, _ = optimize.curve_fit(law, TIMES, levels, p0=[-1, power, 0], bounds=bounds)
    curved = np.mean((levels - law(TIMES, *found)) ** 2)
    assert fit.power == pytest.approx(found[1], rel=0.1)
    assert fit.advantage == pytest.approx(0.5 * np.log10(curved / straight), abs=0.01)


@given(rate=st.floats(0.05, 2.0), records=st.integers(12, 80))
def test_exact_exponentials_are_exact_wherever_their_span_ends(rate, records):
    (fit,) = fits(linear_trace([rate], records=records))
    assert fit is not None
    assert fit.end > -9
    # Records are 20 epochs over the number of intervals apart.
    if fit.records > 2:
        assert fit.rate == pytest.approx(rate * (records - 1) / 20)
        assert fit.advantage > 1


@given(unit=st.floats(1e-3, 1e3))
def test_the_unit_of_the_cost_changes_nothing(unit):
    levels = quick_then_linear(2, 4)[None]
    (one,) = fits(vertical_trace(10.0**levels, epochs=EPOCHS))
    (other,) = fits(vertical_trace(10.0**levels, epochs=EPOCHS * unit))
    assert one is not None and other is not None
    assert other.advantage == pytest.approx(one.advantage, abs=1e-9)


def test_the_span_ends_where_the_run_has_converged():
    (fit,) = fits(curves(np.maximum(-1 - 0.4 * TIMES, -12.0), seeds=1))
    assert fit is not None
    assert fit.epochs == 19.5  # the last record before 1e-9
    assert fit.end == pytest.approx(-8.8)


def test_evidence_gives_both_fits_and_the_level_reached():
    found = verdict(order("linear"), a=curves(-0.5 - 0.06 * TIMES, 0.05))
    assert found.evidence.startswith(
        "a: exponential of 0.0602 decades per update epoch, power law of exponent -2, "
    )
    assert " of the power law (0." in found.evidence
    assert "; a factor of 1.05 counts" in found.evidence
    assert found.effect is not None
    assert found.effect.smallest == pytest.approx(np.log10(1.05))
    strict = verdict(order("linear", smallest_effect=1e9), a=curves(-0.5 - 0.06 * TIMES, 0.05))
    assert strict.outcome == "smaller than claimed"


def test_a_budget_that_decides_makes_an_order_not_testable():
    """A quick first phase bends a curve that is an exponential in the limit."""
    outcomes = {}
    for epochs in (20, 40, 100):
        times = np.linspace(0, epochs, 41)
        levels = np.maximum(-0.5 - 2 * (1 - np.exp(-times / 2)) - 0.1 * times, -9.9)
        spread = np.linspace(0, 0.02, SEEDS)[:, None] * np.sin(times)
        trace = vertical_trace(10.0 ** (levels + spread), epochs=epochs)
        outcomes[epochs] = verdict(order("linear"), a=trace)
    assert outcomes[20].outcome == "not testable"
    assert "the budget decides: at half of it that was " in outcomes[20].evidence
    assert outcomes[100].outcome == "reproduced"
    steady = verdict(order("linear"), a=curves(-0.5 - 0.1 * TIMES, 0.05))
    assert (steady.outcome, steady.fragile) == ("reproduced", "")


@pytest.mark.parametrize("name", ["linear", "sublinear"])
@pytest.mark.parametrize("levels", [power_law(0.3), -0.5 + 0 * TIMES])
def test_a_run_that_has_hardly_fallen_is_not_testable(name, levels):
    found = verdict(order(name), a=curves(levels, 0.05))
    assert found.outcome == "not testable"
    assert "decades; 1 or more tell the two apart" in found.evidence


def test_noise_about_an_exponential_of_few_records_is_told_with_few_errors():
    """At an even chance of either order neither is called surely better too often."""
    random = np.random.default_rng(5)
    outcomes = []
    for _ in range(100):
        # Half the seeds follow one curve, half the other: the median favours neither.
        levels = np.where(random.random((SEEDS, 1)) < 0.5, -0.5 - 0.05 * TIMES, power_law(2.5))
        levels = levels + 0.05 * random.normal(size=levels.shape)
        levels[:, 0] = -0.5
        trace = vertical_trace(10.0**levels, epochs=EPOCHS)
        outcomes.append(verdict(order("linear"), a=trace).outcome)
    # All six alike with chance 1/64 a side.
    assert outcomes.count("reproduced") <= 5
    assert outcomes.count("contradicted") <= 5


def test_too_few_records_are_not_testable_with_the_reason():
    found = verdict(order("linear"), a=linear_trace([3.0] * SEEDS))
    assert found.outcome == "not testable"
    assert "a: a span of 3 records, 8 are needed; record more often" in found.evidence


def test_seeds_that_do_not_converge_have_no_order():
    rising = vertical_trace(np.linspace([0.1] * SEEDS, [0.2] * SEEDS, 41).T)
    lost = vertical_trace(np.full((SEEDS, 41), NAN))
    for kind in ("linear", "sublinear"):
        for trace in (rising, lost):
            found = verdict(order(kind), a=trace)
            assert found.outcome == "contradicted"
            assert found.evidence.startswith("a: no seed falls; ")


@pytest.mark.parametrize(("seeds", "outcome"), [(6, "undecided"), (9, "reproduced")])
def test_a_lost_seed_counts_as_a_rank(seeds, outcome):
    values = 0.3 * 10 ** (-0.1 * np.arange(41)) * np.ones((seeds, 1))
    values[1, 20:] = NAN
    assert verdict(order("linear"), a=vertical_trace(values)).outcome == outcome
