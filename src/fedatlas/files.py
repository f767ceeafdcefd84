"""Whole-or-nothing writes, digests and canonical JSON."""

import errno
import hashlib
import json
import logging
import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from fedatlas.errors import FedatlasError

# Errors for a folder that cannot be written, for a full disk, and for one that fails.
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_BROKEN = (errno.EIO, errno.ENXIO, errno.ESTALE, errno.EREMOTEIO)
#: Errors of any file that the disk, not the file, is at fault for.
OF_DISKS = (*_FULL, *_BROKEN)
_EXCHANGE = 2  # of renameat2
_PROBE_BYTES = 1 << 16
# No write takes that long: what other machines left behind is older.
_ABANDONED = 7 * 86_400.0

log = logging.getLogger(__name__)


@contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` only if the block succeeds.

    Several processes may write `path` at once: the last one counts. Files that killed writes of
    `path` left behind are removed first. Raises FedatlasError when the folder cannot be written or
    the disk is full, whatever error the writing library raises.
    """
    temporary = None
    try:  # before there is a file: a signal may end the process at any time
        with _explaining(path):
            temporary = _make_temporary(path)
        with _explaining(path, temporary):
            yield temporary
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            # mkstemp makes private files; results follow the user's umask like any other output.
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)
            temporary.replace(path)
    finally:
        if temporary is not None:
            with suppress(OSError):  # of a file system that is read-only by now
                temporary.unlink(missing_ok=True)


def require_writable(path: Path) -> None:
    """Fail now, as `write_atomically` would, rather than when there is something to write."""
    with _explaining(path):
        _make_temporary(path).unlink()


@contextmanager
def folder_beside(path: Path) -> Iterator[Path]:
    """Yield a new folder beside `path`, in which to make what `put_in_place` puts there.

    At the end it is removed. So is, at first, what killed writes of `path` left behind. Raises
    FedatlasError when the disk is full or fails.
    """
    with _explaining(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path, folders=True)
        # Beside it: a rename is only atomic within one file system.
        prefix = temporary_prefix(path.name)
        folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=prefix))
        try:
            yield folder
        finally:
            remove_folder(folder)


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it. An OSError names the folder, not a file in it."""
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(folder)) from error


def put_in_place(made: Path, path: Path) -> None:
    """Rename a folder to `path`. One that is there takes the other's name, at the same moment.

    Where the system cannot exchange them, there is none for a moment.
    """
    if not path.exists():
        made.rename(path)
        return
    try:
        _exchange(made, path)
    except (OSError, AttributeError):  # as on some network file systems, and not on Linux
        former = made.with_name(f"{made.name}-former")
        path.rename(former)
        try:
            made.rename(path)
        except BaseException:
            former.rename(path)
            raise


def _exchange(one: Path, other: Path) -> None:
    import ctypes

    here = ctypes.c_int(-100)  # of relative names: the working directory
    names = os.fsencode(one), os.fsencode(other)
    system = ctypes.CDLL(None, use_errno=True)
    if system.renameat2(here, names[0], here, names[1], ctypes.c_uint(_EXCHANGE)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(other))


def remove_leftovers(path: Path, *, folders: bool = False) -> None:
    """Remove what `leftovers` finds."""
    for leftover in leftovers(path, folders=folders):
        with suppress(OSError):  # another user's, or removed by another process
            remove_folder(leftover) if folders else leftover.unlink()


def temporary_prefix(name: str) -> str:
    """The beginning of temporary names for `name`, which shows the writing process."""
    return f".{name}.{_machine()}-{os.getpid()}-"


def leftovers(path: Path, *, folders: bool = False) -> list[Path]:
    """Hidden files that killed writes of `path` left beside it; of downloads, folders.

    Their process has ended, or they have not changed for a week: it may run on another machine.
    """
    name = (path.name, "") if folders else (path.stem, path.suffix)
    # tempfile makes names unique by eight such letters.
    pattern = re.compile(
        rf"\.{re.escape(name[0])}\.(?:([0-9a-f]{{8}})-(\d{{1,7}})-)?[a-z0-9_]{{8}}{re.escape(name[1])}"
    )
    # By the clock that stamps these files, which may be that of a file server.
    long_ago = path.parent.stat().st_mtime - _ABANDONED
    found = []
    with os.scandir(path.parent) as entries:
        for entry in entries:
            named = pattern.fullmatch(entry.name)
            if named and entry.is_dir(follow_symlinks=False) == folders:
                ended = named[1] == _machine() and not _runs(int(named[2]))
                with suppress(FileNotFoundError):  # another process removes or renames it
                    if ended or entry.stat(follow_symlinks=False).st_mtime < long_ago:
                        found.append(Path(entry.path))
    return found


@cache
def _machine() -> str:
    """Names the running kernel and the container: within them a process's number is its own."""
    told = [socket.gethostname()]
    with suppress(OSError):  # of systems other than Linux
        told.append(Path("/proc/sys/kernel/random/boot_id").read_text())
        told.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    return text_digest(" ".join(told), 8)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        pass
    return True


def _make_temporary(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise FedatlasError(f"cannot write {path}: there is a folder of that name; move it away")
    remove_leftovers(path)
    # Hidden and with the final suffix: libraries that look at the suffix still work.
    handle, name = tempfile.mkstemp(path.suffix, temporary_prefix(path.stem), path.parent)
    os.close(handle)
    return Path(name)


@contextmanager
def _explaining(path: Path, temporary: Path | None = None) -> Iterator[None]:
    """Turn failures to write `path` that a user can act on into FedatlasErrors.

    temporary: the file that is written in its place.
    """
    try:
        yield
    except FedatlasError:
        raise
    except Exception as error:
        explained = explained_failure(error, path, temporary)
        if explained is None:
            raise
        raise explained from error


def file_of(error: Exception) -> Path | None:
    """The file that the system failed at; where it copied or renamed, the new one."""
    if not isinstance(error, OSError):
        return None
    name = error.filename2 or error.filename
    return Path(name) if isinstance(name, str) else None


def explained_failure(
    error: Exception, path: Path, temporary: Path | None = None
) -> FedatlasError | None:
    """A remedy for a failed write; None if it failed for another reason."""
    number = error.errno if isinstance(error, OSError) else None
    at_fault = file_of(error)
    if at_fault is not None:
        at_fault, wanted = at_fault.absolute(), path.absolute()
        if wanted.parent not in at_fault.parents and at_fault not in (*wanted.parents, wanted):
            return None  # a file that was to be read
    vanished = temporary is not None and not temporary.exists()
    # HDF5 and others raise errors without the number, and netCDF calls any failure on a full disk
    # "Permission denied": the system is asked before an error is believed.
    if number not in _FULL and temporary is not None and isinstance(error, OSError | RuntimeError):
        refusal = _refusal(temporary)
        number = refusal if refusal in _FULL or number is None else number
    if number in _FULL:
        remedy = f"Free some space and run again{_free(path.parent)}."
        return FedatlasError(f"cannot write {path}: {os.strerror(number)}. {remedy}")
    if number in _DENIED:
        remedy = f"Make the folder {path.parent} writable and run again."
        return FedatlasError(f"cannot write {path}: {os.strerror(number)}. {remedy}")
    if number in _BROKEN:
        remedy = "The disk, or the way to it, failed: look after it and run again."
        return FedatlasError(f"cannot write {path}: {os.strerror(number)}. {remedy}")
    if vanished and temporary is not None:
        return FedatlasError(
            f"cannot write {path}: its temporary file {temporary.name} has vanished. Run again "
            "when no other process writes to the folder or clears it."
        )
    return None


def _free(folder: Path) -> str:
    """How much space the folder's disk has left, in words; a quota may leave less."""
    with suppress(OSError):
        return f" ({shutil.disk_usage(folder).free / 1e6:.1f} MB are left)"
    return ""


def _refusal(temporary: Path) -> int | None:
    """The error number with which the system refuses more bytes of a file, if it does.

    The file may have been removed by the library that failed to write it: it is made again.
    """
    try:
        with temporary.open("ab") as stream:
            stream.write(bytes(_PROBE_BYTES))
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        return error.errno
    return None


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 `text` to `path`, whole or not at all."""
    with write_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def date_to_now(files: Iterable[Path]) -> None:
    """Set time stamps that lie in the future, as after the clock was set back, to the present.

    What is made from such a file looks older than it: Snakemake would delete it when it is done.
    """
    dated = []
    for file in files:
        with suppress(OSError):  # not there, or another user's
            if file.stat().st_mtime > time.time():
                os.utime(file)
                dated.append(file)
    if dated:
        log.warning("%s: dated in the future, set to now (%d such files)", dated[0], len(dated))


def file_digest(path: Path, algorithm: str = "sha256") -> str:
    """Hexadecimal digest of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()


def tree_digest(path: Path) -> str:
    """SHA-256 of a file; of a folder that of its files' names and digests, as sha256sum lists."""
    if not path.is_dir():
        return file_digest(path)
    files = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
    return text_digest("".join(f"{file_digest(path / file)}  {file}\n" for file in files))


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def text_digest(text: str, length: int = 64) -> str:
    """First `length` hexadecimal digits of the SHA-256 of `text`."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:length]
