"""LIBSVM text: one `label index:value …` line per sample."""

import io
import logging
import math
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Dataset
from fedatlas.data.reading import Raw, in_smaller_layout, joined, mapped, plain_number, reading
from fedatlas.errors import FedatlasError

log = logging.getLogger(__name__)


class LibsvmDataset(Dataset):
    """Sparse rows; labels are numbers.

    first_index: the index of the first feature; scikit-learn, XGBoost and LightGBM write 0.
    keep: `[qid]` keeps each row's query beside its features, by which a partition may share rows
        out (`by_column`); otherwise queries are left out.
    """

    format: Literal["libsvm"]
    first_index: Literal[0, 1] = 1
    # Left out of entries without it, so that what they are known by stays as it is.
    keep: tuple[Literal["qid"], ...] = Field(default=(), exclude_if=lambda keep: not keep)

    @property
    def kept(self) -> tuple[str, ...]:
        return self.keep

    def read(self, split: str, raw: list[Path]) -> Samples:
        samples = read_libsvm(raw[0], self.features, self.labels, self.first_index, self.keep)
        # Rows do not say how many columns there are, so only the entry does.
        rows: Any = samples.features
        columns = rows.indices if samples.is_sparse else np.flatnonzero(rows.any(axis=0))
        used = int(columns.max(initial=-1)) + 1
        if used < self.features:
            log.warning(
                "%s: has values in columns 1 to %d only: in the catalogue, key '%s.features', "
                "value %d, is to be %d unless another split than '%s' has more",
                *(raw[0], used, self.name, self.features, used, split),
            )
        return samples


def read_libsvm(
    path: Path,
    features: int,
    labels: Mapping[Raw, float] | None,
    first_index: int = 1,
    keep: Sequence[str] = (),
) -> Samples:
    """Read LIBSVM text: one `label index:value …` line per sample, indices ascending.

    features: number of columns d, which the file need not use up. first_index: of the first column.
    labels: raw label, a number → value; None takes labels as they are. keep: `qid` or nothing.
    Explicit zeros are dropped; rows without any feature are kept; text from `#` to the end of a
    line is a comment; a query, `qid:…`, is left out unless it is kept.
    Returns (n, d) features, dense where more than half of them are not zero, else CSR.
    Raises FedatlasError, naming file and line, when a line is malformed, blank between samples,
    lacks a query that is to be kept, holds a value that is not finite, an index outside the columns
    or out of order, or a label that is not in `labels`; and when there is no sample.
    """
    from scipy import sparse
    from sklearn.datasets import load_svmlight_file

    labels_of_blocks = []

    def blocks(lines: _Lines) -> Iterator[Any]:
        while lines.are_left:
            # A compiled parser, ten times faster than ours but lenient and terse: it checks neither
            # finiteness nor labels and never names a line.
            matrix, raw = load_svmlight_file(
                lines, n_features=features, dtype=np.float64, zero_based=first_index == 0
            )
            if not np.isfinite(matrix.data).all():
                raise ValueError("values are not finite")
            matrix.eliminate_zeros()
            labels_of_blocks.append(mapped(raw, labels))
            yield in_smaller_layout(sparse.csr_array(matrix))

    try:
        with reading(path), _Lines(path, features, labels, first_index, keep) as lines:
            rows = in_smaller_layout(joined(blocks(lines)))
        if lines.samples == 0:
            raise FedatlasError(f"{path}: holds no samples")
        label = np.concatenate(labels_of_blocks)
        if len(label) != lines.samples or not np.isfinite(label).all():
            raise ValueError("labels are not finite")
    except (ValueError, OverflowError) as error:
        with _Lines(path, features, labels, first_index) as lines:
            while lines.are_left:
                for line in lines:
                    lines.check(line.partition(b"#")[0])
        raise FedatlasError(f"{path}: is not LIBSVM text: {error}") from error
    if lines.has_queries and not keep:
        log.warning("%s: its queries, 'qid:…', are left out", path)
    return Samples.numbered(label, rows, dict.fromkeys(keep, lines.queries))


_USUAL = b"0123456789eE+-.: \t\r\n"
# Anything but plain numbers: a comment, `nan`, `1_000` or a stray byte.
_UNUSUAL = re.compile(rb"[^0-9eE+\-.: \t\r\n]")
# What is looked for line by line: a line that may be blank, or a blank in a pair.
_LOOKED_AT = (b"\n\n", b"\n ", b"\n\t", b"\n\r", b": ", b":\t")
_QUERY = re.compile(rb"^(\s*\S+[ \t]+)qid:([0-9]+)(?=\s|$)")
_BLANK_IN_PAIR = re.compile(rb":[ \t]+")
# Read at once, and parsed at once: the parser takes twice the memory of what it reads.
_READ_BYTES, _PARSED_BYTES = 1 << 18, 1 << 24


