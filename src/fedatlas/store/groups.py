"""Copy groups between netCDF-4 files by HDF5 itself.

For 500 traces xarray takes 18 times as long, and 1.0 GB (`benchmarks/atlas.py`).

A netCDF-4 file is an HDF5 file with conventions: a dimension is a dataset to which variables refer
as the scale of their axes, and which has a number of its own in the file. HDF5's own copy loses
references and repeats numbers, so both are written anew here.
"""

from collections.abc import Iterable

import h5py
import numpy as np
from h5py import h5, h5a, h5d, h5ds, h5g, h5o, h5p, h5s, h5t

from fedatlas.store.contents import checked_children

# Attributes that are written anew or describe the source file.
CONVENTIONS = {
    b"CLASS",
    b"NAME",
    b"DIMENSION_LIST",
    b"REFERENCE_LIST",
    b"_NCProperties",
    b"_Netcdf4Coordinates",
    b"_Netcdf4Dimid",
}
# Those of them that refer to places in the file.
_OF_PLACES = (b"DIMENSION_LIST", b"REFERENCE_LIST", b"_Netcdf4Coordinates", b"_Netcdf4Dimid")
# netCDF keeps the order of creation.
_ORDERED = h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED


class GroupCopier:
    """Copy groups into one file and number its dimensions."""

    def __init__(self) -> None:
        self._dimensions = 0
        self._of_texts = h5p.create(h5p.DATASET_CREATE)
        self._of_texts.set_attr_creation_order(_ORDERED)
        self._of_texts.set_obj_track_times(False)  # the same traces give the same bytes

    def copy(self, source: h5py.Group, target: h5py.Group) -> None:
        """Copy attributes, dimensions, variables and inner groups in their order.

        ValueError for what `traces.contents.check_contents` refuses.
        """
        self._copy(source, target, {})

    def _copy(self, source: h5py.Group, target: h5py.Group, seen: dict[int, bytes]) -> None:
        _copy_attributes(source.id, target.id)
        copies: dict[h5d.DatasetID, h5d.DatasetID] = {}
        for name, child in checked_children(source.id, seen).items():
            if isinstance(child, h5g.GroupID):
                self._copy(h5py.Group(child), make_group(target, name.decode()), seen)
            else:
                copies[child] = self._copy_dataset(child, name, target.id)
        for dataset, copied in copies.items():
            if h5ds.is_scale(dataset):
                if not h5ds.is_scale(copied):
                    h5ds.set_scale(copied, h5ds.get_scale_name(dataset))
                self._number(copied)
        for dataset, copied in copies.items():
            for axis, scale in scales_of(dataset):
                h5ds.attach_scale(copied, copies[scale], axis)

    def _number(self, dimension: h5d.DatasetID) -> None:
        scalar = h5s.create(h5s.SCALAR)
        number = h5a.create(dimension, b"_Netcdf4Dimid", h5t.NATIVE_INT32, scalar)
        number.write(np.array(self._dimensions, np.int32))
        self._dimensions += 1

    def _copy_dataset(
        self, source: h5d.DatasetID, name: bytes, target: h5g.GroupID
    ) -> h5d.DatasetID:
        kind = source.get_type()
        if _is_text(kind):
            # HDF5's copy loses the fill value of texts.
            space = source.get_space()
            copied = h5d.create(target, name, kind, space, self._of_texts)
            values = np.empty(source.shape, kind.dtype)
            source.read(h5s.ALL, h5s.ALL, values)
            copied.write(h5s.ALL, h5s.ALL, values)
            _copy_attributes(source, copied)
        else:
            h5o.copy(source, b".", target, name)
            copied = h5d.open(target, name)
            for convention in _OF_PLACES:
                if h5a.exists(copied, convention):
                    h5a.delete(copied, convention)
        return copied


def make_group(parent: h5py.Group, place: str) -> h5py.Group:
    """The group at this path below the parent; missing groups are created."""
    for name in place.strip("/").split("/"):
        parent = parent[name] if name in parent else parent.create_group(name, track_order=True)
    return parent


def text_of(group: h5py.Group, name: str) -> str | None:
    """A text attribute in either of netCDF's forms, None if it is missing."""
    value = group.attrs.get(name)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return None if value is None else str(value)


def scales_of(dataset: h5d.DatasetID) -> Iterable[tuple[int, h5d.DatasetID]]:
    """The axes of a variable with their dimensions; none for a dimension's own dataset."""
    found: list[tuple[int, h5d.DatasetID]] = []
    if not h5ds.is_scale(dataset):
        for axis in range(len(dataset.shape)):
            # Ids, as the name of a dimension is searched for in the whole file.
            h5ds.iterate(dataset, axis, lambda scale, axis=axis: found.append((axis, scale)))
    return found


def _is_text(kind: h5t.TypeID) -> bool:
    return isinstance(kind, h5t.TypeStringID) and kind.is_variable_str()


def _copy_attributes(
    source: h5g.GroupID | h5d.DatasetID, target: h5g.GroupID | h5d.DatasetID
) -> None:
    for index in range(h5a.get_num_attrs(source)):
        attribute = h5a.open(source, index=index, index_type=h5.INDEX_CRT_ORDER)
        if attribute.name in CONVENTIONS:
            continue
        kind, space = attribute.get_type(), attribute.get_space()
        copied = h5a.create(target, attribute.name, kind, space)
        if space.get_simple_extent_type() == h5s.NULL:  # an empty text
            continue
        value = np.empty(space.get_simple_extent_dims(), kind.dtype)
        # Fixed-length texts are read as they are stored, since numpy ends them otherwise.
        stored = None if _is_text(kind) else kind
        attribute.read(value, mtype=stored)
        copied.write(value, mtype=stored)
