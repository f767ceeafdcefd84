"""What the repository keeps of results: verdicts, README's table of what ran, the data card.

config/verdicts.csv has a row for each claim that was judged, as results lie in no repository.
Tallies count the papers' sentences, each once for every setting in which claims about it were
judged, whatever number of claims, experiments and cases that takes.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from fedatlas.data.datasets import Dataset
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comparison import together
from fedatlas.evaluation.evidence import format_outcomes
from fedatlas.evaluation.tables import parse_rows, row_parser, to_csv
from fedatlas.evaluation.verdicts import cases_of, read_verdicts, whole_claims
from fedatlas.markdown import code, link, paragraph, table, text
from fedatlas.schema.claims import CaseOutcome, Claim, Effect, Outcome
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.papers import SETTINGS, Coverage, Paper, Sentence, setting_of
from fedatlas.schema.quantities import COSTS, MEASUREMENTS
from fedatlas.store.table import KEYS

#: Between these lines README.md has the table of what ran.
MARKS = (
    "<!-- from config/coverage.yaml, by `fedatlas coverage` -->",
    "<!-- to here, by `fedatlas coverage` -->",
)
#: Columns of what ran, and how it ran there.
HOW = {
    "panels in the paper's setting": ("paper", "dataless"),
    "panels in another setting": ("smaller", "other"),
    "panels not run": ("never",),
}
#: Columns of tables of what ran, and how it came out.
HEADS = ("paper", *HOW, "claims in the paper's setting", "claims in another setting")

Sentences = Mapping[str, Mapping[str, Sentence]]  # by paper and id


class KeptVerdict(NamedTuple):
    """How one claim came out; judged: on which day.

    cases: how its cases did, in words, of a claim that has several. p: the smallest one of those
    that contradict it, or else of those that reproduce it, if they are random.
    """

    experiment: str
    claim: str
    outcome: Outcome
    judged: str
    cases: str = ""
    p: float | None = None


class SentenceOutcome(NamedTuple):
    """How a sentence of a paper came out in one of `SETTINGS`; claims: that were judged there."""

    sentence: Sentence
    setting: str
    outcome: Outcome
    claims: tuple[KeptVerdict, ...]


def read_kept(path: Path) -> list[KeptVerdict]:
    """The rows of verdicts.csv; none if there is no such file. FedatlasError for a damaged one."""
    if not path.exists():
        return []
    return parse_rows(path, KeptVerdict._fields, row_parser(KeptVerdict))


def kept_to_csv(kept: Sequence[KeptVerdict]) -> str:
    """The rows as verdicts.csv."""
    return to_csv([each._asdict() for each in kept], KeptVerdict._fields)


def taken_from(results: Path) -> list[KeptVerdict]:
    """How claims came out, of every experiment that was judged in a folder of results."""
    found = []
    for file in sorted(results.glob("experiments/*/claims.csv")):
        judged = datetime.fromtimestamp(file.stat().st_mtime, UTC).date().isoformat()
        verdicts = read_verdicts(file)
        cases = cases_of(verdicts)
        for verdict in whole_claims(verdicts):
            experiment, _, claim = verdict.claim.partition("/")
            own = cases.get(verdict.claim, [])
            counts = format_outcomes(Counter[str](case.outcome for case in own)) if own else ""
            decided = _decided([each.outcome for each in own or [verdict]])
            effects = [each.effect for each in own or [verdict] if each.outcome == decided]
            known = [effect.p for effect in effects if effect and effect.p is not None]
            p = min(known) if known and len(known) == len(effects) else None
            found.append(KeptVerdict(experiment, claim, verdict.outcome, judged, counts, p))
    if not found:
        raise FedatlasError(
            f"{results}: holds no experiments/*/claims.csv; name the folder of results of a run"
        )
    return found


def _decided(outcomes: Collection[str]) -> Outcome:
    """Which cases of a claim the kept p is of."""
    return "contradicted" if "contradicted" in outcomes else "reproduced"


def joined(
    kept: Iterable[KeptVerdict],
    taken: Iterable[KeptVerdict],
    experiments: Mapping[str, Experiment],
) -> list[KeptVerdict]:
    """What was kept, with all claims of the experiments that were taken in place of theirs.

    Only claims that the experiments still state stay; rows are in the experiments' order.
    """
    taken = list(taken)
    anew = {each.experiment for each in taken}
    rows = {
        (each.experiment, each.claim): each
        for each in [*(each for each in kept if each.experiment not in anew), *taken]
    }
    return [
        rows[name, claim.id]
        for name, experiment in experiments.items()
        for claim in experiment.claims
        if (name, claim.id) in rows
    ]


def questions_of_ours(
    kept: Iterable[KeptVerdict], experiments: Mapping[str, Experiment], names: Iterable[str]
) -> Counter[str]:
    """How our own questions of these experiments came out."""
    asked = {
        (name, claim.id)
        for name in names
        for claim in experiments[name].claims
        if claim.sentence is None
    }
    return Counter(each.outcome for each in kept if (each.experiment, each.claim) in asked)


def sentence_outcomes(
    kept: Iterable[KeptVerdict],
    experiments: Mapping[str, Experiment],
    sentences: Mapping[str, Sentence],
    settings: Mapping[str, str],
) -> list[SentenceOutcome]:
    """How a paper's sentences came out, a row for each setting in which claims were judged.

    settings: as of `Coverage`; experiments that are not there are left out. Rows are in the
    paper's order.
    """
    places = {(each.experiment, each.claim): each for each in kept}
    judged: dict[tuple[str, str], list[tuple[Claim, KeptVerdict]]] = {}
    for name in filter(experiments.__contains__, settings):
        for claim in experiments[name].claims:
            tested = claim.sentence or ""
            if tested in sentences and (name, claim.id) in places:
                setting = setting_of(settings, f"{name}/{claim.id}")
                own = judged.setdefault((tested, setting), [])
                own.append((claim, places[name, claim.id]))
    rows = []
    for sentence in sentences.values():
        for setting in SETTINGS:
            found = judged.get((sentence.id, setting), [])
            if found:
                cases = [case for claim, one in found for case in _cases(claim, one, sentence)]
                outcome = together(cases, sentence.cases)
                claims = tuple(one for _, one in found)
                rows.append(SentenceOutcome(sentence, setting, outcome, claims))
    return rows


def _cases(claim: Claim, kept: KeptVerdict, sentence: Sentence) -> Iterator[CaseOutcome]:
    """The cases of a claim, or the claim, if it is about another share or is not testable."""
    counts = {kept.outcome: 1}
    if claim.cases == sentence.cases and kept.cases and kept.outcome != "not testable":
        found = re.findall(r"(\d+) ([^,]+)", kept.cases)
        counts = {outcome: int(count) for count, outcome in found}
    for outcome, count in counts.items():
        effect = None
        if outcome == _decided(list(counts)) and kept.p is not None:
            nan = float("nan")
            effect = Effect(nan, nan, nan, smallest=nan, unit="", seeds=0, p=kept.p)
        yield from [CaseOutcome(kept.claim, outcome, "", effect)] * count


def count_by_setting(rows: Iterable[SentenceOutcome]) -> dict[str, Counter[str]]:
    """How many sentences came out how, by setting."""
    found = {setting: Counter[str]() for setting in SETTINGS}
    for row in rows:
        found[row.setting][row.outcome] += 1
    return found


def count_in_two(rows: Iterable[SentenceOutcome]) -> tuple[Counter[str], Counter[str]]:
    """Outcomes in the paper's setting, and in all others; a sentence counts once in each."""
    printed, *others = count_by_setting(rows).values()
    return printed, sum(others, Counter[str]())


