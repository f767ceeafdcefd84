"""FedAdam: federated averaging whose server steps as Adam does."""

from typing import Any, ClassVar

from pydantic import Field

from fedatlas.algorithms._adaptive_server import AdaptiveServer


class FedAdam(AdaptiveServer):
    """FedAdam (Reddi et al. 2021, arXiv:2003.00295, Algorithm 2).

    A round is FedAvg's; with the mean Δ of the clients' y − x the server steps, entry by entry,
    m ← β₁ m + (1 − β₁) Δ, v ← β₂ v + (1 − β₂) Δ²,
    x ← x + η m/(√v + τ), from m = 0 and v = τ².

    global_step_size: η. momentum: β₁. second_momentum: β₂. adaptivity: τ,
    in the units of Δ.
    """

    title: ClassVar[str] = "FedAdam"

    second_momentum: float = Field(default=0.99, ge=0, lt=1)

    def second_moment(self, v: Any, square: Any) -> Any:
        """v ← β₂ v + (1 − β₂) Δ²."""
        return self.second_momentum * v + (1 - self.second_momentum) * square
