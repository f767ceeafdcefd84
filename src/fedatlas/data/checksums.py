"""Known checksums verified, unknown ones recorded at first sight and verified ever after."""

import fcntl
import json
import logging
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


logger = logging.getLogger(__name__)


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


def verify(raw_file: RawFile, fetched: Path, source: str, lock: Path) -> None:
    """Compare a file's bytes, as served, with the catalogue's checksum or the recorded one.

    source: url or path that it came from, for the message.
    Raises ChecksumMismatch with both sums; an unknown file passes.
    """
    if raw_file.self_made:
        return
    expected, problem, remedy = raw_file.checksum, f"wrong checksum for {raw_file.path}", ""
    if expected is None:
        expected = recorded_sums(lock).get(raw_file.path)
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


def record(raw_file: RawFile, fetched: Path, source: str, lock: Path) -> None:
    """Write down the sum of a file whose catalogue entry has none; verify it if there is one.

    The sum of a user's own file is written anew, with a warning: who else could say which is right?
    """
    if raw_file.checksum is not None or raw_file.self_made:
        return
    with exclusive(lock):
        sums = recorded_sums(lock)
        try:
            verify(raw_file, fetched, source, lock)
        except ChecksumMismatch:
            if not raw_file.is_own:
                raise
            found = f"sha256:{file_digest(fetched)}"
            logger.warning(
                "%s: has changed, from %s to %s; taken, as it is your own file. %s says so",
                *(source, sums.pop(raw_file.path), found, lock),
            )
        if raw_file.path not in sums:
            sums[raw_file.path] = f"sha256:{file_digest(fetched)}"
            write_text(lock, json.dumps(sums, indent=2, sort_keys=True) + "\n")


def recorded_sums(lock: Path) -> dict[str, str]:
    """The recorded sums by path of the raw file; empty before the first one."""
    if not lock.exists():
        return {}
    return validated(cast(Any, dict[str, Checksum]), read_json(lock), str(lock))
