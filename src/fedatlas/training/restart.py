"""When a run's checkpoints are written, and what a resumed run takes over from one."""

import logging
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import threadpoolctl

from fedatlas.federations.setting import Setting
from fedatlas.files import canonical_json, text_digest
from fedatlas.interruption import Interruption
from fedatlas.schema.runs import RunSpec
from fedatlas.training import checkpoints

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CheckpointPolicy:
    """Where to keep checkpoints and how often to write one."""

    path: Path
    every_seconds: float


@dataclass
class Records:
    """What a run has measured. variables: (seeds, records) each. status: of finished seeds."""

    variables: dict[str, np.ndarray] = field(default_factory=dict)
    status: list[str] = field(default_factory=list)


_IN_HEADER = ("record", "round", "wall_time", "counters")  # of a position


@dataclass(frozen=True)
class Position:
    """Where a seed stands between two rounds.

    record: the next one to fill. wall_time: seconds spent in rounds. counters: running totals.
    state: the method's arrays, see `checkpoints.state_arrays`.
    """

    record: int
    round: int
    wall_time: float
    counters: dict[str, Any]
    state: dict[str, np.ndarray]


def trace_identity(
    spec: RunSpec, code: str, shards: Mapping[int, str], optima: Mapping[int, float]
) -> dict[str, str]:
    """What a run's numbers depend on, as attributes of its trace.

    shards: digests by seed. optima: f* by seed.
    """
    return {
        "specification": canonical_json(spec.model_dump(mode="json")),
        "source_digest": code,
        "shard_digests": canonical_json({str(seed): digest for seed, digest in shards.items()}),
        "optima": canonical_json({str(seed): value for seed, value in optima.items()}),
    }


def run_identity(trace: Mapping[str, str]) -> dict[str, str]:
    """What a checkpoint must share with the run that continues it, besides the environment.

    trace: the identity of the run's trace.
    """
    return {
        "specification": text_digest(trace["specification"]),
        "source code": trace["source_digest"],
        "shards": text_digest(trace["shard_digests"]),
        "optima": text_digest(trace["optima"]),
    }


def versions(setting: Setting) -> dict[str, str]:
    """Of Python, the platform and the libraries that compute."""
    names = ["fedatlas", "numpy", "numba", "scipy", "pyarrow", "xarray"]
    if setting.uses_torch:
        names.append("torch")
    # Mathematical libraries choose their instructions by the machine.
    machine = {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
    return machine | {name: _version(name) for name in names}


_version = cache(version)  # searched for among all that is installed


def environment(setting: Setting) -> dict[str, str]:
    """What a resumed run must share with its first attempt, besides its identity.

    Not the model of the processor or GPU: a preempted run may go on elsewhere.
    """
    # Sums are split over threads.
    pools = threadpoolctl.threadpool_info()
    threads = str(max((pool["num_threads"] for pool in pools), default=1))
    if setting.uses_torch:
        import torch

        threads += f", torch {torch.get_num_threads()}"
    device = setting.device.partition(":")[0]
    return versions(setting) | {"device": device, "threads": threads}


class Restart:
    """The checkpoints of one run; without a policy there are none.

    interruption: notes SIGTERM and SIGINT within its block; `save` then ends the process.
    """

    def __init__(
        self,
        policy: CheckpointPolicy | None,
        identity: Mapping[str, str],
        spec: RunSpec,
        setting: Setting,
    ) -> None:
        """identity: what the run's numbers depend on, by name."""
        self.interruption = Interruption()
        self._policy, self._identity = policy, identity
        self._spec, self._setting = spec, setting
        self._saved = time.monotonic()

    @property
    def is_due(self) -> bool:
        """Whether a checkpoint should be written at the next whole round."""
        if self._policy is None:
            return False
        waited = time.monotonic() - self._saved
        return waited > self._policy.every_seconds or self.interruption.asked is not None

    def save(self, records: Records, position: Position | None) -> None:
        """Write the finished seeds and the one under way; end the process if that was asked for."""
        assert self._policy is not None
        arrays = {f"variable/{name}": values for name, values in records.variables.items()}
        header: dict[str, Any] = {"status": records.status}
        if position is not None:
            arrays |= {f"state/{name}": values for name, values in position.state.items()}
            header |= {name: getattr(position, name) for name in _IN_HEADER}
        if self._setting.engine.memory is not None:
            header["memory"] = self._setting.engine.memory.state
        checkpoints.save(self._policy.path, self._identity, header, arrays)
        self._saved = time.monotonic()
        if self.interruption.asked is not None:
            log.info(
                "%s: %s: ends after %d seeds and %d rounds, kept in %s; the same command resumes",
                *(self._spec.name, self.interruption.asked, len(records.status)),
                *(0 if position is None else position.round, self._policy.path),
            )
            self.interruption.end()

    def resume(self) -> tuple[Records, Position | None]:
        """An earlier attempt's records, and the position of its unfinished seed, if any."""
        found = checkpoints.load(self._policy.path, self._identity) if self._policy else None
        if found is None:
            return Records(), None
        header, arrays = found
        records = Records(checkpoints.within("variable/", arrays), list(header["status"]))
        if self._setting.engine.memory is not None:
            self._setting.engine.memory.restore(header.get("memory", {}))
        if len(records.status) == len(self._spec.seeds):
            return records, None
        seed = self._spec.seeds[len(records.status)]
        if "record" not in header:
            log.info("%s: resuming with seed %d", self._spec.name, seed)
            return records, None
        log.info("%s: resuming seed %d after round %d", self._spec.name, seed, header["round"])
        position = {name: header[name] for name in _IN_HEADER}
        return records, Position(**position, state=checkpoints.within("state/", arrays))

    def discard(self) -> None:
        """Remove the checkpoint of a run whose trace is complete."""
        if self._policy is not None:
            self._policy.path.unlink(missing_ok=True)
