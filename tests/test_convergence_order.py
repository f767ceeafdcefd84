"""The order of convergence: what idealised curves leave in the late half of their span."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedatlas.evaluation.claims.convergence_order import falls
from test_judge import verdict
from trace_factory import linear_trace, vertical_trace

NAN = np.nan
EPOCHS = 50.0
TIMES = np.linspace(0, EPOCHS, 101)


def order(name: str) -> dict[str, Any]:
    return {"kind": "convergence_order", "run": "a", "order": name}


def curves(levels: np.ndarray, noise: float = 0.0, seeds: int = 5):
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
    "slow exponential": -0.5 - 0.05 * TIMES,
}
SUBLINEAR = {
    "1/t over one decade": power_law(1.5),
    "1/t over three decades": power_law(3),
    "1/√t": power_law(1.5, 0.5),
    "1/t²": power_law(3, 2),
    "plateau": np.maximum(-0.5 - 0.2 * TIMES, -2.5),
    "early plateau": np.maximum(-0.5 - 1.0 * TIMES, -1.5),
}


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("name", [*LINEAR, *SUBLINEAR])
def test_idealised_curves_are_told_apart(name, noise):
    trace = curves((LINEAR | SUBLINEAR)[name], noise)
    expected = ["reproduced", "not reproduced"]
    if name in SUBLINEAR:
        expected.reverse()
    found = [verdict(order(kind), a=trace).verdict for kind in ("linear", "sublinear")]
    assert found == expected


def test_the_share_agrees_with_a_fit_by_numpy():
    levels = power_law(2.5)
    (fall,) = falls(curves(levels, seeds=1))
    assert fall is not None
    late = TIMES > EPOCHS / 2
    slope, intercept = np.polyfit(TIMES[late], levels[late], 1)
    end, middle = slope * EPOCHS + intercept, slope * EPOCHS / 2 + intercept
    assert fall.late == pytest.approx(middle - end)
    assert fall.early == pytest.approx(levels[0] - middle)
    assert fall.share == pytest.approx((middle - end) / (levels[0] - end))


@given(rate=st.floats(0.05, 2.0), records=st.integers(12, 80))
def test_exact_exponentials_leave_half_wherever_their_span_ends(rate, records):
    (fall,) = falls(linear_trace([rate], records=records))
    assert fall is not None
    assert np.isnan(fall.early) or fall.share == pytest.approx(0.5)
    assert fall.end > -9


def test_the_span_ends_where_the_run_has_converged():
    (fall,) = falls(curves(np.maximum(-1 - 0.4 * TIMES, -12.0), seeds=1))
    assert fall is not None
    assert fall.epochs == 19.5  # the last record before 1e-9
    assert fall.end == pytest.approx(-8.8)


def test_evidence_gives_both_rates_and_the_level_reached():
    found = verdict(order("linear"), a=linear_trace([0.1] * 3))
    # 41 records over 20 epochs, a tenth of a decade each
    assert found.evidence == (
        "a: 0.2 decades per update epoch early, 0.2 late, to 3e-05 by 20; "
        "late share 0.5 (95 % 0.5 to 0.5), claimed at least 0.25"
    )


def test_a_run_that_has_hardly_fallen_is_not_called_linear():
    for kind in ("linear", "sublinear"):
        found = verdict(order(kind), a=curves(power_law(0.3)))
        assert found.verdict == "inconclusive"
        assert found.evidence.endswith("0.3 decades are too few to tell, 2 are needed")


def test_too_few_records_are_inconclusive_with_the_reason():
    found = verdict(order("linear"), a=linear_trace([3.0] * 3))
    assert found.verdict == "inconclusive"
    assert found.evidence == (
        "a: a span of 1 update epochs holds fewer than 4 records in a half; record more often"
    )
    converged = verdict(order("linear"), a=vertical_trace(np.full((2, 9), 1e-12)))
    assert converged.verdict == "inconclusive"


def test_seeds_that_do_not_converge_have_no_order():
    rising = vertical_trace(np.linspace([0.1] * 3, [0.2] * 3, 41).T)
    lost = vertical_trace(np.full((3, 41), NAN))
    for kind in ("linear", "sublinear"):
        assert verdict(order(kind), a=rising).verdict == "not reproduced"
        found = verdict(order(kind), a=lost)
        assert (found.verdict, found.evidence) == ("not reproduced", "a: no seed fell")
    values = 0.3 * 10 ** (-0.1 * np.arange(41)) * np.ones((3, 1))
    values[1, 20:] = NAN
    assert verdict(order("linear"), a=vertical_trace(values)).verdict == "inconclusive"
