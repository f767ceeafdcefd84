"""Columns of tables, as the catalogue declares them → dense features.

A table holds texts, or values that have a text; readers of one kind of file each find them.
"""

import logging
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Dataset, require_distinct
from fedatlas.data.reading import Listed, Raw, RawValues, as_listed, plain_number, told_apart
from fedatlas.errors import FedatlasError
from fedatlas.schema.models import Model

log = logging.getLogger(__name__)

# Texts of a column whose values are kept at a time.
REMEMBERED = 1 << 16

Converter = Callable[[str], float]
"""A field's text → its value, NaN where it is missing; ValueError tells what is wrong with it."""


def unreadable(where: str, name: str, text: str, problem: ValueError, key: str) -> FedatlasError:
    """The error of a field that has no value. key: of the table in the entry."""
    return FedatlasError(
        f"{where}: column '{name}': {text[:100]!r} {problem}; if it stands for a missing value, "
        f"list it as 'missing' under '{key}'"
    )


def lacking(where: str, name: str) -> FedatlasError:
    """The error of a row without a value, where such rows are not dropped."""
    return FedatlasError(
        f"{where}: column '{name}' lacks a value; 'drop_missing: true' in the catalogue leaves "
        "such rows out"
    )


class OneHot(Model):
    """A column of categories, and the columns of zeros and ones that it becomes.

    values: the categories. A quoted one is that text, a bare number every text of that number.
        Listed here and not taken from the file, so that every split and every copy is encoded
        alike. Two become one column, 1 for the second; more become a column each.
    otherwise: what becomes of a value that is not listed: an error, or, for counts without an
        end, the largest listed value below it (`values` are then ascending numbers).
    column: its name.
    """

    column: str
    values: Annotated[tuple[Raw, ...], Field(min_length=2), AfterValidator(told_apart)]
    otherwise: Literal["refuse", "next_below"] = "refuse"

    @model_validator(mode="after")
    def _counts_ascend(self) -> Self:
        if self.otherwise == "next_below":
            numbers = [value for value in self.values if not isinstance(value, str)]
            if list(self.values) != sorted(numbers):
                raise ValueError(
                    f"column '{self.column}': 'otherwise: next_below' needs ascending numbers, "
                    "without quotes"
                )
        return self

    @property
    def feature_names(self) -> list[str]:
        """One `column=value` per encoded column."""
        indicated = self.values[1:] if len(self.values) == 2 else self.values
        return [f"{self.column}={value}" for value in indicated]


class Columns(Model):
    """The columns of a table; each must be named once, in any order.

    label, numeric, one_hot: what they hold; features are the numeric columns, then the encoded
        ones, in the order given here. ignore: columns to leave out, which may share a name.
    keep: columns whose texts stay beside the features, such as a writer or a user, by which a
        partition may share rows out (`by_column`). Numeric and encoded columns may be kept, too.
    missing: what stands for a missing value, besides an empty field: quoted texts, or bare numbers.
        What a column's `values` or `labels` list is a value all the same.
    drop_missing: leave out rows that lack a value outside the ignored columns; otherwise such a
        row is an error.
    """

    label: str
    numeric: tuple[str, ...] = ()
    one_hot: tuple[OneHot, ...] = ()
    ignore: tuple[str, ...] = ()
    # Left out of entries without it, so that what they are known by stays as it is.
    keep: tuple[str, ...] = Field(default=(), exclude_if=lambda keep: not keep)
    missing: RawValues = ("NA",)
    drop_missing: bool = False

    @model_validator(mode="after")
    def _names_each_column_once(self) -> Self:
        require_distinct("column", self.names)
        require_distinct("column", self.keep)
        if ignored := sorted({*self.keep} & {self.label, *self.ignore}):
            raise ValueError(f"'keep': column '{ignored[0]}' is the label, or ignored")
        return self

    @property
    def names(self) -> list[str]:
        """The names of all columns, those that are only kept and those to be ignored last."""
        named = [self.label, *self.numeric, *(one_hot.column for one_hot in self.one_hot)]
        return [*named, *(name for name in self.keep if name not in named), *self.ignore]

    @property
    def feature_names(self) -> list[str]:
        """The names of the d features."""
        return [*self.numeric, *(name for one in self.one_hot for name in one.feature_names)]

    def problem_of(self, header: Sequence[str]) -> str:
        """Why a header does not name the declared columns, each once; empty if it does."""
        times = Counter(header)
        found = {
            "are missing": [name for name in self.names if name not in times],
            "are not in the catalogue": [name for name in times if name not in self.names],
            "occur twice": [name for name, n in times.items() if n > 1 and name not in self.ignore],
        }
        return "; ".join(
            f"columns {', '.join(map(repr, names))} {problem}"
            for problem, names in found.items()
            if names
        )


