"""What a party notes of a round: when it read and updated its block, and how long things took."""

from typing import NamedTuple

import numpy as np

#: What takes time: from a request to its share, from ϑ to its update, from sender to receiver.
TIMED = ("share", "update", "message")


class RoundLog(NamedTuple):
    """One party's notes of one round; times in seconds of its clock.

    reads (reads, 3): dominator, iteration, updates that the block had had. applications (updates,
    4): dominator, iteration, time, updates since the read. decisions (decisions, 2): iteration,
    time. seconds: by `TIMED`.
    """

    reads: np.ndarray
    applications: np.ndarray
    decisions: np.ndarray
    seconds: dict[str, np.ndarray]


class Notes:
    """Notes of the round under way."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.reads: list[tuple[int, int, int]] = []
        self.applications: list[tuple[int, int, float, int]] = []
        self.decisions: list[tuple[int, float]] = []
        self.seconds: dict[str, list[float]] = {name: [] for name in TIMED}

    @property
    def log(self) -> RoundLog:
        """All of them."""
        return RoundLog(
            np.array(self.reads, dtype=np.int64).reshape(-1, 3),
            np.array(self.applications).reshape(-1, 4),
            np.array(self.decisions).reshape(-1, 2),
            {name: np.array(values) for name, values in self.seconds.items()},
        )
