"""Tests that compare a study's value with a paper's claim; nothing is random here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comparison import CONFIDENCE, ROUNDING
from fedatlas.evaluation.quantities import common_delta, format_delta, why_no_common_delta
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.tables import (
    FORM_PARTS,
    ONE_CLIENT,
    REFUTED,
    Classification,
    describe_point,
)
from fedatlas.schema.claims import CaseOutcome, ClaimTest, Kind, Outcome

if TYPE_CHECKING:
    pass


class Found(NamedTuple):
    """The answer of a study to one case of a claim.

    holds: whether the value is as claimed; None where the study cannot decide. covered: whether the
    run meets the theorem's conditions.
    """

    case: str
    holds: bool | None
    evidence: str
    covered: bool = True


class StudyValueTest(ClaimTest):
    """Compares a study's value with what is claimed about it: reproduced, or else contradicted.

    audit_stands: No pair of adjacent data sets of the privacy audit loses more than the ε that a
    paper claims by the run's first accounting. If none does, the claim is not testable, since a
    pair can only refute.

    beyond_data: A claim that no run and no attack could contradict, such as algebra; it is not
    testable.

    budget_bounded: The ε of DP-GT's Lemma 3 stays finite as the horizon K goes to infinity, by
    closed sums up to `far_horizon` of the budgets. Reproduced if ε falls throughout the last third
    of the decades of K and is larger before. Contradicted if it is largest at the last K. Otherwise
    not testable. A run that does not meet the theorem's conditions is not covered.

    budget_falls: The ε of a whole run falls with every larger horizon, from `from_horizon` on.

    budget_order: One run spends less ε over all iterations than each of its rivals, by each run's
    first accounting, with one case per rival. Values of ε at different δ > 0 are not testable.

    delta_reaches_one: The δ of a run reaches 1 after a number of iterations, within the tolerance.
    The claim is not testable if something was fitted to it.

    forms_agree: DP-GT's updates (4) and (6) agree with (7) and (8), at a run's steps and over its
    graphs: from equal states, trackers and draws, an iteration of either gives the same result.
    Both are linear, so their coefficients are compared.

    not_covered: A claim about conditions that no run here meets. Its reason names the condition. If
    the experiment has a table of theorems, a claim has `covered_by` instead.

    leak_stands: No attack of the audit of messages learns what a paper says is safe. There is a
    case for each attack. If none does, the claim is not testable, since an attack can only refute.

    stationary_point: The loss surface has a stationary point of a class, far above the lowest value
    found, as far as the searches go: finding none proves less than finding one.

    run: the run that the claim is about. smaller, than: a run that is claimed to spend less, and
    its rivals. from_horizon: K from which on ε is claimed to fall. floor: whether samples are whole
    numbers, as they are in a run. after: the claimed number of iterations. tolerance: iterations
    more or less that still agree. fitted: what was fitted to this claim in the run; if declared,
    the claim is not judged. classification: the claimed kind of point. above_optimum_by: in units
    of the surface. attack, who: the beginnings of the table's rows that the claim is about. reason:
    why nothing can contradict the claim, or which condition no run meets, and what is known.
    """

    kinds: ClassVar[Mapping[str, Kind]] = {
        "audit_stands": Kind(requires=("run",)),
        "beyond_data": Kind(requires=("reason",)),
        "budget_bounded": Kind(requires=("run",)),
        "budget_falls": Kind(requires=("run", "from_horizon"), takes=("floor",)),
        "budget_order": Kind(requires=("smaller", "than")),
        "delta_reaches_one": Kind(requires=("run", "after", "tolerance"), takes=("fitted",)),
        "forms_agree": Kind(requires=("run",)),
        "not_covered": Kind(requires=("reason",)),
        "leak_stands": Kind(requires=("attack",), takes=("who",)),
        "stationary_point": Kind(requires=("classification", "above_optimum_by")),
    }

    run: str = ""
    smaller: str = ""
    than: tuple[str, ...] = Field(default=(), min_length=1)
    from_horizon: PositiveInt = 1
    floor: bool = True
    after: PositiveInt = 1
    tolerance: NonNegativeInt = 0
    fitted: str | None = None
    classification: Classification = "minimum"
    above_optimum_by: NonNegativeFloat = 0
    attack: str = ""
    who: str = ""
    reason: str = ""

    @property
    def runs(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.run, self.smaller, *self.than)))

    @property
    def needs(self) -> tuple[str, ...]:
        return _VALUES[self.kind].needs

    def judge(self, results: Results) -> Iterator[CaseOutcome]:
        value = _VALUES[self.kind]
        for case, holds, evidence, covered in value.found(self, results):
            if not covered:
                yield CaseOutcome(case, "not covered", evidence)
            elif holds is None or (holds and value.only_refutes):
                only = f"; {value.only_refutes} can only refute" if value.only_refutes else ""
                yield CaseOutcome(case, value.silent, f"{evidence}{only}")
            else:
                yield CaseOutcome(case, "reproduced" if holds else "contradicted", evidence)


def _beyond_data(test: StudyValueTest, results: Results) -> Iterator[Found]:
    yield Found("", None, test.reason)


def _budget_bounded(test: StudyValueTest, results: Results) -> Iterator[Found]:
    known = [each for each in results.budgets_of(test.run) if "log_far_epsilon" in each]
    known = [each.dropna("far_horizon") for each in known]
    case = next((each for each in known if each.sizes["far_horizon"]), None)
    if case is None:
        raise FedatlasError(
            f"run '{test.run}' has no budgets of far horizons: give budgets a 'far_horizon', and "
            "the run DP-GT's scheme S1 or S2"
        )
    horizons, levels = case["far_horizon"].to_numpy(), case["log_far_epsilon"].to_numpy()
    place, last = int(levels.argmax()), len(levels) - 1
    slope = (levels[-1] - levels[-2]) / np.log10(horizons[-1] / horizons[-2])
    evidence = (
        f"{test.run}, K = {horizons[0]} to {horizons[-1]}: Lemma 3's ε is largest at "
        f"K = {horizons[place]} (C times 10^{levels[place]:.3f}); it ends at 10^{levels[-1]:.3f}, "
        f"where it goes as K to the power of {slope:.3g}"
    )
    if missed := str(case["finite_without"].item()):
        yield Found("", None, f"outside the conditions: {missed}; {evidence}", covered=False)
    elif place == last:
        yield Found("", False, evidence)
    else:
        late = levels[2 * last // 3 :]
        falls = place <= 2 * last // 3 and bool((np.diff(late) < 0).all())
        yield Found("", True if falls else None, evidence)


def _budget_falls(test: StudyValueTest, results: Results) -> Iterator[Found]:
    case = results.budgets_of(test.run)[0]
    variable = "final_epsilon" if test.floor else "unfloored_epsilon"
    horizons, epsilon = case["horizon"].to_numpy(), case[variable].to_numpy()
    late = (horizons >= test.from_horizon) & np.isfinite(epsilon)
    if late.sum() < 2:
        raise FedatlasError(f"run '{test.run}' has no budgets of such horizons")
    rises = horizons[late][1:][np.diff(epsilon[late]) >= 0]
    highest = horizons[late][epsilon[late].argmax()]
    evidence = (
        f"{test.run}{'' if test.floor else ', samples not rounded down'}, horizons "
        f"{test.from_horizon} to {horizons[late][-1]}: ε is largest at "
        f"K = {highest} ({epsilon[late].max():.5g}), {epsilon[late][0]:.5g} at the first and "
        f"{epsilon[late][-1]:.5g} at the last; it rises at {len(rises)} of {late.sum() - 1} steps"
    )
    if len(rises):
        evidence += f", last at K = {rises[-1]}"
    yield Found("", not len(rises), evidence)


def _budget_order(test: StudyValueTest, results: Results) -> Iterator[Found]:
    for rival in test.than:
        budgets = {run: results.budgets_of(run) for run in (test.smaller, rival)}
        spent, told, assumed, deltas = [], [], [], []
        for run, cases in budgets.items():
            totals = [
                (float(case["epsilon"].dropna("iteration")[-1]), case["accounting"].item())
                for case in cases
            ]
            spent.append(totals[0][0])
            told.append([f"{epsilon:.5g} ({accounting})" for epsilon, accounting in totals])
            assumed.append(str(cases[0]["statement"].item()))
            # (1,) the δ at which the ε of all iterations holds.
            deltas.append((run, cases[0]["delta"].dropna("iteration").to_numpy()[-1:]))
        (ours, *own), (theirs, *others) = told
        evidence = f"ε in all: {test.smaller} {ours}, {rival} {theirs}"
        for run, further in zip(budgets, (own, others), strict=True):
            evidence += f"; {run} {', '.join(further)}" if further else ""
        if assumed[0] == assumed[1]:
            evidence += f"; each {assumed[0]}"
        else:
            evidence += "".join(f"; {run} {of}" for run, of in zip(budgets, assumed, strict=True))
        delta = common_delta([each for _, each in deltas])
        if delta is None:
            evidence += f"; {why_no_common_delta(deltas)}"
        elif delta:
            evidence += f"; both{format_delta(delta)}"
        case = f"than {rival}" if len(test.than) > 1 else ""
        yield Found(case, None if delta is None else spent[0] < spent[1], evidence)


def _forms_agree(test: StudyValueTest, results: Results) -> Iterator[Found]:
    case = results.budgets_of(test.run)[0]
    if "form_gap" not in case:
        raise FedatlasError(f"run '{test.run}' has no form gaps: they are of DP-GT's runs")
    gaps = {part: float(case["form_gap"].sel(part=part)) for part in FORM_PARTS}
    told = ", ".join(f"{gap:.3g} of {part}" for part, gap in gaps.items())
    evidence = (
        f"{test.run}: after one iteration coefficients of (4)/(6) and of (7)/(8) differ by up to "
        f"{told}"
    )
    yield Found("", max(gaps.values()) <= ROUNDING, evidence)


def _delta_reaches_one(test: StudyValueTest, results: Results) -> Iterator[Found]:
    found, agrees = [], []
    for case in results.budgets_of(test.run):
        delta = case["delta"].dropna("iteration").to_numpy()
        reached = case["iteration"].to_numpy()[: len(delta)][delta >= 1]
        agrees.append(len(reached) > 0 and abs(int(reached[0]) - test.after) <= test.tolerance)
        end = f"after {reached[0]} iterations" if len(reached) else f"never ({delta[-1]:.3g})"
        found.append(f"{end} ({case['accounting'].item()})")
    evidence = f"{test.run}: δ = 1 {', '.join(found)}; claimed {test.after}"
    if test.fitted:
        yield Found("", None, f"{evidence}; {test.fitted}")
    else:
        yield Found("", agrees[0], evidence)


def _stationary_point(test: StudyValueTest, results: Results) -> Iterator[Found]:
    surface = results.study(results.landscape, "landscape")
    of_class = [
        point for point in surface.stationary_points if point.classification == test.classification
    ]
    border = test.above_optimum_by - ROUNDING
    high = [point for point in of_class if point.above_lowest >= border]
    first, second = (f"[{grid[0]:g}, {grid[-1]:g}]" for grid in (surface.first, surface.second))
    # The highest of those that will do, or of those that will not.
    shown = sorted(high or of_class, key=lambda point: point.above_lowest)[-1:]
    told = [describe_point(point) for point in shown] or [f"no {test.classification} found"]
    yield Found(
        "",
        bool(high),
        f"{told[0]}; claimed a {test.classification} at least {test.above_optimum_by:g} above; "
        f"lowest value found {surface.lowest:.4g}; {surface.starts} searches in {first} × {second}",
    )


def _attacks(test: StudyValueTest, results: Results) -> Iterator[Found]:
    own = [row for row in results.study(results.attacks, "attacks") if row["run"] == test.run]
    for case in dict.fromkeys(row["case"] for row in own):
        rows = [row for row in own if row["case"] == case]
        first = rows[0]
        of_client = case == ONE_CLIENT
        those = "clients" if of_client else "samples"
        drawn = (
            f"every iteration draws all {those}"
            if first["drawn"] == first["samples"]
            else f"an iteration draws {first['drawn']} of {first['samples']} {those}"
        )
        known = "" if first["known"] == "exact" else "at least "
        claimed = "; ".join(
            f"{float(row['claimed_epsilon']):.4g} ({row['accounting']})" for row in rows
        )
        evidence = (
            f"the ε of the pair is {known}{float(first['pair_epsilon']):.4g}, {drawn}; "
            f"claimed {claimed}"
        )
        if case.startswith("curvature -"):
            evidence += "; such a loss has no lower bound, which Assumption 3 asks for, not Lemma 3"
        limits = [
            f"{word} {float(first[column]):.4g}"
            for word, column in (("below", "refuted_below"), ("above", "refuted_above"))
            if first[column]
        ]
        if limits:
            evidence += f"; quadratic losses refute it at curvatures {' and '.join(limits)}"
        if first["runs"]:
            evidence += (
                f"; {int(first['runs']) // 2} runs on either data set, after as many to choose the "
                f"test, show {float(first['audited_epsilon']):.3g} at {CONFIDENCE:.0%}"
                f"{'' if of_client else ' for all curvatures'}"
            )
        yield Found(case, first["verdict"] != REFUTED, evidence)


def _leaks(test: StudyValueTest, results: Results) -> Iterator[Found]:
    rows = [
        row
        for row in results.study(results.leaks, "leaks")
        if row["attack"].startswith(test.attack) and row["who"].startswith(test.who)
    ]
    if not rows:
        raise FedatlasError(f"no attack of the audit begins with '{test.attack}' by '{test.who}'")
    # A case is told by its attackers, of equal ones by the attack.
    alike = len({row["who"] for row in rows}) < len(rows)
    for row in rows:
        yield Found(
            row["attack" if alike else "who"] if len(rows) > 1 else "",
            row["verdict"] != REFUTED,
            f"{row['attack']}, by {row['who']} (assumes {row['assumes']}), for {row['learns']}: "
            f"{float(row['value']):.4g}, {row['measured']}",
        )


class _Value(NamedTuple):
    """How a study's value is found.

    needs: keys of the experiment. only_refutes: what finds it, if that can never prove a claim.
    silent: the outcome where the study cannot decide.
    """

    found: Callable[[StudyValueTest, Results], Iterator[Found]]
    needs: tuple[str, ...]
    only_refutes: Literal["", "a pair", "an attack"] = ""
    silent: Outcome = "not testable"


_VALUES = {
    "audit_stands": _Value(_attacks, ("privacy_audit",), "a pair"),
    "beyond_data": _Value(_beyond_data, ()),
    "budget_bounded": _Value(_budget_bounded, ("budgets",)),
    "budget_falls": _Value(_budget_falls, ("budgets",)),
    "budget_order": _Value(_budget_order, ("budgets",)),
    "forms_agree": _Value(_forms_agree, ("budgets",)),
    "delta_reaches_one": _Value(_delta_reaches_one, ("budgets",)),
    "not_covered": _Value(_beyond_data, (), silent="not covered"),
    "leak_stands": _Value(_leaks, ("audit",), "an attack"),
    "stationary_point": _Value(_stationary_point, ("landscape", "trained")),
}
