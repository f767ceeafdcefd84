"""Horizons: the outcomes of a claim along a row of budgets or targets.

A verdict holds for one budget or one target. The strip of outcomes shows where the outcome changes,
and to what. A verdict is fragile if it changes near the declared budget or target.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

from fedatlas.evaluation.comparison import of_claim
from fedatlas.evaluation.results import tested
from fedatlas.schema.claims import SILENT, CaseOutcome, Outcome, Quantifier, Strip

#: Outcomes that compare a rate with the claimed one.
DECISIVE: tuple[Outcome, ...] = (
    "reproduced",
    "smaller than claimed",
    "no difference",
    "contradicted",
)


class Row(NamedTuple):
    """The scales of a budget or a target at which claims are judged.

    scales: the smallest budget, or the easiest target, first; 1 is what the claim declares. near:
    the range of scales in which another outcome makes a verdict fragile.
    """

    of: Literal["budget", "target"]
    scales: tuple[float, ...]
    near: tuple[float, float]


#: Shares of a budget, each 1/√2 of the next, and multiples of a target, each a third of the last.
BUDGETS = Row("budget", tuple(2.0 ** (-k / 2) for k in range(9, -1, -1)), (0.5, 1.0))
TARGETS = Row("target", tuple(3.0**k for k in range(5, -5, -1)), (1 / 3, 3.0))
#: The row for claims about small targets; larger targets do not make them fragile.
LIMIT = TARGETS._replace(near=(1 / 3, 1.0))


def along(judge: Callable[[float], Iterable[CaseOutcome]], row: Row | None) -> list[CaseOutcome]:
    """The cases at scale 1, each with its strip along the row, if there is one.

    judge: makes cases from a scale of the budget or of the target. If the claim is not testable,
    there is one case for all.
    """
    cases = tested(partial(judge, 1.0))
    if row is None:
        return cases
    found = {scale: cases if scale == 1 else tested(partial(judge, scale)) for scale in row.scales}
    strips = (
        Strip(
            row.of,
            tuple((scale, own[min(place, len(own) - 1)]) for scale, own in found.items()),
        )
        for place in range(len(cases))
    )
    return [
        replace(case, horizon=strip, fragile=_fragile(case.outcome, strip, row.near))
        for case, strip in zip(cases, strips, strict=True)
    ]


def _fragile(outcome: Outcome, strip: Strip, near: tuple[float, float]) -> str:
    """Other outcomes near the declared budget or target, and where; empty if there are none."""
    return ", ".join(
        f"{cell.outcome} at {_place(strip.of, scale)}"
        for scale, cell in strip.cells
        if near[0] <= scale * (1 + 1e-9) and scale <= near[1] * (1 + 1e-9)
        if cell.outcome not in (outcome, *SILENT)
    )


def in_the_limit(case: CaseOutcome) -> CaseOutcome:
    """A case of a claim about a limit: not testable if the next scale changes a decided outcome.

    The next scale is the next smaller budget or the next harder target. A change means that the
    rate had not settled.
    """
    if case.horizon is None or case.outcome not in DECISIVE:
        return case
    scales = [(scale, cell.outcome) for scale, cell in case.horizon.cells if scale < 1]
    scale, other = scales[-1] if case.horizon.of == "budget" else scales[0]
    if other == case.outcome or other not in DECISIVE:
        return case
    place = _place(case.horizon.of, scale)
    return case.not_testable(f"the {case.horizon.of} decides: {other} at {place}")


def of_any_budget(case: CaseOutcome, least: float) -> CaseOutcome:
    """A case of a claim that names no budget: not testable if its outcome depends on our budget.

    It depends on the budget if half of the budget or more gives another decisive outcome. It also
    does if the case is against the claim while its effect surely rises, by `least` or more from
    half of the budget on.
    """
    if case.horizon is None or case.effect is None or case.outcome not in DECISIVE:
        return case
    near = [(scale, cell) for scale, cell in case.horizon.cells if 0.5 <= scale * (1 + 1e-9) < 1]
    decides = [
        f"{cell.outcome} at {_place('budget', scale)}"
        for scale, cell in near
        if cell.outcome in DECISIVE and cell.outcome != case.outcome
    ]
    half = near[0][1].effect
    if case.outcome != "reproduced" and half and case.effect.low >= half.high + least:
        decides.append("from half of it on what is compared surely moves towards the claim")
    if not decides:
        return case
    return case.not_testable(f"the budget decides: {', '.join(decides)}")


def of_all(cases: Sequence[CaseOutcome], quantifier: Quantifier) -> Strip | None:
    """The strip of a claim from those of its cases; None unless all have the same scales."""
    strips = [case.horizon for case in cases]
    first = strips[0]
    if first is None or any(
        other is None or (other.of, other.scales) != (first.of, first.scales) for other in strips
    ):
        return None
    columns = zip(*(strip.cells for strip in strips if strip), strict=True)
    return Strip(
        first.of,
        tuple(
            (column[0][0], CaseOutcome("", of_claim([cell for _, cell in column], quantifier), ""))
            for column in columns
        ),
    )


def to_text(strip: Strip | None) -> str:
    """A strip as tables keep it: outcomes in order, each with its scales; empty without one."""
    if strip is None:
        return ""
    told: list[tuple[str, list[str]]] = []
    for scale, cell in strip.cells:
        if not told or told[-1][0] != cell.outcome:
            told.append((cell.outcome, []))
        told[-1][1].append(f"{scale:.3g}")
    parts = "; ".join(f"{outcome} at {', '.join(scales)}" for outcome, scales in told)
    return f"{strip.of}: {parts}"


def from_text(text: str) -> tuple[str, list[tuple[str, list[str]]]]:
    """What is scaled, and outcomes with their scales, as `to_text` wrote them; or empty."""
    of, _, parts = text.partition(": ")
    found = [part.partition(" at ") for part in parts.split("; ") if part]
    return of, [(outcome, scales.split(", ")) for outcome, _, scales in found]


def in_words(text: str) -> str:
    """Where a strip changes, and to which outcome; empty for an empty strip."""
    of, parts = from_text(text)
    told = []
    for place, (outcome, scales) in enumerate(parts):
        last = float(scales[-1])
        where = _place(of, last) if place < len(parts) - 1 else ""
        told.append(f"{outcome} {'up' if of == 'budget' else 'down'} to {where}")
    if not parts:
        return ""
    told[-1] = f"{'then ' if len(parts) > 1 else ''}{parts[-1][0]}"
    return ", ".join(told)


def _place(of: str, scale: float) -> str:
    """A scale in words."""
    named = _NAMED.get(f"{of} {scale:.3g}")
    if named:
        return named
    return f"{scale:.2g} of the budget" if of == "budget" else f"{scale:.3g} times the target"


_NAMED = {
    "budget 0.5": "half the budget",
    "budget 0.25": "a quarter of the budget",
    "budget 0.125": "an eighth of the budget",
    "budget 1": "all of the budget",
    "target 1": "the target",
    "target 3": "three times the target",
    "target 0.333": "a third of the target",
    "target 0.111": "a ninth of the target",
}
