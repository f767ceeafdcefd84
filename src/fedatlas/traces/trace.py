"""Convergence traces: one netCDF-4 file per (experiment, run, grid point).

Dimensions `seed` and `record`. Every variable has `long_name` and `units` ("1" if dimensionless).
A seed that diverged ends with NaN records and status "diverged".
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fedatlas.errors import FedatlasError
from fedatlas.files import canonical_json
from fedatlas.traces.netcdf import read_netcdf, write_netcdf

FORMAT = "fedatlas trace 1"

#: Cost axes: what a run has spent by each record; name → (long name, units). A trace holds those
#: that its setting counts.
COSTS = {
    "round": ("communication rounds", "1"),
    "iteration": ("sequential gradient steps", "1"),
    "epoch": ("gradient evaluations per training sample", "1"),
    "update_epoch": ("dominated updates per training sample", "1"),
    "gradient_evaluations": ("per-sample gradient evaluations", "1"),
    "full_passes": ("passes over all samples (snapshots, initial tables)", "1"),
    "block_updates": ("updates of a party's block", "1"),
    "bytes_up": ("bytes towards a server, dominator or hub", "byte"),
    "bytes_down": ("bytes from a server, dominator or hub", "byte"),
    "bytes_sent": ("bytes between agents or hubs", "byte"),
    "messages": ("messages", "1"),
    "sequential_messages": ("messages one after the other, each of which takes a latency", "1"),
    "sequential_bytes": ("bytes of the busiest node, one exchange after the other", "byte"),
    "sequential_gradients": ("per-sample gradients one after the other", "1"),
    "hub_client_trips": ("sequential round trips between hubs and clients", "1"),
    "hub_hub_trips": ("sequential round trips between hubs", "1"),
    "full_participations": ("rounds in which every client took part", "1"),
    "simulated_time": ("simulated time", "s"),
    "epsilon": ("privacy spent, ε", "1"),
    "delta": ("privacy spent, δ", "1"),
    "wall_time": ("time spent in rounds, evaluation excluded", "s"),
}

#: Measurements; name → (long name, units).
MEASUREMENTS = {
    "objective": ("objective f(x)", "1"),
    "gradient_norm": ("norm of the full gradient ‖∇f(x)‖", "1"),
    "suboptimality": ("sub-optimality f(x) − f*", "1"),
    "train_accuracy": ("accuracy on the training samples", "1"),
    "test_accuracy": ("accuracy on the test samples", "1"),
    "train_auroc": ("area under the ROC curve on the training samples", "1"),
    "test_auroc": ("area under the ROC curve on the test samples", "1"),
    "train_f1": ("F1 score of the positive class on the training samples", "1"),
    "test_f1": ("F1 score of the positive class on the test samples", "1"),
    "train_top5_accuracy": ("top-5 accuracy on the training samples", "1"),
    "test_top5_accuracy": ("top-5 accuracy on the test samples", "1"),
    "min_max_objective": ("min–max objective F(θ, w)", "1"),
    "test_accuracy_of_agents": ("accuracy on the test samples, mean over agents", "1"),
    "test_accuracy_of_worst_agent": ("accuracy on the test samples, of the worst agent", "1"),
    "disagreement": ("root mean square distance of agents from their mean", "1"),
    "train_rmse": ("root mean square error on the training samples", "1"),
    "test_rmse": ("root mean square error on the test samples", "1"),
    "read_delay_mean": ("updates that a read of a block lacked, mean so far", "1"),
    "read_delay_max": ("updates that a read of a block lacked, largest so far", "1"),
    "update_delay_mean": ("updates of a block between read and application, mean so far", "1"),
    "update_delay_max": ("updates of a block between read and application, largest so far", "1"),
    "mask_error": ("largest rounding error left by masks in a sum so far", "1"),
}

#: Measurements of which more is better, 1 the best; of others less is, if either is.
LARGER_IS_BETTER = frozenset(
    {
        "train_accuracy",
        "test_accuracy",
        "test_accuracy_of_agents",
        "test_accuracy_of_worst_agent",
        "train_auroc",
        "test_auroc",
        "train_f1",
        "test_f1",
        "train_top5_accuracy",
        "test_top5_accuracy",
    }
)

#: Measurements that fall towards zero, over orders of magnitude.
LOGARITHMIC = frozenset({"gradient_norm", "suboptimality"})


def record_schedule(rounds: int, every: int) -> np.ndarray:
    """Rounds at which records fall: 0, every, 2·every, …, and always the last."""
    return np.unique(np.append(np.arange(0, rounds + 1, every), rounds))


def build_trace(
    variables: dict[str, np.ndarray],
    status: list[str],
    seeds: list[int],
    attributes: dict[str, Any],
) -> xr.Dataset:
    """Assemble a trace from arrays (seeds, records) and the outcome of each seed."""
    described = COSTS | MEASUREMENTS
    columns = {
        name: (
            ("seed", "record"),
            values,
            {"long_name": described[name][0], "units": described[name][1]},
        )
        for name, values in variables.items()
    }
    return xr.Dataset(
        {name: column for name, column in columns.items() if name not in COSTS}
        | {"status": ("seed", status, {"long_name": "outcome of the seed", "units": "1"})},
        # Costs are coordinates: trace.gradient_norm.plot.line(x="bytes_up", hue="seed") works.
        coords={name: column for name, column in columns.items() if name in COSTS}
        | {
            "seed": ("seed", seeds, {"long_name": "random seed", "units": "1"}),
            "record": (
                "record",
                np.arange(next(iter(variables.values())).shape[1]),
                {"long_name": "position in the record schedule", "units": "1"},
            ),
        },
        attrs={"format": FORMAT, **attributes},
    )


def values_digest(variables: Mapping[Any, Any]) -> str:
    """SHA-256 of a trace's values by name, whatever file holds them.

    Without wall_time, so that it is equal exactly if two runs gave the same results, bit for bit.
    """
    digest = hashlib.sha256()
    for name in sorted(set(variables) - {"wall_time"}):
        values = np.asarray(variables[name])
        digest.update(f"{name} {values.shape}\n".encode())
        if values.dtype.kind in "biu":
            digest.update(values.astype("<i8").tobytes())
        elif values.dtype.kind == "f":
            # One NaN for all: their other bits say nothing.
            digest.update(np.where(np.isnan(values), np.nan, values).astype("<f8").tobytes())
        else:
            digest.update(canonical_json(values.astype(str).tolist()).encode())
    return digest.hexdigest()


def write_trace(trace: xr.Dataset, path: Path) -> None:
    """Write the file whole or not at all."""
    write_netcdf(trace, path)


def read_trace(path: Path) -> xr.Dataset:
    """Load a trace into memory; a damaged or foreign file is refused by name."""
    trace = read_netcdf(path)
    if trace.attrs.get("format") != FORMAT:
        raise FedatlasError(
            f"{path}: is not a trace of this version (its format is "
            f"{trace.attrs.get('format')!r}, expected {FORMAT!r}). Delete it and run again."
        )
    return trace
