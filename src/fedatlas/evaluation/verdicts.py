"""Judge claims, keep verdicts (claims.csv), and count them by outcome.

A family is a set of claims with one correction for many tests: the claims of one paper, or our own
questions about it.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from fedatlas.errors import error_context
from fedatlas.evaluation.bounds import read_theory
from fedatlas.evaluation.comparison import MOST_SEEDS, SIGNIFICANCE, holm, of_claim, p_of_signs
from fedatlas.evaluation.conditions import covered
from fedatlas.evaluation.constants import read_constants
from fedatlas.evaluation.evidence import UNKNOWN, format_needed, format_outcomes
from fedatlas.evaluation.horizon import of_all, to_text
from fedatlas.evaluation.raised import JUDGED_BEFORE, judged_before, with_budgets
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.selection import Traces, TunedRun, choices
from fedatlas.evaluation.tables import (
    parse_rows,
    read_attacks,
    read_budgets,
    read_leaks,
    read_surface,
    row_parser,
    to_csv,
)
from fedatlas.evaluation.tuning import Grid, grids_of
from fedatlas.files import write_text
from fedatlas.schema.claims import (
    OUTCOMES,
    SILENT,
    CaseOutcome,
    Claim,
    Effect,
    Outcome,
    Quantifier,
)
from fedatlas.schema.models import read_json, validated
from fedatlas.schema.papers import OURS
from fedatlas.schema.runs import Selection

log = logging.getLogger(__name__)

#: Outcomes that have a p.
DECIDED: tuple[Outcome, ...] = ("reproduced", "contradicted")
# Outcomes of claims that no test of a direction was made for.
_NO_TESTS: tuple[Outcome, ...] = (*SILENT, "compatible", "incompatible")

#: Names of questions in headings of tables.
QUESTIONS = {"paper": "the paper's claims", "ours": "own questions"}

#: The group of experiments that belong to no paper or to several, such as those of a project.
OF_NO_PAPER = "own experiments"

#: The last columns of tallies, explained for readers.
CORRECTION = (
    "Each row counts claims of a paper, each once for every setting in which it was judged, or "
    "own questions; cases are not counted. Among many tested claims, some come out by chance. "
    '"Decided" counts the claims that tests over seeds reproduce or contradict, and "after Holm" '
    "those that remain after Holm's correction for all claims tested in that row. The smallest p "
    "of n seeds is 1/2 to the power of n, so with few seeds even a clear result cannot pass the "
    'correction. "At most" is how many claims could remain with the present number of seeds; with '
    'the number under "seeds for all", all could.'
)


class Study(NamedTuple):
    """A study that claims may be about: its file in an experiment's folder, and who reads it."""

    file: str
    read: Callable[[Path], Any]


#: By argument of `judge_claims` and field of `Results`.
STUDIES = {
    "landscape": Study("landscape.json", read_surface),
    "budgets": Study("budgets.nc", read_budgets),
    "attacks": Study("privacy-audit.csv", read_attacks),
    "leaks": Study("leaks.csv", read_leaks),
    "theory": Study("theory.csv", read_theory),
    "constants": Study("constants.csv", read_constants),
}

# Heads of the last columns of tallies.
_TESTS = ("tested", "decided", "after Holm", "at most", "seeds for all")


