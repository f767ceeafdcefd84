"""What the site and README say of the configuration is what the configuration says."""

import json
import re
import sys
from pathlib import Path

import pytest
import yaml
from docutils import nodes
from docutils.core import publish_doctree
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from experiment_files import plan_of_all
from fedatlas.algorithms import algorithm_names
from fedatlas.cli import app
from fedatlas.data.formats import dataset_of
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.evidence import format_outcomes
from fedatlas.evaluation.verdicts import read_verdicts, verdicts_to_csv, whole_claims
from fedatlas.pages.repository import (
    MARKS,
    joined,
    kept_to_csv,
    questions_of_ours,
    read_kept,
    readme_table,
    sentence_outcomes,
    taken_from,
    with_table,
)
from fedatlas.plan.build import build_plan
from fedatlas.schema.claims import Claim, ClaimTest
from fedatlas.schema.experiment_files import read_experiments
from fedatlas.schema.models import read_yaml, validated
from fedatlas.schema.objectives import objective_classes
from fedatlas.schema.papers import OURS, PANELS, RAN, load_coverage, setting_of
from fedatlas.schema.partitions import OF_CLIENTS, OF_PARTIES, Partition
from fedatlas.store.experiment import Experiment
from verdict_factory import verdict

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / "config"
sys.path.insert(0, str(ROOT / "docs"))

from making import (  # noqa: E402
    configuration,
    explorer,
    findings,
    methods,
    objectives,
    outcomes,
    papers,
    schemas,
)
from making import words as making_words  # noqa: E402
from making.papers import sentence_counts  # noqa: E402

from fedatlas.schema.described import parted  # noqa: E402


@pytest.fixture(scope="module")
def plan():
    return plan_of_all()


@pytest.fixture(scope="module")
def of():
    """What papers' pages are made from."""
    return papers.sources(CONFIG)


@pytest.fixture(scope="module")
def made():
    return schemas.schemas()


def test_every_key_and_hyper_parameter_is_described(made):
    assert not [*configuration.undescribed(), *methods.undescribed()]
    lacking = [
        f"{name}: {model}.{key}"
        for name, schema in made.items()
        for model, of in schema["$defs"].items()
        for key, value in of.get("properties", {}).items()
        if not value.get("description")
    ]
    assert not lacking


def test_the_page_of_objectives_has_all_of_them():
    page = objectives.page()
    assert [name for name in objective_classes() if f"`{name}`" not in page] == []


def test_committed_schemas_are_those_of_the_models(made):
    committed = {file.stem: file.read_text("utf-8") for file in schemas.FOLDER.glob("*.json")}
    assert committed == {name: schemas.as_text(one) for name, one in made.items()}, "make schemas"


def test_schemas_accept_what_the_models_do_and_refuse_a_misspelt_key(made):
    """By a validator that knows nothing of the models; of experiments, some of every file."""
    for schema in made.values():
        Draft202012Validator.check_schema(schema)
    of_others = {"experiment", "mapping"}
    files = {name: read_yaml(CONFIG / f"{name}.yaml") for name in made.keys() - of_others}
    experiments = read_experiments(CONFIG / "experiments")
    files |= {name: experiments[name][1] for name in [*experiments][::9]}
    for name, content in files.items():
        plain = json.loads(json.dumps(content))  # keys of JSON are text
        Draft202012Validator(made.get(name, made["experiment"])).validate(plain)
    wrong = experiments["demo-fedpage"][1] | {"sedes": [0]}
    assert not Draft202012Validator(made["experiment"]).is_valid(wrong)


def test_the_page_of_the_rule_has_the_table_of_words_from_the_code():
    page = (ROOT / "docs" / "verdicts.md").read_text("utf-8")
    assert making_words.with_words(page) == page, "make words"


def test_docstrings_are_parted_by_keys():
    text = """A grid: of points.

    first, last: ends. step: between
        two points.
    kind: `a`: one; of `first`: another.

    unit: of all."""
    assert parted(text, ["first", "last", "step", "kind"]) == (
        "A grid: of points.\n\nunit: of all.",
        {
            "first": "ends.",
            "last": "ends.",
            "step": "between\n    two points.",
            "kind": "`a`: one; of `first`: another.",
        },
    )


