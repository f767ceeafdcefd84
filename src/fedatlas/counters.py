"""What one seed has spent so far. Problems and networks count; algorithms never do."""

from dataclasses import dataclass


@dataclass
class Counters:
    """Running totals since round 0."""

    gradient_evaluations: int = 0  # per-sample gradients
    iteration: int = 0  # sequential gradient steps; what clients do in parallel counts once
    bytes_down: int = 0  # server to clients
    bytes_up: int = 0  # clients to server
    messages: int = 0  # one per client and direction, whatever it carries
    full_participations: int = 0  # broadcasts that reached every client


@dataclass
class GraphCounters:
    """Running totals since round 0, of agents on a graph."""

    gradient_evaluations: int = 0  # per-sample gradients
    iteration: int = 0  # sequential gradient steps; what agents do in parallel counts once
    bytes_sent: float = 0.0  # over all edges; quantised numbers have fractions of a byte
    messages: int = 0  # one per edge and send
