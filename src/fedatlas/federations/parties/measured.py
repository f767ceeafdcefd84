"""What rounds measured, summed up: bounded, whatever the length of a run."""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from fedatlas.federations.parties.log import TIMED, RoundLog
from fedatlas.federations.parties.staleness import Staleness

KEPT = 256  # times of one kind and party that are kept
LONGEST = 256  # delays from here on are counted as one
DELAYS = ("read", "update", "tau_1", "tau_2", "sum")


class Measured(NamedTuple):
    """Of all rounds so far; named arrays, as checkpoints keep them.

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
        """With the notes of one more round."""
        new = type(self)(*(array.copy() for array in self))
        for kind, name in enumerate(TIMED):
            for party, log in enumerate(logs):
                new._keep(kind, party, log.seconds[name])
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
