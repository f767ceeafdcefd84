"""Times that vary: against the simulation by events, their laws, and what they do to asynchrony.

Times are drawn here once more, in plain Python, from the keys of the network.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

import fedatlas.federations.vertical.kernels as at
from fedatlas.errors import FedatlasError
from fedatlas.federations.vertical.kernels import draws
from fedatlas.federations.vertical.network import PartyNetwork
from fedatlas.federations.vertical.problem import PartyCounters
from fedatlas.schema.network_model import NetworkModel
from test_vertical_methods import Case, Run, assert_replayed, make_data, replayed

NANOSECONDS = 10**9
#: s: of nanoseconds a multiple of 16, by which the widths of sparse parties divide.
EXACT = 2.0**-5
LAWS: list[dict[str, Any]] = [
    {"kind": "constant"},
    {"kind": "lognormal", "spread": 0.1},
    {"kind": "lognormal", "spread": 1.5},
    {"kind": "shifted_exponential", "fixed": 0.25},
    {"kind": "measured", "times": [1.0, 2.0, 9.0]},
]
VARYING = {"unit": EXACT, "seconds_per_feature": 1.0, "samples": 16, "active": 2}


def uniform(key: int, number: int) -> float:
    """SplitMix64's number, by whole numbers."""
    word = 2**64 - 1
    z = (key + number * 0x9E3779B97F4A7C15) & word
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & word
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & word
    return ((z ^ (z >> 31)) >> 11) / 2**53


def normal(key: int, number: int) -> float:
    first, second = uniform(key, 2 * number), uniform(key, 2 * number + 1)
    return math.sqrt(-2 * math.log(1 - first)) * math.cos(2 * math.pi * second)


def quantiles(
    kind: str, spread: float = 0.0, fixed: float = 0.0, times: Sequence[float] = (1.0,)
) -> list[float]:
    """Equally likely times of mean 1."""
    shares = [(2 * number + 1) / 2**15 for number in range(2**14)]
    if kind == "lognormal":
        times = [math.exp(spread * z) for z in normal_quantiles()]
    if kind == "shifted_exponential":
        times = [fixed - (1 - fixed) * math.log1p(-share) for share in shares]
    mean = math.fsum(times) / len(times)
    return [time / mean for time in times]


@cache
def normal_quantiles() -> list[float]:
    return [NormalDist().inv_cdf((2 * number + 1) / 2**15) for number in range(2**14)]


def factor_of(run: Run):
    """What multiplies the time of a share or an update; None where nothing varies."""
    case, laws = run.case, run.network._time_distributions
    if laws is None:
        return None
    key, slow = (int(key) for key in laws.keys)
    values = quantiles(**case.compute)

    def factor(dominator: int, count: int, party: int, what: str, begins: Any) -> float:
        iteration = count * case.active + dominator
        number = (iteration * case.parties + party) * 2 + (what == "update")
        found = values[int(uniform(key, number) * len(values))]
        if case.drift:
            period, spread = round(case.drift["period"] * NANOSECONDS), case.drift["spread"]
            number = int(begins // period) * case.parties + party
            found *= math.exp(spread * (normal(slow, number) - 0.5 * spread))
        return found

    return factor


def assert_simulated(case: Case, rounds: int) -> Any:
    run = Run(case).round(rounds)
    return assert_replayed(run, factor_of(run), NANOSECONDS)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: "-".join(map(str, law.values())))
@pytest.mark.parametrize("synchronous", [False, True])
@pytest.mark.parametrize("method", ["sgd", "svrg", "saga", "afsvrg-vp"])
def test_times_that_vary_are_simulated_event_by_event(law, synchronous, method):
    case = Case(method, synchronous=synchronous, compute=law, latency=0.5, straggler=1.5, **VARYING)
    assert_simulated(case, 7)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Case, int]:
    parties = draw(st.integers(1, 6), "parties")
    method = draw(st.sampled_from(["sgd", "svrg", "saga", "afsvrg-vp"]))
    active = draw(st.sampled_from([m for m in (1, 2, 4) if m <= parties]), "active")
    drift = None
    if method == "sgd":
        drift = draw(st.sampled_from([None, {"spread": 0.5, "period": 0.25}]))
    case = Case(
        method=method,
        layout=draw(st.sampled_from(["dense", "sparse"])),
        sizes=tuple(draw(st.lists(st.integers(1, 4), min_size=parties, max_size=parties))),
        active=active,
        samples=16,
        synchronous=draw(st.booleans()),
        rounds_per_epoch=draw(st.integers(1, 16)),
        seconds_per_feature=1.0,
        unit=EXACT,
        latency=draw(st.sampled_from([0.0, 0.5, 4.0, 64.0])),
        straggler=draw(st.sampled_from([1.0, 1.5, 4.0])),
        straggler_party=draw(st.one_of(st.none(), st.integers(0, parties - 1))),
        # Passes are divided by threads: powers of two keep them whole.
        threads=draw(st.sampled_from([None, 1, 2, 8])),
        compute=draw(st.sampled_from(LAWS)),
        drift=drift,
        seed=draw(st.integers(0, 1000)),
    )
    return case, draw(st.integers(1, 2 * case.rounds_per_epoch), "rounds")


