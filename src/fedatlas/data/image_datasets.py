"""What data sets of images have in common."""

from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from pydantic import model_validator

from fedatlas.data.datasets import Dataset
from fedatlas.data.labels import mapped, numeric_labels
from fedatlas.errors import FedatlasError

Images = tuple[np.ndarray, np.ndarray]
"""Pixels, (n, d) uint8 with channels first, and raw labels, (n,) whole numbers."""


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

    def labels_of(self, raw: np.ndarray, path: Path) -> np.ndarray:
        """(n,) mapped labels of the images of one file; FedatlasError names it."""
        label = mapped(raw, numeric_labels(self.labels, path))
        if np.isnan(label).any():
            sample = int(np.argmax(np.isnan(label)))
            raise FedatlasError(
                f"{path}: label {raw[sample]} of sample {sample} is not one of those under "
                "'labels' in the catalogue"
            )
        self.check_classes(label, path)
        return label
