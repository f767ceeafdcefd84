"""Derive a published number or figure again: judge it anew, and train a seed."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import xarray as xr

from fedatlas.errors import FedatlasError, similar
from fedatlas.evaluation.evidence import in_full
from fedatlas.evaluation.selection import Traces, choices
from fedatlas.evaluation.verdicts import Verdict
from fedatlas.figures import style
from fedatlas.figures.style import Shown
from fedatlas.markdown import counted
from fedatlas.notebook import to_prepare, train_plan, unprepared
from fedatlas.plan.build import Plan, build_plan
from fedatlas.plan.results import heading_spec
from fedatlas.provenance.difference import Tolerance, compare_traces
from fedatlas.schema.endings import MEASURED_TIMES
from fedatlas.schema.experiment_files import meant
from fedatlas.schema.models import read_json, validated
from fedatlas.schema.runs import RunSpec, Selection
from fedatlas.store.atlas import Atlas, open_atlas
from fedatlas.store.rejudging import Kept, Runs, kept_in_published, published_folders

# Half a unit of the third digit, the fewest that are published.
_ROUNDED = 5e-4


@dataclass(frozen=True)
class Found:
    """What is published of an experiment. claim: a name, or "" for all of its claims."""

    folder: Path
    kept: Kept
    claim: str
    runs: Runs
    atlas: Atlas
    plan: Plan

    @property
    def name(self) -> str:
        """The experiment."""
        return self.kept.name


def find(what: str, published: Path, config: Path, *projects: Path) -> Found:
    """What is published of an experiment, or of `experiment/claim`.

    published: a published folder, or one that holds several. FedatlasError for a name that none of
    them has, which says what there is.
    """
    name, _, claim = what.partition("/")
    plan = build_plan(config, *projects, names=[name]) if name else None
    known: list[str] = []
    folders = published_folders(published)
    if not folders:
        raise FedatlasError(
            f"{published}: holds no published folder: name one, such as `published` in a clone of "
            "fedatlas, by --published"
        )
    for folder in folders:
        for kept in kept_in_published(folder, plan.experiments if plan else {}):
            known.append(kept.name)
            if kept.name != name or plan is None:
                continue
            claims = {one.claim.partition("/")[2]: one for one in kept.verdicts}
            if claim and claim not in claims:
                there = similar(claim, claims) or f"; there are: {', '.join(claims)}"
                raise FedatlasError(f"{folder}: {name} has no claim '{claim}'{there}")
            atlas = open_atlas(folder)
            own = [one for one in kept.verdicts if claim in ("", one.claim.partition("/")[2])]
            return Found(folder, replace(kept, verdicts=own), claim, kept.runs(atlas), atlas, plan)
    hint = meant(name, known) or f"; folders there: {', '.join(each.name for each in folders)}"
    raise FedatlasError(
        f"{published}: '{name}' is not published there, and only published results are derived "
        f"again{hint}"
    )


def judged_again(found: Found) -> Iterator[tuple[str, bool]]:
    """Each verdict as it is published, in words, and whether it follows from what is."""
    why = found.kept.differences(found.runs)
    for verdict in found.kept.verdicts:
        differs = why.get((verdict.claim, verdict.case))
        told = f"differs when judged again: {differs}" if differs else "the same when judged again"
        yield f"{_called(verdict)}: {told}", not differs


def _called(verdict: Verdict) -> str:
    case = f", {verdict.case}" if verdict.case else ""
    effect = f", {in_full(verdict.effect)}" if verdict.effect else ""
    return f"{verdict.claim}{case}: {verdict.outcome}{effect}"


def format_origin(found: Found) -> str:
    """The files, data and code of what was looked at, and the command that makes all of it."""
    attributes = [found.atlas.attributes(place) for place in _places(found)]
    data = {json.loads(own["specification"])["dataset"] for own in attributes}
    code = {own["source_digest"][:12] for own in attributes}
    return (
        f"{counted(len(attributes), 'trace')} on {', '.join(sorted(data))}; code "
        f"{', '.join(sorted(code))}; all of it anew: fedatlas run {found.name}"
    )


def draw(found: Found, output: Path) -> None:
    """Draw the experiment's figure from what is published, as the workflow draws it."""
    if found.kept.declared is None:
        raise FedatlasError(f"{found.name}: the configuration has no such experiment")
    traces = {run: dict(points) for run, points in found.runs.items()}
    draw_published(found.plan, found.name, traces, found.kept.selection, output)