def test_coverage_is_sound_and_readme_has_its_table(plan):
    coverage = load_coverage(CONFIG / "coverage.yaml", plan.papers, plan.experiments)
    for each in coverage.values():
        by_kind = sum(each.panels(ran) for ran in PANELS)
        assert by_kind == each.panels() > 0
    kept = read_kept(CONFIG / "verdicts.csv")
    assert joined(kept, [], plan.experiments) == kept, "a claim is gone: fedatlas coverage"
    readme = (ROOT / "README.md").read_text("utf-8")
    table = readme_table(plan.papers, plan.sentences, coverage, kept, plan.experiments)
    assert with_table(readme, table, ROOT / "README.md") == readme, "fedatlas coverage"
    with pytest.raises(FedatlasError, match=r"R.md: the table .* stands between the lines"):
        with_table("# Ours", table, Path("R.md"))


def test_verdicts_are_taken_from_results_in_place_of_earlier_ones(tmp_path):
    config, folder = tmp_path / "config", tmp_path / "results" / "experiments" / "fedpage-fig2a"
    config.mkdir()
    folder.mkdir(parents=True)
    for file in CONFIG.iterdir():
        if file.name != "verdicts.csv":
            (config / file.name).symlink_to(file)
    kept = read_kept(CONFIG / "verdicts.csv")
    (config / "verdicts.csv").write_text(kept_to_csv(kept))
    told = [
        verdict(claim="fedpage-fig2a/fedpage-scaffold", outcome="contradicted"),
        verdict(claim="fedpage-fig2a/gone", outcome="undecided"),
    ]
    (folder / "claims.csv").write_text(verdicts_to_csv(told))
    readme = tmp_path / "README.md"
    readme.write_text("\n".join(MARKS))
    command = ["coverage", str(tmp_path / "results"), "--config", str(config)]
    CliRunner().invoke(app, [*command, "--readme", str(readme)], catch_exceptions=False)
    now = read_kept(config / "verdicts.csv")
    own = [each for each in now if each.experiment == "fedpage-fig2a"]
    assert [(each.claim, each.outcome) for each in own] == [("fedpage-scaffold", "contradicted")]
    others = [each for each in kept if each.experiment != "fedpage-fig2a"]
    assert [each for each in now if each not in own] == others
    assert "FedPAGE" in readme.read_text("utf-8")
    with pytest.raises(FedatlasError, match=r"holds no experiments/\*/claims.csv"):
        taken_from(config)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{figure: Figure 1, ran: never}", "'why' is missing"),
        ("{figure: Figure 1, ran: paper, data: a9a}", "wants 'experiments' and 'size'"),
        ("{figure: Table 1, ran: ours, why: bounds}", "'ran: ours' wants 'experiments'"),
        ("{figure: F, ran: paper, size: s, experiments: [dpgt-fig66]}", r"'dpgt-fig66'; similar: "),
        ("{figure: F, panels: [a, a], ran: never, why: w}", r"'F\(a\)' stands twice"),
        ("{figure: F, ran: often, why: w}", "key 'figures.0.ran', value 'often': must be"),
    ],
)
def test_coverage_says_what_is_wrong_with_it(plan, tmp_path, line, message):
    path = tmp_path / "coverage.yaml"
    path.write_text(f"dpgt:\n  - {line}\n")
    with pytest.raises(FedatlasError, match=rf"coverage.yaml: dpgt: .*{message}"):
        load_coverage(path, ["dpgt"], plan.experiments)
    with pytest.raises(FedatlasError, match="one key each; not so: tdcd"):
        load_coverage(path, ["dpgt", "tdcd"], plan.experiments)


def test_a_figure_s_page_counts_every_verdict_once(plan, of):
    """Figure 4(a) of FedPAGE is Figure 2(a), printed again."""
    found = dict(papers.parts(of))
    rows = {key: rows_of_coverage(found[f"{key}.inc"]) for key in plan.papers}
    assert rows["fedpage"]["Figure 4(a)"][-1] == "see Figure 2(a)"
    kept = {(each.experiment, each.claim) for each in read_kept(CONFIG / "verdicts.csv")}
    coverage = load_coverage(CONFIG / "coverage.yaml", plan.papers, plan.experiments)
    for key, own in coverage.items():
        for each in own.figures:
            told = sum(map(int, re.findall(r"(\d+) [a-z]", rows[key][each.name][-1])))
            # Each sentence of the experiments that stand here first, and ran.
            tested = {
                (claim.sentence, setting_of(own.settings, f"{name}/{claim.id}"))
                for name in each.experiments
                if name in own.settings and first_line(own, name) is each
                for claim in plan.experiments[name].claims
                if claim.sentence and (name, claim.id) in kept
            }
            assert told == len(tested) or "see" in rows[key][each.name][-1], (key, each.name)


def first_line(coverage, name):
    return next(each for each in coverage.figures if name in each.experiments)


def test_no_part_of_a_page_names_a_folder_of_this_machine(of):
    assert not [name for name, page in papers.parts(of) if str(ROOT) in page]


