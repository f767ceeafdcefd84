"""CSV tables: columns as the catalogue declares them → dense features.

Python's own reader parses them: pyarrow takes all that follows a quote which is never closed for
one field, and pandas fills up rows that are cut short.
"""

import codecs
import csv
import io
import logging
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Dataset, require_distinct
from fedatlas.data.reading import (
    Listed,
    Raw,
    RawValues,
    as_listed,
    plain_number,
    reading,
    told_apart,
)
from fedatlas.errors import FedatlasError
from fedatlas.schema.models import Model

log = logging.getLogger(__name__)

# Texts of a column whose values are kept at a time.
REMEMBERED = 1 << 16

Converter = Callable[[str], float]
"""A field's text → its value, NaN where it is missing; ValueError tells what is wrong with it."""


class OneHot(Model):
    """A CSV column of categories, and the columns of zeros and ones that it becomes.

    values: the categories. A quoted one is that text, a bare number every text of that number.
        Listed here and not taken from the file, so that every split and every copy is encoded
        alike. Two become one column, 1 for the second; more become a column each.
    otherwise: what becomes of a value that is not listed: an error, or, for counts without an
        end, the largest listed value below it (`values` are then ascending numbers).
    column: its name in the header line.
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


def _encoding_of_text(name: str) -> str:
    try:
        io.TextIOWrapper(io.BytesIO(), name)
    except LookupError as error:
        raise ValueError(f"is no encoding of text: {error}") from None
    return name


Encoding = Annotated[str, AfterValidator(_encoding_of_text)]


class CsvTable(Model):
    """The columns of a CSV file; each must be named once, in any order.

    label, numeric, one_hot: what they hold; features are the numeric columns, then the encoded
        ones, in the order given here. ignore: columns to leave out, which may share a name.
    keep: columns whose texts stay beside the features, such as a writer or a user, by which a
        partition may share rows out (`by_column`). Numeric and encoded columns may be kept, too.
    header: the names of the columns, in their order, of a file without a header line.
    missing: what stands for a missing value, besides an empty field: quoted texts, or bare numbers.
        What a column's `values` or `labels` list is a value all the same.
    drop_missing: leave out rows that lack a value outside the ignored columns; otherwise such a
        row is an error.
    delimiter: what stands between fields. decimal: the mark before the fraction of numbers.
    quoting: `none` if quotes are characters as any other; otherwise a field that begins with one
        ends at the next, may hold delimiters and line breaks, and `""` in it stands for a quote.
    encoding: of the text, as Python calls it, such as latin-1.
    """

    label: str
    numeric: tuple[str, ...] = ()
    one_hot: tuple[OneHot, ...] = ()
    ignore: tuple[str, ...] = ()
    # Left out of entries without it, so that what they are known by stays as it is.
    keep: tuple[str, ...] = Field(default=(), exclude_if=lambda keep: not keep)
    header: tuple[str, ...] | None = None
    missing: RawValues = ("NA",)
    drop_missing: bool = False
    delimiter: Literal[",", ";", "\t", "|"] = ","
    decimal: Literal[".", ","] = "."
    quoting: Literal["standard", "none"] = "standard"
    encoding: Encoding = "utf-8"

    @model_validator(mode="after")
    def _names_each_column_once(self) -> Self:
        require_distinct("column", self.columns)
        require_distinct("column", self.keep)
        if ignored := sorted({*self.keep} & {self.label, *self.ignore}):
            raise ValueError(f"'keep': column '{ignored[0]}' is the label, or ignored")
        if self.header is not None and (problem := self.problem_of(self.header)):
            raise ValueError(f"'header': {problem}")
        if self.decimal == self.delimiter:
            raise ValueError("'decimal' and 'delimiter' are the same mark; state the delimiter")
        return self

    @property
    def columns(self) -> list[str]:
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
            "are missing": [name for name in self.columns if name not in times],
            "are not in the catalogue": [name for name in times if name not in self.columns],
            "occur twice": [name for name, n in times.items() if n > 1 and name not in self.ignore],
        }
        return "; ".join(
            f"columns {', '.join(map(repr, names))} {problem}"
            for problem, names in found.items()
            if names
        )


class CsvDataset(Dataset):
    """csv: what the columns of the table hold."""

    labels_are_text: ClassVar[bool] = True

    format: Literal["csv"]
    csv: CsvTable

    @model_validator(mode="after")
    def _is_of_the_table(self) -> Self:
        width = len(self.csv.feature_names)
        if width != self.features:
            raise ValueError(
                f"the columns under 'csv' make {width} features, 'features' says {self.features}"
            )
        return self

    @property
    def feature_names(self) -> list[str]:
        return self.csv.feature_names

    @property
    def kept(self) -> tuple[str, ...]:
        return self.csv.keep

    @property
    def numeric_columns(self) -> list[int]:
        return list(range(len(self.csv.numeric)))

    def read(self, split: str, raw: list[Path]) -> Samples:
        return read_csv(raw[0], self.csv, self.labels)


def read_csv(path: Path, table: CsvTable, labels: Mapping[Raw, float] | None) -> Samples:
    """Read delimited text whose columns the table describes.

    labels: raw label → value; None takes labels as they are. Returns (n, d) dense features in the
    order of `table.feature_names`, and the texts of `keep`; sample_id counts rows that are left.
    Raises FedatlasError, naming file, line and column, when the header lacks, repeats or adds a
    column, a row has more or fewer fields, a value is missing (unless such rows are dropped), not
    a finite number or not among the listed ones; and when the text is not of the table's encoding,
    a quote is not closed or there are no rows.
    """
    converters, texts = _converters(table, labels)
    row = np.dtype((np.float64, (len(converters),)))
    found = np.fromiter(_values(path, table, converters), row)
    missing = np.isnan(found)
    lacking = missing.any(axis=1)
    if lacking.all():
        raise FedatlasError(
            f"{path}: {'every row lacks a value' if len(found) else 'holds no samples'}"
        )
    if table.drop_missing:
        counts = zip((name for name, _ in converters), missing.sum(axis=0), strict=True)
        where = ", ".join(f"'{name}' in {count}" for name, count in counts if count)
        log.warning(
            "%s: 'drop_missing: true' leaves out %d of %d rows, which lack a value%s",
            *(path, lacking.sum(), len(found), f": {where}" if where else ""),
        )
    ends = np.cumsum([1, len(table.numeric), len(table.one_hot)])
    label, numeric, encoded, kept = np.split(found[~lacking], ends, axis=1)
    # Of two categories the second has the one column.
    indicators = [
        np.eye(len(one.values))[positions.astype(np.intp), -len(one.feature_names) :]
        for positions, one in zip(encoded.T, table.one_hot, strict=True)
    ]
    of_rows = {
        name: [known[code] for code in codes.astype(np.intp).tolist()]
        for (name, known), codes in zip(texts.items(), kept.T, strict=True)
    }
    return Samples.numbered(label[:, 0].copy(), np.hstack([numeric, *indicators]), of_rows)


def _values(
    path: Path, table: CsvTable, converters: Sequence[tuple[str, Converter]]
) -> Iterator[list[float]]:
    """The label and the values of each row."""
    names, convert = zip(*converters, strict=True)
    for line, fields in _rows(path, table, names):
        values: list[float] = []
        try:
            values.extend(each(text) for each, text in zip(convert, fields, strict=True))
        except ValueError as problem:
            name, text = names[len(values)], fields[len(values)]
            raise FedatlasError(
                f"{path}:{line}: column '{name}': {text[:100]!r} {problem}; if it stands for a "
                "missing value, list it as 'missing' under 'csv'"
            ) from None
        if not table.drop_missing and any(map(math.isnan, values)):
            name = names[list(map(math.isnan, values)).index(True)]
            raise FedatlasError(
                f"{path}:{line}: column '{name}' lacks a value; 'drop_missing: true' in the "
                "catalogue leaves such rows out"
            )
        yield values


def _rows(path: Path, table: CsvTable, wanted: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """The line, from 1, on which each row begins, and its fields in the columns `wanted`."""
    csv.field_size_limit((1 << 31) - 1)
    # The mark that some programs write at the start of UTF-8 is no text.
    plain = codecs.lookup(table.encoding).name == "utf-8"
    header = table.header
    blank, next_line = 0, 1
    try:
        with (
            reading(path),
            path.open(encoding="utf-8-sig" if plain else table.encoding, newline="") as stream,
        ):
            reader = csv.reader(
                stream,
                delimiter=table.delimiter,
                quoting=csv.QUOTE_NONE if table.quoting == "none" else csv.QUOTE_MINIMAL,
                strict=True,
            )
            for row in reader:
                line, next_line = next_line, reader.line_num + 1
                if not row or (len(row) == 1 and not row[0].strip()):
                    blank = blank or line
                elif blank:
                    raise FedatlasError(f"{path}:{blank}: the line is blank")
                elif header is None:
                    header = tuple(row)
                    if problem := table.problem_of(header):
                        raise FedatlasError(
                            f"{path}:{line}: {problem}; the header is: {', '.join(header)}. List "
                            "columns that are not needed as 'ignore' under 'csv', those of a file "
                            "without a header line as 'header', and give the 'delimiter' unless "
                            f"it is {table.delimiter!r}"
                        )
                elif len(row) != len(header):
                    raise FedatlasError(
                        f"{path}:{line}: {len(row)} fields, but the header has {len(header)}; is "
                        "the line cut short, or a field with a delimiter not in quotes?"
                    )
                else:
                    fields = dict(zip(header, row, strict=True))
                    yield line, [fields[name] for name in wanted]
    except csv.Error as error:
        raise FedatlasError(
            f"{path}:{next_line}: is not CSV text: {error}; 'quoting: none' under 'csv' takes "
            "quotes for characters as any other"
        ) from error
    except UnicodeError as error:
        raise FedatlasError(
            f"{path}: is not {table.encoding.upper()} text: {getattr(error, 'reason', error)}; "
            "declare its 'encoding' under 'csv', such as latin-1"
        ) from error
    if header is None:
        raise FedatlasError(f"{path}: is empty")


def _converters(
    table: CsvTable, labels: Mapping[Raw, float] | None
) -> tuple[list[tuple[str, Converter]], dict[str, list[str]]]:
    """Converters of the label, the numeric, the encoded and the kept columns, in that order.

    Beside them, by name of a kept column, the texts that its numbers stand for, as they are found.
    """

    def converter(
        problem: str,
        meanings: Mapping[Raw, float] | None = None,
        of_number: Callable[[float], float | None] = lambda number: None,
    ) -> Converter:
        """Finds what is listed, then what a finite number stands for, if anything."""
        missing = {"": math.nan, **dict.fromkeys(table.missing, math.nan)}
        listed = Listed(missing | dict(meanings or {}), table.decimal)

        @lru_cache(REMEMBERED)
        def convert(text: str) -> float:
            found = listed.meaning(text)
            if found is None:
                number = plain_number(text, table.decimal)
                if number is not None and math.isfinite(number):
                    found = of_number(number)
            if found is None:
                raise ValueError(problem)
            return found

        return convert

    def one_of(meanings: Mapping[Raw, float], key: str) -> Converter:
        listed = ", ".join(map(as_listed, meanings))
        return converter(f"is not one of those under '{key}' in the catalogue: {listed}", meanings)

    def encoded(one: OneHot) -> Converter:
        if one.otherwise == "refuse":
            return one_of({value: float(n) for n, value in enumerate(one.values)}, "values")
        counts = [float(value) for value in one.values]

        def position(count: float) -> float | None:
            return bisect_right(counts, count) - 1.0 if count >= counts[0] else None

        return converter(f"is not a number from {one.values[0]} on", of_number=position)

    def numbered(texts: list[str]) -> Converter:
        missing = Listed(dict.fromkeys(("", *table.missing), math.nan), table.decimal)
        numbers: dict[str, float] = {}

        def convert(text: str) -> float:
            if (found := missing.meaning(text)) is not None:
                return found
            if (text := text.strip()) not in numbers:
                numbers[text] = float(len(texts))
                texts.append(text)
            return numbers[text]

        return convert

    texts: dict[str, list[str]] = {name: [] for name in table.keep}
    number = converter(
        f"is not a finite number, with {table.decimal!r} before its fraction",
        of_number=lambda number: number,
    )
    converters = [
        (table.label, number if labels is None else one_of(labels, "labels")),
        *((name, number) for name in table.numeric),
        *((one.column, encoded(one)) for one in table.one_hot),
        *((name, numbered(found)) for name, found in texts.items()),
    ]
    return converters, texts
