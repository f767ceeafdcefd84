"""Methods of agents on graphs against their certificates on other objectives, and their promises.

Agents have different numbers of samples and graphs
are unbalanced, so that a wrong agent, weight, point or index shows within a few iterations.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import certified
import small_federations
from certificates import _cases
from fedatlas.algorithms import build_algorithm
from fedatlas.algorithms.binomial_gradient_descent import BinomialGradientDescent
from fedatlas.algorithms.dp_gradient_tracking import DpGradientTracking
from fedatlas.algorithms.gaussian_gradient_descent import GaussianGradientDescent
from fedatlas.algorithms.growing_samples_descent import GrowingSamplesDescent
from fedatlas.algorithms.online_gradient_descent import OnlineGradientDescent
from fedatlas.algorithms.quantised_gradient_descent import QuantisedGradientDescent
from fedatlas.algorithms.ternary_gradient_descent import TernaryGradientDescent
from fedatlas.arithmetic.minibatches import Minibatches
from fedatlas.arithmetic.randomness import Draws, RoundRandom
from fedatlas.arithmetic.samples import Samples
from fedatlas.conform.comparison import compare, load_code
from fedatlas.conform.ours import Ours, declared
from fedatlas.errors import FedatlasError
from fedatlas.federations.algorithm import Algorithm
from fedatlas.federations.context import SeedRun
from fedatlas.federations.decentralised.graph import (
    GraphCounters,
    GraphNetwork,
    GraphProblem,
    Links,
)
from fedatlas.federations.decentralised.numpy_engines import LinearAgents
from fedatlas.federations.decentralised.torch_engine import ClassifyingAgents
from fedatlas.federations.shards import ClientSamples
from fedatlas.privacy.accountants import PrivacyContext
from fedatlas.schema.objectives import ClassificationObjective, LinearObjective
from fedatlas.schema.partitions import HorizontalPartition
from fedatlas.schema.runs import RunSpec
from fedatlas.training.loop import train
from reference import PARTS, slope
from reference_vertical import regulariser_gradient

pytestmark = pytest.mark.usefixtures("one_thread", "toy_project")

SIZES = np.array([7, 9, 6, 12, 8])
AGENTS, FEATURES, ITERATIONS = len(SIZES), 4, 12

W, R, C = certified.SYMMETRIC, certified.RECEIVED, certified.UNBALANCED

OBJECTIVES = ("ridge_regression", "logistic_nonconvex", "cross_entropy")
HIDDEN, CLASSES = 2, np.array([-2.0, 3.0, 7.0])


class Toy:
    """The same samples for the package's engine and for the reference's loops."""

    def __init__(
        self,
        objective: str = "ridge_regression",
        sizes: np.ndarray = SIZES,
        *,
        alike: bool = False,
    ) -> None:
        """alike: all agents hold the same, and start from one model."""
        rng = np.random.default_rng(4)
        self.objective = objective
        self.offsets = np.concatenate([[0], np.cumsum(sizes)])
        agent = np.repeat(np.arange(len(sizes)), sizes)
        self.a = 0.5 * rng.normal(size=(len(agent), FEATURES)) + 0.1 * agent[:, None]
        self.b = self.a @ rng.normal(size=FEATURES) + 0.3 * agent
        if objective == "cross_entropy":
            self.b = CLASSES[rng.integers(len(CLASSES), size=len(agent))]
        elif objective.startswith("logistic"):
            self.b = np.where(self.b > np.median(self.b), 1.0, -1.0)
        self.weight = 0.0 if objective in ("cross_entropy", "robust_regression") else 0.2
        if alike:
            own = np.tile(np.arange(sizes[0]), len(sizes))
            self.a, self.b = self.a[own], self.b[own]
        data = ClientSamples(
            Samples(np.arange(len(agent)), self.b, self.a),
            self.offsets,
            {"dataset": "toy", "shape": [FEATURES]},
        )
        self.engine: Any
        if objective == "cross_entropy":
            declared = ClassificationObjective(name="cross_entropy", model="two_layers")
            self.engine = ClassifyingAgents(data, declared, "cpu", torch.float64, False)
        else:
            self.engine = LinearAgents(
                data, LinearObjective(name=objective, weight=self.weight or None)
            )
        starts = 1 if alike else len(sizes)
        x0 = rng.normal(size=(starts, self.engine.dimension))
        self.x0 = np.tile(x0, (len(sizes) // starts, 1))

    def own_gradient(self, row: int, x: np.ndarray) -> np.ndarray:
        """Of one sample's loss."""
        a, b = self.a[row], self.b[row]
        if self.objective != "cross_entropy":
            return slope(self.objective, a @ x, b) * a
        w, c, v, e = np.split(x, np.cumsum([HIDDEN * FEATURES, HIDDEN, len(CLASSES) * HIDDEN]))
        hidden = np.tanh(w.reshape(HIDDEN, FEATURES) @ a + c)
        outputs = v.reshape(-1, HIDDEN) @ hidden + e
        slopes = np.exp(outputs) / np.exp(outputs).sum() - (b == CLASSES)
        inner = (v.reshape(-1, HIDDEN).T @ slopes) * (1 - hidden**2)
        parts = np.outer(inner, a), inner, np.outer(slopes, hidden), slopes
        return np.concatenate([part.ravel() for part in parts])

    def gradient(self, clipping: str = "none", bound: float = np.inf) -> Callable[..., np.ndarray]:
        """The reference's oracle, a sample at a time."""
        order = 1 if clipping == "l1" else 2

        def gradient(agent: int, x: np.ndarray, rows: Any) -> np.ndarray:
            total = np.zeros_like(x)
            for row in rows:
                assert self.offsets[agent] <= row < self.offsets[agent + 1]
                own = self.own_gradient(row, x)
                total += own * min(1.0, bound / np.linalg.norm(own, order))
            regulariser = PARTS[self.objective][1] if self.weight else "none"
            return total / len(rows) + regulariser_gradient(regulariser, self.weight, x)

        return gradient


