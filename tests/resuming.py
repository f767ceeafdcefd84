"""Trainings that are killed right after a checkpoint, and resumed."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import xarray as xr

from fedatlas.schema.runs import RunSpec
from fedatlas.training import seeds
from fedatlas.training.loop import train
from fedatlas.training.seeds import SeedPolicy


class Killed(Exception):
    """In place of SIGKILL."""


def train_until_killed(
    after: int, spec: RunSpec, shards: Path, output: Path, policy: SeedPolicy, **options: Any
) -> None:
    """Ends after so many checkpoints, without a trace."""
    save, saved = seeds.write_checkpoint, []

    def save_then_die(*arguments: Any) -> None:
        save(*arguments)
        saved.append(1)
        if len(saved) == after:
            raise Killed

    with patch.object(seeds, "write_checkpoint", save_then_die), pytest.raises(Killed):
        train(spec, shards, output, seeds=policy, **options)
    assert files_of(policy) and not output.exists()


def files_of(policy: SeedPolicy) -> list[Path]:
    """The files of seeds, results and checkpoints; not those that are being written."""
    return sorted(policy.folder.glob("*/[!.]*.npz"))


def killed_and_resumed(
    kills: Sequence[int], spec: RunSpec, shards: Path, folder: Path
) -> xr.Dataset:
    """The trace of a run each of whose attempts, but for the last, was killed after so many
    checkpoints. One is written after every round, at round 0, and at the end of a seed.
    """
    policy = SeedPolicy(folder / "seeds", every_seconds=-1.0)
    for after in kills:
        train_until_killed(after, spec, shards, folder / "resumed.nc", policy)
    resumed = train(spec, shards, folder / "resumed.nc", seeds=policy)
    (folder / "resumed.nc").unlink()
    assert len(files_of(policy)) == len(spec.seeds)
    shutil.rmtree(policy.folder)
    return resumed


def without_times(trace: xr.Dataset) -> xr.Dataset:
    """A trace without what a clock says."""
    return trace.drop_vars("wall_time")
