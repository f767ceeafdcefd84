"""Error on validation rows, which nobody trains on, for numeric labels."""

from typing import Any, ClassVar

import numpy as np

from fedatlas.measurements import Measurement


class ValidationRmse(Measurement):
    """The root mean square error of all validation rows, around a server."""

    title = "root mean square error on the validation samples"
    best: ClassVar[int | None] = 0
    federations: ClassVar[tuple[str, ...]] = ("horizontal",)

    def measure(self, problem: Any, point: Any) -> float:
        found = problem.predicted(point, "validation")
        return float(np.sqrt(np.mean((found.outputs.ravel() - found.labels) ** 2)))
