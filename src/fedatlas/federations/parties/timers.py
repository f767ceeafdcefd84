"""Things that a party has to do at a later time."""

import heapq
import time
from collections.abc import Callable
from itertools import count
from typing import Any


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
