"""Reading .npz files within bounded memory, and without executing or unpickling anything.

numpy's own reader believes what headers claim: the shape of an array, the length of a packed
member. Here a file gives at most as many bytes as it has.
"""

import math
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

_CHUNK = 1 << 20
_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file that `np.savez` wrote, by name.

    Raises OSError when it cannot be read; anything else, mostly ValueError, when it is damaged,
    compressed or holds Python objects.
    """
    arrays: dict[str, np.ndarray] = {}
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > path.stat().st_size:
            raise ValueError("promises more bytes than it has")
        for member in members:
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"'{member.filename}' is compressed")
            name = member.filename.removesuffix(".npy")
            if name in arrays:
                raise ValueError(f"'{name}' occurs twice")
            with archive.open(member) as stream:
                arrays[name] = _read_array(stream, member.file_size)
    return arrays


def _read_array(stream: IO[bytes], size: int) -> np.ndarray:
    """One array from a stream of so many bytes."""
    version = np.lib.format.read_magic(stream)
    if version not in _READERS:
        raise ValueError(f"unknown version {version}")
    shape, in_columns, dtype = _READERS[version](stream)
    left = size - stream.tell()
    if dtype.hasobject or min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != left:
        raise ValueError(f"its header claims {shape} values of {dtype}, but {left} bytes follow")
    content = bytearray(left)
    # Read to the end: the checksum is compared there.
    position = 0
    while chunk := stream.read(_CHUNK):
        content[position : position + len(chunk)] = chunk
        position += len(chunk)
    return np.ndarray(shape, dtype, content, order="F" if in_columns else "C")
