"""How a vertical method updates the blocks, for every sample that is drawn."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class UpdateRule:
    """w_ℓ ← w_ℓ − γ((ϑ − ϑ_ref) x_{i,ℓ} + mean_ℓ + ∇g(w_ℓ)), by one estimator for all methods.

    step_size: γ.
    reference: what ϑ_ref and mean are. `none`: both 0 (SGD). `snapshot`: ϑ of sample i at the last
        snapshot, and mean = 1/n Σ_j ϑ_j x_{j,ℓ} there (SVRG; its λ∇g terms at the snapshot cancel).
        `table`: ϑ of sample i when this party last used it, and the same mean over the party's
        table, which every update renews (SAGA).
    backward: whether ϑ goes to all parties; otherwise only the dominator updates its block.
    synchronous: whether the next samples are drawn only when every party has applied its updates.
    """

    step_size: float
    reference: Literal["none", "snapshot", "table"] = "none"
    backward: bool = True
    synchronous: bool = False