def test_what_has_verdicts_ran(plan, of):
    """A table of bounds has no runs of the paper, but those of ours that test it."""
    for name, page in papers.parts(of):
        if name.removesuffix(".inc") in plan.papers:
            for figure, ran, _, outcomes in rows_of_coverage(page).values():
                silent = outcomes == "–" or outcomes.startswith("see ")
                assert silent or ran not in (RAN["nothing"], RAN["never"]), (name, figure)
    coverage = load_coverage(CONFIG / "coverage.yaml", plan.papers, plan.experiments)
    assert [coverage[key].panels() for key in ("fedpage", "fmgda")] == [12, 7]  # not counted


def test_coverage_names_every_experiment_with_a_verdict_of_its_paper(plan):
    """So that rows sum up to the headline; verdicts on the paper's data are told apart."""
    kept = read_kept(CONFIG / "verdicts.csv")
    coverage = load_coverage(CONFIG / "coverage.yaml", plan.papers, plan.experiments)
    judged = {each.experiment for each in kept}
    for key, own in coverage.items():
        named = {name for each in own.figures for name in each.experiments}
        of_paper = {name for name, each in plan.experiments.items() if each.paper == key}
        assert not of_paper & judged - named, key
        found = sentence_outcomes(kept, plan.experiments, plan.sentences[key], own.settings)
        places = [(row.sentence.id, row.setting) for row in found]
        assert len(set(places)) == len(places)
        # Every kept claim about a sentence stands in one row.
        about = {
            (one.experiment, one.claim)
            for one in kept
            if one.experiment in own.settings
            and any(
                claim.id == one.claim and claim.sentence
                for claim in plan.experiments[one.experiment].claims
            )
        }
        listed = [(one.experiment, one.claim) for row in found for one in row.claims]
        assert sorted(listed) == sorted(about)


def test_pages_show_published_figures_and_verdicts(plan, of):
    """The effects of published verdicts, which are those that are kept, and a link to each."""
    found = dict(papers.parts(of))
    kept = {(each.experiment, each.claim): each.outcome for each in of.kept}
    verdicts = of.published.verdicts
    assert {place: one.outcome for place, one in verdicts.items()}.items() <= kept.items()
    for experiment, _ in verdicts:
        paper = plan.experiments[experiment].paper
        page = found[f"{'across-papers' if paper == OURS else paper}.inc"]
        assert f"](explorer:{experiment})" in page
    page = found["fmgda.inc"].split("### fmgda-table2-fashion-mnist\n")[1].split("\n### ")[0]
    lead = verdicts["fmgda-table2-fashion-mnist", "lead-over-momentum"]
    assert lead.fragile and f"✗ {lead.outcome}, fragile" in page
    assert f"{abs(lead.effect.estimate):.3g} behind" in page
    assert "figures/fmgda-fig2-fashion-mnist.svg" in found["fmgda.inc"]
    assert "`vfb2-fig4-d4`" in found["vfb2.inc"].split("## Experiments without a result")[1]


def rows_of_coverage(page: str) -> dict[str, list[str]]:
    """figure → its cells, of a paper's page."""
    lines = page.split("## Every figure and table")[1].split("\n## ")[0].splitlines()
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if "|" in line
    ]
    return {own[0].replace("\\", ""): own for own in cells[2:]}


def test_findings_count_kept_and_fragile_verdicts(plan):
    """On each page: how many verdicts are kept and published, and how many are fragile."""
    kept = read_kept(CONFIG / "verdicts.csv")
    coverage = load_coverage(CONFIG / "coverage.yaml", plan.papers, plan.experiments)
    published = [
        one
        for file in sorted((ROOT / "published").glob("*/verdicts.csv"))
        for one in whole_claims(read_verdicts(file))
    ]
    for key in [*plan.papers, OURS]:
        own = [name for name, each in plan.experiments.items() if each.paper == key]
        ours = questions_of_ours(kept, plan.experiments, own)
        claims = sum(each.experiment in own for each in kept)
        shown = [one for one in published if one.claim.split("/")[0] in own]
        reproduced = [one for one in shown if one.outcome == "reproduced"]
        fragile, of_them = (sum(bool(one.fragile) for one in some) for some in (shown, reproduced))
        among = f"among them {of_them}" if of_them else "none"
        told = [
            rf"{claims} claims.* have a kept verdict",
            rf"{fragile} of the {len(shown)} published verdicts (is|are) fragile, "
            rf"{among} of the {len(reproduced)} that say reproduced",
            rf"{ours.total()} are questions of ours: {format_outcomes(ours)}\.",
        ]
        if key != OURS:
            rows = sentence_outcomes(
                kept, plan.experiments, plan.sentences[key], coverage[key].settings
            )
            told.append(re.escape(f"{sentence_counts(rows)}."))
        page = "across-papers" if key == OURS else key
        text = " ".join((ROOT / "docs" / "findings" / f"{page}.md").read_text("utf-8").split())
        for words in told:
            assert re.search(words, text), (page, words)


