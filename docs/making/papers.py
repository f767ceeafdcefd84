"""Parts of the pages in docs/findings: what ran of a paper, its claims, experiments, errata.

People write what came out; the pages then take these parts in by `include`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fedatlas.evaluation.evidence import MARKS, capital, format_outcomes, in_full
from fedatlas.evaluation.verdicts import Verdict
from fedatlas.markdown import code, counted, link, prose, table, text
from fedatlas.pages.claim_rows import titled
from fedatlas.pages.repository import (
    HEADS,
    KeptVerdict,
    SentenceOutcome,
    count_by_setting,
    coverage_rows,
    read_kept,
    sentence_outcomes,
)
from fedatlas.plan.build import Plan, build_plan, group_of
from fedatlas.schema.claims import Claim
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.papers import DEMO, OURS, RAN, Coverage, Paper, load_coverage
from making import folded
from making.published import Published
from making.words import tests_of_sentences

_ROOT = Path(__file__).parents[2]
#: Figures that were drawn from whole traces and kept, each named as its experiment.
_IMAGES = _ROOT / "docs" / "images"
#: Where figures lie that are drawn from published traces, below the folder of these parts.
FIGURES = "figures"

_COUNTED = """
A panel is a part of a figure or table that the paper labels by itself. A part that shows no result
of a run is not counted. The last column has the outcomes of the paper's claims, as far as the named
experiments judge them, from `config/verdicts.csv`. A dash means that no verdict is kept: the
experiments did not run, ran under an earlier [rule](../verdicts.md), or test no claim of the paper.
"""
_SENTENCES = """
A claim counts once in every setting in which it was judged: in the paper's setting, in smaller
runs, on other data, or in runs of ours where the paper shows none. It comes out as its worst case
does, with a correction for asking all cases. A claim about most of its cases needs more than half
of them ([how claims are judged](../verdicts.md)).
"""
_SHOWN = """
Where the repository has a picture, it was drawn from whole traces. All others are drawn from the
[published](../published.md) traces, which keep some records of each run. Press a picture to enlarge
it. *Explore* opens the curves of an experiment with a table of numbers beside them, and each
verdict with its cases and its evidence. Each effect has its 95 % interval, the smallest effect that
counts, and the number of seeds. A *fragile* verdict changes with the target, the budget or the step
at which it is judged ([how claims are judged](../verdicts.md)). If you run an experiment, its
figure, table and verdicts are `figure.svg`, `table.csv` and `claims.csv` in
`results/experiments/<name>/`.
"""


class _Sources(NamedTuple):
    """The configuration and the results that the pages show."""

    plan: Plan
    coverage: Mapping[str, Coverage]
    kept: Sequence[KeptVerdict]
    published: Published

    def has_result(self, name: str) -> bool:
        """Whether a page can show more of an experiment than its declaration."""
        judged = any(each.experiment == name for each in self.kept)
        return judged or name in self.published.drawable or _image(name).exists()


def sources(config: Path) -> _Sources:
    """Read what the configuration declares, the verdicts it keeps, and what is published."""
    plan = build_plan(config)
    coverage = load_coverage(config / "coverage.yaml", plan.papers, plan.experiments)
    return _Sources(plan, coverage, read_kept(config / "verdicts.csv"), Published(plan))


def parts(of: _Sources) -> Iterator[tuple[str, str]]:
    """Name and Markdown of each part, for the folder docs/papers."""
    yield "coverage.inc", coverage_table(of)
    for key in of.plan.papers:
        yield f"{key}.inc", "\n\n".join(_paper(of, key)) + "\n"
        yield f"{key}-errata.inc", "\n\n".join(_errata(of, key)) + "\n"
    own = [name for name, each in of.plan.experiments.items() if each.paper == OURS]
    yield "across-papers.inc", "\n\n".join(_experiments(of, own)) + "\n"


def coverage_table(of: _Sources) -> str:
    """A row for each paper: how many panels ran, on what, and how its claims came out."""
    rows = coverage_rows(of.plan.sentences, of.coverage, of.kept, of.plan.experiments)
    pages = {key: link(text(of.plan.papers[key].name), f"findings/{key}.md") for key in rows}
    return table(HEADS, [[pages[key], *cells] for key, cells in rows.items()])


def _paper(of: _Sources, key: str) -> Iterator[str]:
    coverage = of.coverage[key]
    yield "## Every claim"
    yield " ".join(_SENTENCES.split())
    rows, tests = _sentences(of, key, coverage.settings), tests_of_sentences(of.plan)
    yield f"{sentence_counts(rows)}."
    yield table(
        ("claim, as printed", "test", "setting", "outcome", "judged in"),
        [_claim_row(row, tests) for row in rows],
    )
    if silent := _not_judged(of, key, rows):
        yield f"Claims that have a test but no verdict: {silent}."
    yield "## Every figure and table"
    dataless = coverage.panels("dataless")
    yield (
        f"**{coverage.panels('paper')} of {coverage.panels()} panels ran on the paper's data**, "
        + (f"{dataless} need no data and ran in full, " if dataless else "")
        + f"{coverage.panels('smaller', 'other')} ran on less or other data, "
        f"{coverage.panels('never')} never ran."
    )
    yield " ".join(_COUNTED.split())
    yield table(
        ("shown", "ran", "data, size, what differs or is missing", "outcomes of claims"),
        list(_rows(of, key)),
    )
    named = {name: None for each in coverage.figures for name in each.experiments}
    own = [name for name, each in of.plan.experiments.items() if each.paper == key]
    yield from _experiments(of, list(named | dict.fromkeys(own)))


def _errata(of: _Sources, key: str) -> Iterator[str]:
    paper = of.plan.papers[key]
    yield "## Errata"
    yield (
        f"{_reference(paper)} This list has the places where the paper is wrong or contradicts "
        "itself, as far as they matter for what is computed here."
    )
    for erratum in paper.errata:
        yield f"({erratum.id.lower()})=\n\n### {erratum.id}: {text(erratum.where)}"
        yield prose(erratum.wrong)
        yield f"*Here:* {prose(erratum.instead)}"


def _reference(paper: Paper) -> str:
    authors = ", ".join(map(text, paper.authors))
    citation = f"{authors}: *{text(paper.title)}*. {text(paper.venue)}, {paper.year}, "
    return citation + link(text(paper.identifier), paper.address) + "."


def _sentences(of: _Sources, key: str, settings: Mapping[str, str]) -> list[SentenceOutcome]:
    return sentence_outcomes(of.kept, of.plan.experiments, of.plan.sentences[key], settings)


def sentence_counts(rows: Sequence[SentenceOutcome]) -> str:
    """How the paper's claims came out, by setting, in words."""
    counts = count_by_setting(rows).items()
    by_setting = (f"{setting}: {format_outcomes(own)}" for setting, own in counts if own)
    return capital("; ".join(by_setting)) or "None is judged"


