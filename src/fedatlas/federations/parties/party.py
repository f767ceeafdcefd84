"""One party: its own block w_ℓ, and what it does when messages arrive (VFB², Algorithms 1 to 7).

One loop serves requests and makes updates as they come, in one thread. Python's threads take turns
anyway, a compiled update of a block takes a microsecond, and what a declared network makes long is
a sleep, which a loop can wait for many of at once. So a share is of the block as it then stands, in
one piece; blocks of different parties are read at different times. The paper has k = m threads in
shared memory: here k is how many injected updates run at a time.

Synchronous methods: a dominator begins an iteration when all updates of the last one are in its own
block; a party answers a request when they are in its, and updates when it has answered all requests
of the iteration. That is a barrier without messages of its own: every share is of a block that has
all earlier updates and no other.
"""

import heapq
import sched
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from fedatlas.arithmetic.kernels.formulas import LinearModel, loss_code, loss_derivative
from fedatlas.errors import FedatlasError
from fedatlas.federations.parties.messages import (
    HEADER_BYTES,
    PASS,
    REQUEST,
    SLOPE,
    SUMMED,
    BlockState,
    Header,
    Report,
    RoundLog,
    Transport,
    header_of,
    numbers_of,
    packed,
)
from fedatlas.federations.vertical.kernels import Rule
from fedatlas.federations.vertical.kernels.blocks import (
    kernel_blocks,
    kernel_rule,
    settle_block,
    share,
    update,
)
from fedatlas.federations.vertical.machines import InjectedTimes
from fedatlas.federations.vertical.problem import UpdateRule
from fedatlas.federations.vertical.secure_sum import PrivateMasks, place_in, two_trees
from fedatlas.federations.vertical.shards import PartyRows
from fedatlas.schema.losses import Regulariser
from fedatlas.schema.objectives import LinearObjective


def compile_kernels() -> None:
    """Compile what parties compute, and keep it on disk: they would all do so at the same time."""
    objective = LinearObjective(name="logistic_l2", weight=1.0)
    for features in (np.ones((1, 1)), sparse.csr_array(np.ones((1, 1)))):
        block = OwnBlock(PartyRows(features, np.ones(1), np.array([0, 1])), objective)
        block.follow(UpdateRule(0.5))
        block.update(0, block.slope(0, block.share(0)))
        block.refer_to(block.slopes(block.shares()))


class OwnBlock:
    """w_ℓ and the rows' own columns.

    applied: how many updates the block has had. width: its features, per row if rows are sparse.
    """

    def __init__(self, rows: PartyRows, objective: LinearObjective) -> None:
        """rows: one block, with labels if the party is active."""
        self._objective, self._loss = objective, loss_code(objective.loss)
        self._model = LinearModel(rows.features, rows.label, objective)
        blocks, widths = kernel_blocks(rows)
        self._rows, self._labels = blocks[:-1], blocks.labels
        self._sparse = not blocks.dense.shape[0]
        self.samples, self.width = len(rows), float(widths[0])
        self._rule: Rule | None = None
        d = self._model.dimension
        self.load(BlockState(np.zeros(d), np.zeros(d), np.zeros(0), 0))

    def load(self, state: BlockState) -> None:
        """Go on from there."""
        self.w, self._mean = state.w.copy(), state.mean.copy()
        self._reference, self.applied = state.reference.copy(), state.applied
        self._scale, self._drift = np.ones(1), np.zeros(1)
        lazy = self._sparse and self._objective.regulariser is Regulariser.NONCONVEX
        self._touched = np.full(len(self.w) if lazy else 0, self.applied)

    def follow(self, rule: UpdateRule) -> None:
        """Make updates by this rule from now on; the block must be settled.

        A rule with a reference needs one of all samples before the first update.
        """
        self._refers, self._renews = rule.reference != "none", rule.reference == "table"
        self._rule = kernel_rule(rule, self._objective, is_sparse=self._sparse)

    def share(self, row: int) -> float:
        """w_ℓ·x_{i,ℓ} of the block as it stands."""
        found: float = share(0, row, *self._rows, self._rule, *self._moving)
        return found

    def slope(self, row: int, margin: float) -> float:
        """ϑ at the margin of a sample, of which the party must have the label."""
        found: float = loss_derivative(self._loss, margin, self._labels[row])
        return found

    def update(self, row: int, slope: float) -> None:
        """One update by ϑ of a sample."""
        if self._refers and not len(self._reference):
            raise FedatlasError("an update needs a reference: make a full pass before it")
        difference = slope
        if self._refers:
            difference = slope - self._reference[row]
            if self._renews:
                self._reference[row] = slope
        update(0, row, difference, *self._rows, self._rule, self.samples, *self._moving)
        self.applied += 1

    def shares(self) -> np.ndarray:
        """w_ℓ·x_{i,ℓ} of all samples, (n,)."""
        self.settle()
        return self._model.margins(self.w)

    def slopes(self, margins: np.ndarray) -> np.ndarray:
        """ϑ of all samples, (n,)."""
        return self._model.losses(margins)[1]

    def refer_to(self, slopes: np.ndarray) -> None:
        """Take ϑ of all samples, (n,), as the reference from now on."""
        self.settle()
        self._reference, self._mean = slopes.copy(), self._model.data_gradient(slopes)

    def settle(self) -> None:
        """Give sparse coordinates the updates that they have missed."""
        if self._sparse and self._rule is not None:
            columns = 0, len(self.w)
            scales = self._scale[0], self._drift[0]
            settle_block(
                *columns, self.applied, self._rule, *scales, self._touched, self.w, self._mean
            )
            self._scale[0], self._drift[0] = 1.0, 0.0

    @property
    def state(self) -> BlockState:
        """The block as it stands."""
        self.settle()
        return BlockState(self.w, self._mean, self._reference, self.applied)

    @property
    def _moving(self) -> tuple[object, ...]:
        return self._scale, self._drift, self._touched, self.applied, self.w, self._mean


