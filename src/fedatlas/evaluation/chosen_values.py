"""Claims about hyper-parameters, as each seed alone would choose them."""

from abc import ABC

import numpy as np

from fedatlas.schema.claims import ClaimTest, Outcome
from fedatlas.schema.experiments import Experiment


class ChosenValueTest(ClaimTest, ABC):
    """A test of a selected hyper-parameter, on which all seeds must agree."""

    hyper_parameter: str

    def check(self, experiment: Experiment) -> None:
        for run in self.runs:
            stated = experiment.runs[run].hyper_parameters | experiment.runs[run].grid
            if experiment.runs[run].tuned_in is None and self.hyper_parameter not in stated:
                raise ValueError(
                    f"run '{run}' states no hyper-parameter '{self.hyper_parameter}'; it states "
                    f"{', '.join(stated)}"
                )


def unanimous(agrees: np.ndarray, disagrees: np.ndarray) -> Outcome:
    """The verdict of masks (seeds,) of those that agree and those that disagree."""
    if agrees.size > 1 and agrees.all():
        return "reproduced"
    if disagrees.size > 1 and disagrees.all():
        return "not reproduced"
    return "inconclusive"  # seeds differ, or there is only one


def listing(values: np.ndarray) -> str:
    """Values by seed, in words."""
    named = ("none" if np.isnan(value) else f"{value:g}" for value in values)
    return "{" + ", ".join(named) + "}"
