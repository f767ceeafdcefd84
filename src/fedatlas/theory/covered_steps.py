"""Theorems whose conditions bound the step by more than a formula."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import inf, isfinite, sqrt

import numpy as np

from fedatlas.federations.algorithm import StepBound
from fedatlas.theory.theorems import Bound, Theorem

AS_PRINTED, OF_PROOF = "as printed", "constants of its proof"
_SMALLEST, _LARGEST = 1e-40, 1e10
_TRIED = 400  # steps, over twelve decades below the largest


class Analysis(ABC):
    """What a theorem says at a step γ."""

    @abstractmethod
    def allows(self, step: float) -> bool:
        """Whether its conditions hold, as they do of all smaller steps."""

    @abstractmethod
    def bound(self, step: float) -> Bound:
        """What it promises, at a step that it allows."""


def largest_step(allows: Callable[[float], bool]) -> float:
    """The largest step that is allowed with all smaller ones; 0 if none is, inf if all are."""
    low, high = _SMALLEST, _LARGEST
    if allows(high) or not allows(low):
        return inf if allows(high) else 0.0
    while high / low > 1 + 1e-12:
        middle = sqrt(low * high)
        low, high = (middle, high) if allows(middle) else (low, middle)
    return low


def theorem(
    name: str,
    analysis: Analysis,
    step: float,
    epochs: float,
    smoothness: float,
    *,
    version: str,
    lacks: str = "",
    note: str = "",
) -> Theorem:
    """The theorem on a run with this step that made so many of its epochs."""
    taken = StepBound("γ", step, largest_step(analysis.allows), name)
    bound = _promised(analysis, taken, epochs)
    return Theorem(name, version, smoothness, (taken,), lacks, bound, epochs, note)


def _promised(analysis: Analysis, step: StepBound, epochs: float) -> Bound | None:
    """The bound at the step, or where it is too large at the covered one that promises most."""
    if step.value <= step.bound:
        return analysis.bound(step.value)
    tried = min(step.bound, _LARGEST) * (1 - 1e-9) * np.geomspace(1e-12, 1, _TRIED)
    found = [
        (each.after(epochs), place, each)
        for place, each in enumerate(map(analysis.bound, tried.tolist()))
    ]
    best = min((one for one in found if isfinite(one[0])), default=None)
    return None if best is None else best[2]