class ToyView:
    """The toy for certificates: rows are numbered within an agent's own."""

    def __init__(self, toy: Toy, states: np.ndarray, trackers: np.ndarray | None) -> None:
        self._toy, self.states, self.trackers = toy, states, trackers
        self.sizes = np.diff(toy.offsets)

    def sample_gradients(self, agent: int, x: np.ndarray, rows: Any) -> np.ndarray:
        first = self._toy.offsets[agent]
        return np.array([self._toy.own_gradient(first + row, x) for row in rows])

    def penalty_gradient(self, x: np.ndarray) -> np.ndarray:
        regulariser = PARTS[self._toy.objective][1] if self._toy.weight else "none"
        return regulariser_gradient(regulariser, self._toy.weight, x)


class HostDraws(Draws):
    """Numpy's draws in the arrays of the toy's engine."""

    def __init__(self, toy: Toy) -> None:
        self._array = toy.engine.array

    def uniform(self, random: RoundRandom, like: Any) -> Any:
        return self._array(super().uniform(random, like))

    def laplace(self, random: RoundRandom, like: Any) -> Any:
        return self._array(super().laplace(random, like))

    def normal(self, random: RoundRandom, like: Any) -> Any:
        return self._array(super().normal(random, like))

    def binomial(self, random: RoundRandom, trials: int, like: Any) -> Any:
        return self._array(super().binomial(random, trials, like).astype(float))


class GivenDraws(Draws):
    """Hands out prepared arrays (iterations, n, d), one at a call."""

    def __init__(self, toy: Toy, **prepared: np.ndarray) -> None:
        self._array = toy.engine.array
        self._prepared = {kind: list(arrays) for kind, arrays in prepared.items()}

    def _next(self, kind: str, like: Any) -> Any:
        array = self._array(self._prepared[kind].pop(0))
        assert array.shape == like.shape
        return array

    def uniform(self, random: RoundRandom, like: Any) -> Any:
        return self._next("uniform", like)

    def laplace(self, random: RoundRandom, like: Any) -> Any:
        return self._next("laplace", like)

    def normal(self, random: RoundRandom, like: Any) -> Any:
        return self._next("normal", like)

    def binomial(self, random: RoundRandom, trials: int, like: Any) -> Any:
        return self._next("binomial", like)


class RecordingProblem:
    """The same oracle; the samples of every gradient are written down."""

    def __init__(self, problem: GraphProblem) -> None:
        self._problem, self.taken = problem, []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._problem, name)

    def gradients(self, points: Any, batch: Minibatches, clipping: Any) -> Any:
        rows, share = batch.padded()
        self.taken.append([row[used > 0].tolist() for row, used in zip(rows, share, strict=True)])
        return self._problem.gradients(points, batch, clipping)


class RecordingLinks(Links):
    """The same links; what leaves the agents is written down."""

    sent: list[Any]

    def send(self, values: Any, *, bits: Any = None) -> Any:
        self.sent.append(values)
        return super().send(values, bits=bits)


