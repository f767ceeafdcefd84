"""Hubs that talk to each other and to the clients of their silos. It carries and counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fedatlas.federations.counters import SequentialCounters

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

    bytes_down: int = 0  # hubs to clients
    bytes_up: int = 0  # clients to hubs
    bytes_sent: int = 0  # between hubs
    messages: int = 0  # one per sender, receiver and sending, whatever it carries
    hub_client_trips: int = 0
    hub_hub_trips: int = 0


class TieredNetwork:
    """Two tiers: N hubs, all connected, each with K_j clients that talk to their hub only.

    An array weighs its number of entries times its item size, a sample id 8 bytes. What clients or
    hubs send in parallel is one trip.
    """

    def __init__(self, clients: Sequence[int], counters: TieredCounters) -> None:
        """clients: K_j of each silo."""
        self._silos, self._clients, self._counters = len(clients), clients, counters

    def send_models(self, models: SiloModels, batch: SharedMinibatch) -> SiloModels:
        """From each hub its model, and the ids of the minibatch, to each of its clients."""
        count, ids = self._counters, batch.size * _BYTES_OF_ID
        sent = [
            clients * (weight + ids)
            for clients, weight in zip(self._clients, _bytes_by_silo(*models), strict=True)
        ]
        count.bytes_down += sum(sent)
        count.count_exchange(max(sent))
        count.messages += sum(self._clients)
        count.hub_client_trips += 1  # that `collect_models` ends
        return models

    def exchange(self, embeddings: PerSilo, batch: SharedMinibatch) -> PerSilo:
        """Clients' embeddings to their hubs, hubs' to all others, sums of others' to clients.

        embeddings: Φ_j, (B, E). Returns Φ_{−j} = Σ_{l≠j} Φ_l, of which every client gets the rows
        of its samples.
        """
        count, weight = self._counters, _bytes(embeddings)
        count.bytes_up += weight
        count.bytes_sent += (self._silos - 1) * weight
        count.bytes_down += weight
        count.messages += 2 * batch.holders + self._silos * (self._silos - 1)
        count.hub_client_trips += 1
        count.hub_hub_trips += self._silos > 1
        largest = max(_bytes_by_silo(embeddings))
        count.count_exchange(largest)  # clients to hubs
        if self._silos > 1:
            count.count_exchange(2 * (self._silos - 1) * largest)
        count.count_exchange(largest)  # hubs to clients
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

    def collect_models(self, models: SiloModels) -> SiloModels:
        """From clients to their hubs: models, or the parts that are sent, (senders, …)."""
        self._counters.bytes_up += _bytes(*models)
        self._counters.messages += sum(self._clients)
        self._counters.count_exchange(max(_bytes_by_silo(*models)))
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
