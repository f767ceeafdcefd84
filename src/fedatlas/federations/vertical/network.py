"""Parties that hold columns: who computes what when, event by event (VFB², arXiv:2103.00958).

The model of time, in simulated seconds, of whole nanoseconds; all of it our choice, as the paper
measures and models none. Party ℓ has d_ℓ features (if rows are sparse: non-zeros per row, on
average) and takes r_ℓ = seconds_per_feature · d_ℓ, the straggler longer, for a share w_ℓ·x_{i,ℓ},
and as long for an update of its block. A message takes the latency Λ (none with one party), a sum
⌈log2 q⌉ messages one after the other.

- An iteration of a dominator that begins at t asks all parties for their shares of one sample; ℓ
  answers with its block as it stands at t + Λ + r_ℓ, which keeps none of its threads from their
  work. The sum is there at S = t + Λ + max_ℓ r_ℓ + ⌈log2 q⌉ Λ, and ϑ = ∂L/∂z with it. The
  dominator updates its own block at S + r_a and begins its next iteration at that moment: it waits
  for nobody.
- (ϑ, i) reaches the collaborators at S + Λ and waits, first in, first out, for one of k threads,
  which applies the update r_ℓ later; with k = m, as in the paper, it never has to wait. Both kinds
  of update are made of the block as it then stands, in one piece: the paper takes the regulariser
  of a dominator where the share was computed.
- Of equal times the earlier sum, then the lower dominator, comes first; an update due at the time
  of a read is seen by it.
- Synchronous methods: all dominators begin together, and again when the last update is applied;
  the barrier itself costs nothing, in their favour.
- A pass over all samples (a snapshot of SVRG, the first table of SAGA) waits for all updates that
  are decided; iterations without a sum are given up at no cost. The k threads of a party share its
  work. It takes n max_ℓ r_ℓ / k + Λ + ⌈log2 q⌉ Λ for the sums, and Λ + n max_ℓ r_ℓ / k until ϑ is
  spread and the mean is formed.

Stale ϑ and inconsistent reads follow from these times. No clock but the parties' own is needed: all
sums take equally long, so a block can be brought up to the time of each read when it is read.

Counted is what Algorithm 1 and the updates need: 2(q − 1) numbers per sum towards the dominator;
one number and one index to each collaborator, per dominated update; for all samples, 2(q − 1)
numbers each, and one to every other party that updates its block. Indices that go out with the
request for shares are not counted (parties can derive them from a shared seed), their latency is.
"""

import logging
from dataclasses import dataclass
from math import ceil, inf, log2
from typing import NamedTuple

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.federations.vertical.kernel_arguments import kernel_blocks, kernel_rule
from fedatlas.federations.vertical.kernels import events, sums
from fedatlas.federations.vertical.kernels import state as at
from fedatlas.federations.vertical.kernels.state import (
    MaskLaw,
    Queues,
    Scratch,
    Tally,
    Timing,
)
from fedatlas.federations.vertical.problem import PartyProblem, UpdateRule
from fedatlas.federations.vertical.ring import Ring
from fedatlas.federations.vertical.secure_sum import two_trees
from fedatlas.federations.vertical.shards import PartyRows
from fedatlas.schema.network_model import NetworkModel, RealMasks, RingMasks
from fedatlas.schema.objectives import LinearObjective, Regulariser

log = logging.getLogger(__name__)

_NUMBER_BYTES = 8
_NANOSECONDS = 1e9  # of a second
_NO_SAMPLES = np.zeros(0, np.int64)


@dataclass
class PartyCounters:
    """Running totals of one seed."""

    gradient_evaluations: int = 0  # derivatives ϑ
    iteration: int = 0  # dominated updates
    update_epoch: float = 0.0  # dominated updates per sample
    full_passes: int = 0
    block_updates: int = 0
    bytes_up: int = 0  # shares and masks towards dominators
    bytes_down: int = 0  # ϑ and indices from dominators
    messages: int = 0
    simulated_time: float = 0.0  # s
    read_delay_mean: float = 0.0
    read_delay_max: float = 0.0
    update_delay_mean: float = 0.0
    update_delay_max: float = 0.0
    mask_error: float = 0.0


