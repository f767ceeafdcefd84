"""The catalogue of data sets: where each comes from, how it is verified, what it holds."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from fedatlas.data.clinical_channels import COLUMNS, CONTINUOUS_COLUMNS, HOURS
from fedatlas.errors import FedatlasError
from fedatlas.schema.models import Model, read_yaml, validated

# Formats that `fedatlas.data.formats` can read; the others await the papers that need them.
READABLE_FORMATS = frozenset(
    {
        "bundled",
        "cifar",
        "csv",
        "idx",
        "image_folder",
        "image_views",
        "libsvm",
        "mimic3",
        "synthetic",
        "synthetic_series",
    }
)

# Formats whose data are not read from files.
SYNTHETIC_FORMATS = frozenset({"synthetic", "synthetic_series"})
FILELESS_FORMATS = SYNTHETIC_FORMATS | {"bundled"}

# Formats of images, whose samples are pixels from 0 to `PIXEL_MAXIMUM`.
IMAGE_FORMATS = frozenset({"cifar", "idx", "image_folder", "image_views"})
PIXEL_MAXIMUM = 255

# Formats of time series with the columns of `fedatlas.data.clinical_channels`.
SERIES_FORMATS = frozenset({"mimic3", "synthetic_series"})

# Fields of a CSV table that hold no value.
MISSING = frozenset({"", "NA"})

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]*$")]
FolderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+$")]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Url = Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$")]


def _plain_relative(path: str) -> str:
    parts = PurePosixPath(path).parts
    if path != "/".join(parts) or path.startswith("/") or ".." in parts or "\\" in path:
        raise ValueError("must be a plain relative path with '/' between folders")
    return path


RelativePath = Annotated[Text, AfterValidator(_plain_relative)]
Checksum = Annotated[str, StringConstraints(pattern=r"^(md5:[0-9a-f]{32}|sha256:[0-9a-f]{64})$")]


class RawFile(Model):
    """One file as its publisher serves it, and what is done to it once it is verified.

    path: its place inside a mirror folder, with `/` as separator.
    urls: addresses in order of preference; a file without any comes from a mirror.
    checksum: of the bytes served, before any unpacking; None is recorded at first download.
    decompress: remove this compression from a single file.
    unpack: spread this whole archive into a folder.
    archive, member: this file is served only as `member` of `archive`.
    login: the exact steps for a file that needs an account.
    self_made: whether those steps end with packing it oneself: no two copies are alike, so that no
        checksum is kept of it.
    unpacked_limit_gib: refuse to write more than this many GiB.
    """

    path: RelativePath
    urls: tuple[Url, ...] = ()
    checksum: Checksum | None = None
    decompress: Literal["gz", "bz2", "xz"] | None = None
    unpack: Literal["tar", "zip"] | None = None
    archive: "RawFile | None" = None
    member: Text | None = None
    login: Text | None = None
    self_made: bool = False
    unpacked_limit_gib: float = Field(default=8.0, gt=0)

    @model_validator(mode="after")
    def _can_be_had(self) -> Self:
        if (self.archive is None) != (self.member is None):
            raise ValueError("'archive' and 'member' belong together")
        if self.self_made and (self.urls or self.checksum or self.login is None):
            raise ValueError("'self_made' goes with 'login', and without 'urls' and 'checksum'")
        if sum(x is not None for x in (self.decompress, self.unpack, self.archive)) > 1:
            raise ValueError("give one of 'decompress', 'unpack' and 'archive', not several")
        if self.decompress is not None and not self.path.endswith(f".{self.decompress}"):
            raise ValueError(f"'path' must end in .{self.decompress} to be decompressed")
        if self.archive is not None:
            if self.urls:
                raise ValueError("the urls of a member belong to its archive")
            if self.archive.unpack is None:
                raise ValueError("the archive must say 'unpack: tar' or 'unpack: zip'")
        return self

    @property
    def is_folder(self) -> bool:
        """Whether the download leaves a folder rather than a file."""
        return self.unpack is not None

    @property
    def local_path(self) -> str:
        """Where the result belongs below a folder of raw data: `path` without what is undone."""
        if self.decompress is not None:
            return self.path.removesuffix(f".{self.decompress}")
        if self.unpack is not None:
            path = self.path
            for suffix in (".gz", ".bz2", ".xz", ".tgz", f".{self.unpack}"):
                path = path.removesuffix(suffix)
            # An archive without a telling suffix must not collide with its own folder.
            return path if path != self.path else f"{path}.d"
        return self.path


class Split(Model):
    """The raw files of one split, in the order in which its reader wants them.

    rows: the number of samples, verified when it is given.
    """

    rows: int | None = Field(default=None, gt=0)
    files: tuple[RawFile, ...] = ()


class OneHot(Model):
    """A CSV column of categories, and the columns of zeros and ones that it becomes.

    values: the categories, compared as numbers where both are numbers. Listed here and not taken
        from the file, so that every split and every copy is encoded alike. Two become one column,
        1 for the second; more become a column each.
    otherwise: what becomes of a value that is not listed: an error, or, for counts without an
        end, the largest listed value below it (`values` are then ascending numbers).
    """

    column: str
    values: tuple[str, ...] = Field(min_length=2)
    otherwise: Literal["refuse", "next_below"] = "refuse"

    @field_validator("values", mode="before")
    @classmethod
    def _values_are_text(cls, values: Any) -> Any:
        return [str(value) for value in values] if isinstance(values, list) else values

    @model_validator(mode="after")
    def _values_can_be_told_apart(self) -> Self:
        keys = [label_key(value) for value in self.values]
        if len(set(keys)) < len(keys):
            raise ValueError(f"column '{self.column}': one of its 'values' stands twice")
        if not MISSING.isdisjoint(keys):
            raise ValueError(f"column '{self.column}': an empty field or NA is a missing value")
        if self.otherwise == "next_below":
            numbers = [key for key in keys if isinstance(key, float) and math.isfinite(key)]
            if len(numbers) < len(keys) or numbers != sorted(numbers):
                raise ValueError(
                    f"column '{self.column}': 'otherwise: next_below' needs ascending numbers"
                )
        return self

    @property
    def feature_names(self) -> list[str]:
        """One `column=value` per encoded column."""
        indicated = self.values[1:] if len(self.values) == 2 else self.values
        return [f"{self.column}={value}" for value in indicated]


class CsvTable(Model):
    """The columns of a CSV file with a header line; each must be named once, in any order.

    label, numeric, one_hot: what they hold; features are the numeric columns, then the encoded
        ones, in the order given here. ignore: columns to leave out.
    drop_missing: leave out rows that lack a value outside the ignored columns; otherwise such a
        row is an error.
    """

    label: str
    numeric: tuple[str, ...] = ()
    one_hot: tuple[OneHot, ...] = ()
    ignore: tuple[str, ...] = ()
    drop_missing: bool = False

    @model_validator(mode="after")
    def _names_each_column_once(self) -> Self:
        names = self.columns
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"column '{twice[0]}' is named twice")
        return self

    @property
    def columns(self) -> list[str]:
        """The names of all columns, those to be ignored last."""
        encoded = [one_hot.column for one_hot in self.one_hot]
        return [self.label, *self.numeric, *encoded, *self.ignore]

    @property
    def feature_names(self) -> list[str]:
        """The names of the d features."""
        return [*self.numeric, *(name for one in self.one_hot for name in one.feature_names)]

    @property
    def numeric_columns(self) -> list[int]:
        """The indices of the features that are no indicators."""
        return list(range(len(self.numeric)))


class Synthetic(Model):
    """Sparse data made by `fedatlas.data.synthetic`, whose docstring describes the model.

    non_zeros_per_row: the expected number. informative: of features that labels depend on.
    noise: the share of flipped labels (binary), or the deviation of the noise in units of that of
        the noiseless score (regression).
    range: of regression labels.
    """

    seed: int = Field(ge=0)
    non_zeros_per_row: float = Field(gt=0)
    informative: int = Field(gt=0)
    noise: float = Field(ge=0)
    range: tuple[float, float] | None = None


class SyntheticSeries(Model):
    """Time series made by `fedatlas.data.synthetic_series`, whose docstring describes the model.

    positive: the expected share of labels +1. signal: how much the log odds of that label rise per
        deviation of the score.
    """

    seed: int = Field(ge=0)
    positive: float = Field(gt=0, lt=1)
    signal: float = Field(gt=0)


class ImagePlaces(Model):
    """Where a folder keeps the images of one split.

    images: their folder; or, with `{class}` in the place of a class's name, that of each class.
    labels: a file that lists the name and the class of each image, one a line, a tab between.
    """

    images: RelativePath
    labels: RelativePath | None = None

    @model_validator(mode="after")
    def _tells_the_class(self) -> Self:
        if ("{class}" in self.images) == (self.labels is not None):
            raise ValueError("give 'labels', or '{class}' within 'images', and not both")
        return self


class ImageFolder(Model):
    """A folder of JPEG images, all of one size.

    classes: a file that lists the names of the classes, one a line; their sorted order numbers
        them. splits: where the images of each split are.
    """

    classes: RelativePath
    splits: dict[Name, ImagePlaces]


class ImageViews(Model):
    """A folder of PNG images, several views of each shape, which are reduced to one size.

    folder: holds the folder of each class. classes: their names, in the order that numbers them.
    """

    folder: RelativePath
    classes: tuple[FolderName, ...] = Field(min_length=2)

    @model_validator(mode="after")
    def _names_each_class_once(self) -> Self:
        twice = sorted({name for name in self.classes if self.classes.count(name) > 1})
        if twice:
            raise ValueError(f"class '{twice[0]}' is named twice")
        return self


class Normalisation(Model):
    """What the channels of images are normalised by: (x − mean) / deviation.

    mean, deviation: one number per channel, of pixels scaled to [0, 1]; None, written as the text
        `from_train`, stands for the statistics of split `train`.
    """

    mean: tuple[float, ...] | None
    deviation: tuple[float, ...] | None

    @model_validator(mode="before")
    @classmethod
    def _text_stands_for_statistics(cls, value: Any) -> Any:
        if value == "from_train":
            return {"mean": None, "deviation": None}
        if not isinstance(value, Mapping | cls):
            raise ValueError("must be 'from_train', or hold 'mean' and 'deviation' per channel")
        return value

    @model_validator(mode="after")
    def _is_of_the_same_channels(self) -> Self:
        if self.mean is None and self.deviation is None:
            return self
        if self.mean is None or self.deviation is None or len(self.mean) != len(self.deviation):
            raise ValueError("'mean' and 'deviation' must hold one number per channel each")
        if not all(0 <= mean <= 1 for mean in self.mean):
            raise ValueError("'mean' is of pixels scaled to [0, 1] and lies there, too")
        if not all(deviation > 0 for deviation in self.deviation):
            raise ValueError("a 'deviation' of 0 or less cannot be divided by")
        return self

    @property
    def from_train(self) -> bool:
        """Whether the numbers are those of split `train`."""
        return self.mean is None


class Dataset(Model):
    """One data set.

    features: number of columns d, of a CSV table once it is encoded; shape: that of one sample
        as networks take it, of images channels first, and before these the number of views where
        there are several.
    labels: raw label → value, compared as numbers where both are numbers; binary sets map to ±1.
    bundled: name of the set inside scikit-learn, or of one made here, for format `bundled`; csv,
        image_folder, image_views, synthetic and synthetic_series likewise describe the sets of the
        formats of their names.
    standardise: zero mean and unit variance per column, by the statistics of split `train`; of time
        series per number measured, over samples and steps, while indicators stay.
    centre: false leaves the mean and makes the mean square 1, where labels have a mean that a model
        without intercept could not reach from centred columns.
    normalise: the channels of images, by stated numbers or those of split `train`. Data are stored
        raw all the same, with these numbers beside them.
    scale_labels: `min_max` maps regression labels by the minimum and maximum of split `train` to
        0 and 1; labels of other splits may lie outside.
    """

    name: Name
    title: Text
    homepage: Url
    licence: Text
    citation: Text
    note: Text | None = None
    format: Text
    task: Literal["binary", "multiclass", "regression"]
    features: int = Field(gt=0, lt=1 << 31)
    shape: tuple[int, ...] | None = None
    classes: int | None = Field(default=None, gt=1, le=1_000_000)
    labels: dict[str, float] | None = None
    standardise: bool = False
    centre: bool = True
    normalise: Normalisation | None = None
    scale_labels: Literal["min_max"] | None = None
    bundled: Literal["breast_cancer", "digits", "two_points"] | None = None
    csv: CsvTable | None = None
    image_folder: ImageFolder | None = None
    image_views: ImageViews | None = None
    synthetic: Synthetic | None = None
    synthetic_series: SyntheticSeries | None = None
    splits: dict[Name, Split] = Field(min_length=1)

    @field_validator("labels", mode="before")
    @classmethod
    def _label_keys_are_text(cls, labels: Any) -> Any:
        if not isinstance(labels, Mapping):
            return labels
        # YAML reads a bare `-1:` or `+1:` as a number and `yes:` as a truth value.
        by_text = {str(raw): value for raw, value in labels.items()}
        if len({label_key(raw) for raw in by_text}) < len(labels):
            raise ValueError("two raw labels are the same number")
        return by_text

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.shape is not None and math.prod(self.shape) != self.features:
            raise ValueError(f"shape {self.shape} does not hold {self.features} features")
        for block in _BLOCKS:
            if (getattr(self, block) is not None) != (self.format == block):
                raise ValueError(f"'{block}' goes with 'format: {block}', and only with it")
        if (self.classes is not None) != (self.task == "multiclass"):
            raise ValueError("'classes' goes with 'task: multiclass', and only with it")
        if self.task == "regression" and self.labels is not None:
            raise ValueError("regression labels are taken as they are: leave 'labels' out")
        codes = set((self.labels or {}).values())
        made = self.format in SYNTHETIC_FORMATS
        if self.task == "binary" and not made and codes != {-1.0, 1.0}:
            raise ValueError("'labels' of a binary data set must map to -1 and 1, and to both")
        if self.classes is not None and not all(
            code.is_integer() and 0 <= code < self.classes for code in codes
        ):
            raise ValueError(f"'labels' must map to classes 0 to {self.classes - 1}")
        if self.scale_labels is not None and self.task != "regression":
            raise ValueError("'scale_labels' goes with 'task: regression' only")
        if not self.centre and not self.standardise:
            raise ValueError("'centre: false' goes with 'standardise: true'")
        if self.scaled_by_train and "train" not in self.splits:
            raise ValueError(
                "'standardise', 'normalise: from_train' and 'scale_labels' take their statistics "
                "from a split named 'train'"
            )
        for name, split in self.splits.items():
            if bool(split.files) == (self.format in FILELESS_FORMATS):
                raise ValueError(
                    f"split '{name}': give 'files', unless the data are bundled or synthetic"
                )
        if self.format in IMAGE_FORMATS and self.channels is None:
            views = "views, " if self.format == "image_views" else ""
            raise ValueError(f"images need 'shape': [{views}channels, height, width]")
        if self.image_folder is not None:
            self._check_image_folder(self.image_folder)
        if self.image_views is not None:
            self._check_image_views(self.image_views)
        if self.normalise is not None:
            self._check_normalisation(self.normalise)
        if self.csv is not None:
            self._check_csv(self.csv)
        if made:
            self._check_made()
        if self.synthetic is not None:
            self._check_synthetic(self.synthetic)
        if self.format in SERIES_FORMATS:
            self._check_series()
        return self

    def _check_image_folder(self, folder: ImageFolder) -> None:
        if self.channels != 3:
            raise ValueError("images of an 'image_folder' have 3 channels in 'shape'")
        if set(folder.splits) != set(self.splits):
            raise ValueError(
                f"'image_folder' has the splits {', '.join(folder.splits)}, 'splits' has "
                f"{', '.join(self.splits)}"
            )
        for name, split in self.splits.items():
            _check_one_archive(name, split, self.format)

    def _check_image_views(self, views: ImageViews) -> None:
        if self.channels != 3:
            raise ValueError("images of 'image_views' have 3 channels in 'shape'")
        if self.classes != len(views.classes):
            raise ValueError(
                f"'image_views' lists {len(views.classes)} classes, 'classes' says {self.classes}"
            )
        for name, split in self.splits.items():
            _check_one_archive(name, split, self.format)

    def _check_normalisation(self, normalise: Normalisation) -> None:
        if self.standardise:
            raise ValueError("give 'normalise', by channel, or 'standardise', by column, not both")
        if self.channels is None:
            raise ValueError("'normalise' needs 'shape': [channels, height, width]")
        if normalise.mean is None:
            return
        if self.format not in IMAGE_FORMATS:
            raise ValueError(
                "the numbers of 'normalise' are of pixels, which only formats of images hold; "
                "say 'from_train'"
            )
        if len(normalise.mean) != self.channels:
            raise ValueError(
                f"'normalise' is of {len(normalise.mean)} channels, 'shape' has {self.channels}"
            )

    def _check_csv(self, table: CsvTable) -> None:
        width = len(table.feature_names)
        if width != self.features:
            raise ValueError(
                f"the columns under 'csv' make {width} features, 'features' says {self.features}"
            )
        if self.standardise and table.one_hot:
            raise ValueError("'standardise' would scale the columns of 'one_hot': leave it out")

    def _check_made(self) -> None:
        if self.task == "multiclass" or self.labels is not None:
            raise ValueError("synthetic labels are ±1 or real numbers: leave 'labels' out")
        for name, split in self.splits.items():
            if split.rows is None:
                raise ValueError(f"split '{name}': synthetic data need 'rows'")

    def _check_series(self) -> None:
        if self.task != "binary":
            raise ValueError("clinical time series have 'task: binary'")
        if self.shape is None or len(self.shape) != 2 or self.shape[1] != COLUMNS:
            raise ValueError(f"clinical time series need 'shape': [steps, {COLUMNS}]")
        if self.format != "mimic3":
            return
        if self.shape[0] != HOURS:
            raise ValueError(f"'format: mimic3' needs 'shape': [{HOURS}, {COLUMNS}]")
        for name, split in self.splits.items():
            if name not in ("train", "test"):
                raise ValueError(f"split '{name}': 'format: mimic3' has the splits train and test")
            _check_one_archive(name, split, self.format)

    def _check_synthetic(self, synthetic: Synthetic) -> None:
        if (synthetic.range is not None) != (self.task == "regression"):
            raise ValueError("'synthetic.range' goes with 'task: regression', and only with it")
        if synthetic.range is not None and not synthetic.range[0] < synthetic.range[1]:
            raise ValueError("'synthetic.range' must ascend")
        if self.task == "binary" and synthetic.noise >= 0.5:
            raise ValueError("'synthetic.noise' must be below 0.5, where labels say nothing")
        if not synthetic.non_zeros_per_row <= self.features / 2:
            raise ValueError("'synthetic.non_zeros_per_row' must be at most half of 'features'")
        if synthetic.informative > self.features:
            raise ValueError("'synthetic.informative' must be at most 'features'")

    @property
    def channels(self) -> int | None:
        """The number of channels of an image; None unless samples have the shape of images."""
        axes = 4 if self.format == "image_views" else 3
        return self.shape[-3] if self.shape is not None and len(self.shape) == axes else None

    @property
    def numeric_columns(self) -> list[int] | None:
        """The indices of the features that are no indicators; None: all."""
        if self.csv is not None:
            return self.csv.numeric_columns
        if self.format not in SERIES_FORMATS:
            return None
        steps = range(0, self.features, COLUMNS)
        return [first + column for first in steps for column in CONTINUOUS_COLUMNS]

    @property
    def scaled_by_train(self) -> bool:
        """Whether other splits need the prepared split `train`."""
        normalised = self.normalise is not None and self.normalise.from_train
        return self.standardise or normalised or self.scale_labels is not None

    def split(self, name: str) -> Split:
        """The split called `name`; FedatlasError names the ones that exist."""
        if name not in self.splits:
            raise FedatlasError(
                f"data set '{self.name}' has no split '{name}'; it has: {', '.join(self.splits)}"
            )
        return self.splits[name]


# Descriptions that only one format has, which has their name.
_BLOCKS = ("bundled", "csv", "image_folder", "image_views", "synthetic", "synthetic_series")


def _check_one_archive(name: str, split: Split, format_name: str) -> None:
    if len(split.files) != 1 or not split.files[0].is_folder:
        raise ValueError(f"split '{name}': 'format: {format_name}' is one archive to 'unpack'")


def label_key(raw: str) -> float | str:
    """What raw labels are compared by: the number where there is one, else the trimmed text."""
    number = plain_number(raw)
    return raw.strip() if number is None else number


def plain_number(text: str) -> float | None:
    """The number that `text` writes in the plain way; `1_000` is Python's, no format's."""
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


@dataclass(frozen=True)
class Catalogue(Mapping[str, Dataset]):
    """The data sets of one catalogue file, by name."""

    path: Path
    datasets: Mapping[str, Dataset]

    def __getitem__(self, name: str) -> Dataset:
        """The data set called `name`; FedatlasError names the known ones."""
        if name not in self.datasets:
            raise FedatlasError(
                f"{self.path}: no data set '{name}'; known: {', '.join(sorted(self.datasets))}"
            )
        return self.datasets[name]

    def __contains__(self, name: object) -> bool:
        """Whether `name` is known; Mapping's own test expects a KeyError from `[]`."""
        return name in self.datasets

    def get(self, name: str, default: Any = None) -> Any:
        """The data set called `name`, or `default`."""
        return self.datasets.get(name, default)

    def __iter__(self) -> Iterator[str]:
        """Names in the order of the file."""
        return iter(self.datasets)

    def __len__(self) -> int:
        """Number of data sets."""
        return len(self.datasets)

    def raw_files(self) -> dict[str, RawFile]:
        """Every raw file of every split by its `local_path`, archives of members excluded."""
        return {
            raw_file.local_path: raw_file
            for dataset in self.datasets.values()
            for split in dataset.splits.values()
            for raw_file in split.files
        }


