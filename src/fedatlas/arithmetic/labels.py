"""Whether samples suit a linear model."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.schema.objectives import LinearObjective, Loss


def has_two_classes(
    objective: LinearObjective, dataset: Any, features: Any, labels: Sequence[np.ndarray]
) -> bool:
    """Whether all labels are ±1; otherwise accuracy has no meaning.

    labels: of training and, if there are any, of test samples. FedatlasError if samples are images,
    or if the loss needs labels ±1 and there are others.
    """
    if features.dtype == np.uint8:
        raise FedatlasError(
            f"objective '{objective.name}': data set '{dataset}' holds images, which linear models "
            "here do not take"
        )
    every = np.concatenate(labels)
    others = every[~np.isin(every, (-1.0, 1.0))]
    if objective.loss is Loss.LOGISTIC and len(others):
        raise FedatlasError(
            f"objective '{objective.name}' needs labels ±1, but data set '{dataset}' has others, "
            f"such as {others[0]:g}"
        )
    return not len(others)
