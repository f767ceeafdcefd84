"""What the privacy of a method depends on besides its hyper-parameters."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class PrivacyContext:
    """The circumstances in which clients release what they computed from their samples.

    samples: D, of the client that has the fewest. dimension: d, of a model.
    states, trackers: (n, n) weights R and C, [i, j] > 0 where i receives from j; trackers is None
        where there is no second graph, states is empty around a server.
    """

    samples: int
    dimension: int
    states: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    trackers: np.ndarray | None = None
