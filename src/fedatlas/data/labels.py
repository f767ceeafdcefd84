"""Raw labels → the values that the catalogue maps them to."""

from collections.abc import Mapping

import numpy as np

from fedatlas.errors import FedatlasError


class UnknownLabel(FedatlasError):
    """A label of a raw file that the catalogue gives no meaning; label: as the file has it."""

    def __init__(self, message: str, label: str) -> None:
        super().__init__(message)
        self.label = label


def label_key(raw: str) -> float | str:
    """What raw labels are compared by: the number where there is one, else the trimmed text."""
    number = plain_number(raw)
    return raw.strip() if number is None else number


def require_quoted(raw: object) -> None:
    """Raise ValueError for a truth value: what the file says, yes or on or true, is lost."""
    if isinstance(raw, bool):
        words = "yes, on or true" if raw else "no, off or false"
        raise ValueError(
            f"YAML reads {words} as a truth value: quote it as the file has it, such as "
            f'"{words.partition(",")[0]}"'
        )


def plain_number(text: str) -> float | None:
    """The number that `text` holds; None for Python's own `1_000` and for other alphabets."""
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


def numeric_labels(labels: Mapping[str, float] | None, where: object) -> dict[float, float] | None:
    """The label map with numbers as keys; FedatlasError if a raw label is none."""
    if labels is None:
        return None
    keys = {raw: label_key(raw) for raw in labels}
    for raw, key in keys.items():
        if isinstance(key, str):
            raise FedatlasError(
                f"{where}: key 'labels': maps '{raw}', but the labels of the file are numbers"
            )
    return {float(keys[raw]): value for raw, value in labels.items()}


def mapped(raw: np.ndarray, labels: Mapping[float, float] | None) -> np.ndarray:
    """(n,) float64 values of numeric labels (n,); NaN where the map has none."""
    raw = raw.astype(np.float64)
    if labels is None:
        return raw
    distinct, inverse = np.unique(raw, return_inverse=True)
    return np.array([labels.get(float(x), np.nan) for x in distinct])[inverse]
