"""Steps from shards to traces; see `fedatlas.steps`."""

import logging
import os
from pathlib import Path
from typing import Any

from fedatlas.errors import FedatlasError
from fedatlas.files import date_to_now
from fedatlas.schema.config import DEVICE_VARIABLE, SEEDS_VARIABLE
from fedatlas.schema.models import read_json
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.runs import Points, RunSpec

log = logging.getLogger(__name__)

# What training reads, below the folder of results.
_INPUTS = ("shards/*/*/*/*.json", "optima/*/*/*/*.json", "experiments/*/*.json")


def find_optimum(rows: list[Path], objective: LinearObjective, output: Path) -> None:
    """Find an objective's optimum on pooled training rows, from the files of all parties."""
    from fedatlas.federations.vertical.shards import read_party_shards
    from fedatlas.training.optimum import write_optimum
    from fedatlas.training.solver import solve

    _, found = solve(read_party_shards(rows).train, objective)
    write_optimum(found, output)
    log.info("%s", found)


def train_run(
    points: Points,
    results: Path,
    device: str | None = None,
    seeds: Path | None = None,
    checkpoint_every: float | None = None,
) -> None:
    """Train points of an experiment in one process; seeds that have results are not trained again.

    results: the folder of results, which holds what they read and gets their traces. device: auto,
    cpu, cuda or cuda:N; by default FEDATLAS_DEVICE, or auto. seeds: the folder of results of seeds
    and of checkpoints; by default FEDATLAS_SEEDS, or that below results. checkpoint_every: seconds
    between checkpoints; by default FEDATLAS_CHECKPOINT_EVERY, or 60.
    """
    from fedatlas.training.points import train_points

    shared = os.environ.get(SEEDS_VARIABLE)
    kept = seeds or (Path(shared) if shared else results / "seeds")
    train_points(points.specs, results, kept, **_where(device, checkpoint_every))
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
    from fedatlas.training.failing import explaining_memory, naming_run
    from fedatlas.training.loop import train
    from fedatlas.training.rehearsal import rehearse
    from fedatlas.training.seeds import SeedPolicy

    if (tuning is None) != (spec.tuned_in is None):
        raise FedatlasError(
            f"{spec.name}: is tuned in {spec.tuned_in or 'no other experiment'}: "
            f"{'remove' if tuning else 'give'} 'tuning'"
        )
    if tuning is not None:
        spec = spec.tuned(read_json(tuning))
    where = _where(device, checkpoint_every)
    policy = SeedPolicy(seeds, where["checkpoint_every"]) if seeds else None
    with naming_run(spec.name):
        rehearse(spec, shards)
        with explaining_memory(spec.name, where["device"]):
            train(spec, shards, output, optima=optima, device=where["device"], seeds=policy)


def _where(device: str | None, checkpoint_every: float | None) -> dict[str, Any]:
    """Both as they are given, else as the environment says."""
    if checkpoint_every is None:
        checkpoint_every = float(os.environ.get("FEDATLAS_CHECKPOINT_EVERY", "60"))
    device = device or os.environ.get(DEVICE_VARIABLE, "auto")
    return {"device": device, "checkpoint_every": checkpoint_every}