class Run:
    """A method among agents, an iteration at a time."""

    def __init__(
        self,
        method: Algorithm,
        toy: Toy,
        draws: Draws,
        tracker_draws: Draws | None = None,
        graphs: tuple[np.ndarray, np.ndarray | None] = (R, C),
        seed: int = 0,
    ) -> None:
        """tracker_draws: of noise on trackers, the same as all others' unless given."""
        self.method, self.toy = method, toy
        self.counters = GraphCounters()
        self.problem = RecordingProblem(toy.engine.counting(self.counters))
        array = toy.engine.array
        self.network = GraphNetwork(*graphs, array, draws, self.counters)
        self.network.states = RecordingLinks(graphs[0], array, draws, self.counters)
        self.network.states.sent = []
        if graphs[1] is not None:
            of_trackers = tracker_draws or draws
            self.network.trackers = RecordingLinks(
                graphs[1], array, of_trackers, self.counters, takes_time=False
            )
            self.network.trackers.sent = []
        self.random = RoundRandom(seed)
        self.state = method.start(self.problem, self.network, array(toy.x0))
        self.states = [self.state]

    def rounds(self, number: int = ITERATIONS) -> "Run":
        for _ in range(number):
            self.state = self.method.round(
                self.state, self.problem, self.network, self.random.at(len(self.states) - 1)
            )
            self.states.append(self.state)
        return self

    def all(self, field: str, first: int = 0) -> np.ndarray:
        """Of all iterations, (iterations, n, d)."""
        return np.array(
            [self.toy.engine.numpy(getattr(state, field)) for state in self.states[first:]]
        )

    def sent(self, links: Any) -> np.ndarray:
        """Of all iterations, (iterations, n, d)."""
        return np.array([self.toy.engine.numpy(values) for values in links.sent])


def assert_close(ours: np.ndarray, theirs: np.ndarray) -> None:
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


# ------------------------------------------------------------------------------------------- DP-GT

LOOPS = ("compact", "literal", "provable")
HORIZON = ITERATIONS - 1
S1, S2 = _cases.S1 | {"samples_factor": 0.1}, _cases.S2 | {"samples_base": 1.1}
CONSTANT = _cases.CONSTANT


def stepped(name: str, method: Algorithm, toy: Toy, graphs: Any) -> list[dict[str, Any]]:
    """The states of a method's certificate, which the method is compared with."""
    run = Run(method, toy, HostDraws(toy), graphs=graphs)
    fresh = SeedRun(run.problem, run.network, run.counters, toy.engine.array(toy.x0))
    view: Any = ToyView(toy, *graphs)
    ours = Ours(method, fresh, toy.engine, RoundRandom(0), view, toy.x0, declared(method))
    code = load_code(certified.CERTIFICATES / f"{name}.py")
    found = compare(ours, code, ITERATIONS, 1e-12)
    assert not found.first, str(found)
    states = [code.start(view, toy.x0, ours.hyper)]
    for draws, *_ in ours.play(ITERATIONS):
        if draws is not None:
            states.append(code.step(states[-1], draws, view, ours.hyper))
    return states


