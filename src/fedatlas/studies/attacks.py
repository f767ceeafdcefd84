"""Attacks on claimed privacy budgets: a lower bound of ε from many runs on adjacent data.

The problem is tiny: one number per agent, trained many times at once, one run per coordinate.
Sample l of agent i has the loss ½ h x² − c_il x. Gradients of two samples differ by |c − c'| at
every x, so the papers' bound C holds without clipping; h is the curvature, which their proofs leave
out. The attacker sees every message and knows everything but which of two data sets was used. It
ranks runs by their likelihood ratio, the strongest possible test.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import inf, log
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from fedatlas.algorithms.dp_gradient_tracking import DpGradientTracking
from fedatlas.arithmetic.clipping import Clipping
from fedatlas.arithmetic.randomness import Draws, RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comparison import CONFIDENCE
from fedatlas.federations.decentralised.network import GraphCounters, Links
from fedatlas.privacy.accountants import PrivacyContext
from fedatlas.privacy.sensitivity import smooth_lemma_2

_DECIMALS = 9  # of likelihood ratios
_QUANTILES = np.linspace(0.01, 0.9999, 200)


class Attack(NamedTuple):
    """The outcome of one attack.

    claimed: see `claimed_epsilon`. lower_bound: of the true ε, 0
    if the attack shows nothing. detected, mistaken: shares of runs on the first and on the second
    data set that the attacker assigns to the first.
    """

    claimed: dict[str, float]
    lower_bound: float
    detected: float
    mistaken: float


def claimed_epsilon(
    algorithm: DpGradientTracking,
    context: PrivacyContext,
    iterations: int,
    smoothness: float,
) -> dict[str, float]:
    """ε of the run by accounting, as in `DecentralisedAlgorithm.budgets`.

    Of the literal form, too, what Lemmas 2 and 3 would be with the gradients' dependence on states.
    smoothness: L of every sample's gradient.
    """
    budgets = algorithm.budgets(context, iterations)
    if algorithm.form == "literal":
        budgets["Lemmas 2 and 3, with the curvature"] = algorithm.budget_by(
            partial(smooth_lemma_2, smoothness=smoothness),
            *(context, iterations, algorithm.gradient_bound),
        )
    return {name: budget.final[0] for name, budget in budgets.items()}


def attack(
    algorithm: DpGradientTracking,
    states: np.ndarray,
    trackers: np.ndarray,
    *,
    iterations: int,
    samples: int,
    curvature: float,
    runs: int,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Attack:
    """Attack a method on two data sets that differ in one sample of the first agent.

    states, trackers: weights R and C, (n, n). samples: D of every agent. runs: on each data set;
    half of them choose the attacker's threshold, the other half are judged by it.
    confidence: of the lower bound.
    Raises FedatlasError if the likelihood is unknown: a form that reuses its samples must draw all
    of them every time.
    """
    if not algorithm.scheme.tracker_noise(algorithm.horizon).min() > 0:
        raise FedatlasError("privacy_audit: without noise there is nothing to attack: state some")
    context = PrivacyContext(samples, 1, states, trackers)
    provable = algorithm.form == "provable"
    drawn = algorithm.scheme.steps(algorithm.horizon).samples
    if not provable and drawn != samples:
        raise FedatlasError(
            f"privacy_audit: form {algorithm.form} draws {drawn} of {samples} samples; its "
            "likelihood is known only where it draws all of them"
        )
    centres = np.zeros((2, len(states), samples))
    # All samples of the agent are equal except one in one data set, which nothing hides.
    centres[:, 0] = -algorithm.gradient_bound / 2
    centres[0, 0, 0] = algorithm.gradient_bound / 2
    worlds = [_TinyProblem(each, curvature, runs) for each in centres]
    training = _Training(algorithm, states, trackers)
    ratios = []
    for number, world in enumerate(worlds):
        tape = training.tape(world, iterations, [seed, number])
        evidence = training.of_fresh_samples if provable else training.of_replays
        # Rounding errors also distinguish the data sets, but they are not under attack.
        ratios.append(evidence(tape, worlds).round(_DECIMALS))
    claimed = claimed_epsilon(algorithm, context, iterations, abs(curvature))
    return Attack(claimed, *_lower_bound(ratios[0], ratios[1], confidence))


class _Release(NamedTuple):
    """One message with noise: what was sent and its exact value, (n, runs), and the noise scale."""

    sent: np.ndarray
    exact: np.ndarray
    scale: float


class _TinyProblem:
    """A problem that answers algorithms for `runs` runs at once; points are (n, runs)."""

    def __init__(self, centres: np.ndarray, curvature: float, runs: int) -> None:
        """centres: c, (n, D)."""
        self.centres, self.curvature = centres, curvature
        self.agents, self.samples = centres.shape
        self.dimension = runs
        self.points: list[np.ndarray] = []  # where gradients were asked for

    def minibatches(self, random: RoundRandom, size: int) -> np.ndarray:
        """Which samples every run draws, (n, runs, size), without replacement."""
        order = random.uniform(self.agents, self.dimension, self.samples).argsort(axis=-1)
        return order[..., :size]

    def gradients(
        self, points: np.ndarray, batch: np.ndarray, clipping: Clipping | None
    ) -> np.ndarray:
        """(n, runs)."""
        self.points.append(points)
        agents = np.arange(self.agents)[:, None, None]
        return self._mean_gradients(points, self.centres[agents, batch], clipping)

    def possible(
        self, points: np.ndarray, size: int, clipping: Clipping | None
    ) -> Iterator[np.ndarray]:
        """(n, runs) gradients of every set of samples that may be drawn, all equally likely."""
        for drawn in combinations(range(self.samples), size):
            yield self._mean_gradients(points, self.centres[:, None, list(drawn)], clipping)

    def _mean_gradients(
        self, points: np.ndarray, centres: np.ndarray, clipping: Clipping | None
    ) -> np.ndarray:
        each = self.curvature * points[..., None] - centres
        if clipping is not None:  # the norm of one coordinate is its size
            each = each.clip(-clipping.bound, clipping.bound)
        return np.asarray(each.mean(axis=-1))


class _Tape:
    """All releases of a training, in order; a replaying tape sends what another recorded."""

    def __init__(self, replayed: "_Tape | None" = None) -> None:
        self.releases: list[_Release] = []
        self._replayed = replayed

    def add(self, exact: np.ndarray, sent: np.ndarray, scale: float) -> np.ndarray:
        if self._replayed is not None:
            sent = self._replayed.releases[len(self.releases)].sent
        self.releases.append(_Release(sent, exact, scale))
        return sent


class _TapedLinks(Links):
    def __init__(self, weights: np.ndarray, tape: _Tape) -> None:
        super().__init__(weights, np.asarray, Draws(), GraphCounters())
        self._tape = tape

    def release(self, values: Any, scale: float, random: RoundRandom) -> Any:
        return self._tape.add(values, super().release(values, scale, random), scale)


@dataclass(frozen=True)
class _Training:
    """A method on its graphs; states, trackers: weights (n, n)."""

    algorithm: DpGradientTracking
    states: np.ndarray
    trackers: np.ndarray

    def tape(
        self, problem: Any, iterations: int, seed: list[int], replayed: _Tape | None = None
    ) -> _Tape:
        """The releases of a training from 0."""
        tape = _Tape(replayed)
        network: Any = SimpleNamespace(
            states=_TapedLinks(self.states, tape),
            trackers=_TapedLinks(self.trackers, tape),
            draws=Draws(),
        )
        random = RoundRandom(int(np.random.SeedSequence(seed).generate_state(1)[0]))
        start = np.zeros((problem.agents, problem.dimension))
        state = self.algorithm.start(problem, network, start)
        for k in range(iterations):
            state = self.algorithm.round(state, problem, network, random.at(k))
        return tape

    def of_replays(self, tape: _Tape, worlds: Sequence[_TinyProblem]) -> np.ndarray:
        """(runs,) log-likelihood ratios of what was sent; all other states are recomputed."""
        iterations = len(tape.releases) // 2
        replays = [self.tape(world, iterations, [0, 0], tape).releases for world in worlds]
        return np.sum(
            [
                (np.abs(first.sent - second.exact) - np.abs(first.sent - first.exact)).sum(axis=0)
                / first.scale
                for first, second in zip(*replays, strict=True)
            ],
            axis=0,
        )

    def of_fresh_samples(self, tape: _Tape, worlds: Sequence[_TinyProblem]) -> np.ndarray:
        """(runs,) log-likelihood ratios where every release depends on samples of its own.

        A release is a number that follows from earlier releases, plus the gradient of one of the
        sets of samples that may be drawn, plus noise.
        """
        # Gradients of 0 leave in trackers only what follows from releases.
        known = _TinyProblem(np.zeros_like(worlds[0].centres), 0.0, worlds[0].dimension)
        replay = self.tape(known, len(tape.releases), [0, 0], tape)
        size = self.algorithm.scheme.steps(self.algorithm.horizon).samples
        clipping = self.algorithm.clipping_rule
        total = np.zeros(known.dimension)
        for release, points in zip(replay.releases, known.points, strict=False):
            rest = release.sent - release.exact
            densities = [
                sum(
                    np.exp(-np.abs(rest - gradient) / release.scale)
                    for gradient in world.possible(points, size, clipping)
                )
                for world in worlds
            ]
            total += np.log(densities[0] / densities[1]).sum(axis=0)
        return total


def _lower_bound(
    first: np.ndarray, second: np.ndarray, confidence: float
) -> tuple[float, float, float]:
    """A lower bound of ε, and the shares of runs on either data set above the threshold.

    first, second: (runs,) the attacker's scores. P(score > t) of the two differ by e^ε at most.
    """
    half = len(first) // 2
    thresholds = np.quantile(np.concatenate([first[:half], second[:half]]), _QUANTILES)
    hits, misses = (
        np.array([(part[:half] > t).sum() for t in thresholds]) for part in (first, second)
    )
    threshold = thresholds[int(np.argmax(_bounds(hits, misses, half, confidence)))]
    detected, mistaken = first[half:] > threshold, second[half:] > threshold
    hits, misses = (part.sum(keepdims=True) for part in (detected, mistaken))
    (bound,) = _bounds(hits, misses, len(detected), confidence)
    return bound, float(detected.mean()), float(mistaken.mean())


def _bounds(hits: np.ndarray, misses: np.ndarray, runs: int, confidence: float) -> list[float]:
    """ln(p/q) with p from below and q from above, by Clopper and Pearson; at least 0.

    hits, misses: (thresholds,) how many of so many runs on either data set are above.
    """
    from scipy.stats import beta

    error = (1 - confidence) / 2  # of either
    low = np.where(hits > 0, beta.ppf(error, np.maximum(hits, 1), runs - hits + 1), 0.0)
    left = np.maximum(runs - misses, 1)
    high = np.where(misses < runs, beta.ppf(1 - error, misses + 1, left), 1.0)

    def bound(low: float, high: float) -> float:
        if low <= 0:
            return 0.0
        return max(0.0, log(low / high)) if high > 0 else inf

    return [bound(*both) for both in zip(low.tolist(), high.tolist(), strict=True)]
