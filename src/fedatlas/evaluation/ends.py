"""Claims about the measurement that two runs end with."""

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from fedatlas.evaluation.comparison import Aim, Direction
from fedatlas.evaluation.costs import Trace
from fedatlas.evaluation.levels import until
from fedatlas.evaluation.relations import (
    SHARES,
    compared,
    final_losses,
    judged_again,
    told_ends,
    unit_of_losses,
)
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import Finding


class _Pair(Protocol):
    @property
    def runs(self) -> tuple[str, ...]: ...

    def aim(self, direction: Direction, unit: str, factor: float = ...) -> Aim: ...


def final_comparison(
    test: _Pair, results: Results, direction: Direction, measurement: str
) -> Finding:
    """Where the selected points of the first and the second run end."""
    traces = results.selected(*test.runs)
    unit = unit_of_losses(measurement)
    aim = test.aim(direction, unit)

    def judged(traces: Sequence[Trace]) -> Finding:
        losses = [final_losses(trace, measurement) for trace in traces]

        def told() -> str:
            parts = (
                told_ends(run, values, measurement)
                for run, values in zip(test.runs, losses, strict=True)
            )
            return f"{measurement} at the end: {', '.join(parts)}"

        return compared(
            results, traces, losses, aim, told, unit, measurement=measurement, what=measurement
        )

    again = {
        words: partial(judged, [until(trace, share) for trace in traces])
        for words, share in SHARES.items()
    }
    (finding,) = results.with_tuning([judged_again(judged(traces), again)], *test.runs)
    return finding
