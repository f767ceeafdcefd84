"""The training loop: every seed of one run, measured on a declared schedule, as one trace."""

import logging
import platform
import sys
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from tqdm import tqdm

from fedatlas import checkpoints
from fedatlas.algorithm import Algorithm
from fedatlas.closure import import_closure, source_digest, training_modules
from fedatlas.counters import Counters
from fedatlas.errors import FedatlasError
from fedatlas.files import canonical_json, file_digest, text_digest
from fedatlas.problems.engine import Engine, build_engine
from fedatlas.problems.horizontal import HorizontalProblem
from fedatlas.randomness import RoundRandom
from fedatlas.shards import read_shard
from fedatlas.simulation.network import StarNetwork
from fedatlas.specs import RunSpec
from fedatlas.traces import COSTS, MEASUREMENTS, build_trace, record_schedule, write_trace

log = logging.getLogger(__name__)

# Our choice: an objective this many times its first value (or 1) is taken for divergence.
DIVERGENCE_FACTOR = 1e3


@dataclass(frozen=True)
class CheckpointPolicy:
    """Where to keep checkpoints and how often to write one."""

    path: Path
    every_seconds: float


def train(
    spec: RunSpec,
    shard: Path,
    output: Path,
    device: str = "cpu",
    checkpoint: CheckpointPolicy | None = None,
) -> xr.Dataset:
    """Train all seeds of `spec` on one horizontal shard file and write the trace to `output`.

    device: "cpu", or a torch device such as "cuda"; "auto" is "cpu" here, where compiled loops
    over sparse rows beat a GPU's launch times.
    """
    algorithm = spec.build_algorithm()
    data = read_shard(shard)
    if data.clients != spec.partition.clients:
        raise FedatlasError(
            f"{shard}: holds {data.clients} clients, but {spec.name} expects "
            f"{spec.partition.clients}. Delete it and run again."
        )
    device = "cpu" if device == "auto" else device
    engine = build_engine(data, spec.objective, device)
    code = source_digest(import_closure(*training_modules(spec.algorithm)))
    shard_digest = file_digest(shard)
    warnings = _step_warnings(spec, algorithm, engine)

    run = _Run(spec, algorithm, engine, checkpoint, run_identity(spec, code, shard_digest))
    run.train()
    trace = run.trace(
        {
            "paper": spec.paper,
            "experiment": spec.experiment,
            "run": spec.run,
            "point": spec.point,
            "algorithm": spec.algorithm,
            "algorithm_title": algorithm.title,
            "algorithm_source": algorithm.source,
            "hyper_parameters": canonical_json(algorithm.model_dump(mode="json")),
            "effective_step_size": algorithm.effective_step_size,
            "specification": canonical_json(spec.model_dump(mode="json")),
            "warnings": canonical_json(warnings),
            "source_digest": code,
            "shard_digest": shard_digest,
            "device": device,
            "versions": canonical_json(_versions(device)),
        }
    )
    write_trace(trace, output)
    if checkpoint is not None:
        checkpoint.path.unlink(missing_ok=True)
    return trace


def run_identity(spec: RunSpec, code: str, shard_digest: str) -> str:
    """What a checkpoint must share with the run that continues it."""
    return text_digest(canonical_json([spec.model_dump(mode="json"), code, shard_digest]))


