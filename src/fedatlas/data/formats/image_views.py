"""Folders of rendered views of shapes → pixels and numbers of classes.

A shape is drawn from several sides: `<class>/<split>/<shape>.obj.shaded_v001.png` is the first of
its views, as in the images of github.com/jongchyisu/mvcnn_pytorch. Samples are shapes.
"""

import os
import re
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, StringConstraints, model_validator

from fedatlas.data.datasets import require_distinct
from fedatlas.data.folders import FOLDER_NAME, files_in, inside, rgb_image
from fedatlas.data.image_datasets import ImageFiles, Listed
from fedatlas.data.raw_files import RelativePath
from fedatlas.errors import FedatlasError
from fedatlas.schema.models import Model

FolderName = Annotated[str, StringConstraints(pattern=FOLDER_NAME)]

VIEW = re.compile(r"(?P<shape>.+)\.obj\.shaded_v(?P<number>[0-9]{3})\.png")


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

    Each pixel of a reduced image is the mean of the pixels that it covers. A shape must not lack a
    view or have another one; an image must not be smaller than `shape` or of another aspect ratio.

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
        top = inside(folder, self.image_views.folder)
        with os.scandir(top) as entries:
            found = {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
        if unknown := sorted(found - set(self.image_views.classes)):
            raise FedatlasError(
                f"{top / unknown[0]}: is a folder of no class that the catalogue lists under "
                "'image_views.classes'; list it there or unpack the archive again"
            )
        return [
            (views, label)
            for label, name in enumerate(self.image_views.classes)
            for views in _views_in(inside(top, f"{name}/{split}"), self.shape[0])
        ]

    def decoded(self, path: Path, height: int, width: int) -> np.ndarray:
        # Imported here: only formats of compressed images need it.
        from PIL import Image

        image = rgb_image(path, "PNG")
        if image.width * height != image.height * width or image.width < width:
            raise FedatlasError(
                f"{path}: holds {image.width} × {image.height} pixels, which cannot be reduced to "
                f"{width} × {height}"
            )
        return np.asarray(image.resize((width, height), Image.Resampling.BOX))


def _views_in(place: Path, views: int) -> list[list[Path]]:
    """The views, in their order, of each shape of a class and a split."""
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
    return [[shapes[shape][number] for number in expected] for shape in sorted(shapes)]
