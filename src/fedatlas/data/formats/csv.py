"""CSV tables: a header line and columns as the catalogue declares them → dense features."""

import csv
import logging
import math
from bisect import bisect_right
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Dataset, require_distinct
from fedatlas.data.folders import reading
from fedatlas.data.labels import UnknownLabel, label_key, plain_number, require_quoted
from fedatlas.data.scaling import Scaling, scaling_of
from fedatlas.errors import FedatlasError, similar
from fedatlas.schema.models import Model

log = logging.getLogger(__name__)

# Fields that hold no value.
MISSING = frozenset({"", "NA"})
# The line of the first row; lines count from 1 and start with the header.
FIRST_LINE = 2

Converter = tuple[Callable[[str], float | None], str]
"""A field's text → its value or None, and what is wrong with the texts that give None."""


class OneHot(Model):
    """A CSV column of categories, and the columns of zeros and ones that it becomes.

    values: the categories, compared as numbers where both are numbers. Listed here and not taken
        from the file, so that every split and every copy is encoded alike. Two become one column,
        1 for the second; more become a column each.
    otherwise: what becomes of a value that is not listed: an error, or, for counts without an
        end, the largest listed value below it (`values` are then ascending numbers).
    column: its name in the header line.
    """

    column: str
    values: tuple[Annotated[str, Field(coerce_numbers_to_str=True)], ...] = Field(min_length=2)
    otherwise: Literal["refuse", "next_below"] = "refuse"

    @field_validator("values", mode="before")
    @classmethod
    def _values_are_quoted(cls, values: Any) -> Any:
        for value in values if isinstance(values, list | tuple) else ():
            require_quoted(value)
        return values

    @model_validator(mode="after")
    def _values_can_be_told_apart(self) -> Self:
        keys = [label_key(value) for value in self.values]
        if len(set(keys)) < len(keys):
            raise ValueError(f"column '{self.column}': one of its 'values' stands twice")
        if not MISSING.isdisjoint(keys):
            raise ValueError(f"column '{self.column}': an empty field or NA is a missing value")
        if self.otherwise == "next_below":
            numbers = [key for key in keys if isinstance(key, float) and math.isfinite(key)]
            if len(numbers) < len(keys) or numbers != sorted(numbers):
                raise ValueError(
                    f"column '{self.column}': 'otherwise: next_below' needs ascending numbers"
                )
        return self

    @property
    def feature_names(self) -> list[str]:
        """One `column=value` per encoded column."""
        indicated = self.values[1:] if len(self.values) == 2 else self.values
        return [f"{self.column}={value}" for value in indicated]


class CsvTable(Model):
    """The columns of a CSV file with a header line; each must be named once, in any order.

    label, numeric, one_hot: what they hold; features are the numeric columns, then the encoded
        ones, in the order given here. ignore: columns to leave out.
    drop_missing: leave out rows that lack a value outside the ignored columns; otherwise such a
        row is an error.
    delimiter: what stands between fields.
    """

    label: str
    numeric: tuple[str, ...] = ()
    one_hot: tuple[OneHot, ...] = ()
    ignore: tuple[str, ...] = ()
    drop_missing: bool = False
    delimiter: Literal[",", ";", "\t", "|"] = ","

    @model_validator(mode="after")
    def _names_each_column_once(self) -> Self:
        require_distinct("column", self.columns)
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


class CsvDataset(Dataset):
    """csv: what the columns of the table hold."""

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
        """Of numeric columns; indicators get mean 0 and scale 1."""
        found, numbers = scaling_of(features, self.centre), len(self.numeric_columns)
        indicators = self.features - numbers
        return {
            "mean": found["mean"][:numbers] + [0.0] * indicators,
            "scale": found["scale"][:numbers] + [1.0] * indicators,
        }

    def read(self, split: str, raw: list[Path]) -> Samples:
        return read_csv(raw[0], self.csv, self.labels)


def read_csv(path: Path, table: CsvTable, labels: Mapping[str, float] | None) -> Samples:
    """Read UTF-8 text of delimited fields with a header line.

    table: what the columns hold. labels: raw label → value; None takes labels as they are.
    Fields may be quoted but hold no line break. Returns (n, d) dense features in the order of
    `table.feature_names`; sample_id counts the rows that are kept.
    Raises FedatlasError, naming file, line and column, when the header lacks, repeats or adds a
    column, a row has more or fewer fields, a value is missing (unless such rows are dropped), not
    a finite number or not among the listed ones; and when the text is not UTF-8 or has no rows.
    """
    fields = _fields(path, table)
    converters = {table.label: _label_converter(labels)}
    converters |= dict.fromkeys(table.numeric, NUMBER)
    converters |= {one.column: _category_converter(one) for one in table.one_hot}
    columns = np.column_stack(
        [
            _values(path, name, fields[name], *how, is_label=name == table.label)
            for name, how in converters.items()
        ]
    )
    missing = np.isnan(columns)
    if missing.any() and not table.drop_missing:
        row, column = np.argwhere(missing)[0]
        raise FedatlasError(
            f"{path}:{row + FIRST_LINE}: column '{table.columns[column]}' lacks a value; "
            "'drop_missing: true' in the catalogue leaves such rows out"
        )
    lacking = missing.any(axis=1)
    if lacking.all():
        raise FedatlasError(f"{path}: every row lacks a value")
    if table.drop_missing:
        _tell_of_dropped_rows(path, table, missing)
    columns = columns[~lacking]
    label, numeric, encoded = np.split(columns, [1, 1 + len(table.numeric)], axis=1)
    # Of two categories the second has the one column.
    indicators = [
        np.eye(len(one.values))[positions.astype(np.intp), -len(one.feature_names) :]
        for positions, one in zip(encoded.T, table.one_hot, strict=True)
    ]
    return Samples.numbered(label[:, 0].copy(), np.hstack([numeric, *indicators]))


