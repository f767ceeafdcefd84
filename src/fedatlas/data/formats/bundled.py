"""Data that come with scikit-learn, unscaled, or are written here."""

from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Dataset, Files
from fedatlas.errors import FedatlasError


class BundledDataset(Dataset):
    """bundled: the name of a set in scikit-learn, or of one written here."""

    files_of_split: ClassVar[Files] = "no files"

    format: Literal["bundled"]
    bundled: Literal["breast_cancer", "digits", "two_points"]

    def read(self, split: str, raw: list[Path]) -> Samples:
        if self.bundled == "two_points":
            features, target = np.array([[1.0], [-1.0]]), np.array([1, -1])
        else:
            from sklearn import datasets

            load = getattr(datasets, f"load_{self.bundled}")
            features, target = load(return_X_y=True)
        where = f"data set '{self.name}'"
        if features.shape[1] != self.features:
            raise FedatlasError(
                f"{where}: {self.features} features are declared, found {features.shape[1]}"
            )
        return Samples.numbered(self.labels_of(target, where), features.astype(np.float64))
