"""What one seed on a graph has spent so far."""

from dataclasses import dataclass

from fedatlas.federations.counters import SequentialCounters


@dataclass
class GraphCounters(SequentialCounters):
    """Running totals since round 0, of agents on a graph."""

    gradient_evaluations: int = 0  # per-sample gradients
    iteration: int = 0  # sequential gradient steps; what agents do in parallel counts once
    bytes_sent: float = 0.0  # over all edges; quantised numbers have fractions of a byte
    messages: int = 0  # one per edge and send
