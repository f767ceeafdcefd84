"""The atlas that the workflow joins: a netCDF-4 file, of which groups are read when asked for."""

from pathlib import Path
from typing import Any

import h5py
import xarray as xr
from h5py import h5g, h5i, h5o

from fedatlas.errors import FedatlasError
from fedatlas.store import FORMAT
from fedatlas.store.atlas import Atlas
from fedatlas.store.contents import checked_children, naming, opened_child
from fedatlas.store.lazy_groups import attributes_of, open_group
from fedatlas.store.netcdf import check_seal


class NetcdfAtlas(Atlas):
    """Groups are opened, and checked, when they are asked for."""

    def __init__(self, path: Path) -> None:
        """`open_atlas` says what is refused."""
        check_seal(path)
        self.path = path
        self._seen: dict[int, bytes] = {}
        with naming(path):
            self._file = h5py.File(path, "r")
        try:
            self.names()
            self.attrs = self.attributes("/")
            self._check_format()
        except FedatlasError:
            self.close()
            raise

    def _check_format(self) -> None:
        found = self.attrs.get("format")
        if found != FORMAT:
            raise FedatlasError(
                f"{self.path}: is not an atlas of this version (its format is {found!r}, expected "
                f"{FORMAT!r}). Name an atlas, such as results/atlas/atlas.nc"
            )

    def names(self, place: str = "") -> list[str]:
        group = self._group(place)
        with naming(self.path):
            children = checked_children(group, self._seen).items()
            return [name.decode() for name, child in children if isinstance(child, h5g.GroupID)]

    def attributes(self, place: str) -> dict[str, Any]:
        group = self._group(place)
        with naming(self.path):
            return attributes_of(h5py.Group(group))

    def dataset(self, place: str) -> xr.Dataset:
        group = self._group(place)
        with naming(self.path):
            checked_children(group, self._seen)
            return open_group(h5py.Group(group))

    def _group(self, place: str) -> h5g.GroupID:
        with naming(self.path):
            group, path = h5o.open(self._file.id, b"."), b"/"
        for name in filter(None, place.encode().split(b"/")):
            if name not in group:
                raise KeyError(place)
            with naming(self.path):
                group = opened_child(group, path, name, self._seen)
                path = h5i.get_name(group)
            if not isinstance(group, h5g.GroupID):
                raise KeyError(place)
        return group

    def close(self) -> None:
        self._file.close()
