"""Agents on graphs on a declared network: they wait for their neighbours, and links may fail.

docs/adding/clocks.md states the model. All of it is our choice, as papers state their own networks
rarely.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fedatlas.arithmetic.randomness import Draws
from fedatlas.federations.decentralised.graph import GraphNetwork, Links, TimedAgents
from fedatlas.federations.times import LINKS, NANOSECONDS, ClientTimes
from fedatlas.schema.network_model import StarNetworkModel


class TimedGraphNetwork(GraphNetwork):
    """Graphs whose agents take time; without trackers links may fail."""

    def __init__(
        self,
        states: np.ndarray,
        trackers: np.ndarray | None,
        array: Any,
        draws: Draws,
        counters: TimedAgents,
        model: StarNetworkModel,
        seed: int,
    ) -> None:
        """seed: of the run, all of whose methods see equal times and equal failures."""
        self.draws = draws
        waits = states > 0 if trackers is None else (states > 0) | (trackers > 0)
        self.states = TimedLinks(states, array, draws, counters, model, seed, waits)
        self.trackers = None
        if trackers is not None:
            self.trackers = _LinksBeside(trackers, array, draws, counters, takes_time=False)


class _LinksBeside(Links):
    """Rows that travel together with the messages of another graph."""

    _counters: TimedAgents

    def send(self, values: Any, *, bits: Any = None) -> Any:
        row, count = self._bytes_of_row(values, bits), self._counters
        row = np.broadcast_to(row, len(values))
        carried = self._linked.sum(0) * row + self._linked @ row
        count._beside = (np.asarray(count._beside or 0.0) + carried).tolist()
        return super().send(values, bits=bits)


class TimedLinks(Links):
    """A graph whose weights are, after each exchange, those of the links that did not fail in it.

    Both directions of a link fail together, so that symmetric weights stay symmetric.
    """

    _counters: TimedAgents

    def __init__(
        self,
        weights: np.ndarray,
        array: Any,
        draws: Draws,
        counters: TimedAgents,
        model: StarNetworkModel,
        seed: int,
        waits: np.ndarray,
    ) -> None:
        """waits: (n, n), whether agent i waits for what agent j sends."""
        super().__init__(weights, array, draws, counters)
        agents = len(weights)
        self._declared, self._whole, self._waits = weights, True, waits
        self._times = ClientTimes(model, agents, seed)
        self._pairs = np.nonzero(np.triu(self._linked | self._linked.T))
        always_there = model.model_copy(update={"availability": 1.0})
        self._fates = ClientTimes(always_there, len(self._pairs[0]), seed, LINKS)

    def send(self, values: Any, *, bits: Any = None) -> Any:
        """What receivers get of each agent's row, (n, d): of those whose link did not fail.

        Agents that are away send nothing, and nobody waits for them.
        """
        count, times = self._counters, self._times
        number = count.sequential_messages
        row = np.broadcast_to(self._bytes_of_row(values, bits), len(values))
        going = self._linked & (there := self._there(number))
        carried = going.sum(0) * row + going @ row
        self._count(float((going * row).sum()), int(going.sum()), float(carried.max()))
        links = NANOSECONDS * times.seconds(carried + (count._beside or 0.0), down=False)
        begun = np.zeros(len(row)) + (count._times or 0.0)
        work = times.pace(number) * (count._gradients or 0.0)
        takes = work + times.round_trip / 2 + np.maximum(links, links[:, None])
        missing = going & (self._lost(number) | (takes > times.deadline))
        there_by = np.where(
            missing, np.maximum(begun, begun[:, None]) + times.deadline, begun + takes
        )
        awaited = np.where(self._waits & there, there_by, 0.0).max(axis=1)
        ends = np.maximum(begun + work + links, awaited)
        count._times, count._gradients, count._beside = np.rint(ends).tolist(), [], []
        count.simulated_time = max(count._times) / NANOSECONDS
        failed = going & (missing | missing.T)
        count.wasted_bytes += float((failed * row).sum())
        self._take(going & ~failed)
        return values

    def _there(self, number: int) -> np.ndarray:
        """Whether both agents of a link can be reached when an exchange begins, (n, n)."""
        there = np.zeros(len(self._declared), bool)
        now = float(np.rint(NANOSECONDS * self._counters.simulated_time))
        there[self._times.present(now, self._times.chance(number))] = True
        return there & there[:, None]

    def _lost(self, number: int) -> np.ndarray:
        """Whether chance lets a link fail in an exchange, (n, n)."""
        pairs = np.arange(len(self._pairs[0]))
        lost = np.zeros(self._declared.shape, bool)
        lost[self._pairs] = self._fates.lost(pairs, np.full(len(pairs), number))
        return lost | lost.T

    def _take(self, working: np.ndarray) -> None:
        """Weigh by the links that work; what an agent gave the others it gives itself."""
        whole = bool((working == self._linked).all())
        if not (whole and self._whole):
            self._weigh(np.where(working, self._declared, 0.0))
        self._whole = whole
