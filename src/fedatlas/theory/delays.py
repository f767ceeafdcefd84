"""Delays of VFB² in the paper's global iterations (arXiv:2103.00958, section 5, appendix E).

Global iterations are labelled "after read": t rises when a dominator has computed ŵ·x_i, and when a
collaborator has read its block, to which it then applies ϑ. So every dominated update is followed
by q − 1 collaborative ones. w_t holds all updates of iterations before t.

- τ1 (Assumption 3, Eq. 4): the largest t − u of an iteration u < t that the read ŵ_t lacks.
- τ2 (Eq. 5): the largest t − u of a collaborative iteration t whose ϑ is of the dominated one u.
- η1: the most successive iterations K(t) until all blocks are updated, from any t on.
- η2: the largest t' − t of K'(t), a dominated iteration t and those that use its ϑ. It is τ2.
- v(t) (Definition 1): how many disjoint K there are up to t. v'(t) (Definition 2): dominated
  updates.

Runs record them. Where η1 is not, as of processes, η1 ≤ 2 τ2 + 1 stands for it: while no dominated
iteration comes, all that come use ϑ of earlier ones, so there are at most τ2 of them; τ2 after it
all blocks are updated.
"""

from dataclasses import dataclass

from fedatlas.evaluation.costs import Trace, column, specification
from fedatlas.evaluation.levels import diverged


@dataclass(frozen=True)
class Delays:
    """τ1, τ2 and η1 of a run with q parties; visits: η1, None if it is not known."""

    parties: int
    reads: float
    communication: float
    visits: float | None = None

    @property
    def window(self) -> float:
        """η1, or its bound; one party updates all blocks at once."""
        return 2 * self.communication + 1 if self.visits is None else self.visits

    @property
    def spread(self) -> float:
        """η2."""
        return self.communication

    @property
    def convex(self) -> float:
        """τ of Theorems 1 to 3: the largest of τ1², τ2², η1²."""
        return max(self.reads, self.communication, self.window) ** 2

    @property
    def nonconvex(self) -> float:
        """τ of Theorems 4 to 6: the largest of τ1², τ2², η2²."""
        return max(self.reads, self.communication, self.spread) ** 2

    def epochs(self, iterations: float) -> float:
        """v(t) after so many global iterations, at least."""
        return iterations / self.window


def delays_of(trace: Trace) -> Delays:
    """Of the seed with the longest ones."""
    parties, healthy = int(specification(trace)["partition"]["parties"]), ~diverged(trace)

    def longest(name: str) -> float:
        return float(column(trace, name)[healthy, -1].max(initial=0.0))

    visits = max(longest("eta_1"), 1.0) if "eta_1" in trace else None
    return Delays(parties, longest("tau_1"), longest("tau_2"), visits)
