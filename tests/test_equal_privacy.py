"""Equal ε: the accountant against closed forms and plain sums, the attack, and the page."""

import sys
from math import exp
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom, laplace, norm

from fedatlas.algorithms.gaussian_gradient_descent import GaussianGradientDescent
from fedatlas.errors import FedatlasError
from fedatlas.privacy.accountants import fresh_laplace, gaussian_tight
from fedatlas.privacy.profiles import (
    Binomial,
    Gaussian,
    Laplace,
    most_detected,
    pair_epsilon,
    smallest_noise,
    tight_epsilon,
)
from fedatlas.privacy.sampled_gaussian import SampledGaussian
from fedatlas.schema.runs import RunSpec
from fedatlas.schema.studies import PrivacyAudit
from fedatlas.studies import equal_privacy as study
from fedatlas.studies.privacy_audit import tabulate_pairs

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))

from making import equal_privacy

DELTA = 1e-5
RING = {"kind": "ring", "weights": "metropolis"}

# ---- The accountant ------------------------------------------------------------------------------


@settings(max_examples=8, deadline=None)
@given(st.floats(2, 40), st.integers(1, 50))
def test_gaussian_noise_without_sampling_is_balle_and_wangs(deviation, releases):
    exact = gaussian_tight(np.full(releases, 1 / deviation), DELTA).final[0]
    found = tight_epsilon([(Gaussian(deviation), releases)], DELTA)
    assert exact * (1 - 1e-6) <= found <= exact + 2e-3


def test_the_smallest_noise_is_that_of_the_closed_form():
    found = smallest_noise(lambda s: tight_epsilon([(Gaussian(s), 20)], DELTA), 2.0)
    exact = smallest_noise(lambda s: gaussian_tight(np.full(20, 1 / s), DELTA).final[0], 2.0)
    assert found == pytest.approx(exact, rel=1e-3)


@settings(max_examples=8, deadline=None)
@given(st.floats(1, 20), st.floats(1.01, 2), st.floats(0.05, 1), st.booleans())
def test_epsilon_falls_with_noise_and_rises_with_the_share(size, factor, share, gaussian):
    kind = Gaussian if gaussian else Laplace
    epsilon = tight_epsilon([(kind(size), 10)], DELTA, share)
    assert tight_epsilon([(kind(size * factor), 10)], DELTA, share) < epsilon
    assert epsilon <= tight_epsilon([(kind(size), 10)], DELTA) + 1e-2


@settings(max_examples=8, deadline=None)
@given(st.floats(0.5, 20), st.integers(1, 60), st.integers(1, 9))
def test_laplace_noise_spends_no_more_than_the_sum(scale, releases, drawn):
    summed = fresh_laplace(float(drawn), drawn, scale, releases, 10).final[0]
    epsilon = tight_epsilon([(Laplace(scale), releases)], DELTA, drawn / 10)
    assert epsilon <= summed + 1e-3 * releases


def test_one_release_with_sampling_is_balle_barthe_and_gaboardis_integral():
    # The changed sample moves what is released by 1 in a third of the draws.
    def delta(density, epsilon, share):
        def excess(x):
            mixed = (1 - share) * density(x) + share * density(x - 1)
            return max(mixed - exp(epsilon) * density(x), 0.0)

        return quad(excess, -30, 30, points=[0, 1], limit=500)[0]

    for noise, density in (
        (Gaussian(1.5), lambda x: norm.pdf(x, scale=1.5)),
        (Laplace(1.5), lambda x: laplace.pdf(x, scale=1.5)),
    ):
        wanted = delta(density, 0.2, 1 / 3)
        assert tight_epsilon([(noise, 1)], wanted, 1 / 3) == pytest.approx(0.2, abs=2e-3)


