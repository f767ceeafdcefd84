"""Readers: raw files of each format → samples.

A reader is a function from a data set, the name of a split and its raw files, in the order of
the catalogue, to all samples of the split; adding a format is adding one to `READERS`.
"""

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from scipy import sparse

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.catalogue import Dataset, label_key, plain_number
from fedatlas.data.csv import read_csv
from fedatlas.data.image_folder import read_image_folder
from fedatlas.data.image_views import read_image_views
from fedatlas.data.images import read_cifar, read_idx
from fedatlas.data.mimic3 import read_mimic3
from fedatlas.data.synthetic import make_samples
from fedatlas.data.synthetic_series import make_series
from fedatlas.errors import FedatlasError

Reader = Callable[[Dataset, str, list[Path]], Samples]


def read_raw(dataset: Dataset, split: str, raw: list[Path]) -> Samples:
    """Read one split, with labels mapped as the catalogue says.

    raw: its files, in the order of the catalogue; empty for bundled and synthetic data.
    Raises FedatlasError when the format has no reader, a file is malformed, or the numbers of
    files, features or rows are not those of the catalogue.
    """
    declared = dataset.split(split)
    if dataset.format not in READERS:
        raise FedatlasError(
            f"data set '{dataset.name}': no reader for format '{dataset.format}'; "
            f"readable: {', '.join(sorted(READERS))}"
        )
    if len(raw) != len(declared.files):
        raise FedatlasError(
            f"data set '{dataset.name}', split '{split}': expected {len(declared.files)} raw "
            f"files, got {len(raw)}"
        )
    samples = READERS[dataset.format](dataset, split, raw)
    if declared.rows not in (None, len(samples)):
        raise FedatlasError(
            f"data set '{dataset.name}', split '{split}': expected {declared.rows} rows, found "
            f"{len(samples)} in {', '.join(map(str, raw)) or 'the bundled data'}; the file may be "
            "cut short"
        )
    return samples


def read_libsvm(path: Path, features: int, labels: Mapping[str, float] | None) -> Samples:
    """Read LIBSVM text: one `label index:value …` line per sample, indices from 1, ascending.

    features: number of columns d, which the file need not use up.
    labels: raw label → value, compared as numbers; None takes labels as they are.
    Explicit zeros are dropped; rows without any feature are kept; text from `#` to the end of a
    line is a comment. Returns (n, d) CSR features. Raises FedatlasError, naming file and line,
    when a line is malformed, blank between samples, holds a value that is not finite, an index
    outside 1 … d or out of order, or a label that is not in `labels`; and when there is no sample.
    """
    # Imported here: it takes a second, and only this format needs it.
    from sklearn.datasets import load_svmlight_file

    values = _numeric(labels, path)
    try:
        rows = _count_rows(path, features, values)
        with path.open("rb") as stream:
            # A compiled parser, ten times faster than ours but lenient and terse: it checks
            # neither finiteness nor labels and never names a line.
            matrix, raw_labels = load_svmlight_file(
                stream, n_features=features, dtype=np.float64, zero_based=False
            )
    except (ValueError, OverflowError) as error:
        raise _first_problem(path, features, values, str(error)) from error
    except OSError as error:
        raise FedatlasError(f"{path}: cannot be read: {error.strerror or error}") from error
    if rows == 0:
        raise FedatlasError(f"{path}: holds no samples")
    if matrix.shape[0] != rows or not np.isfinite(matrix.data).all():
        raise _first_problem(path, features, values, "values are not finite")
    label = _mapped(raw_labels, values)
    if not np.isfinite(label).all():
        raise _first_problem(path, features, values, "labels are not finite")
    matrix = sparse.csr_array(matrix)
    matrix.eliminate_zeros()
    return Samples(np.arange(rows, dtype=np.int64), label, matrix)


# Anything but plain numbers: a comment, `nan`, `qid:`, `1_000` or a stray byte.
_UNUSUAL = re.compile(rb"[^0-9eE+\-.: \t\r\n]")


