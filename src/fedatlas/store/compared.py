"""The result of a comparison, as data and as tables."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import xarray as xr

from fedatlas.errors import FedatlasError, error_context
from fedatlas.evaluation.comparison import ROUNDING, advantages, median_interval
from fedatlas.evaluation.evidence import target_name
from fedatlas.evaluation.levels import log_target
from fedatlas.evaluation.quantities import common_delta
from fedatlas.plain_text import printable
from fedatlas.schema.config import Names
from fedatlas.schema.quantities import MEASUREMENTS, axis
from fedatlas.store.atlas import Atlas, AtlasRun, as_atlas, atlas_runs, check_runs
from fedatlas.store.beside import beside, notes, thinning
from fedatlas.store.experiment import made_elsewhere
from fedatlas.store.saving import Cell, Tabular, save_table
from fedatlas.store.views import is_thinned, thinned

if TYPE_CHECKING:
    import pandas as pd


_TOLD_APART = (
    "by the 95 % interval of the median difference of six or more common seeds, or by intervals "
    "that do not overlap"
)
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_AT_START = "at start"
_UNLIKE = (
    "each method's own; where parties do not wait for each other it only says when to record: "
    "exchanges compare"
)
_OF_DIFFERENT_DELTA = "not comparable: ε at different δ; that at δ = 0 holds at every δ"


@dataclass(frozen=True, repr=False)
class AtlasComparison:
    """Costs of runs to reach a target; prints as a table of runs and costs.

    dataset: over run, seed and cost.

    - `cost_to_target` (run, seed, cost): cost at which the seed first reaches the target, between
      two records where a straight line of the level, a logarithm, over the cost meets it; +inf if
      it never does or diverged, NaN for seeds that the run does not have;
    - `reached` (run, seed): whether the seed did; `seeds`, `seeds_reached` (run,): how many;
    - `final_value` (run, seed): the measurement at the last record, NaN if the seed diverged, as
      `seeds_diverged` (run,) of them did;
      `final`, `final_low`, `final_high` (run,): the mean of the others and its 95 % t-interval, of
      logarithms where the measurement falls over orders of magnitude; `final_median`,
      `final_lowest`, `final_highest` (run,): their median and range;
    - `final_floor` (run,): below it the metric is not resolved, NaN if it always is: sub-optimality
      ends at 1e-10, since f* is known no better. A final value, a median and an end of a range that
      equals it is an upper bound, as are the mean and its lower bound if any seed is there;
      `seeds_at_floor` (run,): how many seeds end there;
    - `centre`, `low`, `high` (run, cost): geometric mean of the seeds that reached it and the 95 %
      t-interval of its logarithm. The upper bound is +inf if a seed never reached the target; a
      single seed has the bounds 0 and +inf. If none reached it, the centre is +inf, and so is the
      lower bound of several seeds;
    - `most_spent` (run, cost): what a seed spent at its last record, at most;
    - `seeds_at_start` (run,): how many seeds meet the target at their first record. What a run
      spends to a target that all of its seeds meet there is nothing;
    - `delta` (run, cost): of the cost "epsilon" the δ at which it holds for all of these seeds, NaN
      of other costs. ε at different δ are not comparable; that of δ = 0 holds at every δ.

    Coordinates along run are paper, experiment, run, point, title and algorithm; `clock` (run,
    cost) is "own" if a time under a network is that of the run's own simulation, otherwise
    "counted". The attribute `unlike` lists costs that are each method's own, `left_out` those that
    runs do not have, and why. Against published traces `origin` (run,) is "ours" or "published".
    The attribute `not_comparable` lists what does not stand beside ours, `notes` what is foreign
    about the rest, and runs that are stale.
    """

    dataset: xr.Dataset

    def to_dataframe(self) -> "pd.DataFrame":
        """One row per run and cost."""
        return self.dataset.drop_dims("seed").to_dataframe().reset_index()

    def table(self) -> "pd.DataFrame":
        """One row per run: the centre of each cost with its interval, and how many seeds got there.

        A dash stands where a run does not count a cost, "not within" and what a seed spent at most
        where none reached the target,
        "at start" where all seeds meet it there.
        A time is said to be by the run's own clock, an ε at which δ it holds if any δ is above 0.
        """
        import pandas as pd

        found = self.dataset
        columns: dict[str, list[str]] = {"run": _row_names(found)}
        started = _met_at_start(found)
        for cost in found["cost"].to_numpy():
            own = found.sel(cost=cost)
            names = (
                *("centre", "low", "high", "seeds_reached", "seeds", "most_spent"),
                *("delta", "clock"),
            )
            cells = zip(*(own[name].to_numpy() for name in names), strict=True)
            some = bool((own["delta"] > 0).any())
            columns[str(cost)] = [
                f"{cost_cell(*cell)}{f' at δ = {delta:.3g}' if some and delta >= 0 else ''}"
                f"{' own clock' if clock == 'own' else ''}"
                if not at_start
                else _AT_START
                for (*cell, delta, clock), at_start in zip(cells, started, strict=True)
            ]
        columns["seeds"] = [
            f"{reached} of {seeds}"
            for reached, seeds in zip(
                found["seeds_reached"].to_numpy(), found["seeds"].to_numpy(), strict=True
            )
        ]
        return pd.DataFrame(columns).set_index("run")

    def save(self, path: Path | str) -> None:
        """Write the table by the file's ending: .tex for a paper, else all numbers.

        .tex: booktabs and siunitx, costs with intervals; the least is bold where it is decided, and
        runs that are not told apart from it are marked. .csv, .parquet, .json: `to_dataframe`.
        """
        save_table(path, self.to_dataframe, lambda: [self._tabular()])

    def _tabular(self) -> Tabular:
        found = self.dataset
        columns: dict[str, Sequence[str | Cell]] = {"run": _row_names(found)}
        for cost in map(str, found["cost"].to_numpy()):
            own = found.sel(cost=cost)
            centre = own["centre"].to_numpy()
            finite = centre[np.isfinite(centre) & (centre > 0)]
            power = max(0, int(np.log10(finite.min()) // 3)) * 3 if len(finite) else 0
            unit = axis(cost).unit + (f" (10{str(power).translate(_RAISED)})" if power else "")
            columns[unit] = _cells(own, 10.0**power, cost not in found.attrs["unlike"])
        columns["seeds"] = [*self.table()["seeds"]]
        return Tabular(self._heading(), columns, _TOLD_APART, _of_target(found))

    def __repr__(self) -> str:
        lines = [self._heading(), self.table().to_string(), *self.remarks()]
        return printable("\n".join(lines))

    def remarks(self) -> list[str]:
        """Remarks on stale runs, and on published ones that differ or are not comparable."""
        attributes = self.dataset.attrs
        deltas = self.dataset["delta"].to_numpy().reshape(-1, 1)
        apart = [_OF_DIFFERENT_DELTA] if common_delta(list(deltas)) is None else []
        refused = (f"not comparable: {one}" for one in attributes.get("not_comparable", ()))
        told = [*_of_target(self.dataset), *attributes.get("notes", ())]
        return [*apart, *(f"note: {one}" for one in told), *refused]

    def _repr_html_(self) -> str:
        told = "".join(f"<p>{escape(one)}</p>" for one in self.remarks())
        return f"<p>{escape(self._heading())}</p>{self.table().to_html()}{told}"

    def _heading(self) -> str:
        metric, target = self.dataset.attrs["metric"], self.dataset.attrs["target"]
        goal = target_name(metric, log_target(metric, target))
        return f"cost to {goal}: geometric mean (95 % interval)"


def _met_at_start(found: xr.Dataset) -> np.ndarray:
    """(runs,) whether all seeds of a run meet the target at their first record."""
    return (found["seeds_at_start"] == found["seeds"]).to_numpy()


def _of_target(found: xr.Dataset) -> list[str]:
    """What the numbers do not say: targets that are met at the start, costs of each run's own."""
    names = np.array(_row_names(found), dtype=object)
    some = found["seeds_at_start"].to_numpy() > 0
    told = [f"{cost}: {_UNLIKE}" for cost in found.attrs["unlike"]]
    if some.any():
        who = "all runs" if some.all() else ", ".join(names[some])
        told.append(
            f"{who}: the target is met at the start, which costs nothing: name a harder one"
        )
    return told


