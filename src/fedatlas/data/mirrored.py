"""Own files in a mirror, which their user may change: whether what was copied is still the same."""

from pathlib import Path

from fedatlas.data.checksums import LOCK, recorded_sums
from fedatlas.data.raw_files import RawFile
from fedatlas.files import file_digest


def content_of(raw_file: RawFile, mirror: Path | None, copy: Path, lock: Path = LOCK) -> str | None:
    """The sum of what a user's own file holds now; None if nothing is known of it.

    copy: what was made of it. Without a mirror that has the file, it is the recorded sum.
    The file is read only if it may have changed since it was copied.
    """
    recorded = recorded_sums(lock).get(raw_file.path)
    there = None if mirror is None else mirror / raw_file.path
    if there is None or not there.is_file():
        return recorded
    if recorded is not None and copy.exists() and not _changed_since(raw_file, there, copy):
        return recorded
    return f"sha256:{file_digest(there)}"


def _changed_since(raw_file: RawFile, there: Path, copy: Path) -> bool:
    """Whether the file in the mirror looks newer than its copy, or differs from it in size.

    What an older file is replaced by may be older, too: its place in the folder is not.
    """
    now, then = there.stat(), copy.stat()
    packed = raw_file.decompress or raw_file.unpack
    if not packed and now.st_size != then.st_size:
        return True
    return max(now.st_mtime_ns, now.st_ctime_ns) >= then.st_mtime_ns
