"""How well a linear model predicts rows, and whether their labels are classes."""

from typing import Any

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.schema.objectives import LinearObjective, Loss


def has_two_classes(
    objective: LinearObjective, metadata: dict[str, Any], train: Any, test: Any | None
) -> bool:
    """Whether all labels are ±1, without which accuracy has no meaning.

    train, test: rows with features and label. FedatlasError if samples are images, or if the loss
    needs labels ±1 and there are others.
    """
    dataset = metadata.get("dataset")
    if train.features.dtype == np.uint8:
        raise FedatlasError(
            f"objective '{objective.name}': data set '{dataset}' holds images, which linear models "
            "here do not take"
        )
    every = train.label if test is None else np.concatenate([train.label, test.label])
    others = every[~np.isin(every, (-1.0, 1.0))]
    if objective.loss is Loss.LOGISTIC and len(others):
        raise FedatlasError(
            f"objective '{objective.name}' needs labels ±1, but data set '{dataset}' has others, "
            f"such as {others[0]:g}"
        )
    return not len(others)


def quality(rows: str, margins: np.ndarray, label: np.ndarray, classes: bool) -> dict[str, float]:
    """Accuracy where labels are ±1 (`classes`), otherwise the root mean square error.

    rows: "train" or "test", as measurements are named; margins, label: (n,).
    """
    if classes:
        return {f"{rows}_accuracy": float(((margins > 0) == (label > 0)).mean())}
    return {f"{rows}_rmse": float(((margins - label) ** 2).mean() ** 0.5)}
