"""A paper's claims as data: what experiment files may state, and how it will be tested.

Every test compares logarithms over seeds with a declared region, by one rule (see
`fedatlas.evaluation.judge`): the 95 % interval inside the region is `reproduced`, outside it is
`not reproduced`, across its border is `inconclusive`. Regions are fixed here, before any run.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from fedatlas.models import Model

Measurement = Literal["objective", "gradient_norm", "train_accuracy"]
# What falls towards zero, so that its logarithm tells how far a run got.
Level = Literal["objective", "gradient_norm"]
Cost = Literal["round", "epoch", "gradient_evaluations", "bytes"]

#: How papers' words are read as ratios of `first` to `second` (smaller is better): our choice.
RELATION_FACTORS: dict[str, tuple[float, float]] = {
    "faster": (0.0, 1.0),
    "at_least_as_fast": (0.0, 1.1),  # "≥"
    "much_faster": (0.0, 0.5),  # "≫"
    "similar": (1 / 1.5, 1.5),  # "nearly the same"
}
Relation = Literal["faster", "at_least_as_fast", "much_faster", "similar"]


class PairTest(Model):
    """What comparisons of `first` with `second` have in common."""

    first: str
    second: str
    relation: Relation
    measurement: Level = "gradient_norm"
    cost: Cost = "round"

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs that the test looks at."""
        return (self.first, self.second)


class OrderTest(PairTest):
    """The measurement that two runs reach at equal cost."""

    kind: Literal["order"]
    at: PositiveFloat | None = Field(
        default=None, description="cost at which to compare; None: the largest that both reached"
    )
    for_each: Literal["effective_step_size", "selected"] = Field(
        default="selected",
        description="one case per step size that both runs have, or the selected points only",
    )


class CostToTargetTest(PairTest):
    """The cost at which two runs reach a common level of the measurement."""

    kind: Literal["cost_to_target"]
    target: PositiveFloat | None = Field(
        default=None, description="None: the lowest level that both runs' medians reach"
    )


class MonotoneTest(Model):
    """Within one run, each larger step against the next smaller: at least as fast.

    A point whose median ends above where it started has not converged and is left out.
    """

    kind: Literal["monotone"]
    run: str
    measurement: Level = "gradient_norm"

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs that the test looks at."""
        return (self.run,)


class PublishedValueTest(Model):
    """A selected hyper-parameter against the number that the paper prints."""

    kind: Literal["published_value"]
    run: str
    hyper_parameter: str
    value: float
    tolerance: float = Field(ge=0, description="largest absolute difference that still agrees")

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs that the test looks at."""
        return (self.run,)


class SelectedOrderTest(Model):
    """The selected hyper-parameter of `larger` is above that of `smaller`."""

    kind: Literal["selected_order"]
    larger: str
    smaller: str
    hyper_parameter: str

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs that the test looks at."""
        return (self.larger, self.smaller)


ClaimTest = Annotated[
    OrderTest | CostToTargetTest | MonotoneTest | PublishedValueTest | SelectedOrderTest,
    Field(discriminator="kind"),
]


class Claim(Model):
    """One sentence of a paper and its test."""

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    source: str = Field(description="figure, table or section; 'ours' for a claim the paper lacks")
    statement: str
    test: ClaimTest


class Selection(Model):
    """How a grid's best point is chosen, on training data, by the same rule for every run.

    Score of a seed: mean log10 of the measurement over the last `window` of the rounds; of a point:
    the median over seeds. A point with a diverged seed is chosen only if all have one.
    """

    measurement: Level = "gradient_norm"
    window: float = Field(default=0.1, gt=0, le=1)


class Figure(Model):
    """What an experiment's figure shows: rows of small panels, one column per cost axis."""

    measurement: Measurement = "gradient_norm"
    rows: Literal["effective_step_size", "partition", "none"] = "none"
    points: Literal["all", "selected"] = "all"

    @model_validator(mode="after")
    def _rows_need_all_points(self) -> Self:
        if self.rows == "effective_step_size" and self.points == "selected":
            raise ValueError("rows by effective_step_size need points: all")
        return self
