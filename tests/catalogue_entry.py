"""The catalogue, and small entries of one for tests to change."""

import math
from pathlib import Path
from typing import Any

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.catalogue import load_catalogue
from fedatlas.data.datasets import Dataset
from fedatlas.data.formats import dataset_of
from fedatlas.data.prepare import prepare, read_prepared

PUBLISHED = load_catalogue(Path(__file__).parents[1] / "config" / "datasets.yaml")

FILES = [{"path": "a", "urls": ["https://example.org/a"]}]

#: The columns of a small table, which make seven features.
COLUMNS: dict[str, Any] = {
    "label": "y",
    "ignore": ["id"],
    "numeric": ["a"],
    "one_hot": [
        {"column": "c", "values": ["x", "y", "z"]},
        {"column": "n", "values": [0, 1, 5], "otherwise": "next_below"},
    ],
}


def entry(**changes: Any) -> dict[str, Any]:
    """What the catalogue says of a binary LIBSVM set with three features."""
    return {
        "title": "Tiny",
        "homepage": "https://example.org/",
        "licence": "CC0",
        "citation": "Nobody, 2024",
        "format": "libsvm",
        "task": "binary",
        "features": 3,
        "labels": {0: -1, 1: 1},
        "splits": {"train": {"files": FILES}},
    } | changes


def image_entry(files: int, shape: tuple[int, ...], **changes: Any) -> dict[str, Any]:
    """What the catalogue says of images in three classes, whose split train has so many files."""
    raw = [{"path": f"images-{n}", "urls": ["https://example.org/a"]} for n in range(files)]
    return (
        entry(
            format="cifar",
            task="multiclass",
            classes=3,
            labels=None,
            features=math.prod(shape),
            shape=shape,
            splits={"train": {"files": raw}},
        )
        | changes
    )


def tiny(**changes: Any) -> Dataset:
    """The data set `tiny` of an entry."""
    return dataset_of(entry(name="tiny", **changes), "catalogue")


def tiny_images(files: int, shape: tuple[int, ...], **changes: Any) -> Dataset:
    """The data set `tiny` of an entry of images."""
    return dataset_of(image_entry(files, shape, name="tiny", **changes), "catalogue")


def prepared(dataset: Dataset, folder: Path, **raw: list[Path]) -> dict[str, tuple[Samples, Any]]:
    """Samples and metadata of each split, in order, the first of which the others are scaled by."""
    found = {}
    for split, files in raw.items():
        train = folder / "train.parquet" if found else None
        prepare(dataset, split, files, folder / f"{split}.parquet", train=train)
        found[split] = read_prepared(folder / f"{split}.parquet")
    return found


def written(path: Path, content: str | bytes) -> Path:
    """The file, with this content."""
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path