def _claim_row(row: SentenceOutcome, tests: Mapping[str, str]) -> list[str]:
    """A row of the table of printed claims, with the experiments that test them."""
    sentence, by_experiment = row.sentence, dict.fromkeys(one.experiment for one in row.claims)
    shown = ", ".join(link(name, f"#{name}") for name in by_experiment)
    spoken = "" if sentence.cases == "all" else f" *(of {sentence.cases} cases)*"
    return [
        f"“{text(sentence.text)}”{spoken} ({text(sentence.place)})",
        tests[sentence.id],
        text(row.setting),
        f"{MARKS[row.outcome]} {row.outcome}",
        f"{counted(len(row.claims), 'claim')}: {shown}",
    ]


def _not_judged(of: _Sources, key: str, rows: Sequence[SentenceOutcome]) -> str:
    judged = {row.sentence.id for row in rows}
    left = [each for each in of.plan.sentences[key].values() if each.id not in judged]
    return "; ".join(f"“{text(each.text)}” ({text(each.place)})" for each in left)


def _rows(of: _Sources, key: str) -> Iterator[list[str]]:
    """Show an experiment's verdicts beside the first figure that names it; others refer to it."""
    settings = of.coverage[key].settings

    def outcomes_of(names: Sequence[str]) -> Counter[str]:
        own = {name: settings[name] for name in names if name in settings}
        return Counter(row.outcome for row in _sentences(of, key, own))

    counted: dict[str, str] = {}
    for each in of.coverage[key].figures:
        own = [name for name in each.experiments if name not in counted]
        again = [name for name in each.experiments if name in counted]
        counted |= dict.fromkeys(own, each.name)
        counts = outcomes_of(own)
        judged = (name for name in again if outcomes_of([name]))
        outcomes = [f"see {text(counted[name])}" for name in judged]
        if counts or not outcomes:
            outcomes = [format_outcomes(counts), *outcomes]
        setup = "; ".join(filter(None, [each.data, each.size, each.why]))
        shown = [
            link(name, f"#{name}") + (f" ({explored})" if (explored := _explored(of, name)) else "")
            for name in each.experiments
            if of.has_result(name)
        ]
        declared = [code(name) for name in each.experiments if not of.has_result(name)]
        about = " ".join(
            [
                f"{text(setup)}.",
                *([f"Figure, table, verdicts: {', '.join(shown)}."] if shown else []),
                *([f"No result is kept for {', '.join(declared)}."] if declared else []),
            ]
        )
        yield [text(each.name), RAN[each.ran], about, "; ".join(dict.fromkeys(outcomes))]


