"""Min–max methods against the reference's loops, where they coincide, and what they cost.

The package draws; tests/reference_min_max.py replays those draws worker by worker, in float64. A
wrong sign, point, weight or index shows within a few rounds. Workers have different sizes and
different shares of positives, so that what is padded, or p if it were local, shows too.
"""

from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np
import pytest
import torch

import reference_min_max as reference
from fedatlas.algorithms.coda import Coda
from fedatlas.algorithms.coda_plus import CodaPlus
from fedatlas.algorithms.codasca import Codasca
from fedatlas.algorithms.fmgda import Fmgda
from fedatlas.algorithms.local_sgda import LocalSgda
from fedatlas.algorithms.momentum_local_sgda import MomentumLocalSgda
from fedatlas.arithmetic.minibatches import Minibatches, draw
from fedatlas.arithmetic.randomness import IN_PYTHON, RoundRandom
from fedatlas.arithmetic.samples import Samples
from fedatlas.federations.algorithm import Algorithm
from fedatlas.federations.min_max import PrimalDual
from fedatlas.federations.min_max.engine import AucEngine
from fedatlas.federations.min_max.problem import MinMaxProblem
from fedatlas.federations.parts import Counters, StarNetwork
from fedatlas.federations.shards import ClientSamples
from fedatlas.schema.objectives import AucObjective
from fedatlas.training.loop import train
from small_federations import small, small_shards

FEATURES, HIDDEN = 3, 2  # of the network `two_layers`
# Positives and negatives of each worker.
WORKERS = {1: [(5, 2)], 4: [(3, 2), (1, 1), (8, 1), (2, 4)]}
STEPS: dict[str, Any] = {"primal_step_size": 0.3, "dual_step_size": 0.2}

Trace = list[tuple[np.ndarray, float]]

pytestmark = pytest.mark.usefixtures("one_thread", "toy_project")

# --------------------------------------------------------------------------- running a method


class Toy:
    """The same samples for the package's engine and for the reference's loops."""

    def __init__(
        self,
        workers: int = 4,
        dtype: torch.dtype = torch.float64,
        scores: str = "sigmoid",
        vectorised: bool | None = None,
        counts: list[tuple[int, int]] | None = None,
    ) -> None:
        rng = np.random.default_rng(3)
        counts = counts or WORKERS[workers]
        self.workers = workers = len(counts)
        self.y = np.concatenate([[1.0] * plus + [-1.0] * minus for plus, minus in counts])
        self.sizes = np.array([plus + minus for plus, minus in counts])
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        worker = np.repeat(np.arange(workers), self.sizes)
        self.x = rng.normal(size=(len(self.y), FEATURES)) + 0.6 * worker[:, None]
        self.p = float((self.y == 1).mean())
        self.net = reference.TwoLayerNet(FEATURES, HIDDEN, bounded=scores == "sigmoid")
        self.theta0 = np.concatenate([0.8 * rng.normal(size=self.net.size), [0.1, -0.2]])
        self.w0 = 0.3
        self.dimension = len(self.theta0)
        metadata = {"dataset": "toy", "shape": [FEATURES], "positive_rate": self.p}
        samples = Samples(np.arange(len(self.y)), self.y, self.x)
        objective = AucObjective(name="auc_min_max", model="two_layers", scores=scores)
        self.engine = AucEngine(
            ClientSamples(samples, self.offsets, metadata), objective, "cpu", dtype, vectorised
        )
        self.start = PrimalDual(
            torch.tensor(self.theta0, dtype=dtype), torch.tensor([self.w0], dtype=dtype)
        )

    def gradient_on(
        self, rows: np.ndarray, theta: np.ndarray, w: float
    ) -> tuple[np.ndarray, float]:
        """The reference's gradients on some of all samples."""
        x, y = self.x[rows], self.y[rows]
        return reference.auc_gradients(theta[:-2], theta[-2], theta[-1], w, x, y, self.p, self.net)

    def mean_scores(self, theta: np.ndarray, rows: np.ndarray) -> tuple[float, float]:
        """Of negatives and of positives."""
        scores = self.net.scores(theta[:-2], self.x[rows])
        return reference.best_b(scores, self.y[rows]), reference.best_a(scores, self.y[rows])