@pytest.mark.parametrize("form", LOOPS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_dp_gt_conforms_on_every_objective(form, objective):
    """With clipping in l2, or none, where its form has it; tests/test_certificates.py has l1."""
    for clipping in ("l1",) if form == "provable" else ("none", "l2"):
        method = DpGradientTracking(
            scheme=S1, horizon=HORIZON, form=form, clipping=clipping, gradient_bound=0.6
        )
        stepped("dp_gradient_tracking", method, Toy(objective), (R, C))


@pytest.mark.parametrize("form", LOOPS)
def test_without_noise_nothing_is_drawn(form):
    toy = Toy("logistic_l2", np.full(AGENTS, 6))
    scheme = CONSTANT | {"samples": 6, "state_noise_scale": 0, "tracker_noise_scale": 0}
    method = DpGradientTracking(scheme=scheme, horizon=40, form=form, clipping="l1")
    stepped("dp_gradient_tracking", method, toy, (R, C))
    run = Run(method, toy, GivenDraws(toy)).rounds(40)
    whole = [list(range(6 * agent, 6 * agent + 6)) for agent in range(AGENTS)]
    assert run.problem.taken == [whole] * 41


# ---------------------------------------------------------------------------- the compared methods

SHARED: dict[str, Any] = {
    "coupling": 0.3,
    "step_size": 0.15,
    "samples": 3,
    "gradient_bound": 0.6,
    "clipping": "l1",
}
COMPARED = {
    "gaussian": (GaussianGradientDescent, {"noise": 0.4}),
    "ternary": (TernaryGradientDescent, {"quantiser_range": 1.5}),
    "binomial": (BinomialGradientDescent, {"noise": 0.4, "coordinate_bound": 0.1, "levels": 7}),
    "online": (OnlineGradientDescent, {"noise": 0.4}),
    "growing": (GrowingSamplesDescent, {"noise": 0.4, "growth": 1.07}),
    "quantised": (QuantisedGradientDescent, {"noise": 0.4, "spacing": 0.25}),
}
GROWING = [3, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 5]  # ⌊2 · 1.07^k⌋ + 1


def build(name: str, **changes: Any) -> Any:
    method, own = COMPARED[name]
    return method.model_validate(SHARED | own | changes)


def compared(name: str, objective: str, clipping: str) -> tuple[Run, list[dict[str, Any]]]:
    """A run, and the states of its method's certificate, with which it is compared."""
    toy, method = Toy(objective), build(name, clipping=clipping)
    module = type(method).__module__.rpartition(".")[2]
    states = stepped(module, method, toy, (W, None))
    return Run(method, toy, HostDraws(toy), graphs=(W, None)).rounds(), states


@pytest.mark.parametrize("objective", ["logistic_nonconvex", "cross_entropy"])
@pytest.mark.parametrize("name", COMPARED)
def test_compared_methods_conform_on_every_objective(name, objective):
    run, states = compared(name, objective, "l2")
    assert_close(run.all("x"), np.array([state["x"] for state in states]))
    assert_close(run.sent(run.network.states), np.array([own["_sent"] for own in states[1:]]))
    assert [state.k for state in run.states] == list(range(ITERATIONS + 1))


@pytest.mark.parametrize("name", COMPARED)
def test_mean_states_descend_along_the_mean_gradient(name):
    """W is symmetric; where own values stay exact, what disturbs those sent moves the mean, too."""
    run, states = compared(name, "ridge_regression", "l1")
    x, sent = run.all("x"), run.sent(run.network.states)
    gradients = np.array([state["_g"] for state in states[1:]])
    expected = -0.15 * gradients.mean(axis=1)
    if name in ("growing", "quantised"):
        expected += 0.3 * (W @ (sent - x[:-1])).mean(axis=1)
    assert_close(np.diff(x.mean(axis=1), axis=0), expected)


@pytest.mark.parametrize("objective", ["ridge_regression", "cross_entropy"])
def test_ternary_messages_have_three_values(objective):
    """Last bits that follow the model would tell what quantisation hides."""
    run, _ = compared("ternary", objective, "none")
    assert set(np.unique(run.sent(run.network.states))) == {-1.5, 0.0, 1.5}


def test_what_clips_and_rounds_is_reached_by_the_comparisons():
    """Otherwise they would not tell a wrong bound from a right one."""
    run, _ = compared("ternary", "ridge_regression", "none")
    assert 0 < np.mean(np.abs(run.all("x")) > 1.5) < 1
    run, _ = compared("binomial", "ridge_regression", "l1")
    toy, states = run.toy, run.all("x")
    own = [toy.own_gradient(row, states[0, 0]) for row in range(toy.offsets[1])]
    assert len({np.abs(g).sum() < 0.3 for g in own}) == 2
    means = [toy.gradient("l1", 0.3)(agent, states[0, agent], rows)
             for agent, rows in enumerate(run.problem.taken[0])]  # fmt: skip
    assert 0 < np.mean(np.abs(means) > 0.1) < 1


# ------------------------------------------------------------------------------------- invariants


@st.composite
def matrices(draw: st.DrawFn) -> np.ndarray:
    """Weights of any directed graph among five agents, connected or not."""
    entries = st.one_of(st.just(0.0), st.floats(0.05, 2.0))
    weights = np.array(draw(st.lists(entries, min_size=25, max_size=25))).reshape(5, 5)
    np.fill_diagonal(weights, 0)
    return weights


def noisy(form: str, state_noise: float, tracker_noise: float, **changes: Any) -> Algorithm:
    noise = {"state_noise_scale": state_noise, "tracker_noise_scale": tracker_noise}
    scheme = CONSTANT | noise | changes
    return DpGradientTracking(scheme=scheme, horizon=5000, form=form, clipping="l1")


@pytest.mark.parametrize("form", ["compact", "provable"])
@given(matrices(), matrices(), st.floats(0, 50), st.floats(0, 50), st.integers(0, 1000))
@settings(max_examples=12, deadline=None)
def test_trackers_sum_to_gradients_whatever_the_noise(form, states, trackers, zeta, eta, seed):
    method = noisy(form, zeta, eta)
    run = Run(method, Toy(), Draws(), graphs=(states, trackers), seed=seed).rounds(6)
    y, g = run.all("y", 1), run.all("g", 1)
    np.testing.assert_allclose(y.sum(axis=1), g.sum(axis=1), rtol=0, atol=1e-13 * np.abs(y).max())


def test_noise_and_weights_move_the_sum_of_literal_trackers():
    for eta, graph in ((1.0, W), (0.0, C)):
        run = Run(noisy("literal", 0.0, eta), Toy(), Draws(), graphs=(R, graph)).rounds(6)
        lost = (run.all("y", 1) - run.all("g", 1)).sum(axis=1)
        assert np.abs(lost).max(axis=1).min() > 1e-2


def left_null_vector(weights: np.ndarray) -> np.ndarray:
    """A v with vᵀ (diag(R1) − R) = 0."""
    return np.linalg.svd(np.diag(weights.sum(axis=1)) - weights)[0][:, -1]


@given(matrices(), st.floats(0, 50), st.integers(0, 1000))
@settings(max_examples=12, deadline=None)
def test_noise_on_states_does_not_move_their_weighted_mean(states, zeta, seed):
    """v1ᵀ x goes along v1ᵀ y alone: (7) times v1ᵀ, of which v1ᵀ L1 is 0."""
    run = Run(noisy("compact", zeta, 1.0), Toy(), Draws(), graphs=(states, C), seed=seed)
    run.rounds(6)
    v, x, y = left_null_vector(states), run.all("x", 1), run.all("y", 1)
    np.testing.assert_allclose(
        v @ (x[1:] - x[:-1] + 0.15 * y[:-1]), 0, atol=1e-12 * (1 + np.abs(x).max())
    )


def test_noise_on_states_moves_the_weighted_mean_of_the_literal_form():
    run = Run(noisy("literal", 1.0, 0.0), Toy(), Draws()).rounds(6)
    v, x, y = left_null_vector(R), run.all("x", 1), run.all("y", 1)
    assert np.abs(v @ (x[1:] - x[:-1] + 0.15 * y[:-1])).max() > 1e-2


SMALL_STEPS = {"samples": 6, "alpha": 0.5, "beta": 0.3, "gamma": 0.02}


@pytest.mark.parametrize("form", LOOPS)
def test_without_noise_agents_meet_at_the_optimum_unless_the_form_is_literal(form):
    toy = Toy("ridge_regression", np.full(AGENTS, 6))
    # DP-1: (6) weighs agents by the left null vector of the row Laplacian of C.
    v = left_null_vector(C) if form == "literal" else np.ones(AGENTS)

    def optimum(weights: np.ndarray) -> np.ndarray:
        """Of the weighted mean of (aᵀx − b)², and 0.1 ‖x‖²."""
        share = np.repeat(weights / weights.sum(), 6) / 6
        hessian = 2 * toy.a.T @ (share[:, None] * toy.a) + 0.2 * np.eye(FEATURES)
        return np.linalg.solve(hessian, 2 * toy.a.T @ (share * toy.b))

    method = noisy(form, 0, 0, **SMALL_STEPS).model_copy(update={"clipping": "none"})
    run = Run(method, toy, GivenDraws(toy)).rounds(2500)
    x = run.state.x
    np.testing.assert_allclose(x, run.states[-2].x, atol=1e-12)  # at rest
    np.testing.assert_allclose(x, np.tile(optimum(v), (AGENTS, 1)), atol=1e-9)
    missed = np.linalg.norm(optimum(v) - optimum(np.ones(AGENTS)))
    assert (missed > 0.1) == (form == "literal")


# ------------------------------------------------------------------------------------- reductions

AVERAGING = np.full((AGENTS, AGENTS), 1 / AGENTS) - np.eye(AGENTS) / AGENTS
"""Complete: with coupling 1 all agents hold the mean."""


def test_dp_gt_on_a_complete_graph_steps_from_the_mean():
    method = noisy("compact", 0, 0, alpha=1.0, beta=1.0)
    run = Run(method, Toy(), Draws(), graphs=(AVERAGING, AVERAGING)).rounds(5)
    x, y, g = run.all("x", 1), run.all("y", 1), run.all("g", 1)
    for k in range(4):
        assert_close(x[k + 1], x[k].mean(axis=0) - 0.15 * y[k])
        assert_close(y[k + 1], y[k].mean(axis=0) + g[k + 1] - g[k])


@pytest.mark.parametrize("name", ["gaussian", "online", "growing"])
def test_compared_methods_on_a_complete_graph_step_from_the_mean(name):
    toy = Toy()
    kind = "normal" if name == "gaussian" else "laplace"
    draws = GivenDraws(toy, **{kind: np.zeros((5, *toy.x0.shape))})
    method = build(name, coupling=1.0, clipping="none")
    run = Run(method, toy, draws, graphs=(AVERAGING, None)).rounds(5)
    x, gradient = run.all("x"), toy.gradient()
    for k, taken in enumerate(run.problem.taken):
        own = [gradient(agent, x[k, agent], rows) for agent, rows in enumerate(taken)]
        assert_close(x[k + 1], x[k].mean(axis=0) - 0.15 * np.array(own))


@pytest.mark.parametrize("method", [*LOOPS, "gaussian", "online", "growing"])
def test_agents_with_the_same_samples_descend_as_one(method):
    toy = Toy("robust_regression", np.full(AGENTS, 6), alike=True)
    silence = np.zeros((8, *toy.x0.shape))
    draws = GivenDraws(toy, laplace=silence, normal=silence)
    if method in LOOPS:
        built = noisy(method, 0, 0, samples=6)
    else:
        built = (
            build(method, samples=6, growth=1.0)
            if method == "growing"
            else build(method, samples=6)
        )
    run = Run(built, toy, draws, graphs=(W, W)).rounds(8)
    bound = 0.5 if method in LOOPS else 0.3
    x, gradient = toy.x0[0], toy.gradient("l1", bound)
    for of_agents in run.all("x"):
        assert_close(of_agents, np.tile(x, (AGENTS, 1)))
        x = x - 0.15 * gradient(0, x, range(6))


def test_agents_with_one_sample_have_nothing_to_draw():
    toy = Toy("logistic_l2", np.ones(AGENTS, int))
    method = noisy("compact", 0, 0, samples=1)
    one, other = (Run(method, toy, GivenDraws(toy), seed=seed).rounds() for seed in (0, 1))
    np.testing.assert_array_equal(one.all("x"), other.all("x"))
    assert one.problem.taken == [[[agent] for agent in range(AGENTS)]] * (ITERATIONS + 1)


# ---------------------------------------------------------------------------- what training records

TRACKING, QUANTISED = "dp_gradient_tracking", "quantised_gradient_descent"
DIMENSION, EACH = 3, 8
PARTITION = HorizontalPartition(clients=AGENTS, test=0.2)


def edges(weights: np.ndarray) -> dict[str, Any]:
    """A graph by its edges."""
    listed = [(int(j), int(i), float(weights[i, j])) for i, j in np.argwhere(weights)]
    return {"kind": "edges", "edges": listed}


DIRECTED = {"states": edges(R), "trackers": edges(C)}  # 8 and 7 edges
UNDIRECTED = {"states": {"kind": "ring", "weights": "metropolis"}}  # 10 edges
METHODS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    TRACKING: (DIRECTED, {"scheme": S2, "horizon": 20, "clipping": "l1"}),
    "gaussian_gradient_descent": (UNDIRECTED, SHARED | {"noise": 0.4}),
    "ternary_gradient_descent": (UNDIRECTED, SHARED | {"quantiser_range": 9.5}),
    "binomial_gradient_descent": (UNDIRECTED, SHARED | {"noise": 0.4}),
    "online_gradient_descent": (UNDIRECTED, SHARED | {"noise": 0.4}),
    "growing_samples_descent": (UNDIRECTED, SHARED | {"noise": 0.4, "growth": 1.07}),
    QUANTISED: (UNDIRECTED, SHARED | {"noise": 0.4, "spacing": 0.25}),
}


