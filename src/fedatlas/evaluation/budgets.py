"""Privacy budgets of runs, as `studies.budgets` computes them: numbers without spread."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedatlas.errors import FedatlasError

if TYPE_CHECKING:
    import xarray as xr

FORMAT = "fedatlas budgets 1"


def read_budgets(path: Path) -> xr.Dataset:
    """Read it back; a damaged or foreign file is refused by name."""
    from fedatlas.traces.netcdf import read_netcdf  # loads xarray, which plans do without

    return read_netcdf(path, FORMAT, "a file of budgets")


def cases_of(budgets: xr.Dataset, run: str) -> list[xr.Dataset]:
    """Those of a run, one per accounting, its first first; FedatlasError if there is none."""
    cases = [budgets.isel(case=place) for place in np.flatnonzero(budgets["run"] == run)]
    if not cases:
        raise FedatlasError(f"run '{run}' accounts for no privacy")
    return cases
