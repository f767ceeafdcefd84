"""What one seed has spent so far. Problems and networks count; algorithms never do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedatlas.arithmetic.minibatches import Minibatches


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
class Counters(SequentialCounters):
    """Running totals since round 0, of clients around a server."""

    bytes_down: int = 0  # server to clients
    bytes_up: int = 0  # clients to server
    messages: int = 0  # one per client and direction, whatever it carries
    full_participations: int = 0  # broadcasts that reached every client
