"""Convergence traces: one netCDF-4 file per (experiment, run, grid point).

Dimensions `seed` and `record`. Every variable has `long_name` and `units` ("1" if dimensionless).
A seed that diverged ends with NaN records and status "diverged". A trace holds all seeds of a
point; its specification says which of them chose one."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fedatlas.files import canonical_json
from fedatlas.schema.declared import Counted, Measured, Table
from fedatlas.schema.quantities import AXES, COSTS, MEASUREMENTS, SUMMED_COSTS
from fedatlas.store.netcdf import read_netcdf, write_netcdf

FORMAT = "fedatlas trace 1"
#: What traces count and measure; "bytes" of all directions are those of logs that count no others.
NUMBERS: Table[Counted | Measured] = Table(
    lambda: {**COSTS, "bytes": SUMMED_COSTS["bytes"], **MEASUREMENTS}
)


def about(long_name: str, units: str = "1") -> dict[str, str]:
    """Attributes that every variable has."""
    return {"long_name": long_name, "units": units}


def build_trace(
    variables: Mapping[str, Any],
    status: list[str],
    seeds: list[int],
    attributes: Mapping[str, Any],
    records: np.ndarray | None = None,
) -> xr.Dataset:
    """Assemble a trace from arrays or variables (seeds, records) and the outcome of each seed.

    records: their positions in the record schedule, if not all of it is there.
    """
    columns = {
        name: (("seed", "record"), values, _about(name, values))
        for name, values in variables.items()
    }
    if records is None:
        records = np.arange(next(iter(variables.values())).shape[1])
    return xr.Dataset(
        {name: column for name, column in columns.items() if name not in AXES}
        | {"status": ("seed", status, about("outcome of the seed"))},
        # Costs are coordinates: trace.gradient_norm.plot.line(x="bytes_up", hue="seed") works.
        coords={name: column for name, column in columns.items() if name in AXES}
        | {
            "seed": ("seed", seeds, about("random seed")),
            "record": ("record", records, about("position in the record schedule")),
        },
        attrs={"format": FORMAT, **attributes},
    )


def _about(name: str, values: Any) -> dict[str, str]:
    """What is said of a number; a file tells of what a project declares that is not open here."""
    if name in NUMBERS:
        return about(NUMBERS[name].long_name, NUMBERS[name].units)
    given = getattr(values, "attrs", {})
    if "long_name" not in given:
        raise KeyError(name)
    return {key: str(given[key]) for key in ("long_name", "units")}


def judged(trace: xr.Dataset) -> xr.Dataset:
    """The seeds that verdicts, tables and figures look at: all that did not choose a point."""
    return _of_seeds(trace, lambda tuned: ~tuned)


def tuning(trace: xr.Dataset) -> xr.Dataset:
    """The seeds by which a point is chosen; all of a run without any of its own."""
    return _of_seeds(trace, lambda tuned: tuned)


def _of_seeds(trace: xr.Dataset, kept: Callable[[np.ndarray], np.ndarray]) -> xr.Dataset:
    seeds = json.loads(trace.attrs.get("specification", "{}")).get("tuning_seeds", ())
    if not seeds:
        return trace
    return trace.isel(seed=np.flatnonzero(kept(np.isin(trace["seed"].to_numpy(), seeds))))


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
    return read_netcdf(path, FORMAT, "a trace")
