"""The training loop: every seed of one run, measured on a declared schedule, as one trace."""

import logging
import platform
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import threadpoolctl
import xarray as xr
from tqdm import tqdm

from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.algorithm import Algorithm
from fedatlas.federations.setting import Setting, Trial, open_setting
from fedatlas.files import canonical_json, require_writable, text_digest
from fedatlas.interruption import Interruption
from fedatlas.plan.closure import code_digest
from fedatlas.schema.runs import RunSpec
from fedatlas.traces.trace import build_trace, record_schedule, values_digest, write_trace
from fedatlas.training import checkpoints
from fedatlas.training.optimum import read_optimum

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
    shards: Path,
    output: Path,
    *,
    optima: Path | None = None,
    device: str = "cpu",
    checkpoint: CheckpointPolicy | None = None,
) -> xr.Dataset:
    """Train all seeds of `spec` and write the trace to `output`.

    shards: the folder of the data set's split, in which every partition has a folder by its slug;
    optima: the same for optima, needed where sub-optimality is measured.
    device: "auto", "cpu", or a torch device such as "cuda".
    While it trains with a checkpoint, SIGTERM and SIGINT wait until one of what is done is written.
    """
    for path in (output, checkpoint.path) if checkpoint else (output,):
        require_writable(path)
    algorithm = spec.build_algorithm()
    setting = open_setting(spec, shards, device)
    best = read_optima(spec, optima)
    code = code_digest(*spec.code)
    rehearsal = setting.trial(spec.seeds[0])
    warnings = _warnings(spec, algorithm, rehearsal.problem, setting)

    identity = run_identity(spec, code, setting.data_digest, best) | _environment(setting)
    run = _Run(spec, algorithm, setting, best, checkpoint, identity)
    resumed = run.resume()
    run.warm_up(rehearsal)
    # Without a checkpoint there is nothing to wait for. With one, a signal after the last round
    # comes too late: the trace is written.
    with run.interruption if checkpoint else nullcontext():
        run.train(resumed)
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
                "privacy_statement": algorithm.privacy_statement,
                "specification": canonical_json(spec.model_dump(mode="json")),
                "warnings": canonical_json(warnings + _of_memory(setting)),
                "source_digest": code,
                "shard_digest": setting.data_digest,
                "optima": canonical_json({str(seed): value for seed, value in best.items()}),
                "device": setting.device,
                "versions": canonical_json(
                    _versions(setting.uses_torch) | dict(setting.accelerator)
                ),
            }
        )
        trace.attrs["values_digest"] = values_digest(trace.variables)
        write_trace(trace, output)
        if checkpoint is not None:
            checkpoint.path.unlink(missing_ok=True)
    return trace


def read_optima(spec: RunSpec, folder: Path | None) -> dict[int, float]:
    """f* of every trial, by seed; empty where sub-optimality is not measured.

    folder: that of the split's optima.
    """
    if spec.optimum and folder is None:
        raise FedatlasError(f"{spec.name}: measures sub-optimality: give --optima, too")
    files = {seed: spec.optimum_file(folder or Path(), seed) for seed in spec.seeds}
    read = {file: read_optimum(file).objective for file in set(files.values()) if file}
    return {seed: read[file] for seed, file in files.items() if file}


def run_identity(
    spec: RunSpec, code: str, shard_digest: str, optima: Mapping[int, float] | None = None
) -> dict[str, str]:
    """What a checkpoint must share with the run that continues it, besides the environment."""
    best = sorted((optima or {}).items())
    return {
        "specification": text_digest(canonical_json(spec.model_dump(mode="json"))),
        "source code": code,
        "shards": shard_digest,
        "optima": text_digest(canonical_json(best)),
    }


