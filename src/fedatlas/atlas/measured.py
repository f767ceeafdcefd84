"""Runs that measure something, published ones beside them, and what both are called."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from fedatlas.atlas.comparability import beside
from fedatlas.atlas.foreign import notes
from fedatlas.atlas.reading import opened
from fedatlas.atlas.runs import Atlas, AtlasRun, atlas_runs
from fedatlas.atlas.thinning import is_thinned, most_kept, thinned
from fedatlas.errors import FedatlasError, error_context
from fedatlas.schema.measurements import MEASUREMENTS
from fedatlas.schema.names import Names


class Measured(NamedTuple):
    """Our runs, published ones of the same problem, and why others do not stand beside ours.

    notes: which are stale, and what is foreign about the published ones; found when asked for.
    """

    mine: list[AtlasRun]
    published: list[AtlasRun]
    refused: list[str]
    notes: Callable[[], list[str]]

    @property
    def runs(self) -> list[AtlasRun]:
        """All, ours first."""
        return [*self.mine, *self.published]

    @property
    def origins(self) -> list[str]:
        """Whose each of them is: "ours" or "published"."""
        return ["ours"] * len(self.mine) + ["published"] * len(self.published)


@contextmanager
def measured(
    atlas: Atlas | Path | str,
    metric: str,
    costs: Sequence[str],
    *,
    experiments: Names = None,
    runs: Names = None,
    all_points: bool = False,
    against: Atlas | Path | str | None = None,
    published: Names = None,
    whole: bool = False,
) -> Iterator[Measured]:
    """The runs that `compare` and `plot` look at; their traces can be read until the end.

    Beside thinned traces whole ones are thinned, too, unless ours shall stay `whole`: lines between
    fewer records meet a target elsewhere.

    FedatlasError for names that are not there, where no run measures the metric, and with reasons
    where no published run solved the problem of ours.
    """
    with ExitStack() as open_files:
        own = open_files.enter_context(opened(atlas))
        chosen = atlas_runs(own, experiments=experiments, runs=runs, all_points=all_points)
        mine = measuring(chosen, metric)
        if against is None:
            yield Measured(mine, [], [], lambda: _stale(mine))
            return
        other = open_files.enter_context(opened(against))
        with error_context(f"published traces {other.path}"):
            theirs = measuring(atlas_runs(other, experiments=published), metric)
        shown, refused = beside(mine, theirs, metric, costs)
        most = most_kept(run.trace for run in shown)
        if most is not None:
            mine = mine if whole else [_thinned(run, most) for run in mine]
            shown = [_thinned(run, most) for run in shown]
        yield Measured(
            mine,
            shown,
            refused,
            lambda: [*_stale([*mine, *shown]), *notes(mine, shown, own, other)],
        )


def _stale(runs: Sequence[AtlasRun]) -> list[str]:
    return [f"{run.name}: is stale: {run.stale}" for run in runs if run.stale]


def _thinned(run: AtlasRun, most: int) -> AtlasRun:
    """With as many records of its own schedule; what was thinned before stays as it is."""
    return run if is_thinned(run.trace) else run._replace(trace=thinned(run.trace, most))


def measuring(runs: Iterable[AtlasRun], metric: str) -> list[AtlasRun]:
    """The runs that measure the metric; FedatlasError if none does."""
    there = list(runs)
    if not there:
        raise FedatlasError(
            "runs: none has a selected point yet; run the selection, or ask for all points"
        )
    found = [run for run in there if metric in run.trace]
    if not found:
        names = [name for name in MEASUREMENTS if any(name in run.trace for run in there)]
        raise FedatlasError(
            f"metric: no run measures '{metric}'; measured are {', '.join(names) or 'none'}"
        )
    return found


class RunName(NamedTuple):
    """What a run is called by: origin is "ours" or "published"."""

    experiment: str
    run: str
    title: str
    origin: str = "ours"

    def told(self, *, with_experiment: bool, with_key: bool) -> str:
        """Its title, and as much more as others need to be told from it."""
        before = f"{self.experiment}: " if with_experiment else ""
        key = f" ({self.run})" if with_key else ""
        return f"{before}{self.title}{key}{' (published)' if self.origin == 'published' else ''}"


def format_names(names: Sequence[RunName]) -> list[str]:
    """What tables and figures call runs: titles, with experiments if there are several.

    Where two runs would be called the same, their keys follow the title.
    """
    several = len({name.experiment for name in names}) > 1
    short = {name: name.told(with_experiment=several, with_key=False) for name in names}
    called = list(short.values())
    return [
        name.told(with_experiment=several, with_key=called.count(short[name]) > 1) for name in names
    ]
