"""The one exception that users see."""

from collections.abc import Iterator
from contextlib import contextmanager


class FedatlasError(Exception):
    """A failure that the user can act on.

    The message names the file, the key and the value at fault and says what to do; the command
    line prints it without a traceback and exits with status 1.
    """


@contextmanager
def named(where: object, after: str = "") -> Iterator[None]:
    """Begin the message of a FedatlasError with the place at fault; `after` ends it."""
    try:
        yield
    except FedatlasError as error:
        raise FedatlasError(f"{where}: {error}{after}") from None
