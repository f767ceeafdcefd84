"""Runs beside the theorems on them: which cover them, and what these promise against what came."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path

from fedatlas.algorithms import build_algorithm
from fedatlas.errors import FedatlasError, named
from fedatlas.evaluation.costs import Trace, specification
from fedatlas.evaluation.theory_table import Row, running_means
from fedatlas.federations.client_shards import read_shard
from fedatlas.federations.setting import shard_files
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.runs import RunSpec
from fedatlas.theory.constants import Constants, constants_of
from fedatlas.theory.methods import theorems_on
from fedatlas.theory.theorems import Theorem


def tabulate_theory(
    traces: Mapping[str, Mapping[str, Trace]], shards: Path
) -> list[dict[str, object]]:
    """A row for each run, point and theorem on its method.

    traces: run → point → trace. shards: the folder of all data sets' shards. Of partitions that
    vary with seeds the first trial's constants are taken.
    """
    known = cache(_constants)
    rows: list[dict[str, object]] = []
    for points in traces.values():
        for trace in points.values():
            spec = RunSpec.model_validate(specification(trace))
            slug = spec.partition.of_trial(spec.seeds[0]).slug
            if not isinstance(spec.objective, LinearObjective):
                raise FedatlasError(f"{spec.name}: theorems are about linear models only")
            with named(spec.name):
                constants = known(shards / spec.dataset / spec.split / slug, spec.objective)
            found = theorems_on(build_algorithm(spec), constants)
            rows += [asdict(_row(spec, trace, theorem, constants)) for theorem in found]
    return rows


def _constants(folder: Path, objective: LinearObjective) -> Constants:
    (file,) = shard_files(folder, 1)
    return constants_of(read_shard(file), objective)


def _row(spec: RunSpec, trace: Trace, theorem: Theorem, constants: Constants) -> Row:
    numbers: dict[str, float | None] = {}
    for step, prefix in zip(theorem.steps, ("", "local_"), strict=False):
        numbers |= {
            f"{prefix}step": step.value,
            f"largest_{prefix}step": step.bound,
            f"{prefix}step_factor": step.factor,
        }
    if theorem.constant is not None:
        promised = theorem.constant / spec.rounds
        measured = float(running_means(trace, theorem.bounds, constants.optimum)[:, -1].mean())
        numbers |= {
            "promised": promised,
            "measured": measured,
            "slack": promised / measured,
            "constant": theorem.constant,
            "optimum": constants.optimum,
        }
    return Row(
        run=spec.run,
        point=spec.point,
        theorem=theorem.name,
        version=theorem.version,
        covered=theorem.covers,
        lacks=theorem.lacks,
        smoothness=theorem.smoothness,
        bounds=theorem.bounds,
        rounds=spec.rounds,
        **numbers,
    )
