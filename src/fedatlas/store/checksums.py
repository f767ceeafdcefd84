"""Checksums of published files, as `sha256sum --check` reads them."""

import re
from collections.abc import Iterable
from pathlib import Path

from fedatlas.errors import FedatlasError
from fedatlas.files import file_digest, write_text

NAME = "SHA256SUMS"
# A space and a star before the name mark a file that was read as bytes.
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")


def write_sums(folder: Path) -> None:
    """List all files below the folder."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != NAME)
    lines = [_line(file_digest(file), file.relative_to(folder).as_posix()) for file in files]
    write_text(folder / NAME, "".join(lines))


def size_of_sums(names: Iterable[str]) -> int:
    """How many bytes a list of these files has."""
    return sum(len(_line("0" * 64, name).encode()) for name in names)


def _line(digest: str, name: str) -> str:
    return f"{digest}  {name}\n"


def check_sums(folder: Path, files: Iterable[Path], suffix: str = "") -> None:
    """FedatlasError names a file that is not as the folder's list says, or a line that is damaged.

    files: must be listed. suffix: of files that must be there if they are listed; none by default.
    Without a list all pass.
    """
    listed = folder / NAME
    if not listed.is_file():
        return
    sums = _read(listed)
    for name, (line, _) in sums.items():
        if suffix and name.endswith(suffix) and not (folder / name).is_file():
            raise FedatlasError(
                f"{listed}, line {line}: lists {name}, which is not there; fetch the folder again"
            )
    for file in files:
        name = file.relative_to(folder).as_posix()
        if name not in sums:
            raise FedatlasError(
                f"{listed}: has no line for {name}: the list is damaged, or the file does not "
                "belong to it; fetch both again, or keep files of your own elsewhere"
            )
        line, declared = sums[name]
        if declared != file_digest(file):
            raise FedatlasError(
                f"{file}: its SHA-256 is {file_digest(file)}, but {listed}, line {line}, says "
                f"{declared}: it is damaged or was changed; fetch both again"
            )


def not_vouched_for(folder: Path) -> list[str]:
    """Names of what lies in the folder besides its list and the files that are as it says.

    Links and empty folders are in no list. FedatlasError for a damaged list.
    """
    listed = folder / NAME
    sums = {name: digest for name, (_, digest) in _read(listed).items()} if listed.exists() else {}

    def is_vouched_for(path: Path) -> bool:
        if path.is_symlink():
            return False
        if path.is_dir():
            return any(path.iterdir())
        name = path.relative_to(folder).as_posix()
        return name == NAME or (name in sums and sums[name] == file_digest(path))

    found = (path for path in sorted(folder.rglob("*")) if not is_vouched_for(path))
    return [path.relative_to(folder).as_posix() for path in found]


def _read(listed: Path) -> dict[str, tuple[int, str]]:
    """By file: the line in which it stands, and its checksum."""
    sums = {}
    text = listed.read_bytes().decode("utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        found = _LINE.fullmatch(line)
        if found is None:
            raise FedatlasError(
                f"{listed}, line {number}: is no checksum and name of a file: '{line[:80]}'; fetch "
                "it again"
            )
        sums[found[2]] = number, found[1]
    return sums
