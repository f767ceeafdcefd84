"""Small files that ask for far more memory, stack or time than they are worth.

Each function writes one into a folder and returns what reads it.
"""

import gzip
import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from catalogue_entry import tiny, tiny_images, written
from fedatlas.data.download import unpack_archive
from fedatlas.data.formats import read_raw
from fedatlas.data.formats.columns import Columns
from fedatlas.data.formats.csv import CsvTable, read_csv
from fedatlas.data.formats.image_folders import _rgb_image
from fedatlas.data.formats.parquet import read_table
from fedatlas.schema.models import read_yaml
from fedatlas.schema.runs import read_optimum
from fedatlas.store.netcdf import seal
from fedatlas.store.trace import read_trace
from fedatlas.training.seeds import read_checkpoint

Read = Callable[[], Any]
MIB, GIB = 1 << 20, 1 << 30


def idx_of_four_billion_images(folder: Path) -> Read:
    dataset = tiny_images(2, (1, 2, 3), format="idx")
    header = bytes([0, 0, 8, 3]) + struct.pack(">3I", (1 << 32) - 1, 2, 3)
    images = written(folder / "images", header + bytes(6))
    labels = written(folder / "labels", bytes([0, 0, 8, 1]) + struct.pack(">I", (1 << 32) - 1))
    return lambda: read_raw(dataset, "train", [images, labels])


def libsvm_index_of_a_quintillion(folder: Path) -> Read:
    dataset = tiny(labels={-1: -1, 1: 1})
    path = written(folder / "a", b"1 1:1\n1 1000000000000000000:1\n")
    return lambda: read_raw(dataset, "train", [path])


def csv_of_a_million_columns(folder: Path) -> Read:
    path = written(folder / "a.csv", b"y" + b",y" * 1_000_000 + b"\n1\n")
    return lambda: read_csv(path, CsvTable(label="y", numeric=("a",)), None)


def parquet_of_a_quarter_billion_nulls(folder: Path) -> Read:
    pq.write_table(pa.table({"y": pa.nulls(1 << 28)}), folder / "a.parquet")
    columns = Columns(label="y", drop_missing=True)
    return lambda: read_table([folder / "a.parquet"], columns, None)


def _png(width: int, height: int, content: bytes) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">2I5B", width, height, 8, 6, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", content)
        + chunk(b"IEND", b"")
    )


def png_of_eighty_megapixels(folder: Path) -> Read:
    # Within what Pillow's own bound lets pass.
    path = written(folder / "a.png", _png(10_000, 8_000, zlib.compress(bytes(320_000_000), 1)))
    return lambda: _pixels(path, "PNG")


def jpeg_of_four_gigapixels(folder: Path) -> Read:
    from PIL import Image

    stream = io.BytesIO()
    Image.new("RGB", (8, 8)).save(stream, "JPEG")
    content = stream.getvalue()
    at = content.index(b"\xff\xc0") + 5
    claimed = content[:at] + struct.pack(">HH", 65_000, 65_000) + content[at + 4 :]
    path = written(folder / "a.jpg", claimed)
    return lambda: _pixels(path, "JPEG")


def _pixels(path: Path, kind: str) -> Any:
    return _rgb_image(path, kind).tobytes()


def _npy(header: str, content: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


def _checkpoint(folder: Path, array: bytes, method: int = zipfile.ZIP_STORED) -> Read:
    path = folder / "a.npz"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("header.npy", array)
    return lambda: read_checkpoint(path, {"run": "me"}, {})


def checkpoint_of_a_quintillion_values(folder: Path) -> Read:
    shape = f"({1 << 60},)"
    return _checkpoint(
        folder, _npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}")
    )


def checkpoint_that_unpacks_to_half_a_gibibyte(folder: Path) -> Read:
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({GIB // 2},)}}"
    path, read = folder / "a.npz", _checkpoint(folder, b"")
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("header.npy", "w") as stream,
    ):
        stream.write(_npy(header))
        for _ in range(GIB // 2 // MIB):
            stream.write(bytes(MIB))
    return read


def netcdf_of_a_trillion_values(folder: Path) -> Read:
    import netCDF4

    path = folder / "a.nc"
    with netCDF4.Dataset(path, "w") as dataset:
        dataset.createDimension("seed", 1 << 20)
        dataset.createDimension("record", 1 << 20)
        dataset.createVariable("objective", "f8", ("seed", "record"), chunksizes=(1024, 1024))
    seal(path)
    return lambda: read_trace(path)


def yaml_that_is_deep(folder: Path) -> Read:
    path = written(folder / "a.yaml", b"[" * 500_000)
    return lambda: read_yaml(path)


def yaml_of_a_billion_laughs(folder: Path) -> Read:
    lines = ["k0: &k0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"k{i}: &k{i} [{', '.join([f'*k{i - 1}'] * 9)}]" for i in range(1, 10)]
    path = written(folder / "a.yaml", "\n".join(lines).encode())
    return lambda: repr(read_yaml(path))


def yaml_of_a_billion_merges(folder: Path) -> Read:
    lines = ["k0: &k0 {x: 1}"]
    lines += [f"k{i}: &k{i} {{<<: [{', '.join([f'*k{i - 1}'] * 9)}]}}" for i in range(1, 10)]
    path = written(folder / "a.yaml", "\n".join(lines).encode())
    return lambda: read_yaml(path)


def json_that_is_deep(folder: Path) -> Read:
    path = written(folder / "a.json", b"[" * 500_000)
    return lambda: read_optimum(path)


def tar_of_zeros(folder: Path) -> Read:
    member = tarfile.TarInfo("zeros")
    member.size = 200 * MIB
    content = gzip.compress(member.tobuf()) + gzip.compress(bytes(MIB)) * 201
    path = written(folder / "a.tar.gz", content)
    return lambda: unpack_archive(path, "tar", folder / "out", 100 * MIB)


# What the error says; the empty text where nothing usable is found and None is given.
EXPECTED: dict[Callable[[Path], Read], str] = {
    idx_of_four_billion_images: "its header promises 4294967295 samples",
    libsvm_index_of_a_quintillion: "feature index 1000000000000000000, but 3 features",
    csv_of_a_million_columns: "columns 'y' occur twice",
    parquet_of_a_quarter_billion_nulls: "more than is read",
    png_of_eighty_megapixels: "10000 × 8000 pixels are too many",
    jpeg_of_four_gigapixels: "decompression bomb",
    checkpoint_of_a_quintillion_values: "",
    checkpoint_that_unpacks_to_half_a_gibibyte: "",
    netcdf_of_a_trillion_values: "bytes of values, more than 1 GiB",
    yaml_that_is_deep: "nested more than 100 deep",
    yaml_of_a_billion_laughs: "aliases stand for more than 200000 values",
    yaml_of_a_billion_merges: "aliases stand for more than 200000 values",
    json_that_is_deep: "cannot be read as JSON",
    tar_of_zeros: "unpacks to more than 104857600 bytes",
}