def specification(algorithm: str, hyper: dict[str, Any] | None = None, **changes: Any) -> RunSpec:
    graphs, own = METHODS[algorithm]
    objective = {"name": "logistic_l2", "weight": 0.1}
    values = {"partition": PARTITION, "graphs": graphs, "objective": objective} | changes
    return small_federations.specification(
        algorithm, hyper_parameters=own | (hyper or {}), **values
    )


def shared_out(folder: Path, features: np.ndarray, label: np.ndarray, **metadata: Any) -> Path:
    """Fifty rows among five agents, eight each, and ten for testing."""
    rows = Samples(np.arange(len(label)), label, features)
    return small_federations.share_out(folder, PARTITION, rows, **metadata)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    rng = np.random.default_rng(5)
    features = rng.normal(size=(50, DIMENSION))
    label = np.where(features @ rng.normal(size=DIMENSION) > 0, 1.0, -1.0)
    return shared_out(tmp_path_factory.mktemp("linear"), features, label)


@pytest.fixture(scope="module")
def image_shards(tmp_path_factory):
    rng = np.random.default_rng(6)
    label = np.tile([-1.0, 4.0], 25)
    features = rng.normal(size=(50, 64)) + label[:, None] / 5
    return shared_out(tmp_path_factory.mktemp("images"), features, label, shape=(1, 8, 8))


