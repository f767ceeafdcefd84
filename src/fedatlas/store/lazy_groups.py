"""A group of an open netCDF-4 file as an xarray.Dataset, without reading what lies beside it.

The netCDF library reads the names of all groups before it gives one: 14 s for 2,300 traces, and
xarray takes three times as long again (`benchmarks/atlas.py`).
"""

from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np
import xarray as xr
from h5py import h5d, h5ds, h5i, h5o
from xarray.backends import AbstractDataStore, BackendArray
from xarray.core import indexing

from fedatlas.store.contents import names_in
from fedatlas.store.groups import CONVENTIONS, scales_of

_NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable"


def open_group(group: h5py.Group) -> xr.Dataset:
    """Its variables, read when they are used, and decoded as xarray decodes any netCDF file."""
    return xr.open_dataset(_Group(group))


def attributes_of(stored: h5py.Group | h5py.Dataset) -> dict[str, Any]:
    """Attributes as the netCDF library gives them: texts as str, single numbers as such."""
    names = (name for name in stored.attrs if name.encode() not in CONVENTIONS)
    return {name: _value(stored.attrs[name]) for name in names}


def _value(value: Any) -> Any:
    if isinstance(value, h5py.Empty):
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.ndarray) and value.size == 1:
        return _value(value.reshape(-1)[0])
    return value


class _Group(AbstractDataStore):
    """What xarray asks of a file's group."""

    def __init__(self, group: h5py.Group) -> None:
        children = ((name, h5o.open(group.id, name)) for name in names_in(group.id))
        self._group = group
        self._names = {
            child: name.decode() for name, child in children if isinstance(child, h5d.DatasetID)
        }

    def get_variables(self) -> Mapping[str, xr.Variable]:
        return {
            name: self._variable(stored)
            for stored, name in self._names.items()
            if not (h5ds.is_scale(stored) and _is_length(stored))
        }

    def get_attrs(self) -> Mapping[str, Any]:
        return attributes_of(self._group)

    def get_dimensions(self) -> Mapping[str, int]:
        return {
            name: stored.shape[0] for stored, name in self._names.items() if h5ds.is_scale(stored)
        }

    def _variable(self, stored: h5d.DatasetID) -> xr.Variable:
        scales = [scale for _, scale in scales_of(stored)]
        if h5ds.is_scale(stored):
            scales = [stored]
        dataset = h5py.Dataset(stored)
        values = indexing.LazilyIndexedArray(_Values(dataset, self._group))
        return xr.Variable([self._names[scale] for scale in scales], values, attributes_of(dataset))


def _is_length(scale: h5d.DatasetID) -> bool:
    return h5ds.get_scale_name(scale).startswith(_NO_VARIABLE.encode())


class _Values(BackendArray):
    """A variable's values, read from the file piece by piece as they are asked for."""

    def __init__(self, stored: h5py.Dataset, group: h5py.Group) -> None:
        # Opened anew for each piece: HDF5 spends 20 kB on every variable that stays open.
        self._group, self._name = group, h5i.get_name(stored.id)
        self.shape = stored.shape
        self.dtype = stored.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.BASIC, self._read
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Values":
        return self  # a file that is open for reading does not change

    def _read(self, key: tuple[Any, ...]) -> Any:
        stored = self._group[self._name]
        return (stored.asstr() if h5py.check_string_dtype(self.dtype) else stored)[key]
