"""How long runs train: a number of rounds, a budget of another cost, or until a target."""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypeAlias

from pydantic import AfterValidator, PositiveFloat

from fedatlas.schema.quantities import (
    BYTES,
    COSTS,
    LARGER_IS_BETTER,
    LEVELS,
    check_reachable,
)

#: What no budget is of: what is spent of privacy follows from the rounds, and must not be exceeded.
_NO_BUDGETS = ("round", "epsilon", "delta")
#: Times that machines take. They differ from one training to the next.
MEASURED_TIMES = ("wall_time", "elapsed_time")


class Ending(NamedTuple):
    """What ends a run before its last round. Budget and target may be left out; then both are 0.

    budget: a cost, and how much of it a run may spend. The run ends with the round that spends it.
    target: a measurement and a value. The run ends with the record that reaches the value.
    """

    cost: str = ""
    budget: float = 0.0
    measurement: str = ""
    target: float = 0.0

    @property
    def repeatable(self) -> bool:
        """Whether trainings end after as many rounds, wherever and whenever they run."""
        return self.cost not in MEASURED_TIMES

    @property
    def in_words(self) -> str:
        """The target in words."""
        sign = "≥" if self.measurement in LARGER_IS_BETTER else "≤"
        return f"{self.measurement} {sign} {self.target:g}"

    def has_spent(self, counted: Mapping[str, Any]) -> bool:
        """Whether the budget is spent; counted: what a run has spent, by cost."""
        return bool(self.cost) and spent(self.cost, counted) >= self.budget

    def has_reached(self, measured: Mapping[str, Any]) -> bool:
        """Whether a record has reached the target; measured: its values, by measurement."""
        return bool(self.measurement) and self.at_least(measured[self.measurement], self.target)

    def suffices(self, measurement: str, target: float) -> bool:
        """Whether a run that ends at the target has reached this one, too."""
        return measurement == self.measurement and self.at_least(self.target, target)

    def at_least(self, value: float, other: float) -> bool:
        """Whether a value of the measurement is as good as another, or better."""
        return value >= other if self.measurement in LARGER_IS_BETTER else value <= other


def spent(cost: str, counted: Mapping[str, Any]) -> float:
    """What was spent of a cost that can be a budget: `bytes` are those of all directions."""
    if cost == "bytes":
        return float(sum(counted[name] for name in BYTES if name in counted))
    return float(counted[cost])


def _one_of_each(until: dict[str, float]) -> dict[str, float]:
    budgets = [name for name in until if name == "bytes" or name in COSTS]
    for name, value in until.items():
        if name in _NO_BUDGETS:
            raise ValueError(f"'{name}' is no budget: 'rounds' says how many rounds are trained")
        if name in budgets:
            continue
        if name not in LEVELS:
            known = [one for one in COSTS if one not in _NO_BUDGETS]
            raise ValueError(
                f"'{name}' is neither a cost (bytes, {', '.join(known)}) nor a measurement that "
                f"has a best value ({', '.join(LEVELS)})"
            )
        check_reachable(name, value)
    if len(budgets) > 1 or len(until) - len(budgets) > 1:
        raise ValueError("states one budget and one target at most")
    return until


#: What ends a run before `rounds`: {bytes: 5e7}, {test_accuracy: 0.9}, or one of each.
Until: TypeAlias = Annotated[dict[str, PositiveFloat], AfterValidator(_one_of_each)]


def ending_of(until: Mapping[str, float]) -> Ending:
    """What a declared `until` says."""
    budget = next(((name, value) for name, value in until.items() if name not in LEVELS), ("", 0.0))
    target = next(((name, value) for name, value in until.items() if name in LEVELS), ("", 0.0))
    return Ending(*budget, *target)
