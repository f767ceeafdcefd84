"""The network of parties that are processes, as methods see it; it counts and measures.

A method asks for the same as of `vertical.network.PartyNetwork`. Time is real: it passes from the
beginning of a round until the last update of it has been applied. Between rounds, while models are
measured and checkpoints written, the parties rest and the clock stands: a round ends with nothing
under way, which the simulated network does not need.

Counted is, by formulas, what the simulated network counts; and, at the sockets, what was handed to
them, with headers, requests for shares and framing.
"""

from typing import NamedTuple

import numpy as np

from fedatlas.federations.parties.group import PartyGroup
from fedatlas.federations.parties.measured import Measured, staleness
from fedatlas.federations.parties.messages import BlockState, Report, Traffic
from fedatlas.federations.vertical.problem import PartyProblem, ProcessCounters, UpdateRule

_NO_SAMPLES = np.zeros(0, np.int64)


class ProcessState(NamedTuple):
    """The parties between two rounds; never changed in place.

    x, mean: (d,) all blocks side by side. reference: (q, n), or (q, 0) without any. applied: (q,)
    updates of each block. decided: dominated updates. elapsed: seconds that rounds took.
    """

    x: np.ndarray
    mean: np.ndarray
    reference: np.ndarray
    applied: np.ndarray
    decided: int
    elapsed: float
    measured: Measured

    @property
    def dominated_updates(self) -> int:
        """How many have been decided."""
        return self.decided


class ProcessNetwork:
    """q processes, the first m of them dominators, and what they have spent.

    traffic: what the parties counted where they sent.
    """

    def __init__(
        self,
        group: PartyGroup,
        starts: np.ndarray,
        active: int,
        samples: int,
        counters: ProcessCounters,
    ) -> None:
        """starts: (q + 1,) first column of each block, and d."""
        self._group, self._starts, self._active = group, starts, active
        self.parties, self.samples, self._counters = group.parties, samples, counters
        self.traffic = Traffic()

    def start(self, x0: np.ndarray) -> ProcessState:
        """Nothing under way, no reference."""
        q = self.parties
        return ProcessState(
            *(x0.copy(), np.zeros(len(x0)), np.zeros((q, 0)), np.zeros(q, np.int64)),
            *(0, 0.0, Measured.nothing(q)),
        )

    @property
    def looks_ahead(self) -> int:
        """How many samples dominators know beyond the end of a round."""
        return 0

    def dominated_updates(
        self,
        state: ProcessState,
        rule: UpdateRule,
        samples: np.ndarray,
        ahead: np.ndarray = _NO_SAMPLES,
    ) -> ProcessState:
        """Make `len(samples)` more dominated updates, on these samples, and all that follow.

        ahead: none, as a round ends when every iteration is decided; see `looks_ahead`.
        """
        self._load(state)
        began, reports = self._group.round(rule, samples, self._active)
        logs = [report.log for report in reports]
        stale = staleness(logs, state.applied.tolist(), rule.backward)
        new = self._after(state, began, reports)
        new = new._replace(
            decided=state.decided + len(samples),
            measured=state.measured.with_round(logs, stale),
        )
        self._counters.count_updates(len(samples), self.parties - 1, rule.backward)
        self._report(new, reports)
        return new

    def settled(self, state: ProcessState, rule: UpdateRule) -> np.ndarray:
        """(d,) all blocks: a round ends with every update applied."""
        return state.x

    def full_pass(
        self, state: ProcessState, rule: UpdateRule, problem: PartyProblem
    ) -> ProcessState:
        """ϑ of all samples at one model, found and given to all parties by the parties."""
        self._load(state)
        began, reports = self._group.full_pass(rule)
        new = self._after(state, began, reports)
        told = (self.parties if rule.backward else self._active) - 1
        self._counters.count_sums(self.samples, self.parties - 1)
        self._counters.count_full_pass(self.samples, told)
        self._report(new, reports)
        return new

    def _load(self, state: ProcessState) -> None:
        """Give the processes a state that is not the one that they have."""
        if state is self._group.holds:
            return
        parts = zip(self._starts, self._starts[1:], state.reference, state.applied, strict=False)
        self._group.load(
            [
                BlockState(state.x[a:b], state.mean[a:b], reference, int(applied))
                for a, b, reference, applied in parts
            ]
        )

    def _after(self, state: ProcessState, began: float, reports: list[Report]) -> ProcessState:
        """The state that the processes have now."""
        blocks = [report.state for report in reports]
        longest = max(len(block.reference) for block in blocks)
        # A party that updates nothing has no reference; it never reads one.
        references = [
            block.reference if len(block.reference) else np.zeros(longest) for block in blocks
        ]
        return state._replace(
            x=np.concatenate([block.w for block in blocks]),
            mean=np.concatenate([block.mean for block in blocks]),
            reference=np.array(references),
            applied=np.array([block.applied for block in blocks]),
            elapsed=state.elapsed + max(report.finished for report in reports) - began,
        )

    def _report(self, state: ProcessState, reports: list[Report]) -> None:
        """Carry over what was measured to the counters; the processes have this state now."""
        self._group.holds = state
        counters, measured = self._counters, state.measured
        counters.update_epoch = state.decided / self.samples
        counters.block_updates = int(state.applied.sum())
        counters.elapsed_time = state.elapsed
        counters.read_delay_mean = measured.mean("read")
        counters.read_delay_max = measured.largest("read")
        counters.update_delay_mean = measured.mean("update")
        counters.update_delay_max = measured.largest("update")
        counters.tau_1, counters.tau_2 = measured.largest("tau_1"), measured.largest("tau_2")
        new = self._group.newly_sent(reports)
        self.traffic = self.traffic.plus(new)
        counters.socket_bytes += new.socket_bytes
