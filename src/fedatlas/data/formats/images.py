"""Images as arrays of bytes: IDX files, as of MNIST, and batches of CIFAR-10 and CIFAR-100."""

import math
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Dataset, Files
from fedatlas.data.reading import reading
from fedatlas.errors import FedatlasError

# The third byte of an IDX file → its values, of those that are whole numbers.
WHOLE_NUMBERS = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4"}


class ImageDataset(Dataset):
    """Samples are pixels from 0 to 255."""

    pixel_maximum: ClassVar[int | None] = 255

    shape: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _has_channels(self) -> Self:
        if self.channels is None:
            views = "views, " if self.image_axes == 4 else ""
            raise ValueError(f"images need 'shape': [{views}channels, height, width]")
        return self


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
    # It starts with two zeros, the type of its values and the number of dimensions.
    magic, first = content[:4].tobytes(), 4 * (2 + len(shape))
    starts = {bytes([0, 0, kind, 1 + len(shape)]): dtype for kind, dtype in types.items()}
    if magic not in starts or content.size < first:
        expected = "' or '".join(start.hex(" ") for start in starts)
        raise FedatlasError(
            f"{path}: starts with the bytes '{magic.hex(' ')}', expected '{expected}', and the "
            f"{first} bytes of a header: it is cut short, still compressed, holds other values, or "
            "is not in its place, as images come first, then labels"
        )
    dtype = np.dtype(starts[magic])
    samples, *found = content[4:first].view(">u4").tolist()
    if tuple(found) != shape:
        raise FedatlasError(
            f"{path}: its samples have the shape {tuple(found)}, expected {shape}: the file and "
            "the catalogue's 'shape' do not belong together"
        )
    promised = first + samples * math.prod(shape) * dtype.itemsize
    if samples == 0 or content.size != promised:
        raise FedatlasError(
            f"{path}: is {content.size} bytes long, but its header promises {samples} samples in "
            f"{promised} bytes; it is empty, cut short or damaged: download it again"
        )
    return content[first:].view(dtype).reshape(samples, *shape)


class CifarDataset(ImageDataset):
    """One file per batch: records (`.bin`), or a pickle, which cannot execute anything.

    cifar_label: which of the two labels counts where an image has two, as in CIFAR-100.
    """

    files_of_split: ClassVar[Files] = "files"

    format: Literal["cifar"]
    cifar_label: Literal["fine", "coarse"] | None = None

    def read(self, split: str, raw: list[Path]) -> Samples:
        pixels, labels = [], []
        for path in raw:
            with reading(path):
                read = _read_records if path.suffix == ".bin" else _read_pickle
                of_batch, found = read(path, self.features, self.cifar_label)
            pixels.append(of_batch)
            labels.append(self.labels_of(found, path))
        return Samples.numbered(np.concatenate(labels), np.concatenate(pixels))


def _read_records(path: Path, features: int, label: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (n, features) and raw labels (n,).

    A record is one byte of label, or the coarse and the fine one, then the bytes of the image,
    channels first. label: fine or coarse of images with two labels; None of images with one.
    """
    content = np.fromfile(path, np.uint8)
    labels = 2 if label else 1
    record = labels + features
    if content.size == 0 or content.size % record:
        hint = "it is cut short or another file: download it again"
        if content.size and not label and content.size % (2 + features) == 0:
            hint = "if each image has two labels, as in CIFAR-100, state 'cifar_label: fine'"
        raise FedatlasError(
            f"{path}: is {content.size} bytes long, which is no multiple of the {record} bytes of "
            f"{labels} label{'s' if label else ''} and an image; {hint}"
        )
    records = content.reshape(-1, record)
    return records[:, labels:], records[:, int(label == "fine")]


class _Unpickler(pickle._Unpickler):
    """Makes arrays of numpy and nothing else: any other name in the pickle is refused.

    In Python: the compiled one lets a few bytes claim gigabytes for its memo.
    """

    _NAMES: ClassVar = {
        ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
    }

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) not in self._NAMES:
            raise pickle.UnpicklingError(f"it asks for {module_name}.{global_name}")
        return self._NAMES[module_name, global_name]


def _read_pickle(path: Path, features: int, label: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (n, features) and raw labels (n,) of a batch that Python 2 pickled."""
    key = f"{label}_labels" if label else "labels"
    try:
        with path.open("rb") as stream:
            batch = _Unpickler(stream, fix_imports=False, encoding="bytes").load()
        pixels, labels = batch[b"data"], batch.get(key.encode())
        if labels is None and b"fine_labels" in batch:
            raise FedatlasError(
                f"{path}: has fine and coarse labels: state 'cifar_label: fine' or 'coarse'"
            )
        whole = all(type(each) is int for each in labels)
        if not whole or pixels.dtype != np.uint8 or pixels.shape != (len(labels), pixels.shape[1]):
            raise ValueError("its 'data' are no rows of bytes, one for each label")
    except (OSError, FedatlasError):
        raise
    except Exception as error:  # a damaged pickle can make an unpickler raise anything
        raise FedatlasError(
            f"{path}: is no Python batch of CIFAR ({type(error).__name__}: {error}); refused, "
            "download it again"
        ) from error
    if not labels or pixels.shape[1] != features:
        raise FedatlasError(
            f"{path}: holds {len(labels)} images of {pixels.shape[1]} values, expected {features}: "
            "the file and the catalogue's 'shape' do not belong together"
        )
    return pixels, np.array(labels, np.int64)
