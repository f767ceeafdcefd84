"""Times that declared networks draw: of parties' work, of clients' answers, of nodes that all wait.

Times are whole nanoseconds as float64, so that those that ought to be equal are equal.
"""

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.parts import Load
from fedatlas.schema.network_model import (
    ComputeTimes,
    LognormalTimes,
    MeasuredTimes,
    ShiftedExponentialTimes,
    StarNetworkModel,
)

NANOSECONDS = 1e9  # of a second
#: A formula of times is this many quantiles: the largest of a normal one is 4 deviations away.
QUANTILES = 2**14
# Of a seed's random numbers: those of trips of clients; of links between agents.
_TRIPS, LINKS = 4, 5
# Trips whose numbers are kept: bursts look back.
_KEPT = 256
# What the numbers in [0, 1) of all clients' trips of one number, (4, N), decide.
_WORK, _ANEW, _LOST, _PRESENT = range(4)


def factors_of(times: ComputeTimes) -> np.ndarray:
    """(times,) equally likely times of mean 1: a logarithm and more for each would cost more than
    all that is simulated with it.
    """
    middles = (np.arange(QUANTILES) + 0.5) / QUANTILES
    if isinstance(times, MeasuredTimes):
        factors = np.array(times.times)
    elif isinstance(times, LognormalTimes):
        from scipy import special  # not in every step: it loads for a tenth of a second

        factors = np.exp(times.spread * special.ndtri(middles))
    elif isinstance(times, ShiftedExponentialTimes):
        factors = times.fixed - (1 - times.fixed) * np.log1p(-middles)
    else:
        factors = np.ones(1)
    return factors / factors.mean()


