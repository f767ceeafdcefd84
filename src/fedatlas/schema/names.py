"""How people name experiments: by their names, or by globs of them."""

from collections.abc import Iterable
from fnmatch import fnmatchcase


def is_named(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns, a name or a glob, means this experiment."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
