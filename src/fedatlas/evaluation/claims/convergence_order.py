"""The law by which a run converges: exponential or power law."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from fedatlas.evaluation.evidence import counts, format_effect, number
from fedatlas.evaluation.levels import Trace, column, diverged, smallest
from fedatlas.evaluation.quantities import EffectTest
from fedatlas.evaluation.results import NotTestableError, Results
from fedatlas.schema.claims import CaseOutcome, Effect

#: Where spans end: below, sub-optimality nears the accuracy of the optimum.
CONVERGED = 1e-9
#: No rate that theory calls sublinear is faster than k^-2, that of accelerated gradients.
STEEPEST_POWER = 2.0
#: Over a fall of one decade the steepest power law leaves a straight line by 0.14 decades at most.
FEWEST_DECADES = 1.0
FEWEST_RECORDS = 8  # in the span: three numbers are fitted
# Offsets in spans: from a curve that is a power law from its first step on to one hardly begun.
_OFFSETS = np.logspace(-4, 0, 41)
_PERFECT = 1e-12  # decades: where fits are exact, rounding must not tell them apart


class ConvergenceOrderTest(EffectTest):
    """Whether an exponential or a power law of update epochs fits a run's sub-optimality better.

    Linear convergence is an exponential, a + b t in decades. Sublinear convergence is a power law,
    a − p log10(t + c) with 0 ≤ p ≤ 2 and the offset c > 0 that fits best: rates of theory hold from
    an unknown iteration on, and log10(0) has no value. The span reaches from the start to the end,
    or to the last record before `CONVERGED`. Both are fitted by least squares to log10 of the
    sub-optimality; the advantage is the logarithm of the ratio of their root mean square residuals.
    A seed that diverged or did not fall converges in no order: it is lost, whichever is claimed.
    `smallest_effect` is a factor of these residuals, 1.05 by default, our choice.

    run: that which the claim is about. order: which of the two is claimed.
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

    def at_scale(self, results: Results, scale: float) -> Iterator[CaseOutcome]:
        traces = results.selected(self.run)
        by_seed = fits(traces[0])
        falling = [fit for fit in by_seed if fit is not None and fit.decades > 0]
        fewest = min((fit.records for fit in falling), default=FEWEST_RECORDS)
        if fewest < FEWEST_RECORDS:
            raise NotTestableError(
                f"{self.run}: a span of {fewest} records, {FEWEST_RECORDS} are needed; record more "
                "often"
            )
        decades = float(np.median([fit.decades for fit in falling])) if falling else np.inf
        if decades < FEWEST_DECADES:
            raise NotTestableError(
                f"{self.run}: it falls by {decades:.2g} decades; {FEWEST_DECADES:g} or more tell "
                "the two apart"
            )
        towards = 1 if self.order == "linear" else -1
        gaps = np.array(
            [
                towards * fit.advantage if fit is not None and fit.decades > 0 else -np.inf
                for fit in by_seed
            ]
        )

        def describe(effect: Effect) -> str:
            ours, other = ("exponential", "power law")[::towards]
            return (
                f"{self.run}: {_told(falling) if falling else 'no seed falls'}; the {ours} leaves "
                f"{format_effect(effect, f'residual of the {other}', '', '')}; {counts(effect)}"
            )

        yield self.decided(results, traces, gaps, describe, "suboptimality")


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


def fits(trace: Trace) -> list[Fit | None]:
    """By seed; None where a seed diverged."""
    levels = np.log10(np.maximum(column(trace, "suboptimality"), smallest("suboptimality")))
    spans = zip(column(trace, "update_epoch"), levels, diverged(trace), strict=True)
    return [None if lost else _fit(epochs, level) for epochs, level, lost in spans]


def _fit(epochs: np.ndarray, levels: np.ndarray) -> Fit:
    converged = np.flatnonzero(levels <= np.log10(CONVERGED))
    records = max(converged[0], 1) if len(converged) else len(levels)
    epochs, levels = epochs[:records] - epochs[0], levels[:records]
    slope, residual = _line(epochs, levels, -np.inf)
    laws = [
        _line(np.log10(epochs + offset), levels, -STEEPEST_POWER)
        for offset in max(epochs[-1], 1e-12) * _OFFSETS
    ]
    power, least = min(laws, key=lambda law: law[1])
    return Fit(
        records=int(records),
        epochs=float(epochs[-1]),
        decades=float(levels[0] - levels[-1]),
        end=float(levels[-1]),
        rate=-slope,
        power=-power,
        advantage=float(np.log10(least / residual)),
    )


def _line(x: np.ndarray, y: np.ndarray, steepest: float) -> tuple[float, float]:
    """The slope, from `steepest` to 0, and the root mean square residual of the fitted line."""
    centred, spread = x - x.mean(), float(np.ptp(x))
    slope = float(centred @ (y - y.mean()) / (centred @ centred)) if spread else 0.0
    slope = min(max(slope, steepest), 0.0)
    rest = y - y.mean() - slope * centred
    return slope, max(float(np.sqrt(np.mean(rest**2))), _PERFECT)


def _told(falling: list[Fit]) -> str:
    """Medians over the seeds that fell."""
    rate, power, end, epochs = (
        float(np.median([getattr(fit, name) for fit in falling]))
        for name in ("rate", "power", "end", "epochs")
    )
    return (
        f"exponential of {rate:.3g} decades per update epoch, power law of exponent {-power:.2g}, "
        f"to {number(end)} by {epochs:.3g}"
    )