class ClientTimes:
    """How long clients take to answer, whether answers arrive and who is there.

    A trip is a model on its way to a client and the answer on its way back. All is a function of
    the seed, the client, the number of its trip and the time: nothing here changes. Times are
    nanoseconds.

    deadline: how long the server waits for an answer; inf for ever. round_trip: what messages
    without bytes take, there and back. by_chance: whether a probability decides who is there.
    """

    def __init__(
        self, model: StarNetworkModel, clients: int, seed: int, stream: int = _TRIPS
    ) -> None:
        """seed: of the run, all of whose methods see equal times. stream: of its random numbers.

        FedatlasError if a trace of availability names none of the clients.
        """
        self._model, self._everyone = model, np.arange(clients)
        self._factors = factors_of(model.compute)
        normal = RoundRandom((seed, 3)).generator.standard_normal(clients)
        speeds = np.exp(model.spread * normal - model.spread**2 / 2)
        self._work = NANOSECONDS * model.seconds_per_gradient * speeds
        random = RoundRandom((seed, stream))
        self._drawn = lru_cache(_KEPT)(lambda trip: random.at(trip).uniform(4, clients))
        self.deadline = np.inf if model.deadline is None else NANOSECONDS * model.deadline
        self.round_trip = 2 * NANOSECONDS * model.latency
        self.by_chance = not model.spells and model.availability != 1
        spells = np.array([spell for spell in model.spells if spell[0] < clients])
        if model.spells and not len(spells):
            raise FedatlasError(f"network: availability: names none of {clients} clients")
        self._spells = spells.reshape(-1, 3).T
        self._period = NANOSECONDS * max((spell[2] for spell in model.spells), default=1.0)

    def durations(self, clients: np.ndarray, trips: np.ndarray, load: Load) -> np.ndarray:
        """From when models leave the server until answers are there, (S,).

        trips: (S,) the number of each client's trip, from 0.
        """
        links = self.seconds(load.down, down=True) + self.seconds(load.up, down=False)
        work = load.gradients[clients] * self._work[clients] * self._factor(clients, trips)
        took: np.ndarray = np.rint(load.trips * self.round_trip + NANOSECONDS * links + work)
        return took

    def arrive(
        self, clients: np.ndarray, trips: np.ndarray, begins: float, durations: np.ndarray
    ) -> np.ndarray:
        """Whether answers arrive within the deadline, from clients that are there so long, (S,)."""
        in_time = ~self.lost(clients, trips) & (durations <= self.deadline)
        if self._model.spells:
            in_time &= begins + durations <= self._leave(begins)[clients]
        return in_time

    def lost(self, clients: np.ndarray, trips: np.ndarray) -> np.ndarray:
        """Whether answers are lost on their way, (S,).

        An answer fares as the client's last one did, or else, and the first, as chance decides
        anew. This is Gilbert's chain; how far back chance decided is looked up.
        """
        loss, found = self._model.loss, np.zeros(len(clients), bool)
        if loss is None:
            return found
        places, trips = np.arange(len(clients)), trips.copy()
        while len(places):
            own, at = clients[places], trips[places]
            found[places] = self._numbers(_LOST, own, at) < loss.probability
            anew = (self._numbers(_ANEW, own, at) >= loss.memory) | (at == 0)
            trips[places] -= 1
            places = places[~anew]
        return found

    def exchange(self, number: int, gradients: float, messages: int, load: float) -> float:
        """Nanoseconds until all nodes have computed and carried what an exchange needs.

        number: of the exchange. gradients: of each node since the last one. messages: one after the
        other. load: seconds that the busiest link is busy.
        """
        links = messages * self._model.latency + load
        return float(np.rint(NANOSECONDS * links + gradients * self.pace(number).max()))

    def pace(self, number: int) -> np.ndarray:
        """Nanoseconds of a gradient before an exchange of this number, (N,)."""
        trips = np.full(len(self._everyone), number)
        pace: np.ndarray = self._work * self._factor(self._everyone, trips)
        return pace

    def seconds(self, carried: Any, *, down: bool) -> Any:
        """Seconds for which a link is busy with so many bytes."""
        model = self._model
        return carried / ((model.bandwidth_down if down else model.bandwidth_up) or np.inf)

    def opens(self, now: float) -> float:
        """When, from now on, somebody is there by a trace; now without one."""
        if not self._model.spells or len(self.present(now)):
            return now
        return float(now + ((NANOSECONDS * self._spells[1] - now) % self._period).min())

    def present(self, now: float, chance: np.ndarray | None = None) -> np.ndarray:
        """Clients that are there, ascending.

        chance: (N,) numbers in [0, 1) that decide it, where availability is a probability.
        """
        if self._model.spells:
            return np.flatnonzero(self._leave(now) > now)
        if not self.by_chance or chance is None:
            return self._everyone
        return np.flatnonzero(chance < self._model.availability)

    def chance(self, number: int) -> np.ndarray | None:
        """The (N,) numbers that decide who is there when the server chooses for a round."""
        return self._drawn(number)[_PRESENT] if self.by_chance else None

    def _leave(self, now: float) -> np.ndarray:
        """When clients leave that are there by the trace, (N,); −inf of others."""
        clients, begins, ends = self._spells
        phase = now % self._period
        leave = np.full(len(self._everyone), -np.inf)
        there = (NANOSECONDS * begins <= phase) & (phase < NANOSECONDS * ends)
        until = now - phase + NANOSECONDS * ends[there]
        np.maximum.at(leave, clients[there].astype(np.int64), until)
        return leave

    def _factor(self, clients: np.ndarray, trips: np.ndarray) -> np.ndarray:
        """Of these trips' work, about its average, (S,)."""
        chance = self._numbers(_WORK, clients, trips)
        return self._factors[(chance * len(self._factors)).astype(np.int64)]

    def _numbers(self, what: int, clients: np.ndarray, trips: np.ndarray) -> np.ndarray:
        """Numbers in [0, 1) of these clients' trips, (S,)."""
        if len(trips) and (trips == trips[0]).all():  # as of all clients of a round
            found: np.ndarray = self._drawn(int(trips[0]))[what, clients]
            return found
        pairs = zip(clients.tolist(), trips.tolist(), strict=True)
        return np.array([self._drawn(trip)[what, client] for client, trip in pairs], dtype=float)


class TimedExchanges:
    """A network of workers or silos, none of which goes on before an exchange has ended.

    An exchange takes a latency for each of its messages one after the other, the bytes of the
    busiest node over a bandwidth, and the gradients since the last one, of whom they take longest.
    """

    def __init__(
        self, network: Any, counters: Any, times: ClientTimes, down: Sequence[str], share: float
    ) -> None:
        """See `federations.context.timed`."""
        self._network, self._counters, self._times = network, counters, times
        self._down, self._share = down, share

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._network, name)
        return partial(self._timed, name, value) if callable(value) else value

    def _timed(self, name: str, call: Any, *given: Any, **options: Any) -> Any:
        count = self._counters
        messages, carried = count.sequential_messages, count.sequential_bytes
        answer = call(*given, **options)
        number = count.sequential_messages
        messages, carried = number - messages, self._share * (count.sequential_bytes - carried)
        if messages or carried:
            gradients = count.sequential_gradients - count._timed_gradients
            load = self._times.seconds(carried, down=name in self._down)
            took = self._times.exchange(number, gradients, messages, load)
            count._timed_gradients = count.sequential_gradients
            count.simulated_time = count.simulated_time + took / NANOSECONDS
        return answer