def _tell_of_dropped_rows(path: Path, table: CsvTable, missing: np.ndarray) -> None:
    """Say how many rows lack a value, and in which columns; missing: (n, columns)."""
    rows, by_column = int(missing.any(axis=1).sum()), missing.sum(axis=0)
    where = [
        f"'{name}' in {count}"
        for name, count in zip(table.columns, by_column, strict=False)  # no ignored ones
        if count
    ]
    log.warning(
        "%s: 'drop_missing: true' leaves out %d of %d rows, which lack a value%s",
        *(path, rows, len(missing), f": {', '.join(where)}" if where else ""),
    )


def _fields(path: Path, table: CsvTable) -> dict[str, Sequence[str]]:
    """The texts of each column, without the header."""
    rows: list[list[str]] = []
    reader = csv.reader(_lines(path, table.delimiter), delimiter=table.delimiter, strict=True)
    try:
        for row in reader:
            rows.append(row)
            if reader.line_num > len(rows):
                raise FedatlasError(f"{path}:{len(rows)}: a quote is not closed on its line")
            if len(rows) == 1:
                _check_header(path, row, table)
            if len(row) != len(rows[0]):
                raise FedatlasError(
                    f"{path}:{len(rows)}: {len(row)} fields, but the header has {len(rows[0])}; "
                    "is the line cut short?"
                )
    except csv.Error as error:
        raise FedatlasError(f"{path}:{len(rows) + 1}: is not CSV text: {error}") from error
    if len(rows) == 1:
        raise FedatlasError(f"{path}: holds no samples")
    return dict(zip(rows[0], zip(*rows[1:], strict=True), strict=True))


def _lines(path: Path, delimiter: str) -> Iterator[str]:
    """The lines, of which each is a row; blank ones at the end are left out."""
    with reading(path):
        content = path.read_bytes().removeprefix(BOM_UTF8)
    lines = content.splitlines()
    # A last field may be empty: tabs at the end are no blanks where they delimit.
    while lines and not lines[-1].strip() and delimiter.encode() not in lines[-1]:
        lines.pop()
    if not lines:
        raise FedatlasError(f"{path}: is empty")
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise FedatlasError(f"{path}:{number}: is not UTF-8 text: {error.reason}") from error
        if not text.strip() and delimiter not in text:
            raise FedatlasError(f"{path}:{number}: the line is blank")
        if "\0" in text:
            raise FedatlasError(f"{path}:{number}: holds a NUL byte; the file is damaged")
        if text.count('"') % 2:
            raise FedatlasError(f"{path}:{number}: a quote is not closed on its line")
        yield text


def _check_header(path: Path, header: list[str], table: CsvTable) -> None:
    """The header must name the declared columns, each once."""
    if len(header) == 1 < len(table.columns):
        raise FedatlasError(
            f"{path}:1: the header is one field, '{header[0]}'; state 'delimiter' under 'csv' if "
            f"fields are not divided by {table.delimiter!r}"
        )
    for name, times in Counter(header).items():
        if times > 1:
            raise FedatlasError(f"{path}:1: column '{name}' occurs twice")
    added = [name for name in header if name not in table.columns]
    missing = [
        f"column '{name}' is missing{similar(name, added)}"
        for name in table.columns
        if name not in header
    ]
    strange = [f"column '{name}' is not in the catalogue" for name in added]
    # What is missing comes first: its misspelt name is why a column seems not to be declared.
    if missing:
        missing[-1] += f"; the header has: {', '.join(header)}"
    elif strange:
        strange[-1] += "; list it under 'csv', as 'ignore' if it is not needed"
    if missing or strange:
        raise FedatlasError("\n".join(f"{path}:1: {each}" for each in (*missing, *strange)))


def _values(
    path: Path,
    name: str,
    texts: Sequence[str],
    convert: Callable[[str], float | None],
    problem: str,
    *,
    is_label: bool,
) -> np.ndarray:
    """(n,) float64 values of a column, NaN where one is missing."""
    values: dict[str, float] = {}
    for text in dict.fromkeys(texts):
        value = math.nan if text.strip() in MISSING else convert(text)
        if value is None:
            line = texts.index(text) + FIRST_LINE
            message = f"{path}:{line}: column '{name}': '{text}' {problem}"
            raise UnknownLabel(message, text.strip()) if is_label else FedatlasError(message)
        values[text] = value
    return np.array([values[text] for text in texts])


def _finite(text: str) -> float | None:
    number = plain_number(text)
    return number if number is not None and math.isfinite(number) else None


NUMBER: Converter = (_finite, "is not a finite number")


def _label_converter(labels: Mapping[str, float] | None) -> Converter:
    if labels is None:
        return NUMBER
    values = {label_key(raw): value for raw, value in labels.items()}
    return (
        lambda text: values.get(label_key(text)),
        f"is not one of the allowed labels: {', '.join(labels)}",
    )


def _category_converter(one_hot: OneHot) -> Converter:
    """A field's text → the position of its category in `values`."""
    keys = [label_key(value) for value in one_hot.values]
    if one_hot.otherwise == "refuse":
        positions = {key: float(position) for position, key in enumerate(keys)}
        listed = ", ".join(one_hot.values)
        return lambda text: positions.get(label_key(text)), f"is not one of the values: {listed}"

    def next_below(text: str) -> float | None:
        number = _finite(text)
        position = -1 if number is None else bisect_right(keys, number) - 1
        return None if position < 0 else float(position)

    return next_below, f"is not a number from {one_hot.values[0]} on"
