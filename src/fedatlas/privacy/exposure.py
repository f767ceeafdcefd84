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