class TableDataset(Dataset):
    """A data set whose files are tables."""

    labels_are_text: ClassVar[bool] = True

    @property
    def columns(self) -> Columns:
        """The columns, under the key that is called as the format."""
        columns: Columns = getattr(self, self.format)
        return columns

    @model_validator(mode="after")
    def _is_of_the_table(self) -> Self:
        width = len(self.columns.feature_names)
        if width != self.features:
            raise ValueError(
                f"the columns under '{self.format}' make {width} features, 'features' says "
                f"{self.features}"
            )
        return self

    @property
    def feature_names(self) -> list[str]:
        return self.columns.feature_names

    @property
    def kept(self) -> tuple[str, ...]:
        return self.columns.keep

    @property
    def numeric_columns(self) -> list[int]:
        return list(range(len(self.columns.numeric)))


class Conversion:
    """Turns the fields of a table's rows into numbers, and those into samples.

    labels: raw label → value; None takes labels as they are. decimal: the mark before the fraction
    of a number. names: of the columns that are read, in the order of `values`: the label, the
    numeric, the encoded and the kept columns. of_column: the converter of each.
    """

    def __init__(
        self, columns: Columns, labels: Mapping[Raw, float] | None, decimal: str = "."
    ) -> None:
        self._columns, self._decimal = columns, decimal
        # By name of a kept column, the texts that its numbers stand for, as they are found.
        self._texts: dict[str, list[str]] = {name: [] for name in columns.keep}
        number = self._converter(
            f"is not a finite number, with {decimal!r} before its fraction",
            of_number=lambda number: number,
        )
        of_columns = [
            (columns.label, number if labels is None else self._one_of(labels, "labels")),
            *((name, number) for name in columns.numeric),
            *((one.column, self._encoded(one)) for one in columns.one_hot),
            *((name, self._numbered(texts)) for name, texts in self._texts.items()),
        ]
        self.names: tuple[str, ...]
        self.of_column: tuple[Converter, ...]
        self.names, self.of_column = zip(*of_columns, strict=True)

    def samples(self, values: np.ndarray, where: str) -> Samples:
        """Samples of rows of numbers, (n, columns), as converters made them.

        Returns (n, d) dense features in the order of `feature_names`, and the texts of `keep`;
        sample_id counts rows that are left. Raises FedatlasError, beginning with `where`, when no
        row is left.
        """
        columns = self._columns
        missing = np.isnan(values)
        lacking = missing.any(axis=1)
        if lacking.all():
            raise FedatlasError(
                f"{where}: {'every row lacks a value' if len(values) else 'holds no samples'}"
            )
        if columns.drop_missing:
            counts = zip(self.names, missing.sum(axis=0), strict=True)
            listed = ", ".join(f"'{name}' in {count}" for name, count in counts if count)
            log.warning(
                "%s: 'drop_missing: true' leaves out %d of %d rows, which lack a value%s",
                *(where, lacking.sum(), len(values), f": {listed}" if listed else ""),
            )
        ends = np.cumsum([1, len(columns.numeric), len(columns.one_hot)])
        label, numeric, encoded, kept = np.split(values[~lacking], ends, axis=1)
        # Of two categories the second has the one column.
        indicators = [
            np.eye(len(one.values))[positions.astype(np.intp), -len(one.feature_names) :]
            for positions, one in zip(encoded.T, columns.one_hot, strict=True)
        ]
        of_rows = {
            name: [known[code] for code in codes.astype(np.intp).tolist()]
            for (name, known), codes in zip(self._texts.items(), kept.T, strict=True)
        }
        return Samples.numbered(label[:, 0].copy(), np.hstack([numeric, *indicators]), of_rows)

    def _converter(
        self,
        problem: str,
        meanings: Mapping[Raw, float] | None = None,
        of_number: Callable[[float], float | None] = lambda number: None,
    ) -> Converter:
        """Finds what is listed, then what a finite number stands for, if anything."""
        missing = {"": math.nan, **dict.fromkeys(self._columns.missing, math.nan)}
        listed = Listed(missing | dict(meanings or {}), self._decimal)

        @lru_cache(REMEMBERED)
        def convert(text: str) -> float:
            found = listed.meaning(text)
            if found is None:
                number = plain_number(text, self._decimal)
                if number is not None and math.isfinite(number):
                    found = of_number(number)
            if found is None:
                raise ValueError(problem)
            return found

        return convert

    def _one_of(self, meanings: Mapping[Raw, float], key: str) -> Converter:
        listed = ", ".join(map(as_listed, meanings))
        problem = f"is not one of those under '{key}' in the catalogue: {listed}"
        return self._converter(problem, meanings)

    def _encoded(self, one: OneHot) -> Converter:
        if one.otherwise == "refuse":
            return self._one_of({value: float(n) for n, value in enumerate(one.values)}, "values")
        counts = [float(value) for value in one.values]

        def position(count: float) -> float | None:
            return bisect_right(counts, count) - 1.0 if count >= counts[0] else None

        return self._converter(f"is not a number from {one.values[0]} on", of_number=position)

    def _numbered(self, texts: list[str]) -> Converter:
        missing = Listed(dict.fromkeys(("", *self._columns.missing), math.nan), self._decimal)
        numbers: dict[str, float] = {}

        def convert(text: str) -> float:
            if (found := missing.meaning(text)) is not None:
                return found
            if (text := text.strip()) not in numbers:
                numbers[text] = float(len(texts))
                texts.append(text)
            return numbers[text]

        return convert