@dataclass(frozen=True)
class Verdict:
    """One row of claims.csv: a claim, or one of its cases.

    claim: experiment and id. case: empty for the claim as a whole. sentence: the id of the paper's
    sentence that it tests; empty for our own question. effect: None if nothing is compared over
    seeds. cases: how many of its cases the claim is about. horizon: outcomes along budgets or
    targets, as `evaluation.horizon` writes them. tries: outcomes by the number of configurations
    tried, as `evaluation.tuning` writes them. why: as that of `CaseOutcome`.
    """

    claim: str
    case: str
    paper: str
    source: str
    statement: str
    sentence: str
    question: str
    outcome: Outcome
    evidence: str
    fragile: str = ""
    cases: Quantifier = "all"
    horizon: str = ""
    tries: str = ""
    why: str = ""
    effect: Effect | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the row is about the claim as a whole, which tallies count."""
        return not self.case


_EFFECT = tuple(field.name for field in fields(Effect))
_OWN = tuple(field.name for field in fields(Verdict) if field.name != "effect")
_COLUMNS = (*_OWN, *_EFFECT)
# Columns that older published files do not have.
_LATER = ("horizon", "tries", "why", "seeds_added", "bound")


def judge_claims(
    experiment: str,
    paper: str,
    claims: list[Claim],
    seeds_added: bool,
    traces: Path,
    selection: Path,
    output: Path,
    landscape: Path | None = None,
    budgets: Path | None = None,
    attacks: Path | None = None,
    leaks: Path | None = None,
    theory: Path | None = None,
    constants: Path | None = None,
    tuned: dict[str, TunedRun] = {},  # noqa: B006
    tuning: list[Path] = [],  # noqa: B006
) -> None:
    """Judge an experiment's claims. landscape to constants: studies that some claims are about.

    tuned: runs that are tuned in another experiment. tuning: the selections of these experiments,
    beside their traces.
    """
    from fedatlas.store.experiment import read_runs  # loads xarray, which pages do without

    runs = read_runs(traces)
    files = (landscape, budgets, attacks, leaks, theory, constants)
    studies = {name: file for name, file in zip(STUDIES, files, strict=True) if file}
    grids = grids_of(read_json(selection), runs, experiment, tuned, tuning)
    results = results_of(runs, selection, seeds_added, studies, grids)
    named = dict.fromkeys(run for claim in claims for run in claim.test.runs if run in runs)
    before = judged_before(output.with_name(JUDGED_BEFORE), named, results)
    verdicts = judge(experiment, paper, claims, results, before)
    write_text(output, verdicts_to_csv(verdicts))
    log.info("%s", verdict_summary(verdicts))


def results_of(
    traces: Traces,
    selection: Path,
    seeds_added: bool,
    studies: Mapping[str, Path],
    grids: Mapping[str, Grid],
) -> Results:
    """The results that claims are judged by.

    selection: the record's file. studies: files, as in `STUDIES`. grids: for the cost of tuning;
    outcomes do not depend on them.
    """
    record = read_json(selection)
    rule = validated(Selection, record["rule"], str(selection))
    found = {name: STUDIES[name].read(file) for name, file in studies.items()}
    return Results(
        traces=traces,
        chosen=choices(record),
        selected_by=rule.measurement,
        seeds_added=seeds_added,
        grids=grids,
        **found,
    )


def judge(
    experiment: str,
    paper: str,
    claims: Sequence[Claim],
    results: Results,
    before: Mapping[str, str] = {},
) -> list[Verdict]:
    """A verdict per claim, followed by those of its cases if there are several.

    before: other budgets at which runs were judged, as `judged_before` finds them.
    FedatlasError names the claim that cannot be judged.
    """
    verdicts = []
    for claim in claims:
        with error_context(f"claim '{claim.id}'"):
            cases = _with_whole(claim, list(covered(claim, results)))
            cases = with_budgets(claim, cases, before)
        verdicts += [
            Verdict(
                claim=f"{experiment}/{claim.id}",
                paper=paper,
                source=claim.source,
                statement=claim.statement,
                sentence=claim.sentence or "",
                question=claim.question,
                cases=claim.cases,
                **(vars(case) | {"horizon": to_text(case.horizon)}),
            )
            for case in cases
        ]
    return verdicts


def _with_whole(claim: Claim, cases: list[CaseOutcome]) -> list[CaseOutcome]:
    """The outcome of the claim, followed by its cases; a single case is the claim itself."""
    if any(not case.case for case in cases):
        return cases
    if len(cases) == 1:
        (only,) = cases
        return [replace(only, case="", evidence=f"{only.case}: {only.evidence}")]
    counts = Counter[str](case.outcome for case in cases)
    fragile = [case.case for case in cases if case.fragile]
    whole = CaseOutcome(
        case="",
        outcome=of_claim(cases, claim.cases),
        evidence=f"{len(cases)} cases: {format_outcomes(counts)}",
        fragile=f"in {', '.join(fragile)}" if fragile else "",
        horizon=of_all(cases, claim.cases),
    )
    return [whole, *cases]


def verdicts_to_csv(verdicts: Sequence[Verdict]) -> str:
    """Verdicts as claims.csv; missing values are empty."""
    rows = [
        {name: getattr(verdict, name) for name in _OWN}
        | (asdict(verdict.effect) if verdict.effect else dict.fromkeys(_EFFECT))
        for verdict in verdicts
    ]
    return to_csv(rows, _COLUMNS)


def read_verdicts(path: Path) -> list[Verdict]:
    """Verdicts of one claims.csv; FedatlasError names a file with other columns or contents."""
    parse_own, parse_effect = row_parser(Verdict), row_parser(Effect)

    def parse(row: Mapping[str, str]) -> Verdict:
        own = parse_own({name: row[name] for name in _OWN})
        effect = parse_effect({name: row[name] for name in _EFFECT}) if row["unit"] else None
        return replace(own, effect=effect)

    return parse_rows(path, _COLUMNS, parse, _LATER)


def whole_claims(verdicts: Sequence[Verdict], question: str | None = None) -> list[Verdict]:
    """One row for each claim. question: of the paper or our own; by default both."""
    return [
        verdict for verdict in verdicts if verdict.is_whole and question in (None, verdict.question)
    ]


def cases_of(verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    """The cases of each claim that has some, by the claim."""
    cases: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        if not verdict.is_whole:
            cases.setdefault(verdict.claim, []).append(verdict)
    return cases


def under_test(verdicts: Sequence[Verdict]) -> list[tuple[Verdict, float]]:
    """Claims that rest on comparisons over seeds, with their one-sided p.

    Claims that are neither reproduced nor contradicted have p = 1: they were tested, too.
    Comparisons with published numbers do not test a direction, and exact comparisons are not tests;
    both are left out.
    """
    cases, found = cases_of(verdicts), []
    for whole in whole_claims(verdicts):
        own = cases.get(whole.claim, [whole])
        compared = any(each.effect and not each.effect.exact for each in (whole, *own))
        if compared and whole.outcome not in _NO_TESTS:
            p = whole_p(whole, own)
            if p > 0:  # otherwise exact cases decide it
                found.append((whole, p))
    return found


def surviving(verdicts: Sequence[Verdict], significance: float = SIGNIFICANCE) -> list[Verdict]:
    """Claims that are reproduced or contradicted also after Holm's correction for all tested."""
    found = under_test(verdicts)
    adjusted = holm([p for _, p in found])
    return [verdict for (verdict, _), p in zip(found, adjusted, strict=True) if p <= significance]


