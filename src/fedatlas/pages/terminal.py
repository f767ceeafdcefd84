"""A results folder on a terminal: verdicts, seeds that would decide more, where files lie."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.evidence import format_needed, format_outcomes
from fedatlas.evaluation.sentences import joined
from fedatlas.evaluation.tables import read_rows
from fedatlas.evaluation.verdicts import (
    QUESTIONS,
    Verdict,
    cases_of,
    families,
    family_name,
    format_correction,
    read_verdicts,
    tally,
    whole_claims,
)
from fedatlas.markdown import counted
from fedatlas.pages.claim_rows import HEAD, claim_rows, effect_so_far, reason
from fedatlas.plain_text import cell, say_on
from fedatlas.plan.build import group_of
from fedatlas.schema.claims import SILENT
from fedatlas.schema.config import is_named
from fedatlas.schema.experiment_files import meant

_READ_BY_PEOPLE = (".csv", ".svg")  # each figure also lies there as .png
_NAMED = 4  # a page's experiments are named up to this number
_LISTED = 10  # diverged runs are named up to this number
_CLAIMS = 40  # claims are printed up to this number
NEEDED = "Needed: seeds in all, for a chance of 80 % to decide, if --decide adds others like these."
_DIVERGENCE = {"run", "selected", "seeds", "diverged_seeds"}  # columns of tables


def verdicts_in(results: Path) -> dict[str, list[Verdict]]:
    """Verdicts by judged experiment, of a results folder, a published one or a folder of such."""
    found = {file.parent.name: read_verdicts(file) for file in _judged(results)}
    if not found and results.is_dir():
        from fedatlas.store.rejudging import kept_in_published, published_folders

        for folder in published_folders(results):
            found |= {kept.name: [*kept.verdicts] for kept in kept_in_published(folder, {})}
    return found


def _judged(results: Path) -> list[Path]:
    return sorted(results.glob("experiments/*/claims.csv"))


def print_summary(results: Path, console: Console) -> None:
    """Print outcomes of all judged experiments, of any selection, and where files lie."""
    judged = {file.parent.name: file for file in _judged(results)}
    verdicts = verdicts_in(results)
    if verdicts:
        console.print(_table(verdicts))
    lines = _corrections(verdicts)
    tables = [claims.with_name("table.csv") for claims in judged.values()]
    if diverged := format_divergence(table for table in tables if table.is_file()):
        lines.append(diverged)
    # Imported runs, which nothing judges, have one file and no folder of traces.
    unfinished = {
        folder.name
        for folder in results.glob("experiments/*/")
        if (folder / "traces").is_dir() or not (folder / "traces.nc").is_file()
    } - judged.keys()
    if unfinished:
        lines.append(f"Not judged yet: {', '.join(sorted(unfinished))}")
    places = {**_files(results / "experiments", judged), **_pages(results, judged)}
    if places:
        width = max(map(len, places))
        lines.append("Where to look:")
        lines += [f"  {place:<{width}}  {note}" for place, note in places.items()]
    if not (verdicts or lines):
        lines.append(f"{results}: has no verdicts yet")
    for line in lines:
        say_on(console, line)


def print_claims(results: Path, experiments: Sequence[str], console: Console) -> None:
    """Print each claim of these experiments: outcome, effect with interval, whether fragile.

    experiments: names or globs. If there are many claims, only counts are printed. FedatlasError
    for one that matches nothing.
    """
    every = verdicts_in(results)
    for pattern in experiments:
        if not any(is_named(name, [pattern]) for name in every):
            hint = meant(pattern, every) or f"; `fedatlas summary {results}` lists those that were"
            raise FedatlasError(f"{results}: no experiment '{pattern}' was judged here{hint}")
    verdicts = {name: own for name, own in every.items() if is_named(name, experiments)}
    if sum(len(whole_claims(own)) for own in verdicts.values()) > _CLAIMS:
        console.print(_table(verdicts))
        say_on(console, "`fedatlas summary --experiments NAME` prints each claim.")
        return
    for name, own in verdicts.items():
        if own:
            console.print(_claims(name, own))
        else:
            place = results / "experiments" / name
            say_on(console, f"{name}: declares no claims; its figures and tables: {place}")


def _claims(experiment: str, verdicts: Sequence[Verdict]) -> Table:
    table = Table(title=cell(experiment), title_justify="left", show_lines=True)
    for head, ratio in zip(HEAD, (5, 2, 4), strict=True):
        table.add_column(head, overflow="fold", ratio=ratio)
    for row in claim_rows(verdicts):
        table.add_row(*map(cell, row))
    return table


def _table(verdicts: Mapping[str, list[Verdict]]) -> Table:
    """A row for each experiment, and a section for each group: a paper, or the demo."""
    table = Table(title="Outcomes of claims", title_justify="left")
    table.add_column("experiment", overflow="fold")
    for question in QUESTIONS.values():
        table.add_column(question)
    for _, names in groupby(verdicts, key=group_of):
        for name in names:
            counts = (
                Counter[str](verdict.outcome for verdict in whole_claims(verdicts[name], question))
                for question in QUESTIONS
            )
            table.add_row(cell(name), *map(format_outcomes, counts))
        table.add_section()
    return table


def _corrections(verdicts: Mapping[str, list[Verdict]]) -> list[str]:
    """Lines that say how many claims of each family remain after a correction for all tests."""
    every = [verdict for own in verdicts.values() for verdict in own]
    lines = []
    for (paper, question), own in families(joined(every)).items():
        if correction := format_correction(tally(own)):
            lines.append(f"{family_name(paper, question)}: {correction}")
    open_ones = sum(1 for own in verdicts.values() for _ in undecided(own))
    if open_ones:
        which = (
            f"{open_ones} undecided verdicts and cases" if open_ones > 1 else "undecided verdict"
        )
        lines.append(f"`fedatlas power` says what would decide the {which}.")
    return lines


def _files(folder: Path, judged: Mapping[str, Path]) -> dict[str, str]:
    """Files beside verdicts, as patterns that shells expand, each with its experiments."""
    having: dict[str, list[str]] = {}
    for name, claims in judged.items():
        for file in sorted(claims.parent.iterdir()):
            if file.suffix in _READ_BY_PEOPLE and file != claims:
                having.setdefault(file.name, []).append(name)
    # Files that most experiments have come first.
    ordered = sorted(having.items(), key=lambda item: (-len(item[1]), item[0]))
    return {f"{folder}/*/{file}": _named(names, judged) for file, names in ordered}


def _named(names: list[str], among: Iterable[str]) -> str:
    """The names of experiments in as few words as possible: "all", "all but …" or each."""
    others = [name for name in among if name not in names]
    if not others:
        return "all"
    return ", ".join(names) if len(names) <= len(others) else f"all but {', '.join(others)}"


def _pages(results: Path, judged: Mapping[str, Path]) -> dict[str, str]:
    """The pages of verdicts, with the last selection's first, then summary, explorer and report."""
    pages = {}
    for page in [results / "claims.html", *sorted(results.glob("claims/*.html"))]:
        if page.is_file():
            table = page.with_suffix(".csv")
            verdicts = read_verdicts(table) if table.is_file() else []
            held = list(dict.fromkeys(verdict.claim.split("/")[0] for verdict in verdicts))
            of = ", ".join(held) if len(held) <= _NAMED else f"{len(held)} experiments"
            old = _older(page, [judged[name] for name in held if name in judged])
            pages[str(page)] = f"{f'verdicts of {of}' if of else 'no verdicts'}{old}"
    wholes = {
        "explorer.html": "all curves and verdicts, to explore offline",
        "summary.md": "what was run, published numbers beside those found here, verdicts, errata",
        "report.zip": "figures, tables and claims, to read offline",
    }
    for name, holds in wholes.items():
        if (results / name).is_file():
            pages[str(results / name)] = f"{holds}{_older(results / name, judged.values())}"
    return pages