def rows_of(batch: Minibatches, worker: int, step: int = 0) -> np.ndarray:
    """The samples that a worker uses at a step."""
    size = int(batch.sizes[worker])
    if batch.rows.size == 0:
        return np.arange(batch.starts[worker], batch.starts[worker] + size)
    return batch.rows[worker, step, :size]


class RecordingProblem:
    """The same oracle; minibatches are written down."""

    drawn: list[Minibatches]

    def __init__(self, problem: MinMaxProblem) -> None:
        self._problem = problem

    def __getattr__(self, name: str) -> Any:
        return getattr(self._problem, name)

    def minibatches(self, random: RoundRandom, size: int | None, steps: int = 1) -> Minibatches:
        batch = self._problem.minibatches(random, size, steps)
        self.drawn.append(batch)
        return batch


class ScriptedProblem(RecordingProblem):
    """The same oracle, but methods take minibatches from one list, one for each step they ask."""

    script: Minibatches
    cursor = 0

    def minibatches(self, random: RoundRandom, size: int | None, steps: int = 1) -> Minibatches:
        rows = self.script.rows[:, self.cursor : self.cursor + steps]
        assert rows.shape[1] == steps
        self.cursor += steps
        return replace(self.script, rows=rows, steps=steps)


class Run:
    """A method on a toy problem, a round at a time."""

    def __init__(
        self,
        method: Algorithm,
        toy: Toy,
        seed: int = 0,
        problem: type[RecordingProblem] = RecordingProblem,
    ) -> None:
        self.method, self.toy = method, toy
        self.counters = Counters()
        self.problem: Any = problem(toy.engine.counting(self.counters))
        self.network = StarNetwork(toy.workers, self.counters)
        self.random = RoundRandom(seed)
        self.state = method.start(self.problem, self.network, toy.start)
        self.draws: list[list[Minibatches]] = []  # of each round, in order
        self.trace = [self.point]

    @property
    def point(self) -> tuple[np.ndarray, float]:
        theta, w = self.method.point(self.state, self.network)
        assert (theta.shape, w.shape) == ((self.toy.dimension,), (1,))
        return theta.numpy().copy(), float(w)

    def round(self) -> None:
        self.problem.drawn = []
        number = len(self.draws)
        self.state = self.method.round(
            self.state, self.problem, self.network, self.random.at(number)
        )
        self.draws.append(self.problem.drawn)
        self.trace.append(self.point)

    def rounds(self, number: int) -> "Run":
        for _ in range(number):
            self.round()
        return self

    def replayed(self, stages: list[tuple[int, float]] | None = None) -> Trace:
        """The reference's trace on the draws of the rounds done."""
        method: Any = self.method
        q, toy = method.local_steps, self.toy
        draws = [list(of_round) for of_round in self.draws]
        starts_with_a_gradient = isinstance(method, Fmgda | MomentumLocalSgda)
        first = draws[0].pop(0) if starts_with_a_gradient else None
        stage_ends = np.cumsum([length for length, _ in stages or []]).tolist()
        scored = [draws[end - 1].pop() for end in stage_ends if type(method) is Coda]
        scored_by_each = iter([batch for batch in scored for _ in range(toy.workers)])
        steps = [batch for (batch,) in draws]  # nothing else was drawn
        assert all(batch.steps == q for batch in steps)

        def gradient(i: int, theta: np.ndarray, w: float, k: int) -> tuple[np.ndarray, float]:
            batch, step = (first, 0) if k == -1 else (steps[k // q], k % q)
            return toy.gradient_on(rows_of(batch, i, step), theta, w)

        def restart(i: int, theta: np.ndarray) -> tuple[float, float]:
            return toy.mean_scores(theta, rows_of(next(scored_by_each), i))

        options: dict[str, Any] = {
            "primal_step": method.primal_step_size,
            "dual_step": method.dual_step_size,
            "q": q,
        }
        if isinstance(method, Fmgda):
            loop = reference.fmgda
            options |= {"alpha": method.primal_momentum, "beta": method.dual_momentum}
            options |= {"constant": method.constant_iterations}
        elif isinstance(method, MomentumLocalSgda):
            loop = reference.momentum_local_sgda
            options |= {"rho": method.momentum}
        elif isinstance(method, LocalSgda):
            loop = reference.local_sgda
        elif isinstance(method, Codasca):
            loop = reference.codasca
            options |= {"prox": method.proximal_weight, "global_step": method.global_step_size}
            options |= {"stages": stages, "implicit": method.proximal_step == "implicit"}
        else:
            assert isinstance(method, Coda)
            loop = reference.coda
            # Without an end, the only stage has no output.
            options |= {"prox": method.proximal_weight, "stages": stages}
            options |= {"stage_output_in_trace": stages is not None}
            options |= {"dual_restart": type(method) is Coda and stages is not None}
            options |= {"restart": restart, "implicit": method.proximal_step == "implicit"}
        return loop(gradient, toy.theta0, toy.w0, toy.workers, len(self.draws), **options)


def flat(trace: Trace) -> np.ndarray:
    return np.array([np.append(theta, w) for theta, w in trace])


def assert_same(one: Trace, other: Trace, relative: float = 1e-12) -> None:
    ours, theirs = flat(one), flat(other)
    assert ours.shape == theirs.shape
    error = np.linalg.norm(ours - theirs, axis=1) / np.linalg.norm(theirs, axis=1)
    assert error.max() <= relative, error


def assert_different(one: Trace, other: Trace) -> None:
    assert np.abs(flat(one) - flat(other)).max() > 1e-5


def assert_replayed(run: Run, stages: list[tuple[int, float]] | None = None) -> None:
    assert_same(run.trace, run.replayed(stages))
    moved = np.abs(flat(run.trace)[-1] - flat(run.trace)[0])
    assert (moved[[0, -3, -2, -1]] > 1e-3).all()  # network, a, b and w went somewhere


# --------------------------------------------------- (a) full batches, against the reference

METHODS: dict[str, tuple[type[Algorithm], dict[str, Any]]] = {
    "local_sgda": (LocalSgda, {}),
    "momentum_local_sgda": (MomentumLocalSgda, {"momentum": 0.3}),
    "fmgda": (Fmgda, {"primal_momentum": 0.2, "dual_momentum": 0.6}),
    "coda": (Coda, {"proximal_weight": 0.4}),
    "coda_plus": (CodaPlus, {"proximal_weight": 0.4}),
    "codasca": (Codasca, {"proximal_weight": 0.4, "global_step_size": 0.7}),
}
STAGED = ("coda", "coda_plus", "codasca")

all_methods = pytest.mark.parametrize("name", METHODS)


def build(name: str, **changes: Any) -> Any:
    method, options = METHODS[name]
    return method.model_validate({"local_steps": 3, **STEPS, **options, **changes})


@all_methods
@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("q", [1, 3])
def test_full_batches(name, workers, q):
    assert_replayed(Run(build(name, local_steps=q), Toy(workers)).rounds(5))


# Options, rounds, and stages with the share of the steps; by default they grow and decay by 3.
IN_STAGES = [
    ({"stage_growth": 1.5, "step_decay": 2}, 5, [(2, 1.0), (3, 0.5)]),
    ({"batch_size": 3}, 8, [(2, 1.0), (6, 1 / 3)]),
    ({"batch_size": 3, "stage_growth": 2}, 6, [(2, 1.0), (4, 1 / 3)]),
    (
        {"batch_size": 3, "first_stage_rounds": 1, "stage_growth": 1, "step_decay": 1},
        *(4, [(1, 1.0)] * 4),
    ),
]


@pytest.mark.parametrize("name", STAGED)
@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("q", [1, 3])
@pytest.mark.parametrize(("options", "rounds", "stages"), IN_STAGES)
def test_stages(name, workers, q, options, rounds, stages):
    """CODA with its dual restart, CODA+ without; a run may end within a stage."""
    method = build(name, **{"local_steps": q, "first_stage_rounds": 2} | options)
    run = Run(method, Toy(workers), seed=2).rounds(rounds)
    assert_replayed(run, stages)
    assert_same(Run(method, Toy(workers), seed=2).rounds(3).trace, run.trace[:4], 1e-15)


@pytest.mark.parametrize("name", STAGED)
def test_implicit_proximal_steps(name):
    method = build(name, proximal_step="implicit", batch_size=3, first_stage_rounds=2)
    run = Run(method, Toy()).rounds(8)
    assert_replayed(run, stages=[(2, 1.0), (6, 1 / 3)])
    explicit = build(name, batch_size=3, first_stage_rounds=2)
    assert_different(run.trace, Run(explicit, Toy()).rounds(8).trace)


@pytest.mark.parametrize("constant", [0.5, 4, 100])
def test_fmgda_on_the_schedule_of_corollary_1(constant):
    run = Run(build("fmgda", constant_iterations=constant, batch_size=3), Toy()).rounds(5)
    assert_replayed(run)
    constant_one = Run(build("fmgda", batch_size=3), Toy()).rounds(5)
    if constant == 100:  # longer than the run: nothing falls yet
        assert_same(run.trace, constant_one.trace, 1e-15)
    else:
        assert_different(run.trace, constant_one.trace)


@pytest.mark.parametrize("name", ["fmgda", "codasca"])
def test_scores_without_sigmoid(name):
    run = Run(build(name, primal_step_size=0.01, dual_step_size=0.05), Toy(scores="linear"))
    assert_replayed(run.rounds(5))


@all_methods
def test_one_worker_after_the_other_or_all_at_once(name):
    method = build(name, batch_size=3)
    one_by_one, at_once = (
        Run(method, Toy(vectorised=vectorised)).rounds(4).trace for vectorised in (False, True)
    )
    assert_same(one_by_one, at_once, 1e-12)


# --------------------------------------------------------- (b) minibatches, as the package drew


@all_methods
@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("q", [1, 3])
def test_minibatches(name, workers, q):
    # Batches of 3: the worker with two samples uses both, and what is padded.
    run = Run(build(name, local_steps=q, batch_size=3), Toy(workers), seed=1).rounds(5)
    assert_replayed(run)
    for batch in (batch for of_round in run.draws for batch in of_round):
        for worker in range(workers):
            for step in range(batch.steps):
                rows = rows_of(batch, worker, step).tolist()
                assert len(set(rows)) == len(rows)
                low, high = run.toy.offsets[worker : worker + 2]
                assert all(low <= row < high for row in rows)
    # Every round draws anew.
    first, second = (run.draws[number][-1].rows for number in (1, 2))
    assert not np.array_equal(first, second)


def test_coda_restarts_from_a_sample_of_scores():
    # One worker with 5 positives and 2 negatives: six samples have both classes.
    method = build("coda", batch_size=3, first_stage_rounds=2, restart_batch_size=6)
    run = Run(method, Toy(1), seed=4).rounds(8)
    assert len(rows_of(run.draws[1][1], 0)) == 6
    assert_replayed(run, stages=[(2, 1.0), (6, 1 / 3)])
    whole = Run(build("coda", batch_size=3, first_stage_rounds=2), Toy(1), seed=4).rounds(8)
    assert_different(run.trace, whole.trace)


def test_fmgda_tells_its_two_weights_apart():
    options = {"batch_size": 3, "local_steps": 2}
    one = Run(build("fmgda", primal_momentum=0.2, dual_momentum=0.9, **options), Toy()).rounds(3)
    other = Run(build("fmgda", primal_momentum=0.9, dual_momentum=0.2, **options), Toy()).rounds(3)
    assert_replayed(one)
    assert_replayed(other)
    assert_different(one.trace, other.trace)


@pytest.mark.parametrize("name", ["fmgda", "momentum_local_sgda"])
def test_estimators_may_start_from_a_batch_of_their_own_size(name):
    run = Run(build(name, batch_size=2, initial_batch_size=4), Toy()).rounds(3)
    assert run.draws[0][0].sizes.tolist() == [4, 2, 4, 4]
    assert [batch.sizes.tolist() for batch in run.draws[1]] == [[2, 2, 2, 2]]
    assert_replayed(run)


def test_estimators_start_from_b_q_samples_or_b():
    run = Run(build("fmgda", batch_size=2), Toy()).rounds(1)
    assert run.draws[0][0].sizes.tolist() == [5, 2, 6, 6]  # b q = 6, or all that a worker has
    run = Run(build("momentum_local_sgda", batch_size=2), Toy()).rounds(1)
    assert run.draws[0][0].sizes.tolist() == [2, 2, 2, 2]
    run = Run(build("fmgda"), Toy()).rounds(1)
    assert run.draws[0][0].sizes.tolist() == run.toy.sizes.tolist()


# ----------------------------------------------------------------------------- the schedule


def test_stages_grow_and_their_steps_fall():
    method = build("codasca", first_stage_rounds=4, stage_growth=1.5, step_decay=2)
    stage, seen = method.first_stage, []
    for _ in range(4 + 6 + 9 + 1):
        seen.append((stage.finished, stage.begins, *method.step_sizes(stage)))
        stage = method.after_round(stage)
    finished = [0] * 4 + [1] * 6 + [2] * 9 + [3]
    assert [entry[0] for entry in seen] == finished
    assert [number for number, entry in enumerate(seen) if entry[1]] == [0, 4, 10, 19]
    expected = [(0.3 / 2**s, 0.2 / 2**s) for s in finished]
    np.testing.assert_allclose([entry[2:] for entry in seen], expected)


def test_lengths_are_rounded_but_grow_by_what_they_are_unrounded():
    method = build("coda", first_stage_rounds=5, stage_growth=1.2)
    stage, finished = method.first_stage, []
    for _ in range(5 + 6 + 7 + 9 + 10 + 1):
        finished.append(stage.finished)
        stage = method.after_round(stage)
    assert np.bincount(finished).tolist() == [5, 6, 7, 9, 10, 1]  # 7.2, 8.64 and 10.37


def test_without_a_length_the_only_stage_never_ends():
    method = build("coda")
    stage = method.first_stage
    assert stage.begins
    for _ in range(20):
        stage = method.after_round(stage)
        assert (stage.finished, stage.begins) == (0, False)
        assert method.step_sizes(stage) == (0.3, 0.2)


# ------------------------------------------------------------------------ CODA's dual restart


def test_class_means_of_workers_and_nan_for_a_class_that_one_lacks():
    toy = Toy(counts=[(3, 2), (0, 2), (4, 0)])
    counters = Counters()
    problem = toy.engine.counting(counters)
    batch = problem.minibatches(RoundRandom(0), None)
    negative, positive = problem.class_means(toy.start.theta, batch)
    scores = toy.net.scores(toy.theta0[:-2], toy.x)
    assert negative.shape == positive.shape == (3, 1)
    expected_negative = [scores[3:5].mean(), scores[5:7].mean(), np.nan]
    expected_positive = [scores[:3].mean(), np.nan, scores[7:].mean()]
    np.testing.assert_allclose(negative[:, 0], expected_negative, rtol=1e-12)
    np.testing.assert_allclose(positive[:, 0], expected_positive, rtol=1e-12)
    assert counters == Counters()  # forward passes only


def test_a_worker_without_a_class_has_no_say_about_it_at_a_restart():
    toy = Toy(counts=[(3, 2), (0, 2), (4, 0)])
    options = {"first_stage_rounds": 2, "local_steps": 2}
    run = Run(build("coda", **options), toy).rounds(2)
    kept = Run(build("coda_plus", **options), toy).rounds(2)
    theta, w = run.trace[-1]
    np.testing.assert_allclose(theta, kept.trace[-1][0], rtol=1e-12)
    scores = toy.net.scores(theta[:-2], toy.x)
    negative = (scores[3:5].mean() + scores[5:7].mean()) / 2
    positive = (scores[:3].mean() + scores[7:].mean()) / 2
    assert w == pytest.approx(negative - positive, rel=1e-12)
    assert abs(w - kept.trace[-1][1]) > 1e-3


def test_without_both_classes_in_the_restart_w_goes_on():
    # A single sample has one class only.
    options = {"first_stage_rounds": 2, "local_steps": 2}
    run = Run(build("coda", restart_batch_size=1, **options), Toy(1)).rounds(4)
    kept = Run(build("coda_plus", **options), Toy(1)).rounds(4)
    assert_same(run.trace, kept.trace, 1e-15)


# ----------------------------------------------------------------------- CODASCA's variates


def test_variates_are_the_local_directions_of_the_last_round():
    """With q = 1: gradients at the round's start, with the pull. Steps show differences only."""
    toy = Toy()
    run = Run(build("codasca", local_steps=1, proximal_weight=0.4), toy).rounds(4)
    theta, w = run.trace[-2]
    for number in range(toy.workers):
        of_theta, of_w = toy.gradient_on(rows_of(run.draws[-1][0], number), theta, w)
        of_theta = of_theta + 0.4 * (theta - toy.theta0)
        np.testing.assert_allclose(run.state.worker_c_theta[number], of_theta, atol=1e-12)
        np.testing.assert_allclose(run.state.worker_c_w[number], [of_w], atol=1e-12)
    np.testing.assert_allclose(run.state.c_theta, run.state.worker_c_theta.mean(0), atol=1e-15)
    np.testing.assert_allclose(run.state.c_w, run.state.worker_c_w.mean(0), atol=1e-15)


def test_variates_start_every_stage_at_zero():
    run = Run(build("codasca", first_stage_rounds=2), Toy()).rounds(1)
    names = ("c_theta", "c_w", "worker_c_theta", "worker_c_w")
    assert all(getattr(run.state, name).abs().min() > 0 for name in names)
    run.round()
    assert all((getattr(run.state, name) == 0).all() for name in names)


# ------------------------------------------------------------------------ (c) where methods meet


def scripted(method: Algorithm, toy: Toy, rounds: int, script: Minibatches) -> Trace:
    run = Run(method, toy, problem=ScriptedProblem)
    run.problem.script = script
    return run.rounds(rounds).trace


def script_of(toy: Toy, steps: int, size: int = 3) -> Minibatches:
    return draw(IN_PYTHON, RoundRandom(11), toy.offsets, np.arange(toy.workers), size, steps)


@pytest.mark.parametrize("q", [1, 3])
def test_fmgda_without_memory_is_local_sgda_one_draw_earlier(q):
    """Its estimator of the next step is taken at the end of a step: the first draw is B_0."""
    toy = Toy()
    script = script_of(toy, 1 + 5 * q)
    plain = build("fmgda", local_steps=q, primal_momentum=1, dual_momentum=1)
    local = scripted(build("local_sgda", local_steps=q), toy, 5, script)
    assert_same(scripted(plain, toy, 5, script), local, 1e-12)
    shifted = replace(script, rows=script.rows[:, 1:])
    assert_different(scripted(build("local_sgda", local_steps=q), toy, 5, shifted), local)


@pytest.mark.parametrize("q", [1, 3])
def test_momentum_of_weight_1_is_local_sgda_for_one_worker(q):
    toy = Toy(1)
    script = script_of(toy, 1 + 5 * q)
    plain = build("momentum_local_sgda", local_steps=q, momentum=1)
    local = scripted(build("local_sgda", local_steps=q), toy, 5, script)
    assert_same(scripted(plain, toy, 5, script), local, 1e-12)


@pytest.mark.parametrize("q", [1, 3])
def test_momentum_of_weight_1_averages_one_step_later_for_several_workers(q):
    """Local SGDA with averages after steps q + 1, 2q + 1, …; see the reference's docstring."""
    toy, rounds = Toy(), 4
    script = script_of(toy, 1 + rounds * q)
    run = scripted(build("momentum_local_sgda", local_steps=q, momentum=1), toy, rounds, script)

    points = [(toy.theta0, toy.w0)] * toy.workers
    late = [points[0]]
    for step in range(1, rounds * q + 1):
        for i, (theta, w) in enumerate(points):
            g_theta, g_w = toy.gradient_on(rows_of(script, i, step - 1), theta, w)
            points[i] = theta - 0.3 * g_theta, w + 0.2 * g_w
        average = tuple(sum(of) / toy.workers for of in zip(*points, strict=True))
        if step % q == 0:
            late.append(average)
        if step > q and (step - 1) % q == 0:
            points = [average] * toy.workers
    assert_same(run, late)
    assert_different(run, scripted(build("local_sgda", local_steps=q), toy, rounds, script))


WITHOUT_MEMORY: dict[str, dict[str, Any]] = {
    "local_sgda": {},
    "momentum_local_sgda": {"momentum": 1},
    "fmgda": {"primal_momentum": 1, "dual_momentum": 1},
    "coda": {"proximal_weight": 0},
    "coda_plus": {"proximal_weight": 0},
    "codasca": {"proximal_weight": 0, "global_step_size": 1},
}


def centralised(toy: Toy, batches: list[np.ndarray]) -> Trace:
    """Stochastic gradient descent and ascent, one step for each minibatch."""
    trace = [(toy.theta0, toy.w0)]
    for rows in batches:
        theta, w = trace[-1]
        g_theta, g_w = toy.gradient_on(rows, theta, w)
        trace.append((theta - 0.3 * g_theta, w + 0.2 * g_w))
    return trace


@all_methods
def test_one_worker_and_q_1_are_the_centralised_method(name):
    toy, rounds = Toy(1), 6
    script = script_of(toy, 1 + rounds)
    run = scripted(build(name, local_steps=1, **WITHOUT_MEMORY[name]), toy, rounds, script)
    assert_same(run, centralised(toy, [rows_of(script, 0, step) for step in range(rounds)]))


def test_without_noise_and_with_one_worker_fmgda_is_plain_for_any_weights():
    toy = Toy(1)
    run = Run(build("fmgda", local_steps=3), toy).rounds(2)
    assert_same(run.trace, centralised(toy, [np.arange(7)] * 6)[::3])


@pytest.mark.parametrize("name", ["coda", "coda_plus"])
def test_coda_of_one_stage_without_a_pull_is_local_sgda(name):
    run = Run(build(name, batch_size=3, proximal_weight=0), Toy(), seed=5).rounds(5)
    assert_same(run.trace, Run(build("local_sgda", batch_size=3), Toy(), seed=5).rounds(5).trace)
    pulled = Run(build(name, batch_size=3), Toy(), seed=5).rounds(5)
    assert_different(run.trace, pulled.trace)


def test_codasca_without_variates_is_the_inner_loop_of_coda_plus():
    options = {"batch_size": 3, "proximal_weight": 0.4}
    run = Run(build("codasca", global_step_size=1, **options), Toy(), seed=6)
    zeros = {field.name: 0 * getattr(run.state, field.name) for field in fields(run.state)
             if field.name.split("_")[0] == "c" or field.name.startswith("worker_c")}  # fmt: skip
    assert sorted(zeros) == ["c_theta", "c_w", "worker_c_theta", "worker_c_w"]
    for _ in range(5):
        run.state = replace(run.state, **zeros)
        run.round()
    plain = Run(build("coda_plus", **options), Toy(), seed=6).rounds(5)
    assert_same(run.trace, plain.trace, 1e-12)
    assert_different(
        Run(build("codasca", global_step_size=1, **options), Toy(), seed=6).rounds(5).trace,
        plain.trace,
    )


@pytest.mark.parametrize("name", ["local_sgda", "fmgda", "coda", "coda_plus", "codasca"])
def test_full_batches_and_q_1_descend_and_ascend_the_mean(name):
    """FMGDA for any weights: without noise its correction cancels in the mean of the workers."""
    toy = Toy()
    options = {} if name == "fmgda" else WITHOUT_MEMORY[name]
    run = Run(build(name, local_steps=1, **options), toy).rounds(6)
    trace = [(toy.theta0, toy.w0)]
    for _ in range(6):
        theta, w = trace[-1]
        of_workers = [
            toy.gradient_on(np.arange(*own), theta, w)
            for own in zip(toy.offsets[:-1], toy.offsets[1:], strict=True)
        ]
        g_theta, g_w = (sum(part) / toy.workers for part in zip(*of_workers, strict=True))
        trace.append((theta - 0.3 * g_theta, w + 0.2 * g_w))
    assert_same(run.trace, trace)


# -------------------------------------------------------------------------- (d) what they cost

# Arrays shaped as (θ, w) that travel between the server and a worker in a round, either way.
POINTS_EACH_WAY = {
    "local_sgda": 1, "coda": 1, "coda_plus": 1, "codasca": 2, "momentum_local_sgda": 2, "fmgda": 2
}  # fmt: skip


def spent_by(run: Run) -> dict[str, int]:
    """What one more round costs."""
    before = asdict(run.counters)
    run.round()
    return {name: value - before[name] for name, value in asdict(run.counters).items()}


@all_methods
@pytest.mark.parametrize(("dtype", "item"), [(torch.float64, 8), (torch.float32, 4)])
@pytest.mark.parametrize("q", [1, 3])
def test_what_a_round_costs(name, dtype, item, q):
    toy = Toy(dtype=dtype)
    run = Run(build(name, local_steps=q, batch_size=3), toy)
    assert run.counters == Counters()  # starting is free
    samples = 3 + 2 + 3 + 3  # of one step: one worker has two
    evaluations = q * samples * (2 if name == "fmgda" else 1)
    numbers = POINTS_EACH_WAY[name] * toy.workers * (toy.dimension + 1)
    for number in range(3):
        initial = first = 0  # of all workers, and of the one that has most
        if number == 0 and name == "momentum_local_sgda":
            initial, first = samples, 3
        if number == 0 and name == "fmgda":
            initial = sum(min(3 * q, size) for size in toy.sizes)
            first = min(3 * q, max(toy.sizes))
        assert spent_by(run) == {
            "gradient_evaluations": evaluations + initial,
            "iteration": q,
            "bytes_up": numbers * item,
            "bytes_down": numbers * item,
            "messages": 2 * toy.workers,
            "full_participations": 1,
            # To the server and back, where all bytes pass; workers work at the same time.
            "sequential_messages": 2,
            "sequential_bytes": 2 * numbers * item,
            "sequential_gradients": q * 3 * (2 if name == "fmgda" else 1) + first,
        }


@all_methods
def test_full_batches_cost_all_samples(name):
    run = Run(build(name), Toy()).rounds(1)
    once = run.toy.sizes.sum() * 3
    initial = run.toy.sizes.sum()
    expected = {"fmgda": 2 * once + initial, "momentum_local_sgda": once + initial}
    assert run.counters.gradient_evaluations == expected.get(name, once)


@pytest.mark.parametrize("name", STAGED)
def test_what_the_end_of_a_stage_costs(name):
    """CODA's restart: two means up from every worker, as one may be missing, one number down."""
    run = Run(build(name, batch_size=3, first_stage_rounds=2), Toy())
    usual, ending = spent_by(run), spent_by(run)
    extra = {key: ending[key] - usual[key] for key in usual}
    assert extra.pop("bytes_up") == (2 * 4 * 8 if name == "coda" else 0)
    assert extra.pop("bytes_down") == (4 * 8 if name == "coda" else 0)
    assert extra.pop("messages") == (2 * 4 if name == "coda" else 0)
    assert extra.pop("sequential_messages") == (2 if name == "coda" else 0)
    assert extra.pop("sequential_bytes") == (3 * 4 * 8 if name == "coda" else 0)
    assert extra.pop("full_participations") == (1 if name == "coda" else 0)
    assert set(extra.values()) == {0}


# ----------------------------------------------------------------------------------- (e) training


@all_methods
def test_methods_start_alike_and_learn(name, tmp_path):
    hyper = {"primal_step_size": 0.2} | ({"first_stage_rounds": 4} if name in STAGED else {})
    shards = small_shards(tmp_path, name)
    spec = small(name, hyper, rounds=25, record_every=25, seeds=(3,))
    trace = train(spec, shards, tmp_path / "trace.nc")
    reference = train(small("local_sgda", rounds=1, seeds=(3,)), shards, tmp_path / "other.nc")
    assert set(trace.data_vars) == {
        *("objective", "min_max_objective", "train_auroc", "test_auroc", "status"),
        *("train_accuracy", "test_accuracy"),
        *("dual_variable", "dual_optimum", "dual_distance"),
    }
    np.testing.assert_array_equal(trace["iteration"], 2 * trace["round"])
    start = trace.isel(seed=0, record=0)
    for measurement in ("objective", "min_max_objective", "train_auroc", "test_auroc"):
        assert start[measurement] == reference[measurement][0, 0]
    assert float(trace["train_auroc"][0, -1]) > float(trace["train_auroc"][0, 0]) + 0.05
    assert float(trace["objective"][0, -1]) < float(trace["objective"][0, 0])