def whole_p(whole: Verdict, cases: Sequence[Verdict]) -> float:
    """p that as many cases hold as the claim needs (Benjamini and Heller 2008)."""
    spoken = [case for case in cases if case.outcome not in SILENT]
    if whole.outcome not in DECIDED or not spoken:
        return 1.0
    p_values = sorted(_case_p(case, whole.outcome) for case in spoken)
    decides = "contradicted" if whole.cases == "any" else "reproduced"
    taken = len(spoken) if whole.outcome == decides else 1
    if whole.cases == "most":
        taken = len(spoken) // 2 + 1
    return min(1.0, (len(spoken) - taken + 1) * p_values[taken - 1])


def _case_p(case: Verdict, outcome: Outcome) -> float:
    """p of a case for the claim's outcome; an exact case is certain."""
    if case.outcome != outcome or case.effect is None:
        return 1.0
    if case.effect.exact:
        return 0.0
    return 1.0 if case.effect.p is None else case.effect.p


def verdict_summary(verdicts: Sequence[Verdict]) -> str:
    """Count outcomes in words: claims of papers first, then own questions."""
    parts = []
    for question, whose in (("paper", "claims of papers"), ("ours", "own questions")):
        counts = Counter[str](v.outcome for v in whole_claims(verdicts, question))
        if counts:
            parts.append(f"{whose}, {counts.total()} judged: {format_outcomes(counts)}")
    return "; ".join(parts) or "no claim judged"


def would_decide(verdict: Verdict) -> str:
    """How many seeds would decide an undecided verdict; empty if not known or not needed."""
    if verdict.outcome != "undecided" or verdict.effect is None:
        return ""
    seeds = format_needed(verdict.effect)
    if seeds == UNKNOWN:
        return ""
    about = "" if verdict.effect.needed is None else "about "
    return f"{about}{seeds} seeds in all would decide"


@dataclass(frozen=True)
class Tally:
    """A family's claims by outcome.

    tested: claims that rest on comparisons over seeds. decided: tested ones that are reproduced or
    contradicted. surviving: decided ones that remain after Holm's correction for all tested.
    possible: how many could remain at most, if all seeds agreed. seeds: numbers of seeds of tests,
    in ascending order. smallest_p: p of the test with the fewest seeds, if they agreed. enough: the
    fewest seeds for every test with which all could remain; None if `MOST_SEEDS` are too few.
    """

    outcomes: Counter[str]
    tested: int
    decided: int
    surviving: int
    possible: int
    seeds: tuple[int, ...]
    smallest_p: float
    enough: int | None


