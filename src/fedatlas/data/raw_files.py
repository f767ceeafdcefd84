"""Raw files of the catalogue: addresses, packing, checksums, and sources of local copies.

Known checksums are verified; unknown ones are recorded once the file was read, and verified ever
after.
"""

import fcntl
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Self, cast

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.files import file_digest, write_text
from fedatlas.schema.models import Model, read_json, validated

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Url = Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$")]


def _without_braces(path: str) -> str:
    if "{" in path or "}" in path:
        raise ValueError("must hold no braces, which mean something to Snakemake: rename the file")
    return path


def _plain_relative(path: str) -> str:
    parts = PurePosixPath(path).parts
    if path != "/".join(parts) or path.startswith("/") or ".." in parts or "\\" in path:
        raise ValueError("must be a plain relative path with '/' between folders")
    return path


RelativePath = Annotated[Text, AfterValidator(_plain_relative)]
Checksum = Annotated[str, StringConstraints(pattern=r"^(md5:[0-9a-f]{32}|sha256:[0-9a-f]{64})$")]


class RawFile(Model):
    """One file as its publisher serves it, and how it is unpacked once it is verified.

    path: its place inside a mirror folder, with `/` as separator.
    urls: addresses in order of preference; a file without any comes from a mirror.
    checksum: of the bytes served, before any unpacking; None is recorded when the file was first
        read, and a later one must be the same. For a user's own file the record follows what
        the mirror holds.
    decompress: remove this compression from a single file.
    unpack: unpack the whole archive; the download then leaves a folder.
    archive, member: this file is served only as `member` of `archive`.
    login: the exact steps for a file that needs an account.
    self_made: the user packs the file, as the last of those steps. No two copies are alike, so no
        checksum is kept.
    unpacked_limit_gib: refuse to download, or to unpack, more than this many GiB.
    """

    path: Annotated[RelativePath, AfterValidator(_without_braces)]
    urls: tuple[Url, ...] = ()
    checksum: Checksum | None = None
    decompress: Literal["gz", "bz2", "xz"] | None = None
    unpack: Literal["tar", "zip"] | None = None
    archive: "RawFile | None" = None
    member: Text | None = None
    login: Text | None = None
    self_made: bool = False
    unpacked_limit_gib: float = Field(default=8.0, gt=0)

    @model_validator(mode="after")
    def _can_be_had(self) -> Self:
        if (self.archive is None) != (self.member is None):
            raise ValueError("'archive' and 'member' belong together")
        if self.self_made and (self.urls or self.checksum or self.login is None):
            raise ValueError("'self_made' goes with 'login', and without 'urls' and 'checksum'")
        if sum(x is not None for x in (self.decompress, self.unpack, self.archive)) > 1:
            raise ValueError("give one of 'decompress', 'unpack' and 'archive', not several")
        if self.decompress is not None and not self.path.endswith(f".{self.decompress}"):
            raise ValueError(f"'path' must end in .{self.decompress} to be decompressed")
        if self.archive is not None:
            if self.urls:
                raise ValueError("the urls of a member belong to its archive")
            if self.archive.unpack is None:
                raise ValueError("the archive must say 'unpack: tar' or 'unpack: zip'")
        return self

    @property
    def is_own(self) -> bool:
        """Whether it is its user's own: a mirror alone has it, and its entry states no sum."""
        return not any((self.urls, self.checksum, self.login, self.archive))

    @property
    def local_path(self) -> str:
        """The result's place below a folder of raw data: `path` without suffixes of packing."""
        if self.decompress is not None:
            return self.path.removesuffix(f".{self.decompress}")
        if self.unpack is not None:
            path = self.path
            for suffix in (".gz", ".bz2", ".xz", ".tgz", f".{self.unpack}"):
                path = path.removesuffix(suffix)
            # An archive without such a suffix must not collide with its own folder.
            return path if path != self.path else f"{path}.d"
        return self.path


#: Where a run records sums of files without a known one.
LOCK = Path("config/checksums.lock.json")


