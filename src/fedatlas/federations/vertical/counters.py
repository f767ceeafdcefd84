"""What parties have spent so far in one seed: simulated ones, and those that are processes.

Traces have the counters in the order of the fields, of which those of bases to the right come
first.
"""

from dataclasses import dataclass

_NUMBER_BYTES = 8


@dataclass
class PartyTotals:
    """Running totals of what the protocol needs; `vertical.network` says what is counted."""

    gradient_evaluations: int = 0  # derivatives ϑ
    iteration: int = 0  # dominated updates
    update_epoch: float = 0.0  # dominated updates per sample
    full_passes: int = 0
    block_updates: int = 0
    bytes_up: int = 0  # shares and masks towards dominators
    bytes_down: int = 0  # ϑ and indices from dominators
    messages: int = 0

    def count_updates(self, updates: int, collaborators: int, backward: bool) -> None:
        """Count dominated updates. backward: whether collaborators are sent ϑ and update, too."""
        self.iteration += updates
        self.gradient_evaluations += updates
        self.bytes_up += updates * 2 * collaborators * _NUMBER_BYTES
        self.messages += updates * 2 * collaborators
        if backward:
            self.bytes_down += updates * collaborators * 2 * _NUMBER_BYTES
            self.messages += updates * collaborators

    def count_sums(self, samples: int, collaborators: int) -> None:
        """Count the shares of all samples, with which a full pass begins."""
        self.bytes_up += samples * 2 * collaborators * _NUMBER_BYTES
        self.messages += 2 * collaborators

    def count_full_pass(self, samples: int, told: int) -> None:
        """Count ϑ of all samples, with which it ends. told: parties that are sent them."""
        self.full_passes += 1
        self.gradient_evaluations += samples
        self.bytes_down += told * samples * _NUMBER_BYTES
        self.messages += told


@dataclass
class _SimulatedTotals(PartyTotals):
    simulated_time: float = 0.0  # s


@dataclass
class _ProcessTotals(PartyTotals):
    socket_bytes: int = 0
    elapsed_time: float = 0.0  # s


@dataclass
class _Delays:
    read_delay_mean: float = 0.0
    read_delay_max: float = 0.0
    update_delay_mean: float = 0.0
    update_delay_max: float = 0.0
    tau_1: float = 0.0  # in global iterations, as the next
    tau_2: float = 0.0


@dataclass
class PartyCounters(_Delays, _SimulatedTotals):
    """Of a simulated network."""

    eta_1: float = 0.0  # in global iterations
    mask_error: float = 0.0


@dataclass
class ProcessCounters(_Delays, _ProcessTotals):
    """Of processes."""
