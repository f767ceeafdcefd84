"""Tests of one run: against a printed number, laws of convergence, or a theorem's bound."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple, Self

import numpy as np
from pydantic import PositiveFloat, PositiveInt, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.evaluation import horizon
from fedatlas.evaluation.bounds import Row, bounded_values
from fedatlas.evaluation.comparison import ROUNDING, Criterion, Interval, t_quantile
from fedatlas.evaluation.conditions import conditions_failing
from fedatlas.evaluation.ended import recorded_until
from fedatlas.evaluation.evidence import (
    counts,
    format_cost,
    format_effect,
    format_interval,
    format_repeats,
    mean_of,
    number,
    plain,
)
from fedatlas.evaluation.learnt import told_constant
from fedatlas.evaluation.levels import Trace, column, diverged, smallest, until
from fedatlas.evaluation.quantities import EffectTest
from fedatlas.evaluation.results import NotTestableError, Results, observations, tested
from fedatlas.schema.claims import CaseOutcome, ClaimTest, Effect, Outcome, Strip
from fedatlas.schema.quantities import Measurement

#: Spans end here: below, sub-optimality is close to the accuracy of the optimum.
CONVERGED = 1e-9
#: No rate that theory calls sublinear is faster than k^-2, that of accelerated gradients.
STEEPEST_POWER = 2.0
#: Over a fall of one decade the steepest power law leaves a straight line by 0.14 decades at most.
FEWEST_DECADES = 1.0
FEWEST_RECORDS = 8  # in the span: three numbers are fitted
# Offsets in spans: from a curve that is a power law from its first step on to one hardly begun.
_OFFSETS = np.logspace(-4, 0, 41)
_PERFECT = 1e-12  # decades: where fits are exact, rounding must not tell them apart


class PublishedMeasurementTest(ClaimTest):
    """Compares a run's final measurement, a mean over seeds, with the printed number.

    The outcome is compatible if the printed number lies within the prediction interval for a mean
    like that of our seeds. The interval uses spread and number of trials of both sides. Where the
    paper prints no spread, that of our seeds takes its place; a number without ± counts as one
    trial unless `trials` says otherwise. The claim is not testable if a seed was lost, since the
    mean of the others is not the run's. A single seed is undecided, unless the paper prints a
    spread. If the paper does not say after which budget it measured, the run is also compared at
    shares of our budget. An incompatible number that the run passes on the way, or still moves
    towards in the end, is then not testable.

    run: the run that the claim is about. value: in units of the measurement: 81.96 % is 0.8196.
    spread: the paper's standard deviation over its trials. trials: the number of trials of which
    the value is the mean. budget_stated: whether the paper says after how many epochs or rounds it
    measured.
    """

    kind: Literal["published_measurement"]
    run: str
    measurement: Measurement
    value: float
    spread: PositiveFloat | None = None
    trials: PositiveInt = 1
    budget_stated: bool = True

    @model_validator(mode="after")
    def _spread_is_of_trials(self) -> Self:
        if self.spread is not None and self.trials < 2:
            raise ValueError("spread needs 'trials', 2 or more: the number that it was taken over")
        return self

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        row = None if self.budget_stated else horizon.BUDGETS
        (case,) = horizon.along(lambda share: [self._judged(results, share)], row)
        if case.horizon is not None and case.outcome == "incompatible":
            case = _at_other_budgets(case, case.horizon)
        yield results.tuned(case, self.run)

    def _judged(self, results: Results, share: float) -> CaseOutcome:
        """The measurement that the run ends with after a share of its rounds."""
        (trace,) = recorded_until(results.selected(self.run), share)
        lost = diverged(trace)
        ours = np.where(lost, np.inf, column(trace, self.measurement)[:, -1])
        evidence = (
            f"{self.measurement} at the end: {mean_of(self.run, ours)}, published {self.printed}"
            f"{told_constant(results, trace, self.measurement)}"
        )
        if lost.any():
            return CaseOutcome("", "not testable", f"{evidence}; a lost seed leaves no mean")
        own = observations(ours, [trace])
        interval = prediction_interval(
            own, self.value, self.trials, self.spread, results.seeds_added
        )
        if interval is None:
            return CaseOutcome("", "undecided", f"{evidence}; one observation shows no spread")
        inside = interval.low <= ROUNDING and interval.high >= -ROUNDING
        outcome: Outcome = "compatible" if inside else "incompatible"
        effect = Effect(
            **vars(interval),
            smallest=0.0,
            unit=self.measurement,
            seeds=len(own),
            published=0.0,
            repeats=len(ours) - len(own),
            seeds_added=results.seeds_added,
        )
        gap = format_interval(interval.estimate, interval.low, interval.high)
        evidence += f"; ours minus the published {gap}{format_repeats(effect)}"
        return CaseOutcome("", outcome, evidence, effect)

    @property
    def printed(self) -> str:
        """The printed number in words."""
        spread = "" if self.spread is None else f" ± {self.spread:g}"
        return f"{self.value:g}{spread} of {self.trials} trial{'s' if self.trials > 1 else ''}"


def _at_other_budgets(case: CaseOutcome, strip: Strip) -> CaseOutcome:
    """Not testable where the unknown budget decides whether a number is compatible."""
    gaps = [cell.effect.estimate for _, cell in strip.cells if cell.effect is not None]
    passed = any(cell.outcome == "compatible" for _, cell in strip.cells)
    passed = passed or min(gaps) < 0 < max(gaps)
    if not passed and (len(gaps) < 2 or abs(gaps[-1]) >= abs(gaps[-2])):
        return case
    why = "the run passes it before its end" if passed else "the run still moves towards it"
    return case.not_testable(f"the paper does not say after which budget, and {why}")


def prediction_interval(
    ours: np.ndarray, value: float, trials: int, spread: float | None, seeds_added: bool
) -> Interval | None:
    """Our mean over trials minus the printed one, which is compatible if the interval holds 0.

    Two means of independent trials are compared by Welch's t. Only the variation of a trial counts:
    seeds, and splits where every trial splits anew. The paper split and tested the same rows, so
    neither the sampling error of a fixed test set nor the correction of Nadeau and Bengio (2003),
    which is for other rows, is added. Where one side has no spread, that of the other stands for
    it. None where neither has any. It holds a perfect replication with 95 %; with 94 % where three
    trials stand beside ten.

    ours: (seeds,). value: the printed mean of trials, whose standard deviation is the spread.
    """
    count = len(ours)
    own = float(np.var(ours, ddof=1)) if count > 1 else None
    theirs = None if spread is None else spread**2
    if own is not None and theirs is not None:
        parts = own / count, theirs / trials
        error, freedom = sum(parts), float(count + trials - 2)
        if error:  # Welch (1947)
            freedom = error**2 / (parts[0] ** 2 / (count - 1) + parts[1] ** 2 / (trials - 1))
    elif own is not None:
        error, freedom = own * (1 / count + 1 / trials), count - 1.0
    elif theirs is not None:
        error, freedom = theirs * (1 / count + 1 / trials), trials - 1.0
    else:
        return None
    gap = float(ours.mean()) - value
    half = float(t_quantile(freedom, seeds_added) * np.sqrt(error))
    return Interval(gap, gap - half, gap + half)


class BoundTest(ClaimTest):
    """Tests whether a run that a theorem covers stays below its bound at every record.

    Theorems bound expectations, and the mean over seeds takes their place. It is compared at the
    record where the bound is the smallest multiple of the mean. The theorem is contradicted if both
    the mean and surely the typical seed lie above the bound, and undecided if only the mean does.
    Otherwise it is not testable: a run below its bound proves nothing about other runs. There is a
    case for each version of the theorem in the experiment's theory study, as printed or with the
    constants of its proof.

    run: the run that the theorem covers. theorem: its name in the study.
    """

    kind: Literal["bound_holds"]
    run: str
    theorem: str

    @property
    def needs(self) -> tuple[str, ...]:
        return ("trained", "theory")

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        point = results.chosen[self.run].point
        of_run = [
            row
            for row in results.study(results.theory, "theory")
            if (row.run, row.point) == (self.run, point)
        ]
        rows = [row for row in of_run if row.theorem == self.theorem]
        if not rows:
            known = ", ".join(dict.fromkeys(row.theorem for row in of_run))
            raise FedatlasError(
                f"theorem '{self.theorem}': the study of '{self.run}' knows {known or 'none'}"
            )
        for row in rows:
            (found,) = tested(partial(self._judged, results, row))
            case = row.version if len(rows) > 1 else ""
            yield replace(results.tuned(found, self.run), case=case)

    def _judged(self, results: Results, row: Row) -> Iterator[CaseOutcome]:
        name = f"{self.theorem} ({row.version})"
        if not row.covered:
            outside = f"outside the conditions of {name}: {conditions_failing(row)}"
            yield CaseOutcome("", "not covered", outside)
            return
        if row.promised is None:
            raise NotTestableError(f"{name} bounds nothing that is known here: {row.note}")
        (trace,) = results.selected(self.run)
        values = bounded_values(trace, row.bounds, row.optimum)[:, 1:]
        costs = column(trace, row.cost)[:, 1:]
        # (seeds, records); a lost seed has no costs.
        bounds = np.stack([row.bound(own) for own in costs])
        with np.errstate(invalid="ignore"):
            factors_of = np.nanmean(bounds, axis=0) / values.mean(axis=0)
        least = int(np.argmin(factors_of))
        at = format_cost(row.cost, float(np.nanmean(costs[:, least])))
        measured = f"{row.bounds}, mean over seeds"
        evidence = (
            f"{name}, {self.run}, {measured}: the bound is nearest at {at}, where it is "
            f"{plain(factors_of[least])} times what was measured "
            f"({plain(float(np.nanmean(bounds[:, least])))} against "
            f"{plain(float(values[:, least].mean()))}); at the end {plain(factors_of[-1])} times"
        )
        if factors_of[least] >= 1 - ROUNDING:
            raise NotTestableError(f"{evidence}; a run can only refute")
        gaps = np.log10(np.nanmean(bounds[:, least])) - np.log10(values[:, least])
        outcome, effect = results.compare(
            gaps, Criterion("not worse", 0.0), "decades", [trace], "objective"
        )
        typical = format_interval(effect.estimate, effect.low, effect.high)
        evidence += f"; decades of a seed below its bound {typical}{format_repeats(effect)}"
        outcome = "contradicted" if outcome == "contradicted" else "undecided"
        yield CaseOutcome("", outcome, evidence, effect)


class ConvergenceOrderTest(EffectTest):
    """Tests whether an exponential or a power law of update epochs fits sub-optimality better.

    Linear convergence is an exponential, a + b t in decades. Sublinear convergence is a power law,
    a − p log10(t + c) with 0 ≤ p ≤ 2 and the offset c > 0 that fits best: rates of theory hold from
    an unknown iteration on, and log10(0) has no value. The span reaches from the start to the end,
    or to the last record before `CONVERGED`. Both laws are fitted by least squares to log10 of the
    sub-optimality; the advantage is the logarithm of the ratio of their root mean square residuals.
    A seed that diverged or did not fall has no order, so it is lost for either claim.

    An order describes the limit, so a run is also judged at shares of its budget. The claim is not
    testable if the largest of these gives another outcome. Nor is it if the claim would be
    contradicted, but the run ends above `CONVERGED` and the fits surely move towards the claim from
    half of the budget on, by `smallest_effect` or more. `smallest_effect` is a factor of the
    residuals; the default 1.05 is our choice.

    run: the run that the claim is about. order: which of the two laws is claimed.
    """

    kind: Literal["convergence_order"]
    run: str
    order: Literal["linear", "sublinear"]

    @property
    def measured(self) -> tuple[str, ...]:
        return ("suboptimality",)

    @property
    def counted(self) -> tuple[str, ...]:
        return ("update_epoch",)

    @property
    def row(self) -> horizon.Row:
        return horizon.BUDGETS

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        for case in horizon.along(partial(self.at_scale, results), self.row):
            yield self.tuned(results, horizon.in_the_limit(case))

    def at_scale(self, results: Results, scale: float) -> Iterator[CaseOutcome]:
        traces = [until(trace, scale) for trace in results.selected(self.run)]
        if scale < 1 and traces[0].sizes["record"] < FEWEST_RECORDS:
            raise NotTestableError(f"{self.run}: too few records by {scale:.2g} of the budget")
        by_seed = fits(traces[0])
        falling = [fit for fit in by_seed if fit is not None]
        fewest = min((fit.records for fit in falling), default=FEWEST_RECORDS)
        if fewest < FEWEST_RECORDS:
            raise NotTestableError(
                f"{self.run}: a span of {fewest} records, {FEWEST_RECORDS} are needed; record more "
                "often"
            )
        told = "no seed falls"
        if falling:
            median = Fit(*np.median(falling, axis=0))
            if median.decades < FEWEST_DECADES:
                raise NotTestableError(
                    f"{self.run}: it falls by {median.decades:.2g} decades; {FEWEST_DECADES:g} or "
                    "more tell the two apart"
                )
            told = (
                f"exponential of {median.rate:.3g} decades per update epoch, power law of exponent "
                f"{-median.power:.2g}, to {number(median.end)} by {median.epochs:.3g}"
            )
        towards = 1 if self.order == "linear" else -1
        gaps = np.array([-np.inf if fit is None else towards * fit.advantage for fit in by_seed])

        def describe(effect: Effect) -> str:
            ours, other = ("exponential", "power law")[::towards]
            residual = format_effect(effect, f"residual of the {other}", "", "")
            return f"{self.run}: {told}; the {ours} leaves {residual}; {counts(effect)}"

        case = self.decided(results, traces, gaps, describe, "suboptimality")
        half = until(traces[0], 0.5 * scale)
        known = half.sizes["record"] >= FEWEST_RECORDS
        before = fits(half) if known else [None] * len(by_seed)
        moved = np.array(
            [
                towards * (fit.advantage - early.advantage)
                for fit, early in zip(by_seed, before, strict=True)
                if fit is not None and early is not None and not fit.converged
            ]
        )
        if case.outcome == "contradicted" and len(moved) == len(by_seed):
            towards_claim = results.interval(moved, traces)
            if towards_claim.low >= self.criterion.smallest:
                factor = 10**towards_claim.estimate
                case = case.not_testable(
                    "the budget decides: at half of it that was "
                    f"{factor:.3g} times as large, and it ends above {CONVERGED:g}"
                )
        yield case


class Fit(NamedTuple):
    """Fits of an exponential and a power law to a seed's sub-optimality over its span.

    advantage: how much smaller the exponential's root mean square residual is, in decades of it.
    """

    records: int
    epochs: float  # length of the span
    decades: float  # by which the seed fell
    end: float  # level at the end of the span
    rate: float  # of the exponential, decades per update epoch
    power: float  # of the power law
    advantage: float
    converged: bool  # whether it got down to `CONVERGED`


def fits(trace: Trace) -> list[Fit | None]:
    """Fits by seed; None where a seed diverged or did not fall."""
    levels = np.log10(np.maximum(column(trace, "suboptimality"), smallest("suboptimality")))
    spans = zip(column(trace, "update_epoch"), levels, diverged(trace), strict=True)
    return [None if lost else _fit(epochs, level) for epochs, level, lost in spans]


def _fit(epochs: np.ndarray, levels: np.ndarray) -> Fit | None:
    converged = np.flatnonzero(levels <= np.log10(CONVERGED))
    records = max(int(converged[0]), 1) if len(converged) else len(levels)
    epochs, levels = epochs[:records] - epochs[0], levels[:records]
    decades = float(levels[0] - levels[-1])
    if decades <= 0:
        return None
    (slope,), (residual,) = _lines(epochs[None], levels, -np.inf)
    offsets = max(epochs[-1], 1e-12) * _OFFSETS
    powers, residuals = _lines(np.log10(epochs + offsets[:, None]), levels, -STEEPEST_POWER)
    best = int(np.argmin(residuals))
    return Fit(
        records=records,
        epochs=float(epochs[-1]),
        decades=decades,
        end=float(levels[-1]),
        rate=float(-slope),
        power=float(-powers[best]),
        advantage=float(np.log10(residuals[best] / residual)),
        converged=bool(len(converged)),
    )


def _lines(x: np.ndarray, y: np.ndarray, steepest: float) -> tuple[np.ndarray, np.ndarray]:
    """Fit a line to y (n,) against each row of x (m, n).

    Returns slopes, from `steepest` to 0, and root mean square residuals, both (m,).
    """
    centred, deviation = x - x.mean(axis=1, keepdims=True), y - y.mean()
    slopes = np.clip(centred @ deviation / (centred**2).sum(axis=1), steepest, 0.0)
    rest = deviation - slopes[:, None] * centred
    return slopes, np.maximum(np.sqrt(np.mean(rest**2, axis=1)), _PERFECT)
