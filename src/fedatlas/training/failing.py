"""Whose failure it is: what a job of several runs raises names the run, and its seed if known."""

from collections.abc import Iterator
from contextlib import contextmanager

from fedatlas.errors import FedatlasError, is_shortage
from fedatlas.extensions import describe_place

# What the training loop notes of errors within a seed, before its number.
_NOTE = "seed "


class RunFailedError(Exception):
    """An exception of a run that is no FedatlasError, with all that a user is told of it."""


@contextmanager
def naming_run(run: str, device: str = "cpu") -> Iterator[None]:
    """What is raised within begins with the run, experiment/run/point, and the seed in progress.

    Raises FedatlasError of such errors and where memory runs out, which it says what to do about,
    and RunFailedError from any other exception.
    """
    try:
        yield
    except FedatlasError as error:
        text = str(error).removeprefix(f"{run}: ")
        raise FedatlasError(f"{_place(run, error)}: {text}") from error
    except Exception as error:
        place = _place(run, error)
        if is_shortage(error):
            first = str(error).split("\n")[0].rstrip(".") or type(error).__name__
            raise FedatlasError(
                f"{place}: ran out of memory on device '{device}': {first}. Give the job more "
                "memory (mem_mb), take a device with more, or lower batch_size or the numbers of "
                "clients"
            ) from error
        text = describe_place(error) or f"{type(error).__name__}: {error}".removesuffix(": ")
        raise RunFailedError(f"{place}: {text}") from error


def _place(run: str, error: BaseException | None) -> str:
    """The run, and the seed that the loop was training, of the error or what it stands for."""
    while error is not None:
        for note in getattr(error, "__notes__", ()):
            if note.startswith(_NOTE):
                return f"{run}, {note}"
        error = error.__context__
    return run