class _Run:
    """The growing records of one run; a checkpoint freezes all of it."""

    def __init__(
        self,
        spec: RunSpec,
        algorithm: Algorithm,
        setting: Setting,
        optima: Mapping[int, float],
        checkpoint: CheckpointPolicy | None,
        identity: Mapping[str, str],
    ) -> None:
        self.spec = spec
        self.algorithm = algorithm
        self.setting = setting
        self.optima = optima
        self.checkpoint = checkpoint
        self.identity = identity
        self.schedule = record_schedule(spec.rounds, spec.record_every)
        budgets = {}
        if setting.exposure is not None:
            budgets = algorithm.budgets(setting.exposure, spec.rounds)
        self.budget = next(iter(budgets.values()), None)
        self.variables: dict[str, np.ndarray] = {}  # as they are first recorded
        self.status: list[str] = []
        self.interruption = Interruption()
        self._saved = time.monotonic()

    def train(self, resumed: tuple[dict[str, Any], dict[str, np.ndarray]] | None) -> None:
        """Run all seeds, or what an earlier attempt left of them; resumed: of `resume`."""
        progress = _Progress(self.spec.name, self.spec.rounds_of_all_seeds)
        for index in range(len(self.status), len(self.spec.seeds)):
            outcome = self._train_seed(index, resumed, progress)
            resumed = None
            self.status.append(outcome)
            log.info("%s: seed %d %s", self.spec.name, self.spec.seeds[index], outcome)
            if self._is_due():
                self._save({}, {})
        progress.close()

    def warm_up(self, trial: Trial) -> None:
        """Two rounds for nothing: loading compiled code is not the method's time.

        trial: is used up.
        """
        problem, network = trial.problem, trial.network
        random = RoundRandom(self.spec.seeds[0])
        state = self.algorithm.start(problem, network, trial.x0)
        for round_number in range(2):
            state = self.algorithm.round(state, problem, network, random.at(round_number))
            point = self.algorithm.point(state, network)
            given, expected = (_shapes(value) for value in (point, trial.x0))
            if given != expected:
                raise FedatlasError(
                    f"{self.spec.name}: {type(self.algorithm).__name__}.point must have the shape "
                    f"of the start, {expected}; it gave {type(point).__name__} of shape {given}"
                )

    def _train_seed(
        self,
        index: int,
        resumed: tuple[dict[str, Any], dict[str, np.ndarray]] | None,
        progress: "_Progress",
    ) -> str:
        header, arrays = resumed or ({}, {})
        trial = self.setting.trial(self.spec.seeds[index])
        problem, network = trial.problem, trial.network
        random = RoundRandom(self.spec.seeds[index])
        state = self.algorithm.start(problem, network, trial.x0)
        first_record, done, wall_time = 0, 0, 0.0
        if resumed is not None:
            first_record, done, wall_time = (header[k] for k in ("record", "round", "wall_time"))
            state = checkpoints.restore_state(state, arrays, self.setting.array)
            # After the start, which has counted what it did.
            vars(trial.counters).update(header["counters"])

        def position(record: int) -> dict[str, Any]:
            counted = asdict(trial.counters)
            return {"record": record, "round": done, "wall_time": wall_time, "counters": counted}

        for record in range(first_record, len(self.schedule)):
            until = int(self.schedule[record])
            began = time.perf_counter()
            # A diverging run overflows; that is found, and said, at the next record.
            with np.errstate(over="ignore", invalid="ignore"):
                while done < until:
                    state = self.algorithm.round(state, problem, network, random.at(done))
                    done += 1
                    if done < until and self._is_due():  # a record may take hours
                        frozen = self._frozen(state)  # waits for the device, too
                        wall_time += time.perf_counter() - began
                        self._save(position(record), frozen)
                        began = time.perf_counter()
            point = self.algorithm.point(state, network)
            # Waits for the device, too.
            finite = all(np.isfinite(self.setting.numpy(array)).all() for array in _arrays(point))
            wall_time += time.perf_counter() - began
            progress.advance_to(index * self.spec.rounds + until)
            healthy = finite and self._record(index, record, trial, point, wall_time)
            if not healthy:
                return "diverged"
            if self._is_due():
                self._save(position(record + 1), self._frozen(state))
        return "ok"

    def _record(self, index: int, record: int, trial: Trial, point: Any, wall_time: float) -> bool:
        """Fill one record; False, leaving it NaN, if the run has diverged."""
        measured = trial.problem.measure(point)
        if self.optima:
            best = self.optima[self.spec.seeds[index]]
            measured["suboptimality"] = measured["objective"] - best
        first = self.variables["objective"][index, 0] if record else measured["objective"]
        limit = DIVERGENCE_FACTOR * max(1.0, first)
        finite = np.isfinite([measured.get(name, 0.0) for name in ("objective", "gradient_norm")])
        if not finite.all() or measured["objective"] > limit:
            return False
        values: dict[str, float] = {
            "round": float(self.schedule[record]),
            "epoch": trial.counters.gradient_evaluations / trial.samples,
            "wall_time": wall_time,
            **asdict(trial.counters),
            **self._spent(int(self.schedule[record])),
            **measured,
        }
        shape = (len(self.spec.seeds), len(self.schedule))
        for name, value in values.items():
            column = self.variables.setdefault(name, np.full(shape, np.nan))
            column[index, record] = value
        return True

    def _spent(self, iterations: int) -> dict[str, float]:
        """Privacy that so many iterations have spent, of methods that account for it."""
        if self.budget is None:
            return {}
        if iterations == 0:
            return {"epsilon": 0.0, "delta": 0.0}
        last = iterations - 1
        return {
            "epsilon": float(self.budget.epsilon[last]),
            "delta": float(self.budget.delta[last]),
        }

    def _is_due(self) -> bool:
        """Whether to write a checkpoint as soon as there is something whole to write."""
        if self.checkpoint is None:
            return False
        waited = time.monotonic() - self._saved
        return waited > self.checkpoint.every_seconds or self.interruption.asked is not None

    def _frozen(self, state: Any) -> dict[str, np.ndarray]:
        return checkpoints.state_arrays(state, self.setting.numpy)

    def _save(self, position: dict[str, Any], state: dict[str, np.ndarray]) -> None:
        """Freeze the finished seeds and the one under way, if any; end if that was asked for."""
        assert self.checkpoint is not None
        path, status = self.checkpoint.path, self.status
        arrays = {f"variable/{name}": values for name, values in self.variables.items()}
        arrays |= {f"state/{name}": values for name, values in state.items()}
        header = {"status": status, **position}
        if self.setting.memory is not None:
            header["memory"] = self.setting.memory.state
        checkpoints.save(path, self.identity, header, arrays)
        self._saved = time.monotonic()
        if self.interruption.asked is not None:
            log.info(
                "%s: %s: ends after %d seeds and %d rounds, kept in %s; the same command resumes",
                *(self.spec.name, self.interruption.asked, len(status), position.get("round", 0)),
                path,
            )
            self.interruption.end()

    def resume(self) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
        """Take over finished seeds; header and state of the one that was under way, if any."""
        if self.checkpoint is None:
            return None
        found = checkpoints.load(self.checkpoint.path, self.identity)
        if found is None:
            return None
        header, arrays = found
        self.status = list(header["status"])
        if self.setting.memory is not None:
            self.setting.memory.restore(header.get("memory", {}))
        prefix = "variable/"
        self.variables = {
            name.removeprefix(prefix): array
            for name, array in arrays.items()
            if name.startswith(prefix)
        }
        if len(self.status) == len(self.spec.seeds):
            return None
        seed = self.spec.seeds[len(self.status)]
        if "record" not in header:
            log.info("%s: resuming with seed %d", self.spec.name, seed)
            return None
        log.info("%s: resuming seed %d after round %d", self.spec.name, seed, header["round"])
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