def readme_table(
    papers: Mapping[str, Paper],
    sentences: Sentences,
    coverage: Mapping[str, Coverage],
    kept: Sequence[KeptVerdict],
    experiments: Mapping[str, Experiment],
) -> str:
    """A row for each paper: how many panels ran, on what, and how its sentences came out."""
    rows = [f"| {' | '.join(HEADS)} |", "|" + "---|" * len(HEADS)]
    for key, (first, *others) in coverage_rows(sentences, coverage, kept, experiments).items():
        paper = papers[key]
        found = link(text(paper.name), f"docs/findings/{key}.md")
        named = f"{found} ({link(str(paper.year), paper.address)})"
        rows.append(f"| {' | '.join([named, f'**{first}**', *others])} |")
    return "\n".join(rows)


def coverage_rows(
    sentences: Sentences,
    coverage: Mapping[str, Coverage],
    kept: Sequence[KeptVerdict],
    experiments: Mapping[str, Experiment],
) -> dict[str, list[str]]:
    """By paper: the cells below HEADS, but for the first."""
    found = {}
    for key, covered in coverage.items():
        first, *others = (covered.panels(*kinds) for kinds in HOW.values())
        panels = [f"{first} of {covered.panels()}", *(str(count or "–") for count in others)]
        rows = sentence_outcomes(kept, experiments, sentences[key], covered.settings)
        found[key] = [*panels, *map(format_outcomes, count_in_two(rows))]
    return found


