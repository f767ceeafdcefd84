"""Where every grid point of an experiment ended, and what it cost."""

from collections.abc import Mapping

import numpy as np
import xarray as xr

from fedatlas.evaluation.levels import cost_axis, diverged
from fedatlas.evaluation.selection import Choice, Traces
from fedatlas.traces import MEASUREMENTS


def results_table(traces: Traces, chosen: Mapping[str, Choice]) -> list[dict[str, object]]:
    """One row per grid point: where its seeds ended (median, lowest, highest) and what it cost."""
    return [
        _result_row(run, point, trace, chosen[run].point == point)
        for run, points in traces.items()
        for point, trace in points.items()
    ]


def _result_row(run: str, point: str, trace: xr.Dataset, selected: bool) -> dict[str, object]:
    healthy = ~diverged(trace)
    row: dict[str, object] = {
        "run": run,
        "point": point,
        "algorithm": trace.attrs["algorithm"],
        "effective_step_size": float(trace.attrs["effective_step_size"]),
        "selected": selected,
        "seeds": len(healthy),
        "diverged_seeds": int((~healthy).sum()),
        "seeds_above_start": _above_start(trace),
    }
    for name in MEASUREMENTS:
        final = trace[name].transpose("seed", "record").to_numpy()[healthy, -1]
        for label, statistic in (("median", np.median), ("lowest", np.min), ("highest", np.max)):
            row[f"{name}_{label}"] = float(statistic(final)) if len(final) else float("nan")
    for cost in ("round", "epoch", "bytes", "full_participations", "wall_time"):
        spent = cost_axis(trace, cost)[healthy, -1]
        row[f"{cost}_median"] = float(np.median(spent)) if len(spent) else float("nan")
    return row


def _above_start(trace: xr.Dataset) -> int:
    """Seeds whose objective ended above where it started, or that diverged."""
    objective = trace["objective"].transpose("seed", "record").to_numpy()
    return int((~(objective[:, -1] <= objective[:, 0])).sum())
