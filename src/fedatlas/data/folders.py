"""What readers of raw files share: files below a folder, lines of text, images."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from fedatlas.errors import FedatlasError

# The name of one plain folder: neither a path, nor hidden, nor with signs of control.
FOLDER_NAME = r"^[^./\\\x00-\x1f\x7f][^/\\\x00-\x1f\x7f]*$"
# Unpacked and reduced, such an image takes less than 256 MiB.
MOST_PIXELS = 1 << 24
# What becomes red, green and blue without loss, transparency left out; and what printers take.
MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK")


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


def files_in(place: Path, suffixes: tuple[str, ...]) -> dict[str, Path]:
    """The files in a folder whose names end so, in lower or upper case, by name.

    Hidden files are left out: macOS keeps its notes on `a.jpg` in `._a.jpg`.
    Raises FedatlasError if one of them is no plain file, OSError if the folder cannot be read.
    """
    files = {}
    with os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(".") or not entry.name.lower().endswith(suffixes):
                continue
            if not entry.is_file(follow_symlinks=False):
                raise FedatlasError(
                    f"{entry.path}: is no plain file but a link, a folder or a device; refused, "
                    "unpack the archive again"
                )
            files[entry.name] = place / entry.name
    return files


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of the system into FedatlasErrors that name the file."""
    try:
        yield
    except OSError as error:
        raise FedatlasError(
            f"{error.filename or path}: cannot be read: {error.strerror or error}"
        ) from error


def rgb_image(path: Path, *kinds: str) -> Any:
    """An image of one of Pillow's formats, in red, green and blue, without transparency.

    It stands as viewers show it, turned as its EXIF data say. Whatever goes wrong becomes
    FedatlasError that names the file; images of more than `MOST_PIXELS` are refused before they are
    unpacked.
    """
    # Imported here: only formats of compressed images need it.
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            # Pillow warns of an image that unpacks to very much, and refuses one of twice that.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=kinds) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise FedatlasError(
                        f"{path}: holds {image.width} × {image.height} pixels, more than "
                        f"{MOST_PIXELS}; refused, unpack the archive again"
                    )
                if image.mode not in MODES:
                    raise FedatlasError(
                        f"{path}: its pixels are of Pillow's kind {image.mode}, expected one of "
                        f"{', '.join(MODES)}: convert it"
                    )
                if image.format == "PNG":
                    # Compares checksums, which unpacking does not; an image is of no use then.
                    with Image.open(path, formats=kinds) as copy:
                        copy.verify()
                ImageOps.exif_transpose(image, in_place=True)
                return image.convert("RGB")
    except FedatlasError:
        raise
    except Exception as error:  # damage can make the decoder raise anything
        raise FedatlasError(
            f"{path}: cannot be read as a {' or '.join(kinds)} image: {error}; unpack the archive "
            "again"
        ) from error


def text_lines(path: Path) -> list[str]:
    """The lines of UTF-8 text; FedatlasError if it is none, or cannot be read."""
    try:
        with reading(path):
            # Some programs write a mark at the start of UTF-8.
            return path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise FedatlasError(f"{path}: is not UTF-8 text: {error.reason}") from error
