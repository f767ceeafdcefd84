"""Steps from raw files to prepared ones; see `fedatlas.steps`."""

import os
from pathlib import Path

from fedatlas.data.catalogue import load_catalogue
from fedatlas.data.raw_files import LOCK
from fedatlas.errors import FedatlasError, similar
from fedatlas.schema.config import MIRROR_VARIABLE, home_expanded


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
    raw: list[Path] = [],  # noqa: B006
    train: Path | None = None,
    mirror: Path | None = None,
    lock: Path = LOCK,
) -> None:
    """Turn a split's raw files into one Parquet file, and record their sums.

    raw: its files, in order. train: the prepared training split to scale by. mirror, lock: see
    `download_file`.
    """
    from fedatlas.data.catalogue import with_remedies
    from fedatlas.data.prepare import prepare
    from fedatlas.data.raw_files import record_read

    entry = load_catalogue(*catalogue)[dataset]
    files = entry.split(split).files
    with with_remedies(files, raw, mirror or _mirror(), lock):
        prepare(entry, split, raw, output, train=train)
    record_read(zip(files, raw, strict=True), lock)


def _mirror() -> Path | None:
    named = os.environ.get(MIRROR_VARIABLE)
    return home_expanded(named) if named else None
