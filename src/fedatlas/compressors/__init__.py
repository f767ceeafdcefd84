"""Compressors of messages: each has a file of its name, and a new file adds one.

Files lie here, or in the folder `compressors` of a project (see `fedatlas.extensions`). A file with
a name that begins with `_` is shared by others. A hyper-parameter of the type Compressor is a
mapping with the `kind`, such as `{kind: top_k, k: 10}`.

Functions at the end are for compressors: rows are numpy's arrays or torch's tensors.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from pydantic import SerializationInfo, model_serializer

from fedatlas.arithmetic.client_rows import ChunkedRows
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.compressors._law import check_law
from fedatlas.extensions import code_folders
from fedatlas.schema.models import KindModel

__path__ += code_folders("compressors")


class Compressor(KindModel):
    """A map C of rows (S, d) to rows of which fewer bits are sent: each by itself.

    Called, it gives C(rows) as receivers have it, and the bits of each row: one number, or (S,).
    A subclass defines `compress` and its law: `variance` where it is unbiased, else `contraction`.
    The first call checks the law, and raises a FedatlasError where it does not hold.
    Rows are numpy arrays or torch tensors of floating-point numbers.

    kind: the name of its file; docs/adding/compressors.md lists those of fedatlas and their keys.
    """

    package = "fedatlas.compressors"

    #: Whether E C(x) = x.
    unbiased: ClassVar[bool] = False

    @model_serializer
    def _with_all_keys(self, info: SerializationInfo) -> dict[str, Any]:
        """Also where a Compressor is declared, of which pydantic knows no key but `kind`."""
        stated = {
            "kind",
            *(self.model_fields_set if info.exclude_unset else type(self).model_fields),
        }
        return {key: getattr(self, key) for key in type(self).model_fields if key in stated}

    @abstractmethod
    def compress(self, rows: Any, random: RoundRandom) -> tuple[Any, Any]:
        """C(rows), (S, d), and the bits of a row: one number for all, or (S,)."""

    def variance(self, dimension: int) -> float:
        """ω of an unbiased one: E‖C(x) − x‖² ≤ ω‖x‖² for all x of so many entries."""
        raise TypeError(f"{type(self).__name__} is biased: it has a contraction, and no variance")

    def contraction(self, dimension: int) -> float:
        """δ in (0, 1]: E‖C(x) − x‖² ≤ (1 − δ)‖x‖²; of an unbiased one that of C/(1 + ω)."""
        return 1 / (1 + self.variance(dimension))

    def part_sent(self, dimension: int, itemsize: int) -> float:
        """The share of the row itself in a message; 1 where it varies, which is safe for any.

        itemsize: bytes of an entry. Times on a declared network follow from it.
        """
        return _part_sent(self, dimension, itemsize)

    def require_unbiased(self, method: str) -> None:
        """ValueError if it is biased, for validators of methods that need E C(x) = x."""
        if not self.unbiased:
            raise ValueError(
                f"compressor: {self.kind} is biased, but {method} needs an unbiased one, such as "
                "rand_k; EF21 takes it"
            )

    @cached_property
    def law_holds(self) -> bool:
        """True: else a FedatlasError says what was declared, and what was measured."""
        check_law(self)
        return True

    def __call__(self, rows: Any, random: RoundRandom) -> tuple[Any, float | np.ndarray]:
        """C(rows) and the bits of each row, a number or (S,) of numpy."""
        assert self.law_holds
        whole = rows[:] if isinstance(rows, ChunkedRows) else rows
        found, bits = self.compress(whole, random)
        return found, bits.cpu().numpy() if hasattr(bits, "cpu") else bits

    def contracted(self, rows: Any, random: RoundRandom) -> tuple[Any, float | np.ndarray]:
        """As a call, of an unbiased one C(rows)/(1 + ω): what methods that need a δ send."""
        found, bits = self(rows, random)
        return (self.contraction(rows.shape[1]) * found if self.unbiased else found), bits


@lru_cache
def _part_sent(compressor: Compressor, dimension: int, itemsize: int) -> float:
    row = np.ones((1, dimension), f"f{itemsize}")
    _, bits = compressor(row, RoundRandom(0))
    return float(bits / (8 * row.nbytes)) if np.ndim(bits) == 0 else 1.0


def functions_of(rows: Any) -> Any:
    """The library of these rows: functions of the same name that numpy and torch have."""
    if isinstance(rows, np.ndarray):
        return np
    import torch

    return torch


def bits_of_number(rows: Any) -> int:
    """Bits of an entry: 32 or 64."""
    return 8 * int(rows.itemsize)


def uniform(rows: Any, random: RoundRandom) -> Any:
    """Independent numbers in [0, 1), shaped as the rows and on their device.

    Of float64 numpy's, so that linear models see the same on every device; networks', of float32,
    are made on their device.
    """
    if isinstance(rows, np.ndarray):
        return random.uniform(*rows.shape)
    import torch

    if rows.dtype == torch.float64:
        return rows.new_tensor(random.uniform(*rows.shape))
    from fedatlas.arithmetic.torch_device import TorchDraws

    return TorchDraws().uniform(random, rows)
