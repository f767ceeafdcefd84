"""results/summary.md: what was run, published numbers beside those found here, every verdict."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fedatlas.data.tables import PREPARED_KEYS, open_parquet, read_metadata
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.evidence import MARKS, capital, format_outcomes, in_short
from fedatlas.evaluation.sentences import joined
from fedatlas.evaluation.tables import read_rows
from fedatlas.evaluation.tuning import format_tries
from fedatlas.evaluation.verdicts import (
    CORRECTION,
    OF_NO_PAPER,
    QUESTIONS,
    Verdict,
    cases_of,
    families,
    read_verdicts,
    tally,
    tally_table,
    verdict_summary,
    whole_claims,
    would_decide,
)
from fedatlas.extensions import projects
from fedatlas.files import write_text
from fedatlas.markdown import code, counted, item, link, paragraph, prose, table, text
from fedatlas.pages.claim_rows import titled
from fedatlas.pages.numbers import PublishedNumber, cost_tables, published_numbers
from fedatlas.pages.scope import UNCOUNTED, PaperScope, SelectedExperiment, read_scope
from fedatlas.plan.build import build_plan
from fedatlas.plan.places import shipped_configuration
from fedatlas.schema.claims import OUTCOMES
from fedatlas.schema.federation import format_span
from fedatlas.schema.models import read_json
from fedatlas.schema.papers import OURS, Paper

_OPENING = """
A comparison is made seed by seed. The interval of the median difference is compared with zero and
with the smallest effect that counts, which is declared before any run. A claim of a paper counts
once for each setting in which it was judged: the paper's own, smaller, on other data, or in runs
that the paper does not show. The worst case of a claim counts, and a contradicted case is corrected
for the number of cases. A claim about most of its cases needs more than half. The outcomes:
"""
_COLUMNS = """
"Points" counts the points of all grids. "Diverged" counts seeds of the tuned configurations only,
one of each run.
"""
_NUMBERS = """
The ± of a published number is the spread that the paper prints; for a number of iterations it is
the tolerance that was declared beforehand. The ± of a number found here is the standard deviation
over seeds. It is taken at the last record of the run's tuned configuration, unless a row says
otherwise.
"""
_ERRATA = "Errors and contradictions of the paper that affect these experiments."


class _Outcome(NamedTuple):
    """The results of one experiment; points: the rows of its table."""

    experiment: SelectedExperiment
    verdicts: list[Verdict]
    numbers: list[PublishedNumber]
    points: Sequence[Mapping[str, str]]


def write_summary(
    experiments: list[str], added_seeds: dict[str, int], results: Path, output: Path
) -> None:
    """Write what was run, published numbers and those found here, verdicts and errata."""
    folders = shipped_configuration(), *projects()
    plan = build_plan(*folders, names=experiments, added_seeds=added_seeds)
    write_report(read_scope(plan, experiments), results, output)


def write_report(scopes: Sequence[PaperScope], results: Path, output: Path) -> None:
    """Write the summary of the selected experiments.

    The text does not depend on when or where it is written. results: the folder of their results;
    links are relative to it.
    """
    outcomes = {
        scope.key: [_outcome(experiment, results) for experiment in scope.selected]
        for scope in scopes
    }
    blocks = ["# What was run, and what came out", *_overview(scopes, outcomes)]
    for scope in scopes:
        blocks += _paper(scope, outcomes[scope.key], results)
    write_text(output, "\n\n".join(blocks) + "\n")


def _outcome(experiment: SelectedExperiment, results: Path) -> _Outcome:
    folder = results / "experiments" / experiment.name
    selection = _read_selection(folder / "selection.json")
    return _Outcome(
        _with_rows(experiment, results),
        titled(read_verdicts(folder / "claims.csv"), {experiment.name: experiment.runs}),
        list(published_numbers(experiment, results, selection)),
        _read_table(folder / "table.csv") if experiment.trained else [],
    )


def _with_rows(experiment: SelectedExperiment, results: Path) -> SelectedExperiment:
    """The experiment with the number of rows that were prepared, where no catalogue states it."""
    prepared = results / "data" / experiment.dataset / f"{experiment.split}.parquet"
    if not experiment.rows.startswith(UNCOUNTED) or not prepared.exists():
        return experiment
    with open_parquet(prepared) as file:
        counted = format_span([read_metadata(file, prepared, PREPARED_KEYS)["rows"]], "row")
    return experiment.model_copy(update={"rows": experiment.rows.replace(UNCOUNTED, counted, 1)})


def _read_selection(path: Path) -> dict[str, Any]:
    record = read_json(path)
    if not isinstance(record, dict) or not isinstance(record.get("runs"), dict):
        raise FedatlasError(f"{path}: is not a selection. Move it away and run again.")
    return record


def _read_table(path: Path) -> Sequence[Mapping[str, str]]:
    rows = read_rows(path)
    if not rows or not {"run", "selected", "seeds", "diverged_seeds"} <= set(rows[0]):
        raise FedatlasError(f"{path}: is not a table of results. Move it away and run again.")
    return rows


def _overview(
    scopes: Sequence[PaperScope], outcomes: Mapping[str, Sequence[_Outcome]]
) -> Iterator[str]:
    every = joined([one for own in outcomes.values() for each in own for one in each.verdicts])
    run = counted(sum(map(len, outcomes.values())), "experiment")
    yield paragraph(
        f"This selection: {run}; {verdict_summary(every)}. `fedatlas summary` prints the verdicts "
        "of all experiments in the results folder, also of earlier selections."
    )
    yield paragraph(_OPENING)
    yield "\n".join(item(f"*{kind}*: {text(means)}.") for kind, means in OUTCOMES.items())
    tried = {whose: format_tries([own.tries for own in of]) for whose, of in _tuned(every).items()}
    if costs := [f"{whose}, {words}" for whose, words in tried.items() if words]:
        yield paragraph(f"Tuning is a cost: {'; '.join(costs)}.")
    rows = [
        [_heading(scope), str(len(own)), str(len(scope.others))]
        for scope in scopes
        if (own := outcomes[scope.key]) or scope.paper or scope.others
    ]
    yield table(("paper", "experiments run", "files not selected"), rows, numbers=(1, 2))
    names = {scope.key: _heading(scope) for scope in scopes}
    tallies = {
        f"{names[paper]}, {QUESTIONS[question]}": tally(own)
        for (paper, question), own in families(every).items()
    }
    if tallies:
        heads, rows = tally_table(tallies)
        yield paragraph(CORRECTION)
        yield table(("whose", *heads), rows, numbers=range(1, len(heads) + 1))


def _tuned(verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    """Verdicts of all experiments, and those of experiments that belong to no single paper."""
    return {"in all": [*verdicts], OF_NO_PAPER: [v for v in verdicts if v.paper == OURS]}


def _heading(scope: PaperScope) -> str:
    return text(scope.paper.name) if scope.paper else capital(OF_NO_PAPER)


def _paper(scope: PaperScope, outcomes: Sequence[_Outcome], results: Path) -> Iterator[str]:
    if scope.paper is None and not outcomes and not scope.others:
        return
    yield f"## {_heading(scope)}"
    if scope.paper is not None:
        yield _reference(scope.paper)
    if not outcomes:
        yield f"None of its {counted(len(scope.others), 'file')} of experiments was selected."
        return
    yield from _what_was_run(outcomes)
    if scope.paper is not None:
        yield from _published(outcomes)
    else:
        yield from cost_tables(scope.selected, results)
    yield from _judged([verdict for each in outcomes for verdict in each.verdicts])
    if scope.others:
        yield "### Not in this selection"
        yield f"{', '.join(map(code, scope.others))}."
    if scope.paper is not None and scope.paper.errata:
        yield "### Errata"
        yield _ERRATA
        yield "\n".join(
            item(
                f"**{erratum.id}** ({text(erratum.where)}): {prose(erratum.wrong)} "
                f"*Here:* {prose(erratum.instead)}"
            )
            for erratum in scope.paper.errata
        )


def _reference(paper: Paper) -> str:
    *first, last = map(text, paper.authors)
    authors = f"{', '.join(first)} and {last}" if first else last
    return paragraph(
        f"{authors}: *{text(paper.title)}*. {text(paper.venue)}, {paper.year}, "
        f"{link(text(paper.identifier), paper.address)}."
    )


def _what_was_run(outcomes: Sequence[_Outcome]) -> Iterator[str]:
    yield "### What was run"
    header = ("experiment", "data set", "runs", "points", "rounds", "seeds", "diverged")
    yield table(header, [_row(outcome) for outcome in outcomes], numbers=range(2, 7))
    yield paragraph(_COLUMNS)
    yield "\n".join(_described(outcome) for outcome in outcomes)


def _row(outcome: _Outcome) -> list[str]:
    own = outcome.experiment
    if not own.trained:
        return [code(own.name), "none", str(len(own.runs)), *["–"] * 4]
    chosen = [row for row in outcome.points if row["selected"] == "True"]
    return [
        code(own.name),
        code(own.dataset),
        str(len(own.runs)),
        str(sum(own.points.values())),
        own.rounds,
        str(own.seeds),
        _diverged(chosen),
    ]


def _diverged(points: Sequence[Mapping[str, str]]) -> str:
    lost, seeds = (sum(int(row[key]) for row in points) for key in ("diverged_seeds", "seeds"))
    return f"{lost} of {seeds}"


def _described(outcome: _Outcome) -> str:
    own = outcome.experiment
    folder = f"experiments/{own.name}"
    places = [link(what, f"{folder}/{file}") for file, what in own.files.items()]
    lines = [f"**{code(own.name)}**, {text(own.source)}: {text(own.title)} ({', '.join(places)})."]
    data = f"Data: {text(own.dataset_title)}; {own.rows}; {own.among}."
    lines.append(data if own.trained else "Nothing is trained.")
    shown = f" (runs of {code(own.runs_of)})" if own.runs_of != own.name else ""
    titles = (
        text(title) + (f" ({own.points[run]} points)" if own.points[run] > 1 else "")
        for run, title in own.runs.items()
    )
    lines.append(f"Runs{shown}: {'; '.join(titles)}.")
    lost = [
        f"{code(row['run'])} at {code(row['point'])} {_diverged([row])}"
        for row in outcome.points
        if int(row["diverged_seeds"])
    ]
    if lost:
        lines.append(f"Diverged seeds, of all points: {'; '.join(lost)}.")
    if own.notes:
        lines.append(f"Notes: {text(own.notes)}")
    return "\n".join(item(line, depth=min(place, 1)) for place, line in enumerate(lines))


def _published(outcomes: Sequence[_Outcome]) -> Iterator[str]:
    rows = [
        [
            code(outcome.experiment.name),
            code(number.run),
            text(number.quantity),
            number.published,
            text(number.ours),
            _verdict_on(number, outcome),
        ]
        for outcome in outcomes
        for number in outcome.numbers
    ]
    yield "### Published numbers beside those found here"
    if not rows:
        yield "No experiment here is compared with a number that the paper prints."
        return
    yield paragraph(_NUMBERS)
    yield table(("experiment", "run", "quantity", "published", "found here", "verdict"), rows)


def _verdict_on(number: PublishedNumber, outcome: _Outcome) -> str:
    if number.claim is None:
        return "not judged"
    claim = f"{outcome.experiment.name}/{number.claim}"
    found = [each.outcome for each in whole_claims(outcome.verdicts) if each.claim == claim]
    if len(found) != 1:
        raise FedatlasError(
            f"results/experiments/{outcome.experiment.name}/claims.csv: has {len(found)} verdicts "
            f"on '{claim}' instead of one. Move it away and run again."
        )
    return text(found[0])


def _judged(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """The blocks of a paper's section about claims."""
    yield "### Claims and verdicts"
    if not verdicts:
        yield "None of these experiments declares a claim."
        return
    counted = joined(verdicts)
    yield paragraph(f"{capital(verdict_summary(counted))}.")
    cases = cases_of(counted)
    for question, name in QUESTIONS.items():
        asked = whole_claims(counted, question)
        if asked:
            yield f"{capital(name)}:"
            yield table(
                ("claim", "outcome", "effect", "cases"),
                [_claim_row(whole, cases.get(whole.claim, [])) for whole in asked],
            )
    claims = {each.claim for each in whole_claims(verdicts)}
    printed = [whole for whole in whole_claims(counted) if whole.claim not in claims]
    if printed:
        yield "As printed:"
        yield "\n".join(
            item(f"{code(one.claim)}: “{text(one.statement)}” ({text(one.source)}).")
            for one in printed
        )
    cases = cases_of(verdicts)
    yield "Evidence, claim by claim:"
    yield "\n".join(
        _evidence(whole, cases.get(whole.claim, [])) for whole in whole_claims(verdicts)
    )


def _claim_row(whole: Verdict, cases: Sequence[Verdict]) -> list[str]:
    outcome = f"{MARKS[whole.outcome]} {whole.outcome}"
    counts = format_outcomes(Counter[str](case.outcome for case in cases))
    return [
        code(whole.claim),
        text(f"{outcome}, fragile" if whole.fragile else outcome),
        text(in_short(whole.effect)) if whole.effect else "–",
        text(counts),
    ]


def _evidence(whole: Verdict, cases: Sequence[Verdict]) -> str:
    about = f"{code(whole.claim)}: {text(whole.statement)} ({text(whole.source)})."
    judged = (item(_format_verdict(each), depth=1) for each in (whole, *cases))
    return "\n".join([item(about), *judged])


def _format_verdict(verdict: Verdict) -> str:
    about = f", {text(verdict.case)}" if verdict.case else ""
    notes = [
        f"Fragile: {text(verdict.fragile)}." if verdict.fragile else "",
        f"{capital(text(would_decide(verdict)))}." if would_decide(verdict) else "",
    ]
    outcome = f"**{text(verdict.outcome)}**{about}: {text(verdict.evidence)}."
    return " ".join(filter(None, [outcome, *notes]))
