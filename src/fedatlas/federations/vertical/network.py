"""Parties that hold columns: who computes what when, event by event (VFB², arXiv:2103.00958).

Times are simulated seconds, of whole nanoseconds; docs/adding/parties.md states the model of time.
All of it is our choice, as the paper measures and models none. Stale ϑ and inconsistent reads
follow from it.

Counted is what Algorithm 1 and the updates need: 2(q − 1) numbers per sum towards the dominator;
one number and one index to each collaborator, per dominated update; for all samples, 2(q − 1)
numbers each, and one to every other party that updates its block. Indices that go out with the
request for shares are not counted (parties can derive them from a shared seed), their latency is.
"""

import logging
from math import inf
from typing import NamedTuple

import numpy as np

import fedatlas.federations.vertical.kernels as at
from fedatlas.arithmetic.kernels.formulas import NONE
from fedatlas.errors import FedatlasError
from fedatlas.federations.times import NANOSECONDS
from fedatlas.federations.vertical.kernels import (
    Masking,
    Queues,
    Rule,
    Scratch,
    Tally,
    draws,
    events,
)
from fedatlas.federations.vertical.kernels.blocks import (
    Step,
    compiled_move,
    kernel_blocks,
    kernel_rule,
)
from fedatlas.federations.vertical.machines import time_distributions_of, timing_of
from fedatlas.federations.vertical.problem import BlockStep, PartyCounters, PartyProblem, UpdateRule
from fedatlas.federations.vertical.secure_sum import Ring, two_trees
from fedatlas.federations.vertical.shards import PartyRows
from fedatlas.schema.losses import Regulariser
from fedatlas.schema.network_model import NetworkModel, RealMasks, RingMasks
from fedatlas.schema.objectives import LinearObjective

log = logging.getLogger(__name__)

_NO_SAMPLES = np.zeros(0, np.int64)
# For shares of blocks that have missed no update.
_SETTLED = Rule(0, NONE, 0.0, 1.0, at.PLAIN, backward=True, barrier=False)


class PartyState(NamedTuple):
    """The parties between two rounds; never changed in place.

    x: (d,) all blocks, with the updates applied so far; `PartyNetwork.settled` adds those that are
        due. mean (d,), reference (0, 1 or q rows of n): see UpdateRule. memory (rows, d): see
        BlockStep; (0, 0) before the first update by one.
    """

    x: np.ndarray
    mean: np.ndarray
    reference: np.ndarray
    queues: Queues
    tally: Tally
    memory: np.ndarray

    @property
    def dominated_updates(self) -> int:
        """How many have been decided."""
        return int(self.tally.counts[at.DECIDED])

    @property
    def iterations_under_way(self) -> int:
        """How many have begun and are not decided."""
        return int(np.isfinite(self.queues.asked[:, at.SUM]).sum())


