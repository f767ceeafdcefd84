"""Steps from shards to traces; see `fedatlas.steps`."""

import logging
import os
from pathlib import Path

from fedatlas.files import date_to_now
from fedatlas.schema.config import DEVICE_VARIABLE, SEEDS_VARIABLE
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.runs import Points

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

    told = os.environ
    kept = seeds or (Path(told[SEEDS_VARIABLE]) if told.get(SEEDS_VARIABLE) else results / "seeds")
    train_points(
        points.specs,
        results,
        kept,
        device=device or told.get(DEVICE_VARIABLE, "auto"),
        checkpoint_every=checkpoint_every or float(told.get("FEDATLAS_CHECKPOINT_EVERY", "60")),
    )
    # The clock may have been set back meanwhile.
    date_to_now(file for pattern in _INPUTS for file in results.glob(pattern))
