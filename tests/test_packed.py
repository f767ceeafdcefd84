"""netCDF-4 files that xz packed as a whole."""

import io
import lzma
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

from fedatlas.errors import FedatlasError
from fedatlas.store import packed
from fedatlas.store.netcdf import seal
from fedatlas.store.packed import open_any, read_file, write_file

NUMBERS = xr.Dataset({"a": ("i", np.arange(1000.0))}, attrs={"format": "numbers 1"})


@pytest.fixture
def file(tmp_path) -> Path:
    write_file(NUMBERS, tmp_path / "a.nc.xz")
    return tmp_path / "a.nc.xz"


def test_others_read_what_was_packed(file, tmp_path):
    xr.testing.assert_identical(read_file(file, "numbers 1", "numbers"), NUMBERS)
    xr.testing.assert_identical(xr.open_dataset(lzma.decompress(file.read_bytes())).load(), NUMBERS)
    subprocess.run(["xz", "--decompress", "--keep", file], check=True)
    xr.testing.assert_identical(read_file(tmp_path / "a.nc", "numbers 1", "numbers"), NUMBERS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.nc", "a.nc.xz"]


def test_the_same_values_give_the_same_bytes(file, tmp_path):
    write_file(NUMBERS, tmp_path / "b.nc.xz")
    assert (tmp_path / "b.nc.xz").read_bytes() == file.read_bytes()


def link_to_another_file(file: h5py.File, other: Path) -> None:
    file["secret"] = h5py.ExternalLink(str(other), "/secret")


def link_within(file: h5py.File, other: Path) -> None:
    file["again"] = h5py.SoftLink("/a")


def bytes_of_another_file(file: h5py.File, other: Path) -> None:
    file.create_dataset("secret", (3,), "u1", external=[(str(other), 0, 3)])


def view_of_another_file(file: h5py.File, other: Path) -> None:
    layout = h5py.VirtualLayout((3,), "f8")
    layout[:] = h5py.VirtualSource(str(other), "secret", (3,))
    file.create_virtual_dataset("secret", layout)


@pytest.mark.parametrize(
    "add", [link_to_another_file, link_within, bytes_of_another_file, view_of_another_file]
)
@pytest.mark.parametrize("name", ["b.nc", "b.nc.xz"])
def test_content_of_other_files_is_not_read(tmp_path, add, name):
    """As a stranger's file could show what lies here, which its reader would then pass on."""
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other["secret"] = np.arange(3.0)
    write_file(NUMBERS, tmp_path / "a.nc")
    with h5py.File(tmp_path / "a.nc", "r+") as file:
        add(file, tmp_path / "other.h5")
    seal(tmp_path / "a.nc")
    content = (tmp_path / "a.nc").read_bytes()
    (tmp_path / name).write_bytes(lzma.compress(content) if name.endswith(".xz") else content)
    with pytest.raises(FedatlasError, match=rf"{name}: has links"):
        open_any(tmp_path / name)
    with pytest.raises(FedatlasError, match=rf"{name}: has links"):
        read_file(tmp_path / name, "numbers 1", "numbers")


@pytest.mark.parametrize("place", [0, 7, 40, -40, -1])
def test_a_changed_byte_is_noticed(file, place):
    content = bytearray(file.read_bytes())
    content[place] ^= 0xFF
    file.write_bytes(content)
    with pytest.raises(FedatlasError, match=r"a\.nc\.xz: (is damaged|was cut off)"):
        open_any(file)


@pytest.mark.parametrize("kept", [0, 20, -1])
def test_a_file_that_was_cut_off_is_noticed(file, kept):
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(FedatlasError, match=r"a\.nc\.xz: (was cut off|is damaged)"):
        open_any(file)


def test_files_that_hold_or_claim_too_much_are_refused(file, monkeypatch):
    monkeypatch.setattr(packed, "_MOST_BYTES", 1000)
    monkeypatch.setattr(packed, "_MOST_TIMES", 1)
    with pytest.raises(FedatlasError, match="holds more than"):
        open_any(file)
    monkeypatch.undo()
    claims = io.BytesIO()
    with h5py.File(claims, "w") as written:
        written.create_dataset("a", (10**5, 10**5), "f8", chunks=(10, 10))  # nothing written
    file.write_bytes(lzma.compress(claims.getvalue()))
    with pytest.raises(FedatlasError, match="claims 80000000000 bytes"):
        read_file(file, "numbers 1", "numbers")


def test_foreign_files_are_named(file):
    with pytest.raises(FedatlasError, match=r"a\.nc\.xz: is not a trace of this version"):
        read_file(file, "fedatlas trace 1", "a trace")
    file.write_bytes(lzma.compress(b"hello"))
    with pytest.raises(FedatlasError, match=r"a\.nc\.xz"):
        read_file(file, "numbers 1", "numbers")
    with pytest.raises(FedatlasError, match=r"b\.nc\.xz: there is no such file"):
        read_file(file.with_name("b.nc.xz"), "numbers 1", "numbers")