def test_tables_of_findings_are_those_of_published_verdicts():
    page = findings.PAGE.read_text("utf-8")
    assert findings.with_tables(page) == page


def test_the_explorer_of_the_site_shows_all_that_is_published(plan, tmp_path):
    explorer.write(tmp_path / "explorer" / "index.html")
    page = (tmp_path / "explorer" / "index.html").read_text("utf-8")
    told = re.search(r'id="description">(.*?)</script>', page, re.DOTALL)
    described = json.loads(told[1])
    shown = {
        one["name"]: len(one["runs"]) for of in described["papers"] for one in of["experiments"]
    }
    folders = [folder for folder in (ROOT / "published").iterdir() if folder.is_dir()]
    published: dict[str, set[str]] = {}
    files = (file for folder in folders for file in folder.glob("*.nc*"))  # some are packed
    for found in map(Experiment, files):
        published.setdefault(found.heading.experiment, set()).update(found.points)
    assert shown == {name: len(runs) for name, runs in published.items()}
    verdicts = [one for folder in folders for one in read_verdicts(folder / "verdicts.csv")]
    assert len(described["claims"]) == len(whole_claims(verdicts))
    # Every claim of a trained experiment has curves, be they runs of another experiment.
    held = set(shown) | set(described["shows"])
    judged = {claim["experiment"] for claim in described["claims"]}
    assert {name for name in judged if plan.experiments[name].trained} <= held


def test_no_line_of_a_page_is_a_comment():
    """MyST drops lines that begin with a per cent sign, as wrapped text may."""
    pages = [
        ROOT / "README.md",
        *(ROOT / "docs").glob("**/*.md"),
        *(ROOT / "docs").glob("**/*.inc"),
    ]
    for page in (page for page in pages if "_build" not in page.parts):
        lines = page.read_text("utf-8").splitlines()
        assert not [line for line in lines if line.lstrip().startswith("%")], page


def test_links_and_commands_of_the_readme_lead_somewhere():
    readme = (ROOT / "README.md").read_text("utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", readme):
        path, _, anchor = target.partition("#")
        if path.startswith("https:"):
            continue
        assert (ROOT / path).exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)", (ROOT / path).read_text("utf-8"), re.MULTILINE)
            assert anchor in [
                re.sub(r"[^\w-]", "", one.lower().replace(" ", "-")) for one in headings
            ]
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    commands = re.findall(r"^make ([\w-]+)|`make ([\w-]+)", readme, re.MULTILINE)
    assert commands and {one or other for one, other in commands} <= set(targets)


