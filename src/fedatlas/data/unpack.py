"""Unpacking that trusts nothing in the archive: names, kinds of entries or sizes."""

import bz2
import errno
import gzip
import io
import lzma
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO

from fedatlas.errors import FedatlasError

CHUNK = 1 << 20
# An entry costs at least this many bytes, so an archive of countless empty files is bounded too.
ENTRY_BYTES = 512
# No data set's files shrink to less than a 250th; below the second number any ratio is harmless.
MOST_RATIO = 250
ANY_RATIO_BYTES = 64 << 20
# tarfile reads headers (long names, PAX records) into memory: the most bytes of one entry.
HEADER_BYTES = 1 << 13
# A header of a few bytes can ask xz for any dictionary; `xz -9` takes 65 MiB.
XZ_MEMORY = 128 << 20
# Limits of file systems; no data set lies deeper.
NAME_BYTES = 255
PATH_BYTES = 1024
FOLDERS_DEEP = 64
# Others take memory that no option of zipfile bounds.
ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class _XzStream(io.RawIOBase):
    """As lzma.open, within bounded memory."""

    def __init__(self, path: Path) -> None:
        self._packed = path.open("rb")
        self._decoder = self._new_decoder()

    @staticmethod
    def _new_decoder() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        waiting = b""
        while True:
            if self._decoder.eof:
                # Streams may follow each other, with zeros in groups of four between them.
                waiting = self._decoder.unused_data.lstrip(b"\0")
                while not waiting and (read := self._packed.read(io.DEFAULT_BUFFER_SIZE)):
                    waiting = read.lstrip(b"\0")
                if not waiting:
                    return 0
                self._decoder = self._new_decoder()
            if not waiting and self._decoder.needs_input:
                waiting = self._packed.read(io.DEFAULT_BUFFER_SIZE)
                if not waiting:
                    raise EOFError("the file ends before its end-of-stream marker")
            content = self._decoder.decompress(waiting, max_length=len(buffer))
            waiting = b""
            if content:
                buffer[: len(content)] = content
                return len(content)

    def close(self) -> None:
        self._packed.close()
        super().close()


def _open_xz(path: Path, mode: str = "rb") -> IO[bytes]:
    return io.BufferedReader(_XzStream(path))


OPENERS: dict[str, Callable[..., Any]] = {"gz": gzip.open, "bz2": bz2.open, "xz": _open_xz}
MAGIC = {"gz": b"\x1f\x8b", "bz2": b"BZh", "xz": b"\xfd7zXZ\x00"}


class _Allowance:
    """What may still be written for one archive, in bytes."""

    def __init__(self, archive: Path, limit: int) -> None:
        self.archive = archive
        self.limit = limit
        self.left = limit
        self.packed = archive.stat().st_size

    def spend(self, size: int) -> None:
        self.left -= size
        spent = self.limit - self.left
        if spent > max(MOST_RATIO * self.packed, ANY_RATIO_BYTES):
            raise FedatlasError(
                f"{self.archive}: unpacks to more than {MOST_RATIO} times its {self.packed} bytes, "
                "as no data set does; refused"
            )
        self.check(0)

    def check(self, size: int) -> None:
        """Raise FedatlasError unless so many bytes more may be written."""
        if size > self.left:
            raise FedatlasError(
                f"{self.archive}: unpacks to more than {self.limit} bytes; if that is right, raise "
                "'unpacked_limit_gib' of this file in the catalogue"
            )

    def copy(self, source: IO[bytes], target: BinaryIO) -> None:
        while chunk := source.read(CHUNK):
            self.spend(len(chunk))
            target.write(chunk)


def decompress_file(source: Path, compression: str, output: Path, limit: int) -> None:
    """Write the decompressed bytes of a gz, bz2 or xz file to `output`.

    limit: the most bytes to write. FedatlasError when there are more, or `source` is damaged;
    `output` is then incomplete.
    """
    allowance = _Allowance(source, limit)
    with (
        _damage_explained(source),
        OPENERS[compression](source, "rb") as packed,
        output.open("wb") as target,
    ):
        allowance.copy(packed, target)


def unpack_archive(
    source: Path, kind: str, folder: Path, limit: int, only: str | None = None
) -> None:
    """Unpack an archive into `folder`, whole or not at all.

    kind: `tar` (plain or compressed) or `zip`. limit: the most bytes to write.
    only: write this one member and check the rest.
    FedatlasError, and no folder, when the archive is damaged, too large, lacks `only`, or has an
    entry that is absolute, leaves the folder, occurs twice or is neither a file nor a folder.
    """
    folder.mkdir(parents=True)
    try:
        with _damage_explained(source):
            allowance = _Allowance(source, limit)
            entries = _tar_entries if kind == "tar" else _zip_entries
            found = _write(entries(allowance), folder, allowance, only)
        if only is not None and only not in found:
            raise FedatlasError(f"{source}: has no member '{only}'")
    except BaseException:
        shutil.rmtree(folder)
        raise


Entry = tuple[str, bool, IO[bytes] | None]
"""Name, whether it is a folder, and the stream of a file."""


def _write(
    entries: Iterator[Entry], folder: Path, allowance: _Allowance, only: str | None
) -> set[str]:
    """Write the entries below `folder`; the names of the files among them."""
    source = allowance.archive
    files: set[str] = set()
    for raw_name, is_folder, stream in entries:
        allowance.spend(ENTRY_BYTES)
        name = _safe_name(source, raw_name)
        if is_folder:
            if only is None:
                (folder / name).mkdir(parents=True, exist_ok=True)
            continue
        if name == "." or name in files:
            raise FedatlasError(f"{source}: entry '{raw_name}' occurs twice; refused")
        files.add(name)
        if stream is None or (only is not None and name != only):
            continue
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        # Exclusive: on a file system that ignores case, A and a are the same file.
        with target.open("xb") as output:
            allowance.copy(stream, output)
    return files


