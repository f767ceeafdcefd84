"""The catalogue of data sets: where each comes from, how it is verified, what it holds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedatlas.data.datasets import Dataset
from fedatlas.data.formats import dataset_of
from fedatlas.data.raw_files import RawFile
from fedatlas.errors import FedatlasError
from fedatlas.schema.models import read_yaml


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
            datasets[str(name)] = dataset_of({**entry, "name": str(name)}, f"{path}: {name}")
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
