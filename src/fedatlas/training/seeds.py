"""Results of seeds: each file is named by the digest of what determines its numbers.

They follow from hyper-parameters, partition, shards, optimum, seed, rounds, records and code; not
from names, titles, papers, claims or other seeds. So nothing is trained twice: not after a run was
renamed, points or seeds were added, a curve stands in another experiment, or the folder was copied
from another machine or is shared with others. While a seed trains, its file is a checkpoint.

A file holds arrays, a JSON header and their digest, nothing executable. One that does not fit is
not used; the log says why.
"""

import hashlib
import json
import logging
import platform
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import threadpoolctl

from fedatlas.errors import FedatlasError, NotReadNowError, is_shortage
from fedatlas.federations.algorithm import Algorithm
from fedatlas.federations.context import FederationContext
from fedatlas.files import canonical_json, require_writable, text_digest, write_atomically
from fedatlas.interruption import Interruption
from fedatlas.schema.runs import RunSpec

_FORMAT = "fedatlas checkpoint 3"
#: Key of a header that only finished seeds have.
FINISHED = "status"
#: What a seed's numbers follow from, by name.
SEED_IDENTITY = ("specification", "source code", "shards", "optimum")
_HEADER = "header"
_DIGEST = "digest"
_DIGEST_LENGTH = 64

log = logging.getLogger(__name__)


def write_checkpoint(
    path: Path, identity: Mapping[str, str], header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """Write a checkpoint whole or not at all.

    identity: what the run's numbers depend on, by name. header: JSON data.
    """
    text = json.dumps({"format": _FORMAT, "identity": dict(identity), **header})
    own = {_HEADER: np.array(text), _DIGEST: np.array(content_digest(text, arrays))}
    with write_atomically(path) as temporary, temporary.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **own, **arrays)


def read_checkpoint(
    path: Path, identity: Mapping[str, str], environment: Mapping[str, str], *, quiet: bool = False
) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
    """Header and arrays of a whole file of this identity, or None.

    environment: what a checkpoint must share besides; a finished seed need not.
    If there is a file that is not used, a line in the log says why, unless quiet. NotReadNowError
    where memory runs out for a sound one, which training anew would overwrite.
    """
    if not path.exists():
        return None
    try:
        header, arrays = read_seed(path)
        needed = {**identity} if FINISHED in header else {**identity, **environment}
        if header["identity"] == needed:
            return header, arrays
        reason = f"it was made with {_changes(header['identity'], needed)}"
    except NotReadNowError:
        raise
    except FedatlasError:
        reason = "it is damaged, or no file of a seed"
    if not quiet:
        log.warning("%s: is not used, training starts anew: %s", path, reason)
    return None


