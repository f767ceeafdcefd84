"""What data sets of images have in common."""

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from pydantic import model_validator

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Dataset, Files
from fedatlas.data.folders import reading
from fedatlas.errors import FedatlasError

Listed = list[tuple[list[Path], int]]
"""The images of each sample, and the number of its class."""


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


class ImageFiles(ImageDataset):
    """A folder of compressed images, which are read as RGB; each format finds and decodes its own.

    Samples are numbered by class and name, so that their order does not depend on that in which a
    file system lists files. Links are refused: an archive holds none, and they would lead out of
    the folder.
    """

    files_of_split: ClassVar[Files] = "one archive to 'unpack'"

    @abstractmethod
    def listed(self, folder: Path, split: str) -> Listed:
        """The samples of a split; FedatlasError names a file that is missing or too many."""

    @abstractmethod
    def decoded(self, path: Path, height: int, width: int) -> np.ndarray:
        """(height, width, 3) uint8; FedatlasError if the image is of another size."""

    @model_validator(mode="after")
    def _has_three_channels(self) -> Self:
        if self.channels != 3:
            raise ValueError(f"images of '{self.format}' have 3 channels in 'shape'")
        return self

    def read(self, split: str, raw: list[Path]) -> Samples:
        """See Dataset; FedatlasError also names an image that is damaged, a link or too large."""
        (folder,) = raw
        with reading(folder):
            listed = self.listed(folder, split)
        rows = self.split(split).rows
        if rows not in (None, len(listed)):
            # Before images are unpacked, which takes long.
            raise FedatlasError(
                f"{folder}: holds {len(listed)} samples of split '{split}', expected {rows}; "
                "unpack the archive again"
            )
        paths = [path for own, _ in listed for path in own]
        pixels = np.empty((len(paths), *self.shape[-3:]), np.uint8)
        for number, path in enumerate(paths):
            pixels[number] = self.decoded(path, *self.shape[-2:]).transpose(2, 0, 1)
        labels = self.labels_of(np.array([label for _, label in listed], np.int64), folder)
        return Samples.numbered(labels, pixels.reshape(len(listed), -1))
