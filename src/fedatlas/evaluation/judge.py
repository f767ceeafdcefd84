"""Judging claims: an interval over seeds against a declared region, with the numbers beside it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from fedatlas.claims import (
    RELATION_FACTORS,
    Claim,
    CostToTargetTest,
    MonotoneTest,
    OrderTest,
    PublishedValueTest,
    SelectedOrderTest,
    Selection,
)
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.levels import (
    Interval,
    common_budget,
    cost_to_reach,
    difference,
    log_measurement,
    lowest_median,
    reached,
)
from fedatlas.evaluation.selection import Choice, Traces, hyper_parameters
from fedatlas.evaluation.verdicts import Verdict


@dataclass(frozen=True)
class _Finding:
    """The outcome of one case of a claim."""

    case: str
    verdict: str
    evidence: str


def judge(
    experiment: str,
    paper: str,
    claims: list[Claim],
    traces: Traces,
    chosen: dict[str, Choice],
    rule: Selection,
) -> list[Verdict]:
    """One verdict per claim and case."""
    judged = _Judge(traces, chosen, rule.window)
    return [
        Verdict(
            claim=f"{experiment}/{claim.id}{finding.case}",
            paper=paper,
            source=claim.source,
            statement=claim.statement,
            verdict=finding.verdict,
            evidence=finding.evidence,
        )
        for claim in claims
        for finding in judged.findings(claim)
    ]


class _Judge:
    def __init__(self, traces: Traces, chosen: dict[str, Choice], window: float) -> None:
        self._traces, self._chosen, self._window = traces, chosen, window

    def findings(self, claim: Claim) -> Iterator[_Finding]:
        match claim.test:
            case OrderTest() as test:
                yield from self._order_cases(test)
            case CostToTargetTest() as test:
                yield self._cost_to_target(test)
            case MonotoneTest() as test:
                yield from self._monotone(test)
            case PublishedValueTest() as test:
                yield self._published_value(test)
            case SelectedOrderTest() as test:
                yield self._selected_order(test)

    def _selected(self, run: str) -> xr.Dataset:
        return self._traces[run][self._chosen[run].point]

    def _by_step(self, run: str) -> dict[float, xr.Dataset]:
        """The run's traces by effective step, from small to large."""
        by_step: dict[float, xr.Dataset] = {}
        for trace in self._traces[run].values():
            step = round(float(trace.attrs["effective_step_size"]), 12)
            if step in by_step:
                raise FedatlasError(
                    f"claims: run '{run}' has two points of effective step size {step:g}; a claim "
                    "by step needs one"
                )
            by_step[step] = trace
        return dict(sorted(by_step.items()))

    def _order_cases(self, test: OrderTest) -> Iterator[_Finding]:
        if test.for_each == "selected":
            finding = self._order(test, self._selected(test.first), self._selected(test.second))
            yield replace(finding, evidence=finding.evidence + self._edges(*test.runs))
            return
        first, second = self._by_step(test.first), self._by_step(test.second)
        common = [step for step in reversed(first) if step in second]
        if not common:
            raise FedatlasError(
                f"claims: runs '{test.first}' and '{test.second}' share no effective step size"
            )
        for step in common:
            finding = self._order(test, first[step], second[step])
            yield replace(finding, case=f"[effective step {step:g}]")

    def _order(self, test: OrderTest, first: xr.Dataset, second: xr.Dataset) -> _Finding:
        budget = common_budget([first, second], test.cost)
        if not budget:
            return _Finding("", "inconclusive", "every seed of both diverged")
        if test.at is not None:
            if test.at > budget:
                raise FedatlasError(
                    f"claims: 'at: {test.at:g}' lies beyond {_cost(test.cost, budget)}, the most "
                    f"that '{test.first}' and '{test.second}' both spent"
                )
            budget = test.at
        levels = [
            reached(trace, test.measurement, test.cost, budget, self._window)
            for trace in (first, second)
        ]
        named = zip(test.runs, levels, strict=True)
        return _compared(f"{test.measurement} by {_cost(test.cost, budget)}", named, test.relation)

    def _cost_to_target(self, test: CostToTargetTest) -> _Finding:
        traces = [self._selected(run) for run in test.runs]
        if test.target is None:
            lowest = [lowest_median(trace, test.measurement) for trace in traces]
            # A run whose seeds mostly diverged reaches no level: the other sets the target.
            target = max((level for level in lowest if np.isfinite(level)), default=-np.inf)
        else:
            target = float(np.log10(test.target))
        costs = [
            np.log10(cost_to_reach(trace, test.measurement, test.cost, target)) for trace in traces
        ]
        named = zip(test.runs, costs, strict=True)
        subject = f"{_UNITS[test.cost]} to {test.measurement} ≤ {_number(target)}"
        finding = _compared(subject, named, test.relation)
        return replace(finding, evidence=finding.evidence + self._edges(*test.runs))

    def _monotone(self, test: MonotoneTest) -> Iterator[_Finding]:
        by_step = self._by_step(test.run)
        if len(by_step) < 2:
            raise FedatlasError(f"claims: run '{test.run}' has one step size, nothing to compare")
        budget = common_budget(list(by_step.values()), "round")
        subject = f"{test.measurement} by {_cost('round', budget)}"
        smaller: tuple[float, np.ndarray] | None = None
        for step, trace in by_step.items():
            levels = reached(trace, test.measurement, "round", budget, self._window)
            start = np.median(log_measurement(trace, test.measurement)[:, 0])
            if not np.median(levels) < start:
                evidence = (
                    f"{subject}: {_level(f'step {step:g}', levels)}, {_number(start)} at the "
                    "start; it does not converge, which the claim excepts"
                )
                yield _Finding(f"[step {step:g}]", "inconclusive", evidence)
                continue
            if smaller is not None:
                named = [(f"step {step:g}", levels), (f"step {smaller[0]:g}", smaller[1])]
                finding = _compared(subject, named, "at_least_as_fast")
                yield replace(finding, case=f"[step {step:g} against {smaller[0]:g}]")
            smaller = step, levels

    def _edges(self, *runs: str) -> str:
        """A warning for evidence: what lies beyond the grid might have been better."""
        found = [(run, self._chosen[run].at_edge) for run in runs if self._chosen[run].at_edge]
        return "".join(
            f"; {run} at the edge of its grid in {', '.join(keys)}" for run, keys in found
        )

    def _seed_choices(self, run: str, hyper_parameter: str) -> np.ndarray:
        """(seeds,) the value that each seed alone would choose; NaN if it always diverged."""
        return np.array(
            [
                np.nan if point is None else self._value(run, point, hyper_parameter)
                for point in self._chosen[run].by_seed
            ]
        )

    def _value(self, run: str, point: str, hyper_parameter: str) -> float:
        parameters = hyper_parameters(self._traces[run][point])
        if hyper_parameter not in parameters:
            raise FedatlasError(
                f"claims: run '{run}' has no hyper-parameter '{hyper_parameter}'; it has "
                f"{', '.join(sorted(parameters))}"
            )
        value = parameters[hyper_parameter]
        if not isinstance(value, int | float):
            raise FedatlasError(
                f"claims: '{hyper_parameter}' of run '{run}' is {value!r}, not a number"
            )
        return float(value)

    def _published_value(self, test: PublishedValueTest) -> _Finding:
        chosen = self._seed_choices(test.run, test.hyper_parameter)
        overall = self._value(test.run, self._chosen[test.run].point, test.hyper_parameter)
        # Differences of decimal fractions carry rounding errors: 0.4 − 0.3 > 0.1.
        gap = np.abs(chosen - test.value) - 1e-12
        evidence = (
            f"{test.run}: selected {test.hyper_parameter} = {overall:g}, by seed "
            f"{_listing(chosen)}; published {test.value:g} ± {test.tolerance:g}"
            + self._edges(test.run)
        )
        verdict = _unanimous(gap <= test.tolerance, gap > test.tolerance)
        return _Finding("", verdict, evidence)

    def _selected_order(self, test: SelectedOrderTest) -> _Finding:
        larger = self._seed_choices(test.larger, test.hyper_parameter)
        smaller = self._seed_choices(test.smaller, test.hyper_parameter)
        largest_tried = max(
            self._value(test.larger, point, test.hyper_parameter)
            for point in self._traces[test.larger]
        )
        # A choice that no larger value was tried against cannot be surpassed.
        not_above = (larger <= smaller) & (smaller < largest_tried)
        evidence = (
            f"selected {test.hyper_parameter} by seed: {test.larger} {_listing(larger)}, "
            f"{test.smaller} {_listing(smaller)}; largest tried {largest_tried:g}"
            + self._edges(*test.runs)
        )
        return _Finding("", _unanimous(larger > smaller, not_above), evidence)


