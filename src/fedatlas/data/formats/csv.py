"""CSV tables: a header line and columns as the catalogue declares them → dense features."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Dataset
from fedatlas.data.folders import reading
from fedatlas.data.labels import label_key, plain_number
from fedatlas.errors import FedatlasError
from fedatlas.schema.models import Model

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import csv

# Fields that hold no value.
MISSING = frozenset({"", "NA"})

# How many columns more than declared are looked at before they are refused by name.
MOST_COLUMNS = 1000

Converter = Callable[[str], float | None]
"""A field's text → its value, None where it has none."""


class OneHot(Model):
    """A CSV column of categories, and the columns of zeros and ones that it becomes.

    values: the categories, compared as numbers where both are numbers. Listed here and not taken
        from the file, so that every split and every copy is encoded alike. Two become one column,
        1 for the second; more become a column each.
    otherwise: what becomes of a value that is not listed: an error, or, for counts without an
        end, the largest listed value below it (`values` are then ascending numbers).
    """

    column: str
    values: tuple[str, ...] = Field(min_length=2)
    otherwise: Literal["refuse", "next_below"] = "refuse"

    @field_validator("values", mode="before")
    @classmethod
    def _values_are_text(cls, values: Any) -> Any:
        return [str(value) for value in values] if isinstance(values, list) else values

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
    """

    label: str
    numeric: tuple[str, ...] = ()
    one_hot: tuple[OneHot, ...] = ()
    ignore: tuple[str, ...] = ()
    drop_missing: bool = False

    @model_validator(mode="after")
    def _names_each_column_once(self) -> Self:
        names = self.columns
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"column '{twice[0]}' is named twice")
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

    @property
    def numeric_columns(self) -> list[int]:
        """The indices of the features that are no indicators."""
        return list(range(len(self.numeric)))


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
        if self.standardise and self.csv.one_hot:
            raise ValueError("'standardise' would scale the columns of 'one_hot': leave it out")
        return self

    @property
    def feature_names(self) -> list[str]:
        return self.csv.feature_names

    @property
    def numeric_columns(self) -> list[int]:
        return self.csv.numeric_columns

    def read(self, split: str, raw: list[Path]) -> Samples:
        samples = read_csv(raw[0], self.csv, self.labels)
        self.check_classes(samples.label, raw[0])
        return samples


def read_csv(path: Path, table: CsvTable, labels: Mapping[str, float] | None) -> Samples:
    """Read comma-separated UTF-8 text with a header line.

    table: what the columns hold. labels: raw label → value; None takes labels as they are.
    Fields may be quoted but hold no line break. Returns (n, d) dense features in the order of
    `table.feature_names`; sample_id counts the rows that are kept.
    Raises FedatlasError, naming file, line and column, when the header lacks, repeats or adds a
    column, a row has more or fewer fields, a value is missing (unless such rows are dropped), not
    a finite number or not among the listed ones; and when the text is not UTF-8 or has no rows.
    """
    fields = _fields(path, table)
    label = _values(path, table.label, fields, *_label_converter(labels))
    numeric = [
        _values(path, name, fields, _finite, "is not a finite number") for name in table.numeric
    ]
    encoded = [
        _values(path, one.column, fields, *_category_converter(one)) for one in table.one_hot
    ]
    columns = np.column_stack([label, *numeric, *encoded])
    missing = np.isnan(columns)
    if missing.any() and not table.drop_missing:
        row, column = np.argwhere(missing)[0]
        raise FedatlasError(
            f"{path}:{_line(row)}: column '{table.columns[column]}' lacks a value; "
            "'drop_missing: true' in the catalogue leaves such rows out"
        )
    columns = columns[~missing.any(axis=1)]
    if not len(columns):
        raise FedatlasError(f"{path}: every row lacks a value")
    split = 1 + len(numeric)
    features = np.hstack(
        [
            columns[:, 1:split],
            *map(_indicators, columns[:, split:].T, table.one_hot),
        ]
    )
    return Samples.numbered(columns[:, 0].copy(), features)


def _line(row: np.integer[Any]) -> int:
    """The line of a row: lines count from 1 and start with the header."""
    return int(row) + 2


def _fields(path: Path, table: CsvTable) -> dict[str, pa.Array]:
    """The text of each column, without the header."""
    import pyarrow as pa
    from pyarrow import csv

    content = _checked(path)
    # The header is read as a row like any other: what lies in the file then says how many
    # columns there are, and pyarrow neither guesses types nor merges columns of one name.
    width = re.split(rb"[\r\n]", content, maxsplit=1)[0].count(b",") + 1
    # Commas between quotes are counted, too; a header with many more is another file's.
    if width > MOST_COLUMNS + len(table.columns):
        raise FedatlasError(
            f"{path}:1: {width} columns, but the catalogue declares {len(table.columns)}; "
            "it is another file"
        )
    names = [f"f{i}" for i in range(width)]
    ragged: list[csv.InvalidRow] = []

    def refuse(row: csv.InvalidRow) -> str:
        ragged.append(row)
        return "error"

    try:
        text = csv.read_csv(
            pa.BufferReader(content),
            read_options=csv.ReadOptions(
                # Only a single thread knows the number of a line.
                use_threads=False,
                autogenerate_column_names=True,
            ),
            parse_options=csv.ParseOptions(ignore_empty_lines=False, invalid_row_handler=refuse),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.large_string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowException as error:
        if ragged:
            raise FedatlasError(
                f"{path}:{ragged[0].number}: {ragged[0].actual_columns} fields, but the header has "
                f"{ragged[0].expected_columns}; is the line cut short?"
            ) from error
        raise FedatlasError(f"{path}: is not CSV text: {error}") from error
    columns = [column.combine_chunks() for column in text.columns]
    header = [column[0].as_py() for column in columns]
    _check_header(path, header, table)
    if text.num_rows == 1:
        raise FedatlasError(f"{path}: holds no samples")
    return {name: column[1:] for name, column in zip(header, columns, strict=True)}


def _checked(path: Path) -> bytes:
    """The bytes of a file whose lines are its rows; blank lines at the end are cut off."""
    with reading(path):
        content = path.read_bytes().rstrip()
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = len((content[: error.start] + b".").splitlines())
        raise FedatlasError(f"{path}:{line}: is not UTF-8 text: {error.reason}") from error
    if not content.removeprefix(b"\xef\xbb\xbf"):
        raise FedatlasError(f"{path}: is empty")
    for number, row in enumerate(content.splitlines(), start=1):
        # Looked for here, since pyarrow takes a blank line for a row of empty fields, and keeps
        # NUL bytes as well as line breaks between quotes, after which rows are no longer lines.
        if not row.strip():
            raise FedatlasError(f"{path}:{number}: the line is blank")
        if b"\0" in row:
            raise FedatlasError(f"{path}:{number}: holds a NUL byte; the file is damaged")
        if row.count(b'"') % 2:
            raise FedatlasError(f"{path}:{number}: a quote is not closed on its line")
    return content + b"\n"  # pyarrow does not see a header that is the whole file


def _check_header(path: Path, header: list[str], table: CsvTable) -> None:
    """The header must name the declared columns, each once."""
    for name in header:
        if header.count(name) > 1:
            raise FedatlasError(f"{path}:1: column '{name}' occurs twice")
    for name in table.columns:
        if name not in header:
            raise FedatlasError(
                f"{path}:1: column '{name}' is missing; the header has: {', '.join(header)}"
            )
    for name in header:
        if name not in table.columns:
            raise FedatlasError(
                f"{path}:1: column '{name}' is not in the catalogue; list it under 'csv', as "
                "'ignore' if it is not needed"
            )


def _values(
    path: Path, name: str, fields: Mapping[str, pa.Array], convert: Converter, problem: str
) -> np.ndarray:
    """(n,) float64 values of a column, NaN where one is missing.

    problem: the end of the error about a field that `convert` does not take.
    """
    # Each distinct text is converted once, in the order in which they first occur.
    encoded = fields[name].dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    codes = encoded.indices.to_numpy()
    values = [math.nan if text.strip() in MISSING else convert(text) for text in texts]
    if None in values:
        code = values.index(None)
        raise FedatlasError(
            f"{path}:{_line(np.argmax(codes == code))}: column '{name}': '{texts[code]}' {problem}"
        )
    return np.array(values, dtype=np.float64)[codes]


def _finite(text: str) -> float | None:
    number = plain_number(text)
    return number if number is not None and math.isfinite(number) else None


def _label_converter(labels: Mapping[str, float] | None) -> tuple[Converter, str]:
    if labels is None:
        return _finite, "is not a finite number"
    values = {label_key(raw): value for raw, value in labels.items()}
    return (
        lambda text: values.get(label_key(text)),
        f"is not one of the allowed labels: {', '.join(labels)}",
    )


def _category_converter(one_hot: OneHot) -> tuple[Converter, str]:
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


def _indicators(positions: np.ndarray, one_hot: OneHot) -> np.ndarray:
    """(n, columns) zeros and ones; of two categories the second has the one column."""
    if len(one_hot.values) == 2:
        return positions[:, np.newaxis]
    return np.eye(len(one_hot.values))[positions.astype(np.intp)]
