"""Training jobs: which points they train, and what they read."""

from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

from fedatlas.plan.build import Plan
from fedatlas.plan.places import RESULTS
from fedatlas.schema.runs import Points, RunSpec

#: About how long a job of several points trains. Starting one takes one to three seconds.
JOB_SECONDS = 30.0


class SharedJob(NamedTuple):
    """A job that trains several points of an experiment. seconds: about how long it takes."""

    experiment: str
    number: int
    specs: tuple[RunSpec, ...]
    seconds: int


def shared_jobs(plan: Plan, names: Sequence[str]) -> list[SharedJob]:
    """All jobs of several points, of experiments whose runs these experiments need.

    An experiment shares jobs if a point takes at most half of `JOB_SECONDS`. Points that are not
    needed have jobs of their own, as Snakemake makes all files of a job or none.
    """
    needed: dict[str, set[str]] = {}
    for name in names:
        specs = plan.runs_of(name) if plan.experiments[name].trained else []
        tuned = {spec.tuned_in for spec in specs if spec.tuned_in}
        for spec in [*specs, *(spec for other in tuned for spec in plan.runs_of(other))]:
            needed.setdefault(spec.experiment, set()).add(spec.name)
    jobs = []
    for name, wanted in needed.items():
        seconds, specs = plan.experiments[name].point_seconds, plan.runs_of(name)
        if seconds is None or 2 * seconds > JOB_SECONDS or len(specs) < 2:
            continue
        parts = (
            [spec for spec in specs if spec.name in wanted],
            [spec for spec in specs if spec.name not in wanted],
        )
        groups = [group for part in parts for group in _about_equal(part, JOB_SECONDS / seconds)]
        jobs += [
            SharedJob(name, number, tuple(group), round(len(group) * seconds))
            for number, group in enumerate(groups, 1)
        ]
    return jobs


def _about_equal(specs: Sequence[RunSpec], most: float) -> list[Sequence[RunSpec]]:
    """The same in order, in as few groups of about equal size as hold at most so many."""
    count = ceil(len(specs) / most)
    ends = [len(specs) * number // count for number in range(count + 1)] if count else []
    return [specs[begin:end] for begin, end in pairwise(ends)]


def cores(*specs: RunSpec) -> int:
    """How many cores a job of these points can use: one for every process of a party."""
    return max(spec.processes for spec in specs)


def points(*specs: RunSpec) -> dict[str, Any]:
    """The argument of a job of these points."""
    return {"points": Points.of(specs).model_dump(mode="json")}


def inputs(*specs: RunSpec) -> dict[str, list[str]]:
    """What a job of these points depends on, each file once.

    manifests: of all trials' shards, for which they vouch. optima: that sub-optimality is measured
    against. tuning: selections that hyper-parameters come from, of runs that are tuned elsewhere.
    """
    manifests, optima = set[str](), set[str]()
    for spec in specs:
        split = f"{spec.dataset}/{spec.split}"
        slugs = {spec.partition.of_seed(seed).slug for seed in spec.seeds}
        manifests |= {f"{RESULTS}/shards/{split}/{slug}/manifest.json" for slug in slugs}
        found = {spec.optimum_file(Path(RESULTS, "optima", split), seed) for seed in spec.seeds}
        optima |= {str(file) for file in found if file}
    tuned = {spec.tuned_in for spec in specs if spec.tuned_in}
    return {
        "manifests": sorted(manifests),
        "optima": sorted(optima),
        "tuning": [f"{RESULTS}/experiments/{name}/selection.json" for name in sorted(tuned)],
    }


def code(*specs: RunSpec) -> list[str]:
    """The modules that compute a job's runs, each once."""
    return sorted({module for spec in specs for module in spec.code})
