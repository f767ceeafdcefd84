"""How people name experiments: by their names, or by globs of them."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TypeAlias

#: One name or several, or None for all.
Names: TypeAlias = str | Sequence[str] | None


def listed(names: Names) -> list[str] | None:
    """The names as a list; a text is one name."""
    return None if names is None else [names] if isinstance(names, str) else list(names)


def is_named(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns, a name or a glob, means this experiment."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
