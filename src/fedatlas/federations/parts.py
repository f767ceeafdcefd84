"""Parts that federations share: arrays of engines, counters, and the star network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from fedatlas.arithmetic.minibatches import Minibatches, draw
from fedatlas.arithmetic.randomness import MinibatchSampler, RoundRandom
from fedatlas.schema.federation import Assembled

if TYPE_CHECKING:  # the workflow imports federations when it is parsed: keep libraries out of that
    from fedatlas.federations.shards import ClientSamples


class Predicted(NamedTuple):
    """Predictions of a model for samples, for measurements; as numpy.

    outputs: margins (n,) of a linear model, or (n, k) of a network. labels: (n,). right: (n,) bool,
    whether the model predicts the label's class; all False where labels are no classes. offsets:
    client i holds the rows offsets[i] to offsets[i + 1], (clients + 1,); of test rows and others
    that no client has, [0, n].
    """

    outputs: np.ndarray
    labels: np.ndarray
    right: np.ndarray
    offsets: np.ndarray


class FederatedEngine(ABC):
    """The arithmetic over all clients' samples, in numpy unless TorchArrays comes before it.

    samples: training samples of all clients together.
    """

    samples: int
    _counters: Any

    def array(self, values: np.ndarray) -> Any:
        """The values in the engine's own array type."""
        return values

    def numpy(self, array: Any) -> np.ndarray:
        """The values as numpy; waits for the device."""
        values: np.ndarray = array
        return values

    def repeated(self, array: Any, times: int) -> Any:
        """The array (…) repeated, (times, …), as a view."""
        return np.broadcast_to(array, (times, *array.shape))

    def counting(self, counters: Any) -> Self:
        """The same engine for one seed, whose counters these are."""
        engine = copy(self)
        engine._counters = counters
        return engine

    @abstractmethod
    def start(self, seed: int) -> Any:
        """Where a seed starts, shaped as the points that are measured."""

    @abstractmethod
    def measure(self, point: Any) -> dict[str, float]:
        """Every measurement, over all training and test samples; never counted."""


class ClientEngine(FederatedEngine):
    """Over clients, workers or agents that hold whole samples, ordered by client."""

    def __init__(self, data: ClientSamples, counters: Any, drawing: MinibatchSampler) -> None:
        """drawing: how minibatches are drawn, on the CPU, so that devices see the same samples."""
        self.clients, self.samples = data.clients, len(data.samples)
        self._counters, self._drawing, self._offsets = counters, drawing, data.offsets

    def _drawn(
        self, random: RoundRandom, clients: np.ndarray, size: int | None, steps: int = 1
    ) -> Minibatches:
        """Distinct samples, uniformly, or all of a client that has fewer; None: all of each."""
        return draw(self._drawing, random, self._offsets, clients, size, steps)

    def _count(self, batch: Minibatches, points: int = 1) -> None:
        """Count gradient steps, at this number of points per client."""
        self._counters.count_gradients(batch, points)
        self._counters.iteration += batch.steps


@dataclass
class SequentialCounters:
    """Critical-path totals, from which time on a declared network is computed.

    A node is a server, a client, an agent or a hub. What nodes do at the same time counts once, as
    the slowest of them does it.
    """

    sequential_messages: int = 0  # each takes a latency
    sequential_bytes: float = 0.0  # sent and received by the busiest node of every exchange
    sequential_gradients: float = 0.0  # per-sample gradients; of a block, its share of the model
    gradient_evaluations: int = 0  # per-sample gradients
    iteration: int = 0  # gradient steps; what nodes do in parallel counts once

    def count_gradients(self, batch: Minibatches, points: int = 1) -> None:
        """Count the gradients of a minibatch, taken at this number of points per client."""
        self.gradient_evaluations += points * batch.gradient_evaluations
        self.sequential_gradients += points * batch.sequential_gradients

    def count_exchange(self, busiest: float) -> None:
        """Count messages that travel at once; busiest: bytes that the busiest node carries."""
        self.sequential_messages += 1
        self.sequential_bytes += busiest


