"""Folders of JPEG images → pixels and numbers of classes.

Classes are numbered by the sorted order of their names, images ordered by class or as a list of
labels says, so that neither depends on the order in which a file system lists its files. Links are
refused: an archive holds none, and they would lead out of the folder.
"""

import re
from pathlib import Path

import numpy as np

from fedatlas.data.catalogue import ImageFolder
from fedatlas.data.folders import files_in, inside, opened_image, text_lines
from fedatlas.data.images import Images
from fedatlas.errors import FedatlasError

SUFFIXES = (".jpeg", ".jpg")

Labelled = list[tuple[Path, int]]
"""Images and the numbers of their classes."""


def read_image_folder(
    folder: Path, layout: ImageFolder, split: str, shape: tuple[int, ...], classes: int | None
) -> Images:
    """Read the images of one split, of one size and grey or in colour, as RGB.

    layout: where the folder keeps them. shape: (3, height, width). classes: how many names the
    list of classes must hold, None for any number.
    Raises FedatlasError, naming the file, when the lists or the images are not as `layout` says, or
    an image is damaged, a link, or of another size.
    """
    places = layout.splits[split]
    try:
        names = _class_names(inside(folder, layout.classes), classes)
        if places.labels is None:
            images = _by_class(folder, places.images, names)
        else:
            listed = inside(folder, places.labels)
            images = _by_list(inside(folder, places.images), listed, names)
    except OSError as error:
        where = error.filename or folder
        raise FedatlasError(f"{where}: cannot be read: {error.strerror or error}") from error
    labels = np.array([label for _, label in images], np.int64)
    return _decoded([path for path, _ in images], shape), labels


def _class_names(path: Path, classes: int | None) -> list[str]:
    """The names in a list of classes, one a line, sorted."""
    names = [line.strip() for line in text_lines(path) if line.strip()]
    names.sort()
    for name, previous in zip(names, ["", *names], strict=False):
        # They become names of folders.
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            raise FedatlasError(
                f"{path}: {name!r} is no name of a class: letters, digits, '_' and '-' make one"
            )
        if name == previous:
            raise FedatlasError(f"{path}: class '{name}' is listed twice")
    if not names or classes not in (None, len(names)):
        raise FedatlasError(
            f"{path}: lists {len(names)} classes, expected {classes or 'at least one'}"
        )
    return names


def _by_class(folder: Path, template: str, names: list[str]) -> Labelled:
    """Images that lie in folders of their class: class by class, sorted by name."""
    images: Labelled = []
    for label, name in enumerate(names):
        place = inside(folder, template.replace("{class}", name))
        found = files_in(place, SUFFIXES)
        if not found:
            raise FedatlasError(f"{place}: holds no JPEG images; unpack the archive again")
        images += [(found[file], label) for file in sorted(found)]
    return images


def _by_list(place: Path, listed: Path, names: list[str]) -> Labelled:
    """Images that lie together, in the order of a list: name, class and what else, tabs between."""
    numbers = {name: number for number, name in enumerate(names)}
    left = files_in(place, SUFFIXES)
    images: Labelled = []
    for line_number, line in enumerate(text_lines(listed), start=1):
        name, *more = line.split("\t")
        if not more or more[0] not in numbers:
            raise FedatlasError(
                f"{listed}:{line_number}: is not the name of an image and its class, with a tab "
                "between; is the line cut short?"
            )
        if name not in left:
            raise FedatlasError(
                f"{listed}:{line_number}: '{name}' is listed twice, or no JPEG image in {place}"
            )
        images.append((left.pop(name), numbers[more[0]]))
    if left or not images:
        raise FedatlasError(
            f"{listed}: lists no class of {min(left, default='any image')!r} in {place}; it may be "
            "cut short"
        )
    return images


def _decoded(paths: list[Path], shape: tuple[int, ...]) -> np.ndarray:
    """(n, d) uint8, channels first."""
    pixels = np.empty((len(paths), *shape), np.uint8)
    for number, path in enumerate(paths):
        pixels[number] = _rgb(path, shape).transpose(2, 0, 1)
    return pixels.reshape(len(paths), -1)


def _rgb(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """(height, width, 3) uint8; the size is known, and checked, before pixels are unpacked."""
    _, height, width = shape
    with opened_image(path, "JPEG") as image:
        if image.size != (width, height) or image.mode not in ("L", "RGB"):
            raise FedatlasError(
                f"{path}: holds {image.width} × {image.height} pixels of kind {image.mode}, "
                f"expected {width} × {height} of kind RGB or L (grey)"
            )
        return np.asarray(image.convert("RGB"))