def _cells(found: xr.Dataset, unit: float, comparable: bool) -> list[Cell]:
    """A cost of all runs, in multiples of the unit; found: of one cost.

    comparable: whether one is the best.
    """
    names = ("cost_to_target", "centre", "low", "high", "seeds_reached", "seeds", "most_spent")
    spent, centre, low, high, reached, seeds, most = (found[name].to_numpy() for name in names)
    started = _met_at_start(found)
    best = int(np.argmin(np.where(np.isnan(centre) | started, np.inf, centre)))
    least = [
        comparable
        and not started[run]
        and np.isfinite(centre[best])
        and not math.isnan(centre[run])
        and (run == best or not _is_more(spent[run], spent[best], low[run], high[best]))
        for run in range(len(centre))
    ]
    cells = []
    for run, one in enumerate(centre):
        ends = f"[{_plain(low[run] / unit)}, {_plain(high[run] / unit)}]"
        known = seeds[run] > 1 and low[run] < high[run] and reached[run] and not started[run]
        number = _AT_START if started[run] else _plain(one / unit)
        if not math.isfinite(one):
            number = cost_cell(one, low[run], high[run], reached[run], seeds[run], most[run])
        cells.append(Cell(number, ends if known else "", least[run], sum(least) == 1))
    return cells


