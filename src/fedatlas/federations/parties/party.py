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
import time
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
from scipy import sparse

import fedatlas.federations.parties.messages as messages
from fedatlas.arithmetic.kernels.formulas import LOSS_CODES, LinearModel, loss_derivative
from fedatlas.errors import FedatlasError
from fedatlas.federations.parties.messages import BlockState, Header, Notes
from fedatlas.federations.parties.transport import Transport
from fedatlas.federations.vertical.kernels.blocks import (
    kernel_blocks,
    kernel_rule,
    settle_block,
    share,
    update,
)
from fedatlas.federations.vertical.kernels.state import Rule
from fedatlas.federations.vertical.machines import InjectedTimes
from fedatlas.federations.vertical.problem import UpdateRule
from fedatlas.federations.vertical.secure_sum import PrivateMasks, TreeSums, Which
from fedatlas.federations.vertical.shards import PartyRows
from fedatlas.schema.objectives import LinearObjective, Regulariser


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
        self._objective, self._loss = objective, LOSS_CODES[objective.loss]
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


class Timers:
    """Calls in the order of their times; of equal times in the order in which they were planned."""

    def __init__(self) -> None:
        """Nothing is planned."""
        self._planned: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._tickets = count()

    def after(self, seconds: float, call: Callable[..., None], *arguments: Any) -> None:
        """Plan a call; one without any delay is made at once."""
        if seconds <= 0:
            call(*arguments)
        else:
            self.at(time.monotonic() + seconds, call, *arguments)

    def at(self, moment: float, call: Callable[..., None], *arguments: Any) -> None:
        """Plan a call at a moment of `time.monotonic`."""
        heapq.heappush(self._planned, (moment, next(self._tickets), call, arguments))

    def run(self) -> None:
        """Make the calls that are due."""
        while self._planned and self._planned[0][0] <= time.monotonic():
            _, _, call, arguments = heapq.heappop(self._planned)
            call(*arguments)

    def until_next(self, longest: float) -> float:
        """Seconds until the next call, at most so many."""
        if not self._planned:
            return longest
        return min(max(self._planned[0][0] - time.monotonic(), 0.0), longest)


#: Iterations count from 0 in every round; a pass over all samples has this one.
_PASS = (1 << 32) - 1