class ChecksumMismatch(FedatlasError):
    """The bytes are not those that were expected."""


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock named after `path`, so that one process at a time works on it.

    The system frees the lock when its holder dies; the empty file beside `path` stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / f".{path.name}.lock").open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def verify(
    raw_file: RawFile, fetched: Path, source: str, lock: Path, received: Checksum | None = None
) -> None:
    """Compare a file's bytes, as served, with the catalogue's checksum or the recorded one.

    source: url or path that it came from, for the message. received: its checksum when it was
    fetched, which stands in for a recorded one; of a user's own file, whose record may be of an
    older one, it comes first.
    Raises ChecksumMismatch with both sums; an unknown file passes.
    """
    if raw_file.self_made:
        return
    expected, problem, remedy = raw_file.checksum, f"wrong checksum for {raw_file.path}", ""
    if expected is None:
        recorded = recorded_sums(lock).get(raw_file.path)
        expected = (received or recorded) if raw_file.is_own else (recorded or received)
        problem = f"{raw_file.path} differs from the file that was downloaded first"
        remedy = (
            f'\nIf the publisher changed it and you accept that, delete "{raw_file.path}" from '
            f"{lock} and run again."
        )
    if expected is None:
        return
    algorithm = expected.partition(":")[0]
    found = f"{algorithm}:{file_digest(fetched, algorithm)}"
    if found != expected:
        raise ChecksumMismatch(
            f"{source}: {problem}\n  expected {expected}\n  found    {found}{remedy}"
        )


def recorded_sums(lock: Path) -> dict[str, str]:
    """The recorded sums by path of the raw file; empty before the first one."""
    if not lock.exists():
        return {}
    return validated(cast(Any, dict[str, Checksum]), read_json(lock), str(lock))


def record(raw_file: RawFile, checksum: Checksum, lock: Path) -> None:
    """Write down the sum of a file whose catalogue entry has none, unless there is one.

    The sum of a user's own file is written anew: who else could say which is right?
    """
    if raw_file.checksum is not None or raw_file.self_made:
        return
    with exclusive(lock):
        sums = recorded_sums(lock)
        if raw_file.path not in sums or (raw_file.is_own and sums[raw_file.path] != checksum):
            sums[raw_file.path] = checksum
            write_text(lock, json.dumps(sums, indent=2, sort_keys=True) + "\n")


def record_read(files: Iterable[tuple[RawFile, Path]], lock: Path) -> None:
    """Record the checksums of raw files without a known one, as their copies could be read."""
    for raw_file, copy in files:
        if (origin := read_origin(copy)) is not None:
            record(raw_file, origin.checksum, lock)


State = tuple[str, int, int, int, int, int]
"""A fingerprint that changes when a file is edited, replaced, or a link to it is switched.

Its path with links resolved, device, inode, size, and times of its content and its inode in ns. A
time may go back as well as forth: clocks differ, and an older file may replace a newer one.
"""


def state_of(file: Path) -> State:
    """The state of a file now."""
    now = file.stat()
    times = (now.st_mtime_ns, now.st_ctime_ns)
    return (str(file.resolve()), now.st_dev, now.st_ino, now.st_size, *times)


class Origin(Model):
    """The origin of a copy, kept beside each copy whose checksum the catalogue does not declare.

    It tells whether a user's own file in a mirror is still the one that was copied, and holds the
    checksum to record once the copy was read.

    checksum: of the raw file, before any unpacking. state: of the mirror's file when it was read;
    None of a download.
    """

    checksum: Checksum
    state: State | None = None


def origin_file(copy: Path) -> Path:
    """The file that keeps the origin of a copy."""
    return copy.with_name(f".{copy.name}.origin.json")


def read_origin(copy: Path) -> Origin | None:
    """The origin of a copy; None if none was kept, or it cannot be read."""
    file = origin_file(copy)
    with suppress(FedatlasError):
        return validated(Origin, read_json(file), str(file))
    return None


def place_in(mirror: Path | None, raw_file: RawFile) -> Path | None:
    """The mirror's copy of a file, if it has one."""
    place = None if mirror is None else mirror / raw_file.path
    return place if place is not None and place.is_file() else None


def content_of(raw_file: RawFile, mirror: Path | None, copy: Path, lock: Path = LOCK) -> str | None:
    """The checksum of a user's own file in the mirror; None if nothing is known of it.

    copy: what was made of it. Without a mirror that has the file, it is what `copy` was made of.
    """
    known, place = read_origin(copy), place_in(mirror, raw_file)
    if place is not None:
        return content_at(place, known)
    return known.checksum if known else recorded_sums(lock).get(raw_file.path)


def content_at(place: Path, known: Origin | None) -> Checksum:
    """The checksum of a file, which is read only if it differs in any way from what was copied."""
    state = state_of(place)
    return known.checksum if known and known.state == state else _sum(state)


@cache
def _sum(state: State) -> Checksum:
    """The checksum of a file, which one command asks for several times."""
    return f"sha256:{file_digest(Path(state[0]))}"
