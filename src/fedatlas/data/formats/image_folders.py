"""Folders of compressed images → pixels and numbers of classes: one image a sample, or several."""

import re
from abc import abstractmethod
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, StringConstraints, model_validator

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Files, Name, require_distinct
from fedatlas.data.formats.images import ImageDataset
from fedatlas.data.raw_files import RelativePath
from fedatlas.data.reading import reading, text_lines
from fedatlas.errors import FedatlasError
from fedatlas.schema.models import Model

# The name of one plain folder: neither a path, nor hidden, nor with signs of control.
FOLDER_NAME = r"^[^./\\\x00-\x1f\x7f][^/\\\x00-\x1f\x7f]*$"
JPEG_SUFFIXES = (".jpeg", ".jpg")
VIEW = re.compile(r"(?P<shape>.+)\.obj\.shaded_v(?P<number>[0-9]{3})\.png")
# Unpacked and reduced, such an image takes less than 256 MiB.
MOST_PIXELS = 1 << 24
# What becomes red, green and blue without loss, transparency left out; and what printers take.
MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK")

Listed = list[tuple[list[Path], int]]
"""The images of each sample, and the number of its class."""


class ImageFiles(ImageDataset):
    """A folder of compressed images, which are read as RGB; each format finds and decodes its own.

    Samples are numbered by class and name, so that their order does not depend on that in which a
    file system lists files.
    """

    files_of_split: ClassVar[Files] = "one archive to 'unpack'"

    @abstractmethod
    def listed(self, folder: Path, split: str) -> Listed:
        """The samples of a split; FedatlasError names a file that is missing or too many."""

    @abstractmethod
    def decoded(self, path: Path, height: int, width: int) -> np.ndarray:
        """(height, width, 3) uint8; FedatlasError if the image is of another size."""

    @model_validator(mode="after")
    def _has_three_channels(self) -> Self:
        if self.channels != 3:
            raise ValueError(f"images of '{self.format}' have 3 channels in 'shape'")
        return self

    def read(self, split: str, raw: list[Path]) -> Samples:
        """See Dataset; FedatlasError also names an image that is damaged or too large."""
        (folder,) = raw
        with reading(folder):
            listed = self.listed(folder, split)
        rows = self.split(split).rows
        if rows not in (None, len(listed)):
            # Before images are unpacked, which takes long.
            raise FedatlasError(
                f"{folder}: holds {len(listed)} samples of split '{split}', expected {rows}; "
                "unpack the archive again"
            )
        paths = [path for own, _ in listed for path in own]
        pixels = np.empty((len(paths), *self.shape[-3:]), np.uint8)
        for number, path in enumerate(paths):
            pixels[number] = self.decoded(path, *self.shape[-2:]).transpose(2, 0, 1)
        labels = self.labels_of(np.array([label for _, label in listed], np.int64), folder)
        return Samples.numbered(labels, pixels.reshape(len(listed), -1))


