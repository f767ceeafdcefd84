"""Theorems about runs: the steps they cover, their bounds, and the delays of parties.

Delays of VFB² are counted in the paper's global iterations (arXiv:2103.00958, section 5, appendix
E), labelled "after read": t rises when a dominator has computed ŵ·x_i, and when a collaborator has
read its block, to which it then applies ϑ. Every dominated update is followed by q − 1
collaborative ones. w_t holds all updates of iterations before t.

- τ1 (Assumption 3, Eq. 4): the largest t − u of an iteration u < t that the read ŵ_t lacks.
- τ2 (Eq. 5): the largest t − u of a collaborative iteration t whose ϑ is of the dominated one u.
- η1: the most successive iterations K(t) until all blocks are updated, from any t on.
- η2: the largest t' − t of K'(t), a dominated iteration t and those that use its ϑ. It is τ2.
- v(t) (Definition 1): how many disjoint K there are up to t. v'(t) (Definition 2): dominated
  updates.

Runs record them. Where η1 is missing, as of processes, η1 ≤ 2 τ2 + 1 stands for it: while no
dominated iteration comes, all that come use ϑ of earlier ones, so there are at most τ2 of them; τ2
after it all blocks are updated.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, nan, sqrt

import numpy as np

from fedatlas.evaluation.bounds import Bound
from fedatlas.evaluation.levels import Trace, column, diverged
from fedatlas.federations.algorithm import StepBound


@dataclass(frozen=True)
class Delays:
    """τ1, τ2 and η1 of a run; visits: η1, None if it is not known."""

    reads: float
    communication: float
    visits: float | None = None

    @property
    def window(self) -> float:
        """η1, or its bound."""
        return 2 * self.communication + 1 if self.visits is None else self.visits

    @property
    def convex(self) -> float:
        """τ of Theorems 1 to 3: the largest of τ1², τ2², η1²."""
        return max(self.reads, self.communication, self.window) ** 2

    @property
    def nonconvex(self) -> float:
        """τ of Theorems 4 to 6: the largest of τ1², τ2², η2², which is τ2²."""
        return max(self.reads, self.communication) ** 2

    def epochs(self, iterations: float) -> float:
        """v(t) after so many global iterations, at least."""
        return iterations / self.window


def delays_of(trace: Trace) -> Delays:
    """Read the delays of the seed with the longest ones."""
    healthy = ~diverged(trace)

    def longest(name: str) -> float:
        return float(column(trace, name)[healthy, -1].max(initial=0.0))

    visits = max(longest("eta_1"), 1.0) if "eta_1" in trace else None
    return Delays(longest("tau_1"), longest("tau_2"), visits)


#: Levels that were reached are known no better.
LEAST = 1e-10


@dataclass(frozen=True)
class Course:
    """The course of a run, in what theorems count.

    rounds: of communication. reached: what of a bounded quantity was measured at the end; inf of a
    run that diverged. Of parties: dominated_updates, global_iterations (updates of blocks) and
    delays. graphs: of agents, the weights (n, n) of the graph of states and of that of trackers, if
    there is one: [i, j] is what i receives from j by, and the diagonal is 0.
    """

    rounds: int
    reached: Callable[[str], float] = lambda quantity: nan
    dominated_updates: int = 0
    global_iterations: int = 0
    delays: Delays | None = None
    graphs: tuple[np.ndarray, ...] = ()

    def level(self, quantity: str) -> float:
        """The level measured at the end."""
        return max(self.reached(quantity), LEAST)


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


AS_PRINTED, OF_PROOF = "as printed", "constants of its proof"
_SMALLEST, _LARGEST = 1e-40, 1e10
_TRIED = 400  # steps, over twelve decades below the largest


class Analysis(ABC):
    """A theorem's conditions and bound at a step γ."""

    @abstractmethod
    def allows(self, step: float) -> bool:
        """Whether its conditions hold, as they do of all smaller steps."""

    @abstractmethod
    def bound(self, step: float) -> Bound:
        """The bound that it promises, at a step that it allows."""


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
