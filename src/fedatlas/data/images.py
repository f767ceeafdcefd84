"""Files of images: IDX and CIFAR-10 → pixels as they are stored, and raw labels.

Nothing in a file is trusted: what its header promises is compared with the size of the file before
anything is read, and pickles are not executed (see `fedatlas.data.cifar_pickle`).
"""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from fedatlas.data.cifar_pickle import read_pickle
from fedatlas.errors import FedatlasError

Images = tuple[np.ndarray, np.ndarray]
"""Pixels, (n, d) uint8 with channels first, and raw labels, (n,) whole numbers."""

IDX_BYTES = 0x08


def read_idx(images: Path, labels: Path, shape: tuple[int, ...]) -> Images:
    """Read a pair of uncompressed IDX files of unsigned bytes.

    shape: of one image, channels first; files of grey images leave the one channel out.
    Raises FedatlasError, naming the file, when it cannot be read, is no IDX file of bytes, holds
    samples of another shape, is cut short or goes on after its end; and when there are no images
    or not as many labels.
    """
    pixels = _read_idx(images, shape[1:] if shape[0] == 1 else shape)
    raw_labels = _read_idx(labels, ())
    if len(pixels) != len(raw_labels):
        raise FedatlasError(
            f"{labels}: holds {len(raw_labels)} labels, but {images} holds {len(pixels)} images; "
            "name the two files of one split, images first"
        )
    return pixels.reshape(len(pixels), math.prod(shape)), raw_labels


def read_cifar(path: Path, shape: tuple[int, ...]) -> Images:
    """Read one batch of CIFAR-10: records of bytes (`.bin`), otherwise a pickle.

    shape: of one image, channels first. Raises FedatlasError, naming the file, when it cannot be
    read or is no batch of such images.
    """
    with _reading(path):
        if path.suffix != ".bin":
            return read_pickle(path, math.prod(shape))
        return _read_records(path, math.prod(shape))


def _read_records(path: Path, features: int) -> Images:
    """Records of one byte of label and the image's bytes."""
    size = path.stat().st_size
    record = 1 + features
    if size == 0 or size % record:
        raise FedatlasError(
            f"{path}: is {size} bytes long, which is no multiple of the {record} bytes of a label "
            "and an image; it is cut short or another file: download it again"
        )
    records = np.fromfile(path, np.uint8)
    if len(records) != size:
        raise FedatlasError(f"{path}: changed while it was read; run again")
    records = records.reshape(-1, record)
    return records[:, 1:], records[:, 0]


def _read_idx(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """(n, *shape) uint8: all values of an IDX file."""
    with _reading(path), path.open("rb") as stream:
        _check_magic(path, stream.read(4), dimensions=1 + len(shape))
        header = stream.read(4 * (1 + len(shape)))
        if len(header) < 4 * (1 + len(shape)):
            raise FedatlasError(f"{path}: ends within its header; download it again")
        samples, *found = np.frombuffer(header, ">u4").tolist()
        if tuple(found) != shape:
            raise FedatlasError(
                f"{path}: its samples have the shape {tuple(found)}, expected {shape}: the file "
                "and the catalogue's 'shape' do not belong together"
            )
        if samples == 0:
            raise FedatlasError(f"{path}: holds no samples")
        size = os.fstat(stream.fileno()).st_size
        promised = stream.tell() + samples * math.prod(shape)
        if size != promised:
            raise FedatlasError(
                f"{path}: is {size} bytes long, but its header promises {samples} samples in "
                f"{promised} bytes; it is cut short or damaged: download it again"
            )
        values = np.fromfile(stream, np.uint8)
    if len(values) != samples * math.prod(shape):
        raise FedatlasError(f"{path}: changed while it was read; run again")
    return values.reshape(samples, *shape)


def _check_magic(path: Path, magic: bytes, dimensions: int) -> None:
    """An IDX file starts with two zeros, the type of its values and the number of dimensions."""
    expected = bytes([0, 0, IDX_BYTES, dimensions])
    if magic == expected:
        return
    if magic[:2] != expected[:2] or len(magic) < 4:
        problem = "it is no IDX file; is it still compressed?"
    elif magic[2] != IDX_BYTES:
        problem = "its values are not unsigned bytes"
    else:
        problem = f"it has {magic[3]} dimensions; name the file of images first, then the labels"
    raise FedatlasError(
        f"{path}: starts with the bytes '{magic.hex(' ')}', expected '{expected.hex(' ')}': "
        f"{problem}"
    )


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Name the file in errors of the system."""
    try:
        yield
    except OSError as error:
        raise FedatlasError(f"{path}: cannot be read: {error.strerror or error}") from error
