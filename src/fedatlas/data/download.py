"""Raw files onto the disk: from a mirror folder or the internet, verified, whole or not at all."""

import logging
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

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
from fedatlas.data.unpack import CHUNK, decompress_file, unpack_archive
from fedatlas.errors import FedatlasError
from fedatlas.files import file_digest, leftovers, temporary_prefix, write_atomically, write_text

GIB = 1 << 30
# How pages and messages begin, after a byte order mark and blanks. No format is XML or JSON.
PAGE = re.compile(
    rb'(\xef\xbb\xbf)?\s*(<(!--|!doctype\b|\?xml\b|(html|head|body|script)[\s>])|\{\s*")', re.I
)
LFS_POINTER = b"version https://git-lfs.github.com/spec/"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Fetching:
    """Options of fetching files; FedatlasError if the mirror is no folder.

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

    def __post_init__(self) -> None:
        if self.mirror is not None and not self.mirror.is_dir():
            raise FedatlasError(
                f"the mirror {self.mirror} is not a folder; correct --mirror DIR of fedatlas run, "
                "--config mirror=DIR of snakemake, or FEDATLAS_MIRROR"
            )


def download(raw_file: RawFile, destination: Path, how: Fetching) -> None:
    """Put a raw file, decompressed or unpacked as its entry says, at `destination`.

    The mirror comes first, then every url in order. `destination` becomes a folder exactly if
    it is to be unpacked, and replaces what was there. Beside it its origin is kept, unless the
    catalogue declares a checksum.
    Raises FedatlasError, and leaves `destination` as it was, when no source has the file, its
    checksum differs or it cannot be unpacked safely.
    """
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        # Beside the destination: a rename is only atomic within one file system.
        with tempfile.TemporaryDirectory(
            dir=destination.parent, prefix=temporary_prefix(destination.name)
        ) as made:
            for scratch in leftovers(destination, folders=True):
                shutil.rmtree(scratch, ignore_errors=True)
            _fill(raw_file, destination, Path(made), how)
    except OSError as error:
        raise FedatlasError(
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
            logger.warning(
                "%s: has changed, from %s to %s; taken, as it is your own file",
                *(source, before, origin.checksum),
            )
    # Never beside a copy of something else.
    origin_file(destination).unlink(missing_ok=True)
    if raw_file.unpack is not None:
        if destination.exists():
            destination.rename(scratch / "replaced")
        ready.rename(destination)
    else:
        with write_atomically(destination) as temporary:
            ready.replace(temporary)
    if origin is not None:
        write_text(origin_file(destination), origin.model_dump_json(indent=2) + "\n")


def _fetch(raw_file: RawFile, fetched: Path, scratch: Path, how: Fetching) -> str:
    """Write the verified bytes as served to `fetched`; say where they came from."""
    copy = place_in(how.mirror, raw_file)
    if copy is not None:
        logger.info("%s: copying from the mirror %s", raw_file.path, how.mirror)
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
                received = None if origin is None else origin.checksum
                verify(archive, kept, str(kept), how.lock, received)
            except (FileNotFoundError, ChecksumMismatch):
                # As served: the bytes stay packed, for the members that are asked for later.
                download(archive.model_copy(update={"unpack": None}), kept, how)
    unpacked = scratch / "archive"
    limit = int(archive.unpacked_limit_gib * GIB)
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
            logger.warning("%s", failure)
            failures.append(failure)
    raise FedatlasError(_remedy(raw_file, failures, how))


def _fetch_with_retries(raw_file: RawFile, url: str, output: Path, how: Fetching) -> None:
    # Imported here: requests takes a third of a second, and a mirror needs none.
    import requests

    for attempt in range(how.tries):
        logger.info("downloading %s (try %d of %d)", url, attempt + 1, how.tries)
        try:
            _receive(raw_file, url, output, how)
            return
        except requests.RequestException as error:
            status = error.response.status_code if error.response is not None else 503
            # A missing or forbidden file will not appear within seconds; a busy server may answer.
            if attempt + 1 == how.tries or (status < 500 and status not in (408, 429)):
                raise FedatlasError(f"{url}: {error}") from error
            logger.warning("%s: %s", url, error)
            time.sleep(how.pause * 2**attempt)


def _receive(raw_file: RawFile, url: str, output: Path, how: Fetching) -> None:
    """Write what a url serves to `output`; FedatlasError if it cannot be the file."""
    import requests
    from tqdm import tqdm

    as_it_is = {"Accept-Encoding": "identity"}
    with (
        requests.get(url, stream=True, timeout=how.timeout, headers=as_it_is) as answer,
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
    """Text: what went wrong with each url and what the user can do about it."""
    lines = [f"cannot get {raw_file.path}:"]
    lines += [f"- {failure}" for failure in failures]
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
