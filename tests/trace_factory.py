"""Synthetic traces of a star-shaped run: what training would write, at no cost."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from fedatlas.files import canonical_json
from fedatlas.traces import COSTS, MEASUREMENTS, build_trace, record_schedule

BYTES_PER_ROUND = 1000.0
GRADIENTS_PER_ROUND = 400.0
SAMPLES = 2000.0


def make_trace(
    gradient_norm: Any,
    *,
    run: str = "first",
    step: float = 0.1,
    point: str | None = None,
    hyper_parameters: dict[str, Any] | None = None,
    schedule: Sequence[int] | None = None,
    cost_scale: Any = 1.0,
    full_participations: Any = None,
    clients: int = 100,
    **measured: Any,
) -> xr.Dataset:
    """A trace whose gradient norm is the given (seeds, records); a NaN row end is a divergence.

    schedule: round of each record, 10 apart by default; cost_scale: (seeds,) or a number that
    multiplies bytes and gradient evaluations.
    """
    values = np.asarray(gradient_norm, dtype=float)
    seeds, records = values.shape
    rounds = np.asarray(
        record_schedule(10 * (records - 1), 10) if schedule is None else schedule, dtype=float
    )
    lost = np.isnan(values)
    round_axis = np.where(lost, np.nan, np.broadcast_to(rounds, values.shape))
    spent = round_axis * np.broadcast_to(cost_scale, (seeds,))[:, None]
    variables = {
        "round": round_axis,
        "iteration": 10 * round_axis,
        "epoch": spent * GRADIENTS_PER_ROUND / SAMPLES,
        "gradient_evaluations": spent * GRADIENTS_PER_ROUND,
        "bytes_up": spent * BYTES_PER_ROUND * 0.25,
        "bytes_down": spent * BYTES_PER_ROUND * 0.75,
        "messages": 20 * round_axis,
        "full_participations": np.where(
            lost, np.nan, 0.0 if full_participations is None else full_participations
        ),
        "wall_time": 0.001 * round_axis,
        "objective": values**2,
        "gradient_norm": values,
        "train_accuracy": np.where(lost, np.nan, 0.9),
    }
    variables |= {name: np.asarray(value, dtype=float) for name, value in measured.items()}
    assert variables.keys() == COSTS.keys() | MEASUREMENTS.keys()
    specification = {
        "hyper_parameters": {"step_size": step} if hyper_parameters is None else hyper_parameters,
        "rounds": int(rounds[-1]),
        "partition": {"assignment": "consecutive", "clients": clients, "samples": int(SAMPLES)},
    }
    attributes = {
        "paper": "paper",
        "experiment": "paper-figure",
        "run": run,
        "point": point or f"step_size-{step:g}",
        "algorithm": "fedavg",
        "effective_step_size": step,
        "specification": canonical_json(specification),
    }
    status = ["diverged" if row.any() else "ok" for row in lost]
    return build_trace(variables, status, list(range(seeds)), attributes)


def levels_trace(
    levels: Sequence[float], *, start: float = 1.0, records: int = 21, **options: Any
) -> xr.Dataset:
    """A trace that falls at once from `start` to one level per seed; a NaN level diverges."""
    values = np.repeat(np.asarray(levels, dtype=float)[:, None], records, axis=1)
    values[:, 0] = start
    return make_trace(values, **options)


def falling_trace(
    rates: Sequence[float], *, records: int = 21, floor: float = 0.0, **options: Any
) -> xr.Dataset:
    """Geometric decay: seed s has gradient norm rates[s]**record, not below `floor`."""
    values = np.asarray(rates, dtype=float)[:, None] ** np.arange(records)
    return make_trace(np.maximum(values, floor), **options)
