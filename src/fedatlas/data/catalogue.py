"""The catalogue of data sets: where each comes from, how it is verified, what it holds."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedatlas.data.datasets import Dataset
from fedatlas.data.formats import dataset_of
from fedatlas.data.raw_files import RawFile
from fedatlas.errors import FedatlasError, similar
from fedatlas.schema.models import read_yaml


class Catalogue(dict[str, Dataset]):
    """The data sets of catalogue files, by name."""

    def __init__(
        self, paths: Sequence[Path], datasets: Mapping[str, Dataset], described: Mapping[str, Path]
    ) -> None:
        """paths: the files, as errors name them. described: which of them has a data set."""
        super().__init__(datasets)
        self.paths = paths
        self.described = described

    def __missing__(self, name: str) -> Dataset:
        """Raise FedatlasError, which names the known ones."""
        files = " and ".join(map(str, self.paths))
        raise FedatlasError(
            f"{files}: no data set '{name}'{similar(name, self)}; known: {', '.join(sorted(self))}"
        )

    def raw_files(self) -> dict[str, RawFile]:
        """Every raw file of every split by its `local_path`, archives of members excluded."""
        return {
            raw_file.local_path: raw_file
            for dataset in self.values()
            for split in dataset.splits.values()
            for raw_file in split.files
        }


def load_catalogue(*paths: Path) -> Catalogue:
    """Read and check catalogue files; FedatlasError lists everything that is wrong with them."""
    datasets: dict[str, Dataset] = {}
    where: dict[str, Path] = {}
    problems: list[str] = []
    for path in paths:
        for name, entry in _entries(path):
            place = f"{path}: {name}"
            if not isinstance(entry, dict):
                problems.append(f"{place}: must be a mapping, not {entry!r}")
            elif name in where:
                problems.append(
                    f"{place}: {where[name]} describes a data set of that name: rename it"
                )
            else:
                where[name] = path
                try:
                    datasets[name] = dataset_of({**entry, "name": name}, place)
                except FedatlasError as error:
                    problems.append(str(error))
    # Files that several splits share must be described alike, or the first download decides.
    seen: dict[str, RawFile] = {}
    problems += [
        f"{where[dataset.name]}: {dataset.name}: '{raw_file.local_path}' is described twice, "
        "differently"
        for dataset in datasets.values()
        for split in dataset.splits.values()
        for raw_file in split.files
        if seen.setdefault(raw_file.local_path, raw_file) != raw_file
    ]
    if problems:
        raise FedatlasError("\n".join(problems))
    return Catalogue(paths, datasets, where)


def _entries(path: Path) -> Iterator[tuple[str, Any]]:
    entries = read_yaml(path)
    if not isinstance(entries, dict) or not entries:
        raise FedatlasError(f"{path}: must map names of data sets to their descriptions")
    for name, entry in entries.items():
        yield str(name), entry
