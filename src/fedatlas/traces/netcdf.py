"""Data sets as netCDF-4 files, sealed, whole or not at all."""

from pathlib import Path

import xarray as xr

from fedatlas.errors import FedatlasError
from fedatlas.files import write_atomically
from fedatlas.interruption import Interruption
from fedatlas.traces.seal import readable, seal


def write_netcdf(dataset: xr.Dataset, path: Path) -> None:
    """Write the file whole or not at all."""
    with write_atomically(path) as temporary:
        # A handler that ended the process here could wait forever for a lock of xarray's.
        with Interruption() as interruption:
            dataset.to_netcdf(temporary, engine="netcdf4", format="NETCDF4")
        interruption.hand_on()
        seal(temporary)


def read_netcdf(path: Path, file_format: str, what: str) -> xr.Dataset:
    """Load a sealed file of this format; FedatlasError names any other.

    what: the contents, as the message prints them ("a trace").
    """
    from fedatlas.traces.contents import check_contents  # loads h5py, which writers do without

    check_contents(path)
    with readable(path, Exception):  # xarray can raise anything of what is no netCDF
        dataset = xr.load_dataset(path, engine="netcdf4")
    check_format(path, dataset.attrs.get("format"), file_format, what)
    return dataset


def check_format(path: Path, found: object, expected: str, what: str) -> None:
    """FedatlasError names a file of another format; found: its attribute `format`."""
    if found != expected:
        raise FedatlasError(
            f"{path}: is not {what} of this version (its format is {found!r}, expected "
            f"{expected!r}). Move it away and run again."
        )
