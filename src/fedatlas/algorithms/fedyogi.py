"""FedYogi: federated averaging whose server steps as Yogi does."""

from typing import Any, ClassVar

from pydantic import Field

from fedatlas.algorithms._adaptive_server import AdaptiveServer


class FedYogi(AdaptiveServer):
    """FedYogi (Reddi et al. 2021, arXiv:2003.00295, Algorithm 2).

    A round is FedAvg's; with the mean Δ of the clients' y − x the server steps, entry by entry,
    m ← β₁ m + (1 − β₁) Δ, v ← v − (1 − β₂) Δ² sign(v − Δ²),
    x ← x + η m/(√v + τ), from m = 0 and v = τ².

    global_step_size: η. momentum: β₁. second_momentum: β₂. adaptivity: τ,
    in the units of Δ.
    """

    title: ClassVar[str] = "FedYogi"

    second_momentum: float = Field(default=0.99, ge=0, lt=1)

    def second_moment(self, v: Any, square: Any) -> Any:
        """v ← v − (1 − β₂) Δ² sign(v − Δ²)."""
        sign = (v > square) * 1.0 - (v < square) * 1.0
        return v - (1 - self.second_momentum) * square * sign
