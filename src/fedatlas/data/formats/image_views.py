"""Folders of rendered views of shapes → pixels and numbers of classes.

A shape is drawn from several sides: `<class>/<split>/<shape>.obj.shaded_v001.png` is the first of
its views, as in the images of github.com/jongchyisu/mvcnn_pytorch. Samples are shapes, ordered by
class and name, so that their order does not depend on that in which a file system lists files.
"""

import os
import re
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, StringConstraints, model_validator

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.datasets import Files, require_distinct
from fedatlas.data.folders import files_in, inside, opened_image, reading
from fedatlas.data.image_datasets import ImageDataset
from fedatlas.data.raw_files import RelativePath
from fedatlas.errors import FedatlasError
from fedatlas.schema.models import Model

FolderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+$")]

VIEW = re.compile(r"(?P<shape>.+)\.obj\.shaded_v(?P<number>[0-9]{3})\.png")
# What becomes red, green and blue without loss, transparency left out.
MODES = ("1", "L", "LA", "P", "RGB", "RGBA")


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


class ImageViewsDataset(ImageDataset):
    """A folder of PNG images, read as RGB and reduced to `shape`: (views, 3, height, width).

    Each pixel of a reduced image is the mean of the pixels that it covers.
    """

    files_of_split: ClassVar[Files] = "one archive to 'unpack'"
    image_axes: ClassVar[int] = 4
    in_colour: ClassVar[bool] = True

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

    def read(self, split: str, raw: list[Path]) -> Samples:
        """See Dataset.

        FedatlasError also when a folder is missing or of no class, a shape lacks a view or has
        another one, or a file is damaged, a link, no PNG image, smaller than `shape` or of another
        aspect ratio.
        """
        (folder,) = raw
        views: list[Path] = []
        labels: list[int] = []
        with reading(folder):
            top = inside(folder, self.image_views.folder)
            _check_classes(top, self.image_views)
            for label, name in enumerate(self.image_views.classes):
                of_class = _views_in(inside(top, f"{name}/{split}"), self.shape[0])
                views += of_class
                labels += [label] * (len(of_class) // self.shape[0])
        rows = self.split(split).rows
        if rows not in (None, len(labels)):
            # Before images are unpacked, which takes long.
            raise FedatlasError(
                f"{top}: holds {len(labels)} shapes of split '{split}', expected {rows}; unpack "
                "the archive again"
            )
        pixels = self.decoded(views, _reduced).reshape(len(labels), -1)
        return Samples.numbered(self.labels_of(np.array(labels, np.int64), folder), pixels)


def _check_classes(top: Path, layout: ImageViews) -> None:
    with os.scandir(top) as entries:
        found = {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
    unknown = sorted(found - set(layout.classes))
    if unknown:
        raise FedatlasError(
            f"{top / unknown[0]}: is a folder of no class that the catalogue lists under "
            "'image_views.classes'; list it there or unpack the archive again"
        )


def _views_in(place: Path, views: int) -> list[Path]:
    """The files of a class and a split, shape by shape; the views of each in their order."""
    shapes: dict[str, dict[int, Path]] = {}
    for name, path in files_in(place, (".png",)).items():
        view = VIEW.fullmatch(name)
        if view is None:
            raise FedatlasError(
                f"{path}: is not called as a view is, '<shape>.obj.shaded_v001.png'; unpack the "
                "archive again"
            )
        shapes.setdefault(view["shape"], {})[int(view["number"])] = path
    if not shapes:
        raise FedatlasError(f"{place}: holds no PNG images; unpack the archive again")
    expected = range(1, views + 1)
    for shape, found in shapes.items():
        if wrong := sorted(set(expected).symmetric_difference(found)):
            problem = "is missing" if wrong[0] in expected else "is one too many"
            raise FedatlasError(
                f"{place / shape}.obj.shaded_v{wrong[0]:03}.png: {problem}; 'shape' in the "
                f"catalogue says {views} views of each shape: unpack the archive again"
            )
    return [shapes[shape][number] for shape in sorted(shapes) for number in expected]


def _reduced(path: Path, height: int, width: int) -> np.ndarray:
    """(height, width, 3) uint8; the size is known, and checked, before pixels are unpacked."""
    # Imported here: only formats of compressed images need it.
    from PIL import Image

    with opened_image(path, "PNG") as image:
        # Compares checksums, which unpacking does not; an image is of no use afterwards.
        image.verify()
    with opened_image(path, "PNG") as image:
        similar = image.width * height == image.height * width
        if not similar or image.width < width or image.mode not in MODES:
            raise FedatlasError(
                f"{path}: holds {image.width} × {image.height} pixels of kind {image.mode}, which "
                f"cannot be reduced to {width} × {height} of kind RGB"
            )
        colours = image.convert("RGB")
        return np.asarray(colours.resize((width, height), Image.Resampling.BOX))
