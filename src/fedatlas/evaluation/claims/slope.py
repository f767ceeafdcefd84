"""Tests of how a cost or an error grows or falls with a size of the problem, as log-log slopes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from fedatlas.evaluation.comparison import ROUNDING, Direction, advantages
from fedatlas.evaluation.ended import recorded_until, require_records
from fedatlas.evaluation.evidence import (
    counts,
    format_difference,
    format_interval,
    format_repeats,
    mean_of,
    number,
    target_name,
    unit_of,
)
from fedatlas.evaluation.horizon import BUDGETS, DECISIVE, LIMIT, TARGETS, Row, along, in_the_limit
from fedatlas.evaluation.learnt import require_beyond_constant
from fedatlas.evaluation.levels import (
    Crossings,
    Trace,
    best_by_others,
    column,
    crossings,
    diverged,
    log_measurement,
    log_target,
    mean_squares,
)
from fedatlas.evaluation.quantities import (
    EFFECT_KEYS,
    EPSILON,
    EffectTest,
    delta_to_reach,
    why_no_common_delta,
)
from fedatlas.evaluation.results import NotTestableError, Results
from fedatlas.evaluation.slopes import (
    BEYOND_EDGE,
    Line,
    Size,
    at_edge,
    declared_sizes,
    local_slopes,
    most_chosen,
    sizes_of,
    slopes_between,
    slopes_of,
)
from fedatlas.schema.claims import CaseOutcome, Effect, Kind
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.quantities import MEASUREMENTS, Cost, Level, check_target

#: With linear speed-up, time to a target falls as the number of parties to this power.
LINEAR_POWER = -1.0
#: "Near linear": a power closer to it than this. Our choice.
NEAR = 0.2
#: From which difference of powers counts, a fifth of the cost at 8 or 9 times the size, or which
#: share of an exponent. Our choice.
COUNTING_POWER = 0.1

#: One of each size, and what grows along a series in a figure.
_SIZES: dict[Size, tuple[str, str]] = {
    "rounds": ("round", "rounds of a run"),
    "local_steps": ("local step", "local steps of a round"),
    "silos": ("silo", "silos"),
    "clients": ("client", "clients of each silo"),
    "sampled": ("sampled", "sampled clients of a round"),
    "parties": ("party", "parties"),
    "horizon": ("iteration", "iterations of a run"),
}


class SlopeTest(EffectTest):
    """Compares the slope of a logarithm over that of a size with a theorem's, or another method's.

    The statistic is how much lower the slope is than `power`, or than that of the other method.
    Theorems are upper bounds, so a lower slope reproduces. `smallest_effect` is a difference of
    slopes. A seed that missed a target has an infinite slope. Rates describe a limit: an outcome
    that changes with a third of the target or the next smaller budget is not testable. The same
    holds for a rate that is read from a step at the edge of its grid.

    growth: The cost to a target grows no faster than the number of clients, or of sampled clients,
    to a power. With `compare_with`, it grows more slowly than that of the other method, or falls
    faster.

    scaling: Simulated time to a target falls near linearly with the number of parties: its power is
    closer to -1 than `smallest_effect`, 0.2. With `compare_with`, it falls faster than that of the
    other method, by 0.1.

    rate: The cost to a level ε grows no faster than 1/ε to a power, as ε falls along `targets`.
    With `logarithm` the slope is over the logarithm of 1/ε log(2 Δ/ε), where Δ is the level at the
    start, the median of seeds. With `averaged` levels are root mean squares along all rounds so
    far, as theorems about nonconvex objectives bound them.

    error_scaling: The final error grows at most, or falls at least, as a size to a power. With
    `averaged` the error is the mean square of the measurement along all rounds, as theorems about
    nonconvex objectives bound it; otherwise it is the final measurement. If the size is the number
    of rounds, a contradiction is not testable while slopes still fall from one number to the next.

    series: runs by rising size. compare_with: runs of another method at the same sizes; the slope
    is claimed to be lower than theirs. run: in place of a series, one run and a series of targets.
    quantity: cost to a target, or final error. size: what grows along the series; clients are
    counted in each silo, sampled clients in each round. target: in units of the measurement.
    targets: from large to small, in units of the measurement. power: the theorem's power of the
    size. near: whether the slope is claimed to equal the power. logarithm: whether the theorem has
    a logarithm. averaged: whether levels are means along all rounds. points: `selected` by the
    experiment, or `best`, where every ε has its own point. For each seed, the best point is the one
    with which the other seeds reach ε first, so that no seed chooses for itself.
    """

    kinds: ClassVar[Mapping[str, Kind]] = {
        "growth": Kind(
            requires=("series",),
            takes=("compare_with", "size", "measurement", "target", "cost", "power", *EFFECT_KEYS),
            sets={"size": "clients", "measurement": "suboptimality", "power": 1.0},
        ),
        "scaling": Kind(
            requires=("series",),
            takes=("compare_with", "measurement", "target", *EFFECT_KEYS),
            sets={
                "size": "parties",
                "cost": "simulated_time",
                "measurement": "suboptimality",
                "power": LINEAR_POWER,
                "near": True,
            },
        ),
        "rate": Kind(
            requires=("run", "targets", "power"),
            takes=("logarithm", "averaged", "points", "measurement", "cost", *EFFECT_KEYS),
        ),
        "error_scaling": Kind(
            requires=("series", "size", "power"),
            takes=("measurement", "averaged", *EFFECT_KEYS),
            sets={"quantity": "error", "averaged": True},
        ),
    }

    series: tuple[str, ...] = Field(default=(), min_length=2)
    compare_with: tuple[str, ...] = ()
    run: str = ""
    quantity: Literal["cost", "error"] = "cost"
    size: Size | None = None
    measurement: Level = "gradient_norm"
    cost: Cost = "round"
    target: PositiveFloat = 0.001
    targets: tuple[PositiveFloat, ...] = Field(default=(), min_length=2)
    power: float | None = None
    near: bool = False
    logarithm: bool = False
    averaged: bool = False
    points: Literal["selected", "best"] = "selected"

    @property
    def runs(self) -> tuple[str, ...]:
        return (self.run,) if self.run else (*self.series, *self.compare_with)

    @property
    def counted(self) -> tuple[str, ...]:
        return (self.cost,) if self.quantity == "cost" else ()

    @property
    def levels(self) -> tuple[float, ...]:
        if self.quantity == "error" or self.averaged:  # no curve shows means along all rounds
            return ()
        return self.targets or (self.target,)

    @property
    def has_slopes(self) -> bool:
        return bool(self.series)

    @property
    def of_choice(self) -> bool:
        return self.points == "selected"

    @property
    def unit(self) -> str:
        return "slope"

    @property
    def direction(self) -> Direction:
        if self.compare_with:
            return "better"
        return "equal" if self.near else "not worse"

    @property
    def default_effect(self) -> float:
        return NEAR if self.direction == "equal" else COUNTING_POWER

    @property
    def tie(self) -> float:
        return self.default_effect

    @property
    def row(self) -> Row | None:
        of_cost = TARGETS if self.near else LIMIT
        return of_cost if self.quantity == "cost" else BUDGETS

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.compare_with and len(self.compare_with) != len(self.series):
            raise ValueError("compare_with needs a run for each of series, or none at all")
        if list(self.targets) != sorted(set(self.targets), reverse=True):
            raise ValueError(f"targets: must fall; they are {', '.join(map(str, self.targets))}")
        if self.power is not None and self.power <= 0 and self.run:
            raise ValueError(f"power: {self.power:g} must be above 0")
        for target in self.targets or ((self.target,) if self.quantity == "cost" else ()):
            check_target(self, self.measurement, target)
        return self

    def check(self, experiment: Experiment) -> None:
        if self.points == "best" and not experiment.chooses(self.run):
            raise ValueError(f"run '{self.run}' has one point: remove 'points: best'")
        if self.size is None:
            return
        series, compared = (
            declared_sizes(self.size, experiment, runs) for runs in (self.series, self.compare_with)
        )
        if None in series or series != sorted(set(series)):
            raise ValueError(f"{self.size} of series must rise; they are {series}")
        if compared and compared != series:
            raise ValueError(f"compare_with has {compared} {self.size}, series has {series}")

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        edges = [run for run in self.runs if self.of_choice and results.chosen[run].effort.at_edge]
        for case in along(partial(self.at_scale, results), self.row):
            found = self.tuned(results, self._settled(results, in_the_limit(case)))
            if edges and found.outcome in DECISIVE:
                found = found.not_testable(BEYOND_EDGE)
            yield found

    def _settled(self, results: Results, case: CaseOutcome) -> CaseOutcome:
        """Not testable where more rounds would turn a decided outcome.

        Errors over rounds still settle where what contradicts moves towards the claim: where the
        slope between the last two sizes surely lies below that between the first two.
        """
        if self.size != "rounds" or self.quantity != "error" or case.outcome != "contradicted":
            return case
        traces = results.selected(*self.series)
        sizes, errors = sizes_of(traces, "rounds"), self._errors(traces)
        local = local_slopes(sizes, errors)
        moved = results.interval(local[0] - local[-1], traces)
        if len(local) < 2 or moved.low <= ROUNDING:
            return case
        told = ", ".join(f"{slope:.3g}" for slope in np.median(local, axis=1))
        return case.not_testable(f"the rounds decide: from one to the next slopes are {told}")

    def tuned(self, results: Results, case: CaseOutcome) -> CaseOutcome:
        return case if self.points == "best" else super().tuned(results, case)

    def at_scale(self, results: Results, scale: float) -> Iterator[CaseOutcome]:
        if self.quantity == "error":
            yield self._of_errors(results, scale)
        else:
            yield (self._of_targets if self.run else self._of_costs)(results, scale)

    def lines(self, selected: Callable[..., list[Trace]]) -> Iterator[Line]:
        assert self.size is not None  # as has_slopes says
        target = log_target(self.measurement, self.target)
        for label, runs in (("", self.series), ("compared with", self.compare_with)):
            if not runs:
                continue
            traces = selected(*runs)
            if self.quantity == "cost":
                along, of = str(self.size), self._subject(target)
                logarithms = np.stack([one.cost for one in self._crossings(traces, target)])
            else:
                along, of = _SIZES[self.size][1], MEASUREMENTS[self.measurement].long_name
                of = f"mean square of the {of}" if self.averaged else of
                logarithms = self._errors(traces)
            expected = None if self.compare_with else self.power
            yield Line(label, along, of, sizes_of(traces, self.size), logarithms, expected)

    def _subject(self, target: float) -> str:
        return f"{unit_of(self.cost)} to {target_name(self.measurement, target)}"

    def _crossings(self, traces: Sequence[Trace], target: float) -> list[Crossings]:
        require_records(traces, self.measurement, target)
        return [crossings(trace, self.measurement, self.cost, target) for trace in traces]

    def _of_costs(self, results: Results, factor: float) -> CaseOutcome:
        """Costs of runs to a multiple of the target, over their sizes."""
        assert self.size is not None
        target = log_target(self.measurement, self.target) + float(np.log10(factor))
        groups = [results.selected(*runs) for runs in (self.series, self.compare_with) if runs]
        for traces in groups:
            require_beyond_constant(results, traces, self.measurement, target)
        sizes, *_ = (sizes_of(traces, self.size) for traces in groups)
        found = [self._crossings(traces, target) for traces in groups]
        one, many = _SIZES[self.size][0], self.size.replace("_", " ")
        names = [f"{count} {one if count == 1 else many}" for count in sizes]
        told = ", against ".join(_listed(names, [one.cost for one in each]) for each in found)
        traces = [trace for of_group in groups for trace in of_group]
        reached = [(trace.attrs["run"], trace, target) for trace in traces]
        return self._sloping(
            *(results, traces, sizes, found, f"{self._subject(target)}: {told}", reached), "one run"
        )

    def _of_targets(self, results: Results, factor: float) -> CaseOutcome:
        """Costs of one run to multiples of its targets, over 1/ε."""
        goals = {factor * t: log_target(self.measurement, factor * t) for t in self.targets}
        traces = self._points(results)
        chosen = {goal: best_by_others(self._crossings(traces, goal)) for goal in goals.values()}
        told = ", ".join(
            mean_of(f"ε = {target:g}", chosen[goal][0].cost, number)
            + (f" with {most_chosen(chosen[goal][1], traces)}" if len(traces) > 1 else "")
            for target, goal in goals.items()
        )
        of = f"root mean square of {self.measurement}" if self.averaged else self.measurement
        if any(at_edge(chosen[goal][1], traces) for goal in goals.values()):
            raise NotTestableError(
                f"{unit_of(self.cost)} to {of} ε: {told}; a step beyond the edge may be better"
            )
        sizes = 1 / np.array(list(goals))
        if self.logarithm:
            start = float(np.median(column(traces[0], self.measurement)[:, 0]))
            sizes = sizes * np.log(np.maximum(2 * start * sizes, np.e))
        reached = [(f"{t:g}", trace, goal) for t, goal in goals.items() for trace in traces]
        found = [[crossed for crossed, _ in chosen.values()]]
        return self._sloping(
            *(results, traces, sizes, found, f"{unit_of(self.cost)} to {of} ε: {told}", reached),
            "it",
        )

    def _points(self, results: Results) -> list[Trace]:
        """The traces to compare; levels are root mean squares so far where the claim says so."""
        traces = results.selected(self.run)
        if self.points == "best":
            traces = list(results.traces[self.run].values())
        if not self.averaged:
            return traces
        name, dims = self.measurement, ("seed", "record")
        return [
            trace.assign({name: (dims, np.sqrt(mean_squares(trace, name)))}) for trace in traces
        ]

    def _sloping(
        self,
        results: Results,
        traces: Sequence[Trace],
        sizes: np.ndarray,
        found: Sequence[Sequence[Crossings]],
        told: str,
        reached: Sequence[tuple[str, Trace, float]],
        who: str,
    ) -> CaseOutcome:
        """The slope of the first series of crossings, against that of the second if there is one.

        sizes: (crossings,) of each series. traces: all that crossings are of. told: subject and
        crossings, in words. reached: name, trace and target of each cost. who: may be at a target
        from the start.
        """
        if self.cost == EPSILON:
            deltas = [
                (name, delta_to_reach(trace, self.measurement, target))
                for name, trace, target in reached
            ]
            if why := why_no_common_delta(deltas):
                raise NotTestableError(f"{told}; {why}")
        if any(np.isneginf(crossing.cost).any() for series in found for crossing in series):
            raise NotTestableError(f"{told}; {who} starts there, or gets there at a cost of 0")
        slopes = [slopes_between(sizes, series) for series in found]
        if not np.isfinite([each for each, _, _ in slopes]).any():
            raise NotTestableError(f"{told}; no seed arrives within the budget")
        own = slopes[0][0]
        theirs = slopes[1] if len(slopes) > 1 else 3 * (np.full_like(own, self.power),)

        def describe(effect: Effect) -> str:
            if len(found) > 1:
                sides = "lower than theirs", "higher than theirs"
                return f"{told}; slope {format_difference(effect, *sides)}; {counts(effect)}"
            return f"{told}; {self._format_slope(effect)}"

        gaps = advantages(own, theirs[0])

        def extremes(times: float) -> tuple[np.ndarray, np.ndarray]:
            of_each = [
                slopes_between(sizes, [crossing.closer(times) for crossing in series])[1:]
                for series in found
            ]
            (lowest, highest), (low, high) = of_each[0], (of_each[1:] or [theirs[1:]])[0]
            return advantages(highest, low), advantages(lowest, high)

        return self.decided(results, traces, gaps, describe, self.measurement, extremes)

    def _of_errors(self, results: Results, share: float) -> CaseOutcome:
        """Errors of runs after a share of their rounds, over their sizes."""
        assert self.size is not None and self.power is not None
        power = self.power
        traces = recorded_until(results.selected(*self.series), share)
        sizes, errors = sizes_of(traces, self.size), self._errors(traces)
        of = f"mean square of {self.measurement}" if self.averaged else self.measurement
        told = f"{of}: {_listed([f'{self.size} = {size:g}' for size in sizes], errors)}"
        gaps = power - slopes_of(sizes, errors)
        if not np.isfinite(gaps).any():
            raise NotTestableError(f"{told}; no seed ended in all runs")

        def describe(effect: Effect) -> str:
            return f"{told}; {self._format_slope(effect)}"

        return self.decided(results, traces, gaps, describe, self.measurement)

    def _format_slope(self, effect: Effect) -> str:
        """The slope itself beside the claimed one; the effect is how far it lies below."""
        assert self.power is not None
        ends = (effect.estimate, effect.high, effect.low)
        slope = format_interval(*(self.power - one for one in ends))
        if self.direction == "equal":
            near = f"closer than {effect.smallest:g} is near{format_repeats(effect)}"
            return f"slope {slope}, near {self.power:g} claimed; {near}"
        return f"slope {slope}, at most {self.power:g} claimed; {counts(effect)}"

    def _errors(self, traces: Sequence[Trace]) -> np.ndarray:
        """(runs, seeds) logarithms; +inf for a seed that diverged."""
        errors = []
        for trace in traces:
            if self.averaged:
                own = np.log10(mean_squares(trace, self.measurement)[:, -1])
            else:
                own = log_measurement(trace, self.measurement)[:, -1]
            errors.append(np.where(diverged(trace), np.inf, own))
        return np.stack(errors)


def _listed(names: Sequence[str], logarithms: Iterable[np.ndarray]) -> str:
    """Means over seeds, by name."""
    return ", ".join(
        mean_of(name, own, number) for name, own in zip(names, logarithms, strict=True)
    )
