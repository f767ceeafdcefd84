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
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Dataset, require_distinct
from fedatlas.data.reading import (
    Listed,
    Raw,
    UnknownLabel,
    as_listed,
    plain_number,
    reading,
    require_listable,
)
from fedatlas.data.scaling import Scaling, scaling_of
from fedatlas.errors import FedatlasError, similar
from fedatlas.schema.models import Model

log = logging.getLogger(__name__)

# Texts of a column whose values are kept at a time.
REMEMBERED = 1 << 16
# What files have for a missing value, in lower case; it is one only if 'missing' lists it.
USUAL_MISSING = frozenset({"?", "na", "n/a", "nan", "null", "none", "nil", "-", ".", "#n/a"})

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
    values: tuple[Raw, ...] = Field(min_length=2)
    otherwise: Literal["refuse", "next_below"] = "refuse"

    @field_validator("values", mode="before")
    @classmethod
    def _values_differ(cls, values: Any) -> Any:
        require_listable(values if isinstance(values, list | tuple) else ())
        return values

    @model_validator(mode="after")
    def _counts_ascend(self) -> Self:
        if self.otherwise == "next_below":
            where = f"column '{self.column}': 'otherwise: next_below' needs ascending numbers"
            if texts := [value for value in self.values if isinstance(value, str)]:
                raise ValueError(f"{where}, but YAML reads {texts[0]!r} as a text")
            if list(self.values) != sorted(map(float, self.values)):
                raise ValueError(where)
        return self

    @property
    def feature_names(self) -> list[str]:
        """One `column=value` per encoded column."""
        indicated = self.values[1:] if len(self.values) == 2 else self.values
        return [f"{self.column}={value}" for value in indicated]