def _is_more(spent: np.ndarray, least: np.ndarray, low: float, high: float) -> bool:
    """Whether a run decidedly spends more than the one with the least; each (seeds,).

    By the rule of verdicts, from paired seeds; with too few of these, if the interval of the run,
    from low on, lies above that of the least, up to high.
    """
    both = ~(np.isnan(spent) | np.isnan(least))
    with np.errstate(divide="ignore", invalid="ignore"):
        gaps = np.nan_to_num(
            advantages(np.log10(least[both]), np.log10(spent[both])), posinf=np.inf, neginf=-np.inf
        )
    interval = median_interval(gaps) if both.any() else None
    if interval is None or math.isinf(interval.low):
        return bool(low > high)
    return interval.low > ROUNDING


def _plain(value: float) -> str:
    """Three significant digits, without a power of ten."""
    if not math.isfinite(value) or not value:
        return "–" if not value else "∞"
    places = 2 - math.floor(math.log10(abs(value)))
    return f"{round(value, places):.{max(0, places)}f}"


def _row_names(found: xr.Dataset) -> list[str]:
    """Names of runs, with their points where a run has several."""
    coordinates = [found[name].to_numpy() for name in ("experiment", "run", "title")]
    if "origin" in found.coords:
        coordinates.append(found["origin"].to_numpy())
    names = format_names([RunName(*map(str, own)) for own in zip(*coordinates, strict=True)])
    return [
        f"{name}, {point}" if names.count(name) > 1 else name
        for name, point in zip(names, found["point"].to_numpy(), strict=True)
    ]


