"""The catalogue of data sets: where each comes from, how it is verified, what it holds."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.models import Model, read_yaml, validated

# Formats that `fedatlas.data.formats` can read; the others await the papers that need them.
READABLE_FORMATS = frozenset({"bundled", "libsvm"})

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]*$")]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Url = Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$")]
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
    unpacked_limit_gib: refuse to write more than this many GiB.
    """

    path: Text
    urls: tuple[Url, ...] = ()
    checksum: Checksum | None = None
    decompress: Literal["gz", "bz2", "xz"] | None = None
    unpack: Literal["tar", "zip"] | None = None
    archive: "RawFile | None" = None
    member: Text | None = None
    login: Text | None = None
    unpacked_limit_gib: float = Field(default=8.0, gt=0)

    @field_validator("path")
    @classmethod
    def _stays_inside_the_folder(cls, path: str) -> str:
        parts = PurePosixPath(path).parts
        if path != "/".join(parts) or path.startswith("/") or ".." in parts or "\\" in path:
            raise ValueError("must be a plain relative path with '/' between folders")
        return path

    @model_validator(mode="after")
    def _can_be_had(self) -> Self:
        if (self.archive is None) != (self.member is None):
            raise ValueError("'archive' and 'member' belong together")
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


class Dataset(Model):
    """One data set.

    features: number of columns d; shape: that of one sample where it is an image.
    labels: raw label → value, compared as numbers where both are numbers; binary sets map to ±1.
    bundled: name of the set inside scikit-learn, for format `bundled`.
    standardise: zero mean and unit variance per column, by the statistics of split `train`.
    """

    name: Name
    title: Text
    homepage: Url
    licence: Text
    citation: Text
    note: Text | None = None
    format: Text
    task: Literal["binary", "multiclass", "regression"]
    features: int = Field(gt=0)
    shape: tuple[int, ...] | None = None
    classes: int | None = Field(default=None, gt=1)
    labels: dict[str, float] | None = None
    standardise: bool = False
    bundled: Literal["breast_cancer", "digits"] | None = None
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
        if (self.bundled is not None) != (self.format == "bundled"):
            raise ValueError("'bundled' goes with 'format: bundled', and only with it")
        if (self.classes is not None) != (self.task == "multiclass"):
            raise ValueError("'classes' goes with 'task: multiclass', and only with it")
        if self.task == "regression" and self.labels is not None:
            raise ValueError("regression labels are taken as they are: leave 'labels' out")
        if self.task == "binary" and set((self.labels or {}).values()) != {-1.0, 1.0}:
            raise ValueError("'labels' of a binary data set must map to -1 and 1, and to both")
        if self.classes is not None and not set((self.labels or {}).values()) <= set(
            map(float, range(self.classes))
        ):
            raise ValueError(f"'labels' must map to classes 0 to {self.classes - 1}")
        if self.standardise and "train" not in self.splits:
            raise ValueError("'standardise' takes its statistics from a split named 'train'")
        for name, split in self.splits.items():
            if bool(split.files) == (self.format == "bundled"):
                raise ValueError(f"split '{name}': give 'files', unless the data are bundled")
        return self

    def split(self, name: str) -> Split:
        """The split called `name`; FedatlasError names the ones that exist."""
        if name not in self.splits:
            raise FedatlasError(
                f"data set '{self.name}' has no split '{name}'; it has: {', '.join(self.splits)}"
            )
        return self.splits[name]


def label_key(raw: str) -> float | str:
    """What raw labels are compared by: the number where there is one, else the trimmed text."""
    try:
        return float(raw)
    except ValueError:
        return raw.strip()


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
