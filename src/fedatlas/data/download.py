"""Get raw files from a mirror folder or the internet: verified, and whole or not at all.

Files and archives are unpacked within a bound and without links.
"""

import bz2
import errno
import gzip
import ipaddress
import logging
import lzma
import re
import shutil
import socket
import stat
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import urljoin, urlsplit

from fedatlas.data.raw_files import (
    ChecksumMismatch,
    Origin,
    RawFile,
    exclusive,
    origin_file,
    place_in,
    read_origin,
    recorded_sums,
    state_of,
    verify,
)
from fedatlas.errors import FedatlasError
from fedatlas.files import (
    explained_failure,
    file_digest,
    folder_beside,
    put_in_place,
    remove_folder,
    remove_leftovers,
    write_atomically,
    write_text,
)

CHUNK = 1 << 16
# An entry costs at least this many bytes, so an archive of countless empty files is bounded too.
ENTRY_BYTES = 512
READERS: dict[str, Callable[[Path], Any]] = {"gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}
# What the system says of a seek to nowhere, and of entries that cannot exist together, such as `a`
# and `a/b`. bz2 reports damage as an OSError without a number.
DAMAGE = (None, errno.EINVAL, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)
GIB = 1 << 30
# How pages and messages begin, after a byte order mark and blanks. No format is XML or JSON.
PAGE = re.compile(
    rb'(\xef\xbb\xbf)?\s*(<(!--|!doctype\b|\?xml\b|(html|head|body|script)[\s>])|\{\s*")', re.I
)
LFS_POINTER = b"version https://git-lfs.github.com/spec/"

Entry = tuple[str, IO[bytes] | None]
"""A name, and the stream of a file or None for a folder."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Fetching:
    """Options of fetching files.

    mirror: a folder laid out by the `path` of raw files; what it holds is never downloaded.
    lock: JSON file with the recorded sums of files whose catalogue entry has none; read only.
    archives: folder that keeps archives of which only members are wanted.
    tries: per url. pause: seconds before the second try, doubled for each further one.
    timeout: seconds without an answer or a byte after which a try fails.
    """

    mirror: Path | None
    lock: Path
    archives: Path
    tries: int = 3
    pause: float = 2.0
    timeout: float = 30.0


def download(raw_file: RawFile, destination: Path, how: Fetching) -> None:
    """Put a raw file, decompressed or unpacked as its entry says, at `destination`.

    The mirror comes first, then every url in order. `destination` becomes a folder exactly if
    it is to be unpacked, and replaces what was there. Beside it its origin is kept, unless the
    catalogue declares a checksum.
    Raises FedatlasError, and leaves `destination` as it was, when no source has the file, its
    checksum differs or it cannot be unpacked safely.
    """
    try:
        with folder_beside(destination) as scratch:
            _fill(raw_file, destination, scratch, how)
    except OSError as error:
        places = destination, how.archives / raw_file.path
        explained = next(filter(None, (explained_failure(error, place) for place in places)), None)
        raise explained or FedatlasError(
            f"cannot put {raw_file.path} at {destination}: {error.strerror or error}"
        ) from error


def _fill(raw_file: RawFile, destination: Path, scratch: Path, how: Fetching) -> None:
    fetched, ready = scratch / "fetched", scratch / "unpacked"
    place = place_in(how.mirror, raw_file)
    state = None if place is None else state_of(place)
    source = _fetch(raw_file, fetched, scratch, how)
    limit = int(raw_file.unpacked_limit_gib * GIB)
    try:
        if raw_file.unpack is not None:
            unpack_archive(fetched, raw_file.unpack, ready, limit)
        elif raw_file.decompress is not None:
            decompress_file(fetched, raw_file.decompress, ready, limit)
        else:
            ready = fetched
    except FedatlasError as error:  # of a copy with a name that says nothing
        raise FedatlasError(str(error).replace(str(fetched), source)) from error
    origin = None
    if raw_file.checksum is None and not raw_file.self_made:
        origin = Origin(checksum=f"sha256:{file_digest(scratch / 'fetched')}", state=state)
        if place is not None and state_of(place) != state:
            raise FedatlasError(f"{place}: changed while it was copied; run again once it is whole")
        known = read_origin(destination)
        before = known.checksum if known else recorded_sums(how.lock).get(raw_file.path)
        if raw_file.is_own and before not in (None, origin.checksum):
            log.warning(
                "%s: has changed, from %s to %s; taken, as it is your own file",
                *(source, before, origin.checksum),
            )
    # Never beside a copy of something else.
    origin_file(destination).unlink(missing_ok=True)
    if raw_file.unpack is not None:
        put_in_place(ready, destination)
    else:
        with write_atomically(destination) as temporary:
            ready.replace(temporary)
    if origin is not None:
        write_text(origin_file(destination), origin.model_dump_json(indent=2) + "\n")


def _fetch(raw_file: RawFile, fetched: Path, scratch: Path, how: Fetching) -> str:
    """Write the verified bytes as served to `fetched`; say where they came from."""
    copy = place_in(how.mirror, raw_file)
    if copy is not None:
        log.info("%s: copying from the mirror %s", raw_file.path, how.mirror)
        shutil.copyfile(copy, fetched)
        source = str(copy)
        _check_evident(raw_file, fetched, source)
    elif raw_file.archive is None:
        return _fetch_from_urls(raw_file, fetched, how)
    else:
        source = _take_member(raw_file, fetched, scratch, how)
    if not raw_file.is_own:  # which may change
        verify(raw_file, fetched, source, how.lock)
    return source


def _take_member(raw_file: RawFile, output: Path, scratch: Path, how: Fetching) -> str:
    """Extract one member to `output`; the archive is fetched once for all of its members."""
    archive, member = raw_file.archive, raw_file.member
    assert archive is not None and archive.unpack is not None and member is not None
    kept = place_in(how.mirror, archive)
    if kept is not None:
        verify(archive, kept, str(kept), how.lock)
    else:
        kept = how.archives / archive.path
        with exclusive(kept):
            try:
                kept.stat()  # without a known checksum `verify` does not even look
                origin = read_origin(kept)
                if origin is None and archive.checksum is None:  # killed before it was written
                    raise FileNotFoundError
                received = None if origin is None else origin.checksum
                verify(archive, kept, str(kept), how.lock, received)
                remove_leftovers(kept, folders=True)
            except (FileNotFoundError, ChecksumMismatch):
                # As served: the bytes stay packed, for the members that are asked for later.
                download(archive.model_copy(update={"unpack": None}), kept, how)
    unpacked, limit = scratch / "archive", int(archive.unpacked_limit_gib * GIB)
    unpack_archive(kept, archive.unpack, unpacked, limit, only=member)
    (unpacked / member).rename(output)
    return f"{kept}, member {member}"


def _fetch_from_urls(raw_file: RawFile, fetched: Path, how: Fetching) -> str:
    failures: list[FedatlasError] = []
    for url in raw_file.urls:
        try:
            _fetch_with_retries(raw_file, url, fetched, how)
            _check_evident(raw_file, fetched, url)
            verify(raw_file, fetched, url, how.lock)
            return url
        except FedatlasError as failure:
            fetched.unlink(missing_ok=True)
            log.warning("%s", failure)
            failures.append(failure)
    raise FedatlasError(_remedy(raw_file, failures, how))


def _fetch_with_retries(raw_file: RawFile, url: str, output: Path, how: Fetching) -> None:
    # Imported here: requests takes a third of a second, and a mirror needs none.
    import requests

    for attempt in range(how.tries):
        log.info("downloading %s (try %d of %d)", url, attempt + 1, how.tries)
        try:
            _receive(raw_file, url, output, how)
            return
        except requests.RequestException as error:
            status = error.response.status_code if error.response is not None else 503
            # A missing or forbidden file will not appear within seconds; a busy server may answer.
            if attempt + 1 == how.tries or (status < 500 and status not in (408, 429)):
                raise FedatlasError(f"{url}: {error}") from error
            log.warning("%s: %s", url, error)
            time.sleep(how.pause * 2**attempt)


def _receive(raw_file: RawFile, url: str, output: Path, how: Fetching) -> None:
    """Write what a url serves to `output`; FedatlasError if it cannot be the file."""
    import requests
    from tqdm import tqdm

    class Guarded(requests.Session):
        def get_redirect_target(self, resp: Any) -> str | None:
            """Refuse to be led from the internet into a local network."""
            target = super().get_redirect_target(resp)
            place = urljoin(resp.url, target or "")
            if target and _is_private(place) and not _is_private(url):
                raise FedatlasError(
                    f"{url}: leads to {place}, which is no address of the internet; refused. Name "
                    "another address, or put the file into a mirror"
                )
            return target

    as_it_is = {"Accept-Encoding": "identity"}
    with (
        Guarded() as session,
        session.get(url, stream=True, timeout=how.timeout, headers=as_it_is) as answer,
        output.open("wb") as target,
    ):
        answer.raise_for_status()
        if answer.status_code != requests.codes.ok:
            status = f"{answer.status_code} {answer.reason}"
            raise FedatlasError(f"{url}: answered with status {status}, not with a whole file")
        # Some servers label a .gz file as a gzip encoding; requests would then unpack it.
        answer.raw.headers.pop("Content-Encoding", None)
        promised = answer.raw.length_remaining
        # A log gets a line every ten seconds.
        pace = 0.1 if sys.stderr.isatty() else 10
        with tqdm(total=promised, mininterval=pace, unit="B", unit_scale=True) as bar:
            for piece in answer.iter_content(CHUNK):
                size = max(promised or 0, target.tell() + len(piece))
                if size > raw_file.unpacked_limit_gib * GIB:
                    raise FedatlasError(
                        f"{url}: is larger than {raw_file.unpacked_limit_gib:g} GiB; if that is "
                        "right, raise 'unpacked_limit_gib' of this file in the catalogue"
                    )
                bar.update(target.write(piece))


def _is_private(url: str) -> bool:
    """Whether an address leads to this machine or its network, where others cannot reach."""
    host = urlsplit(url).hostname or ""
    try:
        found = {each[4][0] for each in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):  # of no address, or known to a proxy alone
        return False
    return not all(ipaddress.ip_address(str(one).partition("%")[0]).is_global for one in found)


def _check_evident(raw_file: RawFile, fetched: Path, source: str) -> None:
    """Refuse bytes that are evidently not the file, where no checksum is needed to tell."""
    with fetched.open("rb") as stream:
        start = stream.read(CHUNK)
    problem = None
    if not start:
        problem = "is empty"
    elif PAGE.match(start):
        problem = f"is a web page or a message instead of {raw_file.path}: {start[:100]!r}"
    elif start.startswith(LFS_POINTER):
        problem = f"is Git LFS's pointer to {raw_file.path}: get the file itself with git lfs pull"
    if problem:
        raise FedatlasError(f"{source}: {problem}")


def _remedy(raw_file: RawFile, failures: Iterable[FedatlasError], how: Fetching) -> str:
    lines = [f"cannot get {raw_file.path}:", *(f"- {failure}" for failure in failures)]
    if how.mirror is not None:
        lines.append(f"- the mirror {how.mirror} does not hold {raw_file.path}")
    if not raw_file.urls and raw_file.login is None:
        lines.append("- the catalogue gives no address for it")
    if raw_file.login is not None:
        lines.append(f"It needs an account. {raw_file.login}")
    lines.append(
        f"A mirror is any folder that holds the file as {raw_file.path}: name it with "
        "--mirror DIR (fedatlas run), --config mirror=DIR (snakemake) or the environment variable "
        "FEDATLAS_MIRROR."
    )
    return "\n".join(lines)


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
        remove_folder(folder)
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
