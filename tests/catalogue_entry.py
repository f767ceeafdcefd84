"""A small entry of the catalogue, for tests to change."""

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