def test_sampled_noise_lies_between_the_pair_and_renyis_bound():
    epsilon = tight_epsilon([(Gaussian(2.0), 30)], DELTA, 0.25)
    renyi = SampledGaussian("fixed_size", 200, 50, 4.0).renyi_budget([30], DELTA).final[0]
    poisson = SampledGaussian("poisson", 200, 50, 2.0)
    least = poisson.client_pair_epsilon(30, DELTA, at_least=True)
    assert pair_epsilon(Gaussian(2.0), 30, DELTA, 0.25) < least * (1 + 1e-9) < epsilon < renyi


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.8, 0.2), (0.1,) * 10])
def test_a_move_of_many_numbers_loses_no_more_than_of_one(shares):
    losses = tight_epsilon([(Laplace(1 / share), 1) for share in shares], 0.01)
    assert losses <= tight_epsilon([(Laplace(1.0), 1)], 0.01) + 1e-2


def test_what_an_attack_may_detect_is_the_gaussian_trade_off():
    for mistaken in (1e-3, 0.05, 0.4):
        found = most_detected([(Gaussian(6.0), 9)], mistaken)
        assert found == pytest.approx(norm.cdf(norm.ppf(mistaken) + 3 / 6), abs=1e-3)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=2), st.floats(0, 2), st.floats(0, 1))
