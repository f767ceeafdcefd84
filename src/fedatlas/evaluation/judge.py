"""Judging claims: an interval over seeds against a declared region, with the numbers beside it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import xarray as xr

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.audit_verdicts import judge_audit
from fedatlas.evaluation.budget_verdicts import judge_budget
from fedatlas.evaluation.convergence_order import judge_convergence_order
from fedatlas.evaluation.evidence import (
    Finding,
    compared,
    level,
    level_name,
    number,
    spent,
    target_name,
    unit_of,
)
from fedatlas.evaluation.final_values import judge_better, judge_equal, judge_published
from fedatlas.evaluation.gap import judge_gap
from fedatlas.evaluation.highest import judge_highest
from fedatlas.evaluation.levels import (
    common_budget,
    common_target,
    cost_to_reach,
    log_measurement,
    reached,
)
from fedatlas.evaluation.scaling import judge_scaling
from fedatlas.evaluation.selection import Choice, Traces, hyper_parameters
from fedatlas.evaluation.stationary_points import Surface, judge_stationary_point
from fedatlas.evaluation.verdicts import Verdict
from fedatlas.schema.claims import (
    AuditStandsTest,
    BetterFinalTest,
    BudgetFallsTest,
    BudgetOrderTest,
    Claim,
    ConvergenceOrderTest,
    CostToTargetTest,
    DeltaReachesOneTest,
    EqualFinalTest,
    GapWidensTest,
    HighestTest,
    MonotoneTest,
    OrderTest,
    PublishedMeasurementTest,
    PublishedValueTest,
    ScalingTest,
    SelectedOrderTest,
    StationaryPointTest,
)
from fedatlas.schema.hyper_parameters import flat
from fedatlas.schema.selection import Selection


def judge(
    experiment: str,
    paper: str,
    claims: list[Claim],
    traces: Traces,
    chosen: dict[str, Choice],
    rule: Selection,
    surface: Surface | None = None,
    budgets: xr.Dataset | None = None,
    audit: Sequence[Mapping[str, str]] | None = None,
) -> list[Verdict]:
    """One verdict per claim and case; surface, budgets, audit: the experiment's, if it has any."""
    judged = _Judge(traces, chosen, rule.window, surface, budgets, audit)
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
    def __init__(
        self,
        traces: Traces,
        chosen: dict[str, Choice],
        window: float,
        surface: Surface | None,
        budgets: xr.Dataset | None,
        audit: Sequence[Mapping[str, str]] | None,
    ) -> None:
        self._traces, self._chosen, self._window = traces, chosen, window
        self._surface, self._budgets, self._audit = surface, budgets, audit

    def findings(self, claim: Claim) -> Iterator[Finding]:
        match claim.test:
            case OrderTest() as test:
                yield from self._order_cases(test)
            case CostToTargetTest() as test:
                yield self._cost_to_target(test)
            case GapWidensTest() as test:
                yield self._at_edges(judge_gap(test, *self._selected(*test.runs)), test.runs)
            case MonotoneTest() as test:
                yield from self._monotone(test)
            case PublishedValueTest() as test:
                yield self._published_value(test)
            case SelectedOrderTest() as test:
                yield self._selected_order(test)
            case EqualFinalTest() as test:
                yield self._at_edges(judge_equal(test, *self._selected(*test.runs)), test.runs)
            case BetterFinalTest() as test:
                yield self._at_edges(judge_better(test, *self._selected(*test.runs)), test.runs)
            case HighestTest() as test:
                run, *rivals = self._selected(*test.runs)
                findings = judge_highest(test, run, rivals)
                yield from (self._at_edges(finding, test.runs) for finding in findings)
            case PublishedMeasurementTest() as test:
                yield self._at_edges(judge_published(test, *self._selected(test.run)), test.runs)
            case ConvergenceOrderTest() as test:
                (trace,) = self._selected(test.run)
                yield self._at_edges(judge_convergence_order(test, trace), test.runs)
            case ScalingTest() as test:
                series, other = self._selected(*test.series), self._selected(*test.compare_with)
                yield self._at_edges(judge_scaling(test, series, other), test.runs)
            case StationaryPointTest() as test:
                if self._surface is None:
                    raise FedatlasError(f"claim '{claim.id}': needs the landscape, --landscape")
                yield judge_stationary_point(test, self._surface)
            case BudgetOrderTest() | BudgetFallsTest() | DeltaReachesOneTest() as test:
                if self._budgets is None:
                    raise FedatlasError(f"claim '{claim.id}': needs the budgets, --budgets")
                yield from judge_budget(test, self._budgets)
            case AuditStandsTest() as test:
                if self._audit is None:
                    raise FedatlasError(f"claim '{claim.id}': needs the attacks, --attacks")
                yield from judge_audit(test, self._audit)

    def _selected(self, *runs: str) -> list[xr.Dataset]:
        return [self._traces[run][self._chosen[run].point] for run in runs]

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

    def _order_cases(self, test: OrderTest) -> Iterator[Finding]:
        if test.for_each == "selected":
            finding = self._order(test, *self._selected(*test.runs))
            yield self._at_edges(finding, test.runs)
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

    def _order(self, test: OrderTest, first: xr.Dataset, second: xr.Dataset) -> Finding:
        budget = common_budget([first, second], test.cost)
        if not budget:
            return Finding("", "inconclusive", "every seed of both diverged")
        if test.at is not None:
            if test.at > budget:
                raise FedatlasError(
                    f"claims: 'at: {test.at:g}' lies beyond {spent(test.cost, budget)}, the most "
                    f"that '{test.first}' and '{test.second}' both spent"
                )
            budget = test.at
        levels = [
            reached(trace, test.measurement, test.cost, budget, self._window)
            for trace in (first, second)
        ]
        named = zip(test.runs, levels, strict=True)
        subject = f"{level_name(test.measurement)} by {spent(test.cost, budget)}"
        return compared(subject, named, test.relation)

    def _cost_to_target(self, test: CostToTargetTest) -> Finding:
        traces = self._selected(*test.runs)
        target = common_target(traces, test.measurement, test.target)
        costs = [
            np.log10(cost_to_reach(trace, test.measurement, test.cost, target)) for trace in traces
        ]
        named = zip(test.runs, costs, strict=True)
        subject = f"{unit_of(test.cost)} to {target_name(test.measurement, target)}"
        return self._at_edges(compared(subject, named, test.relation), test.runs)

    def _monotone(self, test: MonotoneTest) -> Iterator[Finding]:
        by_step = self._by_step(test.run)
        if len(by_step) < 2:
            raise FedatlasError(f"claims: run '{test.run}' has one step size, nothing to compare")
        budget = common_budget(list(by_step.values()), "round")
        subject = f"{level_name(test.measurement)} by {spent('round', budget)}"
        smaller: tuple[float, np.ndarray] | None = None
        for step, trace in by_step.items():
            levels = reached(trace, test.measurement, "round", budget, self._window)
            start = np.median(log_measurement(trace, test.measurement)[:, 0])
            if not np.median(levels) < start:
                evidence = (
                    f"{subject}: {level(f'step {step:g}', levels)}, {number(start)} at the "
                    "start; it does not converge, which the claim excepts"
                )
                yield Finding(f"[step {step:g}]", "inconclusive", evidence)
                continue
            if smaller is not None:
                named = [(f"step {step:g}", levels), (f"step {smaller[0]:g}", smaller[1])]
                finding = compared(subject, named, "at_least_as_fast")
                yield replace(finding, case=f"[step {step:g} against {smaller[0]:g}]")
            smaller = step, levels

    def _at_edges(self, finding: Finding, runs: Iterable[str]) -> Finding:
        return replace(finding, evidence=finding.evidence + self._edges(*runs))

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
        parameters = flat(hyper_parameters(self._traces[run][point]))
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

    def _published_value(self, test: PublishedValueTest) -> Finding:
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
        return Finding("", verdict, evidence)

    def _selected_order(self, test: SelectedOrderTest) -> Finding:
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
        return Finding("", _unanimous(larger > smaller, not_above), evidence)


def _unanimous(agrees: np.ndarray, disagrees: np.ndarray) -> str:
    if agrees.size > 1 and agrees.all():
        return "reproduced"
    if disagrees.size > 1 and disagrees.all():
        return "not reproduced"
    return "inconclusive"  # seeds differ, or there is but one


def _listing(values: np.ndarray) -> str:
    named = ("none" if np.isnan(value) else f"{value:g}" for value in values)
    return "{" + ", ".join(named) + "}"
