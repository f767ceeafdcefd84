"""Check by HDF5 itself what a netCDF-4 file from elsewhere holds, before it is read."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py

from fedatlas.traces.seal import check_seal, readable

_MOST_BYTES = 1 << 30  # of a group's values; the largest trace or file of budgets has a few MB


@contextmanager
def opened_hdf5(path: Path) -> Iterator[h5py.File]:
    """Open the file; what h5py raises of damage, also inside the block, names the file."""
    errors = OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError
    with readable(path, *errors), h5py.File(path, "r") as file:
        yield file


def check_contents(path: Path) -> None:
    """FedatlasError for a broken seal, for links, other files' values, and claims of huge arrays.

    Anyone can seal a file. The netCDF library follows links and external storage, and allocates the
    memory that a file claims, even for values that were never written.
    """
    check_seal(path)
    with opened_hdf5(path) as file:
        seen: set[int] = set()
        waiting: list[h5py.Group] = [file]
        while waiting:
            group, claimed = waiting.pop(), 0
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
            if claimed > _MOST_BYTES:
                raise ValueError(f"claims {claimed} bytes of values, more than {_MOST_BYTES}")