@settings(max_examples=40, deadline=None, derandomize=True)
@given(cases())
def test_any_network_is_simulated(drawn):
    case, rounds = drawn
    if case.threads is not None and case.method != "sgd":
        case = replace(case, threads=None)  # the reference's passes have m threads
    assert_simulated(case, rounds)


def test_reads_overtake_one_another_and_updates_their_messages():
    # What the comparison above is about does happen.
    case = Case(
        sizes=(4, 2, 3, 1), compute={"kind": "lognormal", "spread": 1.0}, latency=0.5,
        unit=EXACT, seconds_per_feature=1.0, active=4, samples=32,
    )  # fmt: skip
    result = assert_simulated(case, 9)
    read = [[i.answered[party] for i in result.iterations] for party in range(4)]
    assert any((np.diff(np.array(times, float)) < 0).any() for times in read)
    order = [a.iteration for a in result.applications if a.party == 3]
    assert order != sorted(order)
    begun = [i.begun for i in result.iterations]
    assert begun != sorted(begun)


@pytest.mark.parametrize("law", LAWS[1:], ids=lambda law: law["kind"])
def test_moments_of_times(law):
    model = NetworkModel(compute=law)
    network = PartyNetwork(
        make_data(Case()).rows("dense"), Case().spec, 3, model, PartyCounters(), 5
    )
    laws = network._time_distributions
    assert laws is not None
    drawn = np.array([draws.factor(laws.factors, laws.keys[0], k) for k in range(20_000)])
    spread = {
        "lognormal": lambda: math.sqrt(math.expm1(law["spread"] ** 2)),
        "shifted_exponential": lambda: 1 - law["fixed"],
        "measured": lambda: float(np.std([0.25, 0.5, 2.25])),
    }[law["kind"]]()
    assert drawn.mean() == pytest.approx(1, abs=5 * spread / math.sqrt(len(drawn)))
    if law["kind"] == "lognormal":  # the variance of heavy tails converges slowly
        assert np.log(drawn).std() == pytest.approx(law["spread"], rel=0.03)
        assert np.log(drawn).mean() == pytest.approx(-(law["spread"] ** 2) / 2, abs=0.05)
    else:
        assert drawn.std() == pytest.approx(spread, rel=0.03)
    halves = drawn.reshape(-1, 2).T  # shares beside updates
    assert abs(np.corrcoef(halves)[0, 1]) < 0.04


def test_a_drift_holds_for_a_period_and_differs_between_parties():
    key = np.uint64(3)
    found = np.array(
        [[draws.drifted(0.5, 100.0, key, p, 3, t) for t in (0, 99, 100, 199)] for p in range(3)]
    )
    assert (found[:, 0] == found[:, 1]).all() and (found[:, 2] == found[:, 3]).all()
    assert len(set(found.ravel().tolist())) == 6
    many = np.array([draws.drifted(0.5, 1.0, key, 0, 1, t) for t in range(20_000)])
    assert many.mean() == pytest.approx(1, abs=0.02)
    assert np.log(many).std() == pytest.approx(0.5, rel=0.03)


# --------------------------------------------------------------------- what varying times change


def equal_blocks(**more: Any) -> Case:
    usual = {"sizes": (3, 3, 3, 3), "active": 2, "samples": 32, "latency": 0.0}
    return Case(**(usual | more))


def test_equal_blocks_run_in_lock_step_until_times_vary():
    # Without latency and straggler a barrier changes nothing, if all take equally long.
    steady = [Run(equal_blocks(synchronous=mode)).round(6) for mode in (False, True)]
    np.testing.assert_array_equal(steady[0].barrier(), steady[1].barrier())
    law = {"kind": "lognormal", "spread": 0.3}
    varied = [Run(equal_blocks(synchronous=mode, compute=law)).round(6) for mode in (False, True)]
    assert (varied[0].barrier() != varied[1].barrier()).any()
    assert varied[0].counters.simulated_time < varied[1].counters.simulated_time


@pytest.mark.parametrize("synchronous", [False, True])
def test_every_seed_has_times_of_its_own(synchronous):
    case = equal_blocks(synchronous=synchronous, compute={"kind": "lognormal", "spread": 0.3})
    seconds = {Run(case, seed=seed).round(3).counters.simulated_time for seed in range(4)}
    again = {Run(case, seed=seed).round(3).counters.simulated_time for seed in range(4)}
    assert len(seconds) == 4
    assert seconds == again


def test_both_forms_draw_the_same_times():
    case = equal_blocks(compute={"kind": "lognormal", "spread": 0.3}, active=1)
    runs = [Run(replace(case, synchronous=mode)).round(3) for mode in (False, True)]
    took = []
    for run in runs:
        result = replayed(run, factor_of(run), NANOSECONDS)
        took.append([i.summed - i.begun for i in result.iterations])
    assert took[0] == took[1]


