"""Check by HDF5 itself what a netCDF-4 file from elsewhere holds, before it is read."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import h5py
from h5py import h5, h5d, h5g, h5i, h5l, h5o, h5p

from fedatlas.errors import FedatlasError
from fedatlas.store.netcdf import check_seal, readable

# Of a group's values, where the file is smaller: most traces and files of budgets have a few MB.
_MOST_BYTES = 1 << 30
# By h5py, of damage and where memory runs out.
_RAISED = (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError, MemoryError)


def naming(path: Path) -> AbstractContextManager[None]:
    """What h5py raises of damage within the block names the file."""
    return readable(path, *_RAISED)


@contextmanager
def opened_hdf5(path: Path) -> Iterator[h5py.File]:
    """Open the file; what h5py raises of damage, also inside the block, names the file."""
    with naming(path), h5py.File(path, "r") as file:
        yield file


def check_contents(path: Path) -> None:
    """FedatlasError for a broken seal, for links, other files' values, and claims of huge arrays.

    Anyone can seal a file. The netCDF library follows links and external storage, and allocates the
    memory that a file claims, even for values that were never written.
    """
    check_seal(path)
    with opened_hdf5(path) as file:
        seen: dict[int, bytes] = {}
        waiting = [h5o.open(file.id, b".")]
        while waiting:
            children = checked_children(waiting.pop(), seen).values()
            waiting += [child for child in children if isinstance(child, h5g.GroupID)]


def checked_children(
    group: h5g.GroupID, seen: dict[int, bytes]
) -> dict[bytes, h5g.GroupID | h5d.DatasetID]:
    """What lies in a group, by name; ValueError for what `check_contents` refuses.

    seen: address → path of all that was met so far in the file; it grows.
    """
    # By HDF5's own calls: h5py's objects take twice as long.
    path, children, claimed = h5i.get_name(group), {}, 0
    for name in names_in(group):
        children[name] = child = opened_child(group, path, name, seen)
        if isinstance(child, h5g.GroupID):
            continue
        if not isinstance(child, h5d.DatasetID) or _lies_elsewhere(child):
            raise ValueError(f"'{_text(name)}' is no variable whose values lie in this file")
        claimed += child.get_space().get_simple_extent_npoints() * child.get_type().get_size()
    # Values that are stored take the file's room: we write them without compression.
    if claimed > max(_MOST_BYTES, h5i.get_file_id(group).get_filesize()):
        raise ValueError(f"claims {claimed} bytes of values, more than 1 GiB and than its own size")
    return children


def opened_child(
    group: h5g.GroupID, path: bytes, name: bytes, seen: dict[int, bytes]
) -> h5g.GroupID | h5d.DatasetID:
    """An object of a group at a path; ValueError for a link, or one met under another path."""
    link = group.links.get_info(name)
    if link.type != h5l.TYPE_HARD:
        raise ValueError(f"'{_text(name)}' is a link")
    whole = b"%b/%b" % (path, name)
    if seen.setdefault(link.u, whole) != whole:
        raise ValueError(f"'{_text(name)}' stands for an object that has another name")
    return h5o.open(group, name)


def names_in(group: h5g.GroupID) -> list[bytes]:
    """Of all objects in the group, in the order of their creation where the file tells it."""
    names: list[bytes] = []
    ordered = (
        h5g.open(group, b".").get_create_plist().get_link_creation_order() & h5p.CRT_ORDER_INDEXED
    )
    kind = h5.INDEX_CRT_ORDER if ordered else h5.INDEX_NAME
    group.links.iterate(names.append, idx_type=kind)
    return names


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")


def _lies_elsewhere(dataset: h5d.DatasetID) -> bool:
    stored = dataset.get_create_plist()
    return stored.get_layout() == h5d.VIRTUAL or stored.get_external_count() > 0


def check_format(path: Path, found: object, expected: str, what: str) -> None:
    """FedatlasError names a file of another format; found: its attribute `format`."""
    if found != expected:
        raise FedatlasError(
            f"{path}: is not {what} of this version (its format is {found!r}, expected "
            f"{expected!r}). Move it away and run again."
        )
