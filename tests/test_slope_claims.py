"""Slopes of costs over sizes and targets: against theorems' powers, and against other methods."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.slope import SlopeTest
from fedatlas.evaluation.levels import Crossings, best_by_others, cost_to_reach
from judging import verdict
from trace_factory import falling_trace, linear_trace, make_trace, vertical_trace

SPREAD = np.array([0.96, 0.98, 0.99, 1.01, 1.02, 1.04])
PARTIES = (1, 2, 4, 8)
PACE = np.array([0.97, 0.98, 0.99, 1.01, 1.02, 1.03])
SEEDS = len(PACE)


def runs(name: str, power: float, parties: tuple[int, ...] = PARTIES, spread: float = 1.0):
    """Runs whose seconds per epoch go as parties ** power, a little otherwise for each seed."""
    random = np.random.default_rng(3)
    return {
        f"{name}{count}": linear_trace(
            [0.01] * SEEDS,
            records=401,
            run=f"{name}{count}",
            parties=count,
            seconds_per_epoch=10.0 * count**power * PACE ** (spread * random.normal()),
        )
        for count in parties
    }


def scaling(*series: str, **more: Any) -> dict[str, Any]:
    return {"kind": "scaling", "series": list(series), **more}


@pytest.mark.parametrize(
    ("power", "expected"),
    [
        (-0.95, "reproduced"),
        (-1.1, "reproduced"),
        (-0.8, "undecided"),
        (-0.4, "contradicted"),
        (-1.4, "contradicted"),  # more than near linear
    ],
)
def test_near_linear_speed_up(power, expected):
    series = runs("a", power)
    found = verdict(scaling(*series), **series)
    assert found.outcome == expected
    assert found.evidence.startswith(
        "simulated seconds to suboptimality ≤ 0.001: 1 party 124, 2 parties "
    )
    assert f"; slope {power:.1f}" in found.evidence or expected != "contradicted"
    assert "), near -1 claimed; closer than 0.2 is near" in found.evidence


@settings(max_examples=30, deadline=None)
@given(power=st.floats(-1.5, 0.5))
def test_the_slope_is_that_of_numpy_by_seed(power):
    series = runs("a", power)
    costs = [cost_to_reach(run, "suboptimality", "simulated_time", -3) for run in series.values()]
    slopes = np.polyfit(np.log(PARTIES), np.log(costs), 1)[0]
    effect = verdict(scaling(*series), **series).effect
    assert effect is not None
    assert effect.estimate == pytest.approx(-1 - np.median(slopes))
    assert (effect.unit, effect.seeds) == ("slope", SEEDS)


def test_one_series_against_another():
    fast, slow, nearly = runs("a", -0.95), runs("b", -0.7), runs("c", -0.91)
    found = verdict(scaling(*fast, compare_with=list(slow)), **fast, **slow)
    assert found.outcome == "reproduced"
    assert "; slope 0.25 lower than theirs (0.2" in found.evidence
    assert "; a difference of 0.1 counts" in found.evidence
    back = verdict(scaling(*slow, compare_with=list(fast)), **fast, **slow)
    assert back.outcome == "contradicted"
    same = verdict(scaling(*fast, compare_with=list(fast)), **fast)
    assert same.outcome == "no difference"
    slightly = verdict(scaling(*fast, compare_with=list(nearly)), **fast, **nearly)
    assert slightly.outcome == "smaller than claimed"
    small = scaling(*fast, compare_with=list(nearly), smallest_effect=0.01)
    assert verdict(small, **fast, **nearly).outcome == "reproduced"


def test_a_seed_that_never_reaches_the_target_is_infinitely_slow():
    series = runs("a", -0.95)
    series["a8"] = linear_trace([0.1, 0.1, 0.001, 0.1, 0.1, 0.1], run="a8", parties=8)
    found = verdict(scaling(*series), **series)
    assert found.outcome == "undecided"
    assert "8 parties 12.4 (5 of 6 seeds)" in found.evidence
    series["a8"] = linear_trace([0.001] * SEEDS, run="a8", parties=8)
    found = verdict(scaling(*series), **series)
    assert found.outcome == "not testable"  # too small a budget is no refutation
    assert "8 parties none (0 of 6 seeds); no seed arrives within the budget" in found.evidence
    other = runs("b", -0.1)
    found = verdict(scaling(*other, compare_with=list(series)), **series, **other)
    assert found.outcome == "not testable"  # it might have arrived a little later


def test_records_too_far_apart_do_not_tell():
    def coarse(count: int, late: float):
        """Ten records; the target is met early or late between the sixth and the seventh."""
        values = np.repeat(
            [[1, 0.5, 0.3, 0.1, 0.05, 0.02, 1e-3 * 10 ** (-late), *[1e-6] * 3]], 6, 0
        )
        return vertical_trace(
            values, run=f"a{count}", parties=count, epochs=9.0, seconds_per_epoch=1 / count
        )

    series = {f"a{count}": coarse(count, 0.1) for count in (4, 5)}
    found = verdict(scaling(*series), **series)
    assert found.outcome == "not testable"
    told = "; below resolution: records are too far apart to tell; up to"
    assert (
        f"{told} 10 of a4, 10 of a5 rounds lie between; record_every: 1 would tell"
        in found.evidence
    )
    wide = {f"a{count}": coarse(count, 0.1) for count in (1, 2, 4, 16)}
    assert verdict(scaling(*wide), **wide).outcome == "reproduced"


def test_a_target_met_before_the_first_record_is_not_resolved():
    at_once = np.repeat([[1.0, *[1e-5] * 20]], SEEDS, 0)
    series = {
        f"a{count}": vertical_trace(
            at_once, run=f"a{count}", parties=count, seconds_per_epoch=1 / count
        )
        for count in PARTIES
    }
    found = verdict(scaling(*series), **series)
    assert found.outcome == "not testable"
    assert "below resolution" in found.evidence
    at_start = verdict(scaling(*series, target=1.5), **series)
    assert (at_start.outcome, "; one run starts there" in at_start.evidence) == (
        "not testable",
        True,
    )


def test_a_verdict_that_hangs_on_the_target_is_fragile():
    steady = np.linspace(0, -4, 101)
    uneven = np.concatenate(  # as soon at 0.001, much sooner at 0.003
        [np.linspace(0, -2.55, 21), np.linspace(-2.55, -3, 56)[1:], np.linspace(-3, -4, 26)[1:]]
    )
    series = {
        f"a{count}": vertical_trace(
            10.0 ** np.repeat([levels], SEEDS, axis=0),
            run=f"a{count}",
            parties=count,
            seconds_per_epoch=8 / count,
        )
        for count, levels in ((1, steady), (8, uneven))
    }
    found = verdict(scaling(*series), **series)
    assert found.outcome == "reproduced"
    assert found.fragile == "contradicted at three times the target"


def test_runs_that_do_not_make_a_series_are_errors():
    series = runs("a", -1)
    with pytest.raises(FedatlasError, match="2, 1 parties: list runs by rising number"):
        verdict(scaling("a2", "a1"), **series)
    with pytest.raises(FedatlasError, match="1, None parties: list runs by rising number"):
        verdict(scaling("a1", "s"), **series, s=falling_trace([0.5] * SEEDS, run="s"))


def test_scaling_to_a_target_accuracy():
    def series(parties: int):
        accuracy = np.linspace([0.5] * SEEDS, [0.9] * SEEDS, 41).T
        pace = {"parties": parties, "seconds_per_epoch": 8 / parties}
        falling = np.linspace([1] * SEEDS, [0.1] * SEEDS, 41).T
        return vertical_trace(falling, test_accuracy=accuracy, **pace)

    test = {**scaling("a", "b"), "measurement": "test_accuracy", "target": 0.69}
    # 0.69 is met by the 19th record after the start: 9.5 epochs of 8 and 4 seconds.
    found = verdict(test, a=series(1), b=series(2))
    assert found.outcome == "reproduced"
    assert found.evidence.startswith(
        "simulated seconds to test_accuracy ≥ 0.69: 1 party 76, 2 parties 38; slope -1 "
    )
    declared = SlopeTest.model_validate(test)
    assert SlopeTest.model_validate_json(declared.model_dump_json()) == declared


# --- growth and rates ---

COUNTS = (100, 200, 400, 800)


def halving(rounds_to_half, *, clients: int = 100, **options):
    """‖∇f‖ = 1/(1 + r/t), which has fallen by half after t rounds; t by seed."""
    times = np.asarray(rounds_to_half, dtype=float)[:, None]
    schedule = np.linspace(0, 2000, 2001)
    return make_trace(1 / (1 + schedule / times), clients=clients, schedule=schedule, **options)


def series(power: float, base: float = 20.0, **more):
    """Runs whose rounds to a half grow as clients to a power."""
    names = "abcd" if not more else "efgh"
    return {
        name: halving(base * (count / 100) ** power * SPREAD, clients=count)
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


def test_growth_with_the_clients_of_a_round():
    runs = {
        name: halving(200 * count**power * SPREAD, hyper_parameters={"clients_per_round": count})
        for names, power in (("abc", -0.95), ("efg", -2 / 3))
        for name, count in zip(names, (1, 2, 4), strict=True)
    }
    own = growth(-1, series=tuple("abc"), size="sampled")
    found = verdict(own, **runs)
    assert found.outcome == "reproduced" and "1 sampled 200, 2 sampled" in found.evidence
    assert found.effect.estimate == pytest.approx(-0.05, abs=0.01)
    third = own | {"compare_with": tuple("efg"), "smallest_effect": 0.2333}
    assert verdict(third, **runs).outcome == "reproduced"
    assert verdict(third | {"smallest_effect": 0.4}, **runs).outcome == "smaller than claimed"
    with pytest.raises(FedatlasError, match="by rising number of sampled"):
        verdict(own | {"series": tuple("bac")}, **runs)


def test_growth_with_local_steps():
    runs = {
        name: halving(200 * steps**-0.5 * SPREAD, hyper_parameters={"local_steps": steps})
        for name, steps in zip("abc", (1, 2, 4), strict=True)
    }
    found = verdict(growth(-0.5, series=tuple("abc"), size="local_steps"), **runs)
    assert found.outcome == "reproduced" and "1 local step 200, 2 local steps" in found.evidence


def test_growth_needs_clients_that_rise():
    runs = series(0.5)
    with pytest.raises(FedatlasError, match="list runs by rising number of clients"):
        verdict(growth(0.5, series=tuple("bacd")), **runs)
    short = {
        name: halving(SPREAD * 1e5, clients=count)
        for name, count in zip("abcd", COUNTS, strict=True)
    }
    assert verdict(growth(0.5), **short).outcome == "not testable"


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


def test_targets_must_be_met():
    never = halving(1e6 * SPREAD)
    assert "no seed arrives within the budget" in verdict(rate(1), a=never).evidence
    assert "it starts there" in verdict(rate(1, (2.0, 0.5)), a=halving(SPREAD)).evidence


def swept(steps=(0.08, 0.04, 0.02, 0.01, 0.005)):
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
    assert "with step 0.04, ε" in found.evidence
    assert "with step 0.02, ε" in found.evidence and "with step 0.01;" in found.evidence
    # One step for all targets misses the lowest, or takes its time.
    (best,) = [best for best in swept() if best.attrs["point"] == "step-0.04"]
    assert "no seed arrives within the budget" in verdict(rate(1, (0.4, 0.2, 0.1)), a=best).evidence


def test_a_rate_that_is_read_at_an_edge_of_a_grid_is_not_testable():
    declared = rate(1, (0.4, 0.2, 0.1)) | {"points": "best", "logarithm": True}
    edge = verdict(declared, a=swept((0.04, 0.02, 0.01, 0.005)))
    assert edge.outcome == "not testable"
    assert "with step 0.04, an edge of its grid, ε" in edge.evidence
    assert edge.evidence.endswith("; a step beyond the edge may be better")
    chosen = verdict(rate(1, (0.4, 0.2)), a=swept((0.02, 0.01)))
    assert chosen.outcome == "not testable"
    assert "another step, beyond the edge, may have another rate" in chosen.evidence


def test_only_the_side_towards_the_limit_turns_a_rate():
    """Costs of 1/ε down to 0.03, and of 1/ε² below: a third of the targets has another rate."""
    schedule = np.arange(1, 20001)
    early, late = 10 / schedule, 0.03 * np.sqrt(10 / 0.03 / schedule)
    values = np.where(early > 0.03, early, late)
    bent = make_trace(values * SPREAD[:, None], schedule=schedule)
    inside = verdict(rate(1, (0.3, 0.1)), a=bent)
    assert (inside.outcome, inside.fragile) == ("reproduced", "")  # a third is 0.033
    near = verdict(rate(1, (0.2, 0.05)), a=bent)
    assert near.outcome == "not testable"
    assert "decides: contradicted at a third of the target" in near.evidence
    later = verdict(rate(1, (0.02, 0.01)), a=bent)
    assert (later.outcome, later.fragile) == ("contradicted", "")  # though three times is better


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
    assert "root mean square of gradient_norm" in found.evidence


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (scaling("a1"), "at least 2"),
        (scaling("a1", "a2", compare_with=["b1"]), "compare_with needs a run for each"),
        (scaling("a", "b", measurement="test_accuracy"), "needs a 'target' of its own"),
        (scaling("a", "b", power=-1), "Extra inputs"),
        (growth(0.5, compare_with=("e",)), "compare_with needs a run for each"),
        (rate(1, (0.1, 0.2)), "targets: must fall"),
        (rate(-1), "power: -1 must be above 0"),
    ],
)
def test_slopes_that_make_no_sense_are_refused(test, message):
    with pytest.raises(ValidationError, match=message):
        SlopeTest.model_validate(test)
