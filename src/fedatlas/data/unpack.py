"""Unpacking that trusts nothing in the archive: names, kinds of entries or sizes."""

import bz2
import errno
import gzip
import logging
import lzma
import posixpath
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO

from fedatlas.errors import FedatlasError

CHUNK = 1 << 16
# An entry costs at least this many bytes, so an archive of countless empty files is bounded too.
ENTRY_BYTES = 512
# tarfile reads headers (long names, PAX records) into memory: the most bytes of one entry.
HEADER_BYTES = 1 << 13
# A header of a few bytes can ask xz for any dictionary; `xz -9` takes 65 MiB.
XZ_MEMORY = 128 << 20
# Limits of file systems; no data set lies deeper.
NAME_BYTES = 255
PATH_BYTES = 1024
FOLDERS_DEEP = 64
# As many links in a row as Linux follows.
MOST_LINKS = 40
# Others take memory that no option of zipfile bounds.
ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
MAGIC = {"gz": b"\x1f\x8b", "bz2": b"BZh", "xz": b"\xfd7zXZ\x00"}
# What the system says of a seek to nowhere, and of entries that cannot exist together, such as `a`
# and `a/b`. bz2 reports damage as an OSError without a number.
DAMAGE = (None, errno.EINVAL, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)

Entry = tuple[str, IO[bytes] | str | None]
"""A name, and the stream of a file, the entry that a link leads to, or None for a folder."""

log = logging.getLogger(__name__)


def decompress_file(source: Path, compression: str, output: Path, limit: int) -> None:
    """Write the decompressed bytes of a gz, bz2 or xz file to `output`.

    limit: the most bytes to write. FedatlasError when there are more, or `source` is damaged;
    `output` is then incomplete.
    """
    with _explained(source), output.open("wb") as target:
        _Allowance(limit).copy(_decompressed(source, compression), target)


def unpack_archive(
    source: Path, kind: str, folder: Path, limit: int, only: str | None = None
) -> None:
    """Unpack an archive into `folder`, whole or not at all.

    kind: `tar` (plain or compressed) or `zip`. limit: the most bytes to write.
    only: write this one member and check the rest.
    Of entries of one name the last counts. A link to a file of the archive becomes a copy of that
    file; other links are left out, with a warning.
    FedatlasError, and no folder, when the archive is damaged, too large, lacks `only`, or has an
    entry that is absolute, leaves the folder or is a device.
    """
    folder.mkdir(parents=True)
    files: set[str] = set()
    links: dict[str, str] = {}
    try:
        with _explained(source):
            allowance = _Allowance(limit)
            entries = _tar_entries if kind == "tar" else _zip_entries
            for raw_name, content in entries(source, allowance):
                allowance.spend(ENTRY_BYTES)
                name = _safe_name(raw_name)
                if content is None:
                    if only is None:
                        (folder / name).mkdir(parents=True, exist_ok=True)
                    continue
                if name in files and only in (None, name):
                    (folder / name).unlink()
                files.discard(name)
                links.pop(name, None)
                if isinstance(content, str):
                    links[name] = content
                    continue
                files.add(name)
                if only in (None, name):
                    _write(_pieces(content), folder / name, allowance)
            if only is None:
                _copy_linked(folder, files, links, allowance)
            elif only in links:
                raise FedatlasError(
                    f"member '{only}' is a link to '{links[only]}': give that as 'member'"
                )
            elif only not in files:
                raise FedatlasError(f"has no member '{only}'")
    except BaseException:
        shutil.rmtree(folder)
        raise


def _write(pieces: Iterable[bytes], target: Path, allowance: "_Allowance") -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    # Exclusive: on a file system that ignores case, A and a are the same file.
    with target.open("xb") as output:
        allowance.copy(pieces, output)


def _copy_linked(
    folder: Path, files: set[str], links: dict[str, str], allowance: "_Allowance"
) -> None:
    """Write a copy of the file that a link leads to, through other links or not."""
    left_out = []
    for name in links:
        target = name
        for _ in range(MOST_LINKS):
            target = links.get(target, target)
        if target in files:
            with (folder / target).open("rb") as stream:
                _write(_pieces(stream), folder / name, allowance)
        else:
            left_out.append(f"{name} -> {links[name]}")
    if left_out:
        log.warning("left out links to no file of the archive: %s", ", ".join(left_out[:20]))


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


class _Allowance:
    """What may still be written for one archive, in bytes."""

    def __init__(self, limit: int) -> None:
        self._limit, self._left = limit, limit

    def spend(self, size: int) -> None:
        """Count bytes that are written; FedatlasError if they are too many."""
        self._left -= size
        self.check(0)

    def check(self, size: int) -> None:
        """Raise FedatlasError unless so many bytes more may be written."""
        if size > self._left:
            raise FedatlasError(
                f"unpacks to more than {self._limit} bytes; if that is right, raise "
                "'unpacked_limit_gib' of this file in the catalogue"
            )

    def copy(self, pieces: Iterable[bytes], target: BinaryIO) -> None:
        for piece in pieces:
            self.spend(len(piece))
            target.write(piece)


