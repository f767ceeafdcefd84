"""Raw files onto the disk: from a mirror folder or the internet, verified, whole or not at all."""

import logging
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedatlas.data.checksums import ChecksumMismatch, exclusive, record, verify
from fedatlas.data.raw_files import RawFile
from fedatlas.data.unpack import decompress_file, unpack_archive
from fedatlas.errors import FedatlasError
from fedatlas.files import leftovers, temporary_prefix, write_atomically

GIB = 1 << 30
CHUNK = 1 << 16  # bytes per write and per step of the progress bar

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Fetching:
    """How files are fetched; FedatlasError if the mirror is no folder.

    mirror: a folder laid out by the `path` of raw files; what it holds is never downloaded.
    lock: JSON file with the sums of files whose catalogue entry has none.
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

    def in_mirror(self, raw_file: RawFile) -> Path | None:
        """The mirror's copy of a file, if it has one."""
        copy = None if self.mirror is None else self.mirror / raw_file.path
        return copy if copy is not None and copy.is_file() else None


def download(raw_file: RawFile, destination: Path, how: Fetching) -> None:
    """Put a raw file, decompressed or unpacked as its entry says, at `destination`.

    The mirror comes first, then every url in order. `destination` becomes a folder exactly if
    it is to be unpacked, and replaces what was there.
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
    fetched, unpacked = scratch / "fetched", scratch / "unpacked"
    source = _fetch(raw_file, fetched, scratch, how)
    limit = int(raw_file.unpacked_limit_gib * GIB)
    try:
        if raw_file.unpack is not None:
            unpack_archive(fetched, raw_file.unpack, unpacked, limit)
        elif raw_file.decompress is not None:
            decompress_file(fetched, raw_file.decompress, unpacked, limit)
    except FedatlasError as error:  # of a copy with a name that says nothing
        raise FedatlasError(str(error).replace(str(fetched), source)) from error
    # Only a file that could be unpacked is worth remembering.
    record(raw_file, fetched, source, how.lock)
    if raw_file.unpack is not None:
        if destination.exists():
            destination.rename(scratch / "replaced")
        unpacked.rename(destination)
        return
    with write_atomically(destination) as temporary:
        (fetched if raw_file.decompress is None else unpacked).replace(temporary)


def _fetch(raw_file: RawFile, fetched: Path, scratch: Path, how: Fetching) -> str:
    """Write the verified bytes as served to `fetched`; say where they came from."""
    copy = how.in_mirror(raw_file)
    if copy is None and raw_file.archive is None:
        return _fetch_from_urls(raw_file, fetched, how)
    if copy is not None:
        logger.info("%s: copying from the mirror %s", raw_file.path, how.mirror)
        shutil.copyfile(copy, fetched)
        source = str(copy)
    else:
        source = _take_member(raw_file, fetched, scratch, how)
    if not raw_file.is_own:  # of which `record` takes what the mirror holds
        verify(raw_file, fetched, source, how.lock)
    return source


def _take_member(raw_file: RawFile, output: Path, scratch: Path, how: Fetching) -> str:
    """Extract one member to `output`; the archive is fetched once for all of its members."""
    archive, member = raw_file.archive, raw_file.member
    assert archive is not None and archive.unpack is not None and member is not None
    kept = how.in_mirror(archive)
    if kept is not None:
        verify(archive, kept, str(kept), how.lock)
    else:
        kept = how.archives / archive.path
        with exclusive(kept):
            try:
                kept.stat()  # without a known checksum `verify` does not even look
                verify(archive, kept, str(kept), how.lock)
            except (FileNotFoundError, ChecksumMismatch):
                # As served: the bytes stay packed, for the members that are asked for later.
                download(archive.model_copy(update={"unpack": None}), kept, how)
    unpacked = scratch / "archive"
    limit = int(archive.unpacked_limit_gib * GIB)
    unpack_archive(kept, archive.unpack, unpacked, limit, only=member)
    (unpacked / member).rename(output)
    return f"{kept}, member {member}"


def _fetch_from_urls(raw_file: RawFile, fetched: Path, how: Fetching) -> str:
    failures: list[Exception] = []
    for url in raw_file.urls:
        try:
            _fetch_with_retries(url, fetched, how)
            _refuse_web_page(raw_file, url, fetched)
            verify(raw_file, fetched, url, how.lock)
            return url
        except (_NotFetched, ChecksumMismatch) as failure:
            fetched.unlink(missing_ok=True)
            logger.warning("%s", failure)
            failures.append(failure)
    raise FedatlasError(_remedy(raw_file, failures, how))


class _NotFetched(Exception):
    """A url gave no file, after every try."""


def _fetch_with_retries(url: str, output: Path, how: Fetching) -> None:
    # Imported here: pooch and requests take half a second, and a mirror needs neither.
    import pooch
    import requests
    from tqdm import tqdm

    # A log gets a line every ten seconds. pooch sets the total, but shows no bar without one.
    options = {"total": 1, "mininterval": 0.1 if sys.stderr.isatty() else 10, "unit": "B"}
    for attempt in range(1, how.tries + 1):
        logger.info("downloading %s (try %d of %d)", url, attempt, how.tries)
        try:
            with tqdm(unit_scale=True, file=sys.stderr, **options) as bar:
                fetch = pooch.HTTPDownloader(
                    progressbar=bar,
                    chunk_size=CHUNK,
                    timeout=how.timeout,
                    headers={"Accept-Encoding": "identity"},
                    hooks={"response": _keep_packed},
                )
                fetch(url, str(output), None)
        except requests.RequestException as error:
            status = error.response.status_code if error.response is not None else None
            # A missing or forbidden file will not appear within seconds; a busy server may answer.
            final = status is not None and 400 <= status < 500 and status not in (408, 429)
            if final or attempt == how.tries:
                raise _NotFetched(f"{url}: {_cause(error)}") from error
            pause = how.pause * 2 ** (attempt - 1)
            logger.warning("%s: %s; next try in %g s", url, _cause(error), pause)
            time.sleep(pause)
        else:
            logger.info("downloaded %s: %d bytes", url, output.stat().st_size)
            return


def _cause(error: Exception) -> str:
    """The innermost reason of a failed request, without the names of Python objects."""
    reason = getattr(error.args[0], "reason", None) if error.args else None
    return re.sub(r"^(<.*?>|\w+\(.*?\)): ", "", str(reason or error))


def _keep_packed(response: Any, **_: Any) -> None:
    """Some servers label a .gz file as a gzip encoding; requests would then unpack it."""
    response.raw.headers.pop("Content-Encoding", None)


def _refuse_web_page(raw_file: RawFile, url: str, fetched: Path) -> None:
    """A login page must not be recorded as the file when no checksum would notice it."""
    with fetched.open("rb") as stream:
        start = stream.read(64).lstrip().lower()
    if raw_file.checksum is None and start.startswith((b"<!doctype html", b"<html")):
        raise _NotFetched(f"{url}: answered with a web page instead of {raw_file.path}")


def _remedy(raw_file: RawFile, failures: Sequence[Exception], how: Fetching) -> str:
    """What went wrong with each url and what the user can do about it."""
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
