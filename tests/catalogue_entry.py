"""A small entry of the catalogue, for tests to change."""

import math
from typing import Any

FILES = [{"path": "a", "urls": ["https://example.org/a"]}]


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
