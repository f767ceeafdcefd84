"""CIFAR-10's batches: pickles, which are not executed, or plain records."""

import math
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.cifar_pickle import read_pickle
from fedatlas.data.datasets import Files
from fedatlas.data.folders import reading
from fedatlas.data.image_datasets import ImageDataset
from fedatlas.errors import FedatlasError


class CifarDataset(ImageDataset):
    """One file per batch."""

    files_of_split: ClassVar[Files] = "files"

    format: Literal["cifar"]

    def read(self, split: str, raw: list[Path]) -> Samples:
        pixels, labels = [], []
        for path in raw:
            of_batch, found = read_batch(path, math.prod(self.shape))
            pixels.append(of_batch)
            labels.append(self.labels_of(found, path))
        return Samples.numbered(np.concatenate(labels), np.concatenate(pixels))


def read_batch(path: Path, features: int) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (n, features) and raw labels (n,) of records (`.bin`), or of a pickle.

    A record is one byte of label, then the bytes of the image, channels first. Raises
    FedatlasError, naming the file, when it cannot be read or is no batch of such images.
    """
    with reading(path):
        if path.suffix != ".bin":
            return read_pickle(path, features)
        content = np.fromfile(path, np.uint8)
    record = 1 + features
    if content.size == 0 or content.size % record:
        raise FedatlasError(
            f"{path}: is {content.size} bytes long, which is no multiple of the {record} bytes of "
            "a label and an image; it is cut short or another file: download it again"
        )
    records = content.reshape(-1, record)
    return records[:, 1:], records[:, 0]