def _older(file: Path, verdicts: Iterable[Path]) -> str:
    made = file.stat().st_mtime
    old = any(made < claims.stat().st_mtime for claims in verdicts)
    return "  (older than the verdicts)" if old else ""


def print_power(results: Path, console: Console) -> None:
    """Print how many seeds would decide each undecided verdict, fewest first."""
    judged = [own for own in verdicts_in(results).values() if own]
    if not judged:
        say_on(console, f"{results}: no claim has been judged yet")
        return
    found = [verdict for own in judged for verdict in undecided(own)]
    if not found:
        say_on(console, f"Nothing is undecided in {counted(len(judged), 'judged experiment')}.")
    for verdict in sorted(found, key=_fewest_needed):
        name = f"{verdict.claim}, {verdict.case}" if verdict.case else verdict.claim
        say_on(console, f"{name}\n    {format_open(verdict)}")
    if any(verdict.effect and math.isfinite(verdict.effect.estimate) for verdict in found):
        say_on(console, NEEDED)
    silent = [line for own in judged for line in format_silent(own)]
    if silent:
        claims = counted(len(silent), "claim")
        say_on(console, f"No seeds are counted for {claims} that these runs cannot test:")
    for line in silent:
        say_on(console, line.replace("; ", "\n    ", 1))


def format_silent(verdicts: Sequence[Verdict]) -> list[str]:
    """A line for each claim of an experiment that its runs cannot test, with the reason."""
    cases = cases_of(verdicts)
    return [
        f"{whole.claim}: {whole.outcome}; {reason(whole, cases.get(whole.claim, ()))}"
        for whole in whole_claims(verdicts)
        if whole.outcome in SILENT
    ]


def undecided(verdicts: Sequence[Verdict]) -> Iterator[Verdict]:
    """The undecided verdicts of an experiment; a claim's undecided cases stand in its place."""
    cases = cases_of(verdicts)
    for verdict in verdicts:
        own = cases.get(verdict.claim, []) if verdict.is_whole else []
        if verdict.outcome == "undecided" and not any(c.outcome == "undecided" for c in own):
            yield verdict


def format_open(verdict: Verdict) -> str:
    """An undecided verdict's effect so far, and how many seeds would decide it."""
    effect = verdict.effect
    if effect is None:
        return "no effect of its own"
    seeds = counted(effect.seeds, "seed")
    if math.isinf(effect.estimate):
        return f"with {seeds} a run has no value: fix that first, as more seeds will not help"
    return f"{effect_so_far(effect)} with {seeds}; {format_needed(effect)} needed"


def _fewest_needed(verdict: Verdict) -> float:
    """Seeds needed in all; infinite where the number is not known."""
    effect = verdict.effect
    return math.inf if effect is None or effect.needed is None else effect.needed


def format_divergence(tables: Iterable[Path]) -> str:
    """A line that names the runs with diverged seeds; empty if there are none.

    tables: table.csv of experiments, each in the experiment's folder.
    """
    found = [run for table in tables for run in _diverged(table)]
    more = f"; and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return f"diverged: {'; '.join(found[:_LISTED])}{more}" if found else ""


def _diverged(table: Path) -> list[str]:
    rows = read_rows(table)
    # Tables of an older version lack these columns until the experiment is written anew.
    known = [row for row in rows if row.keys() >= _DIVERGENCE and row["selected"] == "True"]
    return [
        f"{table.parent.name}/{row['run']}, {row['diverged_seeds']} of {row['seeds']} seeds"
        for row in known
        if row["diverged_seeds"] != "0"
    ]
