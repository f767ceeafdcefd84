"""FedAdagrad: federated averaging whose server divides steps by sums of squares (AdaGrad)."""

from typing import Any, ClassVar

from pydantic import Field

from fedatlas.algorithms._adaptive_server import AdaptiveServer


class FedAdagrad(AdaptiveServer):
    """FedAdagrad (Reddi et al. 2021, arXiv:2003.00295, Algorithm 2).

    A round is FedAvg's; with the mean Δ of the clients' y − x the server steps, entry by entry,
    m ← β₁ m + (1 − β₁) Δ, v ← v + Δ²,
    x ← x + η m/(√v + τ), from m = 0 and v = τ².

    global_step_size: η. momentum: β₁, 0 by default, as in the
    paper's experiments. adaptivity: τ,
    in the units of Δ.
    """

    title: ClassVar[str] = "FedAdagrad"

    momentum: float = Field(default=0.0, ge=0, lt=1)

    def second_moment(self, v: Any, square: Any) -> Any:
        """v ← v + Δ²."""
        return v + square
