"""A page for each paper: what ran of it, its experiments with their claims, its errata."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fedatlas.atlas.markdown import code, link, prose, table, text
from fedatlas.evaluation.coverage import KeptVerdict, outcomes_of, read_kept
from fedatlas.evaluation.verdict_words import outcomes_told
from fedatlas.plan.build import Plan, build_plan, group_of
from fedatlas.schema.coverage import RAN, Coverage, Covered, load_coverage
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.papers import DEMO, OURS, Paper

#: Figures that were kept, each named as its experiment.
_IMAGES = Path(__file__).parents[1] / "images"

# Columns of the overview, as README's.
_HOW = {
    "on the paper's data": ["paper"],
    "smaller or on other data": ["smaller", "other"],
    "never": ["never"],
}
_COUNTED = """
A panel is a part of a figure or table that the paper tells apart; what shows no result of a run is
not counted. Verdicts are of the paper's own sentences in the experiments that are named, each
counted once, as `config/verdicts.csv` keeps them; a dash means that none is kept by
[today's rule](../verdicts.md). What came out in words, with numbers, stands under
"""


def pages(config: Path) -> Iterator[tuple[str, str]]:
    """Name and Markdown of each page, the overview first, for the folder docs/papers."""
    plan = build_plan(config)
    coverage = load_coverage(config / "coverage.yaml", plan.papers, plan.experiments)
    kept = read_kept(config / "verdicts.csv")
    yield "index.md", _overview(plan, coverage, kept)
    for key in plan.papers:
        yield f"{key}.md", "\n\n".join(_paper(plan, key, coverage[key], kept)) + "\n"
    yield "ours.md", "\n\n".join(_ours(plan, kept)) + "\n"


def _overview(plan: Plan, coverage: Mapping[str, Coverage], kept: Sequence[KeptVerdict]) -> str:
    header = ["paper", "panels", *_HOW, "the paper's sentences"]
    rows = []
    for key, paper in plan.papers.items():
        own = coverage[key]
        names = [name for name, each in plan.experiments.items() if each.paper == key]
        ran = [str(own.panels(*kinds) or "–") for kinds in _HOW.values()]
        rows.append([link(text(paper.name), f"{key}.md"), str(own.panels()), *ran])
        rows[-1].append(outcomes_told(outcomes_of(kept, plan.experiments, names)))
    contents = "\n".join([*plan.papers, "ours"])
    return "\n\n".join(
        [
            "# The papers",
            "How many panels of figures and tables ran, and on what.",
            table(header, rows, numbers=range(1, len(header) - 1)),
            "Verdicts are those that `config/verdicts.csv` keeps; see "
            "[how claims are judged](../verdicts.md).",
            f"```{{toctree}}\n:hidden:\n\n{contents}\n```\n",
        ]
    )


def _paper(plan: Plan, key: str, coverage: Coverage, kept: Sequence[KeptVerdict]) -> Iterator[str]:
    paper = plan.papers[key]
    own = {name: each for name, each in plan.experiments.items() if each.paper == key}
    yield f"# {text(paper.name)}"
    yield _reference(paper)
    yield (
        f"**{coverage.panels('paper')} of {coverage.panels()} panels ran on the paper's data**, "
        f"{coverage.panels('smaller', 'other')} on less or other data, "
        f"{coverage.panels('never')} never."
    )
    yield "## Coverage"
    yield f"{_COUNTED.strip()} [findings](../findings/{key}.md)."
    yield table(
        ("shown", "ran", "data, size, what differs or is missing", "the paper's sentences"),
        list(_rows(coverage.figures, plan.experiments, kept)),
    )
    yield "## Experiments"
    yield from _experiments(own, kept)
    yield "## Errata"
    yield "Where the paper is wrong or at odds with itself, as far as it bears on what is computed."
    for erratum in paper.errata:
        yield f"({erratum.id.lower()})=\n\n### {erratum.id}: {text(erratum.where)}"
        yield prose(erratum.wrong)
        yield f"*Here:* {prose(erratum.instead)}"


def _reference(paper: Paper) -> str:
    authors = ", ".join(map(text, paper.authors))
    told = f"{authors}: *{text(paper.title)}*. {text(paper.venue)}, {paper.year}, "
    return told + link(text(paper.identifier), paper.address) + "."


def _rows(
    figures: Sequence[Covered], experiments: Mapping[str, Experiment], kept: Sequence[KeptVerdict]
) -> Iterator[list[str]]:
    """Verdicts of an experiment stand beside the first figure that names it, others refer to it."""
    counted: dict[str, str] = {}
    for each in figures:
        own = [name for name in each.experiments if name not in counted]
        again = [name for name in each.experiments if name in counted]
        counted |= dict.fromkeys(own, each.name)
        counts = outcomes_of(kept, experiments, own)
        judged = (name for name in again if outcomes_of(kept, experiments, [name]))
        outcomes = [f"see {text(counted[name])}" for name in judged]
        if counts or not outcomes:
            outcomes = [outcomes_told(counts), *outcomes]
        told = "; ".join(filter(None, [each.data, each.size, each.why]))
        places = ", ".join(link(name, f"#{name}") for name in each.experiments)
        about = f"{text(told)}." + (f" Experiments: {places}" if places else "")
        yield [text(each.name), RAN[each.ran], about, "; ".join(dict.fromkeys(outcomes))]


def _ours(plan: Plan, kept: Sequence[KeptVerdict]) -> Iterator[str]:
    own = {
        name: each
        for name, each in plan.experiments.items()
        if each.paper == OURS and group_of(name) != DEMO
    }
    yield "# Across papers"
    yield (
        "Questions of ours, for which methods of several papers run on the same data. "
        "[Findings](../findings/across-papers.md) tells what came out."
    )
    yield "## Experiments"
    yield from _experiments(own, kept)


def _experiments(
    experiments: Mapping[str, Experiment], kept: Sequence[KeptVerdict]
) -> Iterator[str]:
    found = {(each.experiment, each.claim): each.outcome for each in kept}
    yield (
        "Each is a target of its own. Its figure, table and verdicts are then `figure.svg`, "
        "`table.csv` and `claims.csv` in `results/experiments/<name>/`."
    )
    for name, each in experiments.items():
        if group_of(name) == DEMO:
            continue
        yield f"({name})=\n\n### {name}"
        yield f"**{text(each.title)}** ({text(each.source)}). {text(each.notes)}"
        yield f"```sh\nsnakemake {name} --cores 2\n```"
        if (_IMAGES / f"{name}.png").exists():
            yield f"![{text(each.title)}](../images/{name}.png)"
        if each.claims:
            yield table(
                ("claim", "source", "judged by", "outcome"),
                [
                    [
                        text(claim.statement),
                        text(claim.source),
                        code(claim.test.kind),
                        found.get((name, claim.id), "–"),
                    ]
                    for claim in each.claims
                ],
            )