RECORDS = np.array([0, 3, 6, 7])
BYTES = {  # of one iteration
    TRACKING: (8 + 7) * DIMENSION * 8,
    "gaussian_gradient_descent": 10 * DIMENSION * 8,
    "ternary_gradient_descent": 10 * (DIMENSION * np.log2(3) / 8 + 8),
    "binomial_gradient_descent": 10 * DIMENSION * 8,
    "online_gradient_descent": 10 * DIMENSION * 8,
    "growing_samples_descent": 10 * DIMENSION * 8,
}
BUSIEST = {  # messages of the agent that sends and receives most, in one iteration
    TRACKING: 4 + 4,  # agent 0, by R and by C
    **dict.fromkeys(set(METHODS) - {TRACKING}, 4),  # everyone on a ring
}
DRAWN = {  # samples of an agent for the gradients of each iteration
    TRACKING: [14, 7, 7, 7, 7, 7, 7],  # ⌊1.1^20⌋ + 1, twice at first
    "online_gradient_descent": [3, 6, 8, 8, 8, 8, 8],
    "growing_samples_descent": GROWING[:7],
}


@pytest.mark.parametrize("algorithm", METHODS)
def test_what_a_trace_counts(shards, tmp_path, algorithm):
    spec = specification(algorithm)
    trace = train(spec, shards, tmp_path / "trace.nc")
    assert trace["status"].values.tolist() == ["ok", "ok"]
    tracking = algorithm == TRACKING
    drawn = DRAWN.get(algorithm, [3] * 7)
    per_round = {
        "round": np.ones(7),
        "messages": np.full(7, 15 if tracking else 10),
        "gradient_evaluations": AGENTS * np.array(drawn),
        "epoch": np.array(drawn) / EACH,
        "iteration": [2 if tracking else 1, 1, 1, 1, 1, 1, 1],
        # Both variables travel at the same time, as do the messages of all agents.
        "sequential_messages": np.ones(7),
        "sequential_gradients": np.array(drawn),
    }
    if algorithm in BYTES:
        per_round["bytes_sent"] = np.full(7, BYTES[algorithm])
        per_message = BYTES[algorithm] / (15 if tracking else 10)
        per_round["sequential_bytes"] = np.full(7, BUSIEST[algorithm] * per_message)
    for name, spent in per_round.items():
        expected = np.append(0, np.cumsum(spent))[RECORDS]
        np.testing.assert_allclose(trace[name], [expected, expected], rtol=1e-14)
    context = PrivacyContext(EACH, DIMENSION, *spec.graph_weights)
    budget = next(iter(build_algorithm(spec).budgets(context, 7).values()))
    for name, spent in (("epsilon", budget.epsilon), ("delta", budget.delta)):
        expected = np.append(0, spent)[RECORDS]
        np.testing.assert_array_equal(trace[name], [expected, expected])
    assert float(trace["epsilon"][0, -1] + trace["delta"][0, -1]) > 0
    # One start, then every agent its own way.
    assert (trace["disagreement"][:, 0] == 0).all()
    assert (trace["disagreement"][:, 1:] > 0).all()


