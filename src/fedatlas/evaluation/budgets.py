"""Privacy budgets of runs, which `studies.budgets` computes; they have no spread."""

from __future__ import annotations

from abc import ABC
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.results import Results
from fedatlas.schema.claims import ClaimTest

if TYPE_CHECKING:
    import xarray as xr

FORMAT = "fedatlas budgets 2"


def read_budgets(path: Path) -> xr.Dataset:
    """Read a file of budgets; FedatlasError names a damaged or foreign one."""
    from fedatlas.store.netcdf import read_netcdf  # loads xarray, which plans do without

    return read_netcdf(path, FORMAT, "a file of budgets")


class BudgetTest(ClaimTest, ABC):
    """A test of what runs spend of privacy."""

    needs: ClassVar[tuple[str, ...]] = ("budgets",)

    def cases(self, results: Results, run: str) -> list[xr.Dataset]:
        """The run's budgets, one per accounting in its order."""
        return cases_of(results.study(results.budgets, "budgets"), run)


def cases_of(budgets: xr.Dataset, run: str) -> list[xr.Dataset]:
    """The run's budgets, one per accounting in its order; FedatlasError if there is none."""
    cases = [budgets.isel(case=place) for place in np.flatnonzero(budgets["run"] == run)]
    if not cases:
        raise FedatlasError(f"run '{run}' accounts for no privacy")
    return cases
