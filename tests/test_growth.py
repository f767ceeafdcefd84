"""Claims about rates: rounds against the number of clients, and against accuracy."""

import numpy as np
import pytest
from pydantic import ValidationError

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.slope import SlopeTest
from fedatlas.evaluation.levels import Crossings, best_by_others
from judging import verdict
from trace_factory import make_trace

SPREAD = np.array([0.96, 0.98, 0.99, 1.01, 1.02, 1.04])
COUNTS = (100, 200, 400, 800)


def falling(rounds_to_half, *, clients: int = 100):
    """‖∇f‖ = 1/(1 + r/t), which has fallen by half after t rounds; t by seed."""
    times = np.asarray(rounds_to_half, dtype=float)[:, None]
    schedule = np.linspace(0, 2000, 2001)
    return make_trace(1 / (1 + schedule / times), clients=clients, schedule=schedule)


def series(power: float, base: float = 20.0, **more):
    """Runs whose rounds to a half grow as clients to a power."""
    names = "abcd" if not more else "efgh"
    return {
        name: falling(base * (count / 100) ** power * SPREAD, clients=count)
        for name, count in zip(names, COUNTS, strict=True)
    }


def growth(power: float, **more):
    return {
        "kind": "growth",
        "series": tuple("abcd"),
        "measurement": "gradient_norm",
        "target": 0.5,
        "power": power,
        **more,
    }


@pytest.mark.parametrize(
    ("true", "claimed", "expected"),
    [
        (0.5, 0.5, "reproduced"),
        (0.3, 0.5, "reproduced"),  # theorems bound from above
        (0.7, 0.5, "contradicted"),
        (0.55, 0.5, "reproduced"),  # within 0.1
        (2 / 3, 0.6667, "reproduced"),
    ],
)
def test_growth_with_clients_against_the_theorems_power(true, claimed, expected):
    found = verdict(growth(claimed), **series(true))
    assert found.outcome == expected
    assert found.effect.estimate == pytest.approx(claimed - true, abs=0.01)
    assert "100 clients 20" in found.evidence


def test_growth_against_that_of_another_method():
    runs = series(0.5) | series(2 / 3, other=True)
    compared = growth(1, compare_with=tuple("efgh"))
    assert verdict(compared, **runs).outcome == "reproduced"
    turned = growth(1, series=tuple("efgh"), compare_with=tuple("abcd"))
    assert verdict(turned, **runs).outcome == "contradicted"


def test_growth_needs_clients_that_rise():
    runs = series(0.5)
    with pytest.raises(FedatlasError, match="list runs by rising number of clients"):
        verdict(growth(0.5, series=tuple("bacd")), **runs)
    short = {
        name: falling(SPREAD * 1e5, clients=count)
        for name, count in zip("abcd", COUNTS, strict=True)
    }
    assert verdict(growth(0.5), **short).outcome == "not testable"
    with pytest.raises(ValidationError, match="compare_with needs a run for each"):
        SlopeTest(**growth(0.5, compare_with=("e",)))


def rate(power: float, targets=(0.2, 0.1, 0.05)):
    return {"kind": "rate", "run": "a", "targets": targets, "power": power}


@pytest.mark.parametrize(
    ("true", "claimed", "expected"),
    [
        (1.0, 1.0, "reproduced"),
        (0.5, 2.0, "reproduced"),
        (0.5, 1.0, "contradicted"),
        (2.0, 1.0, "reproduced"),
    ],
)
def test_growth_with_accuracy_against_the_theorems_power(true, claimed, expected):
    """‖∇f‖ ~ r^(-true): rounds to ε grow as ε^(-1/true)."""
    schedule = np.linspace(0, 2000, 2001)
    start = (2 if true < 1 else 50) * SPREAD[:, None]
    trace = make_trace((np.maximum(schedule, start) / start) ** -true, schedule=schedule)
    found = verdict(rate(claimed), a=trace)
    assert found.outcome == expected
    assert found.effect.estimate == pytest.approx(claimed - 1 / true, abs=0.05)
    assert "ε = 0.1 " in found.evidence


def test_targets_must_fall_and_be_met():
    with pytest.raises(ValidationError, match="targets: must fall"):
        SlopeTest(**rate(1, (0.1, 0.2)))
    never = falling(1e6 * SPREAD)
    assert "the budget is too small" in verdict(rate(1), a=never).evidence
    assert "it starts there" in verdict(rate(1, (2.0, 0.5)), a=falling(SPREAD)).evidence


def swept(steps=(0.04, 0.02, 0.01, 0.005)):
    """At step γ the level falls as exp(−γ r) to a floor of 5 γ: ε needs γ ∝ ε."""
    schedule = np.arange(2001)
    return [
        make_trace(
            np.exp(-step * schedule * SPREAD[:, None]) + 5 * step,
            schedule=schedule,
            step=step,
            point=f"step-{step}",
        )
        for step in steps
    ]


def test_each_target_may_have_its_own_best_step():
    """Rounds are 1/γ log(1/ε) with γ ∝ ε."""
    declared = rate(1, (0.4, 0.2, 0.1)) | {"points": "best", "logarithm": True}
    found = verdict(declared, a=swept())
    assert found.outcome == "reproduced" and "not tuned" not in found.evidence
    # 5 γ must lie below ε, and by as much as costs least.
    assert "with step 0.04, an edge of its grid" in found.evidence
    assert "with step 0.02, ε" in found.evidence and "with step 0.01;" in found.evidence
    # One step for all targets misses the lowest, or takes its time.
    (best,) = [best for best in swept() if best.attrs["point"] == "step-0.04"]
    assert "the budget is too small" in verdict(rate(1, (0.4, 0.2, 0.1)), a=best).evidence


def test_no_seed_chooses_its_own_point():
    costs = {
        "fast but for one": np.array([0.0, 0.0, 0.0, 9.0]),
        "slow": np.array([1.0, 1.0, 1.0, 1.0]),
        "never": np.full(4, np.inf),
    }
    found, chosen = best_by_others([Crossings(cost, cost, cost) for cost in costs.values()])
    assert chosen.tolist() == [0, 0, 0, 0] and found.cost.tolist() == [0, 0, 0, 9]


def test_averaged_levels_are_root_mean_squares_so_far():
    """‖∇f‖² = 1 until r = 10 and 0 from there on: its mean is 10/r."""
    schedule = np.arange(2001)
    squares = np.where(schedule < 10, 1.0, 0.0)
    trace = make_trace(np.sqrt(squares) * np.ones((6, 1)), schedule=schedule)
    found = verdict(rate(2, (0.4, 0.2, 0.1)) | {"averaged": True}, a=trace)
    assert found.effect.estimate == pytest.approx(0, abs=0.01)
    assert "mean gradient_norm" in found.evidence