def _arrays(point: Any) -> tuple[Any, ...]:
    if not isinstance(point, tuple):
        return (point,)
    return tuple(array for part in point for array in _arrays(part))


def _shapes(point: Any) -> list[tuple[int, ...]]:
    return [tuple(getattr(array, "shape", ())) for array in _arrays(point)]


def _warnings(spec: RunSpec, algorithm: Algorithm, problem: Any, setting: Setting) -> list[str]:
    # Without any curvature (all features 0) every step is covered.
    bounds = algorithm.step_bounds(problem) if getattr(problem, "smoothness", 0) else []
    warnings = [str(bound) for bound in bounds if bound.exceeded]
    if setting.exposure is not None:
        conditions = algorithm.conditions(setting.exposure)
        warnings += [str(condition) for condition in conditions if condition.holds is False]
    for warning in warnings:
        log.warning("%s: %s", spec.name, warning)
    return warnings


def _of_memory(setting: Setting) -> list[str]:
    """What ran out of memory and was computed in parts."""
    return [] if setting.memory is None else list(setting.memory.warnings.values())


def _environment(setting: Setting) -> dict[str, str]:
    """Versions and whatever else decides how sums are rounded.

    Not which processor or GPU of its kind it is: a preempted run may go on elsewhere.
    """
    # Sums are split over threads.
    pools = threadpoolctl.threadpool_info()
    threads = str(max((pool["num_threads"] for pool in pools), default=1))
    if setting.uses_torch:
        import torch

        threads += f", torch {torch.get_num_threads()}"
    device = setting.device.partition(":")[0]
    return _versions(setting.uses_torch) | {"device": device, "threads": threads}


def _versions(torch: bool) -> dict[str, str]:
    names = ["fedatlas", "numpy", "numba", "scipy", "pyarrow", "xarray"]
    if torch:
        names.append("torch")
    # Mathematical libraries choose their instructions by the machine.
    machine = {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
    return machine | {name: version(name) for name in names}
