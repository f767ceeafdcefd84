"""Steps from shards to traces; see `fedatlas.steps`."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fedatlas.errors import FedatlasError, RunFailedError, first_line, shortage_in
from fedatlas.extensions import describe_place
from fedatlas.files import canonical_json, date_to_now, require_writable
from fedatlas.schema.config import DEVICE_VARIABLE, SEEDS_VARIABLE
from fedatlas.schema.models import read_json
from fedatlas.schema.runs import Points, RunSpec

log = logging.getLogger(__name__)

# What the training loop notes of errors within a seed, before its number.
_NOTE = "seed "

# What training reads, below the folder of results.
_INPUTS = ("shards/*/*/*/*.json", "optima/*/*/*/*.json", "experiments/*/*.json")
# What a context does not depend on.
_OF_THE_METHOD = {
    "paper",
    "experiment",
    "run",
    "point",
    "algorithm",
    "hyper_parameters",
    "tuned_in",
}


def train_run(
    points: Points,
    results: Path,
    device: str | None = None,
    seeds: Path | None = None,
    checkpoint_every: float | None = None,
) -> None:
    """Train points of an experiment in one process that reads, compiles and loads once.

    Seeds that have results are not trained again. Before a method trains it is rehearsed, once for
    its code and options; see `rehearsal`. What is raised names the run that failed.

    results: the folder of results, which holds what they read and gets their traces. device: auto,
    cpu, cuda, cuda:N or cuda/M; by default FEDATLAS_DEVICE, or auto. seeds: the folder of results
    of seeds and of checkpoints; by default FEDATLAS_SEEDS, or that below results. checkpoint_every:
    seconds between checkpoints; by default FEDATLAS_CHECKPOINT_EVERY, or 60.
    """
    from fedatlas.federations.context import FederationContext
    from fedatlas.training.loop import train
    from fedatlas.training.rehearsal import rehearse_once

    device = device or os.environ.get(DEVICE_VARIABLE, "auto")
    kept = seeds or Path(os.environ.get(SEEDS_VARIABLE) or results / "seeds")
    policy = seed_policy(kept, checkpoint_every)
    context, opened = None, ""
    for number, spec in enumerate(points.specs, 1):
        with naming_run(spec.name, device):
            # The last such line says which run a job that was killed was at.
            log.info("%s: run %d of %d of this job", spec.name, number, len(points.specs))
            if spec.tuned_in is not None:
                selection = results / "experiments" / spec.tuned_in / "selection.json"
                spec = spec.tuned(read_json(selection))
            trace = spec.trace_file(results)
            require_writable(trace)
            shards, optima = (
                results / name / spec.dataset / spec.split for name in ("shards", "optima")
            )
            shared = canonical_json(spec.model_dump(mode="json", exclude=_OF_THE_METHOD))
            if context is None or opened != shared:
                context = None  # before the next is read: memory holds one
                context, opened = FederationContext(spec, shards, device), shared
            rehearse_first = partial(rehearse_once, spec, shards, results / "rehearsals")
            train(
                spec, shards, trace,
                optima=optima, seeds=policy, context=context, before=rehearse_first,
            )  # fmt: skip
    # The clock may have been set back meanwhile.
    date_to_now(file for pattern in _INPUTS for file in results.glob(pattern))


def train_alone(
    spec: RunSpec,
    shards: Path,
    output: Path,
    optima: Path | None = None,
    tuning: Path | None = None,
    device: str | None = None,
    seeds: Path | None = None,
    checkpoint_every: float | None = None,
) -> None:
    """Rehearse a run's method, train the run's seeds that have no result, write its trace.

    spec: as `fedatlas spec` prints it. shards, optima: folders of the split's partitions and, if f*
    is needed, optima. tuning: the selection record of the experiment in which the run is tuned.
    seeds: the folder of results of seeds and of checkpoints, if any are to be kept. device,
    checkpoint_every: see `train_run`.
    """
    from fedatlas.training.loop import train
    from fedatlas.training.rehearsal import rehearse

    if (tuning is None) != (spec.tuned_in is None):
        raise FedatlasError(
            f"{spec.name}: is tuned in {spec.tuned_in or 'no other experiment'}: "
            f"{'remove' if tuning else 'give'} 'tuning'"
        )
    if tuning is not None:
        spec = spec.tuned(read_json(tuning))
    device = device or os.environ.get(DEVICE_VARIABLE, "auto")
    policy = seed_policy(seeds, checkpoint_every) if seeds else None
    with naming_run(spec.name, device):
        rehearse(spec, shards)
        train(spec, shards, output, optima=optima, device=device, seeds=policy)


def seed_policy(folder: Path, checkpoint_every: float | None = None) -> Any:
    """Checkpoints in this folder so often, by default as the environment or a minute says."""
    from fedatlas.training.seeds import SeedPolicy

    if checkpoint_every is None:
        checkpoint_every = float(os.environ.get("FEDATLAS_CHECKPOINT_EVERY", "60"))
    return SeedPolicy(folder, checkpoint_every)


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
        if short := shortage_in(error):
            raise FedatlasError(
                f"{place}: ran out of memory on device '{device}': {first_line(short)}. Give the "
                "job more memory (mem_mb), take a device with more, or lower batch_size or the "
                "numbers of clients"
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
