"""What readers of unpacked archives share: files below a folder, and the lines of text files."""

from pathlib import Path, PurePosixPath

from fedatlas.errors import FedatlasError


def inside(folder: Path, relative: str) -> Path:
    """The path below `folder`; FedatlasError if a link is part of it.

    An archive holds no links, and they would lead out of the folder.
    """
    path = folder
    for part in PurePosixPath(relative).parts:
        path = path / part
        if path.is_symlink():
            raise FedatlasError(f"{path}: is a link; refused, unpack the archive again")
    return path


def text_lines(path: Path) -> list[str]:
    """The lines of UTF-8 text; FedatlasError if it is none, or cannot be read."""
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise FedatlasError(f"{path}: is not UTF-8 text: {error.reason}") from error
    except OSError as error:
        raise FedatlasError(f"{path}: cannot be read: {error.strerror or error}") from error