def _count_rows(path: Path, features: int, labels: Mapping[float, float] | None) -> int:
    """Count the samples, looking closely only at lines that the compiled parser may misread."""
    rows = 0
    blank = None
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            content = line
            if _UNUSUAL.search(line):
                content = line.partition(b"#")[0]
                _check_line(content, path, number, features, labels)
            if content.isspace() or not content:
                # A comment on a line of its own is no gap.
                blank = number if content is line and blank is None else blank
                continue
            if blank is not None:
                raise FedatlasError(f"{path}:{blank}: missing label: the line is blank")
            rows += 1
    return rows


def _check_line(
    content: bytes, path: Path, number: int, features: int, labels: Mapping[float, float] | None
) -> None:
    """Raise FedatlasError if a line, without its comment, is malformed."""
    where = f"{path}:{number}"
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
        raise FedatlasError(f"{where}: label '{fields[0]}' is not one of the allowed: {allowed}")
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


def _first_problem(
    path: Path, features: int, labels: Mapping[float, float] | None, otherwise: str
) -> FedatlasError:
    """The error of the first malformed line; with `otherwise` if no line is to blame."""
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                _check_line(line.partition(b"#")[0], path, number, features, labels)
    except FedatlasError as problem:
        return problem
    return FedatlasError(f"{path}: is not LIBSVM text: {otherwise}")


def _numeric(labels: Mapping[str, float] | None, path: Path) -> dict[float, float] | None:
    """The label map with numbers as keys."""
    if labels is None:
        return None
    keys = {raw: label_key(raw) for raw in labels}
    for raw, key in keys.items():
        if isinstance(key, str):
            raise FedatlasError(f"{path}: its labels are numbers, the catalogue maps '{raw}'")
    return {float(keys[raw]): value for raw, value in labels.items()}


def _mapped(raw: np.ndarray, labels: Mapping[float, float] | None) -> np.ndarray:
    """(n,) mapped labels; NaN where the map has none."""
    if labels is None:
        return raw
    distinct, inverse = np.unique(raw, return_inverse=True)
    return np.array([labels.get(float(x), np.nan) for x in distinct])[inverse]


def _one_libsvm(dataset: Dataset, split: str, raw: list[Path]) -> Samples:
    if len(raw) != 1:
        raise FedatlasError(f"data set '{dataset.name}', split '{split}': LIBSVM takes one file")
    samples = read_libsvm(raw[0], dataset.features, dataset.labels)
    if dataset.classes is not None:
        _check_classes(samples.label, dataset, str(raw[0]))
    return samples


def _bundled(dataset: Dataset, split: str, raw: list[Path]) -> Samples:
    """Data that come with scikit-learn, unscaled, or are written here."""
    assert dataset.bundled is not None  # the catalogue's own rule for this format
    features, target = _load_bundled(dataset.bundled)
    where = f"data set '{dataset.name}'"
    if features.shape[1] != dataset.features:
        raise FedatlasError(
            f"{where}: {dataset.features} features are declared, found {features.shape[1]}"
        )
    label = _mapped(target.astype(np.float64), _numeric(dataset.labels, Path(dataset.bundled)))
    if np.isnan(label).any():
        raise FedatlasError(f"{where}: 'labels' must map {', '.join(map(str, np.unique(target)))}")
    if dataset.classes is not None:
        _check_classes(label, dataset, where)
    return Samples(np.arange(len(label), dtype=np.int64), label, features.astype(np.float64))


