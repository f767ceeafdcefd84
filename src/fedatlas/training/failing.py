"""Whose failure it is: what a job of several runs raises names the run, and its seed if known."""

from collections.abc import Iterator
from contextlib import contextmanager

from fedatlas.errors import FedatlasError
from fedatlas.extensions import describe_place

# What the training loop notes of errors within a seed, before its number.
_NOTE = "seed "


class RunFailedError(Exception):
    """An exception of a run that is no FedatlasError, with all that a user is told of it."""


@contextmanager
def naming_run(run: str) -> Iterator[None]:
    """What is raised within begins with the run, experiment/run/point, and the seed in progress.

    Raises FedatlasError of such errors, and RunFailedError from any other exception.
    """
    try:
        yield
    except FedatlasError as error:
        told = str(error).removeprefix(f"{run}: ")
        raise FedatlasError(f"{_place(run, error)}: {told}") from error
    except Exception as error:
        told = describe_place(error) or f"{type(error).__name__}: {error}".removesuffix(": ")
        raise RunFailedError(f"{_place(run, error)}: {told}") from error


def _place(run: str, error: BaseException | None) -> str:
    """The run, and the seed that the loop was training, of the error or what it stands for."""
    while error is not None:
        for note in getattr(error, "__notes__", ()):
            if note.startswith(_NOTE):
                return f"{run}, {note}"
        error = error.__context__
    return run
