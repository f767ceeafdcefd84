"""Whose failure it is: what a job of several runs raises names the run, and its seed if known."""

from collections.abc import Iterator
from contextlib import contextmanager

from fedatlas.errors import FedatlasError
from fedatlas.extensions import describe_place

# What the training loop notes of errors within a seed, before its number.
_NOTE = "seed "


# RuntimeErrors say so: torch's allocators on a CPU and a GPU, CUDA itself, its libraries, C++.
_OUT_OF_MEMORY = (
    "could not create a primitive",
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "alloc_failed",
    "bad_alloc",
)


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


@contextmanager
def explaining_memory(run: str, device: str) -> Iterator[None]:
    """Raise FedatlasError with what to do where the memory of the machine or of a GPU runs out."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        first = str(error).splitlines()[0].rstrip(".") if str(error) else "no room"
        raise FedatlasError(
            f"{run}: ran out of memory on device '{device}': {first}. Give the job more memory "
            "(mem_mb), take a device with more, or lower batch_size or the numbers of clients"
        ) from None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the error says that memory ran out; torch need not be imported to know its own."""
    text = str(error).lower()
    of_torch = isinstance(error, RuntimeError) and any(sign in text for sign in _OUT_OF_MEMORY)
    return isinstance(error, MemoryError) or of_torch


def _place(run: str, error: BaseException | None) -> str:
    """The run, and the seed that the loop was training, of the error or what it stands for."""
    while error is not None:
        for note in getattr(error, "__notes__", ()):
            if note.startswith(_NOTE):
                return f"{run}, {note}"
        error = error.__context__
    return run
