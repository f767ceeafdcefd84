"""Choose each run's grid point by the declared rule, and record every candidate's score."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.levels import Trace, diverged, reached, rounds_of, specification
from fedatlas.files import write_text
from fedatlas.schema.endings import ending_of
from fedatlas.schema.models import Model, read_json, validated
from fedatlas.schema.runs import (
    Candidate,
    Selection,
    agreeing,
    best_candidate,
    best_candidates,
    flat,
)

# Keys of a record that say how a point was chosen.
_CHOICE = ("selected", "tried", "tied", "at_edge", "selected_by_seed")

#: run → point → trace, in the order of the experiment file.
Traces: TypeAlias = Mapping[str, Mapping[str, Trace]]


def by_run(traces: Iterable[Trace]) -> dict[str, dict[str, Trace]]:
    """Group loaded traces by the run and point in their attributes."""
    grouped: dict[str, dict[str, Trace]] = {}
    for trace in traces:
        grouped.setdefault(trace.attrs["run"], {})[trace.attrs["point"]] = trace
    return grouped


def hyper_parameters(trace: Trace) -> dict[str, Any]:
    """The hyper-parameters of the run that made the trace, as the experiment declared them."""
    declared: dict[str, Any] = specification(trace)["hyper_parameters"]
    return declared


def number_at(trace: Trace, name: str) -> float:
    """The value of a hyper-parameter, also of a nested one; FedatlasError if it is no number."""
    parameters, run = flat(hyper_parameters(trace)), trace.attrs["run"]
    if name not in parameters:
        raise FedatlasError(
            f"run '{run}' has no hyper-parameter '{name}'; it has {', '.join(sorted(parameters))}"
        )
    value = parameters[name]
    if not isinstance(value, int | float):
        raise FedatlasError(f"'{name}' of run '{run}' is {value!r}, not a number")
    return float(value)


def varied_hyper_parameters(point: str, points: Mapping[str, Trace]) -> dict[str, Any]:
    """The hyper-parameters of a grid point that another point of the run states otherwise.

    Those in a mapping have its name before theirs, as in a grid: `noise.variance`.
    """
    declared = [flat(hyper_parameters(trace)) for trace in points.values()]
    own = flat(hyper_parameters(points[point]))
    return {
        key: value
        for key, value in own.items()
        if not isinstance(value, Mapping) and any(other.get(key) != value for other in declared)
    }


class TunedRun(Model):
    """A run that is tuned in another experiment. declared: hyper-parameters that it declares."""

    experiment: str
    declared: frozenset[str] = frozenset()


class Effort(NamedTuple):
    """The effort by which a point was chosen.

    at_edge: hyper-parameters chosen at the edge of their grid. tried: among how many points; 1: it
    was declared. tied: how many of these are the best, but for rounding; 0 if all were lost.
    """

    at_edge: tuple[str, ...] = ()
    tried: int = 1
    tied: int = 1


@dataclass(frozen=True)
class Choice:
    """The chosen point of a run.

    scores: of every point that was tried, smaller is better, infinite where a seed is lost.
    effort: how it was chosen. efforts: how what a point does not state was chosen, of points that
    are tuned in another experiment. by_seed: scores of every point by tuning seed.
    """

    point: str
    scores: Mapping[str, float]
    effort: Effort = field(default_factory=Effort)
    efforts: Mapping[str, Effort] = field(default_factory=dict)
    by_seed: Mapping[str, Sequence[float]] = field(default_factory=dict)


def select_points(
    traces: list[Path],
    tuning: list[Path],
    selection: Selection,
    tuned: dict[str, TunedRun],
    heading: dict[str, Any],
    titles: dict[str, str],
    output: Path,
    joined: Path,
) -> None:
    """Choose each run's grid point by the experiment's rule, and keep all runs in one file.

    tuning: selection records of the experiments in which runs are tuned, in folders of their names.
    tuned: these runs. titles: of all runs.
    """
    from fedatlas.store.experiment import (
        ExperimentHeading,
        StoredPoint,
        join_traces,
        write_experiment,
    )
    from fedatlas.store.trace import read_trace
    from fedatlas.store.trace import tuning as tuning_seeds

    records = {file.parent.name: read_json(file) for file in tuning}
    found = [read_trace(file) for file in traces]
    loaded = by_run(map(tuning_seeds, found))
    record = select(
        loaded,
        selection,
        {run: records[told.experiment] for run, told in tuned.items()},
        {run: told.declared for run, told in tuned.items()},
    )
    points = []
    for trace in found:
        run, point = trace.attrs["run"], trace.attrs["point"]
        points.append(StoredPoint(trace, titles[run], record["runs"][run]["selected"] == point))
    about = validated(ExperimentHeading, heading, "heading")
    write_experiment(join_traces(about, points), joined)
    write_text(output, json.dumps(record, indent=2) + "\n")


def select(
    traces: Traces,
    rule: Selection,
    tuning: Mapping[str, Mapping[str, Any]] | None = None,
    declared: Mapping[str, Collection[str]] | None = None,
) -> dict[str, Any]:
    """The written record of a selection: per run the chosen point and all candidates' scores.

    tuning: run that is tuned in another experiment → that experiment's record. How many points were
    tried there, and which edges were met, is said of the run here. declared: such a run → the
    hyper-parameters that it states itself, which were not tuned.
    """
    own = {run: _entry(_scored(points, rule)) for run, points in traces.items()}
    taken = {
        run: {"shared_with": other, **own[run], **{key: own[other][key] for key in _CHOICE}}
        for run, other in rule.shared.items()
    }
    tuned = {
        run: _tuned(run, record, own[run], (declared or {}).get(run, ()))
        for run, record in (tuning or {}).items()
    }
    return {"rule": rule.model_dump(mode="json"), "runs": own | taken | tuned}


def choices(record: dict[str, Any]) -> dict[str, Choice]:
    """Read back a written record."""

    def effort(entry: Mapping[str, Any]) -> Effort:
        # Records of older versions do not count ties.
        return Effort(tuple(entry["at_edge"]), entry["tried"], entry.get("tied", 1))

    return {
        run: Choice(
            entry["selected"],
            {
                tried["point"]: np.inf if None in tried["scores_by_seed"] else tried["score"]
                for tried in entry["candidates"]
            },
            effort(entry),
            {one["point"]: effort(one) for one in entry["candidates"] if "tried" in one},
            {
                one["point"]: [
                    np.inf if score is None else score for score in one["scores_by_seed"]
                ]
                for one in entry["candidates"]
            },
        )
        for run, entry in record["runs"].items()
    }


def why_not_tuned(efforts: Mapping[str, Effort]) -> str:
    """Words if every configuration of a tuned run was lost, so that none was chosen; else empty."""
    lost = [run for run, effort in efforts.items() if effort.tried > 1 and not effort.tied]
    if not lost:
        return ""
    return (
        f"{', '.join(lost)} not tuned: every configuration diverged on tuning seeds, or ended "
        "above its start; extend the grid"
    )


def seen_test_rows(measurement: str) -> str:
    """Words if a choice by this measurement looked at test rows; else empty."""
    return f" by {measurement} on test rows" if measurement.startswith("test_") else ""


def format_tuning(efforts: Mapping[str, Effort], measurement: str) -> str:
    """Among how many points those of the runs were chosen, and where at an edge, for evidence.

    measurement: by which; it is named where it looks at test rows, which may be those of the claim.
    """
    by = seen_test_rows(measurement)
    by_effort: dict[str, list[str]] = {}
    for run, effort in efforts.items():
        how = "not tuned"
        if effort.tried > 1:
            ties = f", {effort.tied} of which tie as the best" if effort.tied > 1 else ""
            how = f"chosen among {effort.tried} points{by}{ties}"
        if why_not_tuned({run: effort}):
            how = f"not tuned, as all {effort.tried} points were lost"
        by_effort.setdefault(how, []).append(run)
    told = [
        f"{', '.join(alike)} {how}" if len(by_effort) > 1 else how
        for how, alike in by_effort.items()
    ]
    told += [
        f"{run} at the edge of its grid in {', '.join(effort.at_edge)}"
        for run, effort in efforts.items()
        if effort.at_edge
    ]
    return "; ".join(told)


def scores(trace: Trace, measurement: str, window: float) -> np.ndarray:
    """(seeds,) levels by which points are chosen, smaller is better; +inf for a lost seed."""
    ending = ending_of(specification(trace).get("until", {}))
    if ending.cost:
        return reached(trace, measurement, ending.cost, ending.budget, window)
    return reached(trace, measurement, "round", float(rounds_of(trace)), window)


def _scored(points: Mapping[str, Trace], rule: Selection) -> list[Candidate]:
    candidates: list[Candidate] = []
    for point, trace in points.items():
        by_seed = scores(trace, rule.measurement, rule.window)
        candidates.append(
            {
                "point": point,
                "hyper_parameters": hyper_parameters(trace),
                "effective_step_size": float(trace.attrs["effective_step_size"]),
                "score": _json_number(np.median(by_seed)),
                "scores_by_seed": [_json_number(score) for score in by_seed],
                "diverged_seeds": int(diverged(trace).sum()),
            }
        )
    return candidates


def _entry(
    candidates: Sequence[Candidate], tried: Sequence[Candidate] | None = None
) -> dict[str, Any]:
    """The best of the points; tried: among how many they were chosen, if not among themselves."""
    best = best_candidate(candidates)
    by_seed = []
    for seed in range(len(best["scores_by_seed"])):
        alone = [one["scores_by_seed"][seed] for one in candidates]
        lowest = best_candidate(
            [
                {**one, "score": score, "scores_by_seed": [score]}
                for one, score in zip(candidates, alone, strict=True)
            ]
        )
        # None if that seed was lost everywhere.
        by_seed.append(None if lowest["score"] is None else lowest["point"])
    return {
        "selected": best["point"],
        **_effort(best, tried or candidates),
        "selected_by_seed": by_seed,
        "candidates": list(candidates),
    }


def _effort(chosen: Candidate, tried: Sequence[Candidate]) -> dict[str, Any]:
    best = best_candidates(tried)
    tied = sum(one["score"] is not None for one in best)
    return {"tried": len(tried), "tied": tied, "at_edge": _at_edge([chosen, *best], tried)}


def _tuned(
    run: str, record: Mapping[str, Any], own: Mapping[str, Any], declared: Collection[str]
) -> dict[str, Any]:
    """The entry of a run whose points are tuned in another experiment, by that one's record.

    Of several points the best is chosen there, too. own: the entry by the run's own traces.
    """
    tuned: list[Candidate] = []
    tried_by_any: dict[str, Candidate] = {}
    try:
        candidates = record["runs"][run]["candidates"]
        for one in own["candidates"]:
            values = flat(one["hyper_parameters"])
            chosen = best_candidate(agreeing(candidates, values))
            tried = agreeing(candidates, {key: values[key] for key in declared if key in values})
            scored = {key: chosen[key] for key in ("score", "scores_by_seed")}
            tuned.append(one | scored | _effort(chosen, tried))
            tried_by_any |= {other["point"]: other for other in tried}
    except (KeyError, TypeError, ValueError):
        raise FedatlasError(
            f"the selection record of the experiment that tunes '{run}' chooses no point for it. "
            "Move that selection.json away and run again."
        ) from None
    return _entry(tuned, list(tried_by_any.values()))


def _at_edge(best: Sequence[Candidate], candidates: Sequence[Candidate]) -> list[str]:
    """Hyper-parameters whose best value is the largest or the smallest that was tried.

    best: the chosen one, and those that tie with it. A value within the grid is no edge.
    """
    edges = []
    declared = [flat(one["hyper_parameters"]) for one in candidates]
    values = [flat(one["hyper_parameters"]) for one in best]
    for key in values[0]:
        tried = [parameters.get(key) for parameters in declared]
        numbers = {number for number in tried if isinstance(number, int | float)}
        # Values that are no numbers, such as schemes, have no edge.
        whole = all(isinstance(number, int | float) for number in tried)
        if whole and len(numbers) > 1:
            ends = min(numbers), max(numbers)
            edges += [key] if all(own.get(key) in ends for own in values) else []
    return edges


def _json_number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
