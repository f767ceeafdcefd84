"""DP-FedAvg: what rounds cost; its ε against dp-accounting, what is published, attacks."""

from math import log
from typing import Any

import dp_accounting
import numpy as np
import pytest
import torch
from dp_accounting import rdp
from hypothesis import given, settings
from hypothesis import strategies as some
from pydantic import ValidationError
from scipy import stats

from experiment_files import config_folder
from fedatlas.algorithms import build_algorithm
from fedatlas.algorithms.dp_fedavg import DpFedAvg
from fedatlas.algorithms.fedavg import FedAvg
from fedatlas.arithmetic.client_rows import ChunkedRows, clipped
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.context import FederationContext
from fedatlas.federations.parts import Counters, StarNetwork
from fedatlas.figures.privacy import compose_budgets
from fedatlas.plan.build import build_plan
from fedatlas.privacy.accountants import gaussian_tight
from fedatlas.privacy.sampled_gaussian import SampledGaussian
from fedatlas.schema.studies import BudgetStudy, PrivacyAudit
from fedatlas.studies.budgets import budgets_of_runs
from fedatlas.studies.client_audit import TinyFederation, attack_clients
from fedatlas.studies.privacy_audit import tabulate_pairs
from outside_project import whole_files, write_project
from small_federations import LINEAR, small, small_shards
from test_methods import Run, engine_of, toy
from test_network_clients import engine_of as network_of

pytestmark = pytest.mark.usefixtures("one_thread", "toy_project")

NAME = "logistic_nonconvex"
STEPS = {"local_steps": 3, "local_step_size": 0.2, "global_step_size": 0.8}
PRIVATE = STEPS | {"clip_bound": 0.25, "noise_multiplier": 0.3}


# ------------------------------------------------------------------- the method


@pytest.mark.parametrize("sampling", ["poisson", "fixed_size"])
def test_rounds_cost_what_their_clients_send(sampling):
    engine = engine_of("compiled", toy(NAME), NAME)
    method = DpFedAvg(clients_per_round=2, sampling=sampling, batch_size=2, **PRIVATE)
    run, together = Run(method, engine, seed=4), []
    for k in range(25):
        run.round()
        coins = RoundRandom(4).at(k).uniform(7)
        together.append(int((coins < 2 / 7).sum()) if sampling == "poisson" else 2)
    assert run.counters.messages == 2 * sum(together)
    assert run.counters.bytes_up == run.counters.bytes_down == 8 * engine.dimension * sum(together)
    assert set(together) >= ({0, 1, 2, 3} if sampling == "poisson" else {2})


@pytest.mark.parametrize("kind", ["compiled", "torch", "network"])
@pytest.mark.parametrize("unit", ["steps", "epochs"])
def test_a_round_of_nobody_adds_noise_only(kind, unit):
    engine = network_of("cross_entropy") if kind == "network" else engine_of(kind, toy(NAME), NAME)
    method = DpFedAvg(clients_per_round=1, batch_size=2, local_unit=unit, **PRIVATE)
    run, nobody = Run(method, engine, seed=1), 0
    for k in range(8):
        before, x = run.counters.messages, run.x
        run.round()
        random = RoundRandom(1).at(k)
        if not (random.uniform(7) < 1 / 7).any():
            nobody += 1
            noise = random.generator.standard_normal(engine.dimension)
            np.testing.assert_allclose(run.x, x + 0.8 * 0.3 * 0.25 * noise, rtol=0, atol=1e-15)
            assert run.counters.messages == before
    assert 1 < nobody < 8


