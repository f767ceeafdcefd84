"""Templates: text with placeholders in braces, such as `{method.title}, q = {q}`."""

import re
from functools import lru_cache
from typing import NamedTuple

_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_REFERENCE = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*|\[[a-z][a-z0-9_]*\])*")
_PARTS = re.compile(r"(\.|\[)?([a-z0-9_]+)")


class Placeholder(NamedTuple):
    """What stands in braces: `{list.field[other]}` has the lists `list` and `other`."""

    text: str
    parts: tuple[tuple[str, str], ...]  # ".", "[" or "" before a name
    lists: tuple[str, ...]


@lru_cache(maxsize=10_000)
def pieces(template: str) -> tuple[str | Placeholder, ...]:
    """Text and placeholders; one without parts is none, and stands where a mistake does."""
    found: list[str | Placeholder] = []
    end = 0
    for match in _BRACES.finditer(template):
        found.append(template[end : match.start()])
        end = match.end()
        if match[0] in ("{{", "}}"):
            found.append(match[0][0])
            continue
        reference = match[1] or ""
        parts = _PARTS.findall(reference) if _REFERENCE.fullmatch(reference) else []
        lists = tuple(part for mark, part in parts if mark != ".")
        found.append(Placeholder(match[0], tuple(parts), lists))
    return (*(piece for piece in found if piece), template[end:])
