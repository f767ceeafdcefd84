"""A trace with all costs that figures know, and its seeds on one axis of cost."""

import numpy as np
import xarray as xr

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.costs import column, cost_axis, is_counted
from fedatlas.evaluation.levels import common_costs, diverged
from fedatlas.schema.cost_names import AXES, Counted
from fedatlas.schema.measurements import MEASUREMENTS


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
        coordinates[name] = (dims, own, _attributes(described))
    return trace.assign_coords(coordinates)


def along(trace: xr.Dataset, cost: str) -> xr.Dataset:
    """A trace's measurements and costs by seed and one cost, all seeds at the same values of it.

    trace: of `Atlas.sel`. cost: one that the trace counts, "latency(100)" or
    "network(latency=0.05, bandwidth=1e6, gradient=1e-5)". The costs are, as in figures, medians
    over seeds by record, as far as every seed went; between its records a seed's curve is a
    straight line. Other costs are variables, which `median("seed")` keeps. A diverged seed is NaN.
    FedatlasError for a cost that the trace does not count.

    >>> with fedatlas.open_atlas(ATLAS) as atlas:
    ...     seeds = fedatlas.along(atlas.sel("fedpage-first", "page"), "bytes")
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
    described = AXES.get(cost, Counted(f"simulated time, {cost}"))
    return xr.Dataset(
        measured | {"status": trace["status"].variable},
        coords={"seed": trace["seed"].variable, "cost": ("cost", grid, _attributes(described))},
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


def _attributes(described: Counted) -> dict[str, str]:
    return {"long_name": described.long_name, "units": described.units}