def test_binomial_noise_covers_every_rounding_of_two_numbers(starts, moved, epsilon):
    # All outputs of two numbers that are rounded at random, moved by `moved` and the rest of 2.
    trials = 12

    def outputs(values):
        both = []
        for value in values:
            below = int(value // 1)
            counts = np.arange(trials + 6)
            low, high = (binom.pmf(counts - below - up, trials, 0.5) for up in (0, 1))
            both.append((1 - value + below) * low + (value - below) * high)
        return np.outer(*both)

    first, second = outputs(starts), outputs([starts[0] + moved, starts[1] + 2 - moved])
    bound = Binomial(trials, 2, 2).profile(np.array([epsilon]))[0]
    for one, other in ((first, second), (second, first)):
        assert np.maximum(one - exp(epsilon) * other, 0).sum() <= bound + 1e-12


def test_binomial_noise_is_exact_for_one_number_on_the_lattice():
    shifted = np.maximum(
        binom.pmf(np.arange(45), 40, 0.5) - exp(0.3) * binom.pmf(np.arange(45) - 1, 40, 0.5), 0
    )
    noise = Binomial(40, 1, 1)
    assert noise.profile(np.array([0.3]))[0] == pytest.approx(shifted.sum(), rel=2e-3)


# ---- The attack ----------------------------------------------------------------------------------


def run(algorithm, hyper_parameters, rounds=10, clients=5, name="run", **others):
    return RunSpec(
        paper="ours", experiment="e", run=name, point="only", dataset="digits", split="train",
        partition={"kind": "horizontal", "assignment": "shuffled", "clients": clients},
        objective={"name": "cross_entropy", "model": "linear"}, optimum=False, rounds=rounds,
        algorithm=algorithm, hyper_parameters=hyper_parameters, record_every=rounds, seeds=[0],
        **others,
    )  # fmt: skip


def gaussian(noise=0.1, bound=4.0, **others):
    hyper = {"clipping": "l2", "samples": 10, "coupling": 0.5, "step_size": 0.3}
    hyper |= {"gradient_bound": bound, "noise": noise} | others
    return run("gaussian_gradient_descent", hyper, graphs={"states": RING})


SCHEME = {"name": "constant", "alpha": 0.5, "beta": 0.3, "gamma": 0.2, "state_noise_scale": 0}
TRACKING = {
    "clipping": "l1", "form": "provable", "horizon": 9, "gradient_bound": 4,
    "scheme": SCHEME | {"samples": 10, "tracker_noise_scale": 0.4},
}  # fmt: skip
RUNS = {
    "gaussian": gaussian(0.4),
    "dp-gt": run("dp_gradient_tracking", TRACKING, graphs={"states": RING, "trackers": RING}),
    "binomial": run(
        "binomial_gradient_descent",
        {
            "clipping": "l1", "samples": 10, "coupling": 0.5, "step_size": 0.3, "levels": 81,
            "gradient_bound": 4, "coordinate_bound": 2, "noise": 0.4,
        },
        graphs={"states": RING},
    ),
    "local-sgd": run(
        "dp_local_sgd",
        {
            "clients_per_round": 5, "local_steps": 2, "batch_size": 10, "local_step_size": 0.1,
            "clip_bound": 2, "noise_multiplier": 2.0,
        },
        rounds=5,
    ),
    "dp-fedavg": run(
        "dp_fedavg",
        {
            "clients_per_round": 10, "local_steps": 1, "local_step_size": 0.1, "clip_bound": 2,
            "sampling": "fixed_size", "noise_multiplier": 2.0,
        },
        clients=40,
    ),
}  # fmt: skip
AUDIT = PrivacyAudit(samples=40, dimension=5, delta=DELTA, runs=4000)


@pytest.mark.parametrize("name", RUNS)
def test_attacks_come_near_and_not_above(name):
    # All five have as much noise as sensitivity, draw a quarter, and release ten times.
    audit = AUDIT.model_copy(update={"runs": 300}) if name == "dp-fedavg" else AUDIT
    (row,) = tabulate_pairs([RUNS[name]], audit)
    assert (row.samples, row.drawn) == (40, 10) and row.verdict == "not refuted"
    assert 0 <= row.audited_epsilon < row.pair_epsilon < row.claimed_epsilon
    assert row.claimed_epsilon == pytest.approx(5.0, abs=2.1)
    if name != "dp-gt":  # others take seconds
        return
    mechanism = study.mechanism_of(study.build_algorithm(RUNS[name]), RUNS[name], 40, 5)
    shown = equal_privacy.within(mechanism, row.detected, row.mistaken, audit.runs // 2)
    assert 0.4 * row.claimed_epsilon < shown < row.claimed_epsilon


class HalfTheNoise(GaussianGradientDescent):
    """Adds half of the noise that it declares."""

    def round(self, state, problem, network, random):
        less = GaussianGradientDescent.model_validate(self.model_dump() | {"noise": self.noise / 2})
        return less.round(state, problem, network, random)


def test_an_attack_finds_noise_that_is_missing(monkeypatch):
    spec = gaussian(1.6)
    broken = HalfTheNoise.model_validate(spec.hyper_parameters)
    monkeypatch.setattr(study, "build_algorithm", lambda _: broken)
    (row,) = tabulate_pairs([spec], AUDIT.model_copy(update={"runs": 40_000}))
    mechanism = study.mechanism_of(broken, spec, 40, 5)
    with pytest.raises(SystemExit, match="better than the accountant allows"):
        equal_privacy.within(mechanism, row.detected, row.mistaken, 20_000)


def test_runs_that_have_no_epsilon_are_named():
    reused = run(
        "dp_gradient_tracking", TRACKING | {"form": "compact"},
        graphs={"states": RING, "trackers": RING},
    )  # fmt: skip
    with pytest.raises(FedatlasError, match=r"e/run.*'form: provable'"):
        tabulate_pairs([reused], AUDIT)
    with pytest.raises(FedatlasError, match="several kinds of noise"):
        tabulate_pairs([gaussian(0.1, 4.0), gaussian(0.1, 8.0)], AUDIT)
    silent = TRACKING | {"scheme": TRACKING["scheme"] | {"tracker_noise_scale": 0}}
    graphs = {"states": RING, "trackers": RING}
    assert tabulate_pairs([run("dp_gradient_tracking", silent, graphs=graphs)], AUDIT) == []


# ---- What is declared, and the page --------------------------------------------------------------


def test_declared_noises_spend_what_they_should():
    for name, mechanism in equal_privacy.mechanisms().items():
        target = float(name.rpartition("-")[2])
        if isinstance(mechanism.noise, Binomial) or target not in (1, 8):
            continue  # takes seconds; the stored numbers have it
        assert 0.998 * target < mechanism.epsilon(DELTA) <= target, name


def test_the_page_has_the_numbers():
    rows = equal_privacy.read_stored()
    page = equal_privacy.PAGE.read_text("utf-8")
    private = [row for row in rows if row.run != equal_privacy.NOT_PRIVATE]
    assert len(private) == 20
    for row in private:
        assert row.attacked < row.within < row.accountant <= row.epsilon, row
        assert row.accountant > 0.998 * row.epsilon and len(row.accuracies.split()) == 7
    assert equal_privacy.accuracies(rows) in page and equal_privacy.attacked(rows) in page