def _safe_name(source: Path, raw_name: str) -> str:
    """The entry's name without `./`; FedatlasError when it could leave the folder.

    tarfile's filter "data" would rename absolute paths and allow links inside the folder, and
    zipfile renames silently; here an archive with such an entry is refused.
    """
    path = PurePosixPath(raw_name)
    if not raw_name.isprintable():
        # Also bytes that are no UTF-8, which tarfile keeps as lone surrogates.
        raise FedatlasError(f"{source}: entry {raw_name!r} has a control character; refused")
    longest = max((len(part.encode()) for part in path.parts), default=0)
    too_long = longest > NAME_BYTES or len(raw_name.encode()) > PATH_BYTES
    if too_long or len(path.parts) > FOLDERS_DEEP:
        raise FedatlasError(
            f"{source}: entry '{raw_name[:80]}…' has too long a name (over {NAME_BYTES} bytes, "
            f"with its folders over {PATH_BYTES}) or lies over {FOLDERS_DEEP} folders deep; refused"
        )
    # A colon would name a drive or a stream, a backslash a folder, on Windows.
    unsafe = path.is_absolute() or ".." in path.parts or any(c in raw_name for c in "\\:\0")
    if unsafe or not raw_name:
        raise FedatlasError(f"{source}: entry '{raw_name}' would leave the folder; refused")
    return str(path)


class _TarStream:
    """What tarfile reads from: entries' contents as they are asked for, headers within a bound."""

    def __init__(self, stream: IO[bytes], allowance: _Allowance) -> None:
        self._stream = stream
        self._allowance = allowance
        self.expect(0)

    def expect(self, content: int) -> None:
        """The next header comes after so many bytes of content."""
        padded = -(-content // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        # tarfile reads ahead by a record.
        self._left = padded + HEADER_BYTES + tarfile.RECORDSIZE

    def read(self, size: int) -> bytes:
        content = self._stream.read(size)
        self._left -= len(content)
        if self._left < 0:
            raise FedatlasError(
                f"{self._allowance.archive}: says more than {HEADER_BYTES} bytes of one entry "
                "before its content; refused"
            )
        return content


def _tar_entries(allowance: _Allowance) -> Iterator[Entry]:
    source = allowance.archive
    with _decompressed(source) as stream:
        bounded = _TarStream(stream, allowance)
        # Read as a stream: nothing is read twice and no entry can point at another.
        with tarfile.open(fileobj=bounded, mode="r|") as archive:  # type: ignore[call-overload]
            for member in archive:
                if member.issparse() or not (member.isreg() or member.isdir()):
                    raise FedatlasError(
                        f"{source}: entry '{member.name}' is a link or a device; refused"
                    )
                if member.size < 0:
                    raise FedatlasError(f"{source}: entry '{member.name}' has a negative size")
                # Before anything of it is read, or skipped.
                allowance.check(member.size)
                bounded.expect(member.size)
                yield member.name, member.isdir(), archive.extractfile(member)
        # The sum of a compressed stream stands at its end, after the tar's own end.
        while rest := stream.read(CHUNK):
            allowance.spend(len(rest))


def _decompressed(source: Path) -> IO[bytes]:
    """Not tarfile's own decompression: as a stream that skips the check of the sum."""
    with source.open("rb") as stream:
        start = stream.read(6)
    compression = next((name for name, magic in MAGIC.items() if start.startswith(magic)), None)
    return source.open("rb") if compression is None else OPENERS[compression](source, "rb")


def _zip_entries(allowance: _Allowance) -> Iterator[Entry]:
    source = allowance.archive
    with zipfile.ZipFile(source) as archive:
        for member in archive.infolist():
            mode = member.external_attr >> 16
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise FedatlasError(
                    f"{source}: entry '{member.filename}' is a link or a device; refused"
                )
            if member.compress_type not in ZIP_METHODS:
                raise FedatlasError(
                    f"{source}: entry '{member.filename}' is packed by method "
                    f"{member.compress_type}, neither stored nor deflated; refused"
                )
            if member.filename.endswith("/"):
                yield member.filename, True, None
                continue
            with archive.open(member) as stream:
                yield member.filename, False, stream


@contextmanager
def _damage_explained(source: Path) -> Iterator[None]:
    """Turn the many errors of damaged archives into one that names the file."""
    try:
        yield
    except (
        EOFError,
        zlib.error,
        gzip.BadGzipFile,
        lzma.LZMAError,
        tarfile.TarError,
        zipfile.BadZipFile,
        # zipfile: an unknown method; an encrypted entry; a bad name or date.
        NotImplementedError,
        RuntimeError,
        ValueError,
        # Numbers that are too large, fields that are cut short.
        OverflowError,
        LookupError,
        struct.error,
        # Two entries that cannot exist together, such as `a` and `a/b`.
        FileExistsError,
        NotADirectoryError,
        IsADirectoryError,
    ) as error:
        raise FedatlasError(f"{source}: cannot be unpacked, it is damaged: {error}") from error
    except OSError as error:
        # bz2 reports damage as an OSError without a number; a full disk has one. So has a seek to
        # where an archive says that something lies.
        if error.errno not in (None, errno.EINVAL):
            raise
        raise FedatlasError(f"{source}: cannot be unpacked, it is damaged: {error}") from error
