"""The one exception that users see."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from fedatlas.plain_text import printable


class FedatlasError(Exception):
    """A failure that the user can act on.

    The message names the file, the key and the value at fault and says what to do; the command
    line prints it without a traceback and exits with status 1.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


def similar(name: str, known: Iterable[str]) -> str:
    """ "; similar: …", of the known names that are most like an unknown one; empty if none is."""
    close = difflib.get_close_matches(name, known, n=5, cutoff=0.5)
    return f"; similar: {', '.join(close)}" if close else ""


@contextmanager
def named(where: object, after: str = "") -> Iterator[None]:
    """Begin the message of a FedatlasError with the place at fault; `after` ends it."""
    try:
        yield
    except FedatlasError as error:
        raise FedatlasError(f"{where}: {error}{after}") from None
