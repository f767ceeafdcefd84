"""Markdown that reads well as it is and as a page: escaped text, even tables, wrapped paragraphs.

Of CommonMark with GitHub's tables. Text of experiments is data: nothing in it is markup here.
"""

import re
from collections.abc import Sequence

WIDTH = 100

# What would begin a list, a quotation, a heading, a table or a fence at the start of a line.
_BLOCK = re.compile(r"([-+*]|\d{1,9}[.)])\Z|[>#=|:]|-[-|:]|```|~~~")


def text(value: str) -> str:
    """The value as inline Markdown that shows just it, on one line, without control characters."""
    return _escaped(_on_one_line(value))


def prose(value: str) -> str:
    """As `text`, but what stands between backticks is code."""
    parts = re.split(r"`([^`]+)`", _on_one_line(value))
    return "".join(code(part) if place % 2 else _escaped(part) for place, part in enumerate(parts))


def _on_one_line(value: str) -> str:
    words = ("".join(filter(str.isprintable, word)) for word in value.split())
    return " ".join(filter(None, words))


def _escaped(line: str) -> str:
    shown = re.sub(r"[\\`*~$]", r"\\\g<0>", line)
    shown = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", shown)
    shown = re.sub(r"<(?=[A-Za-z/!?])|&(?=#|\w+;)", r"\\\g<0>", shown)
    # Links, images and references, of which brackets alone are none: [42] stays as it is.
    return re.sub(r"\](?=[(\[:])", r"\\]", shown)


def code(value: str) -> str:
    """The value in fixed width, if it needs no escape there."""
    plain = value.isprintable() and value == value.strip() and not set(value) & set("`\\|")
    return f"`{value}`" if plain and value else text(value)


def link(label: str, target: str) -> str:
    """A link; label: Markdown. target: an address or a relative path without spaces or brackets."""
    return f"[{label}]({target})"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table with columns of even width; numbers: the columns that are aligned to the right."""
    cells = [[_cell(value) for value in row] for row in (header, *rows)]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    ruled = [
        "-" * (width - 1) + ":" if place in numbers else "-" * width
        for place, width in enumerate(widths)
    ]
    lines = [
        " | ".join(
            value.rjust(width) if place in numbers else value.ljust(width)
            for place, (value, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (cells[0], ruled, *cells[1:])
    ]
    return "\n".join(f"| {line} |" for line in lines)


def _cell(value: str) -> str:
    return value.replace("|", "\\|")


def paragraph(markdown: str, first: str = "", others: str = "") -> str:
    """The text in lines of WIDTH, if its words allow; first, others: what lines begin with."""
    lines: list[str] = []
    line = first
    for place, word in enumerate(markdown.split(" ")):
        joined = f"{line} {word}" if place else f"{line}{word}"
        if place and len(joined) > WIDTH and not _BLOCK.match(word):
            lines.append(line)
            line = others + word
        else:
            line = joined
    return "\n".join([*lines, line])


def item(markdown: str, depth: int = 0) -> str:
    """An item of a list, wrapped; depth: of lists that it lies in."""
    indent = "  " * depth
    return paragraph(markdown, f"{indent}- ", f"{indent}  ")
