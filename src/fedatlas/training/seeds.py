"""Results of seeds: each lies in a file named by the digest of what its numbers follow from.

They follow from hyper-parameters, partition, shards, optimum, seed, rounds, records and code; not
from names, titles, papers, claims or other seeds. So nothing is trained twice: not after a run was
renamed, points or seeds were added, a curve stands in another experiment, or the folder was copied
from another machine or is shared with others. While a seed trains, its file is a checkpoint.
"""

import logging
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import threadpoolctl

from fedatlas.federations.algorithm import Algorithm
from fedatlas.federations.context import FederationContext
from fedatlas.files import canonical_json, require_writable, text_digest
from fedatlas.interruption import Interruption
from fedatlas.schema.runs import RunSpec
from fedatlas.training import checkpoints

log = logging.getLogger(__name__)

_IN_HEADER = ("record", "round", "wall_time", "counters", "drawn")  # of a position


@dataclass(frozen=True)
class SeedPolicy:
    """The folder of results of seeds, and how often a seed that trains writes a checkpoint."""

    folder: Path
    every_seconds: float


@dataclass
class SeedResult:
    """What a seed has measured.

    variables: (records,) each; NaN from where the seed diverged. status: "ok" or "diverged"; empty
    while it trains. made: device and versions that computed it, warnings, and `start`, a digest of
    its start if it drew no random number: then all seeds of this start have this result.
    """

    variables: dict[str, np.ndarray] = field(default_factory=dict)
    status: str = ""
    made: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Position:
    """Where a seed stands between two rounds.

    record: the next one to fill. wall_time: seconds spent in rounds. counters: running totals.
    drawn: whether a random number was drawn.
    state: the method's arrays, see `checkpoints.state_arrays`.
    """

    record: int
    round: int
    wall_time: float
    counters: dict[str, Any]
    drawn: bool
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


def versions(setting: FederationContext) -> dict[str, str]:
    """Versions of Python, the platform and the libraries that compute."""
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


def environment(setting: FederationContext) -> dict[str, str]:
    """What a resumed seed must share with its first attempt, besides its identity.

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


class SeedFiles:
    """The files of a run's seeds; without a policy nothing is kept.

    found: results by seed. missing: seeds without a result.
    interruption: notes SIGTERM and SIGINT within its block; `save` then ends the process.
    """

    def __init__(
        self,
        policy: SeedPolicy | None,
        setting: FederationContext,
        spec: RunSpec,
        algorithm: Algorithm,
        code: str,
        optima: Mapping[int, float],
    ) -> None:
        """code: digest of the code that computes the run. optima: f* by seed."""
        self.interruption = Interruption()
        self.policy, self._name = policy, spec.name
        self._saved = time.monotonic()
        values = {"hyper_parameters": algorithm.model_dump(mode="json")}  # with defaults
        self._identities = {
            seed: {
                "specification": text_digest(canonical_json(spec.computed(seed) | values)),
                "source code": code,
                "shards": setting.shard_digests[seed],
                "optimum": text_digest(canonical_json(optima.get(seed))),
            }
            for seed in spec.seeds
        }
        self._environment = environment(setting) if policy else {}
        self.found: dict[int, SeedResult] = {}
        for seed in spec.seeds:
            self.resume(seed, quiet=True)
        self.missing = [seed for seed in spec.seeds if seed not in self.found]

    @property
    def is_due(self) -> bool:
        """Whether a checkpoint should be written at the next whole round."""
        if self.policy is None:
            return False
        waited = time.monotonic() - self._saved
        return waited > self.policy.every_seconds or self.interruption.asked is not None

    def save(self, seed: int, result: SeedResult, position: Position | None = None) -> None:
        """Write the seed's result, or, with a position, a checkpoint.

        Ends the process if that was asked for.
        """
        if position is None:
            self.found[seed] = result
        if self.policy is None:
            return
        arrays = {f"variable/{name}": values for name, values in result.variables.items()}
        header: dict[str, Any] = {}
        identity = self._identities[seed]
        if position is None:
            header |= {checkpoints.FINISHED: result.status, "made": result.made}
        else:
            identity = identity | self._environment
            arrays |= {f"state/{name}": values for name, values in position.state.items()}
            header |= {name: getattr(position, name) for name in _IN_HEADER}
        checkpoints.save(self._file(seed), identity, header, arrays)
        self._saved = time.monotonic()
        if self.interruption.asked is not None and len(self.found) < len(self._identities):
            log.info(
                "%s: %s: ends after %d seeds and %d rounds, kept in %s; the same command resumes",
                *(self._name, self.interruption.asked, len(self.found)),
                *(0 if position is None else position.round, self.policy.folder),
            )
            self.interruption.end()

    def resume(self, seed: int, *, quiet: bool = False) -> tuple[SeedResult, Position | None]:
        """The seed's result, or the records and the position of an earlier attempt, if any.

        The file is read anew each time: another process may have trained the seed meanwhile.
        If it is not used, the log says why, unless quiet.
        """
        loaded = None
        if self.policy is not None and seed not in self.found:
            own = self._identities[seed]
            loaded = checkpoints.load(self._file(seed), own, self._environment, quiet=quiet)
        if loaded is None:
            return self.found.get(seed, SeedResult()), None
        header, arrays = loaded
        result = SeedResult(checkpoints.within("variable/", arrays))
        if checkpoints.FINISHED in header:
            result.status, result.made = header[checkpoints.FINISHED], header["made"]
            self.found[seed] = result
            return result, None
        position = {name: header[name] for name in _IN_HEADER}
        return result, Position(**position, state=checkpoints.within("state/", arrays))

    def _file(self, seed: int) -> Path:
        assert self.policy is not None
        digest = text_digest(canonical_json(self._identities[seed]), 40)
        return self.policy.folder / digest[:2] / f"{digest[2:]}.npz"

    def require_writable(self) -> None:
        """Fail now rather than at the first checkpoint."""
        if self.policy is not None and self.missing:
            require_writable(self._file(self.missing[0]))


def differing_versions(results: Mapping[int, SeedResult], seeds: Sequence[int]) -> list[str]:
    """Warnings of seeds that other versions or devices computed than the last of `seeds`."""
    last = results[seeds[-1]].made
    others: dict[str, list[int]] = {}
    for seed in seeds:
        made = results[seed].made
        if any(made.get(name) != last.get(name) for name in ("versions", "device")):
            by = f"{canonical_json(made.get('versions'))} on {made.get('device')}"
            others.setdefault(by, []).append(seed)
    return [
        f"the seeds {', '.join(map(str, some))} were trained with {by}"
        for by, some in others.items()
    ]
