"""LIBSVM text: one `label index:value …` line per sample."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Dataset
from fedatlas.data.folders import reading
from fedatlas.data.labels import UnknownLabel, mapped, numeric_labels, plain_number
from fedatlas.errors import FedatlasError


class LibsvmDataset(Dataset):
    """Sparse rows; labels are numbers."""

    format: Literal["libsvm"]

    def read(self, split: str, raw: list[Path]) -> Samples:
        return read_libsvm(raw[0], self.features, self.labels)


def read_libsvm(path: Path, features: int, labels: Mapping[str, float] | None) -> Samples:
    """Read LIBSVM text: one `label index:value …` line per sample, indices from 1, ascending.

    features: number of columns d, which the file need not use up.
    labels: raw label → value, compared as numbers; None takes labels as they are.
    Explicit zeros are dropped; rows without any feature are kept; text from `#` to the end of a
    line is a comment. Returns (n, d) CSR features. Raises FedatlasError, naming file and line,
    when a line is malformed, blank between samples, holds a value that is not finite, an index
    outside 1 … d or out of order, or a label that is not in `labels`; and when there is no sample.
    """
    from scipy import sparse
    from sklearn.datasets import load_svmlight_file

    values = numeric_labels(labels, path)
    try:
        with reading(path), path.open("rb") as stream:
            rows = _count_rows(stream, path, features, values)
            stream.seek(0)
            # A compiled parser, ten times faster than ours but lenient and terse: it checks
            # neither finiteness nor labels and never names a line.
            matrix, raw_labels = load_svmlight_file(
                stream, n_features=features, dtype=np.float64, zero_based=False
            )
        if rows == 0:
            raise FedatlasError(f"{path}: holds no samples")
        label = mapped(raw_labels, values)
        finite = np.isfinite(matrix.data).all() and np.isfinite(label).all()
        if matrix.shape[0] != rows or not finite:
            raise ValueError("values or labels are not finite")
    except (ValueError, OverflowError) as error:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                _check_line(f"{path}:{number}", line.partition(b"#")[0], features, values)
        raise FedatlasError(f"{path}: is not LIBSVM text: {error}") from error
    matrix = sparse.csr_array(matrix)
    matrix.eliminate_zeros()
    return Samples.numbered(label, matrix)


# Anything but plain numbers: a comment, `nan`, `qid:`, `1_000` or a stray byte.
_UNUSUAL = re.compile(rb"[^0-9eE+\-.: \t\r\n]")


def _count_rows(
    stream: BinaryIO, path: Path, features: int, labels: Mapping[float, float] | None
) -> int:
    """Count the samples, looking closely only at lines that the compiled parser may misread."""
    rows = 0
    blank = None
    for number, line in enumerate(stream, start=1):
        content = line
        if _UNUSUAL.search(line):
            content = line.partition(b"#")[0]
            _check_line(f"{path}:{number}", content, features, labels)
        if content.isspace() or not content:
            # A comment on a line of its own is no gap.
            blank = number if content is line and blank is None else blank
            continue
        if blank is not None:
            raise FedatlasError(f"{path}:{blank}: missing label: the line is blank")
        rows += 1
    return rows


def _check_line(
    where: str, content: bytes, features: int, labels: Mapping[float, float] | None
) -> None:
    """Raise FedatlasError, which begins with `where`, unless a line without comment is sound."""
    fields = [field.decode("utf-8", "backslashreplace") for field in content.split()]
    if not fields:
        return
    if ":" in fields[0]:
        raise FedatlasError(f"{where}: missing label: the line starts with '{fields[0]}'")
    label = plain_number(fields[0])
    if label is None or not math.isfinite(label):
        raise FedatlasError(f"{where}: label '{fields[0]}' is not a finite number")
    if labels is not None and label not in labels:
        allowed = ", ".join(f"{value:g}" for value in sorted(labels))
        raise UnknownLabel(
            f"{where}: label '{fields[0]}' is not one of the allowed: {allowed}", fields[0]
        )
    previous = 0
    for field in fields[1:]:
        index_text, colon, value_text = field.partition(":")
        if not (colon and index_text and value_text):
            raise FedatlasError(f"{where}: '{field}' is not index:value; is the line cut short?")
        if not re.fullmatch(r"[+-]?[0-9]+", index_text):
            raise FedatlasError(f"{where}: feature index '{index_text}' is not a whole number")
        # Compared by length first: Python refuses to convert thousands of digits.
        index = int(index_text) if len(index_text) < 20 else math.inf
        if index < 1:
            raise FedatlasError(f"{where}: feature index {index_text}; indices start at 1")
        if index > features:
            raise FedatlasError(
                f"{where}: feature index {index_text}, but {features} features are declared"
            )
        if index == previous:
            raise FedatlasError(f"{where}: feature index {index_text} occurs twice")
        if index < previous:
            raise FedatlasError(f"{where}: feature index {index_text} after {previous}; sort them")
        previous = int(index)
        value = plain_number(value_text)
        if value is None or not math.isfinite(value):
            raise FedatlasError(f"{where}: value '{value_text}' is not a finite number")