class ImagePlaces(Model):
    """The places of the images of one split in a folder.

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
        names = _class_names(folder / self.image_folder.classes, self.classes)
        if places.labels is None:
            return [
                ([path], label)
                for label, name in enumerate(names)
                for path in _files(folder / places.images.replace("{class}", name), *JPEG_SUFFIXES)
            ]
        return _by_list(folder / places.images, folder / places.labels, names)

    def decoded(self, path: Path, height: int, width: int) -> np.ndarray:
        # Some published images are PNG files called .jpg.
        image = _rgb_image(path, "JPEG", "PNG")
        if image.size != (width, height):
            raise FedatlasError(
                f"{path}: holds {image.width} × {image.height} pixels, expected {width} × {height}"
            )
        return np.asarray(image)


def _class_names(path: Path, classes: int | None) -> list[str]:
    """The names in a list of classes, one a line, sorted."""
    names = sorted(line.strip() for line in text_lines(path) if line.strip())
    for name, previous in zip(names, ["", *names], strict=False):
        if name == previous or not re.fullmatch(FOLDER_NAME, name):
            raise FedatlasError(f"{path}: {name!r} is listed twice, or no name of a folder")
    if not names or classes not in (None, len(names)):
        raise FedatlasError(
            f"{path}: lists {len(names)} classes, expected {classes or 'at least one'}"
        )
    return names


def _by_list(place: Path, listed: Path, names: list[str]) -> Listed:
    """Images that lie together, in the order of a list: name, class and what else, tabs between."""
    numbers = {name: number for number, name in enumerate(names)}
    left = {path.name: path for path in _files(place, *JPEG_SUFFIXES)}
    images: Listed = []
    for line_number, line in enumerate(text_lines(listed), start=1):
        name, label, *_ = [*line.split("\t"), ""]
        if name not in left or label not in numbers:
            raise FedatlasError(
                f"{listed}:{line_number}: '{line}' is not the name of one more JPEG image in "
                f"{place} and its class, with a tab between"
            )
        images.append(([left.pop(name)], numbers[label]))
    if left:
        raise FedatlasError(
            f"{listed}: lists no class of '{min(left)}' in {place}; it may be cut short"
        )
    return images


FolderName = Annotated[str, StringConstraints(pattern=FOLDER_NAME)]


class ImageViews(Model):
    """A folder of PNG images, several views of each shape, which are reduced to one size.

    folder: holds the folder of each class. classes: their names, in the order that numbers them.
    """

    folder: RelativePath
    classes: tuple[FolderName, ...] = Field(min_length=2)

    @model_validator(mode="after")
    def _names_each_class_once(self) -> Self:
        require_distinct("class", self.classes)
        return self


class ImageViewsDataset(ImageFiles):
    """A folder of PNG images, reduced to `shape`: (views, 3, height, width).

    A shape is drawn from several sides: `<class>/<split>/<shape>.obj.shaded_v001.png` is the first
    of its views, as in the images of github.com/jongchyisu/mvcnn_pytorch. Samples are shapes. Each
    pixel of a reduced image is the mean of the pixels that it covers. A shape must not lack a view
    or have another one; an image must not be smaller than `shape` or of another aspect ratio.

    image_views: where the images lie.
    """

    image_axes: ClassVar[int] = 4

    format: Literal["image_views"]
    image_views: ImageViews

    @model_validator(mode="after")
    def _is_of_the_views(self) -> Self:
        if self.classes != len(self.image_views.classes):
            raise ValueError(
                f"'image_views' lists {len(self.image_views.classes)} classes, 'classes' says "
                f"{self.classes}"
            )
        return self

    def listed(self, folder: Path, split: str) -> Listed:
        top = folder / self.image_views.folder
        found = {path.name for path in top.iterdir() if path.is_dir()}
        if unknown := sorted(found - set(self.image_views.classes)):
            raise FedatlasError(
                f"{top / unknown[0]}: is a folder of no class that the catalogue lists under "
                "'image_views.classes'; list it there or unpack the archive again"
            )
        return [
            (views, label)
            for label, name in enumerate(self.image_views.classes)
            for views in _views_in(top / name / split, self.shape[0])
        ]

    def decoded(self, path: Path, height: int, width: int) -> np.ndarray:
        # Imported here: only formats of compressed images need it.
        from PIL import Image

        image = _rgb_image(path, "PNG")
        if image.width * height != image.height * width or image.width < width:
            raise FedatlasError(
                f"{path}: holds {image.width} × {image.height} pixels, which cannot be reduced to "
                f"{width} × {height}"
            )
        return np.asarray(image.resize((width, height), Image.Resampling.BOX))


def _views_in(place: Path, views: int) -> list[list[Path]]:
    """The views, in their order, of each shape of a class and a split."""
    shapes: dict[str, dict[int, Path]] = {}
    for path in _files(place, ".png"):
        view = VIEW.fullmatch(path.name)
        if view is None:
            raise FedatlasError(
                f"{path}: is not called as a view is, '<shape>.obj.shaded_v001.png'; unpack the "
                "archive again"
            )
        shapes.setdefault(view["shape"], {})[int(view["number"])] = path
    expected = range(1, views + 1)
    for shape, found in shapes.items():
        if wrong := sorted(set(expected).symmetric_difference(found)):
            problem = "is missing" if wrong[0] in expected else "is one too many"
            raise FedatlasError(
                f"{place / shape}.obj.shaded_v{wrong[0]:03}.png: {problem}; 'shape' in the "
                f"catalogue says {views} views of each shape: unpack the archive again"
            )
    return [[shapes[shape][number] for number in expected] for shape in sorted(shapes)]


def _files(place: Path, *suffixes: str) -> list[Path]:
    """The images in a folder by their endings, sorted by name; FedatlasError if there are none.

    Hidden files are left out: macOS keeps its notes on `a.jpg` in `._a.jpg`.
    """
    found = sorted(
        path
        for path in place.iterdir()
        if path.name.lower().endswith(suffixes) and not path.name.startswith(".")
    )
    if not found:
        raise FedatlasError(f"{place}: holds no such images; unpack the archive again")
    return found


def _rgb_image(path: Path, *kinds: str) -> Any:
    """An image of one of Pillow's formats, in red, green and blue, without transparency.

    It stands as viewers show it, turned as its EXIF data say. Whatever goes wrong becomes
    FedatlasError that names the file; images of more than `MOST_PIXELS` are refused before they are
    unpacked.
    """
    # Imported here: only formats of compressed images need it.
    from PIL import Image, ImageOps

    try:
        with Image.open(path, formats=kinds) as image:
            if image.width * image.height > MOST_PIXELS:
                raise ValueError(f"{image.width} × {image.height} pixels are too many")
            if image.mode not in MODES:
                raise ValueError(
                    f"its pixels are of Pillow's kind {image.mode}, none of {', '.join(MODES)}"
                )
            if image.format == "PNG":
                # Compares checksums, which unpacking does not; an image is of no use then.
                with Image.open(path, formats=kinds) as copy:
                    copy.verify()
            ImageOps.exif_transpose(image, in_place=True)
            return image.convert("RGB")
    except Exception as error:  # damage can make the decoder raise anything
        raise FedatlasError(
            f"{path}: cannot be read as a {' or '.join(kinds)} image: {error}; unpack the archive "
            "again"
        ) from error
