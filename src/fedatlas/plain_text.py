"""Print text of experiments, data and files as it is written, never as markup.

What shows it calls one function for each kind of page: `printable` and those below for terminals,
`rest` for reStructuredText, `fedatlas.markdown.text` for Markdown, `html.escape` for HTML, and
`fedatlas.figures.style.draw` for figures.
"""

import re
import sys
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

# Control and format characters, halves of characters, and separators of lines and paragraphs.
_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def printable(text: str) -> str:
    """The text with U+FFFD for what would command a terminal; line breaks and tabs stay."""
    return "".join(
        c if c in "\n\t" or unicodedata.category(c) not in _UNSEEN else "\ufffd" for c in text
    )


def say(text: object, *, to_errors: bool = False) -> None:
    """Print a line on standard output, or on standard error."""
    print(printable(str(text)), file=sys.stderr if to_errors else sys.stdout, flush=True)


def say_on(console: "Console", line: str) -> None:
    """Print a line on a console; it is not wrapped, so that paths can be copied."""
    console.print(printable(line), highlight=False, markup=False, soft_wrap=True)


def cell(text: str) -> str:
    """The text as a cell of a table for a console."""
    from rich.markup import escape

    return escape(printable(text))


def rest(text: str) -> str:
    """Inline reStructuredText that shows the text on one line."""
    return re.sub(r"[!-/:-@\[-`{-~]", r"\\\g<0>", " ".join(printable(text).split()))


def latex(text: str) -> str:
    """The text on one line of LaTeX, shown as written."""
    escaped = re.sub(r"([#$%&_{}])", r"\\\1", " ".join(printable(text).split()).replace("\\", "/"))
    for sign, command in {"^": r"\^{}", "~": r"\~{}", "≤": r"$\le$", "≥": r"$\ge$"}.items():
        escaped = escaped.replace(sign, command)
    return escaped