def test_rows_in_chunks_are_clipped_alike():
    method = DpFedAvg(clients_per_round=5, **PRIVATE)
    engine = engine_of("compiled", toy(NAME), NAME)
    whole, parts = (Run(method, engine, seed=1, numbers_at_once=n) for n in (None, 10))
    np.testing.assert_allclose(whole.trajectory(8), parts.trajectory(8), rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", ["compiled", "torch"])
def test_without_noise_and_clipping_it_is_fedavg_bit_for_bit(kind):
    engine, shared = engine_of(kind, toy(NAME), NAME), STEPS | {"clients_per_round": 3}
    shared |= {"local_unit": "epochs", "batch_size": 2, "step_factors": {3: 0.5}}
    plain = DpFedAvg(**shared, sampling="fixed_size", clip_bound=1e9, noise_multiplier=0)
    one, other = (Run(each, engine, seed=2).trajectory(10) for each in (plain, FedAvg(**shared)))
    np.testing.assert_array_equal(one, other)


@given(some.integers(0, 2**32 - 1), some.floats(1e-6, 1e6), some.integers(0, 9))
@settings(max_examples=30)
def test_clipped_rows_are_no_longer_than_the_bound(seed, bound, clients):
    random = np.random.default_rng(seed)
    rows = random.normal(size=(clients, 3)) * 10 ** random.uniform(-8, 8, (clients, 1))
    norms = np.linalg.norm(rows, axis=1)
    expected = np.array(
        [row if n <= bound else row / n * bound for row, n in zip(rows, norms, strict=True)]
    )
    expected = expected.reshape(rows.shape)
    chunked = ChunkedRows(rows.shape, 2, lambda chunk: rows[chunk], 8)
    for found in (
        clipped(rows, bound),
        clipped(torch.tensor(rows), bound).numpy(),
        np.concatenate([rows[:0], *(part for _, part in clipped(chunked, bound).chunks())]),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert (np.linalg.norm(found, axis=1) <= bound * (1 + 1e-12)).all()


def test_a_release_is_normal_noise_about_a_coin():
    # One of ten clients has an update of twice the bound: N(0, z²), moved by 1 with chance q.
    method = DpFedAvg(
        clients_per_round=3, local_steps=1, local_step_size=1, clip_bound=0.4, noise_multiplier=0.7
    )
    problem: Any = TinyFederation(10, update=-0.8)
    network, random, points = StarNetwork(10, Counters()), RoundRandom(3), [0.0]
    state = method.start(problem, network, np.zeros(1))
    for k in range(4000):
        state = method.round(state, problem, network, random.at(k))
        points.append(float(state.x[0]))
    moved = -np.diff(points) * 3 / 0.4

    def law(t: np.ndarray) -> np.ndarray:
        return 0.7 * stats.norm.cdf(t / 0.7) + 0.3 * stats.norm.cdf((t - 1) / 0.7)

    assert stats.kstest(moved, law).pvalue > 0.01


# --------------------------------------------------------------------------- ε, by accounting


def by_the_library(mechanism: SampledGaussian, rounds: int, delta: float) -> float:
    """Composed by the library itself, from what its documentation says."""
    z, clients, drawn = mechanism.noise_multiplier, mechanism.clients, mechanism.drawn
    relation = dp_accounting.NeighboringRelation
    if mechanism.sampling == "poisson":
        accountant = rdp.RdpAccountant(neighboring_relation=relation.ADD_OR_REMOVE_ONE)
        noisy = dp_accounting.GaussianDpEvent(z)
        event: Any = dp_accounting.PoissonSampledDpEvent(drawn / clients, noisy)
    else:  # a replaced client moves the sum by twice the bound
        accountant = rdp.RdpAccountant(neighboring_relation=relation.REPLACE_ONE)
        noisy = dp_accounting.GaussianDpEvent(z / 2)
        event = dp_accounting.SampledWithoutReplacementDpEvent(clients, drawn, noisy)
    return accountant.compose(event, rounds).get_epsilon(delta)


@pytest.mark.parametrize("sampling", ["poisson", "fixed_size"])
def test_budgets_are_the_librarys(sampling):
    mechanism = SampledGaussian(sampling, 100, 5, 2.5)
    found = mechanism.renyi_budget(range(1, 41), 1e-5)
    assert (found.delta == 1e-5).all() and (np.diff(found.epsilon) > 0).all()
    for rounds in (1, 40) if sampling == "poisson" else (40,):
        expected = by_the_library(mechanism, rounds, 1e-5)
        assert found.epsilon[rounds - 1] == pytest.approx(expected, abs=1e-6)


def test_budget_of_the_tutorial_of_tensorflow_privacy():
    # README of its tutorials: N = 60,000, batches of 256, z = 1.1, 60 epochs, δ = 1e-5: ε = 3.01,
    # by ε = ρ_α + ln(1/δ)/(α − 1). The library's later conversion finds 2.60.
    rounds, mechanism = -(-60 * 60_000 // 256), SampledGaussian("poisson", 60_000, 256, 1.1)
    accountant = rdp.RdpAccountant()
    event = dp_accounting.PoissonSampledDpEvent(256 / 60_000, dp_accounting.GaussianDpEvent(1.1))
    accountant.compose(event, rounds)
    earlier = accountant.rdp - log(1e-5) / (accountant.orders - 1)
    assert earlier.min() == pytest.approx(3.01, abs=0.005)
    assert mechanism.renyi_budget([rounds], 1e-5).final[0] == pytest.approx(2.60, abs=0.005)


@given(some.integers(1, 30), some.floats(0.5, 5), some.integers(1, 400))
@settings(max_examples=3, deadline=None)
def test_budget_rises_with_rounds_and_clients_and_falls_with_noise(drawn, noise, rounds):
    def spent(drawn: int, noise: float, rounds: int) -> float:
        return SampledGaussian("poisson", 60, drawn, noise).renyi_budget([rounds], 1e-4).final[0]

    middle = spent(drawn, noise, rounds)
    assert spent(drawn, noise, 2 * rounds) > middle
    assert spent(2 * drawn, noise, rounds) > middle
    assert spent(drawn, 1.5 * noise, rounds) < middle


def test_with_everyone_it_is_the_gaussian_mechanism_whose_budget_is_known():
    everyone = SampledGaussian("poisson", 8, 8, 3.0)
    exact = gaussian_tight(np.full(20, 1 / 3.0), 1e-5).final[0]  # Balle, Wang 2018
    low, high = (
        everyone.client_pair_epsilon(20, 1e-5, at_least=at_least) for at_least in (True, False)
    )
    assert exact - 0.01 < low <= exact <= high < exact + 0.01
    assert exact < everyone.renyi_budget([20], 1e-5).final[0] < 1.15 * exact


def test_without_noise_there_is_no_privacy():
    for sampling in ("poisson", "fixed_size"):
        assert SampledGaussian(sampling, 8, 2, 0.0).renyi_budget([1, 2], 1e-5).final[0] == np.inf
    assert SampledGaussian("poisson", 8, 2, 0.0).client_pair_epsilon(1, 0.1, at_least=True) > 1e9


def test_budgets_are_drawn_without_training():
    specs = [small("dp_fedavg", {"noise_multiplier": z}, run=f"z{z}") for z in (1, 2)]
    found = budgets_of_runs(specs, BudgetStudy(samples=5, dimension=7, last_horizon=1))
    for number, z in enumerate((1, 2)):
        expected = SampledGaussian("poisson", 12, 4, z).renyi_budget(range(1, 8), 12**-1.1)
        np.testing.assert_allclose(found.epsilon[number], expected.epsilon)
    figure = compose_budgets("What is spent", {"z1": "one", "z2": "two"}, found)
    assert [place.get_ylabel() for place in figure.axes] == ["privacy spent, ε", "privacy spent, δ"]


def test_traces_tell_the_budget_of_their_clients(tmp_path):
    spec = small("dp_fedavg")
    context = FederationContext(spec, small_shards(tmp_path, "dp_fedavg"), "cpu")
    privacy = context.privacy(build_algorithm(spec), 7)
    expected = SampledGaussian("poisson", 12, 4, 0.8).renyi_budget(range(1, 8), 12**-1.1)
    np.testing.assert_allclose(privacy.spent["epsilon"], [0, *expected.epsilon])
    np.testing.assert_allclose(privacy.spent["delta"], [0, *[12**-1.1] * 7])
    assert privacy.statement == (
        "protects all that a client holds: data differ by one client more or less (a replaced "
        "client counts twice), q and the denominator qN being public; clients take part by "
        "independent secret coins; all models may be seen; updates are clipped to S = 0.05 in l2; "
        "δ = N^-1.1"
    )
    other = build_algorithm(small("dp_fedavg", {"sampling": "fixed_size", "delta": 1e-3}))
    assert "one replaced client" in other.privacy_statement
    assert other.privacy_statement.endswith("δ = 0.001")
    with pytest.raises(ValidationError, match="delta"):
        DpFedAvg(clients_per_round=1, delta=1, **PRIVATE)
    with pytest.raises(FedatlasError, match="only where all count equally"):
        build_algorithm(small("dp_fedavg", objective=LINEAR | {"client_weights": "size"}))


# -------------------------------------------------------------------------- ε, by an attacker


def audited(hyper: dict[str, Any], **study: Any):
    spec = small("dp_fedavg", {"clients_per_round": 6, "delta": 1e-3} | hyper, rounds=2)
    return tabulate_pairs([spec], PrivacyAudit(**study))


@pytest.mark.parametrize("sampling", ["poisson", "fixed_size"])
def test_attacks_find_no_more_than_is_claimed(sampling):
    rows = audited({"sampling": sampling, "noise_multiplier": 0.9}, runs=600, seed=1)
    assert [row.accounting for row in rows] == [
        "Rényi, δ = 0.001",
        "privacy loss distributions, δ = 0.001",
    ][: len(rows)]
    assert len(rows) == (2 if sampling == "poisson" else 1)
    for row in rows:
        assert (row.samples, row.drawn, row.verdict) == (12, 6, "not refuted")
        assert 0.6 < row.audited_epsilon < row.pair_epsilon < row.claimed_epsilon
    if sampling == "poisson":
        assert rows[1].claimed_epsilon - rows[1].pair_epsilon < 0.01 < rows[0].claimed_epsilon


def test_an_attack_finds_clipping_that_does_not_clip():
    class Unclipped(DpFedAvg):
        def round(self, state, problem, network, random):
            own = self.model_copy(update={"clip_bound": 1e6, "noise_multiplier": 1.5e-6})
            return DpFedAvg.round(own, state, problem, network, random)

    hyper = STEPS | {"clients_per_round": 6, "clip_bound": 1.0, "noise_multiplier": 1.5}
    honest, cheat = (
        attack_clients(method(**hyper, delta=1e-3), 12, 1, runs=1000).lower_bound
        for method in (DpFedAvg, Unclipped)
    )
    claimed = SampledGaussian("poisson", 12, 6, 1.5).renyi_budget([1], 1e-3).final[0]
    assert honest < claimed < cheat


def test_audits_refuse_what_cannot_be_attacked():
    with pytest.raises(FedatlasError, match="without noise"):
        audited({"noise_multiplier": 0})
    with pytest.raises(FedatlasError, match="only dp_gradient_tracking and dp_fedavg"):
        tabulate_pairs([small("gaussian_gradient_descent")], PrivacyAudit())
    with pytest.raises(FedatlasError, match="no run of the experiment"):
        tabulate_pairs([small("fedavg")], PrivacyAudit())
    with pytest.raises(FedatlasError, match=r"'privacy_audit\.curvatures'"):
        tabulate_pairs([small("dp_gradient_tracking")], PrivacyAudit())


def test_the_pages_experiment_is_planned_and_its_budget_is_as_the_page_says(tmp_path):
    lab = write_project(tmp_path / "lab", whole_files("adding/private"))
    plan = build_plan(config_folder(tmp_path / "config"), lab)
    _, private = plan.runs_of("project-private")
    mechanism = build_algorithm(private).mechanism(private.partition.clients)
    assert mechanism.renyi_budget([50], 1e-3).final[0] == pytest.approx(8.31, abs=0.005)
    tight = mechanism.client_pair_epsilon(50, 1e-3, at_least=False)
    assert tight == pytest.approx(7.07, abs=0.005)
