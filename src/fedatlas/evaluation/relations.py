"""How papers' words are read as ratios of two runs' levels or costs: our choice."""

from abc import ABC
from typing import Literal

from fedatlas.schema.claims import PairTest
from fedatlas.schema.cost_names import Cost
from fedatlas.schema.measurements import Level

Relation = Literal["faster", "at_least_as_fast", "much_faster", "similar"]

#: Ranges of `first` over `second`; of distances to 1 for measurements that are best there.
RELATION_FACTORS: dict[Relation, tuple[float, float]] = {
    "faster": (0.0, 1.0),
    "at_least_as_fast": (0.0, 1.1),  # "≥"
    "much_faster": (0.0, 0.5),  # "≫"
    "similar": (1 / 1.5, 1.5),  # "nearly the same"
}


class RelationTest(PairTest, ABC):
    """A comparison of `first` with `second` by one of these words."""

    relation: Relation
    measurement: Level = "gradient_norm"
    cost: Cost = "round"
