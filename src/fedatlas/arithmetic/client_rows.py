"""A row of numbers for each client: state that clients keep, and rows computed in chunks."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


def _combined(
    operation: Callable[[Any, Any], Any], reflected: bool = False
) -> Callable[[ChunkedRows, Any], ChunkedRows]:
    """A method of arithmetic; reflected: the rows stand on the right."""

    def combined(self: ChunkedRows, other: Any) -> ChunkedRows:
        left, right = (other, self) if reflected else (self, other)
        return ChunkedRows(
            self.shape,
            self._clients_at_once,
            lambda chunk: operation(rows_of(left, chunk), rows_of(right, chunk)),
            self._itemsize,
        )

    return combined


class ChunkedRows:
    """(S, d) numbers, a row for each client, of which only a chunk exists at any time.

    Used where an array of all rows would be too large. Arithmetic with numbers, with points (d,)
    and with rows (S, d) of either kind makes another one. `sum` and `mean` compute chunk by chunk,
    anew each time; for d > 1 they have the bits of numpy's on the whole array, which also adds row
    after row.
    """

    __array_ufunc__ = None  # numpy then leaves `array - rows` to __rsub__

    def __init__(
        self,
        shape: tuple[int, int],
        clients_at_once: int,
        compute: Callable[[slice], Any],
        itemsize: int,
    ) -> None:
        """compute: the rows of a chunk of clients, as an array of its own.

        itemsize: bytes of a number.
        """
        self.shape = shape
        self._itemsize = itemsize
        self._clients_at_once = clients_at_once
        self._compute = compute
        self._latest: tuple[slice, Any] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self._itemsize * self.shape[0] * self.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def chunks(self) -> Iterator[tuple[slice, Any]]:
        """Which clients, and their rows."""
        for start in range(0, self.shape[0], self._clients_at_once):
            chunk = slice(start, start + self._clients_at_once)
            yield chunk, self.rows(chunk)

    def rows(self, chunk: slice) -> Any:
        """The rows of a chunk; the latest are kept, as several terms may need them."""
        if self._latest is None or self._latest[0] != chunk:
            self._latest = chunk, self._compute(chunk)
        return self._latest[1]

    def by_chunks(self, function: Callable[[Any], Any]) -> ChunkedRows:
        """The function's rows, (S, d), which it finds of each chunk of rows by itself."""
        return ChunkedRows(
            self.shape,
            self._clients_at_once,
            lambda chunk: function(self.rows(chunk)),
            self._itemsize,
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All rows at once, for what cannot be done chunk by chunk, such as medians."""
        whole = np.concatenate([np.asarray(rows) for _, rows in self.chunks()])
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def __getitem__(self, clients: int | slice) -> Any:
        """The row of a client, (d,), or those of a slice, computed anew."""
        if isinstance(clients, slice):
            return self._compute(clients)
        client = range(self.shape[0])[clients]
        return self._compute(slice(client, client + 1))[0]

    def sum(self, axis: int) -> Any:
        """(d,), over clients."""
        if axis != 0:
            raise ValueError("rows in chunks are only summed over clients, axis 0")
        total = None
        for _, rows in self.chunks():
            if total is not None:
                rows = rows + 0.0  # a copy, of numpy and of torch
                rows[0] += total
            total = rows.sum(0)
        return total

    def mean(self, axis: int) -> Any:
        """(d,), over clients."""
        return self.sum(axis) / self.shape[0]

    def __neg__(self) -> ChunkedRows:
        return self * -1.0

    __add__ = _combined(operator.add)
    __radd__ = _combined(operator.add, reflected=True)
    __sub__ = _combined(operator.sub)
    __rsub__ = _combined(operator.sub, reflected=True)
    __mul__ = _combined(operator.mul)
    __rmul__ = _combined(operator.mul, reflected=True)
    __truediv__ = _combined(operator.truediv)
    __rtruediv__ = _combined(operator.truediv, reflected=True)


def rows_of(values: Any, chunk: slice) -> Any:
    """The chunk's rows of (S, d) values; numbers and points (d,) as they are."""
    if isinstance(values, ChunkedRows):
        return values.rows(chunk)
    return values[chunk] if getattr(values, "ndim", 0) == 2 else values


def clipped(rows: Any, bound: float) -> Any:
    """The rows (S, d), each scaled down to this l2 norm where it is longer."""
    if isinstance(rows, ChunkedRows):
        return rows.by_chunks(lambda part: clipped(part, bound))
    norms = (rows * rows).sum(1) ** 0.5
    return rows * (bound / norms.clip(bound))[:, None]


def lengthened(rows: Any, length: float) -> Any:
    """The rows (S, d), each scaled to this l2 norm; a row of zeros stays."""
    if isinstance(rows, ChunkedRows):
        return rows.by_chunks(lambda part: lengthened(part, length))
    norms = (rows * rows).sum(1) ** 0.5
    return rows * (length / (norms + (norms == 0)))[:, None]


class ClientRows:
    """An (N, d) table whose rows only their clients may read and replace.

    `replace` returns the new table in the memory of the old one, as copying N·d numbers would cost
    more than a round. The old table refuses further use, so states stay immutable in effect.
    """

    def __init__(self, table: Any) -> None:
        """Own `table` (N, d), a numpy array or a torch tensor."""
        self._table = table

    @property
    def table(self) -> Any:
        """The whole table, for checkpoints and tests; algorithms use rows of sampled clients."""
        if self._table is None:
            raise RuntimeError("this ClientRows was replaced; use the state that replaced it")
        return self._table

    def __getitem__(self, clients: np.ndarray) -> Any:
        """A copy of the rows of `clients`, (len(clients), d)."""
        table = self.table
        # `take` finds them in less than half of the time.
        return table.take(clients, 0) if isinstance(table, np.ndarray) else table[clients]

    def replace(self, clients: np.ndarray, rows: Any) -> ClientRows:
        """The table with the rows of `clients` replaced; self must not be used afterwards."""
        table = self.table
        self._table = None
        if isinstance(rows, ChunkedRows):
            for chunk, part in rows.chunks():
                table[clients[chunk]] = part
        else:
            table[clients] = rows
        return ClientRows(table)
