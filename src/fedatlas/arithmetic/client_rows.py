"""State that lives on the clients: a row of numbers for each of N clients."""

from typing import Any

import numpy as np

from fedatlas.arithmetic.chunked_rows import ChunkedRows


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
        return self.table[clients]

    def replace(self, clients: np.ndarray, rows: Any) -> "ClientRows":
        """The table with the rows of `clients` replaced; self must not be used afterwards."""
        table = self.table
        self._table = None
        if isinstance(rows, ChunkedRows):
            for chunk, part in rows.chunks():
                table[clients[chunk]] = part
        else:
            table[clients] = rows
        return ClientRows(table)