def read_seed(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a seed's file, whatever run it is of; FedatlasError for a damaged one.

    A header has an `identity`; that of a result also has a status and how it was `made`.
    """
    try:
        arrays = _read_npz(path)
        text, digest = str(arrays.pop(_HEADER)), str(arrays.pop(_DIGEST))
        header: dict[str, Any] = json.loads(text)
        if header["format"] != _FORMAT or digest != content_digest(text, arrays):
            raise ValueError("another format or digest")
    except Exception as error:  # damage can make zipfile and numpy raise anything
        if is_shortage(error) and _is_sound(path):
            raise NotReadNowError(path, error) from error
        raise FedatlasError(f"{path}: is damaged, or no file of a seed") from error
    return header, arrays


def header_of(path: Path) -> dict[str, Any]:
    """The header of a seed's file, without its arrays, which may be damaged; empty of none."""
    try:
        with np.load(path, allow_pickle=False) as file:
            header: dict[str, Any] = json.loads(str(file[_HEADER]))
    except Exception:  # damage can make zipfile and numpy raise anything
        return {}
    return header if header.get("format") == _FORMAT else {}


def _is_sound(path: Path) -> bool:
    """Whether its parts have their checksums: damage can claim arrays that no memory holds."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except Exception as error:
        return is_shortage(error)


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file that `np.savez` wrote, if it promises no more bytes than it has."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
    if not stored or sum(member.file_size for member in members) > path.stat().st_size:
        raise ValueError("would unpack to more than it has")
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def content_digest(header: str, arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of a header and of names, types, shapes and values of arrays."""
    digest = hashlib.sha256(header.encode())
    for name, array in sorted(arrays.items()):
        kept = np.ascontiguousarray(array)
        digest.update(canonical_json([name, kept.dtype.str, array.shape]).encode())
        digest.update(kept.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _changes(saved: Mapping[str, str], identity: Mapping[str, str]) -> str:
    """What has changed, in words; digests are only named."""
    changed = [
        f"another {name}"
        if len(own) == _DIGEST_LENGTH
        else f"{name} {str(saved.get(name))[:40]!r} instead of {own!r}"
        for name, own in identity.items()
        if saved.get(name) != own
    ]
    return ", ".join(changed) or "more than is known"


def _within(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays below a prefix, which their names lose."""
    below = (name for name in arrays if name.startswith(prefix))
    return {name.removeprefix(prefix): arrays[name] for name in below}


_IN_HEADER = ("record", "round", "wall_time", "counters", "drawn")  # of a position


@dataclass(frozen=True)
class SeedPolicy:
    """The folder of results of seeds, and how often a seed that trains writes a checkpoint."""

    folder: Path
    every_seconds: float


@dataclass
class SeedResult:
    """The measurements of a seed.

    variables: (records,) each; NaN from where the seed diverged. status: "ok" or "diverged"; empty
    while it trains. made: device and versions that computed it, warnings, and `start`, a digest of
    its start if it drew no random number: then all seeds of this start have this result.
    """

    variables: dict[str, np.ndarray] = field(default_factory=dict)
    status: str = ""
    made: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Position:
    """The state of a seed between two rounds.

    record: the next one to fill. wall_time: seconds spent in rounds. counters: running totals.
    drawn: whether a random number was drawn.
    state: the method's arrays, see `state_arrays`.
    """

    record: int
    round: int
    wall_time: float
    counters: dict[str, Any]
    drawn: bool
    state: dict[str, np.ndarray]


def packed(
    result: SeedResult, position: Position | None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a seed's file: a result, or, with a position, where a seed stands."""
    arrays = {f"variable/{name}": values for name, values in result.variables.items()}
    if position is None:
        return {FINISHED: result.status, "made": result.made}, arrays
    arrays |= {f"state/{name}": values for name, values in position.state.items()}
    return {name: getattr(position, name) for name in _IN_HEADER}, arrays


def unpacked(
    header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> tuple[SeedResult, Position]:
    """The records and the position in the file of a seed that stands somewhere."""
    position = {name: header[name] for name in _IN_HEADER}
    records = SeedResult(_within("variable/", arrays))
    return records, Position(**position, state=_within("state/", arrays))


def seed_identity(
    spec: RunSpec,
    seed: int,
    hyper_parameters: Mapping[str, Any],
    code: str,
    shards: str,
    optimum: float | None,
) -> dict[str, str]:
    """The identity of a seed's numbers: a digest by each name of `SEED_IDENTITY`.

    hyper_parameters: of the method, with defaults. code, shards: digests. optimum: f*, if any.
    """
    values = {"hyper_parameters": dict(hyper_parameters)}
    specification = text_digest(canonical_json(spec.computed(seed) | values))
    of_each = specification, code, shards, text_digest(canonical_json(optimum))
    return dict(zip(SEED_IDENTITY, of_each, strict=True))


def seed_file(folder: Path, identity: Mapping[str, str]) -> Path:
    """The file for the seed of this identity in a folder of results."""
    digest = text_digest(canonical_json(dict(identity)), 40)
    return folder / digest[:2] / f"{digest[2:]}.npz"


def versions(context: FederationContext) -> dict[str, str]:
    """Versions of Python, the platform and the libraries that compute."""
    names = ["fedatlas", "numpy", "numba", "scipy", "pyarrow", "xarray"]
    if context.uses_torch:
        names.append("torch")
    # Mathematical libraries choose their instructions by the machine.
    machine = {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
    return machine | {name: _version(name) for name in names}


_version = cache(version)  # searched for among all that is installed


def environment(context: FederationContext) -> dict[str, str]:
    """What a resumed seed must share with its first attempt, besides its identity.

    Not the model of the processor or GPU: a preempted run may go on elsewhere.
    """
    # Sums are split over threads.
    pools = threadpoolctl.threadpool_info()
    threads = str(max((pool["num_threads"] for pool in pools), default=1))
    if context.uses_torch:
        import torch

        threads += f", torch {torch.get_num_threads()}"
    device = context.device.partition(":")[0]
    return versions(context) | {"device": device, "threads": threads}


class SeedFiles:
    """The files of a run's seeds; without a policy nothing is kept.

    found: results by seed. missing: seeds without a result.
    interruption: notes SIGTERM and SIGINT within its block; `save` then ends the process.
    """

    def __init__(
        self,
        policy: SeedPolicy | None,
        context: FederationContext,
        spec: RunSpec,
        algorithm: Algorithm,
        code: str,
        optima: Mapping[int, float],
    ) -> None:
        """code: digest of the code that computes the run. optima: f* by seed."""
        self.interruption = Interruption()
        self.policy, self._name = policy, spec.name
        self._saved = time.monotonic()
        values, shards = algorithm.model_dump(mode="json"), context.shard_digests

        def identities(spec: RunSpec) -> dict[int, dict[str, str]]:
            return {
                seed: seed_identity(spec, seed, values, code, shards[seed], optima.get(seed))
                for seed in spec.seeds
            }

        self._identities = identities(spec)
        self._environment = environment(context) if policy else {}
        #: What seeds' numbers follow from but for how long they train, with the environment.
        self.courses = {
            seed: own | self._environment for seed, own in identities(spec.of_any_length).items()
        }
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
        identity = self._identities[seed] | ({} if position is None else self._environment)
        write_checkpoint(self._file(seed), identity, *packed(result, position))
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
            loaded = read_checkpoint(self._file(seed), own, self._environment, quiet=quiet)
        if loaded is None:
            return self.found.get(seed, SeedResult()), None
        header, arrays = loaded
        if FINISHED not in header:
            return unpacked(header, arrays)
        result = SeedResult(_within("variable/", arrays), header[FINISHED], header["made"])
        self.found[seed] = result
        return result, None

    def _file(self, seed: int) -> Path:
        assert self.policy is not None
        return seed_file(self.policy.folder, self._identities[seed])

    def require_writable(self) -> None:
        """Fail now rather than at the first checkpoint."""
        if self.policy is not None and self.missing:
            require_writable(self._file(self.missing[0]))


def differing_versions(made: Sequence[Mapping[str, Any]], seeds: Sequence[int]) -> list[str]:
    """Warnings of seeds that other versions or devices computed than the last of `seeds`."""
    by = [f"{canonical_json(one['versions'])} on {one['device']}" for one in made]
    others: dict[str, list[str]] = {}
    for seed, own in zip(seeds, by, strict=True):
        if own != by[-1]:
            others.setdefault(own, []).append(str(seed))
    return [f"the seeds {', '.join(some)} were trained with {own}" for own, some in others.items()]