def test_rounds_cut_nothing():
    # Dominators that have begun go on across rounds: how often is recorded changes no time.
    case = equal_blocks(samples=30, active=2, compute={"kind": "lognormal", "spread": 0.5})
    data, order = make_data(case), np.random.default_rng(1).integers(30, size=60)
    found = []
    for cuts in ([60], [20, 40, 60], [1, 2, 59, 60]):
        network = PartyNetwork(
            data.rows("dense"), case.spec, 2, case.network, counters := PartyCounters(), 7
        )
        state, start = network.start(data.x0[data.columns]), 0
        for stop in cuts:
            state = network.dominated_updates(
                state, case.algorithm.rule, order[start:stop], order[stop : stop + 1]
            )
            start = stop
        found.append((state.x.tobytes(), counters.simulated_time, counters.tau_1))
    assert len(set(found)) == 1


# ------------------------------------------------------------------------------ cores, stragglers


def test_threads_share_cores_by_hand():
    # Two parties of one feature, r = 1 ns · 1000, no latency, both dominators, one core each.
    # At 0 both ask: the first share takes 1000 at each party, the second 2 · 1000.
    # At 1000 dominator 0 has its sum. Its own update begins beside the other share: 2 · 1000; the
    # collaborator's at party 1 likewise. At 2000 dominator 1 has its sum; each party is busy with
    # one update (until 3000), so that its updates take 2 · 1000, until 4000.
    case = Case(sizes=(1, 1), active=2, latency=0.0, samples=16)
    data = make_data(case)
    model = NetworkModel(seconds_per_feature=1e-6, latency=0.0, cores=1)
    network = PartyNetwork(data.rows("dense"), case.spec, 2, model, PartyCounters(), 7)
    state = network.start(data.x0[data.columns])
    state = network.dominated_updates(state, case.algorithm.rule, np.array([0]), np.array([1]))
    assert state.tally.values[at.LAST_SUM] == 1000
    assert state.queues.own[0, at.TIME] == 3000
    assert state.queues.ring[1, 0, at.TIME] == 3000
    state = network.dominated_updates(state, case.algorithm.rule, np.array([1]))
    assert state.tally.values[at.LAST_SUM] == 2000
    assert state.queues.own[1, at.TIME] == 4000
    assert state.queues.ring[0, 0, at.TIME] == 4000


def test_as_many_cores_as_threads_need_change_nothing():
    free, enough = (
        Run(equal_blocks(compute={"kind": "lognormal", "spread": 0.5})) for _ in range(2)
    )
    assert enough.network._time_distributions is not None
    enough.network._time_distributions = enough.network._time_distributions._replace(
        cores=5.0
    )  # own, 2 threads, 2 shares
    free.round(5), enough.round(5)
    np.testing.assert_array_equal(free.x, enough.x)
    assert free.counters == enough.counters
    few = Run(equal_blocks(compute={"kind": "lognormal", "spread": 0.5}))
    few.network._time_distributions = few.network._time_distributions._replace(cores=1.0)
    assert few.round(5).counters.simulated_time > 1.3 * free.counters.simulated_time


def test_passes_take_what_cores_and_drifts_allow():
    case = Case("saga", sizes=(4, 2), active=2, latency=0.0)
    usual = Run(case).counters.simulated_time
    slow = Run(replace(case, drift={"spread": 0.5, "period": 1e6}))
    laws = slow.network._time_distributions
    drifts = [draws.drifted(0.5, 1e15, laws.keys[1], party, 2, 0.0) for party in range(2)]
    expected = usual * max(4 * drifts[0], 2 * drifts[1]) / 4
    assert slow.counters.simulated_time == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("party", [0, 1, 3])
def test_the_straggler_has_a_place(party):
    case = equal_blocks(straggler=3.0, straggler_party=party)
    work = Run(case).network._timing.work
    assert work[party] == 3 * work[(party + 1) % 4]
    assert sorted(work)[-2] == work[(party + 1) % 4]


def test_one_party_is_a_straggler_only_if_named():
    alone = equal_blocks(sizes=(3,), active=1, straggler=3.0)
    named = replace(alone, straggler_party=0)
    work = [Run(case).network._timing.work[0] for case in (alone, named)]
    assert work[1] == 3 * work[0]


def test_networks_that_make_no_sense_are_refused():
    message = "network: straggler_party: 4 is none of 4 parties, counted from 0"
    with pytest.raises(FedatlasError, match=message):
        Run(equal_blocks(straggler_party=4))
    for wrong in (
        {"compute": {"kind": "lognormal"}},
        {"compute": {"kind": "lognormal", "spread": -1}},
        {"compute": {"kind": "shifted_exponential", "fixed": 1.1}},
        {"compute": {"kind": "measured", "times": []}},
        {"compute": {"kind": "measured", "times": [1.0, 0.0]}},
        {"compute": {"kind": "normal"}},
        {"drift": {"spread": 0.1, "period": 1e-10}},
        {"cores": 0},
    ):
        with pytest.raises(ValidationError):
            NetworkModel.model_validate(wrong)
