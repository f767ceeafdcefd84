"""The catalogue of data sets: entries, and steps that download and prepare them.

The plan reads the catalogue: what only steps need is imported within them.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedatlas.data.datasets import Dataset
from fedatlas.data.formats import dataset_of
from fedatlas.data.raw_files import LOCK, RawFile, record_read, recorded_sums
from fedatlas.errors import FedatlasError, similar
from fedatlas.schema.config import MIRROR_VARIABLE, home_expanded
from fedatlas.schema.models import read_yaml


class Catalogue(dict[str, Dataset]):
    """The data sets of catalogue files, by name."""

    def __init__(self, paths: Sequence[Path], datasets: Mapping[str, Dataset]) -> None:
        """paths: the files, as errors name them."""
        super().__init__(datasets)
        self.paths = paths

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
        entries = read_yaml(path)
        if not isinstance(entries, dict) or not entries:
            raise FedatlasError(f"{path}: must map names of data sets to their descriptions")
        for name, entry in ((str(key), entry) for key, entry in entries.items()):
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
    return Catalogue(paths, datasets)


def download_file(
    file: str,
    catalogue: list[Path],
    archives: Path,
    output: Path,
    mirror: Path | None = None,
    lock: Path = LOCK,
) -> None:
    """Fetch a raw file, verify it and undo its compression.

    file: its path in the catalogue. archives: the folder of archives of single members. mirror: the
    folder to take it from first, else that of FEDATLAS_MIRROR. lock: where sums of files without
    one are kept.
    """
    from fedatlas.data.download import Fetching, download

    known = load_catalogue(*catalogue)
    by_local_path = known.raw_files()
    files = {raw.path: raw for raw in by_local_path.values()} | by_local_path
    if file not in files:
        where = " and ".join(map(str, known.paths))
        raise FedatlasError(f"{where}: no raw file '{file}'{similar(file, files)}")
    download(files[file], output, Fetching(mirror or _mirror(), lock, archives))


def prepare_split(
    dataset: str,
    split: str,
    catalogue: list[Path],
    output: Path,
    raw: Sequence[Path] = (),
    train: Path | None = None,
    mirror: Path | None = None,
    lock: Path = LOCK,
) -> None:
    """Turn a split's raw files into one Parquet file, and record their sums.

    raw: its files, in order. train: the prepared training split to scale by. mirror, lock: see
    `download_file`.
    """
    from fedatlas.data.prepare import prepare

    entry = load_catalogue(*catalogue)[dataset]
    files = entry.split(split).files
    try:
        prepare(entry, split, list(raw), output, train=train)
    except FedatlasError as error:
        remedies = [
            _remedy_for_copy(copy, raw_file, mirror or _mirror(), lock)
            for copy, raw_file in zip(raw, files, strict=False)
            if str(copy) in str(error)
        ]
        raise FedatlasError("\n".join([str(error), *filter(None, remedies)])) from error
    record_read(zip(files, raw, strict=True), lock)


def _mirror() -> Path | None:
    named = os.environ.get(MIRROR_VARIABLE)
    return home_expanded(named) if named else None


def _remedy_for_copy(copy: Path, raw_file: RawFile, mirror: Path | None, lock: Path) -> str:
    """Which file was copied or downloaded; empty if its bytes are known to be the right ones."""
    if raw_file.is_own:
        place = f"{mirror or 'MIRROR'}/{raw_file.path}"
        return f"Where the file is at fault, mend {place}; {copy} is its copy"
    if raw_file.checksum is not None:
        return ""
    recorded = raw_file.path in recorded_sums(lock)
    line = f" and the line of {raw_file.path} in {lock}" if recorded else ""
    return f"To take another {raw_file.path} than the first, delete {copy}{line}, and run again"
