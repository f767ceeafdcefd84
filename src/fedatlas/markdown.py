"""CommonMark with GitHub's tables that also reads well as plain text.

Text of experiments is data: it is escaped, so that nothing in it is markup.
"""

import re
from collections.abc import Sequence
from urllib.parse import quote

WIDTH = 100

_OF_ADDRESSES = "/:?#@!$&'*+,;=%~"  # no brackets, quotation marks or spaces

# Words that would start a list, quotation, heading, table or fence at the start of a line.
_BLOCK = re.compile(r"([-+*]|\d{1,9}[.)])\Z|[>#=|:]|-[-|:]|```|~~~")


def text(value: str) -> str:
    """Inline Markdown that shows the value on one line, without control characters."""
    return _escaped(_on_one_line(value))


def prose(value: str) -> str:
    """Like `text`, but parts between backticks are code."""
    parts = re.split(r"`([^`]+)`", _on_one_line(value))
    return "".join(code(part) if place % 2 else _escaped(part) for place, part in enumerate(parts))


def _on_one_line(value: str) -> str:
    words = ("".join(filter(str.isprintable, word)) for word in value.split())
    return " ".join(filter(None, words))


def _escaped(line: str) -> str:
    shown = re.sub(r"[\\`*~$]", r"\\\g<0>", line)
    shown = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", shown)
    shown = re.sub(r"<(?=[A-Za-z/!?])|&(?=#|\w+;)", r"\\\g<0>", shown)
    # Links, images and references; brackets alone, as in [42], are none.
    return re.sub(r"\](?=[(\[:])", r"\\]", shown)


def code(value: str) -> str:
    """The value as code if it needs no escape there, otherwise as text."""
    plain = value.isprintable() and value == value.strip() and not set(value) & set("`\\|")
    return f"`{value}`" if plain and value else text(value)


def link(label: str, target: str) -> str:
    """A link; label: Markdown. target: an address or a relative path."""
    return f"[{label}]({quote(target, safe=_OF_ADDRESSES)})"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table with columns of even width; numbers: the columns that are aligned to the right."""
    cells = [[value.replace("|", "\\|") for value in row] for row in (header, *rows)]
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


def paragraph(markdown: str, first: str = "", others: str = "") -> str:
    """The text in lines of WIDTH if its words allow; first, others: the start of the lines."""
    lines: list[str] = []
    line = first
    for place, word in enumerate(markdown.split()):
        joined = f"{line} {word}" if place else f"{line}{word}"
        if place and len(joined) > WIDTH and not _BLOCK.match(word):
            lines.append(line)
            line = others + word
        else:
            line = joined
    return "\n".join([*lines, line])


def item(markdown: str, depth: int = 0) -> str:
    """A wrapped item of a list; depth: of the list within other lists."""
    indent = "  " * depth
    return paragraph(markdown, f"{indent}- ", f"{indent}  ")


def counted(number: int, unit: str) -> str:
    """A number with its unit, in the plural if need be."""
    return f"{number} {unit}{'s' * (number != 1)}"
