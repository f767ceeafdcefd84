"""CIFAR-10's batches: pickles, which are not executed, or plain records."""

import math
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.cifar_pickle import read_pickle
from fedatlas.data.datasets import Files
from fedatlas.data.folders import reading
from fedatlas.data.image_datasets import ImageDataset, Images
from fedatlas.errors import FedatlasError


class CifarDataset(ImageDataset):
    """One file per batch."""

    files_of_split: ClassVar[Files] = "files"

    format: Literal["cifar"]

    def read(self, split: str, raw: list[Path]) -> Samples:
        batches = [read_batch(path, self.shape) for path in raw]
        labels = [
            self.labels_of(found, path) for path, (_, found) in zip(raw, batches, strict=True)
        ]
        return Samples.numbered(
            np.concatenate(labels), np.concatenate([pixels for pixels, _ in batches])
        )


def read_batch(path: Path, shape: tuple[int, ...]) -> Images:
    """Read one batch of CIFAR-10: records of bytes (`.bin`), otherwise a pickle.

    shape: of one image, channels first. Raises FedatlasError, naming the file, when it cannot be
    read or is no batch of such images.
    """
    with reading(path):
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
    records = np.fromfile(path, np.uint8).reshape(-1, record)
    return records[:, 1:], records[:, 0]
