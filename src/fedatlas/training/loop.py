"""The training loop: every seed of one run, measured on a declared schedule, as one trace."""

import logging
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from tqdm import tqdm

from fedatlas.algorithms import build_algorithm
from fedatlas.code import code_digest
from fedatlas.errors import FedatlasError
from fedatlas.federations.context import FederationContext, SeedRun
from fedatlas.files import canonical_json, require_writable
from fedatlas.measurements import Cost, Measurement
from fedatlas.schema.declared import quantity_class
from fedatlas.schema.endings import spent
from fedatlas.schema.runs import RunSpec, record_schedule
from fedatlas.store.trace import build_trace, values_digest, write_trace
from fedatlas.training.last_states import LastStates
from fedatlas.training.records import (
    ends_above_start,
    finite_number,
    together,
    uncounted,
    warnings_of_ends,
)
from fedatlas.training.seeds import (
    Position,
    SeedFiles,
    SeedPolicy,
    SeedResult,
    content_digest,
    differing_versions,
    versions,
)
from fedatlas.training.states import leaves, restore_state, state_arrays

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
    seeds: SeedPolicy | None = None,
    context: FederationContext | None = None,
    before: Callable[[], object] = lambda: None,
    keep: Callable[[Any], object] | None = None,
) -> xr.Dataset:
    """Train the seeds of `spec` that have no result yet and write the trace to `output`.

    shards: the folder of the data set's split; each partition has a folder there, named by its
    slug. optima: the folder of the split's optima, needed to measure sub-optimality.
    device: "auto", "cpu", or a torch device such as "cuda". seeds: where results of seeds and
    checkpoints are kept; then SIGTERM and SIGINT wait until one is written. context: one that is
    open on these shards. before: called before the first seed trains, unless all have results.
    keep: given the last point of every seed that trains and ends, before its result is kept.
    """
    require_writable(output)
    context, best = context or FederationContext(spec, shards, device), spec.read_optima(optima)
    run = _Run(spec, context, best, seeds, keep)
    files = run.files
    log.info("%s: %d of %d seeds are to train", spec.name, len(files.missing), len(spec.seeds))
    if files.missing:
        before()
    # Without a policy there is nothing to wait for. With one, a signal after the last round comes
    # too late: the trace is written.
    with files.interruption if files.missing and files.policy else nullcontext():
        if files.missing:
            files.require_writable()
            run.train()
        trace = run.trace()
        write_trace(trace, output)
    return trace


class _Progress:
    """A bar on a terminal, otherwise a plain line every tenth of the way."""

    def __init__(self, name: str, rounds: int) -> None:
        """name: of the run. rounds: of all its seeds."""
        self._name, self._rounds, self._reported, self._before = name, rounds, 0, 0
        self._bar = tqdm(total=rounds, desc=name, unit="round", disable=None, file=sys.stderr)

    def begin(self, before: int) -> None:
        """Begin a seed. before: rounds of those that are done."""
        self._before = before

    def advance_to(self, done: int) -> None:
        """Rounds that the seed has done."""
        done += self._before
        self._bar.update(done - self._bar.n)
        tenth = 10 * done // self._rounds
        if self._bar.disable and tenth > self._reported:
            log.info("%s: %d of %d rounds", self._name, done, self._rounds)
            self._reported = tenth

    def close(self) -> None:
        """Close the bar."""
        self._bar.close()


