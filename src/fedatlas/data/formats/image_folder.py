"""Folders of JPEG images → pixels and numbers of classes.

Classes are numbered by the sorted order of their names, images ordered by class or as a list of
labels says.
"""

import re
from pathlib import Path
from typing import Literal, Self

import numpy as np
from pydantic import model_validator

from fedatlas.data.datasets import Name
from fedatlas.data.folders import FOLDER_NAME, files_in, inside, rgb_image, text_lines
from fedatlas.data.image_datasets import ImageFiles, Listed
from fedatlas.data.raw_files import RelativePath
from fedatlas.errors import FedatlasError
from fedatlas.schema.models import Model

SUFFIXES = (".jpeg", ".jpg")


class ImagePlaces(Model):
    """Where a folder keeps the images of one split.

    images: their folder; or, with `{class}` in the place of a class's name, that of each class.
    labels: a file that lists the name and the class of each image, one a line, a tab between.
    """

    images: RelativePath
    labels: RelativePath | None = None

    @model_validator(mode="after")
    def _tells_the_class(self) -> Self:
        if ("{class}" in self.images) == (self.labels is not None):
            raise ValueError("give 'labels', or '{class}' within 'images', and not both")
        return self


class ImageFolder(Model):
    """A folder of JPEG images, all of one size.

    classes: a file that lists the names of the classes, one a line; their sorted order numbers
        them. splits: where the images of each split are.
    """

    classes: RelativePath
    splits: dict[Name, ImagePlaces]


class ImageFolderDataset(ImageFiles):
    """A folder of JPEG images, of one size; their EXIF orientation is applied.

    image_folder: where the images lie.
    """

    format: Literal["image_folder"]
    image_folder: ImageFolder

    @model_validator(mode="after")
    def _is_of_the_folder(self) -> Self:
        if set(self.image_folder.splits) != set(self.splits):
            raise ValueError(
                f"'image_folder' has the splits {', '.join(self.image_folder.splits)}, 'splits' "
                f"has {', '.join(self.splits)}"
            )
        return self

    def listed(self, folder: Path, split: str) -> Listed:
        places = self.image_folder.splits[split]
        names = _class_names(inside(folder, self.image_folder.classes), self.classes)
        if places.labels is None:
            return _by_class(folder, places.images, names)
        return _by_list(inside(folder, places.images), inside(folder, places.labels), names)

    def decoded(self, path: Path, height: int, width: int) -> np.ndarray:
        # Some published images are PNG files called .jpg.
        image = rgb_image(path, "JPEG", "PNG")
        if image.size != (width, height):
            raise FedatlasError(
                f"{path}: holds {image.width} × {image.height} pixels, expected {width} × {height}"
            )
        return np.asarray(image)


def _class_names(path: Path, classes: int | None) -> list[str]:
    """The names in a list of classes, one a line, sorted."""
    names = [line.strip() for line in text_lines(path) if line.strip()]
    names.sort()
    for name, previous in zip(names, ["", *names], strict=False):
        if not re.fullmatch(FOLDER_NAME, name):
            raise FedatlasError(f"{path}: {name!r} is no name of a class: no folder is called so")
        if name == previous:
            raise FedatlasError(f"{path}: class '{name}' is listed twice")
    if not names or classes not in (None, len(names)):
        raise FedatlasError(
            f"{path}: lists {len(names)} classes, expected {classes or 'at least one'}"
        )
    return names


def _by_class(folder: Path, template: str, names: list[str]) -> Listed:
    """Images that lie in folders of their class: class by class, sorted by name."""
    images: Listed = []
    for label, name in enumerate(names):
        place = inside(folder, template.replace("{class}", name))
        found = files_in(place, SUFFIXES)
        if not found:
            raise FedatlasError(f"{place}: holds no JPEG images; unpack the archive again")
        images += [([found[file]], label) for file in sorted(found)]
    return images


def _by_list(place: Path, listed: Path, names: list[str]) -> Listed:
    """Images that lie together, in the order of a list: name, class and what else, tabs between."""
    numbers = {name: number for number, name in enumerate(names)}
    left = files_in(place, SUFFIXES)
    images: Listed = []
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
        images.append(([left.pop(name)], numbers[more[0]]))
    if left or not images:
        raise FedatlasError(
            f"{listed}: lists no class of {min(left, default='any image')!r} in {place}; it may be "
            "cut short"
        )
    return images