def tally(verdicts: Sequence[Verdict]) -> Tally:
    """The tally of a family; verdicts: of claims and their cases."""
    tested = {whole.claim: whole for whole, _ in under_test(verdicts)}
    effects = [each.effect for each in verdicts if each.effect and each.claim in tested]
    random = [effect for effect in effects if not effect.exact]
    numbers = range(1, MOST_SEEDS + 1)
    return Tally(
        outcomes=Counter[str](whole.outcome for whole in whole_claims(verdicts)),
        tested=len(tested),
        decided=sum(whole.outcome in DECIDED for whole in tested.values()),
        surviving=len(surviving(verdicts)),
        possible=_possible(verdicts),
        seeds=tuple(sorted({effect.seeds for effect in random})),
        smallest_p=max(map(_smallest_p, random), default=1.0),
        enough=next((n for n in numbers if _possible(verdicts, n) == len(tested)), None),
    )


def _possible(verdicts: Sequence[Verdict], seeds: int | None = None) -> int:
    """Count tested claims that can survive at most; seeds: of every test, in place of its own."""
    both = (
        under_test([_as_clear_as_can_be(verdict, outcome, seeds) for verdict in verdicts])
        for outcome in DECIDED
    )
    smallest = [min(p for _, p in same) for same in zip(*both, strict=True)]
    return sum(p <= SIGNIFICANCE for p in holm(smallest))


def _as_clear_as_can_be(verdict: Verdict, outcome: Outcome, seeds: int | None) -> Verdict:
    """The verdict if all its seeds agreed."""
    if verdict.outcome in _NO_TESTS:
        return verdict
    effect = verdict.effect
    if effect is not None and not effect.exact:
        effect = replace(effect, seeds=effect.seeds if seeds is None else seeds)
        effect = replace(effect, p=_smallest_p(effect))
    return replace(verdict, outcome=outcome, effect=effect)


def _smallest_p(effect: Effect) -> float:
    """p if all seeds agreed."""
    return p_of_signs(effect.seeds, seeds_added=effect.seeds_added)


def families(verdicts: Sequence[Verdict]) -> dict[tuple[str, str], list[Verdict]]:
    """Verdicts by paper and question, papers in their order, their own claims first."""
    found: dict[tuple[str, str], list[Verdict]] = {
        (paper, question): []
        for paper in dict.fromkeys(verdict.paper for verdict in verdicts)
        for question in QUESTIONS
    }
    for verdict in verdicts:
        found[verdict.paper, verdict.question].append(verdict)
    return {family: own for family, own in found.items() if own}


def family_name(paper: str, question: str) -> str:
    """Name of a family, for tables and headings."""
    return f"{OF_NO_PAPER if paper == OURS else paper}, {QUESTIONS[question]}"


def tally_table(tallies: Mapping[str, Tally]) -> tuple[list[str], list[list[str]]]:
    """Heads of columns (without the first), and a row for each name, which is its first cell.

    Outcomes that no tally has are left out.
    """
    occurring = [kind for kind in OUTCOMES if any(each.outcomes[kind] for each in tallies.values())]
    rows = []
    for name, own in tallies.items():
        possible = [str(own.possible), str(own.enough or f"over {MOST_SEEDS}")]
        counted = (own.outcomes.total(), *(own.outcomes[kind] for kind in occurring))
        tests = map(str, (*counted, own.tested, own.decided, own.surviving))
        rows.append([name, *tests, *(possible if own.tested else ["–", "–"])])
    return ["counted", *occurring, *_TESTS], rows


def format_correction(tally: Tally) -> str:
    """How many claims remain after Holm's correction, and how many could; empty without tests."""
    if not tally.tested:
        return ""
    if not tally.decided:
        return f"no claim is decided, of {tally.tested} tested over seeds."
    left = (
        f"after Holm's correction for {tally.tested} test{'s' * (tally.tested != 1)}, "
        f"{tally.surviving} of {tally.decided} decided claim{'s' * (tally.decided != 1)} "
        f"remain{'s' * (tally.surviving == 1)}."
    )
    if tally.possible == tally.tested:
        return left
    fewest, most = tally.seeds[0], tally.seeds[-1]
    seeds = str(most) if fewest == most else f"{fewest} to {most}"
    smallest = f"(smallest p 1/{1 / tally.smallest_p:.0f})"
    if tally.possible:
        enough = f"; {tally.enough} would do for all" if tally.enough else ""
        return f"{left} With {seeds} seeds at most {tally.possible} can {smallest}{enough}."
    enough = f"; {tally.enough} would do" if tally.enough else ""
    return f"{left} {seeds} seeds are too few for any to {smallest}{enough}."