def lemmas_2_and_3(rounds: int, received_state: float, received_tracker: float) -> list[float]:
    """Cumulative ε of S2 above, horizon 20, C = 1: the listing of the errata."""
    a, b = abs(1 - 0.3 * received_state), abs(1 - 0.2 * received_tracker)
    dx, dy, spent, all_spent = 0.0, 1 / 7, 0.0, []
    for _ in range(rounds):
        spent += dx / 0.97**20 + dy / 0.95**20
        dx, dy = a * dx + 0.15 * dy, b * dy + 2 / 7
        all_spent.append(spent)
    return all_spent


def test_recorded_budgets_by_hand(shards, tmp_path):
    trace = train(specification(TRACKING), shards, tmp_path / "a.nc")
    agents = [lemmas_2_and_3(7, *sums) for sums in zip(R.sum(axis=1), C.sum(axis=1), strict=True)]
    worst = np.append(0, np.max(agents, axis=0))
    np.testing.assert_allclose(trace["epsilon"], [worst[RECORDS]] * 2, rtol=1e-12)
    assert (trace["delta"] == 0).all()
    trace = train(specification(QUANTISED), shards, tmp_path / "b.nc")
    # Metropolis weights of a ring are 1/3, two are received; C/m = 0.2.
    moved, spent = 0.0, [0.0]
    for _ in range(7):
        spent.append(spent[-1] + moved / 0.4)
        moved = (1 - 0.3 * 2 / 3) * moved + 0.15 * 0.6 / 3
    np.testing.assert_allclose(trace["epsilon"], [np.array(spent)[RECORDS]] * 2, rtol=1e-12)
    assert (trace["delta"] == 0).all()


def test_quantised_messages_are_as_long_as_their_levels_need():
    run, _ = compared("quantised", "ridge_regression", "l1")
    sent = run.sent(run.network.states)
    levels = [round((z.max() - z.min()) / 0.25) + 1 for z in sent]
    expected = np.count_nonzero(W) * FEATURES * np.log2(levels).sum() / 8
    assert run.counters.bytes_sent == pytest.approx(expected, rel=1e-12)
    assert run.counters.messages == np.count_nonzero(W) * ITERATIONS
    # Agents 0 and 3 have three neighbours each, to whom they send and from whom they receive.
    of_one = expected / np.count_nonzero(W)
    assert run.counters.sequential_bytes == pytest.approx(6 * of_one, rel=1e-12)
    assert run.counters.sequential_messages == ITERATIONS


