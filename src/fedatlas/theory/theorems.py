"""Theorems on runs: which steps they cover, and what they promise after so many of their epochs."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedatlas.federations.algorithm import StepBound
from fedatlas.theory.delays import Delays

#: Levels that were reached are known no better.
LEAST = 1e-10


@dataclass(frozen=True)
class Course:
    """How far a run came, in what theorems count.

    rounds: of communication. reached: what of each quantity of `evaluation.theory_table` was
    measured at the end. Of parties: dominated_updates, global_iterations (updates of blocks) and
    delays.
    """

    rounds: int
    reached: Mapping[str, float] = field(default_factory=dict)
    dominated_updates: int = 0
    global_iterations: int = 0
    delays: Delays | None = None

    def level(self, quantity: str) -> float:
        """What was measured of it at the end; inf of a run that diverged."""
        return max(self.reached[quantity], LEAST)


@dataclass(frozen=True)
class Bound:
    """What a theorem promises after x of its epochs: constant/x + start · contraction^x + floor.

    of: the quantity, one of `evaluation.theory_table`. counted: what x counts.
    """

    of: str
    counted: str
    constant: float = 0.0
    start: float = 0.0
    contraction: float = 0.0
    floor: float = 0.0

    def after(self, epochs: float) -> float:
        """The bound after so many epochs, more than 0."""
        return self.constant / epochs + self.start * self.contraction**epochs + self.floor


@dataclass(frozen=True)
class Theorem:
    """A theorem on a run.

    name: with whose paper it is not the method's own. version: "as printed", "corrected", or where
    the constants come from. lacks: conditions besides steps that the run does not meet; else empty.
    note: where a statement does not follow from its proof, or what was taken for a constant.
    bound: at the run's steps, or where they exceed the largest ones, at the covered ones for which
    it is best; None where no constant is known. epochs: how many of the bound's epochs the run
    made.
    """

    name: str
    version: str
    smoothness: float
    steps: tuple[StepBound, ...]
    lacks: str = ""
    bound: Bound | None = None
    epochs: float = 0.0
    note: str = ""

    @property
    def covers(self) -> bool:
        """Whether the run meets all its conditions."""
        return not self.lacks and all(step.factor <= 1 + 1e-9 for step in self.steps)
