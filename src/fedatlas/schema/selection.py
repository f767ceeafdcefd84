"""How the best point of a grid is chosen."""

from typing import Self

from pydantic import Field, model_validator

from fedatlas.schema.measurements import Level
from fedatlas.schema.models import Model


class Selection(Model):
    """How a grid's best point is chosen, on training data, by the same rule for every run.

    Score of a seed: mean log10 of the measurement over the last `window` of the rounds, of what is
    best at 1 (accuracy, AUROC) mean log10(1 − value), so that the lowest score is the best; of a
    point: the median over seeds. A point with a diverged seed is chosen only if all have one.

    shared: run → the run with the same grid whose point it takes.
    """

    measurement: Level = "gradient_norm"
    window: float = Field(default=0.1, gt=0, le=1)
    shared: dict[str, str] = Field(default={})

    @model_validator(mode="after")
    def _shared_points_are_chosen(self) -> Self:
        for run, other in self.shared.items():
            if other in self.shared:
                raise ValueError(
                    f"shared: '{run}' takes the point of '{other}', which chooses none itself"
                )
        return self