@pytest.mark.parametrize("form", LOOPS)
def test_every_form_sends_both_variables(form):
    run = Run(noisy(form, 0.3, 0.3), Toy(), Draws(), graphs=(R, W)).rounds(4)
    edges_used = np.count_nonzero(R) + np.count_nonzero(W)
    assert run.counters.messages == 4 * edges_used
    assert run.counters.bytes_sent == 4 * edges_used * FEATURES * 8
    # At the same time, by the 4 links that R gives agent 0 and the 6 that W does.
    assert run.counters.sequential_messages == 4
    assert run.counters.sequential_bytes == 4 * (4 + 6) * FEATURES * 8


NETWORK: dict[str, Any] = {"objective": {"name": "cross_entropy", "model": "cnn_8x8"}}


def test_networks_send_and_record_single_precision(image_shards, tmp_path):
    trace = train(specification(TRACKING, **NETWORK), image_shards, tmp_path / "trace.nc")
    parameters = 8 * 9 + 8 + 128 * 32 + 32 + 32 * 2 + 2
    np.testing.assert_array_equal(trace["bytes_sent"][0], 15 * parameters * 4 * RECORDS)
    measured = {"objective", "train_accuracy", "test_accuracy", "test_accuracy_of_agents"}
    measured |= {"test_accuracy_of_worst_agent", "disagreement"}
    assert measured <= set(trace.data_vars)
    assert (trace["disagreement"][:, 0] < 1e-6).all()  # of numbers, and their mean, in float32


# ------------------------------------------------------------------------------- what is refused

PATH = {"states": {"kind": "directed_path", "weights": "received"}}
WITHOUT_COMMON_ROOT = PATH | {"trackers": {"kind": "directed_path", "weights": "received"}}
BINOMIAL = "binomial_gradient_descent"
REFUSED: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    (TRACKING, {}, {"graphs": WITHOUT_COMMON_ROOT}, r"only the states of \{0\}.*only \{4\}"),
    (TRACKING, {}, {"graphs": PATH}, r"needs a second graph: say 'graphs\.trackers'"),
    (TRACKING, {}, {"graphs": None}, r"DP-GT works on graphs: say 'graphs'"),
    (QUANTISED, {}, {"graphs": None}, r"works on graphs: say 'graphs'"),
    (QUANTISED, {}, {"graphs": DIRECTED}, r"sends states only: remove 'graphs\.trackers'"),
    (
        QUANTISED,
        {},
        {"graphs": DIRECTED | {"trackers": None}},
        r"graphs\.states: agent 0 .*symmetric weights",
    ),
    (
        TRACKING,
        {},
        {"graphs": DIRECTED | {"trackers": {"kind": "edges", "edges": [[0, 5, 1.0]]}}},
        r"graphs\.trackers: the edge \[0, 5, 1\] is beyond the 5 agents",
    ),
    (TRACKING, {}, {"rounds": 22}, r"horizon 20 has 21 iterations, fewer than the 22 rounds"),
    (TRACKING, {"form": "exact"}, {}, r"key 'form', value 'exact'"),
    (TRACKING, {"scheme": S2 | {"p_zeta": 1.2}}, {}, r"key 'scheme\.p_zeta', value 1\.2: .*less"),
    (TRACKING, {"scheme": S2 | {"p_eta": 0.0}}, {}, r"key 'scheme\.p_eta', value 0\.0: .*greater"),
    (TRACKING, {"scheme": S1 | {"p_alpha": -1}}, {}, r"key 'scheme\.p_alpha', value -1"),
    (
        TRACKING,
        {"scheme": CONSTANT | {"state_noise_scale": -0.1}},
        {},
        r"key 'scheme\.state_noise_scale', value -0\.1",
    ),
    (TRACKING, {"scheme": S1 | {"name": "s3"}}, {}, r"key 'scheme\.name', value 's3'.*'s1'"),
    (TRACKING, {"form": "provable", "clipping": "l2"}, {}, r"provable rests on clipping: l1"),
    (TRACKING, {"form": "provable", "clipping": "none"}, {}, r"provable rests on clipping: l1"),
    (QUANTISED, {"clipping": "l3"}, {}, r"key 'clipping', value 'l3'"),
    (QUANTISED, {"step": 0.1}, {}, r"unknown key 'step'"),
    (BINOMIAL, {"levels": 8}, {}, r"key 'levels', value 8: must be odd, so that 0 is a level"),
]


@pytest.mark.parametrize(("algorithm", "hyper", "changes", "message"), REFUSED)
def test_what_a_method_cannot_do_is_refused(algorithm, hyper, changes, message):
    with pytest.raises(FedatlasError, match=rf"(?s)^test-small/.*{message}"):
        build_algorithm(specification(algorithm, hyper, **changes))
