"""IDX files of images and labels, as of MNIST."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Files
from fedatlas.data.folders import reading
from fedatlas.data.image_datasets import ImageDataset
from fedatlas.errors import FedatlasError

# The third byte of a file → its values, of those that are whole numbers.
WHOLE_NUMBERS = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4"}


class IdxDataset(ImageDataset):
    """A file of images and one of labels."""

    files_of_split: ClassVar[Files] = "two files"

    format: Literal["idx"]

    def read(self, split: str, raw: list[Path]) -> Samples:
        """See Dataset; shapes of grey images, which have one channel, leave it out of the file."""
        images, labels = raw
        pixels = _read_idx(images, self.shape[1:] if self.channels == 1 else self.shape, {8: "u1"})
        found = _read_idx(labels, (), WHOLE_NUMBERS)
        if len(pixels) != len(found):
            raise FedatlasError(
                f"{labels}: holds {len(found)} labels, but {images} holds {len(pixels)} images; "
                "name the two files of one split, images first"
            )
        flat = pixels.reshape(len(pixels), self.features)
        return Samples.numbered(self.labels_of(found, labels), flat)


def _read_idx(path: Path, shape: tuple[int, ...], types: Mapping[int, str]) -> np.ndarray:
    """(n, *shape): all values of an uncompressed IDX file of one of the types, by third byte.

    Raises FedatlasError, naming the file, when it cannot be read, is no such file, holds samples of
    another shape or none, is cut short or goes on after its end.
    """
    with reading(path):
        content = np.fromfile(path, np.uint8)
    _check_magic(path, content[:4].tobytes(), types, dimensions=1 + len(shape))
    dtype = np.dtype(types[content[2]])
    first = 4 * (2 + len(shape))
    if content.size < first:
        raise FedatlasError(f"{path}: ends within its header; download it again")
    samples, *found = content[4:first].view(">u4").tolist()
    if tuple(found) != shape:
        raise FedatlasError(
            f"{path}: its samples have the shape {tuple(found)}, expected {shape}: the file and "
            "the catalogue's 'shape' do not belong together"
        )
    if samples == 0:
        raise FedatlasError(f"{path}: holds no samples")
    promised = first + samples * math.prod(shape) * dtype.itemsize
    if content.size != promised:
        raise FedatlasError(
            f"{path}: is {content.size} bytes long, but its header promises {samples} samples in "
            f"{promised} bytes; it is cut short or damaged: download it again"
        )
    return content[first:].view(dtype).reshape(samples, *shape)


def _check_magic(path: Path, magic: bytes, types: Mapping[int, str], dimensions: int) -> None:
    """An IDX file starts with two zeros, the type of its values and the number of dimensions."""
    expected = bytes([0, 0, 8, dimensions])
    if magic[:2] != expected[:2] or len(magic) < 4:
        problem = "it is no IDX file; is it still compressed?"
    elif magic[2] not in types:
        problem = f"its values are not {'whole numbers' if len(types) > 1 else 'unsigned bytes'}"
    elif magic[3] == dimensions:
        return
    else:
        problem = f"it has {magic[3]} dimensions; name the file of images first, then the labels"
    raise FedatlasError(
        f"{path}: starts with the bytes '{magic.hex(' ')}', expected '{expected.hex(' ')}': "
        f"{problem}"
    )
