"""Whose failure it is: what a job of several runs raises names the run, and its seed if known."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from fedatlas.errors import FedatlasError
from fedatlas.extensions import place_told

# Where the loop trains a seed, with its variables. It tells no one which seed that is, and is not
# edited for messages: traces are made anew when its code changes.
_LOOP, _OF_A_SEED = "fedatlas.training.loop", "_train_seed"


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
        told = place_told(error) or f"{type(error).__name__}: {error}".removesuffix(": ")
        raise RunFailedError(f"{_place(run, error)}: {told}") from error


def _place(run: str, error: BaseException) -> str:
    seed = _seed(error)
    return run if seed is None else f"{run}, seed {seed}"


def _seed(error: BaseException | None) -> int | None:
    """The seed that the loop was training when the error, or what it stands for, was raised."""
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if (frame.f_globals.get("__name__"), frame.f_code.co_name) == (_LOOP, _OF_A_SEED):
                seed: int = frame.f_locals["self"].spec.seeds[frame.f_locals["index"]]
                return seed
        error = error.__context__
    return None
