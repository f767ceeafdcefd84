"""Points, arrays and minibatches of silos."""

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

#: One array for each silo, of the engine's own type.
PerSilo: TypeAlias = tuple[Any, ...]


class SiloModels(NamedTuple):
    """The blocks of the model, one per silo j.

    weights: θ_j, (d_j,), or of every client (K, d_j). statistics: likewise the running means and
    variances of BatchNorm, (s_j,) or (K, s_j), without entries in networks that keep none.
    """

    weights: PerSilo
    statistics: PerSilo


@dataclass(frozen=True)
class SharedMinibatch:
    """ζ and where silos keep it. size: B. silos: of each what its engine needs."""

    size: int
    silos: tuple[Any, ...]

    @property
    def sizes(self) -> np.ndarray:
        """Samples |ζ_{k,j}| of every client, (N, K)."""
        return np.stack([silo.sizes for silo in self.silos])
