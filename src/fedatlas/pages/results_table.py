"""Where every grid point of an experiment ended, and what it cost."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fedatlas.evaluation.levels import Trace, above_start, cost_axis, diverged, is_counted
from fedatlas.evaluation.selection import Choice, Traces, choices
from fedatlas.evaluation.tables import to_csv
from fedatlas.files import write_text
from fedatlas.schema.models import read_json
from fedatlas.schema.quantities import AXES, MEASUREMENTS
from fedatlas.store.experiment import read_runs

Statistic = Callable[[np.ndarray], Any]
_STATISTICS: dict[str, Statistic] = {"median": np.median, "lowest": np.min, "highest": np.max}
# Papers print measurements on test samples as mean ± standard deviation.
_PRINTED = _STATISTICS | {
    "mean": np.mean,
    "deviation": lambda ends: np.std(ends, ddof=1) if len(ends) > 1 else np.nan,
}


def tabulate_results(traces: Path, selection: Path, output: Path) -> None:
    """Tabulate where every grid point of an experiment ended and what it cost."""
    rows = results_table(read_runs(traces), choices(read_json(selection)))
    write_text(output, to_csv(rows))


def results_table(traces: Traces, chosen: Mapping[str, Choice]) -> list[dict[str, object]]:
    """One row per grid point: where its seeds ended (median, lowest, highest) and what it cost.

    A run has NaN in columns that only other runs have.
    """
    every = [trace for points in traces.values() for trace in points.values()]
    measured = [name for name in MEASUREMENTS if any(name in trace for trace in every)]
    spent = [name for name in AXES if any(is_counted(trace, name) for trace in every)]
    return [
        _identity(run, point, trace, chosen[run].point == point)
        | {
            f"{name}_{label}": _statistic(trace, name, statistic)
            for name in measured
            for label, statistic in (_PRINTED if name.startswith("test_") else _STATISTICS).items()
        }
        | {f"{name}_median": _statistic(trace, name, np.median) for name in spent}
        for run, points in traces.items()
        for point, trace in points.items()
    ]


def _identity(run: str, point: str, trace: Trace, selected: bool) -> dict[str, object]:
    lost = diverged(trace)
    return {
        "run": run,
        "point": point,
        "algorithm": trace.attrs["algorithm"],
        "effective_step_size": float(trace.attrs["effective_step_size"]),
        "selected": selected,
        "seeds": len(lost),
        "diverged_seeds": int(lost.sum()),
        "seeds_above_start": int((above_start(trace)[:, -1] | lost).sum()),
    }


def _statistic(trace: Trace, name: str, statistic: Statistic) -> float:
    healthy = ~diverged(trace)
    if not is_counted(trace, name) or not healthy.any():
        return float("nan")
    return float(statistic(cost_axis(trace, name)[healthy, -1]))
