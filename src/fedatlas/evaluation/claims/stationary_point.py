from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field, NonNegativeFloat

from fedatlas.evaluation.comparison import ROUNDING
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.stationary_points import Classification, described
from fedatlas.schema.claims import CaseOutcome, ClaimTest


class StationaryPointTest(ClaimTest):
    """The loss surface has a stationary point of a class, far above the lowest value found.

    Nothing is random here, so there is no interval: reproduced if such a point was found, otherwise
    contradicted, as far as the searches go. CaseOutcome none proves less than finding one.

    classification: which kind of point is claimed.
    """

    needs: ClassVar[tuple[str, ...]] = ("landscape", "trained")

    kind: Literal["stationary_point"]
    classification: Classification
    above_optimum_by: NonNegativeFloat = Field(description="in units of the surface")

    @property
    def runs(self) -> tuple[str, ...]:
        return ()

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        surface = results.study(results.landscape, "landscape")
        of_class = [
            point
            for point in surface.stationary_points
            if point.classification == self.classification
        ]
        border = self.above_optimum_by - ROUNDING
        high = [point for point in of_class if point.above_lowest >= border]
        claimed = f"claimed a {self.classification} at least {self.above_optimum_by:g} above"
        searched = (
            f"lowest value found {surface.lowest:.4g}; {surface.starts} searches in "
            f"{_span(surface.first)} × {_span(surface.second)}"
        )
        # The highest of those that will do, or of those that will not.
        shown = sorted(high or of_class, key=lambda point: point.above_lowest)[-1:]
        told = [described(point) for point in shown] or [f"no {self.classification} found"]
        evidence = "; ".join([*told, claimed, searched])
        yield CaseOutcome("", "reproduced" if high else "contradicted", evidence)


def _span(grid: Sequence[float]) -> str:
    return f"[{grid[0]:g}, {grid[-1]:g}]"
