"""Private methods at one δ: ε by one tight accountant, and an attack on each method's code.

Every method here releases, again and again, a sum of clipped vectors with fresh noise, of samples
or clients that it draws in secret; all else follows from what was released. So a method is a kind
of noise, in units of the sensitivity, a share that is drawn, and a number of releases, which
`privacy.profiles` turns into ε. Data differ by one replaced sample of an agent, or by one replaced
client of DP-FedAvg.

The attacker knows everything but which of two such data sets was used, sees all models, and ranks
runs by their likelihood ratio. All gradients or updates are far beyond the bound, in one direction;
those of the replaced one are so in the other direction in the first data set.
"""

from collections.abc import Iterator, Sequence
from math import lgamma, log, log1p
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from fedatlas.algorithms import build_algorithm
from fedatlas.algorithms.binomial_gradient_descent import BinomialGradientDescent
from fedatlas.algorithms.dp_fedavg import DpFedAvg
from fedatlas.algorithms.dp_gradient_tracking import DpGradientTracking
from fedatlas.algorithms.dp_local_sgd import DpLocalSgd
from fedatlas.algorithms.gaussian_gradient_descent import GaussianGradientDescent
from fedatlas.arithmetic.randomness import Draws, RoundRandom
from fedatlas.arithmetic.samples import Clipping
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comparison import CONFIDENCE
from fedatlas.evaluation.tables import ONE_CLIENT, REFUTED, PairRow
from fedatlas.federations.decentralised.graph import GraphCounters, Links
from fedatlas.federations.parts import Counters, StarNetwork
from fedatlas.privacy.attacks import Attack, above, columns_of, lower_bound, random_of
from fedatlas.privacy.profiles import (
    Binomial,
    Gaussian,
    Laplace,
    Noise,
    pair_epsilon,
    tight_epsilon,
)
from fedatlas.schema.runs import RunSpec
from fedatlas.schema.studies import PrivacyAudit
from fedatlas.studies.client_audit import TinyFederation

ONE_SAMPLE = "one sample"


class Mechanism(NamedTuple):
    """The release of a run: noise over the sensitivity, how many of `units` it draws, how often."""

    noise: Noise
    units: int
    drawn: int
    releases: int

    @property
    def share(self) -> float:
        """The share of samples or clients that is drawn."""
        return self.drawn / self.units

    def epsilon(self, delta: float) -> float:
        """ε by the tight accountant."""
        return tight_epsilon([(self.noise, self.releases)], delta, self.share)


def mechanism_of(algorithm: Any, spec: RunSpec, samples: int, dimension: int) -> Mechanism:
    """A run's mechanism, whose clients or agents have so many samples at least.

    FedatlasError if its releases depend on samples of earlier ones, or on gradients that nothing
    bounds.
    """
    noise: Noise
    rounds = spec.rounds
    if isinstance(algorithm, DpFedAvg) and algorithm.sampling == "fixed_size":
        noise = Gaussian(algorithm.noise_multiplier / 2)  # a sum moves by twice the clip bound
        partition: Any = spec.partition
        return Mechanism(noise, partition.clients, algorithm.clients_per_round, rounds)
    if isinstance(algorithm, DpLocalSgd) and algorithm.batch_size:
        noise = Gaussian(algorithm.noise_multiplier / 2)
        return Mechanism(noise, samples, algorithm.batch_size, rounds * algorithm.local_steps)
    if isinstance(algorithm, DpGradientTracking) and algorithm.form == "provable":
        steps = algorithm.scheme.steps(algorithm.horizon)
        scales = algorithm.scheme.noise(algorithm.horizon)[1]
        if np.ptp(scales) == 0:
            noise = Laplace(_ratio(scales[0], algorithm.gradient_bound / steps.samples))
            return Mechanism(noise, samples, steps.samples, rounds)
    if isinstance(algorithm, GaussianGradientDescent) and algorithm.clipping == "l2":
        noise = Gaussian(_ratio(algorithm.noise, algorithm.gradient_bound / algorithm.samples))
        return Mechanism(noise, samples, algorithm.samples, rounds)
    if isinstance(algorithm, BinomialGradientDescent) and algorithm.clipping == "l1":
        lattice = algorithm.gradient_bound / algorithm.samples / algorithm.spacing
        if abs(lattice - round(lattice)) < 1e-9:
            noise = Binomial(algorithm.trials, round(lattice), dimension)
            return Mechanism(noise, samples, algorithm.samples, rounds)
    raise FedatlasError(
        f"{spec.name}: has no ε by `privacy_audit.delta`: that is of dp_gradient_tracking with "
        "'form: provable' and constant noise, gaussian_gradient_descent with 'clipping: l2', "
        "binomial_gradient_descent with 'clipping: l1' and 'gradient_bound / samples' a multiple "
        "of its lattice, dp_local_sgd with a 'batch_size', and dp_fedavg with 'sampling: "
        "fixed_size'"
    )