def test_links_of_pages_lead_somewhere_in_a_clone_but_for_the_reference():
    """Which only the site has; `docs/conf.py` turns links to examples into links to the gallery."""
    pages = [ROOT / "docs", ROOT / "docs/adding", ROOT / "docs/findings"]
    for page in [page for folder in pages for page in folder.glob("*.md")]:
        text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\((?![a-z]+:)([^)\s#]+)", text):
            found = (page.parent / target).exists()
            assert found or target.removeprefix("../").startswith("reference/"), (page.name, target)


def test_readmes_claim_is_an_experiment_and_its_picture_is_of_the_kept_verdicts(tmp_path):
    readme = (ROOT / "README.md").read_text("utf-8")
    file = tmp_path / "experiments" / "drift.yaml"
    file.parent.mkdir()
    file.write_text(re.search(r"```yaml\n(.*?)```", readme, re.DOTALL)[1], "utf-8")
    plan = build_plan(CONFIG, tmp_path, names=["project-drift"])
    assert [claim.id for claim in plan.experiments["project-drift"].claims] == ["faster"]
    assert sum(len(spec.seeds) for spec in plan.runs.values()) == 16
    assert outcomes.PICTURE.read_text("utf-8") == outcomes.picture(outcomes.counts()), (
        "python -m making.outcomes"
    )


def test_commands_that_pages_name_exist():
    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    known |= {group.name for group in app.registered_groups}
    folders = [ROOT / "docs", ROOT / "docs" / "adding", ROOT / "docs" / "findings"]
    guides = [page for folder in folders for page in folder.glob("*.md")]
    for page in [ROOT / "README.md", *guides]:
        text = page.read_text("utf-8")
        parts = re.findall(r"```sh\n(.*?)```|`([^`\n]+)`", text, re.DOTALL)
        code = "\n".join(block or span for block, span in parts)
        for name in re.findall(r"^fedatlas ([a-z][a-z-]+)", code, re.MULTILINE):
            assert name.replace("-", "_") in known, (page.name, name)


def test_code_of_the_guides_to_adding_fits_its_line():
    guides = [*(ROOT / "docs" / "adding").glob("*.md")]
    guides += [ROOT / "docs" / f"{name}.md" for name in ("adding", "methods", "parties", "data")]
    for page in guides:
        for block in re.findall(r"```\w+\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            assert max(map(len, block.splitlines())) <= 100, (page.name, block)


TABLES = """
.. list-table::
   :header-rows: 1

   * - key
     - value
     - default
     - what it is
   * - rounds
     - whole number
     - required
     - {words}
"""


def stacked(words: str):
    pytest.importorskip("sphinx", reason="sphinx is not installed")
    from making.stacking import Stacking

    page = publish_doctree(TABLES.format(words=words))
    Stacking(page).apply()
    return page.next_node(nodes.table)


def test_rows_of_words_stack_on_phones_and_name_their_columns():
    table = stacked("how often the server and its clients exchange models")
    assert table["classes"] == ["stacks"]
    cells = [cell.astext() for cell in table.next_node(nodes.tbody).findall(nodes.entry)]
    assert cells[:3] == ["rounds", "value: whole number", "default: required"]
    assert cells[3].startswith("what it is: how often")


def test_tables_of_short_cells_stay_as_they_are():
    table = stacked("of all runs")
    assert table["classes"] == []
    assert "value:" not in table.astext()


def test_the_table_of_partitions_has_every_assignment_and_its_examples_are_sound():
    text = (ROOT / "docs" / "partitions.md").read_text(encoding="utf-8")
    clients, parties = (
        set(re.findall(r"^\| `([a-z_]+)`[^|]* \|", part, re.MULTILINE)) - {"assignment"}
        for part in text.split("## Columns of parties")
    )
    assert (clients, parties) == (set(OF_CLIENTS), set(OF_PARTIES))
    for table in (OF_CLIENTS, OF_PARTIES):
        for assignment, keys in table.items():
            (row,) = re.findall(rf"^\| `{assignment}`[^|]*\|", _part(text, table), re.MULTILINE)
            assert set(re.findall(r"`([a-z_]+): ", row)) == {*keys[0], *keys[1]}, assignment
    found = 0
    for example in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL):
        for name, said in yaml.safe_load(example).items():
            if name == "partition":
                validated(Partition, said, "docs/partitions.md")
                found += 1
            elif isinstance(said, dict) and "splits" in said:
                told = dict.fromkeys(("title", "licence", "citation"), "told")
                dataset_of(said | told | {"name": name, "homepage": "https://a.org"}, name)
                found += 1
    assert found == 10


def test_the_page_of_claims_has_a_sound_example_of_every_kind():
    """A block is a list of tests, or a mapping `claims`."""
    text = (ROOT / "docs" / "adding" / "claims.md").read_text(encoding="utf-8")
    shown = []
    for example in map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)):
        tests = [one["test"] for one in example["claims"]] if "claims" in example else example
        for test in tests:
            claim = {"id": "a", "source": "Figure 1", "statement": "a", "test": test}
            shown.append(validated(Claim, claim, "docs/adding/claims.md").test.kind)
    assert set(shown) == set(ClaimTest.classes())


def _part(text: str, table: object) -> str:
    """The half of the page that speaks of clients, or of parties."""
    return text.split("## Columns of parties")[table is OF_PARTIES]


def test_baselines_are_counted_as_their_table_says():
    page = (ROOT / "docs" / "baselines.md").read_text("utf-8")
    rows = [line.split(" | ") for line in page.splitlines() if "[repository]" in line]
    carried, missing = (
        [
            one.strip(" |")
            for row in rows
            for one in row[column].split(", ")
            if one.strip(" |") != "–"
        ]
        for column in (2, 3)
    )
    names = [re.findall(r"`(\w+)`", one) for one in carried]
    assert len(rows) == 20 and all(len(name) == 1 for name in names)
    assert {name[0] for name in names} <= set(algorithm_names())
    total = len(carried) + len(missing)
    assert f"**{len(carried)} of {total}, {len(carried) / total:.0%}**".replace("%", " %") in page
    told = f"each of the {len(set(missing))} occurs in one paper only"
    assert told in " ".join(page.split())
