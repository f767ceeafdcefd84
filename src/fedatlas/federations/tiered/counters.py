"""What one seed of silos and hubs has spent so far."""

from dataclasses import dataclass

from fedatlas.federations.counters import SequentialCounters


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