def _ratio(noise: float, sensitivity: float) -> float:
    """The same of all bounds to which noise is proportional."""
    return float(f"{noise / sensitivity:.9g}")


def rows_at_delta(specs: Sequence[RunSpec], study: PrivacyAudit) -> Iterator[PairRow]:
    """A row for a run, none without noise; specs: all its points, which must have one mechanism."""
    spec, delta = specs[0], study.delta
    assert delta is not None  # as the study says
    algorithms: list[Any] = [build_algorithm(each) for each in specs]
    first = algorithms[0]
    if isinstance(first, DpGradientTracking) and not first.scheme.noise(first.horizon).any():
        return
    sizes = study.samples or 1, study.dimension or 1
    found = {mechanism_of(each, spec, *sizes) for each in algorithms}
    if len(found) > 1:
        noises = ", ".join(sorted({repr(each.noise) for each in found}))
        raise FedatlasError(f"{spec.name}: its grid has several kinds of noise: {noises}")
    (mechanism,) = found
    claimed = mechanism.epsilon(delta)
    spent = pair_epsilon(mechanism.noise, mechanism.releases, delta, mechanism.share)
    shown = None
    if study.runs is not None:
        shown = attack(first, mechanism, spec, delta, study.runs, study.seed)
    found_by_attack = shown.lower_bound if shown else 0.0
    yield PairRow(
        run=spec.run,
        case=ONE_CLIENT if isinstance(first, DpFedAvg) else ONE_SAMPLE,
        samples=mechanism.units,
        drawn=mechanism.drawn,
        accounting=f"tight, δ = {delta:g}",
        claimed_epsilon=claimed,
        pair_epsilon=spent,
        known="at least",
        refuted_below=None,
        refuted_above=None,
        **columns_of(shown, study.runs),
        verdict=REFUTED if max(spent, found_by_attack) > above(claimed) else "not refuted",
    )


def attack(
    algorithm: Any, mechanism: Mechanism, spec: RunSpec, delta: float, runs: int, seed: int
) -> Attack:
    """Attack a method; runs: on either data set, half of which choose the attacker's threshold."""
    scores = []
    for number in range(2):
        random, replaced = random_of(seed, number), number == 0
        if isinstance(algorithm, DpFedAvg):
            scores.append(_of_clients(algorithm, mechanism, replaced, runs, random))
        elif isinstance(algorithm, DpLocalSgd):
            scores.append(_of_local_steps(algorithm, mechanism, replaced, runs, random))
        else:
            scores.append(_of_agents(algorithm, mechanism, spec, replaced, runs, random))
    first, second = scores
    return lower_bound(first, second, CONFIDENCE, delta)


class _Samples:
    """Samples whose gradients are far beyond the bound; one number for each of `runs` runs.

    The first one of the first agent or client is drawn as often as the method would draw it.
    """

    def __init__(self, agents: int, mechanism: Mechanism, replaced: bool, runs: int) -> None:
        self.agents = self.clients = agents
        self.dimension, self._mechanism, self._replaced = runs, mechanism, replaced

    def minibatches(self, random: RoundRandom, *sizes: Any) -> Any:
        """Of agents (n, runs), of a client's local steps (steps, 1, runs): whether it is drawn."""
        self._check_size(sizes[-1] if len(sizes) == 1 else sizes[1])
        if len(sizes) == 1:
            return random.uniform(self.agents, self.dimension) < self._mechanism.share
        drawn = random.uniform(sizes[2], 1, self.dimension) < self._mechanism.share
        return SimpleNamespace(sizes=np.array([sizes[1]]), steps=sizes[2], at=drawn.__getitem__)

    def _check_size(self, size: int) -> None:
        assert size == self._mechanism.drawn

    def gradients(self, points: np.ndarray, batch: np.ndarray, clipping: Clipping) -> np.ndarray:
        """Means of clipped gradients, (agents, runs)."""
        others, own = np.clip([-_BEYOND, _BEYOND], -clipping.bound, clipping.bound)
        means = np.full((self.agents, self.dimension), others)
        if self._replaced:
            means[0] += batch[0] * (own - others) / self._mechanism.drawn
        return means

    def gradient(self, points: np.ndarray, batch: np.ndarray, clipping: Clipping) -> np.ndarray:
        """The same, of clients."""
        return self.gradients(points, batch, clipping)

    def mean(self, values: np.ndarray, *_: Any) -> np.ndarray:
        """Of one client."""
        return values[0]

    def array(self, values: np.ndarray) -> np.ndarray:
        """As they are."""
        return values

    def load(self, *_: Any, **__: Any) -> None:
        """Nobody asks how long it takes."""


