"""Runs beside theorems about their methods: which cover them, and bounds beside measurements."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fedatlas.algorithms import build_algorithm
from fedatlas.errors import FedatlasError, error_context
from fedatlas.evaluation.bounds import (
    COLUMNS,
    Row,
    bounded_values,
)
from fedatlas.evaluation.levels import Trace, column, rounds_of, specification
from fedatlas.evaluation.tables import to_csv
from fedatlas.federations.context import shard_files
from fedatlas.federations.shards import read_shard
from fedatlas.files import write_text
from fedatlas.plain_text import say
from fedatlas.schema.federation import federation_of
from fedatlas.schema.objectives import AucObjective, LinearObjective, PolyakObjective
from fedatlas.schema.runs import RunSpec
from fedatlas.store.experiment import read_runs
from fedatlas.theorems import theorems_on
from fedatlas.theory.agents import AgentConstants, constants_of_agents
from fedatlas.theory.auc import min_max_constants
from fedatlas.theory.constants import constants_of
from fedatlas.theory.theorems import Course, Theorem, delays_of


def theorems_of_runs(
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
            partition = spec.partition.of_seed(spec.seeds[0])
            if not isinstance(spec.objective, LinearObjective | PolyakObjective | AucObjective):
                raise FedatlasError(
                    f"{spec.name}: theorems are about linear models and known functions only"
                )
            with error_context(spec.name):
                folder = shards / spec.dataset / spec.split / partition.slug
                if isinstance(spec.objective, PolyakObjective):
                    constants: Any = _of_agents(spec, folder)
                else:
                    constants = known(partition.kind, folder, partition.silos, spec.objective)
            known_optimum = getattr(constants, "optimum", None)
            optimum = None if "suboptimality" in trace else known_optimum
            course = _course(trace, spec, optimum)
            found = theorems_on(build_algorithm(spec), constants, course)
            rows += [asdict(_row(spec, trace, theorem, course, optimum)) for theorem in found]
    return rows


def _of_agents(spec: RunSpec, folder: Path) -> AgentConstants:
    assert isinstance(spec.objective, PolyakObjective)
    states, trackers = spec.graph_weights
    if trackers is None:
        raise FedatlasError("DP-GT's theorems need a second graph: declare 'graphs.trackers'")
    (file,) = shard_files(folder, 1)
    return constants_of_agents(read_shard(file), spec.objective, states, trackers)


def _constants(
    kind: str, folder: Path, silos: int, objective: LinearObjective | AucObjective
) -> Any:
    data = federation_of(kind).read(shard_files(folder, silos))
    if isinstance(objective, AucObjective):
        return min_max_constants(data, objective)
    return constants_of(data, objective)


def _course(trace: Trace, spec: RunSpec, optimum: float | None) -> Course:
    def reached(quantity: str) -> float:
        return float(bounded_values(trace, quantity, optimum)[:, -1].mean())

    if spec.partition.kind != "vertical":
        graphs = () if spec.graphs is None else spec.graph_weights
        return Course(rounds_of(trace), reached, graphs=tuple(w for w in graphs if w is not None))
    updates, iterations = (
        int(np.nanmax(column(trace, name))) for name in ("iteration", "block_updates")
    )
    return Course(spec.rounds, reached, updates, iterations, delays_of(trace))


def _row(
    spec: RunSpec, trace: Trace, theorem: Theorem, course: Course, optimum: float | None
) -> Row:
    found: dict[str, Any] = {}
    for step, prefix in zip(theorem.steps, ("", "local_"), strict=False):
        found |= {
            f"{prefix}step": step.value,
            f"largest_{prefix}step": step.bound,
            f"{prefix}step_factor": step.factor,
        }
    bound = theorem.bound
    if bound is not None:
        cost = "round" if course.delays is None else "update_epoch"
        promised, measured = bound.after(theorem.epochs), course.reached(bound.of)
        found |= {
            "bounds": bound.of,
            "cost": cost,
            "counted": bound.counted,
            "spent": float(np.nanmax(column(trace, cost))),
            "epochs": theorem.epochs,
            "promised": promised,
            "at_start": float(bounded_values(trace, bound.of, optimum)[:, 0].mean()),
            "measured": measured,
            "slack": promised / measured,
            "constant": bound.constant,
            "start": bound.start,
            "contraction": bound.contraction,
            "floor": bound.floor,
            "optimum": optimum,
        }
    return Row(
        run=spec.run,
        point=spec.point,
        theorem=theorem.name,
        version=theorem.version,
        covered=theorem.covers,
        lacks=theorem.lacks,
        note=theorem.note,
        smoothness=theorem.smoothness,
        **found,
    )


def tabulate_theory(traces: Path, shards: Path, output: Path) -> None:
    """Tabulate which theorems cover runs, by how much steps exceed them, what they promise.

    traces: an experiment's, in one file. shards: the folder of all shards. Each row of the table
    names its theorem.
    """
    rows = theorems_of_runs(read_runs(traces), shards)
    write_text(output, to_csv(rows, COLUMNS))
    if not rows:
        say(f"{output}: fedatlas has no theorem about the methods of these runs")
