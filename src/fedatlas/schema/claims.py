"""A paper's claims as data: what experiment files may state, and how it will be tested.

Every test compares a number per seed with a declared region, by one rule (see
`fedatlas.evaluation.judge`): the 95 % interval inside the region is `reproduced`, outside it is
`not reproduced`, across its border is `inconclusive`. Regions are fixed here, before any run.
"""

from typing import Annotated, Literal, Self

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from fedatlas.schema.cost_names import Cost
from fedatlas.schema.measurements import LargerIsBetter, Level, Measurement, check_target
from fedatlas.schema.models import Model

#: How papers' words are read as ratios of `first` to `second`, of measurements that are best at 0
#: and of distances to 1 of those that are best there: our choice.
RELATION_FACTORS: dict[str, tuple[float, float]] = {
    "faster": (0.0, 1.0),
    "at_least_as_fast": (0.0, 1.1),  # "≥"
    "much_faster": (0.0, 0.5),  # "≫"
    "similar": (1 / 1.5, 1.5),  # "nearly the same"
}
Relation = Literal["faster", "at_least_as_fast", "much_faster", "similar"]

#: Linear convergence falls by equal decades in equal costs: one half of a span's decades in its
#: late half. A power law over one decade of its cost leaves 0.26, over two 0.15, a plateau nothing.
#: Linear is a share of at least this, that is a late rate of at least a third of the early one.
LINEAR_SHARE = 0.25
#: Over fewer decades than these a power law that has hardly begun looks linear too.
LINEAR_DECADES = 2.0
#: Where spans end: below, sub-optimality nears the accuracy of the optimum.
CONVERGED = 1e-9
#: "Near linear speed-up": time to a target falls as parties to a power in this range.
NEAR_LINEAR_POWERS = (-1.2, -0.8)
#: "Much better scalability": that power is lower by this much, a fifth of the time at 8 times q.
CLEARLY_LOWER_POWER = -0.1


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
        default=None,
        description="in units of the measurement; None: the best that both runs' medians reach",
    )

    @model_validator(mode="after")
    def _target_can_be_surpassed(self) -> Self:
        check_target(self, self.measurement, self.target)
        return self


class GapWidensTest(Model):
    """What `first` saves against `second` on the way to a level grows from one cost to another.

    The statistic is the logarithm of the ratio of their costs, under the second of `costs` minus
    under the first, of the same seed: below 0.
    """

    kind: Literal["gap_widens"]
    first: str
    second: str
    measurement: Level
    costs: tuple[Cost, Cost] = Field(
        description="where the gap is narrow, and where it is wide: [latency(10), latency(100)]"
    )
    target: PositiveFloat | None = Field(
        default=None,
        description="in units of the measurement; None: the best that both runs' medians reach",
    )

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs that the test looks at."""
        return (self.first, self.second)

    @model_validator(mode="after")
    def _costs_differ_and_target_can_be_surpassed(self) -> Self:
        if self.costs[0] == self.costs[1]:
            raise ValueError(f"costs: {self.costs[0]} stands twice; name two costs")
        check_target(self, self.measurement, self.target)
        return self


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


class EqualFinalTest(Model):
    """The measurements that two runs end with differ by at most `margin`, either way."""

    kind: Literal["equal_final"]
    first: str
    second: str
    measurement: Measurement
    margin: PositiveFloat = Field(description="in units of the measurement; an accuracy is ≤ 1")

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs that the test looks at."""
        return (self.first, self.second)


class BetterFinalTest(Model):
    """The measurement that `first` ends with is better: a larger accuracy, a smaller error."""

    kind: Literal["better_final"]
    first: str
    second: str
    measurement: Level
    by_at_least: NonNegativeFloat = Field(default=0.0, description="in units of the measurement")

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs that the test looks at."""
        return (self.first, self.second)


class HighestTest(Model):
    """One run is better than each of its rivals: one case per rival, and all of them together.

    Without a `cost` the measurements that runs end with are compared. With one their means along
    it are, the area under the curve from where all begin to the largest cost that all reached.
    """

    kind: Literal["highest"]
    run: str
    among: tuple[str, ...] = Field(min_length=1, description="the rivals")
    measurement: LargerIsBetter
    at_end: Literal[True] | None = Field(
        default=None, description="may be stated where no `cost` is: compare where runs end"
    )
    cost: Cost | None = Field(default=None, description="compare means along this cost")

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs that the test looks at."""
        return (self.run, *self.among)

    @model_validator(mode="after")
    def _rivals_are_others(self) -> Self:
        if self.run in self.among:
            raise ValueError(f"among: '{self.run}' is the run itself; name its rivals only")
        if len(set(self.among)) != len(self.among):
            raise ValueError(f"among: a rival is listed twice in {', '.join(self.among)}")
        if self.at_end and self.cost is not None:
            raise ValueError(f"at_end: true and cost: {self.cost} exclude each other; remove one")
        return self