_BEYOND = 1e9


def _of_agents(
    algorithm: Any,
    mechanism: Mechanism,
    spec: RunSpec,
    replaced: bool,
    runs: int,
    random: RoundRandom,
) -> np.ndarray:
    """(runs,) log-likelihood ratios, from all agents' models."""
    states, trackers = spec.graph_weights
    network: Any = SimpleNamespace(draws=Draws(), states=_links(states), trackers=None)
    tracking = isinstance(algorithm, DpGradientTracking)
    if tracking:
        assert trackers is not None  # as the method has two graphs
        steps = algorithm.scheme.steps(algorithm.horizon)
        coupling, step_size, drawn = steps.state_coupling, steps.step_size, steps.samples
        network.trackers = _links(trackers)
    else:
        coupling, step_size, drawn = algorithm.coupling, algorithm.step_size, algorithm.samples
    problem: Any = _Samples(len(states), mechanism, replaced, runs)
    bound, share = algorithm.gradient_bound, mechanism.share
    state = algorithm.start(problem, network, np.zeros((problem.agents, runs)))
    total, kept = np.zeros(runs), np.zeros(runs)
    for k in range(mechanism.releases):
        x = state.x
        state = algorithm.round(state, problem, network, random.at(k))
        sent = -(state.x - x + coupling * (network.states.in_laplacian @ x)) / step_size
        gradient = sent[0]
        if tracking:  # of what was sent before, the tracker kept this
            gradient = sent[0] - kept
            kept = kept - steps.tracker_coupling * (network.trackers.out_laplacian[0] @ sent)
        released = (gradient + bound / 2) * drawn / bound
        total += _mixed(mechanism.noise.log_ratio(released), share)
    return total


def _links(weights: np.ndarray) -> Links:
    return Links(weights, np.asarray, Draws(), GraphCounters())


def _mixed(log_ratio: np.ndarray, share: float) -> np.ndarray:
    """ln(1 − share + share e^ratio)."""
    if share == 1:
        return log_ratio
    return np.logaddexp(log1p(-share), log(share) + log_ratio)


def _of_local_steps(
    algorithm: DpLocalSgd, mechanism: Mechanism, replaced: bool, runs: int, random: RoundRandom
) -> np.ndarray:
    """(runs,) log-likelihood ratios, from what a client sends; others' do not depend on it."""
    alone: Any = algorithm.model_copy(update={"clients_per_round": 1})
    problem: Any = _Samples(1, mechanism, replaced, runs)
    network = StarNetwork(1, Counters())
    steps, share, noise = algorithm.local_steps, mechanism.share, mechanism.noise
    assert isinstance(noise, Gaussian)
    times = np.arange(steps + 1)[:, None]  # how often the sample was drawn
    ways = [lgamma(steps + 1) - lgamma(j + 1) - lgamma(steps - j + 1) for j in range(steps + 1)]
    chances = np.array(ways)[:, None] + times * np.log(share) + (steps - times) * log1p(-share)
    state = alone.start(problem, network, np.zeros(runs))
    total = np.zeros(runs)
    for k in range(mechanism.releases // steps):
        x = state.x
        state = alone.round(state, problem, network, random.at(k))
        path = (x - state.x) / (algorithm.local_step_size * algorithm.server_step_size)
        moved = path / algorithm.clip_bound + steps  # from the clip bound of the others
        released = moved * mechanism.drawn / 2
        ratios = (released - times / 2) * times / (steps * noise.deviation**2)
        total += np.logaddexp.reduce(chances + ratios, axis=0)
    return total


def _of_clients(
    algorithm: DpFedAvg, mechanism: Mechanism, replaced: bool, runs: int, random: RoundRandom
) -> np.ndarray:
    """(runs,) log-likelihood ratios, from the server's models; one training makes all runs."""
    problem: Any = TinyFederation(mechanism.units, _BEYOND if replaced else -_BEYOND, -_BEYOND)
    network = StarNetwork(mechanism.units, Counters())
    released = np.empty(runs * mechanism.releases)
    start = algorithm.start(problem, network, np.zeros(1))
    for k in range(len(released)):  # a round does not depend on the model
        released[k] = algorithm.round(start, problem, network, random.at(k)).x[0]
    unit = algorithm.server_step_size * algorithm.clip_bound / mechanism.drawn
    moved = (released / unit + mechanism.drawn) / 2
    ratios = _mixed(mechanism.noise.log_ratio(moved), mechanism.share)
    return ratios.reshape(runs, mechanism.releases).sum(axis=1)
