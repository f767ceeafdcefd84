"""CSV tables: delimited text → columns as the catalogue declares them.

Python's own reader parses them: pyarrow takes all that follows a quote which is never closed for
one field, and pandas fills up rows that are cut short.
"""

import codecs
import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import AfterValidator, model_validator

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.formats.columns import Columns, Conversion, TableDataset, lacking, unreadable
from fedatlas.data.reading import Raw, reading
from fedatlas.errors import FedatlasError


def _encoding_of_text(name: str) -> str:
    try:
        io.TextIOWrapper(io.BytesIO(), name)
    except LookupError as error:
        raise ValueError(f"is no encoding of text: {error}") from None
    return name


Encoding = Annotated[str, AfterValidator(_encoding_of_text)]


class CsvTable(Columns):
    """The columns of a CSV file.

    header: the names of the columns, in their order, of a file without a header line.
    delimiter: what stands between fields. decimal: the mark before the fraction of numbers.
    quoting: `none` if quotes are characters as any other; otherwise a field that begins with one
        ends at the next, may hold delimiters and line breaks, and `""` in it stands for a quote.
    encoding: of the text, as Python calls it, such as latin-1.
    """

    header: tuple[str, ...] | None = None
    delimiter: Literal[",", ";", "\t", "|"] = ","
    decimal: Literal[".", ","] = "."
    quoting: Literal["standard", "none"] = "standard"
    encoding: Encoding = "utf-8"

    @model_validator(mode="after")
    def _is_text_of_these_columns(self) -> Self:
        if self.header is not None and (problem := self.problem_of(self.header)):
            raise ValueError(f"'header': {problem}")
        if self.decimal == self.delimiter:
            raise ValueError("'decimal' and 'delimiter' are the same mark; state the delimiter")
        return self


class CsvDataset(TableDataset):
    """csv: what the columns of the table hold, and how its text is written."""

    format: Literal["csv"]
    csv: CsvTable

    def read(self, split: str, raw: list[Path]) -> Samples:
        return read_csv(raw[0], self.csv, self.labels)


def read_csv(path: Path, table: CsvTable, labels: Mapping[Raw, float] | None) -> Samples:
    """Read delimited text whose columns the table describes.

    labels: raw label → value; None takes labels as they are. Returns what `Conversion.samples`
    does. Raises FedatlasError, naming file, line and column, when the header lacks, repeats or adds
    a column, a row has more or fewer fields, a value is missing (unless such rows are dropped), not
    a finite number or not among the listed ones; and when the text is not of the table's encoding,
    a quote is not closed or there are no rows.
    """
    conversion = Conversion(table, labels, table.decimal)
    row = np.dtype((np.float64, (len(conversion.names),)))
    return conversion.samples(np.fromiter(_values(path, table, conversion), row), str(path))


def _values(path: Path, table: CsvTable, conversion: Conversion) -> Iterator[list[float]]:
    """The label and the values of each row."""
    names = conversion.names
    for line, fields in _rows(path, table, names):
        values: list[float] = []
        try:
            values.extend(
                each(text) for each, text in zip(conversion.of_column, fields, strict=True)
            )
        except ValueError as problem:
            name, text = names[len(values)], fields[len(values)]
            raise unreadable(f"{path}:{line}", name, text, problem, "csv") from None
        if not table.drop_missing and any(map(math.isnan, values)):
            name = names[list(map(math.isnan, values)).index(True)]
            raise lacking(f"{path}:{line}", name)
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