class PublishedMeasurementTest(Model):
    """The mean over seeds of the measurement that a run ends with, against the printed number."""

    kind: Literal["published_measurement"]
    run: str
    measurement: Measurement
    value: float = Field(description="in units of the measurement: 81.96 % is 0.8196")
    tolerance: PositiveFloat = Field(description="largest absolute difference that still agrees")

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs that the test looks at."""
        return (self.run,)


class ConvergenceOrderTest(Model):
    """Whether the logarithm of the sub-optimality falls at a steady rate per update epoch.

    The span reaches from the start to the end, or to the last record before `CONVERGED`, so that
    no converged tail is judged. The statistic is the share of the decades that its late half holds.
    """

    kind: Literal["convergence_order"]
    run: str
    order: Literal["linear", "sublinear"]

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs that the test looks at."""
        return (self.run,)


class ScalingTest(Model):
    """Simulated time to a target falls near linearly with the number of parties.

    With `compare_with`, runs of another method at the same numbers of parties: it falls faster.
    The statistic is the slope of the logarithm of time against that of parties.
    """

    kind: Literal["scaling"]
    series: tuple[str, ...] = Field(min_length=2, description="by rising number of parties")
    compare_with: tuple[str, ...] = ()
    measurement: Level = "suboptimality"
    target: PositiveFloat = Field(default=1e-3, description="in units of the measurement")

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs that the test looks at."""
        return (*self.series, *self.compare_with)

    @model_validator(mode="after")
    def _series_are_as_long_and_can_reach_the_target(self) -> Self:
        if self.compare_with and len(self.compare_with) != len(self.series):
            raise ValueError("compare_with needs a run for each of series, or none at all")
        check_target(self, self.measurement, self.target)
        return self


class StationaryPointTest(Model):
    """The loss surface has a stationary point of a class, far above the lowest value found."""

    kind: Literal["stationary_point"]
    classification: Literal["minimum", "saddle", "maximum", "degenerate"]
    above_optimum_by: NonNegativeFloat = Field(description="in units of the surface")

    @property
    def runs(self) -> tuple[str, ...]:
        """None: the surface is the objective's, whatever is trained."""
        return ()


class BudgetOrderTest(Model):
    """One run spends less privacy than others, ε over all iterations; one case per rival."""

    kind: Literal["budget_order"]
    smaller: str
    than: tuple[str, ...] = Field(min_length=1)

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs that the test looks at."""
        return (self.smaller, *self.than)


class BudgetFallsTest(Model):
    """The ε of a whole run falls with every larger horizon, from one on."""

    kind: Literal["budget_falls"]
    run: str
    from_horizon: PositiveInt

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs that the test looks at."""
        return (self.run,)


class DeltaReachesOneTest(Model):
    """The δ of a run reaches 1 after a number of iterations."""

    kind: Literal["delta_reaches_one"]
    run: str
    after: PositiveInt
    tolerance: NonNegativeInt = Field(description="iterations more or less that still agree")
    fitted: str | None = Field(
        default=None, description="what of the run was fitted to this claim: then it is not judged"
    )

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs that the test looks at."""
        return (self.run,)


class AuditStandsTest(Model):
    """No attack of the privacy audit shows more than the ε that a run's paper claims.

    An audit refutes, it proves nothing: what it does not refute is `inconclusive`.
    """

    kind: Literal["audit_stands"]
    run: str

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs that the test looks at."""
        return (self.run,)


BudgetTest = BudgetOrderTest | BudgetFallsTest | DeltaReachesOneTest

ClaimTest = Annotated[
    OrderTest
    | CostToTargetTest
    | GapWidensTest
    | MonotoneTest
    | PublishedValueTest
    | SelectedOrderTest
    | EqualFinalTest
    | BetterFinalTest
    | HighestTest
    | PublishedMeasurementTest
    | ConvergenceOrderTest
    | ScalingTest
    | StationaryPointTest
    | BudgetOrderTest
    | BudgetFallsTest
    | DeltaReachesOneTest
    | AuditStandsTest,
    Field(discriminator="kind"),
]


class Claim(Model):
    """One sentence of a paper and its test."""

    id: str = Field(pattern=r"^[a-z0-9-]+$")
    source: str = Field(description="figure, table or section; 'ours' for a claim the paper lacks")
    statement: str
    test: ClaimTest