_UNITS: dict[str, str] = {
    "round": "rounds",
    "epoch": "epochs",
    "gradient_evaluations": "gradients",
    "bytes": "bytes",
}


def _compared(subject: str, named: Iterable[tuple[str, np.ndarray]], relation: str) -> _Finding:
    """Levels of the first against the second, by the region of the relation."""
    (first, levels), (second, other_levels) = named
    interval = difference(levels, other_levels)
    low, high = RELATION_FACTORS[relation]
    verdict = interval.verdict(np.log10(low) if low else -np.inf, np.log10(high))
    region = f"{low:.2g} to {high:.2g}" if low else f"below {high:.2g}"
    evidence = (
        f"{subject}: {_level(first, levels)}, {_level(second, other_levels)}; "
        f"{_ratio(interval)}, claimed {region}"
    )
    return _Finding("", verdict, evidence)


def _unanimous(agrees: np.ndarray, disagrees: np.ndarray) -> str:
    if agrees.size > 1 and agrees.all():
        return "reproduced"
    if disagrees.size > 1 and disagrees.all():
        return "not reproduced"
    return "inconclusive"  # seeds differ, or there is but one


def _level(name: str, levels: np.ndarray) -> str:
    """The geometric mean, and over how many seeds if not over all or over one only."""
    found = levels[np.isfinite(levels)]
    if not len(found):
        return f"{name} none (0 of {len(levels)} seeds)"
    note = f" ({len(found)} of {len(levels)} seeds)" if len(found) < max(len(levels), 2) else ""
    return f"{name} {_number(found.mean())}{note}"


def _ratio(interval: Interval) -> str:
    if np.isnan(interval.centre):
        return "no ratio"
    if np.isinf(interval.centre):
        return f"ratio {_number(interval.centre)}"
    bounds = f"95 % {_number(interval.low)} to {_number(interval.high)}"
    return f"ratio {_number(interval.centre)} ({bounds})"


def _number(logarithm: float) -> str:
    if np.isinf(logarithm):
        return "∞" if logarithm > 0 else "0"
    number = 10**logarithm
    return f"{number:.0f}" if 1000 <= number < 100000 else f"{number:.3g}"


def _cost(cost: str, budget: float) -> str:
    return f"{budget:.4g} {_UNITS[cost]}"


def _listing(values: np.ndarray) -> str:
    named = ("none" if np.isnan(value) else f"{value:g}" for value in values)
    return "{" + ", ".join(named) + "}"
