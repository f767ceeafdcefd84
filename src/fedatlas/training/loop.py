"""The training loop: every seed of one run, measured on a declared schedule, as one trace."""

import logging
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from tqdm import tqdm

from fedatlas.algorithms import build_algorithm
from fedatlas.errors import FedatlasError
from fedatlas.federations.algorithm import Algorithm
from fedatlas.federations.setting import Setting, Trial, open_setting
from fedatlas.files import canonical_json, require_writable
from fedatlas.plan.closure import code_digest
from fedatlas.schema.runs import RunSpec
from fedatlas.traces.trace import build_trace, record_schedule, values_digest, write_trace
from fedatlas.training.checkpoints import restore_state, state_arrays
from fedatlas.training.kept import assembled, warnings_of, with_budgets
from fedatlas.training.optimum import read_optima
from fedatlas.training.restart import (
    CheckpointPolicy,
    Position,
    Records,
    Restart,
    environment,
    run_identity,
    trace_identity,
    versions,
)

log = logging.getLogger(__name__)

# Our choice: an objective this many times its first value (or 1) is taken for divergence.
DIVERGENCE_FACTOR = 1e3


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

    shards: the folder of the data set's split; each partition has a folder there, named by its
    slug. optima: the folder of the split's optima, needed to measure sub-optimality.
    device: "auto", "cpu", or a torch device such as "cuda".
    With a checkpoint, SIGTERM and SIGINT wait until one is written.
    """
    for path in (output, checkpoint.path) if checkpoint else (output,):
        require_writable(path)
    setting = open_setting(spec, shards, device)
    return train_in(setting, spec, output, read_optima(spec, optima), checkpoint)


def train_in(
    setting: Setting,
    spec: RunSpec,
    output: Path,
    best: Mapping[int, float],
    checkpoint: CheckpointPolicy | None,
    kept: xr.Dataset | None = None,
) -> xr.Dataset:
    """The same in an open setting.

    best: f* by seed, if sub-optimality is measured. kept: see `finished_seeds`; their records stay
    as they are, only the other seeds are trained.
    """
    code = code_digest(*spec.code)
    whole = trace_identity(spec, code, setting.shard_digests, best)
    finished = () if kept is None else kept["seed"].to_numpy()
    missing = tuple(seed for seed in spec.seeds if seed not in finished)
    if kept is not None:
        log.info("%s: keeps %d seeds and trains %d", spec.name, len(finished), len(missing))
        if not missing:
            trace = assembled([kept], spec.seeds, kept.attrs | whole)
            write_trace(trace, output)
            return trace
    stated, spec = spec, spec.model_copy(update={"seeds": missing})
    algorithm = build_algorithm(spec)
    identity = trace_identity(
        spec,
        code,
        {seed: setting.shard_digests[seed] for seed in missing},
        {seed: best[seed] for seed in missing if best},
    )
    rehearsal = setting.trial(spec.seeds[0])
    privacy = setting.privacy(algorithm, spec.rounds)
    # Without any curvature (all features 0) every step is covered.
    has_bounds = getattr(rehearsal.problem, "smoothness", 0)
    bounds = algorithm.step_bounds(rehearsal.problem) if has_bounds else []
    warnings = [*(str(bound) for bound in bounds if bound.exceeded), *privacy.warnings]
    for warning in warnings:
        log.warning("%s: %s", spec.name, warning)

    restart = Restart(checkpoint, run_identity(identity) | environment(setting), spec, setting)
    run = _Run(spec, algorithm, setting, best, privacy.spent, restart)
    run.warm_up(rehearsal)
    del rehearsal  # what it has kept of its last minibatch may fill a GPU
    # Without a checkpoint there is nothing to wait for. With one, a signal after the last round
    # comes too late: the trace is written.
    with restart.interruption if checkpoint else nullcontext():
        run.train()
        if setting.engine.memory is not None:
            warnings += setting.engine.memory.warnings.values()
        warnings += _ends_above_start(spec, run.records)
        attributes = {
            "paper": spec.paper,
            "experiment": spec.experiment,
            "run": spec.run,
            "point": spec.point,
            "algorithm": spec.algorithm,
            "algorithm_title": algorithm.title,
            "algorithm_source": algorithm.source,
            "hyper_parameters": canonical_json(algorithm.model_dump(mode="json")),
            "effective_step_size": algorithm.effective_step_size,
            "privacy_statement": privacy.statement,
            "warnings": canonical_json(warnings),
            **whole,
            "device": setting.device,
            "versions": canonical_json(versions(setting) | setting.accelerator),
        }
        records = run.records
        trace = build_trace(records.variables, records.status, list(spec.seeds), attributes)
        if kept is None:
            trace.attrs["values_digest"] = values_digest(trace.variables)
        else:
            told = attributes | {"warnings": warnings_of(kept, attributes)}
            old = with_budgets(kept, privacy.spent)
            trace = assembled([old, trace], stated.seeds, told)
        write_trace(trace, output)
        restart.discard()
    return trace


def _ends_above_start(spec: RunSpec, records: Records) -> list[str]:
    """A warning for the log and the trace, if seeds end worse than they began."""
    objective = records.variables["objective"]
    found = [
        number
        for number, status in enumerate(records.status)
        if status == "ok" and objective[number, -1] > objective[number, 0]
    ]
    if not found:
        return []
    seeds = ", ".join(str(spec.seeds[number]) for number in found)
    start, end = (float(np.median(objective[found, at])) for at in (0, -1))
    warning = (
        f"the objective ends above its start, at {end:.4g} from {start:.4g}, of the seeds {seeds}: "
        "the step size, noise or clipping may be too large"
    )
    log.warning("%s: %s", spec.name, warning)
    return [warning]


class _Progress:
    """A bar on a terminal, otherwise a plain line every tenth of the way."""

    def __init__(self, name: str, rounds: int) -> None:
        """name: of the run. rounds: of all its seeds."""
        self._name, self._rounds, self._reported = name, rounds, 0
        self._bar = tqdm(total=rounds, desc=name, unit="round", disable=None, file=sys.stderr)

    def advance_to(self, done: int) -> None:
        """Rounds done so far."""
        self._bar.update(done - self._bar.n)
        tenth = 10 * done // self._rounds
        if self._bar.disable and tenth > self._reported:
            log.info("%s: %d of %d rounds", self._name, done, self._rounds)
            self._reported = tenth

    def close(self) -> None:
        """Close the bar."""
        self._bar.close()


class _Run:
    """The seeds of one run, one after the other; its records grow."""

    def __init__(
        self,
        spec: RunSpec,
        algorithm: Algorithm,
        setting: Setting,
        optima: Mapping[int, float],
        spent: Mapping[str, np.ndarray],
        restart: Restart,
    ) -> None:
        """Resume an earlier attempt's records; see `Privacy` for `spent`."""
        self.spec, self.algorithm, self.setting = spec, algorithm, setting
        self.optima, self.spent, self.restart = optima, spent, restart
        self.schedule = record_schedule(spec.rounds, spec.record_every)
        self.records, self._resumed = restart.resume()
        self._measuring = 0.0  # seconds, of the seed in progress

    def warm_up(self, trial: Trial) -> None:
        """Two rounds that do not count: loading compiled code is not the method's time.

        trial: is used up.
        """
        problem, network = trial.problem, trial.network
        random = self.setting.random(self.spec.seeds[0])
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

    def train(self) -> None:
        """Train all seeds that are not finished yet."""
        progress = _Progress(self.spec.name, self.spec.rounds_of_all_seeds)
        status, seeds = self.records.status, self.spec.seeds
        for index in range(len(status), len(seeds)):
            began, self._measuring = time.perf_counter(), 0.0
            status.append(self._train_seed(index, progress))
            log.info(
                "%s: seed %d %s in %.2f s, of which measuring %.2f s",
                self.spec.name,
                seeds[index],
                status[-1],
                time.perf_counter() - began,
                self._measuring,
            )
            if self.restart.is_due:
                self.restart.save(self.records, None)
        progress.close()

    def _train_seed(self, index: int, progress: _Progress) -> str:
        """All rounds of a seed; "ok" or "diverged"."""
        trial = self.setting.trial(self.spec.seeds[index])
        problem, network = trial.problem, trial.network
        random = self.setting.random(self.spec.seeds[index])
        state = self.algorithm.start(problem, network, trial.x0)
        first_record, done, wall_time = 0, 0, 0.0
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            first_record, done, wall_time = resumed.record, resumed.round, resumed.wall_time
            state = restore_state(state, resumed.state, self.setting.engine.array)
            # Only now: the start has counted, too.
            vars(trial.counters).update(resumed.counters)

        for record in range(first_record, len(self.schedule)):
            until = int(self.schedule[record])
            began = time.perf_counter()
            # A diverging run overflows; the next record reports it.
            with np.errstate(over="ignore", invalid="ignore"):
                while done < until:
                    state = self.algorithm.round(state, problem, network, random.at(done))
                    done += 1
                    if done < until and self.restart.is_due:  # a record may take hours
                        # Waits for the device.
                        frozen = state_arrays(state, self.setting.engine.numpy)
                        wall_time += time.perf_counter() - began
                        now = Position(record, done, wall_time, asdict(trial.counters), frozen)
                        self.restart.save(self.records, now)
                        began = time.perf_counter()
            point = self.algorithm.point(state, network)
            # Waits for the device, too.
            values = [self.setting.engine.numpy(array) for array in _arrays(point)]
            finite = all(np.isfinite(array).all() for array in values)
            wall_time += time.perf_counter() - began
            progress.advance_to(index * self.spec.rounds + until)
            if not (finite and self._record(index, record, trial, point, wall_time)):
                return "diverged"
            if self.restart.is_due:
                frozen = state_arrays(state, self.setting.engine.numpy)
                now = Position(record + 1, done, wall_time, asdict(trial.counters), frozen)
                self.restart.save(self.records, now)
        return "ok"

    def _record(self, index: int, record: int, trial: Trial, point: Any, wall_time: float) -> bool:
        """Fill one record; False, leaving it NaN, if the run has diverged."""
        variables = self.records.variables
        began = time.perf_counter()
        measured = trial.problem.measure(point)
        self._measuring += time.perf_counter() - began
        if self.optima:
            best = self.optima[self.spec.seeds[index]]
            measured["suboptimality"] = measured["objective"] - best
        first = variables["objective"][index, 0] if record else measured["objective"]
        limit = DIVERGENCE_FACTOR * max(1.0, first)
        finite = np.isfinite([measured.get(name, 0.0) for name in ("objective", "gradient_norm")])
        if not finite.all() or measured["objective"] > limit:
            return False
        done = int(self.schedule[record])
        values: dict[str, float] = {
            "round": float(done),
            "epoch": trial.counters.gradient_evaluations / trial.problem.samples,
            "wall_time": wall_time,
            **vars(trial.counters),
            **{name: float(spent[done]) for name, spent in self.spent.items()},
            **measured,
        }
        shape = (len(self.spec.seeds), len(self.schedule))
        for name, value in values.items():
            if name not in variables:
                variables[name] = np.full(shape, np.nan)
            variables[name][index, record] = value
        return True


def _arrays(point: Any) -> tuple[Any, ...]:
    if not isinstance(point, tuple):
        return (point,)
    return tuple(array for part in point for array in _arrays(part))


def _shapes(point: Any) -> list[tuple[int, ...]]:
    return [tuple(getattr(array, "shape", ())) for array in _arrays(point)]
