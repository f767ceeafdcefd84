from typing import Literal

from pydantic import Field, PositiveFloat

from fedatlas.evaluation.comparison import Direction
from fedatlas.evaluation.ends import FinalTest


class EqualFinalTest(FinalTest):
    """The measurements that two runs end with are closer than the smallest effect that counts."""

    kind: Literal["equal_final"]
    smallest_effect: PositiveFloat = Field(
        description="closer than this is equal: a factor of levels, a difference of scores"
    )

    @property
    def direction(self) -> Direction:
        return "equal"
