"""What one seed has spent so far. Problems and networks count; algorithms never do."""

from dataclasses import dataclass


@dataclass
class SequentialCounters:
    """What nobody does while others do theirs: of these, declared networks make simulated time.

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


@dataclass
class GraphCounters(SequentialCounters):
    """Running totals since round 0, of agents on a graph."""

    gradient_evaluations: int = 0  # per-sample gradients
    iteration: int = 0  # sequential gradient steps; what agents do in parallel counts once
    bytes_sent: float = 0.0  # over all edges; quantised numbers have fractions of a byte
    messages: int = 0  # one per edge and send


@dataclass
class TieredCounters(SequentialCounters):
    """Running totals since round 0, of silos whose hubs talk to each other and to their clients.

    A trip is a message and its answer, of all that travel at once.
    """

    gradient_evaluations: int = 0  # per-sample gradients, of which each silo computes a block
    iteration: int = 0  # sequential gradient steps; what clients do in parallel counts once
    bytes_down: int = 0  # hubs to clients
    bytes_up: int = 0  # clients to hubs
    bytes_sent: int = 0  # between hubs
    messages: int = 0  # one per sender, receiver and sending, whatever it carries
    hub_client_trips: int = 0
    hub_hub_trips: int = 0
