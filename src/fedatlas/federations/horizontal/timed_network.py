"""Clients around a server on a declared network: time, late answers, and answers as they arrive.

docs/adding/clocks.md states the model. All of it is our choice, as papers state their own networks
rarely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.parts import Counters, Load, StarNetwork
from fedatlas.federations.times import NANOSECONDS, ClientTimes

_FREE = -1  # in place of a client


@dataclass
class LossyCounters(Counters):
    """Counters of runs that state a network."""

    simulated_time: float = 0.0  # s
    wasted_bytes: float = 0.0  # to and from clients whose answers came to nothing
    wasted_gradients: int = 0  # of these clients, per sample


@dataclass(frozen=True)
class InFlight:
    """What clients around a server that does not wait for all of them are at.

    A place is a client that was sent a model, or free. There are as many as clients that compute
    at a time, and one for each answer of a round but the last.

    clients (P,): who, −1 where the place is free. due (P,): nanoseconds at which the answer is
    there, or the server gives up. arrives (P,): whether it is an answer. versions (P,): the round
    in which the model was sent. trips (N,): how many models each client was sent. now: nanoseconds.
    """

    clients: np.ndarray
    due: np.ndarray
    arrives: np.ndarray
    versions: np.ndarray
    trips: np.ndarray
    now: float


class Started(NamedTuple):
    """Clients that are sent the server's model in a round, (S,), and their places."""

    clients: np.ndarray
    places: np.ndarray


class Arrived(NamedTuple):
    """Clients whose answers a round takes, (M,), in the order of their arrival, maybe twice.

    places: theirs. staleness: rounds since each was sent its model.
    """

    clients: np.ndarray
    places: np.ndarray
    staleness: np.ndarray


class TimedNetwork(StarNetwork):
    """A star whose clients take time, and may be away, late or lost."""

    _counters: LossyCounters

    def __init__(self, clients: int, counters: LossyCounters, times: ClientTimes) -> None:
        super().__init__(clients, counters)
        self._times = times
        self._asked: np.ndarray | None = None  # who may be sent something
        self._told = self._sent = (0.0, 0.0)  # bytes that each is sent, and sends

    # ------------------------------------------------------------- rounds that wait for clients

    def participants(self, random: RoundRandom, size: int, load: Load) -> np.ndarray:
        there = self._there(random.round)
        chosen = there[random.sample(len(there), min(size, len(there)))]
        return self.arriving(random, chosen, load)

    def arriving(self, random: RoundRandom, clients: np.ndarray, load: Load) -> np.ndarray:
        """The time that passes is that of the slowest of them; the deadline if one is missing."""
        times, there = self._times, self._there(random.round)
        begins, asked = self._begins, clients[np.isin(clients, there)]
        trips = np.full(len(asked), random.round)
        took = times.durations(asked, trips, load)
        arrive = times.arrive(asked, trips, begins, took)
        self._waste(load, asked[~arrive], down=True)
        missing = times.deadline if np.isfinite(times.deadline) else times.round_trip
        waited = took.max(initial=0.0) if arrive.all() and len(asked) else missing
        self._counters.simulated_time = (begins + float(waited)) / NANOSECONDS
        self._expect(load, asked[arrive])
        return asked[arrive]

    @property
    def _begins(self) -> float:
        now = np.rint(NANOSECONDS * self._counters.simulated_time)
        return self._times.opens(float(now))

    def _there(self, number: int) -> np.ndarray:
        """Who is there when a round begins."""
        return self._times.present(self._begins, self._times.chance(number))

    # -------------------------------------------------------------------- answers as they arrive

    def in_flight(self, concurrency: int, answers: int) -> InFlight:
        """Nobody on the way yet.

        concurrency: clients that compute at a time. answers: of a round.
        """
        places = concurrency + answers - 1
        return InFlight(
            np.full(places, _FREE),
            np.full(places, np.inf),
            np.zeros(places, bool),
            np.zeros(places, np.int64),
            np.zeros(self._clients, np.int64),
            0.0,
        )

    def next(
        self, flight: InFlight, random: RoundRandom, answers: int, load: Load
    ) -> tuple[InFlight, Started, Arrived]:
        """Let time pass until so many answers are there.

        Whenever fewer clients than can be compute, the server chooses others, uniformly from those
        that are there, and sends them its model. What arrives at the same time is taken by places,
        as many as the round still needs, before anybody is sent a model; the next round sends its
        own before it takes the rest. Places of answers are free again in the next round.
        """
        places = _Places(self._times, flight, random, load, answers)
        while len(places.arrived) < answers:
            places.start()
            places.pass_time()
        self._waste(load, np.array(places.given_up, np.int64), down=False)
        following, started, arrived = places.ended()
        self._counters.simulated_time = following.now / NANOSECONDS
        self._expect(load, started.clients)
        return following, started, arrived

    # --------------------------------------------------------------------------------- carriage

    def broadcast(self, *arrays: Any, to: Any, bits: Any = None) -> tuple[Any, ...]:
        if self._asked is None or not np.isin(to, self._asked).all():
            raise FedatlasError(
                "network.broadcast reaches clients that network.participants did not choose: where "
                "a run states a 'network' they may be away, late or lost (docs/adding/clocks.md)"
            )
        before = self._counters.bytes_down
        carried = super().broadcast(*arrays, to=to, bits=bits)
        self._check_told(0, (self._counters.bytes_down - before) / max(len(to), 1))
        return carried

    def gather(self, *arrays: Any, bits: Any = None) -> tuple[Any, ...]:
        before = self._counters.bytes_up
        carried = super().gather(*arrays, bits=bits)
        self._check_told(1, (self._counters.bytes_up - before) / max(len(arrays[0]), 1))
        return carried

    def _expect(self, load: Load, clients: np.ndarray) -> None:
        self._asked, self._told, self._sent = clients, (load.down, load.up), (0.0, 0.0)

    def _check_told(self, way: int, weight: float) -> None:
        """Times hold only if clients carry what the network was told."""
        down, up = self._sent
        self._sent = (down, up + weight) if way else (down + weight, up)
        told, sent = self._told[way], self._sent[way]
        if sent > told * (1 + 1e-6):
            call, key = ("gather", "up") if way else ("broadcast", "down")
            raise FedatlasError(
                f"network.{call} carries {sent:g} bytes a client in a round, but the network was "
                f"told of {told:g}: give problem.load the right '{key}', in models"
            )

    def _waste(self, load: Load, clients: np.ndarray, *, down: bool) -> None:
        """Count what clients did in vain. down: whether what they were sent is not counted yet."""
        count, number = self._counters, len(clients)
        gradients = int(load.gradients[clients].sum())
        count.gradient_evaluations += gradients
        count.wasted_gradients += gradients
        count.bytes_down += number * load.down * down
        count.bytes_up += number * load.up
        count.sequential_bytes += number * (load.down * down + load.up)
        count.messages += number * load.trips * (1 + down)
        count.wasted_bytes += number * (load.down + load.up)


