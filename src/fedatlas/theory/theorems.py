"""Theorems on runs: which steps they cover, and what they promise after so many rounds."""

from dataclasses import dataclass

from fedatlas.federations.algorithm import StepBound


@dataclass(frozen=True)
class Theorem:
    """A theorem on a run.

    name: with whose paper it is not FedPAGE's. version: "as printed", "corrected", or where the
    constants come from. lacks: a condition besides steps that the run does not meet; else empty.
    bounds: of what along the rounds the mean is bounded, empty where no constant is known.
    constant: C of the bound C/R after R rounds, at the run's steps, or where they exceed the
    largest ones at those.
    """

    name: str
    version: str
    smoothness: float
    steps: tuple[StepBound, ...]
    lacks: str = ""
    bounds: str = ""
    constant: float | None = None

    @property
    def covers(self) -> bool:
        """Whether the run meets all its conditions."""
        return not self.lacks and all(step.factor <= 1 + 1e-9 for step in self.steps)