class PartyNetwork:
    """q parties, the first m of them dominators, and what they have spent.

    looks_ahead: how many samples dominators know beyond the end of a round: they do not stop there.
    """

    def __init__(
        self,
        rows: PartyRows,
        objective: LinearObjective,
        active: int,
        model: NetworkModel,
        counters: PartyCounters,
        seed: int,
    ) -> None:
        """seed: of times, and of the masks, whose only traces are rounding errors.

        FedatlasError if the straggler is none of the parties.
        """
        self._counters, self._objective, self._active = counters, objective, active
        self._threads, self.looks_ahead = model.threads or active, active - 1
        self.parties, self.samples = rows.parties, len(rows)
        self._blocks, widths = kernel_blocks(rows)
        self._is_sparse = not self._blocks.dense.shape[0]
        self._timing = timing_of(model, widths)
        self._time_distributions = time_distributions_of(model, seed)
        self._trees = np.empty((active, 2, 0, 2), np.int64)
        if rows.parties > 1:
            # Both end at the party that asked.
            trees = (two_trees(rows.parties, root) for root in range(active))
            self._trees = np.array([[tree.steps for tree in pair] for pair in trees])
        keys = np.random.SeedSequence([seed, 1]).generate_state(2, np.uint64)
        self._maskings = [_masking(model.masks, rows.parties, key) for key in keys]

    def start(self, x0: np.ndarray) -> PartyState:
        """All clocks at 0, nothing under way, no reference."""
        q, m = self.parties, self._active
        own, asked = np.zeros((m, 5)), np.zeros((m, 4))
        own[:, at.TIME] = asked[:, at.SUM] = inf
        position = np.zeros((q, 5), np.int64)
        position[:, at.VISITED] = -1
        reads = np.zeros((q, m, 5))
        reads[:, :, at.PENDING] = inf
        queues = Queues(
            # With k = m threads and equal times a dominator has at most three updates under way, at
            # any latency.
            ring=np.zeros((q, 64 * m, 6)),
            own=own,
            position=position,
            threads=np.zeros((q, self._threads, 2)),
            begin=np.zeros(m),
            asked=asked,
            reads=reads,
            upcoming=np.zeros((64 * m * q, 3)),
        )
        tally = Tally(np.zeros(6, np.int64), np.zeros(10))
        return PartyState(
            x0.copy(), np.zeros(len(x0)), np.zeros((0, 0)), queues, tally, np.zeros((0, 0))
        )

    def dominated_updates(
        self,
        state: PartyState,
        rule: UpdateRule,
        samples: np.ndarray,
        ahead: np.ndarray = _NO_SAMPLES,
    ) -> PartyState:
        """Run until `len(samples)` more dominated updates are decided.

        Iterations take samples in the order in which they begin. ahead: those that follow, for
        iterations that begin before and are decided later: `looks_ahead` of them, or as many as are
        left before the next barrier. Where there are none, no iteration begins.
        """
        begun = np.concatenate([samples, ahead])[state.iterations_under_way :]
        return self._advanced(state, rule, begun, len(samples), -inf)

    def settled(self, state: PartyState, rule: UpdateRule) -> np.ndarray:
        """(d,) all blocks at the present time: with every update that is due by the last sum.

        The counters then tell of these updates, too.
        """
        last = float(state.tally.values[at.LAST_SUM])
        return self._advanced(state, rule, _NO_SAMPLES, 0, last).x

    def full_pass(self, state: PartyState, rule: UpdateRule, problem: PartyProblem) -> PartyState:
        """ϑ of all samples at one model, found and given to all, who form 1/n Σ_i ϑ_i x_{i,ℓ}.

        Behind a barrier: the parties need one common model (our reading; the paper shows none).
        """
        state = self.barrier(state, rule)
        derivatives = problem.derivatives(self.secure_margins(state))
        return self.distribute(state, rule, derivatives, problem.data_gradient(derivatives))

    def barrier(self, state: PartyState, rule: UpdateRule) -> PartyState:
        """Wait until everything under way is decided and applied; no dominator begins meanwhile."""
        state = self._advanced(state, rule, _NO_SAMPLES, state.iterations_under_way, inf)
        numbers = state.tally.values
        numbers[at.LAST_SUM] = max(numbers[at.LAST_SUM], numbers[at.LAST_APPLICATION])
        self._report(state)
        return state

    def secure_margins(self, state: PartyState) -> np.ndarray:
        """w·x_i of all samples, (n,), by Algorithm 1; behind a barrier."""
        margins = np.empty(self.samples)
        first_mask = self._counters.full_passes * self.samples * self.parties
        error = draws.secure_margins(
            self._blocks, _SETTLED, self._trees[0], self._maskings[1], first_mask,
            self._scratch(state), state.x, state.mean, margins,
        )  # fmt: skip
        numbers = state.tally.values
        numbers[at.MASK_ERROR] = max(numbers[at.MASK_ERROR], error)
        self._counters.count_sums(self.samples, self.parties - 1)
        return margins

    def distribute(
        self, state: PartyState, rule: UpdateRule, derivatives: np.ndarray, mean: np.ndarray
    ) -> PartyState:
        """Give all parties ϑ of all samples, the reference from now on, and go on from there.

        derivatives (n,); mean (d,): what they make of it, 1/n Σ_j ϑ_j x_j. The end of a full pass,
        whose whole time is spent here.
        """
        rows = self.parties if rule.reference == "table" else 1
        # Numbers of all parties for a sample lie side by side.
        reference = np.repeat(derivatives[:, np.newaxis], rows, axis=1).T
        state = _copied(state._replace(mean=mean, reference=reference), reference=None)
        timing = self._timing
        work = self._whole_pass(float(state.tally.values[at.LAST_SUM]))
        sums = work + timing.latency + timing.aggregation
        spread = timing.latency + work
        state.tally.values[at.LAST_SUM] += sums + spread
        state.queues.begin[:] = state.tally.values[at.LAST_SUM]
        told = (self.parties if rule.backward else self._active) - 1
        self._counters.count_full_pass(self.samples, told)
        self._report(state)
        return state

    def _advanced(
        self,
        state: PartyState,
        rule: UpdateRule,
        begun: np.ndarray,
        wanted: int,
        until: float,
    ) -> PartyState:
        """The state with more dominated updates, and then with every update due by `until`.

        begun: samples of iterations that may begin. Counts what was decided.
        """
        state, step = self._stepping(_copied(state, rule.reference), rule.step)
        codes = kernel_rule(rule, self._objective, is_sparse=self._is_sparse)
        in_time = events.advance(
            self._blocks, codes, self._timing, self._time_distributions, step,
            self._scratch(state), begun, wanted, until, self._trees, self._maskings[0],
            *state[:2], state.reference.T, state.queues, state.tally,
        )  # fmt: skip
        if not in_time:
            raise FedatlasError(
                f"network: with {self._threads} threads updates pile up at a party faster than "
                "it applies them; raise threads, up to the number of active parties, or cores"
            )
        self._counters.count_updates(wanted, self.parties - 1, rule.backward)
        self._report(state)
        return state

    def _stepping(
        self, state: PartyState, step: BlockStep | None
    ) -> tuple[PartyState, Step | None]:
        """The state with room for what blocks remember, which the step then changes."""
        if step is None:
            return state, None
        if state.memory.shape[1] != len(state.x):
            state = state._replace(memory=np.zeros((step.rows, len(state.x))))
        widest = int(np.diff(self._blocks.starts).max())
        numbers = np.array(step.numbers, dtype=np.float64)
        room = np.empty(widest)
        return state, Step(compiled_move(step.move), numbers, room, state.memory)

    def _whole_pass(self, begins: float) -> float:
        """Nanoseconds in which the slowest party's threads pass over all samples, from `begins`."""
        slowest, threads = self._timing.slowest, float(self._threads)
        if self._time_distributions is not None:
            _, spread, period, cores, keys = self._time_distributions
            drifts = [
                draws.drifted(spread, period, keys[1], party, self.parties, begins)
                for party in range(self.parties)
            ]
            slowest, threads = (self._timing.work * drifts).max(), min(threads, cores)
        return float(np.rint(self.samples * slowest / threads))

    def _scratch(self, state: PartyState) -> Scratch:
        """Blocks that are settled: sparse coordinates have missed nothing."""
        q, touched = self.parties, np.zeros(0, np.int64)
        nonconvex = self._objective.regulariser is Regulariser.NONCONVEX
        if self._is_sparse and nonconvex:
            applied = state.queues.position[:, at.APPLIED]
            touched = np.repeat(applied, np.diff(self._blocks.starts))
        real = np.empty(q), np.empty(q)
        ring = np.empty(q, np.uint64), np.empty(q, np.uint64)
        return Scratch(np.ones(q), np.zeros(q), touched, *real, *ring)

    def _report(self, state: PartyState) -> None:
        """Carry the simulation's own numbers over to the counters."""
        counts, numbers = state.tally
        reads, updates = max(counts[at.READS], 1), max(counts[at.BLOCK_UPDATES], 1)
        counters = self._counters
        counters.update_epoch = float(counts[at.DECIDED] / self.samples)
        counters.block_updates = int(counts[at.BLOCK_UPDATES])
        counters.simulated_time = float(numbers[at.LAST_SUM] / NANOSECONDS)
        counters.read_delay_mean = float(numbers[at.READ_DELAYS] / reads)
        counters.read_delay_max = float(numbers[at.LARGEST_READ_DELAY])
        counters.update_delay_mean = float(numbers[at.UPDATE_DELAYS] / updates)
        counters.update_delay_max = float(numbers[at.LARGEST_UPDATE_DELAY])
        counters.tau_1 = float(numbers[at.TAU_1])
        counters.tau_2 = float(numbers[at.TAU_2])
        counters.eta_1 = float(numbers[at.ETA_1])
        if numbers[at.MASK_ERROR] == inf and counters.mask_error < inf:
            log.warning(
                "masks: a share does not fit: it must stay below %g in size, and the sum counts as "
                "not a number; lower fraction_bits, or the step size if the run diverges",
                self._maskings[0].limit,
            )
        counters.mask_error = float(numbers[at.MASK_ERROR])


def _masking(masks: RealMasks | RingMasks, parties: int, key: np.uint64) -> Masking:
    """The masks as kernels want them; one party has nothing to hide from itself."""
    if parties == 1:
        return Masking(key, 0.0, 0.0, inf)
    if isinstance(masks, RealMasks):
        return Masking(key, masks.scale, 0.0, inf)
    ring = Ring(masks.fraction_bits, parties)
    return Masking(key, 0.0, ring.steps, ring.limit)


def _copied(state: PartyState, reference: str | None) -> PartyState:
    """A state whose arrays may be changed; mean and reference only if it is a "table"."""
    mean, table = state.mean, state.reference
    if reference == "table":
        mean, table = mean.copy(), table.copy("K")
    queues, tally = Queues(*map(np.copy, state.queues)), Tally(*map(np.copy, state.tally))
    return PartyState(state.x.copy(), mean, table, queues, tally, state.memory.copy())
