"""What one seed has spent so far. Problems and networks count; algorithms never do."""

from dataclasses import dataclass


@dataclass
class SequentialCounters:
    """Critical-path totals, from which time on a declared network is computed.

    A node is a server, a client, an agent or a hub. What nodes do at the same time counts once, as
    the slowest of them does it.
    """

    sequential_messages: int = 0  # each takes a latency
    sequential_bytes: float = 0.0  # sent and received by the busiest node of every exchange
    sequential_gradients: float = 0.0  # per-sample gradients; of a block, its share of the model


@dataclass
class Counters(SequentialCounters):
    """Running totals since round 0, of clients around a server."""

    gradient_evaluations: int = 0  # per-sample gradients
    iteration: int = 0  # sequential gradient steps; what clients do in parallel counts once
    bytes_down: int = 0  # server to clients
    bytes_up: int = 0  # clients to server
    messages: int = 0  # one per client and direction, whatever it carries
    full_participations: int = 0  # broadcasts that reached every client
