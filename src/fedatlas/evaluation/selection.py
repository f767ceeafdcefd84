"""Choosing each run's grid point by the declared rule, with every candidate's score."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.costs import Trace, specification
from fedatlas.evaluation.levels import diverged, reached
from fedatlas.schema.hyper_parameters import flat
from fedatlas.schema.selection import Selection

#: run → point → trace, in the order of the experiment file.
Traces: TypeAlias = Mapping[str, Mapping[str, Trace]]


def by_run(traces: list[Trace]) -> dict[str, dict[str, Trace]]:
    """Group loaded traces by the run and point in their attributes."""
    grouped: dict[str, dict[str, Trace]] = {}
    for trace in traces:
        run, point = trace.attrs["run"], trace.attrs["point"]
        points = grouped.setdefault(run, {})
        if point in points:
            raise FedatlasError(
                f"two traces hold the run '{run}' at the point '{point}'; give the traces of one "
                "experiment, each once"
            )
        points[point] = trace
    return grouped


def hyper_parameters(trace: Trace) -> dict[str, Any]:
    """The hyper-parameters of the run that made the trace, as the experiment stated them."""
    stated: dict[str, Any] = specification(trace)["hyper_parameters"]
    return stated


def varied_hyper_parameters(point: str, points: Mapping[str, Trace]) -> dict[str, Any]:
    """The hyper-parameters of a grid point that another point of the run states otherwise."""
    stated = [hyper_parameters(trace) for trace in points.values()]
    own = hyper_parameters(points[point])
    return {
        key: value for key, value in own.items() if any(other.get(key) != value for other in stated)
    }


@dataclass(frozen=True)
class Choice:
    """The chosen point of a run.

    scores: of every point that was tried, smaller is better, infinite where a seed is lost.
    at_edge: hyper-parameters chosen at the edge of their grid. tried: among how many points it was
    chosen; 1: it was stated.
    """

    point: str
    scores: Mapping[str, float]
    at_edge: tuple[str, ...] = ()
    tried: int = 1


def select(
    traces: Traces, rule: Selection, tuning: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """The written record of a selection: per run the chosen point and all candidates' scores.

    tuning: run that is tuned in another experiment → that experiment's record. How many points were
    tried there, and which edges were met, is said of the run here.
    """
    own = {run: _select_run(points, rule) for run, points in traces.items()}
    taken = {run: _taken(run, other, own) for run, other in rule.shared.items()}
    tuned = {
        run: own[run] | _tuned(run, record, traces[run]) for run, record in (tuning or {}).items()
    }
    return {"rule": rule.model_dump(mode="json"), "runs": own | taken | tuned}


def choices(record: dict[str, Any]) -> dict[str, Choice]:
    """Read back a written record."""
    return {
        run: Choice(
            entry["selected"],
            {
                tried["point"]: np.inf if None in tried["scores_by_seed"] else tried["score"]
                for tried in entry["candidates"]
            },
            tuple(entry["at_edge"]),
            entry["tried"],
        )
        for run, entry in record["runs"].items()
    }


def tuning_told(chosen: Mapping[str, Choice], *runs: str) -> str:
    """Among how many points those of the runs were chosen, and where at an edge, for evidence."""
    by_effort: dict[int, list[str]] = {}
    for run in dict.fromkeys(runs):
        by_effort.setdefault(chosen[run].tried, []).append(run)
    told = []
    for tried, alike in by_effort.items():
        who = f"{', '.join(alike)} " if len(by_effort) > 1 else ""
        told.append(f"{who}chosen among {tried} points" if tried > 1 else f"{who}not tuned")
    told += [
        f"{run} at the edge of its grid in {', '.join(chosen[run].at_edge)}"
        for run in dict.fromkeys(runs)
        if chosen[run].at_edge
    ]
    return "; ".join(told)


def scores(trace: Trace, measurement: str, window: float) -> np.ndarray:
    """(seeds,) levels by which points are chosen, smaller is better; +inf for a lost seed."""
    rounds = float(specification(trace)["rounds"])
    return reached(trace, measurement, "round", rounds, window)


def _select_run(points: Mapping[str, Trace], rule: Selection) -> dict[str, Any]:
    by_point = {
        point: scores(trace, rule.measurement, rule.window) for point, trace in points.items()
    }
    names = list(points)
    table = np.array([by_point[name] for name in names])  # (points, seeds)
    # A diverged seed scores +inf; ties, and runs whose points all diverged, go to the first.
    worst_is_finite = np.isfinite(table).all(axis=1)
    median = np.median(table, axis=1)
    ranked = np.where(worst_is_finite, median, np.inf) if worst_is_finite.any() else median
    chosen = names[int(ranked.argmin())]
    return {
        "selected": chosen,
        "tried": len(names),
        "at_edge": _at_edge(chosen, {name: flat(hyper_parameters(points[name])) for name in names}),
        "selected_by_seed": [
            names[int(column.argmin())] if np.isfinite(column).any() else None for column in table.T
        ],
        "candidates": [
            {
                "point": name,
                "hyper_parameters": hyper_parameters(points[name]),
                "effective_step_size": float(points[name].attrs["effective_step_size"]),
                "score": _json_number(value),
                "scores_by_seed": [_json_number(score) for score in by_point[name]],
                "diverged_seeds": int(diverged(points[name]).sum()),
            }
            for name, value in zip(names, median, strict=True)
        ],
    }


def _taken(run: str, other: str, own: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The entry of a run that takes the point of another, with its own candidates' scores."""
    for name in (run, other):
        if name not in own:
            raise FedatlasError(f"selection.shared: '{name}' is no run; runs are {', '.join(own)}")
    choice = {key: own[other][key] for key in ("selected", "tried", "at_edge", "selected_by_seed")}
    return {"shared_with": other, **own[run], **choice}


def _tuned(
    run: str, record: Mapping[str, Any], points: Mapping[str, Trace]
) -> dict[str, int | list[str]]:
    """How the experiment that tunes a run chose the point that the run took over."""
    try:
        entry = record["runs"][run]
        tried, edges = int(entry["tried"]), list(entry["at_edge"])
        (chosen,) = (
            flat(candidate["hyper_parameters"])
            for candidate in entry["candidates"]
            if candidate["point"] == entry["selected"]
        )
    except (KeyError, TypeError, ValueError):
        raise FedatlasError(
            f"--tuning: the record of the experiment that tunes '{run}' chooses no point for it. "
            "Delete that selection.json and run again."
        ) from None
    # What the run states itself was not tuned.
    taken = [flat(hyper_parameters(trace)) for trace in points.values()]
    kept = [key for key in edges if all(own.get(key) == chosen[key] for own in taken)]
    return {"tried": tried, "at_edge": kept}


def _at_edge(chosen: str, candidates: Mapping[str, dict[str, Any]]) -> list[str]:
    """Hyper-parameters whose chosen value is the largest or the smallest that was tried."""
    edges = []
    for key, value in candidates[chosen].items():
        tried = [parameters[key] for parameters in candidates.values()]
        numbers = {number for number in tried if isinstance(number, int | float)}
        # Values that are no numbers, such as schemes, have no edge.
        whole = all(isinstance(number, int | float) for number in tried)
        if whole and len(numbers) > 1 and value in (min(numbers), max(numbers)):
            edges.append(key)
    return edges


def _json_number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
