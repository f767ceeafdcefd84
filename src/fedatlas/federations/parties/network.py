"""The network of parties that are processes, as methods see it: it counts and measures.

A method asks for the same as of `vertical.network.PartyNetwork`. Time is real: it passes from the
beginning of a round until the last update of it has been applied. Between rounds, while models are
measured and checkpoints written, the parties rest and the clock stands: a round ends with nothing
under way, which the simulated network does not need.

Counted is, by formulas, what the simulated network counts; and, at the sockets, what was handed to
them, with headers, requests for shares and framing.

Measured is how stale reads and updates were, and how long things took. Clocks of parties are
compared: on one machine they are one; across nodes they must be synchronised to better than a
message's time. What is kept is bounded, whatever the length of a run.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.federations.parties.group import PartyGroup
from fedatlas.federations.parties.messages import TIMED, BlockState, Report, RoundLog
from fedatlas.federations.vertical.problem import PartyProblem, ProcessCounters, UpdateRule
from fedatlas.schema.network_model import MeasuredTimes, NetworkModel, relative_times

_NO_SAMPLES = np.zeros(0, np.int64)


class Staleness(NamedTuple):
    """Delays of one round.

    read_delays (reads,): decided updates of a block that a read of it lacked, as the simulator
    counts. update_delays (updates,): updates of a block between a read and the update by its ϑ.
    tau_1 (dominated updates,), tau_2 (collaborative updates,): in global iterations as VFB² numbers
    them, "after read": one for every sum that a dominator finishes and one for every collaborative
    update that begins. tau_1: iterations from the first whose update the reads of a sum lacked to
    that sum, 0 if they lacked none; a block is taken to apply updates in the order of iterations.
    tau_2: iterations from a dominator's sum to a collaborative update by its ϑ. sum_delays
    (dominated updates,): read delays of all shares of a sum together.
    """

    read_delays: np.ndarray
    update_delays: np.ndarray
    tau_1: np.ndarray
    tau_2: np.ndarray
    sum_delays: np.ndarray


def staleness(logs: Sequence[RoundLog], before: Sequence[int], backward: bool) -> Staleness:
    """Compare the notes of all parties.

    before: updates that each block had had when the round began. backward: whether ϑ went to all.
    """
    dominators = np.repeat(range(len(logs)), [len(log.decisions) for log in logs])
    iterations, times = np.concatenate([_table(log.decisions, 2) for log in logs]).T
    all_applied = [_table(log.applications, 4) for log in logs]
    # (dominator, iteration) → place in `times`.
    places = {
        (int(dominator), int(iteration)): place
        for place, (dominator, iteration) in enumerate(zip(dominators, iterations, strict=True))
    }
    read_delays, of_sums = [], np.zeros(len(times), np.int64)
    first_lacked = times.copy()
    collaborative = []
    for party, (log, applications) in enumerate(zip(logs, all_applied, strict=True)):
        own = dominators == party
        meant = np.sort(times if backward else times[own])
        found = np.array([places[int(a), int(b)] for a, b, _ in log.reads], dtype=np.int64)
        had = np.array([read[2] for read in log.reads], dtype=np.int64) - before[party]
        read_delays.append(np.searchsorted(meant, times[found]) - had)
        np.add.at(of_sums, found, read_delays[-1])
        applied = np.array([places[int(a), int(b)] for a, b in applications[:, :2]], np.int64)
        by_others = dominators[applied] != party
        collaborative.append((times[applied[by_others]], applications[by_others, 2]))
        # Iterations at this block so far: own sums, and others' updates when they begin.
        numbered = np.sort(np.concatenate([times[own], applications[by_others, 2]]))
        lacking = np.searchsorted(numbered, times[found]) > had
        np.minimum.at(first_lacked, found[lacking], numbered[had[lacking]])
    summed, begun = (np.concatenate(parts) for parts in zip(*collaborative, strict=True))
    numbered = np.sort(np.concatenate([times, begun]))
    return Staleness(
        np.concatenate(read_delays),
        np.concatenate(all_applied)[:, 3].astype(np.int64),
        np.searchsorted(numbered, times) - np.searchsorted(numbered, first_lacked),
        np.searchsorted(numbered, begun) - np.searchsorted(numbered, summed),
        of_sums,
    )


def _table(rows: Sequence[tuple[float, ...]], columns: int) -> np.ndarray:
    return np.array(rows, dtype=np.float64).reshape(-1, columns)


KEPT = 256  # times of one kind and party that are kept
LONGEST = 256  # delays from here on are counted as one
DELAYS = ("read", "update", "tau_1", "tau_2", "sum")


class Measured(NamedTuple):
    """Measurements of all rounds so far; named arrays, as checkpoints keep them.

    seconds (kinds, q, KEPT): times by `TIMED` and party, every party's drawn evenly from all that
    it noted, NaN where there are fewer; noted (kinds, q): how many there were. delays (5, LONGEST):
    how often each delay of `DELAYS` came; most (5,): the longest; total (5,): their sums.
    """

    seconds: np.ndarray
    noted: np.ndarray
    delays: np.ndarray
    most: np.ndarray
    total: np.ndarray

    @classmethod
    def nothing(cls, parties: int) -> Self:
        """Before the first round."""
        kinds = len(TIMED)
        return cls(
            np.full((kinds, parties, KEPT), np.nan),
            np.zeros((kinds, parties), np.int64),
            np.zeros((len(DELAYS), LONGEST), np.int64),
            np.zeros(len(DELAYS), np.int64),
            np.zeros(len(DELAYS), np.int64),
        )

    def mean(self, delay: str) -> float:
        """The mean of a delay so far; 0 before the first."""
        place = DELAYS.index(delay)
        return float(self.total[place] / max(self.delays[place].sum(), 1))

    def largest(self, delay: str) -> float:
        """The longest so far."""
        return float(self.most[DELAYS.index(delay)])

    def with_round(self, logs: Sequence[RoundLog], stale: Staleness) -> Self:
        """Return it with the notes of one more round."""
        new = type(self)(*(array.copy() for array in self))
        for kind, name in enumerate(TIMED):
            for party, log in enumerate(logs):
                new._keep(kind, party, np.array(log.seconds[name]))
        for place, found in enumerate(stale):
            new.delays[place] += np.bincount(np.clip(found, 0, LONGEST - 1), minlength=LONGEST)
            new.most[place] = max(new.most[place], found.max(initial=0))
            new.total[place] += found.sum()
        return new

    def _keep(self, kind: int, party: int, times: np.ndarray) -> None:
        """Every time has the same chance to be kept (reservoir sampling; Vitter 1985)."""
        kept, seen = self.seconds[kind, party], self.noted[kind, party]
        fill = times[: max(KEPT - seen, 0)]
        kept[seen : seen + len(fill)] = fill
        rest = times[len(fill) :]
        # Which are kept decides nothing that a run computes: no seed of the run is needed.
        random = np.random.default_rng([kind, party, int(seen)])
        places = random.integers(0, seen + len(fill) + 1 + np.arange(len(rest)))
        chosen = places < KEPT
        kept[places[chosen]] = rest[chosen]
        self.noted[kind, party] += len(times)


def fitted_network(measured: Measured, widths: np.ndarray, threads: int | None) -> NetworkModel:
    """The network model that takes as long as what was measured, and varies as that did.

    widths: (q,) features of each party, per row if rows are sparse. A share and an update take one
    time in the model, so theirs are averaged; the last party is the straggler, as in the model.
    Means, since a run's time is a sum of them: medians would leave out what a busy machine adds.
    Single times are drawn from the measured ones, over the mean of their party and kind.
    Raises FedatlasError if too little was measured.
    """
    if len(widths) < 2 or not measured.noted[:2].sum(axis=0).all():
        raise FedatlasError("a network is fitted to two or more parties, all of which took part")
    shares, updates, messages = (measured.seconds[TIMED.index(name)] for name in TIMED)
    own = np.nanmean([_means(shares), _means(updates)], axis=0)
    groups = [kept.tolist() for kept in (*_kept(shares), *_kept(updates)) if len(kept)]
    per_feature = float(np.median(own[:-1] / widths[:-1]))
    return NetworkModel(
        seconds_per_feature=max(per_feature, 1e-9),
        compute=MeasuredTimes(kind="measured", times=relative_times(groups)),
        latency=max(float(np.nanmean(messages)), 1e-9),
        straggler=max(float(own[-1] / widths[-1]) / per_feature, 1.0),
        threads=threads,
    )


def _means(times: np.ndarray) -> np.ndarray:
    """The mean of every party, NaN without any."""
    return np.array([values.mean() if len(values) else np.nan for values in _kept(times)])


def _kept(times: np.ndarray) -> list[np.ndarray]:
    """The times of every party that were kept."""
    return [values[np.isfinite(values)] for values in times]


class ProcessState(NamedTuple):
    """The parties between two rounds; never changed in place.

    x, mean: (d,) all blocks side by side. reference: (q, n), or (q, 0) without any. applied: (q,)
    updates of each block. dominated_updates: how many were decided. elapsed: seconds of rounds.
    """

    x: np.ndarray
    mean: np.ndarray
    reference: np.ndarray
    applied: np.ndarray
    dominated_updates: int
    elapsed: float
    measured: Measured


class ProcessNetwork:
    """q processes, the first m of them dominators, and what they have spent.

    looks_ahead: how many samples dominators know beyond the end of a round. traffic: what the
    parties counted where they sent, see `Report`.
    """

    looks_ahead = 0

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
        self.traffic: Counter[str] = Counter()

    def start(self, x0: np.ndarray) -> ProcessState:
        """Nothing under way, no reference."""
        q = self.parties
        return ProcessState(
            *(x0.copy(), np.zeros(len(x0)), np.zeros((q, 0)), np.zeros(q, np.int64)),
            *(0, 0.0, Measured.nothing(q)),
        )

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
            dominated_updates=state.dominated_updates + len(samples),
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
        counters.update_epoch = state.dominated_updates / self.samples
        counters.block_updates = int(state.applied.sum())
        counters.elapsed_time = state.elapsed
        counters.read_delay_mean = measured.mean("read")
        counters.read_delay_max = measured.largest("read")
        counters.update_delay_mean = measured.mean("update")
        counters.update_delay_max = measured.largest("update")
        counters.tau_1, counters.tau_2 = measured.largest("tau_1"), measured.largest("tau_2")
        for report in reports:
            self.traffic.update(report.traffic)
            counters.socket_bytes += report.traffic["socket_bytes"]
