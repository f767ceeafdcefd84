"""Known checksums verified, unknown ones recorded at first sight and verified ever after."""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedatlas.data.raw_files import RawFile
from fedatlas.errors import FedatlasError
from fedatlas.files import file_digest, write_text


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
    if raw_file.checksum is not None:
        algorithm, expected = raw_file.checksum.split(":")
        found = file_digest(fetched, algorithm)
        if found != expected:
            raise ChecksumMismatch(
                f"{source}: wrong checksum for {raw_file.path}\n"
                f"  expected {algorithm}:{expected}\n  found    {algorithm}:{found}"
            )
        return
    _verify_recorded(raw_file, file_digest(fetched), source, lock, _recorded(lock))


def record(raw_file: RawFile, fetched: Path, source: str, lock: Path) -> None:
    """Write down the sum of a file whose catalogue entry has none; verify it if there is one."""
    if raw_file.checksum is not None or raw_file.self_made:
        return
    found = file_digest(fetched)
    with exclusive(lock):
        sums = _recorded(lock)
        _verify_recorded(raw_file, found, source, lock, sums)
        if raw_file.path not in sums:
            sums[raw_file.path] = f"sha256:{found}"
            write_text(lock, json.dumps(sums, indent=2, sort_keys=True) + "\n")


def _verify_recorded(
    raw_file: RawFile, found: str, source: str, lock: Path, sums: dict[str, str]
) -> None:
    expected = sums.get(raw_file.path)
    if expected not in (None, f"sha256:{found}"):
        raise ChecksumMismatch(
            f"{source}: {raw_file.path} differs from the file that was downloaded first\n"
            f"  expected {expected}\n  found    sha256:{found}\n"
            f'If the publisher changed it and you accept that, delete "{raw_file.path}" from '
            f"{lock} and run again."
        )


def _recorded(lock: Path) -> dict[str, str]:
    """The recorded sums by path of the raw file; empty before the first one."""
    try:
        sums = json.loads(lock.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise FedatlasError(f"{lock}: cannot be read as JSON: {error}") from error
    if not isinstance(sums, dict) or not all(isinstance(x, str) for x in sums.values()):
        raise FedatlasError(f"{lock}: must map paths of raw files to checksums")
    return sums