class Measured(NamedTuple):
    """The user's runs, comparable published ones, and reasons why others are not comparable.

    notes: which are stale, and what is foreign about the published ones; found when asked for.
    """

    mine: list[AtlasRun]
    published: list[AtlasRun]
    refused: list[str]
    notes: Callable[[], list[str]]

    @property
    def runs(self) -> list[AtlasRun]:
        """All runs, the user's first."""
        return [*self.mine, *self.published]

    @property
    def origins(self) -> list[str]:
        """The origin of each run: "ours" or "published"."""
        return ["ours"] * len(self.mine) + ["published"] * len(self.published)


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
) -> Measured:
    """The runs that `compare` and `plot` look at.

    Beside thinned traces whole ones are thinned, too, unless ours shall stay `whole`: lines between
    fewer records meet a target elsewhere.

    FedatlasError for names that are not there, where no run measures the metric, and with reasons
    where no published run solved the problem of ours.
    """
    own = as_atlas(atlas)
    chosen = [*atlas_runs(own, experiments=experiments, runs=runs, all_points=all_points)]
    check_runs(runs, own.places(experiments))
    mine = measuring(chosen, metric)
    if against is None:
        return Measured(mine, [], [], lambda: [*marks(mine), *thinning(mine)])
    other = as_atlas(against)
    with error_context(f"published traces {other.path}"):
        theirs = measuring(atlas_runs(other, experiments=published), metric)
    shown, refused = beside(mine, theirs, metric, costs)
    # As the headings of published files say; see `views.THINNED`.
    kept = re.findall(r"at most (\d+) records", other.attrs["thinned"])
    if kept:
        most = min(map(int, kept))
        mine = mine if whole else [_thinned(run, most) for run in mine]
        shown = [_thinned(run, most) for run in shown]
    return Measured(
        mine,
        shown,
        refused,
        lambda: [*marks([*mine, *shown]), *notes(mine, shown, own, other)],
    )


def marks(runs: Iterable[AtlasRun]) -> list[str]:
    """Marks of runs that are stale, or were made elsewhere."""
    every = [*runs]
    stale = [f"{run.name}: is stale: {run.stale}" for run in every if run.stale]
    named = ((f"{run.experiment}/{run.run}", run.trace.attrs) for run in every)
    return stale + made_elsewhere(named)


def _thinned(run: AtlasRun, most: int) -> AtlasRun:
    """With as many records of its own schedule; what was thinned before stays as it is."""
    return run if is_thinned(run.trace) else run._replace(trace=thinned(run.trace, most))


def measuring(runs: Iterable[AtlasRun], metric: str) -> list[AtlasRun]:
    """The runs that measure the metric; FedatlasError if none does."""
    there = list(runs)
    if not there:
        raise FedatlasError(
            "runs: none has a selected point yet; run the selection, or compare all_points"
        )
    found = [run for run in there if metric in run.trace]
    if not found:
        names = [name for name in MEASUREMENTS if any(name in run.trace for run in there)]
        raise FedatlasError(
            f"metric: no run measures '{metric}'; measured are {', '.join(names) or 'none'}"
        )
    return found


class RunName(NamedTuple):
    """The name of a run. origin: "ours" or "published"."""

    experiment: str
    run: str
    title: str
    origin: str = "ours"


def format_names(names: Sequence[RunName]) -> list[str]:
    """Names of runs in tables and figures: titles, with experiments where titles are equal.

    Where two runs would be called the same, their keys follow the title.
    """
    there = {(name.experiment, name.origin) for name in names}
    titles = {(name.title, name.origin, name.experiment) for name in names}
    # Titles that are unique need no experiment.
    several = len(there) > len({origin for _, origin in there}) and len(titles) > len(
        {(title, origin) for title, origin, _ in titles}
    )

    def called(name: RunName, key: str = "") -> str:
        before = f"{name.experiment}: " if several else ""
        return f"{before}{name.title}{key}{' (published)' if name.origin == 'published' else ''}"

    short = [called(name) for name in dict.fromkeys(names)]
    return [
        called(name, f" ({name.run})" if short.count(called(name)) > 1 else "") for name in names
    ]


def cost_cell(
    centre: float, low: float, high: float, reached: int, seeds: int, most: float = math.inf
) -> str:
    """A cost with its interval over seeds.

    reached: how many of them reached the target. most: what a seed spent at most, if it is known.
    """
    if math.isnan(centre):
        return "–"
    if not reached:
        return f"not within {_number(most)}" if most < math.inf else "never"
    if seeds == 1 or low == high:
        return _number(centre)
    # If one seed of several reached it, there is no lower bound either.
    return f"{_number(centre)} ({_number(low) if low > 0 else '–'} to {_number(high)})"


def _number(value: float) -> str:
    if math.isinf(value):
        return "∞"  # an unbounded cost, such as ε without noise
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if 0.9995 * size <= value < 1000 * size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
