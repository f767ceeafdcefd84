"""Unpacking that trusts nothing in the archive: names, kinds of entries or sizes."""

import bz2
import gzip
import lzma
import shutil
import stat
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

OPENERS: dict[str, Callable[..., Any]] = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}
MAGIC = {"gz": b"\x1f\x8b", "bz2": b"BZh", "xz": b"\xfd7zXZ\x00"}


class _Allowance:
    """What may still be written for one archive, in bytes."""

    def __init__(self, archive: Path, limit: int) -> None:
        self.archive = archive
        self.limit = limit
        self.left = limit

    def spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
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
    """Spread an archive into `folder`, whole or not at all.

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
    """The entry's name without `./`; FedatlasError when it could leave the folder."""
    path = PurePosixPath(raw_name)
    # A colon would name a drive or a stream, a backslash a folder, on Windows.
    unsafe = path.is_absolute() or ".." in path.parts or any(c in raw_name for c in "\\:\0")
    if unsafe or not raw_name:
        raise FedatlasError(f"{source}: entry '{raw_name}' would leave the folder; refused")
    return str(path)


def _tar_entries(allowance: _Allowance) -> Iterator[Entry]:
    source = allowance.archive
    with _decompressed(source) as stream:
        # Read as a stream: nothing is read twice and no entry can point at another.
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                if not (member.isreg() or member.isdir()):
                    raise FedatlasError(
                        f"{source}: entry '{member.name}' is a link or a device; refused"
                    )
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
            if member.is_dir():
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
        # Two entries that cannot exist together, such as `a` and `a/b`.
        FileExistsError,
        NotADirectoryError,
        IsADirectoryError,
    ) as error:
        raise FedatlasError(f"{source}: cannot be unpacked, it is damaged: {error}") from error
    except OSError as error:
        # bz2 reports damage as an OSError without a number; a full disk has one.
        if error.errno is not None:
            raise
        raise FedatlasError(f"{source}: cannot be unpacked, it is damaged: {error}") from error