def with_table(readme: str, table: str, where: Path) -> str:
    """README's text with the table between its marks; FedatlasError where these are missing."""
    begin, end = (readme.find(mark) for mark in MARKS)
    if not -1 < begin < end:
        raise FedatlasError(
            f"{where}: the table of what ran stands between the lines '{MARKS[0]}' and "
            f"'{MARKS[1]}': write them, in this order"
        )
    return f"{readme[: begin + len(MARKS[0])]}\n\n{table}\n\n{readme[end:]}"


_OPENING = """
`fedatlas export` writes traces as a Parquet table with a row for each run, seed and record.
`fedatlas publish` writes the same numbers over point, seed and record. This page lists the columns,
and the data sets that runs were trained on. It is generated: `fedatlas data-card --output
docs/data-card.md` writes it anew.
"""
_WHAT = """
A trace is the record of one run of one method. It has the costs and measurements of every seed at
every record of the run's schedule. It has no rows of a data set and no model. Costs add up over a
run. A column is empty (NULL) if the run does not count or measure it. A seed that diverged has NaN
from then on, and the status `diverged`. The times `wall_time` and `elapsed_time` were measured on
one machine. All other values are the same in every run on a CPU with the versions in the file.
"""
_LIMITS = """
Files that `publish` writes without `--whole` are lossy. Their metadata says under `thinned` how
many records and significant digits are kept. Seeds that only chose configurations are left out.
Digests identify the code and the data that made a trace. `values_digest` is the digest of the
values as measured, before records were thinned.
Seeds marked `tuning` chose a configuration. Leave them out when you judge.
"""
_LICENCES = """
Licences are those of the data that runs were trained on; each table repeats those of its own runs
in its metadata. Traces themselves are published under the licence of this repository.
"""


def data_card(datasets: Mapping[str, Dataset]) -> str:
    """The page as Markdown; datasets: the catalogue's, by name."""
    return "\n\n".join(_blocks(datasets)) + "\n"


def _blocks(datasets: Mapping[str, Dataset]) -> Iterator[str]:
    yield "# Data card"
    yield paragraph(_OPENING)
    yield "## What a row is"
    yield paragraph(_WHAT)
    yield paragraph(_LIMITS)
    yield "## Columns that name a row"
    yield table(
        ("column", "type", "is"),
        [[code(name), one.dtype, text(one.long_name)] for name, one in KEYS.items()],
    )
    yield "## Costs"
    yield table(
        ("column", "unit", "is"),
        [[code(name), text(one.units), text(one.long_name)] for name, one in COSTS.items()],
    )
    yield "## Measurements"
    yield table(
        ("column", "unit", "best value", "is"),
        [
            [
                code(name),
                text(one.units),
                "–" if one.best is None else str(one.best),
                text(one.long_name),
            ]
            for name, one in MEASUREMENTS.items()
        ],
    )
    yield "## Data sets and their licences"
    yield paragraph(_LICENCES)
    yield table(
        ("data set", "title", "task", "licence"),
        [
            [code(name), link(text(one.title), one.homepage), one.task, text(one.licence)]
            for name, one in datasets.items()
        ],
    )
