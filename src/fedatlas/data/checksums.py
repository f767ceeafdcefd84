"""Known checksums verified; unknown ones recorded once the file was read, verified ever after."""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from fedatlas.data.raw_files import Checksum, RawFile
from fedatlas.errors import FedatlasError
from fedatlas.files import file_digest, write_text
from fedatlas.schema.models import read_json, validated

#: Where a run records sums of files without a known one.
LOCK = Path("config/checksums.lock.json")


class ChecksumMismatch(FedatlasError):
    """The bytes are not those that were expected."""


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock named after `path`, so that one process at a time works on it.

    The system frees the lock when its holder dies; the empty file beside `path` stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / f".{path.name}.lock").open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def verify(
    raw_file: RawFile, fetched: Path, source: str, lock: Path, received: Checksum | None = None
) -> None:
    """Compare a file's bytes, as served, with the catalogue's checksum or the recorded one.

    source: url or path that it came from, for the message. received: its checksum when it was
    fetched, which stands in for a recorded one; of a user's own file, whose record may be of an
    older one, it comes first.
    Raises ChecksumMismatch with both sums; an unknown file passes.
    """
    if raw_file.self_made:
        return
    expected, problem, remedy = raw_file.checksum, f"wrong checksum for {raw_file.path}", ""
    if expected is None:
        recorded = recorded_sums(lock).get(raw_file.path)
        expected = (received or recorded) if raw_file.is_own else (recorded or received)
        problem = f"{raw_file.path} differs from the file that was downloaded first"
        remedy = (
            f'\nIf the publisher changed it and you accept that, delete "{raw_file.path}" from '
            f"{lock} and run again."
        )
    if expected is None:
        return
    algorithm = expected.partition(":")[0]
    found = f"{algorithm}:{file_digest(fetched, algorithm)}"
    if found != expected:
        raise ChecksumMismatch(
            f"{source}: {problem}\n  expected {expected}\n  found    {found}{remedy}"
        )


def record(raw_file: RawFile, checksum: Checksum, lock: Path) -> None:
    """Write down the sum of a file whose catalogue entry has none, unless there is one.

    The sum of a user's own file is written anew: who else could say which is right?
    """
    if raw_file.checksum is not None or raw_file.self_made:
        return
    with exclusive(lock):
        sums = recorded_sums(lock)
        if raw_file.path not in sums or (raw_file.is_own and sums[raw_file.path] != checksum):
            sums[raw_file.path] = checksum
            write_text(lock, json.dumps(sums, indent=2, sort_keys=True) + "\n")


def recorded_sums(lock: Path) -> dict[str, str]:
    """The recorded sums by path of the raw file; empty before the first one."""
    if not lock.exists():
        return {}
    return validated(cast(Any, dict[str, Checksum]), read_json(lock), str(lock))