class Party:
    """One of q parties; the first m are dominators.

    notes: of the round under way. numbers_up, numbers_down: bytes that were sent, see `Traffic`.
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
        self.timers = Timers()
        self._sums = None
        if parties > 1:
            self._sums = TreeSums(party, parties, active, self._pass_on, self._reveal)
        self._free = [0.0] * times.threads  # when each thread is, by time.monotonic
        self._rule: UpdateRule
        self.numbers_up = self.numbers_down = 0
        self.notes = Notes()

    def begin_round(self, rule: UpdateRule, updates: int) -> None:
        """So many dominated updates by this rule are to come; nothing is under way."""
        self.block.follow(rule)
        self._rule, self.notes, self.referred = rule, Notes(), False
        self._seen: dict[tuple[int, int], int] = {}  # updates of the block when it was read
        self._rows: deque[int] = deque()  # that this dominator may draw
        self._drawn: dict[int, int] = {}
        self._iteration, self._before = 0, self.block.applied
        self._resting, self._asked, self._last, self._done = True, False, False, False
        self._updates = updates
        # Requests and updates of synchronous methods that have come too early.
        self._requests: list[tuple[int, int, int, float]] = []
        self._early: list[tuple[int, int, int, float, float]] = []

    @property
    def applied(self) -> int:
        """Updates of the block in this round."""
        return self.block.applied - self._before

    def applied_all(self, updates: int | None) -> bool:
        """Whether the block has had so many updates in this round; None are never reached."""
        return updates is not None and self.applied == updates

    def give(self, rows: list[int]) -> None:
        """More samples for this dominator; none means that there are no more."""
        self._rows.extend(rows)
        self._asked, self._last = False, not rows
        if self._resting:
            self._begin()

    def handle(self, sender: int, message: bytes) -> None:
        """A message has arrived."""
        header = messages.header_of(message)
        kind, dominator, iteration = header.kind, header.dominator, header.iteration
        now = time.time()
        self.notes.seconds["message"].append(now - header.sent)
        if kind == messages.REQUEST:
            self._asked_for(dominator, iteration, messages.row_of(message), now)
        elif kind in messages.SUMMED:
            which = messages.SUMMED.index(kind), dominator, iteration
            self._add(which, sender, messages.numbers_of(message, self._masks.dtype))
        elif kind == messages.SLOPE:
            slope, row = messages.slope_of(message)
            took = self._times.update()
            if took > 0:
                # A free thread, or the one that is free first; first come, first served.
                start = max(time.monotonic(), heapq.heappop(self._free))
                heapq.heappush(self._free, start + took)
                self.timers.at(start + took, self._apply, dominator, iteration, row, slope, now)
            else:
                self._apply(dominator, iteration, row, slope, now)
        elif kind in messages.ALL_SUMMED:
            which = messages.ALL_SUMMED.index(kind), dominator, _PASS
            self._add(which, sender, messages.numbers_of(message, self._masks.dtype))
        else:
            self._refer_to(messages.numbers_of(message))

    # ---- dominators: Algorithms 2, 4 and 6

    def _begin(self) -> None:
        """Draw a sample and ask for shares, unless there is none, or the barrier holds."""
        if self._rule.synchronous and self.applied < self._due(self._iteration):
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
        header = Header(messages.REQUEST, self._party, iteration, time.time())
        for other in self._others:
            self._send(other, header.kind, messages.request(header, row))
        self._asked_for(self._party, iteration, row, time.time())

    def _summed(self, dominator: int, iteration: int, margins: np.ndarray) -> None:
        """w·x_i is there: make ϑ, send it, and go on without waiting for anyone."""
        if iteration == _PASS:
            self._spread(margins)
            return
        row = self._drawn.pop(iteration)
        slope, now = self.block.slope(row, float(margins[0])), time.time()
        self.notes.decisions.append((iteration, now))
        if self._rule.backward:
            header = Header(messages.SLOPE, self._party, iteration, now)
            for other in self._others:
                self._send(other, header.kind, messages.slope(header, slope, row))
        self.timers.after(
            self._times.update(), self._apply, dominator, iteration, row, slope, time.time()
        )

    # ---- every party: Algorithms 1, 3, 5 and 7

    def _asked_for(self, dominator: int, iteration: int, row: int, since: float) -> None:
        if self._rule.synchronous and self.applied < self._due(iteration):
            self._requests.append((dominator, iteration, row, since))
        else:
            self.timers.after(
                self._times.share(), self._answer, dominator, iteration, row, time.time()
            )

    def _answer(self, dominator: int, iteration: int, row: int, since: float) -> None:
        """Compute a share of the block as it stands, hide it, and add it to the sum."""
        share, applied = self.block.share(row), self.block.applied
        self._seen[dominator, iteration] = applied
        self.notes.reads.append((dominator, iteration, applied))
        self.notes.seconds["share"].append(time.time() - since)
        if self._sums is None:  # one party has nothing to hide from itself
            self._summed(dominator, iteration, np.array([share]))
            return
        self._hide(dominator, iteration, np.array([share]))
        early, self._early = self._early, []
        for arguments in early:
            self._apply(*arguments)

    def _apply(self, dominator: int, iteration: int, row: int, slope: float, since: float) -> None:
        """One update of the own block; a dominator then begins again."""
        if self._rule.synchronous and len(self.notes.reads) < self._decided(iteration + 1):
            self._early.append((dominator, iteration, row, slope, since))
            return
        delay = self.block.applied - self._seen.pop((dominator, iteration))
        self.block.update(row, slope)
        now = time.time()
        self.notes.applications.append((dominator, iteration, now, delay))
        self.notes.seconds["update"].append(now - since)
        if self._rule.synchronous:
            waiting, self._requests = self._requests, []
            for request in waiting:
                self._asked_for(*request)
            if self._resting and self._party < self._active:
                self._begin()
        if dominator == self._party:
            self.timers.at(0.0, self._begin)  # when the loop has served what has arrived

    def _due(self, iteration: int) -> int:
        """Updates that this block has when an iteration may begin, of a synchronous method."""
        if self._rule.backward:
            return self._decided(iteration)
        return iteration if self._party < self._active else 0

    def _decided(self, iterations: int) -> int:
        """Dominated updates of so many iterations; the last one may lack some."""
        return min(iterations * self._active, self._updates)

    def _hide(self, dominator: int, iteration: int, shares: np.ndarray) -> None:
        """Add own shares, masked, and their masks to the sums of an iteration."""
        assert self._sums is not None
        for tree, values in enumerate(self._masks.hide(shares)):
            self._sums.add((tree, dominator, iteration), self._party, values)

    def _reveal(
        self, dominator: int, iteration: int, masked: np.ndarray, masks: np.ndarray
    ) -> None:
        self._summed(dominator, iteration, self._masks.revealed(masked, masks))

    def _add(self, which: Which, sender: int, value: Any) -> None:
        assert self._sums is not None  # one party is sent nothing
        self._sums.add(which, sender, value)

    def _pass_on(self, parent: int, which: Which, value: Any) -> None:
        """Send a partial sum up its tree."""
        tree, dominator, iteration = which
        kinds = messages.ALL_SUMMED if iteration == _PASS else messages.SUMMED
        header = Header(kinds[tree], dominator, iteration, time.time())
        self._send(parent, header.kind, messages.numbers(header, value))

    # ---- a pass over all samples: snapshots of SVRG, the first table of SAGA

    def begin_pass(self, rule: UpdateRule) -> None:
        """Add the shares of all samples to a sum at the first dominator; nothing is under way."""
        self.begin_round(rule, 0)
        self.timers.after(self._times.whole_pass(self.block.samples), self._answer_all)
        if not rule.backward and self._party >= self._active:
            self.referred = True  # it updates nothing and is sent nothing

    def _answer_all(self) -> None:
        shares = self.block.shares()
        if self._sums is None:
            self._spread(shares)
            return
        self._hide(0, _PASS, shares)

    def _spread(self, margins: np.ndarray) -> None:
        """Make ϑ of all samples and give them to all that update their blocks."""
        slopes = self.block.slopes(margins)
        header = Header(messages.ALL_SLOPES, self._party, _PASS, time.time())
        for other in self._others:
            if self._rule.backward or other < self._active:
                self._send(other, header.kind, messages.numbers(header, slopes))
        self._refer_to(slopes)

    def _refer_to(self, slopes: np.ndarray) -> None:
        self.timers.after(self._times.whole_pass(self.block.samples), self._form_mean, slopes)

    def _form_mean(self, slopes: np.ndarray) -> None:
        self.block.refer_to(slopes)
        self.referred = True

    def _send(self, other: int, kind: int, message: bytes) -> None:
        """Hand a message to the transport, after the latency of the declared network."""
        size = len(message) - messages.HEADER_BYTES
        if kind in messages.UPWARDS:
            self.numbers_up += size
        elif kind in messages.DOWNWARDS:
            self.numbers_down += size
        self.timers.after(self._times.message(), self._transport.send, other, message)
