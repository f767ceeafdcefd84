"""The table of measurements of the best constant predictor."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedatlas.evaluation.tables import parse_rows, row_parser


class ConstantRow(NamedTuple):
    """The best constant predictor's value of a run's measurement; see `studies.constants`.

    seed: whose rows are so shared out; None of all.
    """

    run: str
    measurement: str
    value: float
    seed: int | None = None


class Constants:
    """Values of the best constant predictor, by run, measurement and seed."""

    def __init__(self, rows: Iterable[ConstantRow]) -> None:
        self._values: dict[tuple[str, str], dict[int | None, float]] = {}
        for row in rows:
            self._values.setdefault((row.run, row.measurement), {})[row.seed] = row.value

    def of(self, run: str, measurement: str, seeds: Iterable[int]) -> np.ndarray | None:
        """(seeds,) what it has; of other seeds than the table's, the median. None if unknown."""
        known = self._values.get((run, measurement))
        if known is None:
            return None
        typical = float(np.median([*known.values()]))
        return np.array([known.get(seed, typical) for seed in seeds])


def read_constants(path: Path) -> Constants:
    """The table back; FedatlasError names a file with other columns or contents."""
    return Constants(parse_rows(path, ConstantRow._fields, row_parser(ConstantRow)))