def load_catalogue(path: Path) -> Catalogue:
    """Read and check a catalogue file; FedatlasError lists everything that is wrong with it."""
    entries = read_yaml(path)
    if not isinstance(entries, dict) or not entries:
        raise FedatlasError(f"{path}: must map names of data sets to their descriptions")
    datasets: dict[str, Dataset] = {}
    problems: list[str] = []
    for name, entry in entries.items():
        if not isinstance(entry, dict):
            problems.append(f"{path}: {name}: must be a mapping, not {entry!r}")
            continue
        try:
            datasets[str(name)] = validated(
                Dataset, {**entry, "name": str(name)}, f"{path}: {name}"
            )
        except FedatlasError as error:
            problems.append(str(error))
    problems += _contradictions(path, datasets)
    if problems:
        raise FedatlasError("\n".join(problems))
    return Catalogue(path, datasets)


def _contradictions(path: Path, datasets: dict[str, Dataset]) -> list[str]:
    """Files that several splits share must be described alike, or the first download decides."""
    seen: dict[str, RawFile] = {}
    return [
        f"{path}: {dataset.name}: '{raw_file.local_path}' is described twice, differently"
        for dataset in datasets.values()
        for split in dataset.splits.values()
        for raw_file in split.files
        if seen.setdefault(raw_file.local_path, raw_file) != raw_file
    ]
