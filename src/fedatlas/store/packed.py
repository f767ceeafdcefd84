"""Read netCDF-4 files, plain or packed by xz as published.

Most of a small netCDF-4 file says where its variables lie, which no filter of HDF5's packs. A file
whose name ends in .xz is packed, seal and all; what `unxz` makes of it is a file as any other. The
check of xz, SHA-256, takes the place of the seal's.
"""

import lzma
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import netCDF4
import xarray as xr

from fedatlas.errors import FedatlasError
from fedatlas.files import write_atomically
from fedatlas.store.netcdf import check_seal, open_netcdf, readable, refuse_links, write_netcdf

#: How names of packed files end.
PACKED = ".xz"
# A file may hold so many bytes, or so many times its own size, and claim as many of values.
_MOST_BYTES, _MOST_TIMES = 1 << 30, 1000


def write_file(
    dataset: xr.Dataset, path: Path, encoding: Mapping[str, Mapping[str, Any]] | None = None
) -> None:
    """Write the file whole or not at all, and pack it if its name says so."""
    if path.suffix != PACKED:
        write_netcdf(dataset, path, encoding)
        return
    with tempfile.TemporaryDirectory() as folder, write_atomically(path) as temporary:
        plain = Path(folder) / path.stem
        write_netcdf(dataset, plain, encoding)
        temporary.write_bytes(_packed(plain.read_bytes()))


def _packed(content: bytes) -> bytes:
    """As small as xz makes it, with a dictionary no larger than that takes: to fill takes time."""
    preset, size = 9 | lzma.PRESET_EXTREME, min(max(len(content), 1 << 12), 1 << 26)
    filters = [{"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": size}]
    return lzma.compress(content, check=lzma.CHECK_SHA256, filters=filters)


def read_file(path: Path, file_format: str, what: str) -> xr.Dataset:
    """Load a file of this format; see `open_file`."""
    with open_file(path, file_format, what) as file, readable(path, Exception):
        return xr.open_dataset(xr.backends.NetCDF4DataStore(file)).load()


def open_file(path: Path, file_format: str, what: str) -> netCDF4.Dataset:
    """Open a file of this format, which the caller closes.

    what: the contents, as messages print them. FedatlasError names a file that is damaged, of
    another format, or claims far more than it can hold.
    """
    if path.suffix != PACKED:
        return open_netcdf(path, file_format, what)
    with readable(path, Exception), ExitStack() as stack:
        file = stack.enter_context(open_any(path))
        claimed = sum(int(one.size) * _width(one) for one in file.variables.values())
        if claimed > max(_MOST_BYTES, _MOST_TIMES * path.stat().st_size):
            raise FedatlasError(f"{path}: claims {claimed} bytes of values, more than it holds")
        if getattr(file, "format", None) != file_format:
            raise FedatlasError(f"{path}: is not {what} of this version. Name another file.")
        stack.pop_all()
        return file


def open_any(path: Path) -> netCDF4.Dataset:
    """Open a whole file of any format, which the caller closes; a packed one in memory."""
    if path.suffix == PACKED:
        content = _unpacked(path)
        with readable(path, Exception):
            refuse_links(path, content)
            return netCDF4.Dataset(path.stem, memory=content)
    check_seal(path)
    with readable(path, Exception):
        refuse_links(path)
        return netCDF4.Dataset(path)


def _width(variable: netCDF4.Variable) -> int:
    return 16 if variable.dtype is str else int(variable.dtype.itemsize)


def _unpacked(path: Path) -> bytes:
    with readable(path, OSError):
        packed = path.read_bytes()
    most = max(_MOST_BYTES, _MOST_TIMES * len(packed))
    unpacking = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    try:
        content = unpacking.decompress(packed, most)
    except lzma.LZMAError as error:
        raise FedatlasError(
            f"{path}: is damaged, or no file that xz packed ({error}). Fetch it again."
        ) from None
    if not unpacking.eof:
        why = f"holds more than {most} bytes" if len(content) == most else "was cut off"
        raise FedatlasError(f"{path}: {why}. Fetch it again.")
    return content