class _Places:
    """The events of one round."""

    def __init__(
        self, times: ClientTimes, flight: InFlight, random: RoundRandom, load: Load, answers: int
    ) -> None:
        self._times, self._random, self._load, self._answers = times, random, load, answers
        self._clients, self._due = flight.clients.copy(), flight.due.copy()
        self._arrives, self._versions = flight.arrives.copy(), flight.versions.copy()
        self._trips, self._now = flight.trips.copy(), flight.now
        self._concurrency = len(flight.clients) - answers + 1
        self._started: list[tuple[int, int]] = []  # clients and places
        self.arrived: list[int] = []  # places
        self.given_up: list[int] = []  # clients

    def start(self) -> None:
        """Send models until as many clients compute as can, or nobody else is there."""
        free = np.flatnonzero(self._clients == _FREE)
        busy = len(self._clients) - len(free) - len(self.arrived)
        wanted = self._concurrency - busy
        if wanted == 0:
            return
        times, random = self._times, self._random
        if busy == 0:
            self._now = times.opens(self._now)
        chance = random.uniform(len(self._trips)) if times.by_chance else None
        idle = np.zeros(len(self._trips), bool)
        idle[times.present(self._now, chance)] = True
        computing = np.delete(self._clients, self.arrived)
        idle[computing[computing != _FREE]] = False
        others = np.flatnonzero(idle)
        wanted = min(wanted, len(others))
        clients, places = others[random.sample(len(others), wanted)], free[:wanted]
        trips = self._trips[clients]
        took = times.durations(clients, trips, self._load)
        arrive = times.arrive(clients, trips, self._now, took)
        self._clients[places], self._versions[places] = clients, random.round
        self._due[places] = self._now + np.where(arrive, took, times.deadline)
        self._arrives[places] = arrive
        self._trips[clients] += 1
        self._started += zip(clients.tolist(), places.tolist(), strict=True)

    def pass_time(self) -> None:
        """Go to the next time at which an answer is there or the server gives one up."""
        due = self._due.copy()
        due[self.arrived] = np.inf
        first = float(due.min())
        if first == np.inf:  # nobody is there: the server asks again
            self._now += self._times.round_trip
            return
        self._now = first
        for place in np.flatnonzero(due == first).tolist():
            if len(self.arrived) == self._answers:
                return  # the next round takes the rest
            if self._arrives[place]:
                self.arrived.append(place)
            else:
                self.given_up.append(int(self._clients[place]))
                self._clients[place], self._due[place] = _FREE, np.inf

    def ended(self) -> tuple[InFlight, Started, Arrived]:
        """What is on the way then, who was sent a model, and whose answers came."""
        started = np.array(self._started, np.int64).reshape(-1, 2).T
        arrived = np.array(self.arrived, np.int64)
        staleness = self._random.round - self._versions[arrived]
        came = Arrived(self._clients[arrived], arrived, staleness)
        clients, due = self._clients.copy(), self._due.copy()
        clients[arrived], due[arrived] = _FREE, np.inf
        flight = InFlight(clients, due, self._arrives, self._versions, self._trips, self._now)
        return flight, Started(*started), came
