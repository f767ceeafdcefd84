"""Helpers of all readers: opening files, numbers in text, labels, and features block by block."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
from pydantic import AfterValidator, BeforeValidator

from fedatlas.errors import FedatlasError

if TYPE_CHECKING:
    from fedatlas.data.tables import Features

# Above this share of non-zeros CSR rows take more bytes (12 each) than dense ones (8 each).
DENSE_FROM = 0.5


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of the system into FedatlasErrors that name the file."""
    try:
        yield
    except OSError as error:
        raise FedatlasError(
            f"{error.filename or path}: cannot be read: {error.strerror or error}"
        ) from error


def text_lines(path: Path) -> list[str]:
    """The lines of UTF-8 text, with or without a mark at its start; FedatlasError if it is none."""
    try:
        with reading(path):
            return path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise FedatlasError(f"{path}: is not UTF-8 text: {error.reason}") from error


def _not_taken_for_another(raw: Any) -> Any:
    if isinstance(raw, bool) or raw is None:
        raise ValueError(
            "YAML reads yes, no, on, off, true and false as truth values, and ~, null or nothing "
            'as no value: quote the text as the file has it, such as "yes" or ""'
        )
    return raw


Raw = Annotated[str | int | float, BeforeValidator(_not_taken_for_another)]
"""A value of a raw file as a catalogue lists it: quoted, a text; bare, a number."""

Values = TypeVar("Values", tuple[Raw, ...], dict[Raw, float] | None)


def told_apart(values: Values) -> Values:
    """The listed values; ValueError if two of them mean the same one."""
    seen: dict[Raw, Raw] = {}
    for raw in values or ():
        for key in {raw, str(raw).strip()}:
            if key in seen:
                raise ValueError(f"{seen[key]!r} and {raw!r} stand for the same value; list one")
            seen[key] = raw
    return values


RawValues = Annotated[tuple[Raw, ...], AfterValidator(told_apart)]


class Listed:
    """Finds what the text of a field means; blanks around it do not count.

    A listed text is found by that text alone. A listed number is found by every text of it, unless
    that text is listed itself.
    """

    def __init__(self, meanings: Mapping[Raw, float], decimal: str = ".") -> None:
        self._texts = {str(raw).strip(): meaning for raw, meaning in meanings.items()}
        self._numbers = {raw: found for raw, found in meanings.items() if not isinstance(raw, str)}
        self._decimal = decimal

    def meaning(self, text: str) -> float | None:
        """The meaning of the text; None if it is not listed."""
        text = text.strip()
        if text in self._texts:
            return self._texts[text]
        number = plain_number(text, self._decimal)
        return None if number is None else self._numbers.get(number)


def as_listed(raw: Raw) -> str:
    """The value as a catalogue lists it: a text in quotes, a number without."""
    return json.dumps(raw, ensure_ascii=False)


def plain_number(text: str, decimal: str = ".") -> float | None:
    """The number that `text` holds; None for Python's own `1_000` and for other alphabets.

    decimal: the mark before the fraction.
    """
    if decimal != ".":
        text = text.replace(".", "_").replace(decimal, ".")
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


def mapped(raw: np.ndarray, labels: Mapping[Raw, float] | None) -> np.ndarray:
    """(n,) float64 values of numeric labels (n,); NaN where the map has none."""
    raw = raw.astype(np.float64)
    if labels is None:
        return raw
    distinct, inverse = np.unique(raw, return_inverse=True)
    return np.array([labels.get(float(x), np.nan) for x in distinct])[inverse]


def in_smaller_layout(features: Features) -> Features:
    """The features (n, d), dense where more than half of them are not zero, else CSR."""
    from scipy.sparse import csr_array  # loads for a tenth of a second

    dense = count_non_zeros(features) > DENSE_FROM * math.prod(features.shape)
    if isinstance(features, np.ndarray):
        return features if dense else csr_array(features)
    return features.toarray() if dense else features


def count_non_zeros(features: Features) -> int:
    """How many of the features are not 0."""
    return int(np.count_nonzero(features) if isinstance(features, np.ndarray) else features.nnz)


def joined(blocks: Iterable[Features]) -> Features:
    """All rows of blocks (n_i, d), in the layout of the first; memory holds all once, and a block.

    The system moves a large array that grows, rather than to copy it.
    """
    waiting = iter(blocks)
    first = next(waiting)
    if isinstance(first, np.ndarray):
        rows = first.copy()
        for block in waiting:
            _extend(rows, block if isinstance(block, np.ndarray) else block.toarray())
        return rows
    from scipy.sparse import csr_array

    parts = [first.indptr.astype(np.int64), first.indices.copy(), first.data.copy()]
    for block in map(csr_array, waiting):
        more = parts[0][-1] + block.indptr[1:], block.indices, block.data
        for part, own in zip(parts, more, strict=True):
            _extend(part, own)
    starts, indices, values = parts
    return csr_array((values, indices, starts), (len(starts) - 1, first.shape[1]))


def _extend(array: np.ndarray, more: np.ndarray) -> None:
    """Add rows to an array of which there is no view."""
    before = len(array)
    array.resize((before + len(more), *array.shape[1:]), refcheck=False)
    array[before:] = more