class _Lines(io.BufferedReader):
    """The lines of a file as the compiled parser reads them right, some megabytes at a time.

    Counts the samples, and looks closely at lines that the parser may misread.
    are_left: whether to go through it again, for the lines that follow.
    """

    def __init__(
        self,
        path: Path,
        features: int,
        labels: Mapping[Raw, float] | None,
        first_index: int,
        keep: Sequence[str] = (),
    ) -> None:
        super().__init__(io.FileIO(path))
        self._path, self._features, self._labels = path, features, labels
        self._first = first_index
        self._number = self._blank = self.samples = 0
        self.are_left, self.has_queries, self._keep = True, False, keep
        self.queries: list[int] = []

    def __iter__(self) -> Iterator[bytes]:
        unread = _PARSED_BYTES
        while unread > 0:
            text = self.read(_READ_BYTES)
            text += self.readline()
            if not text:
                self.are_left = False
                return
            unread -= len(text)
            lines = text.split(b"\n")
            if not lines[-1]:
                del lines[-1]
            if self._are_plain(text):
                self.samples += len(lines)
                for line in lines:
                    self._number += 1
                    yield line
            else:
                yield from map(self._looked_at, lines)

    def _are_plain(self, text: bytes) -> bool:
        """Whether these lines have nothing to look at."""
        begun = b"\n" + text
        return not (
            self._blank
            or self._keep
            or text.translate(None, _USUAL)
            or any(pattern in begun for pattern in _LOOKED_AT)
        )

    def _looked_at(self, line: bytes) -> bytes:
        self._number += 1
        if self._number == 1:
            line = line.removeprefix(BOM_UTF8)
        query = _QUERY.match(line) if b"qid:" in line else None
        if query:
            self.has_queries = True
            line = query[1] + line[query.end() :]
        # As svm-train reads `4: .50`.
        if b": " in line or b":\t" in line:
            line = _BLANK_IN_PAIR.sub(b":", line)
        unusual = _UNUSUAL.search(line)
        content = line.partition(b"#")[0] if unusual else line
        if unusual:
            self.check(content)
        if content and not content.isspace():
            if self._blank:
                raise FedatlasError(f"{self._path}:{self._blank}: missing label: the line is blank")
            self.samples += 1
            if self._keep and query is None:
                raise FedatlasError(
                    f"{self._path}:{self._number}: lacks the query, 'qid:…', that 'keep' asks for"
                )
            if self._keep and query:
                self.queries.append(int(query[2]))
        elif not unusual:  # a comment on a line of its own is no gap
            self._blank = self._blank or self._number
        return line

    def check(self, content: bytes) -> None:
        """Raise FedatlasError unless the present line, without its comment, is sound."""
        where = f"{self._path}:{self._number}"
        fields = [field.decode("utf-8", "backslashreplace") for field in content.split()]
        if not fields:
            return
        if ":" in fields[0]:
            raise FedatlasError(f"{where}: missing label: the line starts with '{fields[0]}'")
        label = plain_number(fields[0])
        if label is None or not math.isfinite(label):
            raise FedatlasError(f"{where}: label '{fields[0]}' is not a finite number")
        if self._labels is not None and label not in self._labels:
            allowed = ", ".join(f"{value:g}" for value in sorted(map(float, self._labels)))
            raise FedatlasError(
                f"{where}: label '{fields[0]}' is not one of those under 'labels' in the "
                f"catalogue: {allowed}"
            )
        previous = self._first - 1
        for field in fields[1:]:
            if problem := self._problem(field, previous):
                raise FedatlasError(f"{where}: {problem}")
            previous = int(field.partition(":")[0])

    def _problem(self, field: str, previous: int) -> str | None:
        """The fault of a pair that follows one of index `previous`; None if it is sound."""
        index_text, colon, value_text = field.partition(":")
        if not (colon and index_text and value_text):
            return f"'{field}' is not index:value; is the line cut short?"
        if not re.fullmatch(r"[+-]?[0-9]+", index_text):
            return f"feature index '{index_text}' is not a whole number"
        # Compared by length first: Python refuses to convert thousands of digits.
        index = int(index_text) if len(index_text) < 20 else math.inf
        if index < self._first:
            hint = ": state 'first_index: 0' if those of the file start at 0" if index == 0 else ""
            return f"feature index {index_text}; indices start at {self._first}{hint}"
        if index >= self._first + self._features:
            declared = f"{self._features} features are declared, from {self._first} on"
            return f"feature index {index_text}, but {declared}: raise 'features'"
        if index <= previous:
            order = "occurs twice" if index == previous else f"after {previous}; sort them"
            return f"feature index {index_text} {order}"
        value = plain_number(value_text)
        if value is None or not math.isfinite(value):
            return f"value '{value_text}' is not a finite number"
        return None
