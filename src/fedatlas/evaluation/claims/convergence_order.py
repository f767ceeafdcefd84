from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from fedatlas.evaluation.costs import Trace, column
from fedatlas.evaluation.evidence import bounds, number
from fedatlas.evaluation.levels import difference, diverged, smallest
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import Finding, RunTest

#: Linear convergence falls by equal decades in equal costs: one half of a span's decades in its
#: late half. A power law over one decade of its cost leaves 0.26, over two 0.15, a plateau nothing.
#: Linear is a share of at least this, that is a late rate of at least a third of the early one.
LINEAR_SHARE = 0.25
#: Over fewer decades than these a power law that has hardly begun looks linear too.
LINEAR_DECADES = 2.0
#: Where spans end: below, sub-optimality nears the accuracy of the optimum.
CONVERGED = 1e-9
_FEWEST_RECORDS = 4  # in a half of the span, that its fall may be told


class ConvergenceOrderTest(RunTest):
    """Whether the logarithm of the sub-optimality falls at a steady rate per update epoch.

    The span reaches from the start to the end, or to the last record before `CONVERGED`, so that
    no converged tail is judged. The statistic is the share of the decades lost in its late half. A
    seed that diverged or did not fall converges in no order: it is worse than any share.
    """

    kind: Literal["convergence_order"]
    order: Literal["linear", "sublinear"]

    @property
    def measured(self) -> tuple[str, ...]:
        return ("suboptimality",)

    @property
    def counted(self) -> tuple[str, ...]:
        return ("update_epoch",)

    def judge(self, results: Results) -> Iterator[Finding]:
        (trace,) = results.selected(self.run)
        yield from results.with_edges([self._finding(trace)], self.run)

    def _finding(self, trace: Trace) -> Finding:
        by_seed = falls(trace)
        found = [fall for fall in by_seed if fall is not None]
        if any(np.isnan(fall.early) for fall in found):
            shortest = min(fall.epochs for fall in found)
            evidence = (
                f"{self.run}: a span of {shortest:.3g} update epochs holds fewer than "
                f"{_FEWEST_RECORDS} records in a half; record more often"
            )
            return Finding("", "inconclusive", evidence)
        shares = np.array([np.nan if fall is None else fall.share for fall in by_seed])
        towards = 1 if self.order == "linear" else -1
        beyond = np.where(np.isnan(shares), np.inf, towards * (LINEAR_SHARE - shares))
        verdict = difference(beyond, np.zeros(len(beyond))).verdict(-np.inf, 0.0)
        if np.isnan(shares).all():
            return Finding("", verdict, f"{self.run}: no seed fell")
        interval = difference(np.where(np.isnan(shares), np.inf, shares), np.zeros(len(shares)))
        evidence = f"{self.run}: {_told(found)}; late share {bounds(interval)}, " + (
            f"claimed {'at least' if self.order == 'linear' else 'below'} {LINEAR_SHARE:g}"
        )
        least = min(fall.early + fall.late for fall in found)
        if (
            verdict != "inconclusive"
            and np.nanmean(shares) >= LINEAR_SHARE
            and least < LINEAR_DECADES
        ):
            verdict = "inconclusive"
            evidence += f"; {least:.2g} decades are too few to tell, {LINEAR_DECADES:g} are needed"
        return Finding("", verdict, evidence)


class Fall(NamedTuple):
    """How a seed's sub-optimality fell over its span, in decades (log10)."""

    epochs: float  # length of the span
    early: float  # decades lost in the early half of the span
    late: float  # decades lost in the late half
    end: float  # level at the end of the span

    @property
    def share(self) -> float:
        """The share of the decades lost late; NaN for a run that did not fall."""
        total = self.early + self.late
        return self.late / total if total > 0 else np.nan


def falls(trace: Trace) -> list[Fall | None]:
    """By seed; None where a seed diverged.

    The late half is fitted by least squares, so that noise about a plateau is no fall. The early
    fall is the height of the start above the fitted line at the middle: it includes a quick first
    phase, as of variance reduction, and a linear phase after it must be worth as many decades.
    """
    levels = np.log10(np.maximum(column(trace, "suboptimality"), smallest("suboptimality")))
    spans = zip(column(trace, "update_epoch"), levels, diverged(trace), strict=True)
    return [None if lost else _fall(epochs, level) for epochs, level, lost in spans]


def _fall(epochs: np.ndarray, levels: np.ndarray) -> Fall:
    converged = np.flatnonzero(levels <= np.log10(CONVERGED))
    records = max(converged[0], 1) if len(converged) else len(levels)
    epochs, levels = epochs[:records], levels[:records]
    middle = (epochs[0] + epochs[-1]) / 2
    late = epochs > middle
    if min(late.sum(), (~late).sum()) < _FEWEST_RECORDS:
        return Fall(float(epochs[-1]), np.nan, np.nan, float(levels[-1]))
    slope, _ = np.polyfit(epochs[late] - middle, levels[late], 1)
    at_middle = levels[late].mean() - slope * (epochs[late] - middle).mean()
    return Fall(
        epochs=float(epochs[-1]),
        early=float(levels[0] - at_middle),
        late=float(-slope * (epochs[-1] - middle)),
        end=float(levels[-1]),
    )


def _told(found: list[Fall]) -> str:
    """Mean rates over seeds in both halves, and where the spans ended."""
    epochs = np.array([fall.epochs for fall in found])
    early = np.array([fall.early for fall in found]) / (epochs / 2)
    late = np.array([fall.late for fall in found]) / (epochs / 2)
    end = float(np.mean([fall.end for fall in found]))
    return (
        f"{early.mean():.3g} decades per update epoch early, {late.mean():.3g} late, "
        f"to {number(end)} by {epochs.mean():.3g}"
    )
