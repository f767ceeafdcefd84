"""Training jobs: which points they train, and what they read."""

from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import NamedTuple

from fedatlas.files import canonical_json
from fedatlas.plan.build import Plan
from fedatlas.plan.data import shards
from fedatlas.plan.results import trace_file
from fedatlas.schema.runs import Points, RunSpec

#: About how long a job of several points trains. Starting one takes one to three seconds.
JOB_SECONDS = 30.0


class SharedJob(NamedTuple):
    """A job that trains several points of an experiment. seconds: about how long it takes."""

    experiment: str
    number: int
    specs: tuple[RunSpec, ...]
    seconds: int

    @property
    def traces(self) -> list[str]:
        """What it makes."""
        return [trace_file(spec) for spec in self.specs]

    @property
    def points(self) -> str:
        """What it is told, as canonical JSON."""
        return canonical_json(Points.of(self.specs).model_dump(mode="json"))

    @property
    def code(self) -> list[tuple[str, ...]]:
        """The modules of each of its runs."""
        return sorted({spec.code for spec in self.specs})


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


def folder(kind: str, spec: RunSpec) -> str:
    """Where the split's "shards" or "optima" are."""
    return f"results/{kind}/{spec.dataset}/{spec.split}"


def shard_files(*specs: RunSpec) -> list[str]:
    """The shards of all trials' partitions, each once."""
    found: dict[str, None] = {}
    for spec in specs:
        for seed in spec.seeds:
            files = shards(spec.dataset, spec.split, spec.partition.of_trial(seed))
            found |= dict.fromkeys(files)
    return list(found)


def manifests(*specs: RunSpec) -> list[str]:
    """The manifests that vouch for the shards."""
    return sorted({str(Path(file).with_name("manifest.json")) for file in shard_files(*specs)})


def optima(*specs: RunSpec) -> list[str]:
    """The optima that sub-optimality is measured against."""
    files = {
        spec.optimum_file(Path(folder("optima", spec)), seed)
        for spec in specs
        for seed in spec.seeds
    }
    return sorted(str(file) for file in files if file)


def tuning(*specs: RunSpec) -> list[str]:
    """The selections that hyper-parameters come from, of runs that are tuned elsewhere."""
    tuned = sorted({spec.tuned_in for spec in specs if spec.tuned_in})
    return [f"results/experiments/{name}/selection.json" for name in tuned]
