"""Judging claims: an interval over seeds against a declared region, with the numbers beside it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

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
    lowest_median,
    reached,
)
from fedatlas.evaluation.selection import Choice, Traces, hyper_parameters


@dataclass(frozen=True)
class Verdict:
    """One row of claims.csv."""

    claim: str
    paper: str
    source: str
    statement: str
    verdict: str
    evidence: str


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
        return {
            round(float(trace.attrs["effective_step_size"]), 12): trace
            for trace in self._traces[run].values()
        }

    def _order_cases(self, test: OrderTest) -> Iterator[_Finding]:
        if test.for_each == "selected":
            yield self._order(test, self._selected(test.first), self._selected(test.second))
            return
        first, second = self._by_step(test.first), self._by_step(test.second)
        common = sorted(first.keys() & second.keys(), reverse=True)
        if not common:
            raise FedatlasError(
                f"claims: runs '{test.first}' and '{test.second}' share no effective step size"
            )
        for step in common:
            finding = self._order(test, first[step], second[step])
            yield replace(finding, case=f"[effective step {step:g}]")

    def _order(self, test: OrderTest, first: xr.Dataset, second: xr.Dataset) -> _Finding:
        budget = common_budget([first, second], test.cost)
        levels = [
            reached(trace, test.measurement, test.cost, budget, self._window)
            for trace in (first, second)
        ]
        interval = difference(*levels)
        evidence = (
            f"{test.measurement} by {_cost(test.cost, budget)}: {_level(test.first, levels[0])}, "
            f"{_level(test.second, levels[1])}; {_ratio(interval, test.relation)}"
        )
        return _Finding("", _region_verdict(interval, test.relation), evidence)

    def _cost_to_target(self, test: CostToTargetTest) -> _Finding:
        first, second = self._selected(test.first), self._selected(test.second)
        if test.target is None:
            target = max(lowest_median(trace, test.measurement) for trace in (first, second))
        else:
            target = float(np.log10(test.target))
        costs = [
            # A record at cost 0 would make the ratio meaningless: the start counts as one unit.
            np.log10(np.maximum(cost_to_reach(trace, test.measurement, test.cost, target), 1.0))
            for trace in (first, second)
        ]
        interval = difference(*costs)
        evidence = (
            f"{test.cost} to {test.measurement} ≤ {10**target:.3g}: "
            f"{_level(test.first, costs[0])}, {_level(test.second, costs[1])}; "
            f"{_ratio(interval, test.relation)}"
        )
        return _Finding("", _region_verdict(interval, test.relation), evidence)

    def _monotone(self, test: MonotoneTest) -> Iterator[_Finding]:
        by_step = sorted(self._by_step(test.run).items())
        for (small, slow), (large, fast) in pairwise(by_step):
            case = f"[step {large:g} against {small:g}]"
            budget = common_budget([fast, slow], "round")
            levels = [
                reached(trace, test.measurement, "round", budget, self._window)
                for trace in (fast, slow)
            ]
            start = np.median(np.log10(fast[test.measurement].isel(record=0)))
            if not np.median(levels[0]) < start:
                evidence = f"step {large:g} does not converge, which the claim excepts"
                yield _Finding(case, "inconclusive", evidence)
                continue
            interval = difference(*levels)
            evidence = (
                f"{test.measurement} by {_cost('round', budget)}: "
                f"{_level(f'step {large:g}', levels[0])}, {_level(f'step {small:g}', levels[1])}; "
                f"{_ratio(interval, 'at_least_as_fast')}"
            )
            yield _Finding(case, _region_verdict(interval, "at_least_as_fast"), evidence)

    def _seed_choices(self, run: str, hyper_parameter: str) -> np.ndarray:
        """(seeds,) the hyper-parameter that each seed alone would choose."""
        values = []
        for point in self._chosen[run].by_seed:
            parameters = hyper_parameters(self._traces[run][point])
            if hyper_parameter not in parameters:
                raise FedatlasError(
                    f"claims: run '{run}' has no hyper-parameter '{hyper_parameter}'; it has "
                    f"{', '.join(sorted(parameters))}"
                )
            values.append(float(parameters[hyper_parameter]))
        return np.array(values)

    def _published_value(self, test: PublishedValueTest) -> _Finding:
        chosen = self._seed_choices(test.run, test.hyper_parameter)
        agrees = np.abs(chosen - test.value) <= test.tolerance + 1e-12
        overall = hyper_parameters(self._selected(test.run))[test.hyper_parameter]
        evidence = (
            f"{test.run}: selected {test.hyper_parameter} = {overall:g}, by seed "
            f"{_listing(chosen)}; published {test.value:g} ± {test.tolerance:g}"
        )
        return _Finding("", _unanimous(agrees), evidence)

    def _selected_order(self, test: SelectedOrderTest) -> _Finding:
        larger = self._seed_choices(test.larger, test.hyper_parameter)
        smaller = self._seed_choices(test.smaller, test.hyper_parameter)
        evidence = (
            f"selected {test.hyper_parameter} by seed: {test.larger} {_listing(larger)}, "
            f"{test.smaller} {_listing(smaller)}"
        )
        return _Finding("", _unanimous(larger > smaller), evidence)


def _region_verdict(interval: Interval, relation: str) -> str:
    low, high = RELATION_FACTORS[relation]
    return interval.verdict(np.log10(low) if low else -np.inf, np.log10(high))


def _unanimous(agrees: np.ndarray) -> str:
    if agrees.all():
        return "reproduced"
    return "inconclusive" if agrees.any() else "not reproduced"


def _level(name: str, levels: np.ndarray) -> str:
    lost = int(np.isinf(levels).sum())
    note = f" ({lost} of {len(levels)} seeds diverged or fell short)" if lost else ""
    return f"{name} {10 ** np.median(levels):.3g}{note}"


def _ratio(interval: Interval, relation: str) -> str:
    low, high = RELATION_FACTORS[relation]
    region = f"≤ {high:.2g}" if not low else f"{low:.2g} to {high:.2g}"
    numbers = [f"{10**value:.3g}" for value in (interval.centre, interval.low, interval.high)]
    return f"ratio {numbers[0]} (95 % {numbers[1]} to {numbers[2]}), claimed {region}"


def _cost(cost: str, budget: float) -> str:
    units = {"round": "rounds", "epoch": "epochs", "gradient_evaluations": "gradients"}
    return f"{budget:.4g} {units.get(cost, cost)}"


def _listing(values: np.ndarray) -> str:
    return "{" + ", ".join(f"{value:g}" for value in values) + "}"
