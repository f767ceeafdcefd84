"""Unpacking files and archives into a folder, within a bound and without links."""

import bz2
import errno
import gzip
import logging
import lzma
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from fedatlas.errors import FedatlasError

CHUNK = 1 << 16
# An entry costs at least this many bytes, so an archive of countless empty files is bounded too.
ENTRY_BYTES = 512
READERS: dict[str, Callable[[Path], Any]] = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}
# What the system says of a seek to nowhere, and of entries that cannot exist together, such as `a`
# and `a/b`. bz2 reports damage as an OSError without a number.
DAMAGE = (None, errno.EINVAL, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)

Entry = tuple[str, IO[bytes] | None]
"""A name, and the stream of a file or None for a folder."""

log = logging.getLogger(__name__)


def decompress_file(source: Path, compression: str, output: Path, limit: int) -> None:
    """Write the decompressed bytes of a gz, bz2 or xz file to `output`.

    limit: the most bytes to write. FedatlasError when there are more, or `source` is damaged;
    `output` is then incomplete.
    """
    with _explained(source), READERS[compression](source) as stream:
        _copy(stream, output, limit, limit)


def unpack_archive(
    source: Path, kind: str, folder: Path, limit: int, only: str | None = None
) -> None:
    """Unpack an archive into `folder`, whole or not at all.

    kind: `tar` (plain or compressed) or `zip`. limit: the most bytes to write.
    only: write this one member.
    Of entries of one name the last counts. Links are left out, with a warning.
    FedatlasError, and no folder, when the archive is damaged, too large, lacks `only`, or has an
    entry that is absolute, leaves the folder or is a device.
    """
    entries = _tar_entries if kind == "tar" else _zip_entries
    left, found = limit, only is None
    folder.mkdir(parents=True)
    try:
        with _explained(source):
            for raw_name, content in entries(source):
                left -= ENTRY_BYTES
                name = _safe_name(raw_name)
                if content is not None and only in (None, name):
                    left, found = _copy(content, folder / name, left, limit), True
                elif content is None and only is None:
                    (folder / name).mkdir(parents=True, exist_ok=True)
            if not found:
                raise FedatlasError(f"has no member '{only}' that is a file")
    except BaseException:
        shutil.rmtree(folder)
        raise


def _copy(stream: IO[bytes], output: Path, left: int, limit: int) -> int:
    """Copy a stream of at most `left` of `limit` bytes to a file → how many are left then."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("wb") as target:
        piece = b""
        while left >= 0 and (piece := stream.read(CHUNK)):
            left -= len(piece)
            if left >= 0:
                target.write(piece)
    if left < 0:
        raise FedatlasError(
            f"unpacks to more than {limit} bytes; if that is right, raise 'unpacked_limit_gib' of "
            "this file in the catalogue"
        )
    return left


def _safe_name(raw_name: str) -> str:
    """The entry's name without `./`; FedatlasError when it could leave the folder.

    tarfile's filter "data" would rename absolute paths, and zipfile renames silently.
    """
    path = PurePosixPath(raw_name)
    if path.is_absolute() or ".." in path.parts or not raw_name.isprintable():
        raise _refused(f"{raw_name!r} would leave the folder or has no plain name")
    return str(path)


def _refused(entry: str) -> FedatlasError:
    return FedatlasError(f"entry {entry}; refused: pack the archive again without it")


def _tar_entries(source: Path) -> Iterator[Entry]:
    with tarfile.open(source) as archive:
        for member in archive:
            if member.issym() or member.islnk():
                log.warning("%s: left out the link '%s'", source, member.name)
            elif member.isfile() or member.isdir():
                yield member.name, archive.extractfile(member)
            else:
                raise _refused(f"'{member.name}' is a device")
        # The sum of a compressed stream stands at its end, after the tar's own end.
        while archive.fileobj is not None and archive.fileobj.read(CHUNK):
            pass


def _zip_entries(source: Path) -> Iterator[Entry]:
    with zipfile.ZipFile(source) as archive:
        for member in archive.infolist():
            # Some programs of Windows separate folders by what the format forbids.
            name = member.filename.replace("\\", "/")
            if stat.S_ISLNK(member.external_attr >> 16):
                log.warning("%s: left out the link '%s'", source, name)
            elif name.endswith("/"):
                yield name, None
            else:
                with archive.open(member) as stream:
                    yield name, stream


@contextmanager
def _explained(source: Path) -> Iterator[None]:
    """Name the file in every error; its damage can make a library raise anything."""
    try:
        yield
    except FedatlasError as error:
        raise FedatlasError(f"{source}: {error}") from error
    except MemoryError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno not in DAMAGE:  # such as of a full disk
            raise
        raise FedatlasError(
            f"{source}: cannot be unpacked, it is damaged or not packed this way: {error}"
        ) from error
