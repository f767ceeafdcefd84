"""Test claimed privacy budgets of DP-GT against the true loss of adjacent data sets.

The problem is tiny: one number per agent. Sample l of agent i has the loss ½ h x² − c_il x, or
x² + 3 sin² x − c_il x; one sample of agent 0 has another c, so that its gradients differ by C at
every x, as Definition 3 of the paper asks without clipping. h is the curvature, which the paper's
proofs leave out. The ε of the pair follows by a sum, see `privacy.adjacent_runs`.

Sampled attacks check it: a lower bound of ε from many trainings at once, one run per coordinate.
The attacker sees every message and knows everything but which of two data sets was used. It ranks
runs by their likelihood ratio, the strongest possible test.

Methods that protect clients around a server are audited in `studies.client_audit`, and all at one δ
by one accountant in `studies.equal_privacy`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from fedatlas.algorithms import algorithm_class, build_algorithm
from fedatlas.algorithms.dp_fedavg import DpFedAvg
from fedatlas.algorithms.dp_gradient_tracking import DpGradientTracking
from fedatlas.arithmetic.randomness import Draws, RoundRandom
from fedatlas.arithmetic.samples import Clipping
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comparison import CONFIDENCE
from fedatlas.evaluation.tables import REFUTED, PairRow, to_csv
from fedatlas.federations.decentralised.graph import GraphCounters, Links
from fedatlas.files import write_text
from fedatlas.privacy.accountants import PrivacyContext, lemma_2
from fedatlas.privacy.adjacent_runs import (
    ChangedAgent,
    lowest_curvature_of_remark_4,
    pair_epsilon,
    refuted_from,
    sampled_pair_epsilon,
)
from fedatlas.privacy.attacks import Attack, above, columns_of, lower_bound
from fedatlas.schema.runs import RunSpec
from fedatlas.schema.studies import PrivacyAudit
from fedatlas.studies.client_audit import rows_of_clients
from fedatlas.studies.equal_privacy import rows_at_delta

_DECIMALS = 9  # of likelihood ratios


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
            partial(lemma_2, smoothness=smoothness),
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
    evidence = training.of_fresh_samples if provable else training.of_replays
    # Rounding errors also distinguish the data sets, but they are not under attack.
    first, second = (
        evidence(training.releases(world, iterations, [seed, number]), worlds).round(_DECIMALS)
        for number, world in enumerate(worlds)
    )
    return lower_bound(first, second, confidence)


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


class _TapedLinks(Links):
    """Links that add to a list of releases, and send what a list of earlier ones says, if any."""

    def __init__(
        self, weights: np.ndarray, releases: list[_Release], replayed: Sequence[_Release]
    ) -> None:
        super().__init__(weights, np.asarray, Draws(), GraphCounters())
        self._releases, self._replayed = releases, replayed

    def release(self, values: Any, scale: float, random: RoundRandom) -> Any:
        sent = super().release(values, scale, random)
        if self._replayed:
            sent = self._replayed[len(self._releases)].sent
        self._releases.append(_Release(sent, values, scale))
        return sent


@dataclass(frozen=True)
class _Training:
    """A method on its graphs; states, trackers: weights (n, n)."""

    algorithm: DpGradientTracking
    states: np.ndarray
    trackers: np.ndarray

    def releases(
        self,
        problem: Any,
        iterations: int,
        seed: Sequence[int] = (0, 0),
        replayed: Sequence[_Release] = (),
    ) -> list[_Release]:
        """The releases of a training from 0, in order."""
        releases: list[_Release] = []
        network: Any = SimpleNamespace(
            states=_TapedLinks(self.states, releases, replayed),
            trackers=_TapedLinks(self.trackers, releases, replayed),
            draws=Draws(),
        )
        random = RoundRandom(int(np.random.SeedSequence(seed).generate_state(1)[0]))
        state = self.algorithm.start(
            problem, network, np.zeros((problem.agents, problem.dimension))
        )
        for k in range(iterations):
            state = self.algorithm.round(state, problem, network, random.at(k))
        return releases

    def of_replays(
        self, releases: Sequence[_Release], worlds: Sequence[_TinyProblem]
    ) -> np.ndarray:
        """(runs,) log-likelihood ratios of what was sent; all other states are recomputed."""
        iterations = len(releases) // 2
        replays = [self.releases(world, iterations, replayed=releases) for world in worlds]
        return np.sum(
            [
                (np.abs(first.sent - second.exact) - np.abs(first.sent - first.exact)).sum(axis=0)
                / first.scale
                for first, second in zip(*replays, strict=True)
            ],
            axis=0,
        )

    def of_fresh_samples(
        self, releases: Sequence[_Release], worlds: Sequence[_TinyProblem]
    ) -> np.ndarray:
        """(runs,) log-likelihood ratios where every release depends on samples of its own.

        A release is a number that follows from earlier releases, plus the gradient of one of the
        sets of samples that may be drawn, plus noise.
        """
        # Gradients of 0 leave in trackers only what follows from releases.
        known = _TinyProblem(np.zeros_like(worlds[0].centres), 0.0, worlds[0].dimension)
        replay = self.releases(known, len(releases), replayed=releases)
        size = self.algorithm.scheme.steps(self.algorithm.horizon).samples
        clipping = self.algorithm.clipping_rule
        total = np.zeros(known.dimension)
        for release, points in zip(replay, known.points, strict=False):
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


_REMARK_4, _SMOOTHNESS_OF_REMARK_4 = "x² + 3 sin² x", 8.0
_FAR = 50.0  # curvatures are looked for up to this times 1/γ, where all but the provable form fail


def tabulate_pairs(specs: Sequence[RunSpec], study: PrivacyAudit) -> list[PairRow]:
    """A row for each private run, loss and accounting, the first accounting of a run first.

    A claim below the pair's ε `does not stand`; others are `not refuted`: the pair is one of many.
    """
    private = [spec for spec in specs if algorithm_class(spec.algorithm).has_budgets()]
    if not private:
        raise FedatlasError("privacy_audit: no run of the experiment accounts for privacy")
    if study.delta is not None:
        runs = dict.fromkeys(spec.run for spec in private)
        points = [[spec for spec in private if spec.run == run] for run in runs]
        return [row for each in points for row in rows_at_delta(each, study)]
    return [row for spec in private for row in _rows(spec, study)]


def _rows(spec: RunSpec, study: PrivacyAudit) -> Iterator[PairRow]:
    """One run held against all pairs of a study."""
    algorithm = build_algorithm(spec)
    if isinstance(algorithm, DpFedAvg):
        yield from rows_of_clients(spec, algorithm, study)
        return
    if not isinstance(algorithm, DpGradientTracking):
        raise FedatlasError(f"{spec.name}: only dp_gradient_tracking and dp_fedavg can be attacked")
    if not study.curvatures:
        raise FedatlasError(f"{spec.name}: declare 'privacy_audit.curvatures', such as [0, -1]")
    states, trackers = spec.graph_weights
    assert trackers is not None  # as the method has two graphs
    form, scheme, horizon = algorithm.form, algorithm.scheme, algorithm.horizon
    steps, noise = scheme.steps(horizon), scheme.noise(horizon)
    if not noise[1].min() > 0:
        raise FedatlasError("privacy_audit: without noise there is nothing to attack: state some")
    drawn = steps.samples
    samples = study.samples or drawn
    if drawn > samples:
        raise FedatlasError(
            f"privacy_audit: {spec.run} draws {drawn} of {samples} samples; raise 'samples'"
        )
    share, moved = drawn / samples, algorithm.gradient_bound / drawn
    weights = float(states[0].sum()), float(trackers[0].sum())
    agent = ChangedAgent(form, steps, *weights, *noise[:, : spec.rounds])

    def spent_at(curvature: float) -> float:
        if share == 1:
            return pair_epsilon(agent, moved, curvature)
        return sampled_pair_epsilon(agent, moved, curvature, share)

    @cache
    def refuted(claimed: float, side: int) -> float | None:
        return refuted_from(spent_at, above(claimed), side * _FAR / steps.step_size)

    # The loss, ε of the pair, smoothness, and the curvature of a quadratic loss.
    cases: list[tuple[str, float, float, float | None]] = [
        (f"curvature {curvature:g}", spent_at(curvature), abs(curvature), curvature)
        for curvature in study.curvatures
    ]
    if study.remark_4 and share == 1 and form != "provable":
        spent = pair_epsilon(agent, moved, lowest_curvature_of_remark_4)
        cases.append((_REMARK_4, spent, _SMOOTHNESS_OF_REMARK_4, None))
    for case, spent, smoothness, curvature in cases:
        exact, found = False, None  # else what is sent is not chosen for the whole run together
        if curvature is not None:
            exact = share == 1 or form == "provable" or (form == "compact" and curvature <= 0)
            if study.runs is not None:
                found = attack(
                    *(algorithm, states, trackers),
                    iterations=spec.rounds,
                    samples=samples,
                    curvature=curvature,
                    runs=study.runs,
                    # Shared among all curvatures of a run.
                    confidence=1 - (1 - CONFIDENCE) / len(study.curvatures),
                    seed=study.seed,
                )
        context = PrivacyContext(samples, 1, states, trackers)
        for accounting, claimed in claimed_epsilon(
            algorithm, context, spec.rounds, smoothness
        ).items():
            # The one accounting that knows the curvature changes with it.
            fixed = not accounting.endswith("with the curvature")
            yield PairRow(
                run=spec.run,
                case=case,
                samples=samples,
                drawn=drawn,
                accounting=accounting,
                claimed_epsilon=claimed,
                pair_epsilon=spent,
                known="exact" if exact else "at least",
                refuted_below=refuted(claimed, -1) if fixed else None,
                refuted_above=refuted(claimed, 1) if fixed else None,
                **columns_of(found, study.runs),
                verdict=REFUTED if spent > above(claimed) else "not refuted",
            )


def attack_budgets(privacy_audit: PrivacyAudit, runs: list[RunSpec], output: Path) -> None:
    """Hold what runs claim of privacy against pairs of data sets of a tiny problem."""
    write_text(output, to_csv([row._asdict() for row in tabulate_pairs(runs, privacy_audit)]))
