"""What to do about a raw file that cannot be read: where its original lies, where labels are."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fedatlas.data.checksums import LOCK, recorded_sums
from fedatlas.data.datasets import Dataset
from fedatlas.data.labels import UnknownLabel, as_listed
from fedatlas.data.raw_files import RawFile
from fedatlas.errors import FedatlasError


@contextmanager
def with_remedies(
    dataset: Dataset,
    split: str,
    raw: Sequence[Path],
    described: Path,
    mirror: Path | None,
    lock: Path = LOCK,
) -> Iterator[None]:
    """End the message of a FedatlasError about raw files with what to do.

    raw: the split's files as they were read. described: the catalogue's file with the data set.
    mirror: the folder that files may have been copied from. lock: the recorded checksums.
    """
    try:
        yield
    except FedatlasError as error:
        files = zip(raw, dataset.split(split).files, strict=False)
        remedies = [
            _of_copy(copy, raw_file, mirror, lock)
            for copy, raw_file in files
            if str(copy) in str(error)
        ]
        if isinstance(error, UnknownLabel) and dataset.task != "regression":
            remedies.insert(0, _of_label(dataset, error.label, described))
        raise FedatlasError("\n".join([str(error), *filter(None, remedies)])) from error


def _of_label(dataset: Dataset, label: str, described: Path) -> str:
    """Where the data set's labels are listed, and what to add there."""
    # In quotes unless YAML reads it as it is written, as it does not read 010.
    raw = label if re.fullmatch(r"-?(0|[1-9][0-9]*)", label) else as_listed(label)
    binary = dataset.classes is None
    meaning = "-1 or 1" if binary else f"a class from 0 to {(dataset.classes or 0) - 1}"
    return (
        f"{described}: data set '{dataset.name}', key 'labels': add the label with its meaning, "
        f"{meaning}, such as {raw}: {1 if binary else 0}, or mend the file"
    )


def _of_copy(copy: Path, raw_file: RawFile, mirror: Path | None, lock: Path) -> str:
    """Which file was copied or downloaded; empty if its bytes are known to be the right ones."""
    if raw_file.is_own:
        folder = "MIRROR" if mirror is None else str(mirror)
        if raw_file.archive is not None:
            folder = f"member {raw_file.member} of {folder}/{raw_file.archive.path}, or of {folder}"
        return f"Where the file is at fault, mend {folder}/{raw_file.path}; {copy} is its copy"
    if raw_file.checksum is not None:
        return ""
    recorded = raw_file.path in recorded_sums(lock)
    line = f" and the line of {raw_file.path} in {lock}" if recorded else ""
    return f"To take another {raw_file.path} than the first, delete {copy}{line}, and run again"
