"""Per-sample gradient clipping, by which one sample's influence on a gradient is bounded."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Clipping:
    """Each sample's gradient g becomes g · min(1, bound / ‖g‖) before samples are averaged.

    At one point the gradients of any two samples then differ by at most C = 2 · bound in that norm,
    which Definition 3 of Chen, Wang and Zhang (private gradient tracking) assumes, and the mean
    over b samples by at most C / b if one of them is replaced.

    norm: in which the gradient over all parameters is measured. bound: above 0.
    """

    norm: Literal["l1", "l2"]
    bound: float
