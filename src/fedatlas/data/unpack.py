"""Unpacking files and archives into a folder, within a bound and without links."""

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from fedatlas.errors import FedatlasError

CHUNK = 1 << 16
# An entry costs at least this many bytes, so an archive of countless empty files is bounded too.
ENTRY_BYTES = 512
DECODERS: dict[str, Callable[[], Any]] = {"bz2": bz2.BZ2Decompressor, "xz": lzma.LZMADecompressor}
# How compressed files begin that Python's own readers end too early.
MAGIC = {b"BZh": "bz2", b"\xfd7zXZ": "xz"}
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
    with _explained(source), source.open("rb") as file:
        _copy(_decompressed(file, compression), output, limit, limit)


class _Concatenated:
    """What the streams of a bz2 or xz file hold, one after the other, with zeros between or not.

    Python's own readers end, without an error, at the first thing that starts no stream: at the
    padding that xz allows between streams, and at a stream whose first bytes are damaged.
    """

    def __init__(self, file: IO[bytes], compression: str) -> None:
        self._pieces = self._decoded(file, DECODERS[compression])

    def read(self, size: int = CHUNK) -> bytes:
        """The next bytes, at most CHUNK of them whatever the size; none at the end."""
        return next(self._pieces, b"")

    @staticmethod
    def _decoded(file: IO[bytes], decoder_of: Callable[[], Any]) -> Iterator[bytes]:
        packed = file.read(CHUNK)
        while True:
            decoder = decoder_of()
            while not decoder.eof:
                if decoder.needs_input and not (packed := packed or file.read(CHUNK)):
                    raise EOFError("it ends within a compressed stream")
                if piece := decoder.decompress(packed, CHUNK):
                    yield piece
                packed = b""
            packed = decoder.unused_data.lstrip(b"\0")
            while not packed:
                if not (padded := file.read(CHUNK)):
                    return
                packed = padded.lstrip(b"\0")


def _decompressed(file: IO[bytes], compression: str) -> IO[bytes]:
    if compression == "gz":
        return cast(IO[bytes], gzip.open(file))
    return cast(IO[bytes], _Concatenated(file, compression))


def unpack_archive(
    source: Path, kind: str, folder: Path, limit: int, only: str | None = None
) -> None:
    """Unpack an archive into `folder`, whole or not at all.

    kind: `tar` (plain or compressed) or `zip`. limit: the most bytes to write.
    only: write this one member.
    Of entries of one name the last counts. A link to a file of the archive becomes a copy of that
    file; other links are left out, with a warning.
    FedatlasError, and no folder, when the archive is damaged, too large, lacks `only`, or has an
    entry that is absolute, leaves the folder or is a device.
    """
    entries = _tar_entries if kind == "tar" else _zip_entries
    left, files, links = limit, set(), dict[str, str]()
    folder.mkdir(parents=True)
    try:
        with _explained(source):
            for raw_name, content in entries(source):
                left -= ENTRY_BYTES
                name = _safe_name(raw_name)
                files.discard(name)
                links.pop(name, None)
                if isinstance(content, str):
                    links[name] = content
                elif content is not None:
                    files.add(name)
                    if only in (None, name):
                        left = _copy(content, folder / name, left, limit)
                elif only is None:
                    (folder / name).mkdir(parents=True, exist_ok=True)
            if only is None:
                _copy_linked(folder, files, links, left, limit)
            elif only in links:
                raise FedatlasError(
                    f"member '{only}' is a link to '{links[only]}': give that as 'member'"
                )
            elif only not in files:
                raise FedatlasError(f"has no member '{only}'")
    except BaseException:
        shutil.rmtree(folder)
        raise


def _copy_linked(
    folder: Path, files: set[str], links: dict[str, str], left: int, limit: int
) -> None:
    """Write a copy of the file that a link leads to, through other links or not."""
    dangling = []
    for name, target in links.items():
        for _ in links:  # as often as there may be links in a row
            target = links.get(target, target)
        if target in files:
            with (folder / target).open("rb") as stream:
                left = _copy(stream, folder / name, left, limit)
        else:
            dangling.append(f"{name} -> {links[name]}")
    if dangling:
        log.warning("left out links to no file of the archive: %s", ", ".join(dangling[:20]))


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
    with source.open("rb") as file, _opened_tar(file) as archive:
        for member in archive:
            if member.issym() or member.islnk():
                # A symbolic link leads on from its folder, a hard one from the top.
                folder = posixpath.dirname(member.name) if member.issym() else ""
                yield member.name, posixpath.normpath(posixpath.join(folder, member.linkname))
            elif member.isfile() or member.isdir():
                yield member.name, archive.extractfile(member)
            else:
                raise _refused(f"'{member.name}' is a device")
        # The sum of a compressed stream stands at its end, after the tar's own end.
        while archive.fileobj is not None and archive.fileobj.read(CHUNK):
            pass


def _opened_tar(file: IO[bytes]) -> tarfile.TarFile:
    start = file.read(8)
    file.seek(0)
    for magic, compression in MAGIC.items():
        if start.startswith(magic):
            return tarfile.open(fileobj=_decompressed(file, compression), mode="r|")
    return tarfile.open(fileobj=file)


def _zip_entries(source: Path) -> Iterator[Entry]:
    with zipfile.ZipFile(source) as archive:
        for member in archive.infolist():
            # Some programs of Windows separate folders by what the format forbids.
            name = member.filename.replace("\\", "/")
            if name.endswith("/"):
                yield name, None
                continue
            with archive.open(member) as stream:
                if stat.S_ISLNK(member.external_attr >> 16):
                    linked = posixpath.join(posixpath.dirname(name), stream.read(CHUNK).decode())
                    yield name, posixpath.normpath(linked)
                else:
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
