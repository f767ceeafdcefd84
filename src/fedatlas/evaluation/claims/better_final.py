from typing import Literal

from fedatlas.evaluation.ends import FinalTest


class BetterFinalTest(FinalTest):
    """The measurement that `first` ends with is better: a larger accuracy, a smaller error."""

    kind: Literal["better_final"]
