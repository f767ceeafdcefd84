"""Accuracy on validation rows, which nobody trains on and which choose points of grids."""

from typing import Any, ClassVar

from fedatlas.measurements import Measurement


class ValidationAccuracy(Measurement):
    """The share of all validation rows whose class the model predicts, around a server."""

    title = "accuracy on the validation samples"
    best: ClassVar[int | None] = 1
    federations: ClassVar[tuple[str, ...]] = ("horizontal",)

    def measure(self, problem: Any, point: Any) -> float:
        return float(problem.predicted(point, "validation").right.mean())
