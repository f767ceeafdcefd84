"""Views of a trace: with all costs, along one cost, with fewer records and digits."""

from math import ceil, log2

import numpy as np
import xarray as xr

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.levels import column, common_costs, cost_axis, diverged, is_counted
from fedatlas.schema.quantities import AXES, MEASUREMENTS, axis
from fedatlas.store.trace import about


def with_costs(trace: xr.Dataset) -> xr.Dataset:
    """A stored trace with all its costs as coordinates.

    Costs that all healthy seeds share lie along `record` only: reductions over seeds keep them.
    """
    healthy = np.flatnonzero(~diverged(trace))
    coordinates = {}
    for name, described in AXES.items():
        if not is_counted(trace, name):
            continue
        values = cost_axis(trace, name)
        shared = bool(len(healthy)) and bool((values[healthy] == values[healthy[0]]).all())
        dims, own = ("record", values[healthy[0]]) if shared else (("seed", "record"), values)
        coordinates[name] = (dims, own, about(described.long_name, described.units))
    return trace.assign_coords(coordinates)


def along(trace: xr.Dataset, cost: str) -> xr.Dataset:
    """A trace's measurements and costs by seed and one cost, all seeds at the same values of it.

    trace: of `Atlas.sel`. cost: one that the trace counts, "latency(100)" or
    "network(latency=0.05, bandwidth=1e6, gradient=1e-5)". The costs are, as in figures, medians
    over seeds by record, as far as every seed went; between its records a seed's curve is a
    straight line. Other costs are variables, which `median("seed")` keeps. A diverged seed is NaN.
    FedatlasError for a cost that the trace does not count.

    >>> atlas = fedatlas.open_atlas(ATLAS)
    >>> seeds = fedatlas.along(atlas.sel("fedpage-first", "page"), "bytes")
    >>> median = seeds.median("seed")
    >>> at = median.interp(cost=1e5)
    >>> round(float(at.gradient_norm), 3), round(float(at["round"]))
    (0.155, 91)
    >>> lines = median.gradient_norm.plot(yscale="log")
    """
    stored = _by_seed(trace)
    if not is_counted(stored, cost):
        counted = [name for name in AXES if is_counted(stored, name)]
        raise FedatlasError(
            f"cost: run '{trace.attrs['run']}' does not count '{cost}'; it counts "
            f"{', '.join(counted)}"
        )
    grid = np.unique(common_costs(stored, cost))
    spent, healthy = cost_axis(stored, cost), ~diverged(stored)
    measured = {}
    for name in (*MEASUREMENTS, *AXES):
        if name not in trace:
            continue
        recorded = column(stored, name)
        values = np.full((len(spent), len(grid)), np.nan)
        for seed in np.flatnonzero(healthy):
            values[seed] = np.interp(grid, spent[seed], recorded[seed])
        measured[name] = (("seed", "cost"), values, trace[name].attrs)
    described = axis(cost)
    return xr.Dataset(
        measured | {"status": trace["status"].variable},
        coords={
            "seed": trace["seed"].variable,
            "cost": ("cost", grid, about(described.long_name, described.units)),
        },
        attrs=trace.attrs,
    )


def _by_seed(trace: xr.Dataset) -> xr.Dataset:
    """Costs along records alone are those of every seed."""
    seeds = trace.sizes["seed"]
    shared = [name for name, cost in trace.coords.items() if cost.dims == ("record",)]
    return trace.assign_coords(
        {
            name: (("seed", "record"), np.tile(trace[name].to_numpy(), (seeds, 1)))
            for name in shared
            if name != "record"
        }
    )


#: How a thinned file tells what it left out.
THINNED = (
    "lossy: at most {records} records of each trace, half of them evenly and half logarithmically "
    "spaced over the record schedule, the first and the last among them; values are float32, "
    "measurements with {digits} significant digits, costs with four, measured times with two; "
    "seeds that chose among points of grids are left out"
)


def kept_records(records: int, most: int) -> np.ndarray:
    """Positions of at most `most` (at least 2) of so many records, rising, with both ends."""
    if records <= most:
        return np.arange(records)
    logarithmic = np.geomspace(1, records - 1, most // 2)
    even = np.linspace(0, records - 1, most - most // 2)
    return np.unique(np.rint(np.concatenate([even, logarithmic])).astype(int))


def thinned(trace: xr.Dataset, most: int) -> xr.Dataset:
    """The trace at `kept_records`; its attribute `thinned` says how many its run had."""
    kept = trace.isel(record=kept_records(trace.sizes["record"], most))
    told = f"{kept.sizes['record']} of {_records_before(trace)} records"
    return kept.assign_attrs(thinned=told)


def _records_before(trace: xr.Dataset) -> int:
    """How many records a trace had before it was thinned."""
    declared = str(trace.attrs.get("thinned", f"all of {trace.sizes['record']} records"))
    return int(declared.partition(" of ")[2].partition(" ")[0])


def is_thinned(trace: xr.Dataset) -> bool:
    """Whether the trace lacks records that its run had."""
    return trace.sizes["record"] < _records_before(trace)


def round_digits(values: np.ndarray, digits: int = 6) -> np.ndarray:
    """Values as float32, rounded by a share of half a unit of so many digits at most.

    digits: significant ones, at most 6. Of the 23 bits of a float32 behind the leading one as many
    stay as they take: 20 for six digits, 10 for three. Files are packed by the others, which are 0.
    """
    dropped = 23 - ceil(digits * log2(10))
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    half = np.uint32((1 << (dropped - 1)) - 1)
    odd = (bits >> np.uint32(dropped)) & np.uint32(1)
    kept = np.uint32(0xFFFFFFFF ^ ((1 << dropped) - 1))
    return ((bits + half + odd) & kept).view(np.float32)
