"""Silos by features, clients by samples: hubs that carry and count, and the oracle.

L(θ) = 1/M Σ_p ℓ(Σ_j h_j(θ_j; X_j^(p)); y^(p)) (TDCD eq. 2–3). Silo j holds the slices X_j of all
samples, each of its clients those of some samples. Embeddings Φ_j = h_j(θ_j; ·) are summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.parts import FederatedEngine, SequentialCounters, bytes_together

if TYPE_CHECKING:  # the workflow imports federations when it is parsed: keep libraries out of that
    from fedatlas.federations.shards import TieredSamples


_BYTES_OF_ID = 8


#: One array for each silo, of the engine's own type.
PerSilo: TypeAlias = tuple[Any, ...]


class SiloModels(NamedTuple):
    """The blocks of the model, one per silo j.

    weights: θ_j, (d_j,), or of every client (K_j, d_j). statistics: likewise the running means and
    variances of BatchNorm, (s_j,) or (K_j, s_j), without entries in networks that keep none.
    """

    weights: PerSilo
    statistics: PerSilo


@dataclass(frozen=True)
class SharedMinibatch:
    """ζ and where silos keep it. size: B. silos: of each what its engine needs."""

    size: int
    silos: tuple[Any, ...]

    @property
    def sizes(self) -> tuple[np.ndarray, ...]:
        """Samples |ζ_{k,j}| of every client of each silo, (K_j,)."""
        return tuple(silo.sizes for silo in self.silos)

    @property
    def holders(self) -> int:
        """Clients of all silos that hold a sample of it."""
        return sum(int(np.count_nonzero(sizes)) for sizes in self.sizes)


@dataclass
class TieredCounters(SequentialCounters):
    """Running totals since round 0, of silos whose hubs talk to each other and to their clients.

    A trip is a message and its answer; trips at the same time count once. Each silo computes a
    block of every per-sample gradient.
    """

    bytes_down: float = 0  # hubs to clients; compressed messages have fractions of a byte
    bytes_up: float = 0  # clients to hubs
    bytes_sent: float = 0  # between hubs
    messages: int = 0  # one per sender, receiver and sending, whatever it carries
    hub_client_trips: int = 0
    hub_hub_trips: int = 0


class TieredNetwork:
    """Two tiers: N hubs, all connected, each with K_j clients that talk to their hub only.

    An array weighs its number of entries times its item size, unless `bits`, one entry for each
    silo, says what a message takes; a sample id 8 bytes. What clients or hubs send in parallel is
    one trip.
    """

    def __init__(self, clients: Sequence[int], counters: TieredCounters) -> None:
        """clients: K_j of each silo."""
        self._silos, self._clients, self._counters = len(clients), clients, counters

    def send_models(
        self, models: SiloModels, batch: SharedMinibatch, bits: Sequence[Any] | None = None
    ) -> SiloModels:
        """From each hub its model, and the ids of the minibatch, to each of its clients.

        bits: of each hub's model, one number.
        """
        count, ids = self._counters, batch.size * _BYTES_OF_ID
        weights = _bytes_by_silo(*models) if bits is None else [own / 8 for own in bits]
        sent = [
            clients * (weight + ids) for clients, weight in zip(self._clients, weights, strict=True)
        ]
        count.bytes_down += sum(sent)
        count.count_exchange(max(sent))
        count.messages += sum(self._clients)
        count.hub_client_trips += 1  # that `collect_models` ends
        return models

    def exchange(
        self, embeddings: PerSilo, batch: SharedMinibatch, bits: Sequence[Any] | None = None
    ) -> PerSilo:
        """Clients' embeddings to their hubs, hubs' to all others, sums of others' to clients.

        embeddings: Φ_j, (B, E). Returns Φ_{−j} = Σ_{l≠j} Φ_l, of which every client gets the rows
        of its samples. bits: of a silo's rows, one number or (B,). Sums, on the way down, are sent
        whole: few compressors' sums are as short as what was added.
        """
        count, whole = self._counters, _bytes_by_silo(embeddings)
        sent: Sequence[float] = whole if bits is None else _bytes_of_rows(bits, embeddings)
        weight, largest = sum(sent), max(sent)
        count.bytes_down += sum(whole)
        count.bytes_up += weight
        count.bytes_sent += (self._silos - 1) * weight
        count.messages += 2 * batch.holders + self._silos * (self._silos - 1)
        count.hub_client_trips += 1
        count.hub_hub_trips += self._silos > 1
        count.count_exchange(largest)  # clients to hubs
        if self._silos > 1:
            count.count_exchange(2 * (self._silos - 1) * largest)
        count.count_exchange(max(whole))  # hubs to clients
        return sums_of_others(embeddings)

    def ask_label_holders(self, embeddings: PerSilo, batch: SharedMinibatch) -> None:
        """One local step's questions where only clients of silo 0 have labels (TDCD Remark 2).

        Clients of the other silos send the embeddings of their samples, by both hubs, to the client
        that has the label, and get the loss's slopes back, which weigh the same.
        """
        if self._silos == 1:
            return
        count, weight = self._counters, _bytes(embeddings[1:])
        count.bytes_up += 2 * weight
        count.bytes_sent += 2 * weight
        count.bytes_down += 2 * weight
        count.messages += 2 * (batch.holders + self._silos - 1)
        count.hub_client_trips += 2
        count.hub_hub_trips += 1
        largest = max(_bytes_by_silo(embeddings[1:]))
        # From client to hub, to the hub of silo 0, to its client; and back.
        for busiest in (largest, weight, weight, weight, weight, largest):
            count.count_exchange(busiest)

    def collect_models(self, models: SiloModels, bits: Sequence[Any] | None = None) -> SiloModels:
        """From clients to their hubs: models, or the parts that are sent, (senders, …).

        bits: of a client's message, one number or (K_j,).
        """
        sent = _bytes_by_silo(*models) if bits is None else _bytes_of_rows(bits, models.weights)
        self._counters.bytes_up += sum(sent)
        self._counters.messages += sum(self._clients)
        self._counters.count_exchange(max(sent))
        return models


def sums_of_others(embeddings: PerSilo) -> PerSilo:
    """Φ_{−j} = Σ_{l≠j} Φ_l; zeros where there is one silo."""
    if len(embeddings) == 1:
        return tuple(0 * own for own in embeddings)
    return tuple(
        reduce(add, (phi for other, phi in enumerate(embeddings) if other != silo))
        for silo in range(len(embeddings))
    )


def _bytes(*groups: PerSilo) -> int:
    return sum(_bytes_by_silo(*groups))


def _bytes_by_silo(*groups: PerSilo) -> list[int]:
    return [sum(array.nbytes for array in of_silo) for of_silo in zip(*groups, strict=True)]


def _bytes_of_rows(bits: Sequence[Any], arrays: PerSilo) -> list[float]:
    pairs = zip(bits, arrays, strict=True)
    return [bytes_together(own, len(array)) for own, array in pairs]


class TieredProblem(FederatedEngine):
    """The counting oracle; a subclass has the silos, which compute.

    silos: N. clients: K_j of each silo. samples: M.
    """

    _silos: tuple[Any, ...]  # each with `batch`, `embeddings` and `gradients`

    def __init__(self, data: TieredSamples) -> None:
        """Keep what the rows are shared out to."""
        self._counters = TieredCounters()
        self.silos = len(data.silos)
        self.clients = tuple(silo.clients for silo in data.silos)
        self.samples = len(data.place[0])

    def minibatch(self, random: RoundRandom, size: int) -> SharedMinibatch:
        """ζ: `size` samples, uniformly without replacement, the same in all silos."""
        if size > self.samples:
            raise FedatlasError(
                f"a minibatch of {size} samples cannot be drawn from {self.samples}; lower "
                "batch_size"
            )
        return self.minibatch_of(random.sample(self.samples, size))

    def minibatch_of(self, samples: np.ndarray) -> SharedMinibatch:
        """ζ of these samples, (B,), numbered by ascending sample id."""
        return SharedMinibatch(len(samples), tuple(silo.batch(samples) for silo in self._silos))

    def copies(self, models: SiloModels) -> SiloModels:
        """The silos' models, at each of their clients."""
        weights, statistics = (
            tuple(map(self.repeated, of_silos, self.clients)) for of_silos in models
        )
        return SiloModels(weights, statistics)

    def embeddings(self, models: SiloModels, batch: SharedMinibatch) -> PerSilo:
        """Φ_j of the minibatch, (B, E), by silos' models that their clients have copies of.

        (B,) for linear models. BatchNorm normalises each client's samples by their own statistics,
        as in local steps. Running statistics stay as they are: the first step updates them.
        """
        return tuple(
            silo.embeddings(weights, own)
            for silo, weights, own in zip(self._silos, models.weights, batch.silos, strict=True)
        )

    def partial_gradients(
        self, models: SiloModels, others: PerSilo, batch: SharedMinibatch
    ) -> tuple[PerSilo, PerSilo]:
        """g_{k,j} of every client, (K_j, d_j), and its running statistics afterwards, (K_j, s_j).

        models: of every client. others: Φ_{−j}, (B, E), as it was exchanged; a client's own Φ_j is
        computed anew (TDCD eq. 4). A client without samples in the minibatch has gradient 0 and
        keeps its statistics.
        """
        self._counters.gradient_evaluations += batch.size
        self._counters.iteration += 1
        parameters = [part.shape[-1] for part in models.weights]
        largest = [int(sizes.max()) for sizes in batch.sizes]
        slowest = max(d * own for d, own in zip(parameters, largest, strict=True))
        self._counters.sequential_gradients += slowest / sum(parameters)
        found = [
            silo.gradients(*own)
            for silo, *own in zip(self._silos, *models, others, batch.silos, strict=True)
        ]
        gradients, statistics = zip(*found, strict=True)
        return gradients, statistics
