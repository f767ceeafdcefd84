"""VFB² and its comparators, word for word: float64 loops over a model of time made of events.

Nothing here is vectorised over parties and nothing is random: the samples are an argument. The
only purpose is to be compared with, so nothing here touches the package.

Sources: VFB², arXiv:2103.00958, Algorithms 1–7, (7), (13), (17) and (18); SVRG, Johnson and Zhang
2013; SAGA, Defazio, Bach and Lacoste-Julien 2014; AFSVRG-VP, arXiv:2008.06233, with labels at some
of the parties only (VFB², section 7).

`simulate` states the model of time. Times are compared for equality there, so let the seconds be
sums of few powers of two, or `fractions.Fraction`, where two events are meant to coincide.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

Vector = np.ndarray
Matrix = np.ndarray
Seconds = float | Fraction

#: See `simulate`.
Factor = Callable[[int, int, int, str, Seconds], float] | None
Move = Callable[[int, Vector, Vector], Vector] | None


# ----------------------------------------------------------------------------- objectives


def loss_value(loss: str, z: float, y: float) -> float:
    """L(z, y): log(1 + exp(−yz)) of (13), (z − y)² of (17), log(1 + (y − z)²/2) of (18)."""
    if loss == "logistic":
        u = -y * z  # written so that exp does not overflow
        return max(u, 0.0) + math.log1p(math.exp(-abs(u)))
    if loss == "square":
        return (z - y) ** 2
    if loss == "robust":
        return math.log(1.0 + (y - z) ** 2 / 2.0)
    raise ValueError(loss)


def loss_derivative(loss: str, z: float, y: float) -> float:
    """ϑ = ∂L/∂z, Algorithm 2, line 4."""
    if loss == "logistic":
        u = -y * z  # the derivative of log(1 + e^u) is e^u / (1 + e^u)
        if u >= 0.0:
            return -y / (1.0 + math.exp(-u))
        return -y * math.exp(u) / (1.0 + math.exp(u))
    if loss == "square":
        return 2.0 * (z - y)
    if loss == "robust":
        t = y - z
        return -t / (1.0 + t**2 / 2.0)
    raise ValueError(loss)


def regulariser_value(regulariser: str, weight: float, w: Vector) -> float:
    """weight/2 ‖w‖² of (13) and (17), or weight Σ w²/(1 + w²): (7) is weight = λ/2."""
    total = 0.0
    for w_j in w:
        if regulariser == "l2":
            total += weight / 2.0 * float(w_j) ** 2
        elif regulariser == "nonconvex":
            total += weight * float(w_j) ** 2 / (1.0 + float(w_j) ** 2)
        elif regulariser != "none":
            raise ValueError(regulariser)
    return total


def regulariser_gradient(regulariser: str, weight: float, w: Vector) -> Vector:
    """The gradient of `regulariser_value`: the λ∇g of Algorithm 3, line 3."""
    gradient = np.zeros(len(w))
    for j, w_j in enumerate(w):
        if regulariser == "l2":
            gradient[j] = weight * w_j
        elif regulariser == "nonconvex":
            gradient[j] = weight * 2.0 * w_j / (1.0 + w_j**2) ** 2
        elif regulariser != "none":
            raise ValueError(regulariser)
    return gradient


def objective(
    X: Matrix, y: Vector, w: Vector, loss: str, regulariser: str = "none", weight: float = 0.0
) -> float:
    """f(w) = 1/n Σ_i L(w·x_i, y_i) + the regulariser, (P)."""
    total = 0.0
    for i in range(len(y)):
        total += loss_value(loss, float(np.dot(X[i], w)), float(y[i]))
    return total / len(y) + regulariser_value(regulariser, weight, w)


def data_gradient(X: Matrix, y: Vector, w: Vector, loss: str) -> Vector:
    """1/n Σ_i ϑ_i x_i, without the regulariser."""
    total = np.zeros(X.shape[1])
    for i in range(len(y)):
        total += loss_derivative(loss, float(np.dot(X[i], w)), float(y[i])) * X[i]
    return total / len(y)


def gradient(
    X: Matrix, y: Vector, w: Vector, loss: str, regulariser: str = "none", weight: float = 0.0
) -> Vector:
    """∇f(w)."""
    return data_gradient(X, y, w, loss) + regulariser_gradient(regulariser, weight, w)


# ------------------------------------------------------------------ the methods on pooled data


def sgd(X, y, w0, step, order, loss, regulariser="none", weight=0.0):
    """w ← w − γ (ϑ_i x_i + λ∇g(w)), to the last w."""
    w = np.array(w0, dtype=np.float64)
    for i in order:
        theta = loss_derivative(loss, float(np.dot(X[i], w)), float(y[i]))
        w = w - step * (theta * X[i] + regulariser_gradient(regulariser, weight, w))
    return w


def svrg(X, y, w0, step, orders, loss, regulariser="none", weight=0.0):
    """Johnson and Zhang 2013: v = ∇f_i(w) − ∇f_i(w̃) + ∇f(w̃), one snapshot w̃ per order."""
    w = np.array(w0, dtype=np.float64)
    for order in orders:
        snapshot = w.copy()
        full = gradient(X, y, snapshot, loss, regulariser, weight)
        for i in order:
            theta = loss_derivative(loss, float(np.dot(X[i], w)), float(y[i]))
            theta_0 = loss_derivative(loss, float(np.dot(X[i], snapshot)), float(y[i]))
            v = (
                theta * X[i]
                + regulariser_gradient(regulariser, weight, w)
                - theta_0 * X[i]
                - regulariser_gradient(regulariser, weight, snapshot)
                + full
            )
            w = w - step * v
    return w


def saga(X, y, w0, step, order, loss, regulariser="none", weight=0.0):
    """Defazio et al. 2014, a table of n data gradients; the regulariser is exact."""
    w = np.array(w0, dtype=np.float64)
    n = len(y)
    table = np.zeros(X.shape)
    for j in range(n):
        table[j] = loss_derivative(loss, float(np.dot(X[j], w)), float(y[j])) * X[j]
    mean = table.sum(axis=0) / n
    for i in order:
        new = loss_derivative(loss, float(np.dot(X[i], w)), float(y[i])) * X[i]
        v = new - table[i] + mean + regulariser_gradient(regulariser, weight, w)
        w = w - step * v
        mean = mean + (new - table[i]) / n
        table[i] = new
    return w


# --------------------------------------------------------------------- what a simulation reports


@dataclass
class Iteration:
    """One iteration of a dominator: Algorithm 2, lines 2–7."""

    dominator: int
    begun: Seconds
    sample: int
    round: int
    """Of its dominator: how many iterations it had decided before."""
    answered: dict[int, Seconds] = field(default_factory=dict)
    blocks_read: dict[int, Vector] = field(default_factory=dict)
    applied_at_read: dict[int, int] = field(default_factory=dict)
    """Per party: how many updates its block had seen when it answered."""
    meant_before: list[int] = field(default_factory=list)
    """Per party: how many of the iterations 0..number−1 are for its block."""
    number: int = -1
    theta: float = math.nan
    summed: Seconds = math.nan


@dataclass(frozen=True)
class Application:
    """One update of one block, atomic."""

    time: Seconds
    iteration: int
    party: int
    delay: int
    """How many updates the block saw between its answer to the iteration and this one."""


@dataclass(frozen=True)
class Result:
    """What `simulate` reports: at the last sum, and (``drained``) when nothing is under way."""

    seconds: Seconds
    """The time of the last sum."""
    blocks: list[Vector]
    """Per party, with the updates due at or before that time."""
    w: Vector
    """The same, in the order of the columns."""
    drained_blocks: list[Vector]
    drained_seconds: Seconds
    """The time of the last application; the time of the last sum if that is later."""

    read_delay_max: int
    read_delay_mean: float
    update_delay_max: int
    update_delay_mean: float
    """Over the applications up to the last sum; 0 if there is none."""

    iterations: list[Iteration]
    """The decided ones, by number: their dominators, samples, ϑ and times."""
    applications: list[Application]
    """All of them, in the order in which they happened."""
    applied: int
    """How many of the applications had happened by the last sum."""
    read_delays: np.ndarray
    """iterations × parties: the updates of earlier iterations that are missing in the answer."""
    starts: list[Seconds]
    """When the dominators began after each snapshot (or pass, or at 0)."""
    tau_1: int
    """Global iterations from the first that the shares of a sum lack to that sum, at most."""
    tau_2: int
    """Global iterations from a sum to a collaborative update of it, at most."""
    eta_1: int
    """Of successive global iterations that visit every block, the most that it takes."""
    longest_wait: Seconds
    """The longest time that a message waited for a thread."""


# ------------------------------------------------------------------------------------- events

#: What happens first of what happens at one time, and of equal ones by `order`, see `_World.plan`.
UPDATE_APPLIED, MESSAGE_ARRIVES, PARTY_ANSWERS, SUM_ARRIVES, ITERATION_BEGINS = range(5)


@dataclass
class _World:
    """Everything that the events change, and what it starts from, see `simulate`."""

    method: str
    X: Matrix
    y: Vector
    block_columns: Sequence[Sequence[int]]
    samples: Sequence[int]
    updates: int
    step: float
    loss: str
    regulariser: str = "none"
    weight: float = 0.0
    _: KW_ONLY
    dominators: int = 1
    synchronous: bool = False
    inner: int | None = None
    seconds_per_feature: Seconds = 1.0
    latency: Seconds = 0.0
    slowdown: Sequence[Seconds] | None = None
    w0: Vector | None = None
    threads: int | None = None
    factor: Factor = None
    move: Move = None

    def __post_init__(self) -> None:
        assert (self.inner is None) == (self.method in ("sgd", "saga"))
        self.columns = [np.asarray(columns) for columns in self.block_columns]
        self.n, self.q, self.m = len(self.y), len(self.columns), self.dominators
        w0 = np.zeros(self.X.shape[1]) if self.w0 is None else self.w0
        self.latency = self.latency if self.q > 1 else 0
        self.depth = (self.q - 1).bit_length()  # ⌈log2 q⌉
        # r_ℓ, which is τ_ℓ, too
        self.work = [
            self.seconds_per_feature * len(columns) * slow
            for columns, slow in zip(self.columns, self.slowdown or [1] * self.q, strict=True)
        ]
        self.rounds = [0] * self.m  # decided, per dominator
        self.begun = 0  # iterations

        self.blocks = [np.array(w0[columns], dtype=np.float64) for columns in self.columns]
        self.updates_seen = [0] * self.q  # applied, per block
        self.updates_meant = [0] * self.q  # decided, per block
        self.idle_threads = [self.threads or self.m] * self.q
        self.queues: list[deque[tuple[Seconds, Iteration]]] = [deque() for _ in self.columns]
        # ϑ to subtract, per party and sample (SAGA: each party has its own copy), and its mean
        self.reference = [np.zeros(self.n) for _ in range(self.q)]
        self.mean = [np.zeros(len(columns)) for columns in self.columns]

        self.epoch = 0
        self.begun_in_epoch = 0
        self.closed = False  # no iteration may begin until the next epoch
        self.under_way = 0  # iterations that are not decided, updates that are not applied yet
        self.agenda: list[tuple[Any, ...]] = []
        self.tickets = itertools.count()

        self.iterations: list[Iteration] = []
        self.applications: list[Application] = []
        self.starts: list[Seconds] = []
        self.longest_wait: Seconds = 0
        self.report: tuple[Seconds, list[Vector], int] | None = None

    def plan(
        self, time: Seconds, rank: int, order: tuple[int, ...], event: Callable[..., None], *what
    ) -> None:
        heapq.heappush(self.agenda, (time, rank, order, next(self.tickets), event, what))

    def plan_update(self, time: Seconds, iteration: Iteration, party: int) -> None:
        order = iteration.number, party
        self.plan(time, UPDATE_APPLIED, order, self.update_applied, iteration, party)

    def run(self) -> None:
        if self.method == "sgd":
            self.start_epoch(0)
        else:
            self.start_epoch(self.pass_over_the_data(0))
        while self.agenda:
            time, *_, event, what = heapq.heappop(self.agenda)
            event(time, *what)

    def start_epoch(self, now: Seconds) -> None:
        self.epoch += 1
        self.begun_in_epoch = 0
        self.closed = False
        self.starts.append(now)
        self.start_round(now)

    def start_round(self, now: Seconds) -> None:
        for dominator in range(self.m):
            self.plan_iteration(now, dominator)

    def plan_iteration(self, now: Seconds, dominator: int) -> None:
        event = self.iteration_begins
        self.plan(now, ITERATION_BEGINS, (dominator,), event, dominator, self.epoch)

    def iteration_begins(self, now: Seconds, dominator: int, epoch: int) -> None:
        """A dominator asks all parties for their shares."""
        if self.closed or epoch != self.epoch:
            return
        sample = int(self.samples[self.begun])
        iteration = Iteration(dominator, now, sample, self.rounds[dominator])
        self.begun += 1
        self.begun_in_epoch += 1
        self.under_way += 1
        if self.begun_in_epoch == self.inner or self.begun == len(self.samples):
            self.closed = True
        asked = now + self.latency
        for party in range(self.q):
            answered = asked + self.duration(iteration, party, "share", asked)
            iteration.answered[party] = answered
            order = dominator, party
            self.plan(answered, PARTY_ANSWERS, order, self.party_answers, iteration, party)
        last = max(iteration.answered.values())
        summed = last + self.depth * self.latency
        self.plan(summed, SUM_ARRIVES, (dominator,), self.decide, iteration)

    def party_answers(self, now: Seconds, iteration: Iteration, party: int) -> None:
        """A party has computed its share from its block as it is now: Algorithm 1, line 2."""
        # The whole block is kept until the sum is there.
        iteration.blocks_read[party] = self.blocks[party].copy()
        iteration.applied_at_read[party] = self.updates_seen[party]

    def duration(self, iteration: Iteration, party: int, what: str, begins: Seconds) -> Seconds:
        """Of a share or an update."""
        work = self.work[party]
        if self.factor is None:
            return work
        varied = work * self.factor(iteration.dominator, iteration.round, party, what, begins)
        return max(1, round(varied))

    def pass_over_the_data(self, now: Seconds) -> Seconds:
        """ϑ of every sample, to every party: Algorithm 4, lines 3–4; Algorithm 6, line 2."""
        thetas = np.zeros(self.n)
        for j in range(self.n):
            z = 0.0
            for party in range(self.q):
                z += float(np.dot(self.blocks[party], self.X[j, self.columns[party]]))
            thetas[j] = loss_derivative(self.loss, z, float(self.y[j]))
        for party in range(self.q):
            total = np.zeros(len(self.columns[party]))
            for j in range(self.n):
                total += thetas[j] * self.X[j, self.columns[party]]
            self.mean[party] = total / self.n
            self.reference[party] = thetas.copy()
        # The m dominators ask for n / m sums each, and as many threads share the updates' work.
        work = self.n * max(self.work) / self.m
        sums = work + self.latency + self.depth * self.latency
        return now + sums + self.latency + work

    def decide(self, now: Seconds, iteration: Iteration) -> None:
        """The dominator has the sum: Algorithm 1, line 7, and the rest of Algorithms 2, 4 and 6."""
        iteration.number = len(self.iterations)
        self.rounds[iteration.dominator] += 1
        self.under_way -= 1
        iteration.summed = now
        iteration.meant_before = list(self.updates_meant)
        z = 0.0
        for party in range(self.q):
            x = self.X[iteration.sample, self.columns[party]]
            z += float(np.dot(iteration.blocks_read[party], x))
        iteration.theta = loss_derivative(self.loss, z, float(self.y[iteration.sample]))
        iteration.blocks_read.clear()
        self.iterations.append(iteration)

        for party in range(self.q):
            if party == iteration.dominator:
                took = self.duration(iteration, party, "update", now)
                self.plan_update(now + took, iteration, party)
            elif self.method == "afsvrg-vp":
                continue  # nobody else hears of it
            else:
                order, event = (iteration.number, party), self.message_arrives
                self.plan(now + self.latency, MESSAGE_ARRIVES, order, event, iteration, party)
            self.updates_meant[party] += 1
            self.under_way += 1

        if len(self.iterations) == self.updates:
            blocks = [block.copy() for block in self.blocks]
            self.report = (now, blocks, len(self.applications))

    def message_arrives(self, now: Seconds, iteration: Iteration, party: int) -> None:
        """(ϑ, i) reaches a collaborator: Algorithm 3, line 2."""
        self.queues[party].append((now, iteration))
        self.start_collaborations(now, party)

    def start_collaborations(self, now: Seconds, party: int) -> None:
        """Idle threads take the oldest messages."""
        while self.queues[party] and self.idle_threads[party] > 0:
            arrived, iteration = self.queues[party].popleft()
            self.idle_threads[party] -= 1
            self.longest_wait = max(self.longest_wait, now - arrived)
            done = now + self.duration(iteration, party, "update", now)
            self.plan_update(done, iteration, party)

    def update_applied(self, now: Seconds, iteration: Iteration, party: int) -> None:
        """A party finishes an update: it changes its block, as a whole, now."""
        self.apply(now, iteration, party)
        if party != iteration.dominator:
            self.idle_threads[party] += 1
            self.start_collaborations(now, party)
        elif not self.synchronous:
            self.plan_iteration(now, party)
        self.under_way -= 1
        if self.under_way == 0:
            self.everything_applied(now)

    def apply(self, now: Seconds, iteration: Iteration, party: int) -> None:
        """w_ℓ ← w_ℓ − γ v: Algorithm 3, lines 3–4; Algorithm 5, 7–8; Algorithm 7, 3–5."""
        i = iteration.sample
        x = self.X[i, self.columns[party]]
        reference = self.reference[party][i]
        v = (
            (iteration.theta - reference) * x
            + self.mean[party]
            + regulariser_gradient(self.regulariser, self.weight, self.blocks[party])
        )
        if self.move is None:
            self.blocks[party] = self.blocks[party] - self.step * v
        else:
            self.blocks[party] = self.move(party, self.blocks[party], v)
        if self.method == "saga":
            self.mean[party] = self.mean[party] + (iteration.theta - reference) * x / self.n
            self.reference[party][i] = iteration.theta
        delay = self.updates_seen[party] - iteration.applied_at_read[party]
        self.applications.append(Application(now, iteration.number, party, delay))
        self.updates_seen[party] += 1

    def everything_applied(self, now: Seconds) -> None:
        """A barrier, if one is due."""
        if self.begun == len(self.samples):
            return
        if self.closed:
            self.start_epoch(self.pass_over_the_data(now))
        elif self.synchronous:
            self.start_round(now)


def _global_delays(
    iterations: Sequence[Iteration],
    applications: Sequence[Application],
    work: Sequence[Seconds],
) -> dict[str, int]:
    """By their definitions, from everything that happened.

    Global iterations are sums, each for its dominator's block, and collaborative updates; those of
    equal times by their sums, then by how long parties work; sums last.
    """
    of_work = {p: k for k, p in enumerate(sorted(range(len(work)), key=lambda p: work[p]))}
    happened = [(i.summed, 1, i.number, 0, i.dominator) for i in iterations]
    happened += [
        (a.time, 0, a.iteration, of_work[a.party], a.party)
        for a in applications
        if a.party != iterations[a.iteration].dominator
    ]
    label = {(number, party): t for t, (_, _, number, _, party) in enumerate(sorted(happened))}
    tau_1 = tau_2 = eta_1 = 0
    for iteration in iterations:
        own = label[iteration.number, iteration.dominator]
        lacking = [
            label[a.iteration, a.party]
            for a in applications
            if label[a.iteration, a.party] < own and a.time > iteration.answered[a.party]
        ]
        tau_1 = max(tau_1, own - min(lacking, default=own))
        reached = [
            label[a.iteration, a.party] for a in applications if a.iteration == iteration.number
        ]
        tau_2 = max(tau_2, max(reached) - own)
    for party in range(len(work)):
        visits = [-1, *sorted(label[a.iteration, party] for a in applications if a.party == party)]
        eta_1 = max([eta_1, *(after - before for before, after in itertools.pairwise(visits))])
    return {"tau_1": tau_1, "tau_2": tau_2, "eta_1": eta_1}


def assemble(blocks: Sequence[Vector], columns: Sequence[Sequence[int]]) -> Vector:
    """The pooled w of the parties' blocks."""
    w = np.zeros(sum(len(block) for block in blocks))
    for block, where in zip(blocks, columns, strict=True):
        w[np.asarray(where)] = block
    return w