@dataclass
class TimedCounters:
    """What runs count besides whose nodes all wait for each other on a declared network."""

    simulated_time: float = 0.0  # s, by the end of the last exchange
    _timed_gradients: float = 0.0  # of sequential_gradients, those before it


@dataclass
class Counters(SequentialCounters):
    """Running totals since round 0, of clients around a server."""

    bytes_down: float = 0  # server to clients; compressed messages have fractions of a byte
    bytes_up: float = 0  # clients to server
    messages: int = 0  # one per client and direction, whatever it carries
    full_participations: int = 0  # broadcasts that reached every client


def bytes_together(bits: Any, messages: int) -> float:
    """Bytes of so many messages; bits: of each, one number or (messages,)."""
    return float(np.broadcast_to(bits, messages).sum()) / 8


class Load(NamedTuple):
    """The work of a client for one answer.

    gradients: per-sample gradients, (N,) by client. down, up: bytes that it is sent, and sends.
    trips: how many times it is sent something and answers.
    """

    gradients: np.ndarray
    down: float
    up: float
    trips: int = 1


class StarNetwork:
    """Carries arrays between the server and clients, counting messages and bytes.

    An array weighs its number of entries times its item size (8 bytes for float64), unless `bits`
    says what one client's message takes: one number, or one for each client. All arrays that travel
    to or from one client at once are one message.
    """

    def __init__(self, clients: int, counters: Counters) -> None:
        """`clients` is the size of the whole federation, N."""
        self._clients = clients
        self._counters = counters

    def participants(self, random: RoundRandom, size: int, load: Load) -> np.ndarray:
        """Choose clients for a round, uniformly: those whose answers will be there in time.

        size: how many are asked, of those that are there. Where a run states a `network`, the
        others cost what they did in vain; where it states none, all asked answer.
        load: what each does in the round.
        """
        return random.sample(self._clients, size)

    def arriving(self, random: RoundRandom, clients: np.ndarray, load: Load) -> np.ndarray:
        """Those of clients that the method chose itself, ascending, who answer in time."""
        return clients

    def broadcast(self, *arrays: Any, to: Any, bits: Any = None) -> tuple[Any, ...]:
        """Send every array from the server to each of the clients `to`; returns the arrays."""
        receivers = len(to)
        weight = receivers * sum(array.nbytes for array in arrays)
        if bits is not None:
            weight = bytes_together(bits, receivers)
        self._counters.bytes_down += weight
        self._counters.messages += receivers
        self._counters.full_participations += receivers == self._clients
        self._counters.count_exchange(weight)  # the server carries all clients' messages
        return arrays

    def gather(self, *arrays: Any, bits: Any = None) -> tuple[Any, ...]:
        """Send arrays (senders, …) to the server, a row from each sender; returns the arrays."""
        weight = sum(array.nbytes for array in arrays)
        if bits is not None:
            weight = bytes_together(bits, len(arrays[0]))
        self._counters.bytes_up += weight
        self._counters.messages += len(arrays[0])
        self._counters.count_exchange(weight)
        return arrays


def linear_model(spec: Any, weights: np.ndarray, **about: Any) -> Assembled:
    """Weights (d,) by prepared column, as torch's Linear; of the column of ones its bias."""
    if not spec.partition.intercept:
        return Assembled({"weight": weights[None]}, about)
    return Assembled({"weight": weights[None, :-1], "bias": weights[-1:]}, about)


def by_column(numbers: np.ndarray, shards: Sequence[Any]) -> np.ndarray:
    """Numbers (d,) of silos or parties, one after the other, in the order of prepared columns.

    shards: metadata of each.
    """
    found = np.empty_like(numbers)
    found[np.concatenate([shard["columns"] for shard in shards])] = numbers
    return found