def _safe_name(raw_name: str) -> str:
    """The entry's name without `./`; FedatlasError when it could leave the folder.

    tarfile's filter "data" would rename absolute paths, and zipfile renames silently; here an
    archive with such an entry is refused.
    """
    path = PurePosixPath(raw_name)
    if not raw_name.isprintable():
        # Also bytes that are no UTF-8, which tarfile keeps as lone surrogates.
        raise _refused(f"{raw_name!r} has a control character, or a name that is not UTF-8")
    longest = max((len(part.encode()) for part in path.parts), default=0)
    too_long = longest > NAME_BYTES or len(raw_name.encode()) > PATH_BYTES
    if too_long or len(path.parts) > FOLDERS_DEEP:
        raise _refused(
            f"'{raw_name[:80]}…' has too long a name (over {NAME_BYTES} bytes, with its folders "
            f"over {PATH_BYTES}) or lies over {FOLDERS_DEEP} folders deep"
        )
    if path.is_absolute() or ".." in path.parts or not raw_name:
        raise _refused(f"'{raw_name}' would leave the folder")
    return str(path)


def _refused(entry: str, remedy: str = "without it") -> FedatlasError:
    return FedatlasError(f"entry {entry}; refused: pack the archive again {remedy}")


class _TarStream:
    """What tarfile reads from: entries' contents as they are asked for, headers within a bound."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self.expect(0)

    def expect(self, content: int) -> None:
        """The next header comes after so many bytes of content."""
        padded = -(-content // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        # tarfile reads ahead by a piece.
        self._left = padded + HEADER_BYTES + CHUNK

    def read(self, size: int) -> bytes:
        """The next piece: tarfile takes any number of bytes, whatever it asks for."""
        piece = next(self._pieces, b"")
        self._left -= len(piece)
        if self._left < 0:
            raise FedatlasError(
                f"says more than {HEADER_BYTES} bytes of one entry before its content; refused"
            )
        return piece


def _tar_entries(source: Path, allowance: _Allowance) -> Iterator[Entry]:
    with source.open("rb") as stream:
        start = stream.read(6)
    # Not tarfile's own decompression: as a stream that skips the check of the sum.
    compression = next((name for name, magic in MAGIC.items() if start.startswith(magic)), None)
    pieces = _decompressed(source, compression)
    bounded = _TarStream(pieces)
    # Read as a stream: nothing is read twice and no entry can point at another.
    with tarfile.open(fileobj=bounded, mode="r|") as archive:  # type: ignore[call-overload]
        for member in archive:
            if member.issym() or member.islnk():
                # A symbolic link leads on from its folder, a hard one from the top.
                folder = posixpath.dirname(member.name) if member.issym() else ""
                yield member.name, _linked(folder, member.linkname)
                continue
            if member.issparse():
                raise _refused(f"'{member.name}' is sparse", "without --sparse")
            if not (member.isreg() or member.isdir()):
                raise _refused(f"'{member.name}' is a device")
            if member.size < 0:
                raise FedatlasError(f"entry '{member.name}' has a negative size")
            # Before anything of it is read, or skipped.
            allowance.check(member.size)
            bounded.expect(member.size)
            yield member.name, archive.extractfile(member)
    # The sum of a compressed stream stands at its end, after the tar's own end.
    for rest in pieces:
        allowance.spend(len(rest))


def _zip_entries(source: Path, allowance: _Allowance) -> Iterator[Entry]:
    with zipfile.ZipFile(source) as archive:
        for member in archive.infolist():
            # Some programs of Windows separate folders by what the format forbids.
            name, kind = member.filename.replace("\\", "/"), stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
                raise _refused(f"'{name}' is a device")
            if member.compress_type not in ZIP_METHODS:
                raise _refused(
                    f"'{name}' is packed by method {member.compress_type}, neither stored nor "
                    "deflated",
                    "with 'deflate', the usual method",
                )
            if name.endswith("/"):
                yield name, None
                continue
            with archive.open(member) as stream:
                if kind == stat.S_IFLNK:
                    linked = stream.read(PATH_BYTES).decode(errors="replace")
                    yield name, _linked(posixpath.dirname(name), linked)
                else:
                    yield name, stream


def _linked(folder: str, target: str) -> str:
    """Where a link in that folder leads to, by the names of entries."""
    return posixpath.normpath(posixpath.join(folder, target))


def _decompressed(source: Path, compression: str | None) -> Iterator[bytes]:
    """The content of a file, piece by piece."""
    openers: dict[str | None, Callable[..., Any]] = {"gz": gzip.open, "bz2": bz2.open}
    with openers.get(compression, open)(source, "rb") as stream:
        yield from (_xz_pieces if compression == "xz" else _pieces)(stream)


def _pieces(stream: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: stream.read(CHUNK), b"")


def _xz_pieces(packed: IO[bytes]) -> Iterator[bytes]:
    """As lzma.open reads it, within bounded memory."""
    waiting = packed.read(CHUNK)
    while True:
        decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)
        while not decoder.eof:
            if decoder.needs_input and not waiting:
                raise EOFError("the file ends before its end-of-stream marker")
            if piece := decoder.decompress(waiting, max_length=CHUNK):
                yield piece
            waiting = packed.read(CHUNK) if decoder.needs_input else b""
        # Streams may follow each other, with zeros in groups of four between them.
        waiting = decoder.unused_data.lstrip(b"\0")
        while not waiting and (read := packed.read(CHUNK)):
            waiting = read.lstrip(b"\0")
        if not waiting:
            return