def simulate(*arguments: Any, **named: Any) -> Result:
    """VFB²-SGD, -SVRG or -SAGA (Algorithms 2–7), or AFSVRG-VP, in simulated seconds.

    Arguments are the fields of `_World`. q parties; party ℓ owns the columns block_columns[ℓ], d_ℓ
    of them, and is slowdown[ℓ] times slower than the fastest. A share w_ℓ·x_i takes it r_ℓ =
    seconds_per_feature · d_ℓ · slowdown[ℓ], an update of its block τ_ℓ = r_ℓ. A message takes L =
    latency seconds, 0 if q = 1; a sum over the parties climbs a tree of D = ⌈log2 q⌉ levels.
    Parties 0..m−1 are the dominators.

    - Every dominator begins an iteration at time 0, in the order of the dominators, and takes the
      next of ``samples``; none begins when there is none left. For one of dominator a that
      begins at t, party ℓ answers from its block as it is at t + L + r_ℓ, updates due at that time
      included; the sum arrives at S = t + L + max r_ℓ + D·L. Iterations are numbered in the order
      of S (then dominator). ϑ = ∂L/∂z at the sum.
    - ``factor`` (dominator, how many iterations it had decided, party, "share" or "update", time at
      which the party begins) multiplies r_ℓ or τ_ℓ; times are then whole numbers, at least 1. The
      r_ℓ of a snapshot stay as they are.
    - The dominator updates its own block at S + τ_a and begins its next iteration then. (ϑ, i)
      arrives at every other party ℓ at S + L, waits in a first-in first-out queue for one of k = m
      threads (``threads``), and is applied τ_ℓ after it was taken.
    - An application is atomic: w_ℓ ← w_ℓ − γ v with v = (ϑ − ref) x_{i,ℓ} + mean_ℓ + ∇reg(w_ℓ), and
      w_ℓ as it is then. SGD: ref = 0, mean = 0. SVRG: ref = ϑ of the sample at the snapshot, mean =
      1/n Σ_j ϑ0_j x_{j,ℓ}. SAGA: each party has its own table of n scalars, ref is its entry at
      that moment, and after the step mean_ℓ += (ϑ − ref) x_{i,ℓ}/n and the entry is ϑ. Updates of
      one block due at the same time are applied in the order of their numbers.
    - ``move`` (party, w_ℓ, v), if there is one, gives the new block in place of w_ℓ − γ v.
    - ``synchronous``: the m dominators begin together, and again when every party has applied
      every update.
    - SVRG: exactly ``inner`` iterations begin between two snapshots. At the last application
      the snapshot is taken, a party's m threads sharing its work; it takes n · max r_ℓ / m + L +
      D·L for the sums and L + n · max τ_ℓ / m for the gradient; then all dominators begin. The
      first begins at time 0. SAGA's first pass: the same, once.
    - AFSVRG-VP: SVRG, but an iteration updates its dominator's block only and sends nothing.

    The run is reported at the sum of iteration ``updates`` − 1. The read delay of iteration j at
    party ℓ: the updates by iterations 0..j−1 that are meant for block ℓ (all of them; AFSVRG-VP:
    those that ℓ dominates) minus those applied at the answer. The update delay of an application:
    the updates of the block between the answer and the application, itself not counted.

    Times may be `fractions.Fraction`; then ties are exact.
    """
    world = _World(*arguments, **named)
    world.run()

    assert world.report is not None
    seconds, reported, applied = world.report
    read_delays = np.zeros((world.updates, world.q), dtype=np.int64)
    for iteration in world.iterations[: world.updates]:
        for party in range(world.q):
            meant = iteration.meant_before[party]
            read_delays[iteration.number, party] = meant - iteration.applied_at_read[party]
    update_delays = [application.delay for application in world.applications[:applied]]
    last = world.applications[-1].time
    return Result(
        seconds=seconds,
        blocks=reported,
        w=assemble(reported, world.columns),
        drained_blocks=world.blocks,
        drained_seconds=max(seconds, last),
        read_delay_max=int(read_delays.max()),
        read_delay_mean=float(read_delays.mean()),
        update_delay_max=max(update_delays, default=0),
        update_delay_mean=sum(update_delays) / len(update_delays) if update_delays else 0.0,
        iterations=world.iterations,
        applications=world.applications,
        applied=applied,
        read_delays=read_delays,
        starts=world.starts,
        longest_wait=world.longest_wait,
        **_global_delays(world.iterations, world.applications, world.work),
    )
