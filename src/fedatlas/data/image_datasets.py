"""What data sets of images have in common."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from pydantic import model_validator

from fedatlas.data.datasets import Dataset

Images = tuple[np.ndarray, np.ndarray]
"""Pixels, (n, d) uint8 with channels first, and raw labels, (n,) whole numbers."""


class ImageDataset(Dataset):
    """Samples are pixels from 0 to 255."""

    pixel_maximum: ClassVar[int | None] = 255
    #: Whether images are read as RGB.
    in_colour: ClassVar[bool] = False

    shape: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _has_channels(self) -> Self:
        if self.channels is None:
            views = "views, " if self.image_axes == 4 else ""
            raise ValueError(f"images need 'shape': [{views}channels, height, width]")
        if self.in_colour and self.channels != 3:
            raise ValueError(f"images of '{self.format}' have 3 channels in 'shape'")
        return self

    def decoded(
        self, paths: Sequence[Path], read: Callable[[Path, int, int], np.ndarray]
    ) -> np.ndarray:
        """Images in colour, one after the other: (files, channels, height, width) uint8.

        read: a file, height and width → its pixels, (height, width, channels).
        """
        *_, channels, height, width = self.shape
        pixels = np.empty((len(paths), channels, height, width), np.uint8)
        for number, path in enumerate(paths):
            pixels[number] = read(path, height, width).transpose(2, 0, 1)
        return pixels
