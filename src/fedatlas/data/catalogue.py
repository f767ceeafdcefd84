"""The catalogue of data sets: where each comes from, how it is verified, what it holds."""

from collections.abc import Mapping
from pathlib import Path

from fedatlas.data.datasets import Dataset
from fedatlas.data.formats import dataset_of
from fedatlas.data.raw_files import RawFile
from fedatlas.errors import FedatlasError
from fedatlas.schema.models import read_yaml


class Catalogue(dict[str, Dataset]):
    """The data sets of one catalogue file, by name."""

    def __init__(self, path: Path, datasets: Mapping[str, Dataset]) -> None:
        """path: the file, as errors name it."""
        super().__init__(datasets)
        self._path = path

    def __missing__(self, name: str) -> Dataset:
        """Raise FedatlasError, which names the known ones."""
        raise FedatlasError(f"{self._path}: no data set '{name}'; known: {', '.join(sorted(self))}")

    def raw_files(self) -> dict[str, RawFile]:
        """Every raw file of every split by its `local_path`, archives of members excluded."""
        return {
            raw_file.local_path: raw_file
            for dataset in self.values()
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
    # Files that several splits share must be described alike, or the first download decides.
    seen: dict[str, RawFile] = {}
    problems += [
        f"{path}: {dataset.name}: '{raw_file.local_path}' is described twice, differently"
        for dataset in datasets.values()
        for split in dataset.splits.values()
        for raw_file in split.files
        if seen.setdefault(raw_file.local_path, raw_file) != raw_file
    ]
    if problems:
        raise FedatlasError("\n".join(problems))
    return Catalogue(path, datasets)
