"""How well a linear model predicts rows."""

import numpy as np


def quality(rows: str, margins: np.ndarray, label: np.ndarray, classes: bool) -> dict[str, float]:
    """Accuracy where labels are ±1 (`classes`), otherwise the root mean square error.

    rows: "train" or "test", as measurements are named; margins, label: (n,).
    """
    if classes:
        return {f"{rows}_accuracy": float(((margins > 0) == (label > 0)).mean())}
    return {f"{rows}_rmse": float(((margins - label) ** 2).mean() ** 0.5)}