class _Run:
    """The growing records of one run; a checkpoint freezes all of it."""

    def __init__(
        self,
        spec: RunSpec,
        algorithm: Algorithm,
        engine: Engine,
        checkpoint: CheckpointPolicy | None,
        identity: str,
    ) -> None:
        self.spec = spec
        self.algorithm = algorithm
        self.engine = engine
        self.checkpoint = checkpoint
        self.identity = identity
        self.schedule = record_schedule(spec.rounds, spec.record_every)
        shape = (len(spec.seeds), len(self.schedule))
        self.variables = {name: np.full(shape, np.nan) for name in (*COSTS, *MEASUREMENTS)}
        self.status: list[str] = []
        self._saved = time.monotonic()

    def train(self) -> None:
        """Run all seeds, or what an earlier attempt left of them."""
        resumed = self._resume()
        self._warm_up()
        progress = _Progress(self.spec.name, self.spec.rounds * len(self.spec.seeds))
        for index in range(len(self.status), len(self.spec.seeds)):
            outcome = self._train_seed(index, resumed, progress)
            resumed = None
            self.status.append(outcome)
            log.info("%s: seed %d %s", self.spec.name, self.spec.seeds[index], outcome)
            self._save_if_due({}, None)
        progress.close()

    def _setting(self, counters: Counters) -> tuple[HorizontalProblem, StarNetwork]:
        """A problem and a network that count for one seed."""
        problem = HorizontalProblem(self.engine, counters)
        return problem, StarNetwork(problem.clients, counters)

    def _warm_up(self) -> None:
        """Two rounds for nothing: loading compiled code is not the method's time."""
        problem, network = self._setting(Counters())
        random = RoundRandom(self.spec.seeds[0])
        state = self.algorithm.start(problem, problem.zeros())
        for round_number in range(2):
            state = self.algorithm.round(state, problem, network, random.at(round_number))
            shape = tuple(getattr(getattr(state, "x", None), "shape", ()))
            if shape != (problem.dimension,):
                raise FedatlasError(
                    f"{self.spec.name}: {type(self.algorithm).__name__}.round must return a state "
                    f"whose x has the shape ({problem.dimension},); it returned "
                    f"{type(state).__name__} with x of shape {shape}"
                )

    def _train_seed(
        self,
        index: int,
        resumed: tuple[dict[str, Any], dict[str, np.ndarray]] | None,
        progress: "_Progress",
    ) -> str:
        header, arrays = resumed or ({}, {})
        counters = Counters(**header.get("counters", {}))
        problem, network = self._setting(counters)
        random = RoundRandom(self.spec.seeds[index])
        state = self.algorithm.start(problem, problem.zeros())
        first_record, wall_time = 0, 0.0
        if resumed is not None:
            first_record, wall_time = header["record"] + 1, header["wall_time"]
            state = checkpoints.restore_state(state, arrays, self.engine.array)
        for record in range(first_record, len(self.schedule)):
            previous = 0 if record == 0 else int(self.schedule[record - 1])
            began = time.perf_counter()
            # A diverging run overflows; that is found, and said, at the next record.
            with np.errstate(over="ignore", invalid="ignore"):
                for round_number in range(previous, int(self.schedule[record])):
                    state = self.algorithm.round(state, problem, network, random.at(round_number))
            measured = self.engine.numpy(state.x)  # waits for the device
            wall_time += time.perf_counter() - began
            progress.advance_to(index * self.spec.rounds + int(self.schedule[record]))
            healthy = np.isfinite(measured).all() and self._record(
                index, record, state.x, problem, counters, wall_time
            )
            if not healthy:
                return "diverged"
            position = {"record": record, "wall_time": wall_time, "counters": asdict(counters)}
            self._save_if_due(position, state)
        return "ok"

    def _record(
        self,
        index: int,
        record: int,
        x: Any,
        problem: HorizontalProblem,
        counters: Counters,
        wall_time: float,
    ) -> bool:
        """Fill one record; False, leaving it NaN, if the run has diverged."""
        measured = problem.measure(x)
        first = self.variables["objective"][index, 0] if record else measured["objective"]
        limit = DIVERGENCE_FACTOR * max(1.0, first)
        finite = np.isfinite([measured["objective"], measured["gradient_norm"]]).all()
        if not finite or measured["objective"] > limit:
            return False
        values: dict[str, float] = {
            "round": float(self.schedule[record]),
            "epoch": counters.gradient_evaluations / self.engine.samples,
            "wall_time": wall_time,
            **asdict(counters),
            **measured,
        }
        for name, value in values.items():
            self.variables[name][index, record] = value
        return True

    def _save_if_due(self, position: dict[str, Any], state: Any) -> None:
        """Freeze the finished seeds, and the one under way if its position and state are given."""
        if (
            self.checkpoint is None
            or time.monotonic() - self._saved <= self.checkpoint.every_seconds
        ):
            return
        arrays = {f"variable/{name}": values for name, values in self.variables.items()}
        if state is not None:
            frozen = checkpoints.state_arrays(state, self.engine.numpy)
            arrays |= {f"state/{name}": values for name, values in frozen.items()}
        header = {"status": self.status, **position}
        checkpoints.save(self.checkpoint.path, self.identity, header, arrays)
        self._saved = time.monotonic()

    def _resume(self) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
        """Take over finished seeds; header and state of the one that was under way, if any."""
        if self.checkpoint is None:
            return None
        found = checkpoints.load(self.checkpoint.path, self.identity)
        if found is None:
            return None
        header, arrays = found
        self.status = list(header["status"])
        for name in self.variables:
            self.variables[name] = arrays[f"variable/{name}"]
        if len(self.status) == len(self.spec.seeds):
            return None
        seed = self.spec.seeds[len(self.status)]
        if "record" not in header:
            log.info("%s: resuming with seed %d", self.spec.name, seed)
            return None
        done = self.schedule[header["record"]]
        log.info("%s: resuming seed %d after round %d", self.spec.name, seed, done)
        prefix = "state/"
        state = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
        return header, state

    def trace(self, attributes: dict[str, Any]) -> xr.Dataset:
        """The finished records as a trace."""
        return build_trace(self.variables, self.status, list(self.spec.seeds), attributes)


class _Progress:
    """A bar on a terminal, otherwise a plain line every tenth of the way."""

    def __init__(self, name: str, total: int) -> None:
        self._name, self._total, self._reported = name, total, 0
        self._bar = tqdm(total=total, desc=name, unit="round", disable=None, file=sys.stderr)

    def advance_to(self, done: int) -> None:
        self._bar.update(done - self._bar.n)
        tenth = 10 * done // self._total
        if self._bar.disable and tenth > self._reported:
            log.info("%s: %d of %d rounds", self._name, done, self._total)
            self._reported = tenth

    def close(self) -> None:
        self._bar.close()


def _step_warnings(spec: RunSpec, algorithm: Algorithm, engine: Engine) -> list[str]:
    # Without any curvature (all features 0) every step is covered.
    problem = HorizontalProblem(engine, Counters())
    bounds = algorithm.step_bounds(problem) if problem.smoothness else []
    warnings = [str(bound) for bound in bounds if bound.exceeded]
    for warning in warnings:
        log.warning("%s: %s", spec.name, warning)
    return warnings


def _versions(device: str) -> dict[str, str]:
    names = ["fedatlas", "numpy", "numba", "scipy", "pyarrow", "xarray"]
    if device != "cpu":
        names.append("torch")
    return {"python": platform.python_version()} | {name: version(name) for name in names}
