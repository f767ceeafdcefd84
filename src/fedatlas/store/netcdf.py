"""Data sets as netCDF-4 files, whole or not at all, with a seal at the end.

The seal is the SHA-256 of all bytes before it. HDF5 ignores bytes after its own end, so any program
reads a sealed file. Its library may hang or crash on a damaged file; the seal is checked before the
library sees it. It is no signature: anyone can seal a file.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import netCDF4
import xarray as xr

from fedatlas.errors import FedatlasError, NotReadNowError
from fedatlas.files import write_atomically
from fedatlas.interruption import Interruption

_MARK = b"\nfedatlas seal sha256 "
_LENGTH = len(_MARK) + 64 + 1
_CHUNK = 1 << 20
# A file may claim so many bytes of values, or so many times its own size: HDF5 allocates what a
# file claims, and zlib packs at most a thousand bytes into one.
_MOST_BYTES, _MOST_TIMES = 1 << 30, 1000


def write_netcdf(
    dataset: xr.Dataset, path: Path, encoding: Mapping[str, Mapping[str, Any]] | None = None
) -> None:
    """Write the file whole or not at all, and seal it."""
    with write_atomically(path) as temporary:
        # A handler that ended the process here could wait forever for a lock of xarray's.
        with Interruption() as interruption:
            dataset.to_netcdf(temporary, engine="netcdf4", format="NETCDF4", encoding=encoding)
        interruption.hand_on()
        seal(temporary)


def read_netcdf(path: Path, file_format: str, what: str) -> xr.Dataset:
    """Load a sealed file of this format; see `open_netcdf`."""
    with open_netcdf(path, file_format, what) as file, readable(path, Exception):
        return as_dataset(file).load()


def open_netcdf(path: Path, file_format: str, what: str) -> netCDF4.Dataset:
    """Open a sealed file of this format.

    what: the contents, as messages print them ("a trace"). FedatlasError names a file that is
    damaged, of another format, or claims far more values than it can hold.
    """
    check_seal(path)
    # The library can raise anything of what is no netCDF.
    with readable(path, Exception), ExitStack() as stack:
        file = stack.enter_context(netCDF4.Dataset(path))
        claimed = sum(map(_claimed_bytes, file.variables.values()))
        if claimed > max(_MOST_BYTES, _MOST_TIMES * path.stat().st_size):
            raise ValueError(f"claims {claimed} bytes of values, more than 1 GiB and than it holds")
        found = getattr(file, "format", None)
        if found != file_format:
            raise FedatlasError(
                f"{path}: is not {what} of this version (its format is {found!r}, expected "
                f"{file_format!r}). Move it away and run again."
            )
        stack.pop_all()
        return file


def as_dataset(file: netCDF4.Dataset) -> xr.Dataset:
    """An open file's data set, of which values are read when they are used."""
    return xr.open_dataset(xr.backends.NetCDF4DataStore(file))


def _claimed_bytes(variable: netCDF4.Variable) -> int:
    each = 16 if variable.dtype is str else variable.dtype.itemsize
    return int(variable.size) * each


def seal(path: Path) -> None:
    """Add the seal of a file that is written and closed."""
    digest = _digest(path, path.stat().st_size)
    with path.open("ab") as stream:
        stream.write(_MARK + digest + b"\n")


@contextmanager
def readable(path: Path, *errors: type[Exception]) -> Iterator[None]:
    """Name the file where one of these errors shows that it cannot be read.

    What is read is sealed, so not damaged by accident: where libraries fail, memory may have run
    out, which netCDF calls "Unknown file format" or "HDF error".
    """
    try:
        yield
    except FedatlasError:
        raise
    except (FileNotFoundError, NotADirectoryError):
        raise FedatlasError(f"{path}: there is no such file; run snakemake to make it") from None
    except (IsADirectoryError, PermissionError) as error:
        raise FedatlasError(f"{path}: cannot be read: {error.strerror}") from None
    except errors as error:
        if isinstance(error, OSError | RuntimeError | MemoryError):
            raise NotReadNowError(path, error) from error
        raise FedatlasError(
            f"{path}: holds no trace or atlas ({error}). Move it away and run again."
        ) from error


def check_seal(path: Path) -> None:
    """FedatlasError names a file that cannot be read, has no seal, or was changed since."""
    with readable(path, OSError):
        size = path.stat().st_size
        with path.open("rb") as stream:
            stream.seek(-min(size, _LENGTH), os.SEEK_END)
            found = stream.read()
        if not (found.startswith(_MARK) and found.endswith(b"\n")):
            raise FedatlasError(
                f"{path}: is not a readable netCDF file of fedatlas: it has no seal at its end. "
                "Another program wrote it, or it was cut off. Name another file; if it is a result "
                "of the workflow, move it away and run again."
            )
        if found != _MARK + _digest(path, size - _LENGTH) + b"\n":
            raise FedatlasError(
                f"{path}: is damaged or was changed since it was written: its seal does not match. "
                "Move it away and run again."
            )


def _digest(path: Path, length: int) -> bytes:
    """In hexadecimal digits, of the first bytes of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while length > 0 and (chunk := stream.read(min(length, _CHUNK))):
            digest.update(chunk)
            length -= len(chunk)
    return digest.hexdigest().encode()
