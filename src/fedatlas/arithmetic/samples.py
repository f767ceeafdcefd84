"""Labelled rows in memory, and by how much one of them may move a gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from scipy import sparse


#: Types of stored tensors; all other features are float64.
TENSOR_DTYPES = (np.dtype(np.uint8), np.dtype(np.float32))


@dataclass(frozen=True)
class Samples:
    """Labelled rows.

    sample_id: (n,) int64, the row's position in the prepared split, from 0.
    label: (n,) float64: ±1, a class from 0, or any real number, by the task.
    features: (n, d) float64, a dense array or a CSR matrix with sorted indices; or tensors of one
        shape each, flattened: uint8, the pixels of images, channels first, or float32.
    kept: by name, (n,) texts or whole numbers that are no features, such as who wrote a row. Only
        readers of raw data give them.
    """

    sample_id: np.ndarray
    label: np.ndarray
    features: np.ndarray | sparse.csr_array
    kept: Mapping[str, Sequence[str | int]] = field(default_factory=dict)

    @classmethod
    def numbered(
        cls,
        label: np.ndarray,
        features: np.ndarray | sparse.csr_array,
        kept: Mapping[str, Sequence[str | int]] | None = None,
    ) -> Samples:
        """All rows of a split, with their positions as sample ids."""
        return cls(np.arange(len(label), dtype=np.int64), label, features, kept or {})

    @property
    def is_sparse(self) -> bool:
        """Whether the features are stored as CSR."""
        return not isinstance(self.features, np.ndarray)

    @property
    def layout(self) -> str:
        """How the features are stored: `sparse`, `tensor` (of uint8 or float32) or `dense`."""
        if self.is_sparse:
            return "sparse"
        return "tensor" if self.features.dtype in TENSOR_DTYPES else "dense"

    def __len__(self) -> int:
        return len(self.label)


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

    @property
    def order(self) -> int:
        """1 or 2."""
        return 1 if self.norm == "l1" else 2