class CsvTable(Model):
    """The columns of a CSV file; each must be named once, in any order.

    label, numeric, one_hot: what they hold; features are the numeric columns, then the encoded
        ones, in the order given here. ignore: columns to leave out, which may share a name.
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
    header: tuple[str, ...] | None = None
    missing: tuple[Raw, ...] = ("NA",)
    drop_missing: bool = False
    delimiter: Literal[",", ";", "\t", "|"] = ","
    decimal: Literal[".", ","] = "."
    quoting: Literal["standard", "none"] = "standard"
    encoding: str = "utf-8"

    @field_validator("missing", mode="before")
    @classmethod
    def _codes_differ(cls, missing: Any) -> Any:
        require_listable(missing if isinstance(missing, list | tuple) else ())
        return missing

    @field_validator("encoding")
    @classmethod
    def _is_an_encoding(cls, encoding: str) -> str:
        try:
            io.TextIOWrapper(io.BytesIO(), encoding)
        except LookupError as error:
            raise ValueError(f"is no encoding of text: {error}") from None
        return encoding

    @model_validator(mode="after")
    def _names_each_column_once(self) -> Self:
        require_distinct("column", self.columns)
        if self.header is not None and (problems := self.problems_of(self.header)):
            raise ValueError(f"'header': {'; '.join(problems)}")
        if self.decimal == self.delimiter:
            raise ValueError("'decimal' and 'delimiter' are the same mark; state the delimiter")
        return self

    @property
    def columns(self) -> list[str]:
        """The names of all columns, those to be ignored last."""
        encoded = [one_hot.column for one_hot in self.one_hot]
        return [self.label, *self.numeric, *encoded, *self.ignore]

    @property
    def feature_names(self) -> list[str]:
        """The names of the d features."""
        return [*self.numeric, *(name for one in self.one_hot for name in one.feature_names)]

    def problems_of(self, header: Sequence[str]) -> list[str]:
        """Why a header does not name the declared columns, each once; none if it does."""
        twice = [
            f"column '{name}' occurs twice"
            for name, times in Counter(header).items()
            if times > 1 and name not in self.ignore
        ]
        if twice:
            return twice[:1]
        added = [name for name in header if name not in self.columns]
        missing = [
            f"column '{name}' is missing{similar(name, added)}"
            for name in self.columns
            if name not in header
        ]
        strange = [f"column '{name}' is not in the catalogue" for name in added]
        # What is missing comes first: its misspelt name is why a column seems not to be declared.
        if missing:
            missing[-1] += f"; the header has: {', '.join(header)}"
        elif strange:
            strange[-1] += "; list it under 'csv', as 'ignore' if it is not needed"
        return missing + strange


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
    def numeric_columns(self) -> list[int]:
        return list(range(len(self.csv.numeric)))

    def standardisation(self, features: np.ndarray) -> Scaling:
        """Scaling of numeric columns; indicators get mean 0 and scale 1."""
        found, numbers = scaling_of(features, self.centre), len(self.numeric_columns)
        indicators = self.features - numbers
        return {
            "mean": found["mean"][:numbers] + [0.0] * indicators,
            "scale": found["scale"][:numbers] + [1.0] * indicators,
        }

    def read(self, split: str, raw: list[Path]) -> Samples:
        return read_csv(raw[0], self.csv, self.labels)


def read_csv(path: Path, table: CsvTable, labels: Mapping[Raw, float] | None) -> Samples:
    """Read delimited text whose columns the table describes.

    labels: raw label → value; None takes labels as they are. Returns (n, d) dense features in the
    order of `table.feature_names`; sample_id counts the rows that are kept.
    Raises FedatlasError, naming file, line and column, when the header lacks, repeats or adds a
    column, a row has more or fewer fields, a value is missing (unless such rows are dropped), not
    a finite number or not among the listed ones; and when the text is not of the table's encoding,
    a quote is not closed or there are no rows.
    """
    converters = _converters(table, labels)
    row = np.dtype((np.float64, (len(converters),)))
    found = np.fromiter(_values(path, table, converters), row)
    missing = np.isnan(found)
    lacking = missing.any(axis=1)
    if lacking.all():
        raise FedatlasError(
            f"{path}: {'every row lacks a value' if len(found) else 'holds no samples'}"
        )
    if table.drop_missing:
        counts = zip(table.columns, missing.sum(axis=0), strict=False)  # no ignored ones
        where = ", ".join(f"'{name}' in {count}" for name, count in counts if count)
        log.warning(
            "%s: 'drop_missing: true' leaves out %d of %d rows, which lack a value%s",
            *(path, lacking.sum(), len(found), f": {where}" if where else ""),
        )
    label, numeric, encoded = np.split(found[~lacking], [1, 1 + len(table.numeric)], axis=1)
    # Of two categories the second has the one column.
    indicators = [
        np.eye(len(one.values))[positions.astype(np.intp), -len(one.feature_names) :]
        for positions, one in zip(encoded.T, table.one_hot, strict=True)
    ]
    return Samples.numbered(label[:, 0].copy(), np.hstack([numeric, *indicators]))


def _values(
    path: Path, table: CsvTable, converters: Mapping[str, Converter]
) -> Iterator[list[float]]:
    """The label and the values of each row."""
    names, convert = list(converters), list(converters.values())
    for line, fields in _rows(path, table, names):
        values: list[float] = []
        try:
            values.extend(each(text) for each, text in zip(convert, fields, strict=True))
        except ValueError as problem:
            name, text = names[len(values)], fields[len(values)]
            shown = text if len(text) < 100 else f"{text[:100]}…"
            message = f"{path}:{line}: column '{name}': {shown!r} {problem}"
            if text.strip().lower() in USUAL_MISSING:
                hint = "list it as 'missing' under 'csv' if it stands for a missing value"
                raise FedatlasError(f"{message}; {hint}") from None
            if name == table.label:
                raise UnknownLabel(message, text.strip()) from None
            raise FedatlasError(message) from None
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
    places = [header.index(name) for name in wanted] if header else []
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
                    _check_header(f"{path}:{line}", row, table)
                    header, places = tuple(row), [row.index(name) for name in wanted]
                else:
                    _check_width(f"{path}:{line}", row, len(header))
                    yield line, [row[place] for place in places]
    except csv.Error as error:
        raise FedatlasError(
            f"{path}:{next_line}: is not CSV text: {error}; 'quoting: none' under 'csv' takes "
            "quotes for characters as any other"
        ) from error
    except UnicodeError as error:
        raise _not_of_the_encoding(path, table.encoding, error) from error
    if header is None:
        raise FedatlasError(f"{path}: is empty")


def _not_of_the_encoding(path: Path, encoding: str, error: UnicodeError) -> FedatlasError:
    where = str(path)
    try:  # the reader decodes ahead of the line that it is at
        path.read_bytes().decode(encoding)
    except UnicodeDecodeError as found:
        where += f":{len((found.object[: found.start] + b'.').splitlines())}"
        error = found
    reason = error.reason if isinstance(error, UnicodeDecodeError) else error
    return FedatlasError(
        f"{where}: is not {encoding.upper()} text: {reason}; state its 'encoding' under 'csv', "
        "such as latin-1"
    )


def _check_header(where: str, header: list[str], table: CsvTable) -> None:
    """The header must name the declared columns, each once."""
    problems = table.problems_of(header)
    if header[0].startswith("sep="):
        problems = [f"'{header[0]}' is for Excel alone: remove the line"]
    elif problems and len(header) == 1:
        problems = [
            f"the header is one field, '{header[0]}'; state 'delimiter' under 'csv' if fields are "
            f"not divided by {table.delimiter!r}"
        ]
    elif problems and set(header).isdisjoint(table.columns):
        problems = [
            f"none of the declared columns is in the header: {', '.join(header)}; if the file has "
            "no header line, list its columns as 'header' under 'csv'"
        ]
    if problems:
        raise FedatlasError("\n".join(f"{where}: {each}" for each in problems))


def _check_width(where: str, row: list[str], width: int) -> None:
    if len(row) == width:
        return
    hint = "is the line cut short?"
    if len(row) > width:
        hint = "is a field with a delimiter not in quotes?"
        if not any(row[width:]):
            hint = "end the header in a delimiter, as this line, and ignore column ''"
    raise FedatlasError(f"{where}: {len(row)} fields, but the header has {width}; {hint}")


def _converters(table: CsvTable, labels: Mapping[Raw, float] | None) -> dict[str, Converter]:
    """Converters of the label, the numeric and the encoded columns, in that order."""
    missing = Listed({"": math.nan, **dict.fromkeys(table.missing, math.nan)}, table.decimal)

    @lru_cache(REMEMBERED)
    def number(text: str) -> float:
        if (found := missing.meaning(text)) is not None:
            return found
        found = plain_number(text, table.decimal)
        if found is not None and math.isfinite(found):
            return found
        problem = "is not a finite number"
        if table.decimal == "." and plain_number(text, ",") is not None and "," in text:
            problem += "; state 'decimal: \",\"' under 'csv' if commas begin fractions"
        elif table.decimal == "," and "." in text:
            problem += "; with 'decimal: \",\"' write 26,72: a point is no part of a number"
        raise ValueError(problem)

    def listed(meanings: Mapping[Raw, float], kind: str) -> Converter:
        known = Listed(meanings, table.decimal)

        @lru_cache(REMEMBERED)
        def convert(text: str) -> float:
            for among in (known, missing):
                if (found := among.meaning(text)) is not None:
                    return found
            problem = f"is not one of the {kind}: {', '.join(map(as_listed, meanings))}"
            value = plain_number(text, table.decimal)
            if value is not None and value in map(plain_number, map(str, meanings)):
                problem += "; a number is listed without quotes to be found however it is written"
            raise ValueError(problem)

        return convert

    def next_below(one: OneHot) -> Converter:
        counts = [float(value) for value in one.values]

        def convert(text: str) -> float:
            count = number(text)
            if count < counts[0]:
                raise ValueError(f"is not a number from {one.values[0]} on")
            return count if math.isnan(count) else bisect_right(counts, count) - 1.0

        return convert

    found = {table.label: number if labels is None else listed(labels, "allowed labels")}
    found |= dict.fromkeys(table.numeric, number)
    for one in table.one_hot:
        positions = {value: float(place) for place, value in enumerate(one.values)}
        refuse = one.otherwise == "refuse"
        found[one.column] = listed(positions, "values") if refuse else next_below(one)
    return found
