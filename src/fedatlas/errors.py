"""The exceptions that users see."""

import difflib
import errno
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


class RunFailedError(Exception):
    """An exception in a run that is no FedatlasError, with the message for the user."""


class NotReadNowError(FedatlasError):
    """A file that may be sound could not be read, as where memory ran out."""

    def __init__(self, path: object, reason: object) -> None:
        super().__init__(
            f"{path}: cannot be read now ({reason}). The file may be sound: give the process more "
            "memory, or run again"
        )


def is_shortage(error: BaseException) -> bool:
    """Whether memory, threads or open files ran out, which says nothing of what was read."""
    return shortage_in(error) is not None


def shortage_in(error: BaseException | None) -> BaseException | None:
    """The error, or one before it, that says that memory, threads or open files ran out.

    A library that cannot be loaded for want of memory may be reported as one that is not there.
    """
    numbers = (errno.ENOMEM, errno.EAGAIN, errno.EMFILE, errno.ENFILE)
    while error is not None:
        if isinstance(error, MemoryError) or getattr(error, "errno", None) in numbers:
            return error
        if any(sign in str(error).lower() for sign in _SHORTAGES):
            return error
        error = error.__cause__ or error.__context__
    return None


def first_line(error: BaseException) -> str:
    """The message of an error as one sentence without its full stop."""
    return str(error).split("\n")[0].rstrip(".") or type(error).__name__


# What libraries say that raise errors of their own: Arrow, HDF5, C++, torch, CUDA, the loader.
_SHORTAGES = (
    *("malloc of", "memory allocation failed", "allocate memory", "bad_alloc", "thread:"),
    *("out of memory", "alloc_failed", "could not create a primitive", "failed to map segment"),
)


def similar(name: str, known: Iterable[str]) -> str:
    """ "; similar: …", of known names most like an unknown one, in any case; empty if none is."""
    by_case = {each.casefold(): each for each in known}
    close = difflib.get_close_matches(name.casefold(), by_case, n=5, cutoff=0.5)
    close = [by_case[each] for each in close]
    return f"; similar: {', '.join(close)}" if close else ""


@contextmanager
def error_context(where: object, after: str = "") -> Iterator[None]:
    """Begin the message of a FedatlasError with the place at fault; `after` ends it."""
    try:
        yield
    except FedatlasError as error:
        raise FedatlasError(f"{where}: {error}{after}") from None
