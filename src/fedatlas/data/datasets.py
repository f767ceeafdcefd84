"""Entries of the catalogue: their common keys; formats add options and readers."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import (
    AfterValidator,
    Field,
    StringConstraints,
    field_serializer,
    field_validator,
    model_validator,
)

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.raw_files import RawFile, Text, Url
from fedatlas.data.reading import Raw, as_listed, mapped, told_apart
from fedatlas.data.scaling import Scaling, scaling_of
from fedatlas.errors import FedatlasError
from fedatlas.schema.models import Model

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]*$")]


def require_distinct(kind: str, names: Iterable[str]) -> None:
    """Raise ValueError if something of this kind is named twice."""
    for name, times in Counter(names).items():
        if times > 1:
            raise ValueError(f"{kind} '{name}' is named twice")


#: What a split's raw files may be.
Files = Literal["no files", "one file", "two files", "files", "one archive to 'unpack'"]
FITS: dict[Files, Callable[[tuple[RawFile, ...]], bool]] = {
    "no files": lambda files: not files,
    "one file": lambda files: len(files) == 1,
    "two files": lambda files: len(files) == 2,
    "files": bool,
    "one archive to 'unpack'": lambda files: len(files) == 1 and files[0].unpack is not None,
}


class Split(Model):
    """The raw files of one split, in the order in which its reader wants them.

    rows: the number of samples, verified when it is given.
    files: each with its address and checksum; none where data are bundled or made.
    """

    rows: int | None = Field(default=None, gt=0)
    files: tuple[RawFile, ...] = ()


class Normalisation(Model):
    """Statistics by which the channels of images are normalised: (x − mean) / deviation.

    mean, deviation: one number per channel, of pixels scaled to [0, 1]; both None, written as the
        text `from_train`, stand for the statistics of split `train`.
    """

    mean: tuple[Annotated[float, Field(ge=0, le=1)], ...] | None
    deviation: tuple[Annotated[float, Field(gt=0)], ...] | None

    @model_validator(mode="before")
    @classmethod
    def _text_stands_for_statistics(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if value != "from_train":
            raise ValueError("must be 'from_train', or hold 'mean' and 'deviation' per channel")
        return {"mean": None, "deviation": None}

    @model_validator(mode="after")
    def _is_of_the_same_channels(self) -> Self:
        mean, deviation = self.mean, self.deviation
        if (mean and len(mean)) != (deviation and len(deviation)):
            raise ValueError("'mean' and 'deviation' must hold one number per channel each")
        return self


class Dataset(Model):
    """One data set; `fedatlas.data.formats` has a subclass for each format.

    features: number of columns d, of a CSV table once it is encoded; shape: that of one sample
        as networks take it, of images channels first, preceded by the number of views where
        there are several.
    labels: raw label → value; binary sets map to ±1. In files of text a quoted raw label is that
        text and a bare number every text of that number; elsewhere labels are numbers.
    standardise: zero mean and unit variance per column, by the statistics of split `train`; of time
        series per number measured, over samples and steps. Indicators stay, also of CSV tables.
    centre: false leaves the mean and makes the mean square 1, where labels have a mean that a model
        without intercept could not reach from centred columns.
    normalise: the channels of images, by given numbers or those of split `train`. Data are stored
        raw all the same, with these numbers beside them.
    scale_labels: `min_max` maps regression labels by the minimum and maximum of split `train` to
        0 and 1; labels of other splits may lie outside.
    name: its key in the catalogue. title: as figures and pages name it.
    homepage, licence, citation: of its publisher. note: what users should know.
    format: of its raw files, which decides the keys besides these.
    splits: by name, such as train and test.
    instances: of made data, how many sets differ by their seeds alone, which follow on the declared
        one. All are in every split, whose `rows` are those of each; a partition's `instances` gives
        every trial its own.
    task: what labels are: ±1, classes from 0 on, or real numbers.
    classes: their number, of `multiclass`.
    """

    #: What each split's raw files are.
    files_of_split: ClassVar[Files] = "one file"
    #: Whether labels are ±1 or real numbers from the start, so that none are to be mapped.
    makes_labels: ClassVar[bool] = False
    #: Whether raw labels are texts; otherwise they are numbers.
    labels_are_text: ClassVar[bool] = False
    #: The largest value of a pixel; None where samples are no images.
    pixel_maximum: ClassVar[int | None] = None
    #: Number of axes of an image's shape, of which the last three are channels, height and width.
    image_axes: ClassVar[int] = 3

    name: Name
    title: Text
    homepage: Url
    licence: Text
    citation: Text
    note: Text | None = None
    format: str
    task: Literal["binary", "multiclass", "regression"]
    features: int = Field(gt=0, lt=1 << 31)
    shape: tuple[int, ...] | None = None
    classes: int | None = Field(default=None, gt=1, le=1_000_000)
    labels: Annotated[dict[Raw, float] | None, AfterValidator(told_apart)] = None
    standardise: bool = False
    centre: bool = True
    normalise: Normalisation | None = None
    scale_labels: Literal["min_max"] | None = None
    splits: dict[Name, Split] = Field(min_length=1)
    # Left out of specifications without it, so that those stay as they are.
    instances: int | None = Field(default=None, ge=2, exclude_if=lambda own: own is None)

    @abstractmethod
    def read(self, split: str, raw: list[Path]) -> Samples:
        """Read all samples of a split; see `fedatlas.data.formats.read_raw`."""

    @field_validator("labels")
    @classmethod
    def _labels_are_numbers(cls, labels: dict[Raw, float] | None) -> dict[Raw, float] | None:
        texts = [raw for raw in labels or () if isinstance(raw, str) and not cls.labels_are_text]
        if texts:
            raise ValueError(f"maps {texts[0]!r}, but the labels of this format are bare numbers")
        return labels

    @field_serializer("labels", when_used="json")
    def _labels_as_listed(self, labels: dict[Raw, float] | None) -> dict[str, float] | None:
        return None if labels is None else {as_listed(raw): x for raw, x in labels.items()}

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.shape and math.prod(self.shape) != self.features:
            raise ValueError(f"shape {self.shape} does not hold {self.features} features")
        self._check_labels(set((self.labels or {}).values()))
        if self.scale_labels is not None and self.task != "regression":
            raise ValueError("'scale_labels' goes with 'task: regression' only")
        if not self.centre and not self.standardise:
            raise ValueError("'centre: false' goes with 'standardise: true'")
        if self.scaled_by_train and "train" not in self.splits:
            raise ValueError("statistics to scale by are those of a split named 'train'; add it")
        if self.instances is not None and not hasattr(getattr(self, self.format, None), "seed"):
            raise ValueError(f"'instances' differ by their seeds: 'format: {self.format}' has none")
        for name, split in self.splits.items():
            if not FITS[self.files_of_split](split.files):
                takes = f"'format: {self.format}' takes {self.files_of_split}"
                several = len(split.files) > 1 and self.files_of_split == "one file"
                advice = ": join them first, as docs/adding/dataset.md shows" if several else ""
                raise ValueError(f"split '{name}': {takes}{advice}")
            if self.makes_labels and split.rows is None:
                raise ValueError(f"split '{name}': synthetic data need 'rows'")
        if self.normalise is not None:
            self._check_normalisation(self.normalise.mean)
        return self

    def _check_labels(self, codes: set[float]) -> None:
        if (self.classes is not None) != (self.task == "multiclass"):
            raise ValueError("'classes' goes with 'task: multiclass', and only with it")
        if self.makes_labels and (self.classes is not None or self.labels is not None):
            raise ValueError("synthetic labels are ±1 or real numbers: leave 'labels' out")
        if self.task == "regression" and self.labels is not None:
            raise ValueError("regression labels are taken as they are: leave 'labels' out")
        if self.task == "binary" and not self.makes_labels and codes != {-1.0, 1.0}:
            raise ValueError("'labels' of a binary data set must map to -1 and 1, and to both")
        if self.classes is not None and not codes <= set(range(self.classes)):
            raise ValueError(f"'labels' must map to classes 0 to {self.classes - 1}")

    def _check_normalisation(self, mean: tuple[float, ...] | None) -> None:
        if self.standardise:
            raise ValueError("give 'normalise', by channel, or 'standardise', by column, not both")
        if self.channels is None:
            raise ValueError("'normalise' needs 'shape': [channels, height, width]")
        if mean is not None and self.pixel_maximum is None:
            raise ValueError("only formats of images hold pixels: say 'normalise: from_train'")
        if mean is not None and len(mean) != self.channels:
            raise ValueError(f"'normalise' has {len(mean)} channels, 'shape' {self.channels}")

    @property
    def channels(self) -> int | None:
        """The number of channels of an image; None unless samples have the shape of images."""
        return self.shape[-3] if self.shape and len(self.shape) == self.image_axes else None

    @property
    def feature_names(self) -> list[str] | None:
        """The names of the d features, where they have any."""
        return None

    @property
    def kept(self) -> tuple[str, ...]:
        """The names of columns that are no features, by which partitions may share rows out."""
        return ()

    def each_instance(self) -> list[Self]:
        """The data sets of all instances, or this one."""
        made: Any = getattr(self, self.format, None)
        return [
            self.model_copy(
                update={self.format: made.model_copy(update={"seed": made.seed + number})}
            )
            for number in range(self.instances or 0)
        ] or [self]

    @property
    def numeric_columns(self) -> list[int] | None:
        """The indices of the features that are no indicators; None: all."""
        return None

    @property
    def scaled_by_train(self) -> bool:
        """Whether other splits need the prepared split `train`."""
        normalised = self.normalise is not None and self.normalise.mean is None
        return self.standardise or normalised or self.scale_labels is not None

    def standardisation(self, features: np.ndarray) -> Scaling:
        """The scaling of columns that `standardise` and `centre` ask for, from rows (n, d)."""
        return scaling_of(features, self.centre, self.numeric_columns)

    def split(self, name: str) -> Split:
        """The split called `name`; FedatlasError names the ones that exist."""
        if name not in self.splits:
            raise FedatlasError(
                f"data set '{self.name}' has no split '{name}'; it has: {', '.join(self.splits)}"
            )
        return self.splits[name]

    def labels_of(self, raw: np.ndarray, where: object) -> np.ndarray:
        """(n,) values that `labels` maps raw numbers to; FedatlasError if it lacks one."""
        label = mapped(raw, self.labels)
        self._require_known(~np.isnan(label), raw, where)
        return label

    def check_classes(self, label: np.ndarray, where: str) -> None:
        """FedatlasError unless multiclass labels (n,) are the classes from 0 on."""
        if self.classes is not None:
            self._require_known(np.isin(label, np.arange(self.classes)), label, where)

    def _require_known(self, is_known: np.ndarray, raw: np.ndarray, where: object) -> None:
        if not is_known.all():
            sample = int(np.argmin(is_known))
            classes = f" nor a class from 0 to {self.classes - 1}" if self.classes else ""
            raise FedatlasError(
                f"{where}: label {raw[sample]:g} of sample {sample} is not one of those under "
                f"'labels' in the catalogue{classes}"
            )