class Party:
    """One of q parties; the first m are dominators. The launching process calls public methods.

    log: of the round under way. traffic: what was sent since the last report, see `Report`.
    """

    def __init__(
        self,
        party: int,
        parties: int,
        active: int,
        block: OwnBlock,
        transport: Transport,
        times: InjectedTimes,
        masks: PrivateMasks,
        ask: Callable[[str], None],
    ) -> None:
        """Wait for the first round.

        ask: tells the launching process that samples are needed, "more", or that all are "done".
        """
        self._party, self._active, self.block = party, active, block
        self._others = [other for other in range(parties) if other != party]
        self._transport, self._times, self._masks, self._ask = transport, times, masks, ask
        self._planned = sched.scheduler(time.monotonic)
        # By the dominator whose sum it is, and by tree; one party has nothing to hide from itself.
        self._places = [
            [place_in(tree.steps, party) for tree in two_trees(parties, dominator)]
            for dominator in range(active if parties > 1 else 0)
        ]
        self._parts: dict[tuple[int, int, int], dict[int, np.ndarray]] = {}
        self._totals: dict[tuple[int, int], dict[int, np.ndarray]] = {}
        self._free = [0.0] * times.threads  # when each thread is, by time.monotonic
        self._rule: UpdateRule
        self._settled: int | None = None  # updates of the block in this round, at its end
        self._passing = self._referred = False
        self._before = 0
        self.traffic: Counter[str] = Counter()
        self.log = RoundLog()

    def load(self, state: BlockState) -> None:
        """Go on from a block, with the updates it has had."""
        self.block.load(state)

    def begin_round(self, rule: UpdateRule, updates: int) -> None:
        """So many dominated updates by this rule are to come; nothing is under way."""
        self.block.follow(rule)
        self._rule, self.log = rule, RoundLog()
        self._seen: dict[tuple[int, int], int] = {}  # updates of the block when it was read
        self._rows: deque[int] = deque()  # that this dominator may draw
        self._drawn: dict[int, int] = {}
        self._iteration, self._before = 0, self.block.applied
        self._resting, self._asked, self._last, self._done = True, False, False, False
        self._updates = updates
        self._settled, self._passing, self._referred = None, False, False
        # Requests and updates of synchronous methods that have come too early.
        self._requests: list[tuple[int, int, int, float]] = []
        self._early: list[tuple[int, int, int, float, float]] = []

    def begin_pass(self, rule: UpdateRule) -> None:
        """Add the shares of all samples to a sum at the first dominator; nothing is under way.

        Snapshots of SVRG and the first table of SAGA are such passes.
        """
        self.begin_round(rule, 0)
        self._passing = True
        self._after(self._times.whole_pass(self.block.samples), self._answer_all)
        if not rule.backward and self._party >= self._active:
            self._referred = True  # it updates nothing and is sent nothing

    def give(self, rows: list[int]) -> None:
        """More samples for this dominator; none means that there are no more."""
        self._rows.extend(rows)
        self._asked, self._last = False, not rows
        if self._resting:
            self._begin()

    def settle(self) -> None:
        """All samples are drawn: the round ends when the block has had all its updates."""
        self._settled = self._updates if self._rule.backward else self._iteration

    def report(self) -> Report | None:
        """What to report if the round or the pass has ended, once."""
        if not (self._applied == self._settled or (self._passing and self._referred)):
            return None
        self._settled, self._passing = None, False
        finished = self.log.applications[-1][2] if self.log.applications else time.time()
        traffic = self.traffic + self._transport.traffic
        self.traffic.clear()
        self._transport.traffic.clear()
        return Report(self.block.state, self.log, finished, traffic)

    def run_planned(self) -> float | None:
        """Do what is due; seconds until the next is, None if nothing is planned."""
        return self._planned.run(blocking=False)

    def _after(self, seconds: float, call: Callable[..., None], *arguments: Any) -> None:
        """Plan a call; one without any delay is made at once."""
        if seconds <= 0:
            call(*arguments)
        else:
            self._planned.enter(seconds, 0, call, arguments)

    @property
    def _applied(self) -> int:
        """Updates of the block in this round."""
        return self.block.applied - self._before

    def handle(self, sender: int, message: bytes) -> None:
        """A message has arrived."""
        kind, dominator, iteration, sent = header_of(message)
        now = time.time()
        self.log.seconds["message"].append(now - sent)
        if kind in SUMMED:
            values = numbers_of(message, self._masks.dtype)
            self._add(SUMMED.index(kind), dominator, iteration, sender, values)
        elif kind == REQUEST:
            (row,) = numbers_of(message, np.int64).tolist()
            self._asked_for(dominator, iteration, row, now)
        elif iteration == PASS:
            self._refer_to(numbers_of(message))
        else:
            slope, row = numbers_of(message).tolist()
            call = self._apply, dominator, iteration, int(row), slope, now
            took = self._times.work()
            if took > 0:
                # A free thread, or the one that is free first; first come, first served.
                start = max(time.monotonic(), heapq.heappop(self._free))
                heapq.heappush(self._free, start + took)
                took = start + took - time.monotonic()
            self._after(took, *call)

    # ---- dominators: Algorithms 2, 4 and 6

    def _begin(self) -> None:
        """Draw a sample and ask for shares, unless there is none, or the barrier holds."""
        if self._rule.synchronous and self._applied < self._due(self._iteration):
            self._resting = True
            return
        if len(self._rows) < 2 and not self._last and not self._asked:
            self._asked = True  # in time, so that nothing waits for the answer
            self._ask("more")
        if not self._rows:
            self._resting = True
            if self._last and not self._done:
                self._done = True
                self._ask("done")
            return
        self._resting = False
        row, iteration = self._rows.popleft(), self._iteration
        self._iteration += 1
        self._drawn[iteration] = row
        for other in self._others:
            self._send(other, REQUEST, self._party, iteration, [row])
        self._asked_for(self._party, iteration, row, time.time())

    def _summed(self, dominator: int, iteration: int, margins: np.ndarray) -> None:
        """w·x_i is there: make ϑ, send it, and go on without waiting for anyone."""
        if iteration == PASS:
            self._spread(margins)
            return
        row = self._drawn.pop(iteration)
        slope, now = self.block.slope(row, float(margins[0])), time.time()
        self.log.decisions.append((iteration, now))
        if self._rule.backward:
            for other in self._others:
                self._send(other, SLOPE, self._party, iteration, [slope, float(row)])
        self._after(self._times.work(), self._apply, dominator, iteration, row, slope, time.time())

    # ---- every party: Algorithms 1, 3, 5 and 7

    def _asked_for(self, dominator: int, iteration: int, row: int, since: float) -> None:
        if self._rule.synchronous and self._applied < self._due(iteration):
            self._requests.append((dominator, iteration, row, since))
        else:
            self._after(self._times.work(), self._answer, dominator, iteration, row, time.time())

    def _answer(self, dominator: int, iteration: int, row: int, since: float) -> None:
        """Compute a share of the block as it stands, and hide it."""
        share, applied = self.block.share(row), self.block.applied
        self._seen[dominator, iteration] = applied
        self.log.reads.append((dominator, iteration, applied))
        self.log.seconds["share"].append(time.time() - since)
        self._hide(dominator, iteration, np.array([share]))
        early, self._early = self._early, []
        for arguments in early:
            self._apply(*arguments)

    def _answer_all(self) -> None:
        self._hide(0, PASS, self.block.shares())

    def _hide(self, dominator: int, iteration: int, shares: np.ndarray) -> None:
        """Add own shares, masked, and their masks to the sums of an iteration."""
        if not self._others:
            self._summed(dominator, iteration, shares)
            return
        for tree, values in enumerate(self._masks.hide(shares)):
            self._add(tree, dominator, iteration, self._party, values)

    def _add(
        self, tree: int, dominator: int, iteration: int, sender: int, values: np.ndarray
    ) -> None:
        """A part of the sum of masked shares, tree 0, or of masks, 1, is there; pass on a whole."""
        place = self._places[dominator][tree]
        parts = self._parts.setdefault((tree, dominator, iteration), {})
        parts[sender] = values
        if len(parts) <= len(place.children):
            return
        del self._parts[tree, dominator, iteration]
        total = parts[self._party]
        for child in place.children:  # always in this order: sums are the same in every run
            total = total + parts[child]
        if place.parent is not None:
            self._send(place.parent, SUMMED[tree], dominator, iteration, total)
            return
        totals = self._totals.setdefault((dominator, iteration), {})
        totals[tree] = total
        if len(totals) == 2:
            del self._totals[dominator, iteration]
            self._summed(dominator, iteration, self._masks.revealed(totals[0], totals[1]))

    def _apply(self, dominator: int, iteration: int, row: int, slope: float, since: float) -> None:
        """One update of the own block; a dominator then begins again."""
        if self._rule.synchronous and len(self.log.reads) < self._decided(iteration + 1):
            self._early.append((dominator, iteration, row, slope, since))
            return
        delay = self.block.applied - self._seen.pop((dominator, iteration))
        self.block.update(row, slope)
        now = time.time()
        self.log.applications.append((dominator, iteration, now, delay))
        self.log.seconds["update"].append(now - since)
        if self._rule.synchronous:
            waiting, self._requests = self._requests, []
            for request in waiting:
                self._asked_for(*request)
            if self._resting and self._party < self._active:
                self._begin()
        if dominator == self._party:
            self._planned.enter(0.0, 0, self._begin)  # when the loop has served what has arrived

    def _due(self, iteration: int) -> int:
        """Updates that this block has when an iteration may begin, of a synchronous method."""
        if self._rule.backward:
            return self._decided(iteration)
        return iteration if self._party < self._active else 0

    def _decided(self, iterations: int) -> int:
        """Dominated updates of so many iterations; the last one may lack some."""
        return min(iterations * self._active, self._updates)

    def _spread(self, margins: np.ndarray) -> None:
        """Make ϑ of all samples and give them to all that update their blocks."""
        slopes = self.block.slopes(margins)
        for other in self._others:
            if self._rule.backward or other < self._active:
                self._send(other, SLOPE, self._party, PASS, slopes)
        self._refer_to(slopes)

    def _refer_to(self, slopes: np.ndarray) -> None:
        self._after(self._times.whole_pass(self.block.samples), self._form_mean, slopes)

    def _form_mean(self, slopes: np.ndarray) -> None:
        self.block.refer_to(slopes)
        self._referred = True

    def _send(
        self, other: int, kind: int, dominator: int, iteration: int, values: ArrayLike
    ) -> None:
        """Hand a message to the transport, after the latency of the declared network."""
        message = packed(Header(kind, dominator, iteration, time.time()), values)
        if kind != REQUEST:
            way = "numbers_up" if kind in SUMMED else "numbers_down"
            self.traffic[way] += len(message) - HEADER_BYTES
        self._after(self._times.latency, self._transport.send, other, message)
