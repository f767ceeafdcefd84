"""Data sets as netCDF-4 files, whole or not at all."""

from pathlib import Path

import xarray as xr

from fedatlas.errors import FedatlasError
from fedatlas.files import write_atomically


def write_netcdf(dataset: xr.Dataset, path: Path) -> None:
    """Write the file whole or not at all."""
    with write_atomically(path) as temporary:
        dataset.to_netcdf(temporary, engine="netcdf4", format="NETCDF4")


def read_netcdf(path: Path) -> xr.Dataset:
    """Load a file into memory; a damaged one is refused by name."""
    try:
        return xr.load_dataset(path, engine="netcdf4")
    except (OSError, RuntimeError, ValueError) as error:
        raise FedatlasError(
            f"{path}: not a readable netCDF file ({error}). Delete it and run again."
        ) from error
