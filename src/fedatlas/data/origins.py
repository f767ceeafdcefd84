"""What raw files were made of: kept beside each copy whose checksum the catalogue does not state.

It tells whether a user's own file in a mirror is still the one that was copied, and holds the
checksum to record once the copy was read.
"""

from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from fedatlas.data.checksums import LOCK, record, recorded_sums
from fedatlas.data.raw_files import Checksum, RawFile
from fedatlas.errors import FedatlasError
from fedatlas.files import file_digest, write_text
from fedatlas.schema.models import Model, read_json, validated


class State(Model):
    """What changes when a file is edited, replaced, or a link on the way to it is switched.

    A time may go back as well as forth: clocks differ, and an older file may replace a newer one.
    """

    path: str
    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, file: Path) -> "State":
        """The state of a file now, links resolved."""
        now = file.stat()
        return cls(
            path=str(file.resolve()),
            device=now.st_dev,
            inode=now.st_ino,
            size=now.st_size,
            mtime_ns=now.st_mtime_ns,
            ctime_ns=now.st_ctime_ns,
        )


class Origin(Model):
    """What a copy was made of.

    checksum: of the raw file, before any unpacking. content: of the mirror's file that was read,
    which is an archive if the raw file is a member of one. place: that file; None of a download.
    state: of that file when it was read.
    """

    checksum: Checksum
    content: Checksum
    place: str | None = None
    state: State | None = None


def origin_file(copy: Path) -> Path:
    """Where the origin of a copy is kept."""
    return copy.with_name(f".{copy.name}.origin.json")


def read_origin(copy: Path) -> Origin | None:
    """The origin of a copy; None if none was kept, or it cannot be read."""
    file = origin_file(copy)
    with suppress(FedatlasError):
        return validated(Origin, read_json(file), str(file))
    return None


def write_origin(copy: Path, origin: Origin) -> None:
    """Keep the origin of a copy, whole or not at all."""
    write_text(origin_file(copy), origin.model_dump_json(indent=2) + "\n")


def place_in(mirror: Path | None, raw_file: RawFile) -> Path | None:
    """The mirror's file that a raw file is made of, itself or its archive; None without any."""
    wanted = [file for file in (raw_file, raw_file.archive) if file is not None]
    places = [] if mirror is None else [mirror / file.path for file in wanted]
    return next((place for place in places if place.is_file()), None)


def content_of(raw_file: RawFile, mirror: Path | None, copy: Path, lock: Path = LOCK) -> str | None:
    """The checksum of what a user's own file is made of now; None if nothing is known of it.

    copy: what was made of it. Without a mirror that has the file, it is what `copy` was made of.
    The file is read only if it differs in any way from what was copied.
    """
    known, place = read_origin(copy), place_in(mirror, raw_file)
    if place is None:
        if known:
            return known.content
        sums = recorded_sums(lock)
        return sums.get((raw_file.archive or raw_file).path, sums.get(raw_file.path))
    content, state = _content(place, known)
    if known is not None and known.content == content and known.state != state:
        changed = {"place": str(place.absolute()), "state": state}
        with suppress(FedatlasError):  # saves the next command from reading the file again
            write_origin(copy, known.model_copy(update=changed))
    return content


def newer_content(
    raw_file: RawFile, mirror: Path | None, copy: Path
) -> tuple[Path, str, str] | None:
    """Where a user's own file has changed since it was copied, its old and its new checksum.

    Without a mirror it is looked for where it was. None if it is the same, or not there.
    """
    known = read_origin(copy)
    if known is None or known.place is None:
        return None
    place = Path(known.place) if mirror is None else place_in(mirror, raw_file)
    if place is None or not place.is_file():
        return None
    content, _ = _content(place, known)
    return None if content == known.content else (place, known.content, content)


def record_read(files: Iterable[tuple[RawFile, Path]], lock: Path) -> None:
    """Record the checksums of raw files without a known one, as their copies could be read."""
    for raw_file, copy in files:
        if (origin := read_origin(copy)) is not None:
            record(raw_file, origin.checksum, lock)
            if raw_file.is_own and raw_file.archive and origin.content != origin.checksum:
                record(raw_file.archive, origin.content, lock)


def _content(place: Path, known: Origin | None) -> tuple[Checksum, State]:
    state = State.of(place)
    same = known is not None and known.state == state
    return (known.content if known is not None and same else _sum(state)), state


@cache
def _sum(state: State) -> Checksum:
    """The checksum of a file, which one command asks for several times."""
    return f"sha256:{file_digest(Path(state.path))}"
