"""Data sets as netCDF-4 files, sealed, whole or not at all."""

from pathlib import Path

import xarray as xr

from fedatlas.errors import FedatlasError
from fedatlas.files import write_atomically
from fedatlas.interruption import Interruption
from fedatlas.traces.seal import check_seal, seal

# The largest file that is written, of budgets or of a trace, has a few MB.
MOST_BYTES = 1 << 30


def write_netcdf(dataset: xr.Dataset, path: Path) -> None:
    """Write the file whole or not at all."""
    with write_atomically(path) as temporary:
        # Ended within, it could wait for ever for a lock of xarray's that it holds itself.
        with Interruption() as interruption:
            dataset.to_netcdf(temporary, engine="netcdf4", format="NETCDF4")
        interruption.hand_on()
        seal(temporary)


def read_netcdf(path: Path) -> xr.Dataset:
    """Load a file into memory; one that is damaged or claims over `MOST_BYTES` is refused.

    Values that were never written take no place in a file, so that a small one can claim any size.
    """
    check_seal(path)
    try:
        claimed = _claimed_bytes(path)
        if claimed > MOST_BYTES:
            raise ValueError(f"claims {claimed} bytes of values, more than {MOST_BYTES}")
        return xr.load_dataset(path, engine="netcdf4")
    except Exception as error:  # damage can make netCDF and xarray raise anything
        raise FedatlasError(
            f"{path}: not a readable netCDF file ({error}). Delete it and run again."
        ) from error


def _claimed_bytes(path: Path) -> int:
    """Open all objects of a netCDF-4 file by HDF5 itself; how many bytes of values it claims.

    The netCDF library may crash on damage that HDF5 notices, and reads what lies in other files.
    Raises what h5py raises of damage, and ValueError for links, other files' data and objects that
    are neither groups nor variables.
    """
    import h5py  # here, since only who reads needs it

    claimed = 0
    seen: set[int] = set()
    with h5py.File(path, "r") as file:
        waiting: list[h5py.Group] = [file]
        while waiting:
            group = waiting.pop()
            for name in group:
                if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                    raise ValueError(f"'{name}' is a link")
                child = group[name]
                address = h5py.h5o.get_info(child.id).addr
                if address in seen:
                    raise ValueError(f"'{name}' stands for an object that has another name")
                seen.add(address)
                if isinstance(child, h5py.Group):
                    waiting.append(child)
                elif not isinstance(child, h5py.Dataset) or child.external or child.is_virtual:
                    raise ValueError(f"'{name}' is no variable whose values lie in this file")
                else:
                    claimed += child.nbytes
    return claimed