class _Run:
    """The seeds of one run, and its trace."""

    def __init__(
        self,
        spec: RunSpec,
        context: FederationContext,
        optima: Mapping[int, float],
        policy: SeedPolicy | None,
        keep: Callable[[Any], object] | None,
    ) -> None:
        """optima: f* by seed, if sub-optimality is measured."""
        self.spec, self.context, self.optima, self.keep = spec, context, optima, keep
        self.algorithm, self.code = build_algorithm(spec), code_digest(*spec.code)
        self.files = SeedFiles(policy, context, spec, self.algorithm, self.code, optima)
        self.last = LastStates(policy.folder, self.files.courses) if policy else None
        self.schedule = record_schedule(spec.rounds, spec.record_every)
        self.ending = spec.ending
        declared = {name: quantity_class(name)() for name in spec.measurements}
        self.own = {name: one for name, one in declared.items() if isinstance(one, Measurement)}
        self.own_costs = {name: one for name, one in declared.items() if isinstance(one, Cost)}
        self.privacy = context.privacy(self.algorithm, spec.rounds)
        for warning in self.privacy.warnings:
            log.warning("%s: %s", spec.name, warning)
        self._measuring = 0.0  # seconds, of the seed in progress

    def trace(self) -> xr.Dataset:
        """The trace, when all seeds have results."""
        spec, algorithm, privacy = self.spec, self.algorithm, self.privacy
        results = [self.files.found[seed] for seed in spec.seeds]
        variables = {name: together(results, name) for name in results[0].variables}
        rounds = variables["round"]
        recorded = ~np.isnan(rounds)
        for name, budget in privacy.spent.items():
            variables[name] = np.full(rounds.shape, np.nan)
            variables[name][recorded] = budget[rounds[recorded].astype(np.int64)]
        status = [result.status for result in results]
        made = [result.made for result in results]
        warnings = [
            *(warning for one in made for warning in one["warnings"]),
            *privacy.warnings,
            *ends_above_start(spec, variables["objective"], status),
            *warnings_of_ends(spec, results),
            *differing_versions(made, spec.seeds),
        ]
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
            "warnings": canonical_json(list(dict.fromkeys(warnings))),
            # What its numbers depend on; digests of shards and f* by seed.
            "specification": canonical_json(spec.model_dump(mode="json")),
            "source_digest": self.code,
            "shard_digests": canonical_json(_by_name(self.context.shard_digests)),
            "optima": canonical_json(_by_name(self.optima)),
            "device": made[-1]["device"],
            "versions": canonical_json(made[-1]["versions"]),
        }
        if spec.until:
            ends = [one.get("ended_by", "") for one in made]
            ended_by = _by_name(dict(zip(spec.seeds, ends, strict=True)))
            attributes["ended_by"] = canonical_json(ended_by)
        trace = build_trace(variables, status, list(spec.seeds), attributes)
        trace.attrs["values_digest"] = values_digest(trace.variables)
        return trace

    def train(self) -> None:
        """Train all seeds that have no result."""
        missing, context = list(self.files.missing), self.context
        made: dict[str, Any] = {
            "device": context.device,
            "versions": versions(context) | context.accelerator,
            "warnings": self._warm_up(context.seed_run(missing[0]), missing[0]),
        }
        progress = _Progress(self.spec.name, self.spec.rounds * len(missing))
        for number, seed in enumerate(missing):
            began, self._measuring = time.perf_counter(), 0.0
            progress.begin(number * self.spec.rounds)
            result, resumed = self.files.resume(seed)
            if result.status:
                log.info("%s: seed %d was trained by another process", self.spec.name, seed)
                continue
            if equal := self._equal_seed(seed):
                self.files.save(seed, equal)
                continue
            try:
                self._train_seed(seed, result, resumed, progress)
            except Exception as error:
                error.add_note(f"seed {seed}")  # see `steps.naming_run`
                raise
            result.made = made | result.made
            log.info(
                "%s: seed %d %s in %.2f s, of which measuring %.2f s",
                *(self.spec.name, seed, result.status),
                *(time.perf_counter() - began, self._measuring),
            )
            self.files.save(seed, result)
        progress.close()

    def _warm_up(self, run: SeedRun, seed: int) -> list[str]:
        """Two rounds that do not count: loading compiled code is not the method's time.

        Gives warnings of steps above the theorems' bounds. run: is used up.
        """
        problem, network = run.problem, run.network
        # Without any curvature (all features 0) every step is covered.
        has_bounds = getattr(problem, "smoothness", 0) and self.spec.objective.has_constants
        bounds = self.algorithm.step_bounds(problem) if has_bounds else []
        warnings = [str(bound) for bound in bounds if bound.exceeded]
        for warning in warnings:
            log.warning("%s: %s", self.spec.name, warning)
        random = self.context.random(seed)
        state = self.algorithm.start(problem, network, run.x0)
        counted = [self._counted(run, state, 0, 0.0)]
        for round_number in range(2):
            state = self.algorithm.round(state, problem, network, random.at(round_number))
            counted.append(self._counted(run, state, round_number + 1, 0.0))
            point = self.algorithm.point(state, network)
            given, expected = (_shapes(value) for value in (point, run.x0))
            if given != expected:
                raise FedatlasError(
                    f"{self.spec.name}: {type(self.algorithm).__name__}.point must have the shape "
                    f"of the start, {expected}; it gave {type(point).__name__} of shape {given}"
                )
        self._tell_rounds(counted, seed)
        return warnings

    def _tell_rounds(self, counted: Sequence[Mapping[str, float]], seed: int) -> None:
        """How many rounds the budget pays for, by a seed's first two, before hours are spent.

        counted: by cost, at the start and after each of these. FedatlasError for less than a round.
        """
        ending, name = self.ending, self.spec.name
        if not ending.cost or not ending.repeatable:
            return
        start, first, second = (spent(ending.cost, one) for one in counted)
        told = f"'until' says {ending.cost}: {ending.budget:g}"
        if first > ending.budget:
            raise FedatlasError(
                f"{name}: {told}, but the start and the first round spend {first:g}: raise it"
            )
        each = (second - start) / 2
        rounds = (ending.budget - start) / each if each else math.inf
        most = f"; 'rounds' allows {self.spec.rounds:,}" if rounds > self.spec.rounds else ""
        paid = f"pays for about {rounds:.4g} rounds of seed {seed}, by its first two"
        log.info("%s: %s, which %s%s", name, told, paid, most)

    def _equal_seed(self, seed: int) -> SeedResult | None:
        """The result of a seed that drew no random number and began as this one does."""
        certain = {one: result for one, result in self.files.found.items() if result.made["start"]}
        start = self._start(seed) if certain else ""
        for other, result in certain.items():
            if result.made["start"] == start:
                told = "%s: seed %d gets the records of seed %d: nothing is random"
                log.info(told, self.spec.name, seed, other)
                return result
        return None

    def _start(self, seed: int) -> str:
        """A digest of all that a seed begins with, but for random numbers."""
        x0, engine = self.context.seed_run(seed).x0, self.context.engine
        arrays = {name: engine.numpy(array) for name, array in leaves(x0)}
        shards, optimum = self.context.shard_digests[seed], self.optima.get(seed)
        return content_digest(canonical_json([shards, optimum]), arrays)

    def _train_seed(
        self, seed: int, result: SeedResult, resumed: Position | None, progress: _Progress
    ) -> None:
        """Train all rounds of a seed, or those after a position; its result grows."""
        run = self.context.seed_run(seed)
        problem, network = run.problem, run.network
        random = self.context.random(seed)
        state = self.algorithm.start(problem, network, run.x0)
        first_record, done, wall_time = 0, 0, 0.0
        if resumed is None and self.last is not None:
            shorter = self.last.find(seed, self.schedule, self.ending)
            if shorter is not None:
                result.variables, resumed = shorter[0].variables, shorter[1]
        if resumed is not None:
            log.info("%s: resuming seed %d after round %d", self.spec.name, seed, resumed.round)
            first_record, done, wall_time = resumed.record, resumed.round, resumed.wall_time
            random.drawn = resumed.drawn
            state = restore_state(state, resumed.state, self.context.engine.array)
            # Only now: the start has counted, too.
            vars(run.counters).update(resumed.counters)

        def position(record: int) -> Position:
            frozen = state_arrays(state, self.context.engine.numpy)
            counted = asdict(run.counters)
            return Position(record, done, wall_time, counted, random.drawn, frozen)

        def is_spent() -> bool:
            if not self.ending.cost:
                return False
            now = wall_time + time.perf_counter() - began
            return self.ending.has_spent(self._counted(run, state, done, now))

        result.status, ended_by, record = "ok", "", first_record - 1
        for record in range(first_record, len(self.schedule)):
            until = int(self.schedule[record])
            began = time.perf_counter()
            # A diverging run overflows; the next record reports it.
            with np.errstate(over="ignore", invalid="ignore"):
                while done < until:
                    state = self.algorithm.round(state, problem, network, random.at(done))
                    done += 1
                    if is_spent():
                        ended_by = self.ending.cost
                        break
                    if done < until and self.files.is_due:  # a record may take hours
                        wall_time += time.perf_counter() - began
                        self.files.save(seed, result, position(record))
                        began = time.perf_counter()
            point = self.algorithm.point(state, network)
            # Waits for the device, too.
            values = [self.context.engine.numpy(array) for _, array in leaves(point)]
            finite = all(np.isfinite(array).all() for array in values)
            wall_time += time.perf_counter() - began
            progress.advance_to(done)
            found = None
            if finite or record == 0:
                counted = self._counted(run, state, done, wall_time)
                found = self._measured(seed, result, run, point, counted)
            if found is None:
                result.status = "diverged"
                break
            for name, value in found.items():
                if name not in result.variables:
                    result.variables[name] = np.full(len(self.schedule), np.nan)
                result.variables[name][record] = value
            for name in self.own_costs if record else ():
                before, now = result.variables[name][record - 1 : record + 1]
                if now < before:
                    raise FedatlasError(
                        f"measurements/{name}.py: falls from {before:g} to {now:g} by round {done}:"
                        " a cost is what was spent so far"
                    )
            if done and self.ending.has_reached(found):
                ended_by = self.ending.measurement
            if ended_by:
                break
            if self.files.is_due:
                self.files.save(seed, result, position(record + 1))
        if self.keep is not None and result.status == "ok":
            # Not `point`: a checkpoint may stand behind the last record.
            self.keep(self.algorithm.point(state, network))
        if self.spec.until:  # it has ended before others, perhaps
            own = {name: values[: record + 1] for name, values in result.variables.items()}
            result.variables = own
        if self.last is not None:
            self.last.keep(seed, result, position(record + 1))
        draws_by_seed = self.spec.federation.draws_by_seed or self.spec.network is not None
        drawn = random.drawn or draws_by_seed
        result.made = {"start": "" if drawn else self._start(seed)}
        if self.spec.until:
            result.made["ended_by"] = "" if result.status == "diverged" else ended_by or "rounds"

    def _counted(self, run: SeedRun, state: Any, done: int, wall_time: float) -> dict[str, float]:
        """What a seed has spent after so many rounds."""
        counted = {
            "round": float(done),
            "epoch": run.counters.gradient_evaluations / run.problem.samples,
            "wall_time": wall_time,
            **self.algorithm.counted(run.counters),
        }
        return counted | {
            name: finite_number(name, done, uncounted(run, one.spent, counted, run.problem, state))
            for name, one in self.own_costs.items()
        }

    def _measured(
        self,
        seed: int,
        result: SeedResult,
        run: SeedRun,
        point: Any,
        counted: Mapping[str, float],
    ) -> dict[str, float] | None:
        """A record, with what was counted until then; None if the seed has diverged."""
        began = time.perf_counter()
        measured = run.problem.measure(point)
        if self.optima:
            measured["suboptimality"] = measured["objective"] - self.optima[seed]
        first = result.variables["objective"][0] if counted["round"] else measured["objective"]
        limit = DIVERGENCE_FACTOR * max(1.0, first)
        finite = np.isfinite([measured.get(name, 0.0) for name in ("objective", "gradient_norm")])
        if not finite.all() or measured["objective"] > limit:
            return None
        for name, one in self.own.items():
            found = uncounted(run, one.measure, run.problem, point)
            measured[name] = finite_number(name, int(counted["round"]), found)
        self._measuring += time.perf_counter() - began
        return {**counted, **measured}


def _by_name(by_seed: Mapping[int, Any]) -> dict[str, Any]:
    return {str(seed): value for seed, value in by_seed.items()}


def _shapes(point: Any) -> list[tuple[int, ...]]:
    return [tuple(getattr(array, "shape", ())) for _, array in leaves(point)]
