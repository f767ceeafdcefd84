"""What one seed of parties has spent so far."""

from dataclasses import dataclass


@dataclass
class PartyCounters:
    """Running totals of one seed."""

    gradient_evaluations: int = 0  # derivatives ϑ
    iteration: int = 0  # dominated updates
    update_epoch: float = 0.0  # dominated updates per sample
    full_passes: int = 0
    block_updates: int = 0
    bytes_up: int = 0  # shares and masks towards dominators
    bytes_down: int = 0  # ϑ and indices from dominators
    messages: int = 0
    simulated_time: float = 0.0  # s
    read_delay_mean: float = 0.0
    read_delay_max: float = 0.0
    update_delay_mean: float = 0.0
    update_delay_max: float = 0.0
    mask_error: float = 0.0
