"""Profiles of methods over the experiments of atlases: table, figure, LaTeX."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.evidence import target_name
from fedatlas.evaluation.levels import (
    Trace,
    is_counted,
    log_measurement,
    log_target,
    value_at,
)
from fedatlas.evaluation.profiles import (
    FEWEST_PROBLEMS,
    MOST,
    Costs,
    Scores,
    Targets,
    by_tries,
    costs_to_targets,
    expected_running_time,
    scores,
    typical,
)
from fedatlas.evaluation.tuning import ranked
from fedatlas.figures.colours import Look, looks
from fedatlas.figures.profiles import CostProfiles, compose
from fedatlas.figures.style import cost_label, method_of
from fedatlas.markdown import counted
from fedatlas.plain_text import printable
from fedatlas.schema.config import Names, is_named, listed
from fedatlas.schema.quantities import check_reachable
from fedatlas.store.atlas import Atlas, AtlasRun, as_atlas, atlas_runs, check_runs
from fedatlas.store.beside import differences, problem_of, selection_of
from fedatlas.store.compared import RunName, format_names, marks
from fedatlas.store.comparison import check_level, known_axis
from fedatlas.store.plotting import Plot, drawn
from fedatlas.store.saving import Cell, Tabular, save_table

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class Profiles:
    """What methods spend over problems and targets; printed, a table for each cost.

    targets: which there are, in words. titles: method → what it is called. looks: of its line.
    rows: cost → what was spent, scores, and scores by the number of tries. notes: what was left
    out, and which problems are not independent.
    """

    targets: str
    titles: Mapping[str, str]
    looks: Mapping[str, Look]
    rows: Mapping[str, CostProfiles]
    notes: Sequence[str]

    def table(self, cost: str) -> "pd.DataFrame":
        """A row for each method, the best first: score with interval, who it is ahead of, ranks.

        "ahead of" counts the methods that are behind by more than what is resolved. "after one try"
        is there where a configuration of any method was chosen among several, and empty for a
        method of which not all are here.
        """
        import pandas as pd

        row = self.rows[cost]
        own, methods = row.scores, row.costs.methods
        columns = {
            "method": [self.titles[method] for method in methods],
            "score (95 % interval)": [
                f"{area:.2f} ({low:.2f} to {high:.2f})"
                for area, low, high in zip(own.area, own.low, own.high, strict=True)
            ],
            "ahead of": [f"{number} of {len(methods) - 1}" for number in own.ahead.sum(axis=1)],
            "mean rank": [f"{rank:.1f}" for rank in own.rank],
            "best on": [f"{share:.0%}" for share in own.first],
            "reached": [f"{share:.0%}" for share in own.reached],
        }
        if len(row.tries) > 1:
            after = ["–" if np.isnan(area) else f"{area:.2f}" for area in row.tries[0]]
            columns["after one try"] = after
        order = np.argsort(-own.area, kind="stable")
        return pd.DataFrame(columns).iloc[order].set_index("method")

    def to_dataframe(self) -> "pd.DataFrame":
        """A row for each cost, pair and method: median and expected cost, who arrived."""
        import pandas as pd

        frames = []
        for row in self.rows.values():
            costs, (pairs, methods) = row.costs, row.costs.spent.shape[:2]
            columns = {
                "cost": row.cost,
                "problem": np.repeat(costs.problem, methods),
                "target": np.repeat(costs.target, methods),
                "method": np.tile(costs.methods, pairs),
                "median": typical(costs.spent).ravel(),
                "expected_running_time": expected_running_time(costs).ravel(),
                "instances": np.repeat(costs.instances, methods),
                "reached": np.isfinite(costs.spent).sum(axis=2).ravel(),
            }
            frames.append(pd.DataFrame(columns))
        return pd.concat(frames, ignore_index=True)

    def save(self, path: Path | str) -> None:
        """Write tables of scores (.tex), or costs of all pairs (.csv, .parquet, .json)."""
        save_table(path, self.to_dataframe, lambda: [*map(self._tabular, self.rows.values())])

    def _tabular(self, row: CostProfiles) -> Tabular:
        """Its caption says first what is resolved; the best score is bold if ahead of all."""
        table = self.table(row.cost)
        own, order = row.scores, np.argsort(-row.scores.area, kind="stable")
        best = ~own.ahead[order[0]][order]
        scores = [
            Cell(
                f"{own.area[at]:.2f}",
                f"[{own.low[at]:.2f}, {own.high[at]:.2f}]",
                is_best,
                best.sum() == 1,
            )
            for at, is_best in zip(order, best, strict=True)
        ]
        columns: dict[str, Sequence[str | Cell]] = {"method": [*table.index]}
        columns |= {str(name): [*column] for name, column in table.items()}
        columns["score (95 % interval)"] = scores
        caption = self._told(row).replace("\n", ". ")
        return Tabular(caption, columns, "by more than is resolved")

    def plot(self, title: str = "") -> Plot:
        """Runtime, data and performance profiles, a row of panels for each cost."""
        size = _size(self._any.costs)
        note = f"{size}; {self.targets}; pairs: medians of instances, which are seeds"
        title = title or "Costs over problems and targets"
        return drawn(compose, title, note, self.titles, self.looks, [*self.rows.values()])

    @property
    def _any(self) -> CostProfiles:
        return next(iter(self.rows.values()))

    def _told(self, row: CostProfiles) -> str:
        own = row.scores
        left = f", without {own.unreached} that no method reaches" if own.unreached else ""
        return (
            f"{row.cost}: {_resolved(own)}\n{_size(row.costs)}, {self.targets}, {own.pairs} "
            f"pairs of problem and target{left}; score: area under the performance profile up to "
            f"{MOST:g} times the least"
        )

    def __repr__(self) -> str:
        lines = []
        for row in self.rows.values():
            lines += [self._told(row), self.table(row.cost).to_string(), ""]
        return printable("\n".join([*lines[:-1], *(f"note: {note}" for note in self.notes)]))


def profile(
    atlas: Atlas | Path | str | Sequence[Atlas | Path | str],
    metric: str | Mapping[str, str],
    cost: str | Sequence[str],
    targets: Targets | str,
    *,
    of_start: bool = False,
    experiments: Names = None,
    runs: Names = None,
) -> Profiles:
    """How methods compare over experiments and targets, a cost at a time.

    atlas: one or several, open or paths. A problem is an experiment, for runs made elsewhere
    the one that they say; a method is a run of one name
    in all of them, at its selected point; an instance is a seed. metric: a measurement with a best
    value, or experiment → its own, of those that are problems. cost: one or several, as of
    `compare`. targets: values, experiment → values, or "FROM:TO:NUMBER", evenly spaced in the
    logarithm of the distance to the best value. of_start: whether they are shares of that distance
    where instances start, in the median. experiments: names or patterns. runs: names; both are all
    by default.

    Raises FedatlasError for names that are not there, for methods of an experiment that solve
    different problems, and where fewer than two methods are in all experiments.

    >>> star = ["fedpage-first"]
    >>> found = fedatlas.profile(ATLAS, "gradient_norm", "bytes", [0.3, 0.1], experiments=star)
    >>> found.table("bytes")[["score (95 % interval)", "best on", "reached"]]
            score (95 % interval) best on reached
    method
    FedAvg    1.00 (0.00 to 1.00)    100%     67%
    FedPAGE   0.86 (0.00 to 1.00)      0%    100%
    """
    given = [atlas] if isinstance(atlas, Atlas | Path | str) else atlas
    atlases = [as_atlas(one) for one in given]
    there = [*zip(atlases, _named_in(atlases, experiments), strict=True)]
    there = [(own, named) for own, named in there if named != []]
    found = [
        (own, run)
        for own, named in there
        for run in atlas_runs(own, experiments=named, runs=runs)
        if isinstance(metric, str) or problem_of(run) in metric
    ]
    check_runs(runs, (place for own, named in there for place in own.places(named)))
    metrics = {
        name: metric if isinstance(metric, str) else metric[name]
        for name in (problem_of(run) for _, run in found)
    }
    for name in sorted({*metrics.values()}):
        check_level(name)
    costs = listed(cost) or []
    found = [(own, run) for own, run in found if metrics[problem_of(run)] in run.trace]
    problems, notes = _problems(found, metrics, costs)
    if left := ", ".join(name for name in metrics if name not in problems):
        notes.append(f"left out, as no run there has the measurement: {left}")
    if isinstance(targets, str):
        # Shares are of distances.
        alike = None if of_start or not isinstance(metric, str) else metric
        targets = read_targets(targets, alike or "objective")
    wanted = _targets(problems, metrics, targets, of_start)
    grids: dict[str, dict[str, list[Trace]]] = {}
    lacking = set()  # methods of which not all that was tried is here
    for problem, methods in problems.items():
        grids[problem] = {}
        for method, (own, run) in methods.items():
            names = _candidates(own, run)
            grids[problem][method] = _grid(own, run, names)
            if len(grids[problem][method]) < len(names):
                lacking.add(method)
    chosen = {
        problem: {method: grid[0] for method, grid in methods.items()}
        for problem, methods in grids.items()
    }
    traces = [trace for methods in chosen.values() for trace in methods.values()]
    rows = {}
    for name in costs:
        spent = costs_to_targets(chosen, metrics, wanted, name)
        scored = scores(spent)
        tries = by_tries(grids, metrics, wanted, name)
        tries[:, [method in lacking for method in spent.methods]] = np.nan
        rows[name] = CostProfiles(name, cost_label(name, traces), spent, scored, tries)
    methods = next(iter(problems.values()))
    theirs = [own.is_published(run.place) for own, run in methods.values()]
    origins = ["published" if one and not all(theirs) else "ours" for one in theirs]
    called = format_names(
        [
            RunName("", name, run.title, origin)
            for (name, (_, run)), origin in zip(methods.items(), origins, strict=True)
        ]
    )
    told = _told_targets({metrics[problem] for problem in problems}, targets, of_start)
    algorithms = {name: method_of({"": run.trace}, name) for name, (_, run) in methods.items()}
    return Profiles(told, dict(zip(methods, called, strict=True)), looks(algorithms), rows, notes)


def _named_in(atlases: Sequence[Atlas], experiments: Names) -> list[list[str] | None]:
    """Which of the names and patterns each atlas has; what none has is for all, to be refused."""
    patterns = listed(experiments)
    if patterns is None:
        return [None for _ in atlases]
    there = [{name for paper in one for name in one.names(paper)} for one in atlases]
    unknown = [each for each in patterns if not any(_means(each, own) for own in there)]
    return [[each for each in patterns if each in unknown or _means(each, own)] for own in there]


def _means(pattern: str, names: Iterable[str]) -> bool:
    return any(is_named(name, [pattern]) for name in names)


def _targets(
    problems: Mapping[str, "_Methods"],
    metrics: Mapping[str, str],
    targets: Targets,
    of_start: bool,
) -> dict[str, list[float]]:
    """Problem → targets, in units of its measurement."""
    wanted = {}
    for problem, methods in problems.items():
        name, (_, first) = metrics[problem], next(iter(methods.values()))
        own = list(targets[problem] if isinstance(targets, Mapping) else targets)
        if of_start:
            start = float(np.median(log_measurement(first.trace, name)[:, 0]))
            own = [value_at(name, start + math.log10(share)) for share in own]
        try:
            for target in own:
                check_reachable(name, target)
        except ValueError as error:
            raise FedatlasError(f"targets: {problem}: {error}") from None
        wanted[problem] = own
    return wanted


def _told_targets(metrics: set[str], targets: Targets, of_start: bool) -> str:
    found = targets.values() if isinstance(targets, Mapping) else [targets]
    every = [value for own in found for value in own]
    if of_start:
        return f"targets {max(every):g} to {min(every):g} of the start"
    if len(metrics) > 1:
        return "targets of each problem's own measurement"
    name = min(metrics)
    ends = (end(log_target(name, value) for value in every) for end in (max, min))
    low, high = (target_name(name, level) for level in ends)
    return f"targets {low} to {high.removeprefix(f'{name} ')}"


def read_targets(text: str, metric: str) -> list[float]:
    """The values of "FROM:TO:NUMBER", evenly spaced in level, or those of "0.1,0.01"."""
    try:
        if ":" not in text:
            return [float(value) for value in text.split(",")]
        first, last, number = text.split(":")
        ends = log_target(metric, float(first)), log_target(metric, float(last))
        return [value_at(metric, level) for level in np.linspace(*ends, int(number))]
    except ValueError:
        raise FedatlasError(
            f"targets: '{text}' is neither values (0.1,0.01) nor FROM:TO:NUMBER (0.3:0.001:11)"
        ) from None


_Methods = dict[str, tuple[Atlas, AtlasRun]]


def _problems(
    found: Sequence[tuple[Atlas, AtlasRun]], metrics: Mapping[str, str], costs: Sequence[str]
) -> tuple[dict[str, _Methods], list[str]]:
    """Experiment → method → run, of methods that all experiments have; and what to note.

    A run made elsewhere that has the name of a trained one is another method.
    """
    trained = {run.run for _, run in found if "foreign" not in run.trace.attrs}
    problems: dict[str, _Methods] = {}
    for own, run in found:
        methods = problems.setdefault(problem_of(run), {})
        is_another = "foreign" in run.trace.attrs and run.run in trained
        method = f"{run.run} (foreign)" if is_another else run.run
        if method in methods:
            raise FedatlasError(
                f"{problem_of(run)}/{method}: is in {methods[method][0].path} and in {own.path}: "
                "name another run, or one folder less"
            )
        methods[method] = own, run
    every = list(dict.fromkeys(method for methods in problems.values() for method in methods))
    common = [method for method in every if all(method in methods for methods in problems.values())]
    if len(common) < 2:
        raise FedatlasError(
            f"runs: {len(common)} are in all of {', '.join(problems) or 'no experiment'}: profiles "
            "need at least two methods; name experiments with the same runs"
        )
    left = ", ".join(method for method in every if method not in common)
    notes = [f"left out, as not all experiments have them: {left}"] if left else []
    kept = {
        problem: {method: methods[method] for method in common}
        for problem, methods in problems.items()
    }
    for cost in costs:
        known_axis(cost)
        for run in (run for methods in kept.values() for _, run in methods.values()):
            if not is_counted(run.trace, cost):
                raise FedatlasError(
                    f"cost: {run.name} does not count '{cost}': name other costs, or other runs"
                )
    notes += marks(run for methods in kept.values() for _, run in methods.values())
    seen: dict[str, str] = {}
    for problem, methods in kept.items():
        (_, first), *others = methods.values()
        for _, other in others:
            for why in differences(first, other, metrics[problem], costs):
                raise FedatlasError(
                    f"{first.name} and {other.name} solve different problems: {why}"
                )
        for _, run in methods.values():
            digest = str(run.trace.attrs.get("values_digest", run.name))
            if seen.setdefault(digest, problem) != problem:
                notes.append(
                    f"{problem}/{run.run} is the run of {seen[digest]}: intervals take the two "
                    "problems as independent, and are too narrow"
                )
    return kept, notes


def _grid(atlas: Atlas, run: AtlasRun, names: Sequence[str]) -> list[Trace]:
    """The traces of all configurations that were tried; the run's own if not all are here."""
    place = f"{run.paper}/{run.experiment}/{run.run}"
    if names[:1] != [run.point] or not set(names) <= set(atlas.names(place)):
        return [run.trace]
    seeds = run.trace["seed"].to_numpy()
    return [
        atlas.dataset(f"{place}/{name}").sel(seed=seeds) if name != run.point else run.trace
        for name in names
    ]


def _candidates(atlas: Atlas, run: AtlasRun) -> list[str]:
    """The points that were tried, the best first."""
    entry = selection_of(atlas, run) or {}
    return [one["point"] for one in ranked(entry.get("candidates", ()))]


def _size(costs: Costs) -> str:
    numbers = sorted({*costs.instances.tolist()})
    told = f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
    return f"{counted(len(set(costs.problem.tolist())), 'problem')} with {told} instances each"


def _resolved(own: Scores) -> str:
    """The smallest difference of scores that these problems resolve, by pair of methods."""
    margins = own.margin[np.triu_indices(len(own.area), 1)]
    low, high = float(margins.min()), float(margins.max())
    if low == 1:
        return (
            f"no difference of scores is resolved, which takes {FEWEST_PROBLEMS} problems at least"
        )
    between = f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"
    return f"smallest difference of scores that is resolved: {between}, by pair of methods"
