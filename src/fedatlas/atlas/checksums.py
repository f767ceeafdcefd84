"""Checksums of published files, as `sha256sum --check` reads them."""

from collections.abc import Iterable
from pathlib import Path

from fedatlas.errors import FedatlasError
from fedatlas.files import file_digest, write_text

NAME = "SHA256SUMS"


def write_sums(folder: Path) -> None:
    """List all files below the folder."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != NAME)
    lines = [f"{file_digest(file)}  {file.relative_to(folder).as_posix()}\n" for file in files]
    write_text(folder / NAME, "".join(lines))


def check_sums(folder: Path, files: Iterable[Path]) -> None:
    """FedatlasError names a file that is not as the folder's list says; without one all pass."""
    listed = folder / NAME
    if not listed.is_file():
        return
    pairs = (line.split("  ", 1) for line in listed.read_text(encoding="utf-8").splitlines())
    sums = {pair[1]: pair[0] for pair in pairs if len(pair) == 2}
    for file in files:
        stated = sums.get(file.relative_to(folder).as_posix())
        if stated is not None and stated != file_digest(file):
            raise FedatlasError(
                f"{file}: its SHA-256 is {file_digest(file)}, but {listed} says {stated}: it is "
                "damaged or was changed; fetch both again"
            )