def _explored(of: _Sources, name: str, label: str = "explore") -> str:
    """A link into the explorer, where traces or verdicts of the experiment are published."""
    judged = any(experiment == name for experiment, _ in of.published.verdicts)
    if not judged and not of.published.has_traces(name):
        return ""
    return link(label, f"explorer:{name}")


def _experiments(of: _Sources, names: Sequence[str]) -> Iterator[str]:
    """Show experiments that have a result in full, and the others in a table."""
    names = [name for name in names if group_of(name) != DEMO]
    shown = [name for name in names if of.has_result(name)]
    if shown:
        yield "## Every experiment"
        yield " ".join(_SHOWN.split())
    notes: dict[str, str] = {}
    for name in shown:
        yield from _experiment(of, name, notes)
    others = [name for name in names if name not in shown]
    if others:
        yield "## Experiments without a result here"
        yield "Run any of them by its name: `snakemake NAME --cores 2`."
        yield table(
            ("name", "what it is", "source"),
            [[code(name), *_declared(of.plan.experiments[name])] for name in others],
        )


def _declared(experiment: Experiment) -> tuple[str, str]:
    return text(experiment.title), text(experiment.source)


def _experiment(of: _Sources, name: str, notes: dict[str, str]) -> Iterator[str]:
    """notes: text of notes → the first experiment on the page that has them."""
    experiment = of.plan.experiments[name]
    title, source = _declared(experiment)
    yield f"({name})=\n\n### {name}"
    first = notes.setdefault(experiment.notes, name)
    same = first != name and len(experiment.notes) > 80
    remarks = f"Notes: those of {link(first, f'#{first}')}." if same else text(experiment.notes)
    yield f"**{title}** ({source}). {remarks}"
    if explored := _explored(of, name, "Explore"):
        curves = "curves, numbers, " if name in of.published.drawable else ""
        yield f"{explored}: {curves}cases and evidence."
    yield folded(
        counted(len(experiment.claims), "claim") + ", picture, how to run it",
        "\n\n".join(_folded(of, name, title)),
    )


def _folded(of: _Sources, name: str, title: str) -> Iterator[str]:
    """The picture, claims and effects of an experiment, and how it is run."""
    whole = _image(name).exists()
    if whole or name in of.published.drawable:
        picture = f"../images/{name}.png" if whole else f"../papers/{FIGURES}/{name}.svg"
        yield f"```{{image}} {picture}\n:alt: {title}\n:loading: lazy\n```"
    if claims := of.plan.experiments[name].claims:
        yield table(
            ("claim, as tested", "source", "outcome", "effect"),
            [_claimed(of, name, claim) for claim in claims],
        )
    yield f"```sh\nsnakemake {name} --cores 2\n```"
    yield _origin(of, name)


def _origin(of: _Sources, name: str) -> str:
    """Where an experiment is declared, on which data, and where its numbers are published."""
    experiment = of.plan.experiments[name]
    file = Path(experiment.where.removesuffix(f" ({name})")).absolute().relative_to(_ROOT)
    where = f"Declared in {code(str(file))}, on {code(experiment.dataset)}"
    if (folder := of.published.folder(name)) is None:
        return f"{where}."
    again = code(f"fedatlas rederive {name}/CLAIM")
    return (
        f"{where}; numbers in {link(code(f'published/{folder.name}'), '../published.md')}, one of "
        f"them {link('anew', '../published.md#one-number-anew')}: {again}."
    )


def _claimed(of: _Sources, name: str, claim: Claim) -> list[str]:
    about = [text(claim.statement), text(claim.source)]
    verdict = of.published.verdicts.get((name, claim.id))
    if verdict is None:
        place = name, claim.id
        kept = (one.outcome for one in of.kept if (one.experiment, one.claim) == place)
        outcome = next(kept, "")
        return [*about, f"{MARKS[outcome]} {outcome}" if outcome else "–", ""]
    cell = f"{MARKS[verdict.outcome]} {verdict.outcome}{', fragile' * bool(verdict.fragile)}"
    (verdict,) = titled([verdict], {name: of.plan.run_titles(name)})
    return [*about, cell, _effect(verdict)]


def _effect(verdict: Verdict) -> str:
    """The estimate with its interval, or how several cases came out, or why there is none."""
    return text(in_full(verdict.effect) if verdict.effect else verdict.evidence)


def _image(name: str) -> Path:
    return _IMAGES / f"{name}.png"
