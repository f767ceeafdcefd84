"""One run against each of its rivals."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comparison import of_claim
from fedatlas.evaluation.evidence import format_cost
from fedatlas.evaluation.horizon import BUDGETS, Row
from fedatlas.evaluation.learnt import has_learnt, told_constant
from fedatlas.evaluation.levels import Trace, column
from fedatlas.evaluation.quantities import (
    EFFECT_KEYS,
    WINDOW,
    Duel,
    EffectTest,
    Measured,
    Window,
    at_end,
    format_common_cost,
    losses_along,
    losses_of,
    lost_apart,
    shared_range,
)
from fedatlas.evaluation.results import NotTestableError, Results, judged
from fedatlas.schema.claims import CaseOutcome, Kind
from fedatlas.schema.models import Model
from fedatlas.schema.quantities import Cost, LargerIsBetter


class OverGraph(Model):
    """A run over some graphs, and its rivals over these or their own.

    run: the run that is claimed to be best. among: its rivals.
    """

    run: str
    among: tuple[str, ...] = Field(min_length=1)


class HighestTest(EffectTest):
    """One run is better than each of its rivals.

    highest: One run is better than each of its rivals. There is one case per rival, and one for all
    together. Without a `cost`, final measurements are compared. With one, means along it are
    compared, over the last `window` of the largest cost that all reached. With `each_record_from`
    the run must lead at every record after that share of the rounds; its smallest lead is judged.
    Every rival is tested for being better than the run, so Holm's correction applies. Runs that are
    no better than the best constant predictor are not compared.

    highest_by_graph: Like `highest`, once for each choice of graphs, where a paper does not say
    which it uses. There is one case for each choice, and one for each of its rivals. Evidence gives
    the noise that accumulates in the mean of the agents' models; runs that are otherwise equal may
    differ by it.

    run: the run that is claimed to be best. among: the rivals. graphs: name of the graphs → runs.
    at_end: may be declared without `cost`: compare final measurements. cost: compare means along
    this cost. window: share of that cost, at its end, over which they are means; by default a
    tenth; 1 begins where all begin. each_record_from: with `cost: round`: compare the record at
    which the lead over a rival is smallest, among records after this share of the rounds.
    """

    kinds: ClassVar[Mapping[str, Kind]] = {
        "highest": Kind(
            requires=("run", "among", "measurement"),
            takes=("at_end", "cost", "window", "each_record_from", *EFFECT_KEYS),
        ),
        "highest_by_graph": Kind(requires=("graphs", "measurement"), takes=("cost", "window")),
    }

    run: str = ""
    among: tuple[str, ...] = Field(default=(), min_length=1)
    graphs: dict[str, OverGraph] = Field(default={}, min_length=1)
    measurement: LargerIsBetter
    at_end: Literal[True] | None = None
    cost: Cost | None = None
    window: Window | None = None
    each_record_from: float | None = Field(default=None, gt=0, lt=1)

    @property
    def runs(self) -> tuple[str, ...]:
        over = (run for one in self.graphs.values() for run in (one.run, *one.among))
        return tuple(dict.fromkeys(over)) if self.graphs else (self.run, *self.among)

    @property
    def needs(self) -> tuple[str, ...]:
        return ("trained", "budgets") if self.graphs else ("trained",)

    @property
    def tuned_runs(self) -> tuple[str, ...]:
        return (self.run,) if self.run else ()  # rivals are left out one by one

    @model_validator(mode="after")
    def _rivals_are_others(self) -> Self:
        for run, among in [
            (self.run, self.among),
            *((g.run, g.among) for g in self.graphs.values()),
        ]:
            if run in among:
                raise ValueError(f"among: '{run}' is the run itself; name its rivals only")
            if len(set(among)) != len(among):
                raise ValueError(f"among: a rival is listed twice in {', '.join(among)}")
        if self.at_end and self.cost is not None:
            raise ValueError(f"at_end: true and cost: {self.cost} exclude each other; remove one")
        if self.window is not None and (self.cost is None or self.each_record_from is not None):
            raise ValueError(
                "window: needs a 'cost', along which means are, and no 'each_record_from'"
            )
        if self.each_record_from is not None and self.cost != "round":
            raise ValueError("each_record_from: needs 'cost: round', as runs share rounds only")
        return self

    @property
    def row(self) -> Row | None:
        return BUDGETS

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        if not self.graphs:
            yield from super().judge(results)
        for name, over in self.graphs.items():
            test = self.model_copy(update={"run": over.run, "among": over.among, "graphs": {}})
            whole, *cases = judged(test, results)
            drift = ", ".join(f"{run} {_drift(results, run)}" for run in test.runs)
            evidence = f"{whole.evidence}; noise gathered in x̄: {drift}"
            yield replace(whole, case=f"over {name}", evidence=evidence)
            if len(cases) > 1:
                yield from (replace(case, case=f"over {name}, {case.case}") for case in cases)

    def duels(self, results: Results) -> Mapping[str, Duel]:
        def judge(rival: str, traces: Sequence[Trace]) -> Iterator[CaseOutcome]:
            (found,) = self._measured(traces[0], traces[1:], 1.0)
            yield self._against(results, rival, traces, found)

        return {
            f"against {rival}": Duel((self.run, rival), partial(judge, rival))
            for rival in self.among
        }

    def at_scale(self, results: Results, scale: float) -> Iterator[CaseOutcome]:
        """All rivals together, then each."""
        first, *rivals = results.selected(*self.runs)
        pairs = self._measured(first, rivals, scale)
        cases = [
            self._against(results, rival, [first, trace], found)
            for rival, trace, found in zip(self.among, rivals, pairs, strict=True)
        ]
        by_outcome: dict[str, list[str]] = {}
        for rival, case in zip(self.among, cases, strict=True):
            by_outcome.setdefault(case.outcome, []).append(rival)
        told = "; ".join(
            f"{outcome} against {', '.join(names)}" for outcome, names in by_outcome.items()
        )
        closest = min(cases, key=lambda case: case.effect.estimate if case.effect else np.inf)
        evidence = f"{pairs[0].subject}: {self.run} {told}"
        yield CaseOutcome("", of_claim(cases), evidence, closest.effect)
        yield from cases

    def _measured(self, first: Trace, rivals: Sequence[Trace], share: float) -> list[Measured]:
        """The run and each rival, by a share of the budget."""
        measurement, cost, traces = self.measurement, self.cost, [first, *rivals]
        if cost is None:
            subject, _, (own, *others), _ = at_end(traces, measurement, share)
            return [Measured(subject, measurement, (own, other)) for other in others]
        start, end = shared_range(traces, cost, share)
        if self.each_record_from is not None:
            start = self.each_record_from * end
            since = f"from {start:.4g} to {format_cost(cost, end)}"
            subject = f"{measurement} at the record of the least lead {since}"
            leads = [_least_lead(first, rival, measurement, start, end) for rival in rivals]
            return [Measured(subject, measurement, lead) for lead in leads]
        start = max(start, (1 - (self.window or WINDOW)) * end)
        since = f"from {start:.4g} to" if start else "up to"
        subject = f"mean {measurement} {since} {format_common_cost(traces, cost, end)}"
        own, *others = (losses_along(one, measurement, cost, start, end) for one in traces)
        return [Measured(subject, measurement, (own, other)) for other in others]

    def _against(
        self, results: Results, rival: str, traces: Sequence[Trace], found: Measured
    ) -> CaseOutcome:
        if why := results.why_not_tuned(rival):
            return CaseOutcome(f"against {rival}", "not testable", why)
        names = (self.run, rival)
        case = self.compared(results, traces, names, found, self.measurement)
        case = replace(case, case=f"against {rival}")
        untrained = [
            name
            for name, trace, losses in zip(names, traces, found.losses, strict=True)
            if not has_learnt(self, results, trace, losses, self.measurement)
        ]
        told = case.evidence + told_constant(results, traces[0], self.measurement)
        if not untrained:
            return replace(case, evidence=told)
        evidence = (
            f"training not reproduced: {', '.join(untrained)} no better than a constant; {told}"
        )
        return CaseOutcome(case.case, "not testable", evidence)


def _least_lead(
    first: Trace, second: Trace, measurement: str, start: float, end: float
) -> tuple[np.ndarray, np.ndarray]:
    """(seeds,) losses of both at the record, of rounds from start to end, where the first leads by
    least; +inf for a lost seed. FedatlasError unless both are recorded at the same rounds.
    """
    rounds = column(first, "round")[0]
    if not np.array_equal(rounds, column(second, "round")[0]):
        raise FedatlasError("each_record_from: runs must be recorded at the same rounds")
    judged = (rounds >= start) & (rounds <= end)
    if not judged.any():
        raise NotTestableError(f"no record from {start:.4g} to {end:.4g} rounds")
    ours, theirs = (losses_of(trace, measurement)[:, judged] for trace in (first, second))
    least = np.argmin(np.nan_to_num(theirs - ours, nan=np.inf), axis=1)[:, None]
    own, other = (np.take_along_axis(values, least, axis=1)[:, 0] for values in (ours, theirs))
    return lost_apart(first, measurement, own), lost_apart(second, measurement, other)


def _drift(results: Results, run: str) -> str:
    """The noise in one number of the model, by the end."""
    gathered = results.budgets_of(run)[0]["drift"].dropna("iteration").to_numpy()
    return f"{gathered[-1]:.2f}" if len(gathered) else "not known"
