"""Batches of CIFAR-10 and CIFAR-100: pickles, which are not executed, or plain records."""

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
    """One file per batch.

    cifar_label: which of the two labels counts where an image has two, as in CIFAR-100.
    """

    files_of_split: ClassVar[Files] = "files"

    format: Literal["cifar"]
    cifar_label: Literal["fine", "coarse"] | None = None

    def read(self, split: str, raw: list[Path]) -> Samples:
        pixels, labels = [], []
        for path in raw:
            of_batch, found = read_batch(path, math.prod(self.shape), self.cifar_label)
            pixels.append(of_batch)
            labels.append(self.labels_of(found, path))
        return Samples.numbered(np.concatenate(labels), np.concatenate(pixels))


def read_batch(path: Path, features: int, label: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (n, features) and raw labels (n,) of records (`.bin`), or of a pickle.

    label: fine or coarse of images with two labels; None of images with one. A record is one byte
    of label, or the coarse and the fine one, then the bytes of the image, channels first. Raises
    FedatlasError, naming the file, when it cannot be read or is no batch of such images.
    """
    with reading(path):
        if path.suffix != ".bin":
            return read_pickle(path, features, f"{label}_labels" if label else "labels")
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
