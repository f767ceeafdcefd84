"""What a run's privacy depends on besides its method's hyper-parameters."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Exposure:
    """The circumstances in which agents release what they computed from their samples.

    samples: D, of the agent that has the fewest. dimension: d, of a model.
    states, trackers: (n, n) weights R and C, [i, j] > 0 where i receives from j; trackers is None
        where there is no second graph.
    """

    samples: int
    dimension: int
    states: np.ndarray
    trackers: np.ndarray | None = None

    @property
    def received_state_weights(self) -> np.ndarray:
        """(n,) Σ_j R_ij."""
        return np.asarray(self.states.sum(axis=1))

    @property
    def received_tracker_weights(self) -> np.ndarray:
        """(n,) Σ_j C_ij."""
        assert self.trackers is not None
        return np.asarray(self.trackers.sum(axis=1))