def draw_published(plan: Plan, name: str, traces: Traces, selection: Path, output: Path) -> None:
    """Draw the figure of an experiment from traces of its runs and the record of its selection."""
    experiment, record = plan.experiments[name], read_json(selection)
    rule = validated(Selection, record.get("rule"), f"{selection}: key 'rule'")
    own = {run: traces[run] for run in experiment.runs}
    claims = tuple(experiment.drawn_claims)
    shown = Shown(plan.run_titles(name), own, choices(record), rule, claims)
    title = heading_spec(plan, name)["title"]
    style.draw([output], experiment.figure.compose, title, shown)


def _places(found: Found) -> list[str]:
    """Tuned configurations that the claims looked at; all of the experiment if at none."""
    looked_at, tuned = found.runs.looked_at, found.atlas.places(all_points=False)
    own = [place for place in tuned if place.startswith(f"{found.runs.place}/")]
    return [place for place in own if place in looked_at] or sorted(looked_at) or own


class Course(NamedTuple):
    """A seed to train again. place: of its trace. seconds: that it took when it was recorded."""

    place: str
    seed: int
    seconds: float


def quickest(found: Found, *, run: str | None = None, seed: int | None = None) -> Course:
    """The seed that took the least time, of those that the claims looked at.

    run, seed: only of these, where they are named. FedatlasError if there are none.
    """
    courses = [
        Course(place, int(one), float(np.nanmax(trace["wall_time"].sel(seed=one))))
        for place in _places(found)
        if run in (None, place.split("/")[2])
        for trace in [found.atlas.dataset(place)]
        for one in trace["seed"].to_numpy()
        if seed in (None, int(one))
    ]
    if not courses:
        raise FedatlasError(
            f"{found.name}: no run of {', '.join(dict.fromkeys(_run_names(found)))} has what was "
            f"asked for (run {run or 'any'}, seed {'any' if seed is None else seed})"
        )
    return min(courses, key=lambda course: course.seconds)


def _run_names(found: Found) -> list[str]:
    return [place.split("/")[2] for place in _places(found)]


def plan_again(found: Found, course: Course, results: Path) -> Plan:
    """The plan that trains the seed by its recorded specification.

    results: where its data set is prepared, if it is made of raw files; FedatlasError if it is not.
    """
    recorded = json.loads(found.atlas.attributes(course.place)["specification"])
    spec = validated(RunSpec, recorded, f"{found.folder}: {course.place}")
    # Sub-optimality, which needs f*, follows from the objective.
    spec = spec.model_copy(update={"seeds": (course.seed,), "tuning_seeds": (), "optimum": False})
    partition = spec.partition.of_seed(course.seed)
    splits = filter(None, (spec.split, partition.test_split))
    if lacking := unprepared(found.plan.catalogue[spec.dataset], [*splits], results):
        raise FedatlasError(
            f"{spec.name}: needs the data set '{spec.dataset}': prepare it by "
            f"{to_prepare(lacking)} (raw files that you have: --config mirror=FOLDER), and do this "
            "again"
        )
    key = spec.experiment, spec.run, spec.point
    return replace(found.plan, runs={key: spec}, partitions={partition.slug: partition}, pooled={})


def trained_again(
    found: Found, course: Course, plan: Plan, results: Path, device: str
) -> tuple[str, bool]:
    """Train by `plan_again`; how the trace compares with what is published.

    Returns that in words, and whether the two are equal to the published digits.
    """
    with TemporaryDirectory() as folder:
        trace = train_plan(plan, Path(folder), results, device)
    return _agreement(found.atlas.dataset(course.place).sel(seed=[course.seed]), trace)


def _agreement(published: xr.Dataset, again: xr.Dataset) -> tuple[str, bool]:
    names = [
        name
        for name in again.variables
        if name in published.variables and name not in (*MEASURED_TIMES, "status")
    ]
    records = published.sizes["record"]
    shared = again[names].sel(record=published["record"])
    found = list(compare_traces("", published[names], shared, Tolerance(relative=_ROUNDED)))
    told = f"{records} records of {len(names) - 2} costs and measurements"
    if not found:
        return f"{told} are equal to the published digits", True
    worst = max(found, key=lambda one: one.largest or 0.0)
    differing = (
        f"{len(found)} of {len(names) - 2} costs and measurements differ, such as "
        f"{worst.variable}: {worst.first:g} was published at record {worst.record}, now it is "
        f"{worst.second:g}"
    )
    return differing, False
