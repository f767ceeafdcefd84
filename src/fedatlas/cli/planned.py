"""What a dry run would make: a short list, experiment by experiment."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fedatlas.steps import STEPS

_EXPERIMENT = re.compile(r"(?:^|/)experiments/([^/]+)/(.+)$")
_NAMED = 4  # runs of an experiment, at most; more are counted
# Files of an experiment whose contents have a short name; others are named as they are.
_HOLD = {
    file.name: file.holds
    for name in ("select_points", "tabulate_results", "draw_figure", "judge_claims")
    for file in STEPS[name].files()
    if file.holds
}
# What is no experiment's, by the folder in which it lies.
_SHARED = {
    "raw": "raw files",
    "data": "prepared data",
    "shards": "sets of shards",
    "optima": "optima",
}
# Why Snakemake makes something, from the most telling on, and how that is told.
_REASONS = (
    ("Missing output files", "missing"),
    ("'code ", "code changed"),
    ("Code has changed", "the rule changed"),
    ("Params have changed", "settings changed"),
    ("Set of input files has changed", "other inputs"),
    ("Updated input files", "inputs changed"),
    ("Incomplete output files", "a job was interrupted"),
    ("Forced execution", "forced"),
)
_FOLLOWS = "follows from the above"
NOTHING = "Nothing to do: all is made, and up to date."


class PlannedJob(NamedTuple):
    """rule: its name. outputs: the files that it makes. reason: Snakemake's."""

    rule: str
    outputs: tuple[str, ...]
    reason: str

    @property
    def why(self) -> str:
        """The reason in a few words."""
        return next((told for sign, told in _REASONS if sign in self.reason), _FOLLOWS)

    @property
    def trained(self) -> list[str]:
        """Traces that it makes: the missing ones, if those are why; else up to all it names."""
        missing = self.reason.partition("Missing output files: ")[2].partition("; ")[0]
        names = missing.split(", ") if missing else self.outputs
        return [name for name in names if "/traces/" in name]


def format_planned(jobs: Sequence[PlannedJob]) -> list[str]:
    """Lines that say what the jobs would make, and why."""
    if not jobs:
        return [NOTHING]
    experiments: dict[str, list[PlannedJob]] = {}
    shared: list[PlannedJob] = []
    for job in jobs:
        found = _EXPERIMENT.search(job.outputs[0])
        (experiments.setdefault(found[1], []) if found else shared).append(job)
    lines = _before(shared)
    for name, own in sorted(experiments.items()):
        lines += [f"{name}:", *_trainings(own), *_files(own)]
    lines += _after(shared)
    trained = sum(len(job.trained) for job in jobs)
    total = f"{len(jobs)} job{'s' * (len(jobs) != 1)} in all"
    return [*lines, f"{total}, with {_counted(trained)}." if trained else f"{total}; no training."]


def _trainings(jobs: Sequence[PlannedJob]) -> list[str]:
    """A line for each reason: the trainings that it asks for."""
    by_reason: dict[str, list[str]] = {}
    for job in jobs:
        if job.trained:
            by_reason.setdefault(job.why, []).extend(job.trained)
    return [f"  {_counted(len(of))} ({why}): {_runs(of)}" for why, of in by_reason.items()]


def _counted(trainings: int) -> str:
    return f"{trainings} training{'s' * (trainings != 1)}"


def _runs(traces: Sequence[str]) -> str:
    """Runs and points where they are few; of more runs how many points, or how many runs."""
    points = sorted(Path(name).with_suffix("").parts[-2:] for name in traces)
    if len(points) <= _NAMED:
        return ", ".join(run if point == "only" else f"{run}/{point}" for run, point in points)
    runs = Counter(run for run, _ in points)
    if len(runs) <= _NAMED:
        return ", ".join(f"{run} ({number})" if number > 1 else run for run, number in runs.items())
    return f"{len(runs)} runs"


def _files(jobs: Sequence[PlannedJob]) -> list[str]:
    """A line for each reason: what is made of trainings."""
    by_reason: dict[str, list[str]] = {}
    for job in jobs:
        if not job.trained:
            by_reason.setdefault(job.why, []).extend(Path(name).name for name in job.outputs)
    return [f"  {', '.join(_in_words(of))} ({why})" for why, of in by_reason.items()]


def _in_words(files: Sequence[str]) -> list[str]:
    """Files of an experiment by what they hold; a drawing of two formats once."""
    usual = [holds for name, holds in _HOLD.items() if name in files]
    others = sorted(name for name in files if name not in _HOLD and not name.endswith(".png"))
    return [*usual, *others]


def _before(jobs: Sequence[PlannedJob]) -> list[str]:
    """Lines of what trainings need, by kind; experiments share it."""
    kinds = Counter((_SHARED[folder], job.why) for job in jobs if (folder := _folder(job)))
    return [f"{kind}: {number} ({why})" for (kind, why), number in kinds.items()]


def _after(jobs: Sequence[PlannedJob]) -> list[str]:
    """Lines of what is made across experiments, by reason."""
    by_reason: dict[str, list[str]] = {}
    for job in jobs:
        if not _folder(job):
            by_reason.setdefault(job.why, []).append(Path(job.outputs[0]).name)
    return [f"across experiments: {', '.join(of)} ({why})" for why, of in by_reason.items()]


def _folder(job: PlannedJob) -> str:
    return next((part for part in Path(job.outputs[0]).parts if part in _SHARED), "")
