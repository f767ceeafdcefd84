"""Accuracy by client, for several measurements."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fedatlas.measurements import Measurement


class OfClients(Measurement):
    """A number of the clients' accuracies, each on its own training samples, around a server."""

    federations: ClassVar[tuple[str, ...]] = ("horizontal",)
    best: ClassVar[int | None] = 1


def accuracies(problem: Any, point: Any, rows: str = "train") -> np.ndarray:
    """The share of each client's samples whose class a model predicts, of clients that have some.

    (clients,) or fewer. rows: "train", or "validation".
    """
    predicted = problem.predicted(point, rows)
    sizes = np.diff(predicted.offsets)
    right = np.concatenate([[0], np.cumsum(predicted.right)])
    held = sizes > 0
    found: np.ndarray = np.diff(right[predicted.offsets])[held] / sizes[held]
    return found