def _load_bundled(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, d) and labels (n,) as they are published."""
    if name == "two_points":
        return np.array([[1.0], [-1.0]]), np.array([1, -1])
    # Imported here: it takes a second, and only these sets need it.
    from sklearn import datasets

    load = {"breast_cancer": datasets.load_breast_cancer, "digits": datasets.load_digits}
    features, target = load[name](return_X_y=True)
    return features, target


def _check_classes(label: np.ndarray, dataset: Dataset, where: str) -> None:
    """Multiclass labels must be the classes 0 … classes - 1 once they are mapped."""
    assert dataset.classes is not None
    strange = ~np.isin(label, np.arange(dataset.classes))
    if strange.any():
        raise FedatlasError(
            f"{where}: label {label[strange][0]:g} of sample {int(np.argmax(strange))} is not a "
            f"class from 0 to {dataset.classes - 1}; map it with 'labels' in the catalogue"
        )


def _one_csv(dataset: Dataset, split: str, raw: list[Path]) -> Samples:
    if len(raw) != 1:
        raise FedatlasError(f"data set '{dataset.name}', split '{split}': CSV takes one file")
    assert dataset.csv is not None  # the catalogue's own rule for this format
    samples = read_csv(raw[0], dataset.csv, dataset.labels)
    if dataset.classes is not None:
        _check_classes(samples.label, dataset, str(raw[0]))
    return samples


def _one_idx(dataset: Dataset, split: str, raw: list[Path]) -> Samples:
    if len(raw) != 2:
        raise FedatlasError(
            f"data set '{dataset.name}', split '{split}': IDX takes two files, images and labels"
        )
    assert dataset.shape is not None  # the catalogue's own rule for formats of images
    pixels, labels = read_idx(raw[0], raw[1], dataset.shape)
    return _of_images([pixels], [_image_labels(labels, dataset, raw[1])])


def _cifar_batches(dataset: Dataset, split: str, raw: list[Path]) -> Samples:
    assert dataset.shape is not None  # the catalogue's own rule for formats of images
    batches = [read_cifar(path, dataset.shape) for path in raw]
    labels = [
        _image_labels(labels, dataset, path) for path, (_, labels) in zip(raw, batches, strict=True)
    ]
    return _of_images([pixels for pixels, _ in batches], labels)


def _image_folder(dataset: Dataset, split: str, raw: list[Path]) -> Samples:
    assert dataset.image_folder is not None and dataset.shape is not None  # the catalogue's rules
    pixels, labels = read_image_folder(
        raw[0], dataset.image_folder, split, dataset.shape, dataset.classes
    )
    return _of_images([pixels], [_image_labels(labels, dataset, raw[0])])


def _image_views(dataset: Dataset, split: str, raw: list[Path]) -> Samples:
    assert dataset.image_views is not None and dataset.shape is not None  # the catalogue's rules
    pixels, labels = read_image_views(
        raw[0], dataset.image_views, split, dataset.shape, dataset.split(split).rows
    )
    return _of_images([pixels], [_image_labels(labels, dataset, raw[0])])


def _image_labels(raw: np.ndarray, dataset: Dataset, path: Path) -> np.ndarray:
    """(n,) mapped labels of one file."""
    label = _mapped(raw.astype(np.float64), _numeric(dataset.labels, path))
    if np.isnan(label).any():
        sample = int(np.argmax(np.isnan(label)))
        raise FedatlasError(
            f"{path}: label {raw[sample]} of sample {sample} is not one of those under 'labels' in "
            "the catalogue"
        )
    if dataset.classes is not None:
        _check_classes(label, dataset, str(path))
    return label


def _of_images(pixels: list[np.ndarray], labels: list[np.ndarray]) -> Samples:
    label = np.concatenate(labels)
    return Samples(
        np.arange(len(label), dtype=np.int64),
        label,
        pixels[0] if len(pixels) == 1 else np.concatenate(pixels),
    )


def _synthetic(dataset: Dataset, split: str, raw: list[Path]) -> Samples:
    rows = dataset.split(split).rows
    assert dataset.synthetic is not None and rows is not None  # the catalogue's own rules
    return make_samples(dataset.synthetic, dataset.features, split, rows)


def _synthetic_series(dataset: Dataset, split: str, raw: list[Path]) -> Samples:
    rows = dataset.split(split).rows
    made, shape = dataset.synthetic_series, dataset.shape
    assert made is not None and shape is not None and rows is not None  # the catalogue's own rules
    return make_series(made, shape[0], split, rows)


def _mimic3(dataset: Dataset, split: str, raw: list[Path]) -> Samples:
    assert dataset.labels is not None  # the catalogue's own rule for binary sets
    return read_mimic3(raw[0], split, dataset.labels, dataset.split(split).rows)


READERS: dict[str, Reader] = {
    "libsvm": _one_libsvm,
    "bundled": _bundled,
    "csv": _one_csv,
    "idx": _one_idx,
    "cifar": _cifar_batches,
    "image_folder": _image_folder,
    "image_views": _image_views,
    "mimic3": _mimic3,
    "synthetic": _synthetic,
    "synthetic_series": _synthetic_series,
}
