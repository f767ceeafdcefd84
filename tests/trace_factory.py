"""Synthetic traces: what training would write, at no cost."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from fedatlas.files import canonical_json
from fedatlas.schema.runs import record_schedule
from fedatlas.store.trace import build_trace

BYTES_PER_ROUND = 1000.0
GRADIENTS_PER_ROUND = 400.0
SAMPLES = 2000.0


def make_trace(
    gradient_norm: Any, *, full_participations: Any = 0.0, clients: int = 100, **options: Any
) -> xr.Dataset:
    """A star's trace with the given gradient norm (seeds, records); a NaN row end is a divergence.

    options: as `_star_trace` takes them.
    """
    values = np.asarray(gradient_norm, dtype=float)
    measured = {
        "full_participations": full_participations,
        "objective": values**2,
        "gradient_norm": values,
        "train_accuracy": 0.9,
    }
    return _star_trace(values, measured, clients, **options)


def auroc_trace(test_auroc: Any, **options: Any) -> xr.Dataset:
    """A star's trace of AUC maximisation with the given test AUROC (seeds, records).

    It has no gradient norm; the objective is twice the ranking error: 1 for a constant scorer.
    """
    values = np.asarray(test_auroc, dtype=float)
    measured = {
        "objective": 2 * (1 - values),
        "min_max_objective": 2 * (1 - values) - 0.7,
        "train_auroc": (1 + values) / 2,
        "test_auroc": values,
    }
    return _star_trace(values, measured, 16, **options)


def _rounds(values: np.ndarray, schedule: Sequence[int] | None) -> np.ndarray:
    """(records,) the round of each record."""
    rounds = record_schedule(10 * (values.shape[1] - 1), 10) if schedule is None else schedule
    return np.asarray(rounds, dtype=float)


def _star_trace(
    values: np.ndarray,
    measured: dict[str, Any],
    clients: int,
    *,
    schedule: Sequence[int] | None = None,
    cost_scale: Any = 1.0,
    **options: Any,
) -> xr.Dataset:
    """schedule: round of each record, 10 apart by default. cost_scale: (seeds,) or a number that
    multiplies bytes and gradient evaluations. options: as `_assembled` takes them.
    """
    rounds = _rounds(values, schedule)
    spent = rounds * np.broadcast_to(cost_scale, (len(values),))[:, None]
    costs = {
        "round": rounds,
        "iteration": 10 * rounds,
        "epoch": spent * GRADIENTS_PER_ROUND / SAMPLES,
        "gradient_evaluations": spent * GRADIENTS_PER_ROUND,
        "bytes_up": spent * BYTES_PER_ROUND * 0.25,
        "bytes_down": spent * BYTES_PER_ROUND * 0.75,
        "messages": 20 * rounds,
        "wall_time": 0.001 * rounds,
    }
    partition = {"assignment": "consecutive", "clients": clients, "samples": int(SAMPLES)}
    return _assembled(costs | measured, values, schedule, partition, **options)


def vertical_trace(
    suboptimality: Any,
    *,
    parties: int = 8,
    epochs: float = 20.0,
    seconds_per_epoch: Any = 1.0,
    **options: Any,
) -> xr.Dataset:
    """A vertical run's trace with the given sub-optimality (seeds, records).

    Records are evenly spread over `epochs`; seconds_per_epoch: (seeds,) or a number.
    """
    values = np.asarray(suboptimality, dtype=float)
    epoch = np.linspace(0, epochs, values.shape[1])
    updates = epoch * SAMPLES
    variables = {
        "round": _rounds(values, None),
        "iteration": updates,
        "epoch": 3 * epoch,
        "update_epoch": epoch,
        "gradient_evaluations": 3 * updates,
        "full_passes": np.floor(epoch),
        "block_updates": parties * updates,
        "bytes_up": 16 * (parties - 1) * updates,
        "bytes_down": 12 * (parties - 1) * updates,
        "messages": 3 * (parties - 1) * updates,
        "simulated_time": np.broadcast_to(seconds_per_epoch, (len(values),))[:, None] * epoch,
        "wall_time": 0.1 * epoch,
        "objective": 0.3 + values,
        "gradient_norm": np.sqrt(np.maximum(values, 0)),
        "suboptimality": values,
        "train_accuracy": 0.83,
        "test_accuracy": 0.82,
        "read_delay_mean": 1.5,
        "read_delay_max": 7.0,
        "tau_1": 7.0 * (parties > 1),
        "tau_2": 5.0 * (parties > 1),
        "eta_1": 9.0 if parties > 1 else 1.0,
        "mask_error": 1e-13,
    }
    partition = {"kind": "vertical", "parties": parties, "active": min(parties, 3), "seed": 0}
    return _assembled(variables, values, None, partition, **options)


def ending_trace(
    values: Any, measurement: str = "test_accuracy", *, records: int = 41, **options: Any
) -> xr.Dataset:
    """A converging run whose seeds move evenly to the given values; NaN diverges."""
    ends = np.asarray(values, dtype=float)
    falling = np.where(np.isnan(ends), np.nan, 0.0)[:, None] + np.linspace(0.3, 0.01, records)
    falling[:, 0] = 0.3
    measured = np.linspace(np.full(len(ends), 0.5), ends, records).T
    return vertical_trace(falling, **{measurement: measured}, **options)


def tiered_trace(
    objective: Any,
    *,
    local_steps: int = 10,
    schedule: Sequence[int] | None = None,
    silos: int = 2,
    clients: int = 50,
    **options: Any,
) -> xr.Dataset:
    """A trace over silos with the given objective (seeds, records).

    local_steps: Q steps between two communications; schedule: round of each record, 10 apart by
    default. A round has two trips between hubs and clients and one between hubs.
    """
    values = np.asarray(objective, dtype=float)
    rounds = _rounds(values, schedule)
    variables = {
        "round": rounds,
        "iteration": local_steps * rounds,
        "epoch": local_steps * rounds * 200 / SAMPLES,
        "gradient_evaluations": local_steps * rounds * 200,
        "bytes_up": 0.5 * rounds * BYTES_PER_ROUND,
        "bytes_down": 0.25 * rounds * BYTES_PER_ROUND,
        "bytes_sent": 0.125 * rounds * BYTES_PER_ROUND,
        "messages": (4 * clients * silos + silos * (silos - 1)) * rounds,
        "hub_client_trips": 2 * rounds,
        "hub_hub_trips": rounds,
        "wall_time": 0.01 * rounds,
        "objective": values,
        "train_accuracy": 0.9,
    }
    partition = {"kind": "tiered", "cut": {"width": silos}, "clients": clients, "seed": 0}
    return _assembled(variables, values, schedule, partition, **options)


def _assembled(
    variables: dict[str, Any],
    values: np.ndarray,
    schedule: Sequence[int] | None,
    partition: dict[str, Any],
    *,
    run: str = "first",
    step: float = 0.1,
    point: str | None = None,
    hyper_parameters: dict[str, Any] | None = None,
    tuning_seeds: Sequence[int] = (),
    split: dict[str, Any] | None = None,
    random: bool = True,
    **measured: Any,
) -> xr.Dataset:
    """Variables by record, NaN where values (seeds, records) are.

    split: what the partition states besides, such as its test rows. random: whether objectives
    differ by seed, by parts of 1e8 at least, as draws have it. measured: further
    measurements, or others in place of those in variables.
    """
    lost = np.isnan(values)
    variables = {name: np.where(lost, np.nan, value) for name, value in variables.items()}
    variables |= {name: np.asarray(value, dtype=float) for name, value in measured.items()}
    if random:
        by_seed = 1 + 1e-8 * np.arange(len(values))
        variables["objective"] = variables["objective"] * by_seed[:, None]
    specification = {
        "hyper_parameters": {"step_size": step} if hyper_parameters is None else hyper_parameters,
        "rounds": int(_rounds(values, schedule)[-1]),
        "partition": partition | (split or {}),
        "tuning_seeds": list(tuning_seeds),
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
    return build_trace(variables, status, list(range(len(lost))), attributes)


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


def linear_trace(
    rates: Sequence[float], *, records: int = 41, start: float = 0.3, **options: Any
) -> xr.Dataset:
    """A vertical run of linear convergence: seed s loses rates[s] decades with every record."""
    values = start * 10.0 ** (-np.asarray(rates, dtype=float)[:, None] * np.arange(records))
    return vertical_trace(values, **options)