class PartyState(NamedTuple):
    """The parties between two rounds; never changed in place.

    x: (d,) all blocks, with the updates applied so far; `PartyNetwork.settled` adds those that are
        due. mean (d,), reference (0, 1 or q rows of n): see UpdateRule.
    """

    x: np.ndarray
    mean: np.ndarray
    reference: np.ndarray
    queues: Queues
    tally: Tally

    @property
    def dominated_updates(self) -> int:
        """How many have been decided."""
        return int(self.tally.counts[at.DECIDED])


class PartyNetwork:
    """q parties, the first m of them dominators, and what they have spent."""

    def __init__(
        self,
        rows: PartyRows,
        objective: LinearObjective,
        active: int,
        model: NetworkModel,
        counters: PartyCounters,
        seed: int,
    ) -> None:
        """seed: of the masks, whose only traces are rounding errors."""
        self._counters, self._objective, self._active = counters, objective, active
        self._threads = model.threads or active
        self.parties, self.samples = rows.parties, len(rows)
        self._blocks, widths = kernel_blocks(rows)
        slowdown = np.ones(rows.parties)
        if rows.parties > 1:
            slowdown[-1] = model.straggler
        work = np.rint(model.seconds_per_feature * widths * slowdown * _NANOSECONDS)
        work = np.maximum(work, 1.0)  # a party may have nothing but zeros
        latency = float(np.rint(model.latency * _NANOSECONDS)) if rows.parties > 1 else 0.0
        depth = ceil(log2(rows.parties))
        self._timing = Timing(work, float(work.max()), latency, depth * latency)
        self._trees = np.empty((active, 2, 0, 2), np.int64)
        if rows.parties > 1:
            # Both end at the party that asked.
            trees = (two_trees(rows.parties, root) for root in range(active))
            self._trees = np.array([[tree.arrays() for tree in pair] for pair in trees])
        keys = np.random.SeedSequence([seed, 1]).generate_state(2, np.uint64)
        self._mask_laws = [_mask_law(model.masks, rows.parties, key) for key in keys]

    def start(self, x0: np.ndarray) -> PartyState:
        """All clocks at 0, nothing under way, no reference."""
        q, m = self.parties, self._active
        own = np.zeros((m, 5))
        own[:, at.TIME] = inf
        queues = Queues(
            # With k = m threads a dominator has at most three updates under way, at any latency.
            ring=np.zeros((q, 64 * m, 5)),
            own=own,
            position=np.zeros((q, 3), np.int64),
            threads=np.zeros((q, self._threads)),
            begin=np.zeros(m),
        )
        tally = Tally(np.zeros(3, np.int64), np.zeros(7))
        return PartyState(x0.copy(), np.zeros(len(x0)), np.zeros((0, 0)), queues, tally)

    def dominated_updates(
        self, state: PartyState, rule: UpdateRule, samples: np.ndarray
    ) -> PartyState:
        """Run until `len(samples)` more dominated updates are decided, on these samples."""
        state = self._advanced(state, rule, samples, -inf)
        counters, others = self._counters, self.parties - 1
        counters.iteration += len(samples)
        counters.gradient_evaluations += len(samples)
        counters.bytes_up += len(samples) * 2 * others * _NUMBER_BYTES
        counters.messages += len(samples) * 2 * others
        if rule.backward:
            counters.bytes_down += len(samples) * others * 2 * _NUMBER_BYTES
            counters.messages += len(samples) * others
        self._report(state)
        return state

    def settled(self, state: PartyState, rule: UpdateRule) -> np.ndarray:
        """(d,) all blocks at the present time: with every update that is due by the last sum.

        The counters then tell of these updates, too.
        """
        state = self._advanced(state, rule, _NO_SAMPLES, float(state.tally.values[at.LAST_SUM]))
        self._report(state)
        return state.x

    def full_pass(self, state: PartyState, rule: UpdateRule, problem: PartyProblem) -> PartyState:
        """ϑ of all samples at one model, found and given to all parties; behind a barrier."""
        state = self.barrier(state, rule)
        derivatives = problem.derivatives(self.secure_margins(state))
        return self.distribute(state, rule, derivatives, problem.data_gradient(derivatives))

    def barrier(self, state: PartyState, rule: UpdateRule) -> PartyState:
        """Wait until everything under way is applied; no dominator begins meanwhile."""
        state = self._advanced(state, rule, _NO_SAMPLES, inf)
        numbers = state.tally.values
        numbers[at.LAST_SUM] = max(numbers[at.LAST_SUM], numbers[at.LAST_APPLICATION])
        self._report(state)
        return state

    def secure_margins(self, state: PartyState) -> np.ndarray:
        """w·x_i of all samples, (n,), by Algorithm 1; behind a barrier."""
        others = self.parties - 1
        margins = np.empty(self.samples)
        first_mask = self._counters.full_passes * self.samples * self.parties
        error = sums.secure_margins(
            self._blocks, self._trees[0], self._mask_laws[1], first_mask, self._scratch(state),
            state.x, margins,
        )  # fmt: skip
        numbers = state.tally.values
        numbers[at.MASK_ERROR] = max(numbers[at.MASK_ERROR], error)
        self._counters.bytes_up += self.samples * 2 * others * _NUMBER_BYTES
        self._counters.messages += 2 * others
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
        work = float(np.rint(self.samples * timing.slowest / self._threads))
        sums = work + timing.latency + timing.aggregation
        spread = timing.latency + work
        state.tally.values[at.LAST_SUM] += sums + spread
        state.queues.begin[:] = state.tally.values[at.LAST_SUM]
        counters = self._counters
        others = (self.parties if rule.backward else self._active) - 1
        counters.full_passes += 1
        counters.gradient_evaluations += self.samples
        counters.bytes_down += others * self.samples * _NUMBER_BYTES
        counters.messages += others
        self._report(state)
        return state

    def _advanced(
        self, state: PartyState, rule: UpdateRule, samples: np.ndarray, until: float
    ) -> PartyState:
        """The state with more dominated updates, and then with every update due by `until`."""
        state = _copied(state, rule.reference)
        codes = kernel_rule(rule, self._objective, is_sparse=not self._blocks.dense.shape[0])
        job = self._blocks, codes, self._timing, self._scratch(state), samples
        given = state._replace(reference=state.reference.T)
        if self.parties == 1 and len(samples):
            events.decide_alone(*job, *given)
            return state
        secrets = self._trees, self._mask_laws[0]
        if not events.advance(*job, until, *secrets, *given):
            raise FedatlasError(
                f"network: with {self._threads} threads updates pile up at a party faster than it "
                "applies them; raise threads, up to the number of active parties"
            )
        return state

    def _scratch(self, state: PartyState) -> Scratch:
        """Blocks that are settled: sparse coordinates have missed nothing."""
        q, touched = self.parties, np.zeros(0, np.int64)
        nonconvex = self._objective.regulariser is Regulariser.NONCONVEX
        if self._blocks.dense.shape[0] == 0 and nonconvex:
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
        counters.simulated_time = float(numbers[at.LAST_SUM] / _NANOSECONDS)
        counters.read_delay_mean = float(numbers[at.READ_DELAYS] / reads)
        counters.read_delay_max = float(numbers[at.LARGEST_READ_DELAY])
        counters.update_delay_mean = float(numbers[at.UPDATE_DELAYS] / updates)
        counters.update_delay_max = float(numbers[at.LARGEST_UPDATE_DELAY])
        if numbers[at.MASK_ERROR] == inf and counters.mask_error < inf:
            log.warning(
                "masks: a share does not fit: it must stay below %g in size, and the sum counts as "
                "not a number; lower fraction_bits, or the step size if the run diverges",
                self._mask_laws[0].limit,
            )
        counters.mask_error = float(numbers[at.MASK_ERROR])


def _mask_law(masks: RealMasks | RingMasks, parties: int, key: np.uint64) -> MaskLaw:
    """The masks as kernels want them; one party has nothing to hide from itself."""
    if parties == 1:
        return MaskLaw(key, 0.0, 0.0, inf)
    if isinstance(masks, RealMasks):
        return MaskLaw(key, masks.scale, 0.0, inf)
    ring = Ring(masks.fraction_bits, parties)
    return MaskLaw(key, 0.0, ring.steps, ring.limit)


def _copied(state: PartyState, reference: str | None) -> PartyState:
    """A state whose arrays may be changed; mean and reference only if it is a "table"."""
    mean, table = state.mean, state.reference
    if reference == "table":
        mean, table = mean.copy(), table.copy("K")
    queues, tally = Queues(*map(np.copy, state.queues)), Tally(*map(np.copy, state.tally))
    return PartyState(state.x.copy(), mean, table, queues, tally)
