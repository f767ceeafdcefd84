"""The summary of a results folder: all that was judged, whenever, and where it lies."""

import io
import math
import os
import re
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fedatlas.cli import app
from fedatlas.cli.run import diverged_of
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.evidence import MARKS
from fedatlas.evaluation.verdicts import Verdict, verdicts_to_csv
from fedatlas.pages.terminal import NEEDED, print_claims, print_power, print_summary
from verdict_factory import effect, every_outcome, verdict

LAST = 1_000_000_000


def write(file: Path, text: str = "", age: int = 0) -> None:
    """Files are written in the order of their ages, the youngest last."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    os.utime(file, (LAST - age, LAST - age))


def verdicts(experiment: str, *found: str) -> list[Verdict]:
    return [
        verdict(f"{experiment}/claim-{number}", outcome) for number, outcome in enumerate(found)
    ]


def judged(results: Path, experiment: str, *found: str, beside: str = "", age: int = 10) -> None:
    folder = results / "experiments" / experiment
    write(folder / "claims.csv", verdicts_to_csv(verdicts(experiment, *found)), age)
    for name in beside.split():
        write(folder / name, age=age)


def page(results: Path, name: str, *of: str, age: int = 5) -> None:
    rows = [row for experiment in of for row in verdicts(experiment, "reproduced", "undecided")]
    write(results / f"{name}.csv", verdicts_to_csv(rows), age)
    write(results / f"{name}.html", "<html>", age)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    return folder


def summary(results: Path) -> list[str]:
    stream = io.StringIO()
    print_summary(results, Console(file=stream, width=80))
    text = stream.getvalue()
    assert str(results) not in text.replace(f"{results}/", "").replace(f"{results}: ", "")
    return text.replace(f"{results}/", "").splitlines()


def counts(lines: list[str]) -> dict[str, list[str]]:
    """Cells of the table's rows, by experiment: of the paper's claims, and of our questions."""
    rows: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith("│"):
            name, *cells = (cell.strip() for cell in line.strip("│").split("│"))
            if not name:  # the row before goes on
                name = list(rows)[-1]
                cells = [f"{a} {b}".strip() for a, b in zip(rows[name], cells, strict=True)]
            else:
                assert name not in rows
            rows[name] = cells
    return rows


def places(lines: list[str]) -> dict[str, str]:
    start = lines.index("Where to look:")
    return dict(re.split(r" {2,}", line.strip(), maxsplit=1) for line in lines[start + 1 :])


def told(lines: list[str], start: str) -> str:
    (line,) = [line for line in lines if line.startswith(start)]
    return line


def test_every_judged_experiment_is_counted_once_whatever_was_selected_last(results):
    """By fresh verdicts, not those of a page; others are named."""
    judged(results, "demo-one", "reproduced", "reproduced", "undecided")
    judged(results, "fmgda-fig2", "contradicted", *["undecided"] * 11)
    judged(results, "fmgda-grid")
    page(results, "claims", "demo-one", "demo-gone")
    page(results, "claims/fmgda", "fmgda-fig2")
    for name in ("vfb2-x", "fmgda-y"):
        write(results / "experiments" / name / "traces" / "run" / "only.nc")
    write(results / "experiments" / "imported" / "traces.nc")
    write(results / "experiments" / "dpgt-fig6" / "budgets.nc")
    lines = summary(results)
    assert "Not judged yet: dpgt-fig6, fmgda-y, vfb2-x" in lines
    assert counts(lines) == {
        "demo-one": ["2 reproduced, 1 undecided", "–"],
        "fmgda-fig2": ["1 contradicted, 11 undecided", "–"],
        "fmgda-grid": ["–", "–"],
    }


def test_claims_are_counted_not_cases_and_our_questions_apart(results):
    rows = every_outcome("demo-one")
    write(results / "experiments" / "demo-one" / "claims.csv", verdicts_to_csv(rows))
    lines = summary(results)
    (found,) = counts(lines).values()
    # The claim with three cases counts once.
    assert found == [
        "1 reproduced, 1 smaller than claimed, 1 no difference, 1 contradicted, 2 undecided, "
        "1 not testable, 1 compatible, 1 incompatible",
        "1 reproduced",
    ]
    paper = told(lines, "demo, the paper's claims")
    # Six are tested; by Holm 0.001 · 6 stays below 0.025, and 0.02 · 5 does not.
    assert paper.endswith("after Holm's correction for 6 tests, 1 of 2 decided claims remains.")
    ours = told(lines, "demo, own questions")
    assert ours.endswith("for 1 test, 1 of 1 decided claim remains.")
    # Of the claim with cases its two undecided cases, and another claim.
    assert told(lines, "`fedatlas power`").endswith("decide the 3 undecided verdicts and cases.")


def claims(results: Path, *experiments: str) -> str:
    stream = io.StringIO()
    print_claims(results, experiments, Console(file=stream, width=120))
    return stream.getvalue()


def test_claims_of_an_experiment_stand_with_their_effects_the_worst_first(results):
    rows = every_outcome("demo-one")
    write(results / "experiments" / "demo-one" / "claims.csv", verdicts_to_csv(rows))
    judged(results, "fmgda-fig2", "reproduced")
    text = claims(results, "demo-*")
    assert "fmgda-fig2" not in text
    cells = [line.strip("│").split("│") for line in text.splitlines() if line.startswith("│")]
    outcomes = [cell[1].strip() for cell in cells if cell[1].strip()[:1] in set(MARKS.values())]
    assert [told.split()[1] for told in outcomes] == [
        "contradicted", "incompatible", "undecided", "undecided", "no", "smaller", "reproduced",
        "compatible", "not", "reproduced",
    ]  # fmt: skip
    assert [told for told in outcomes if told.endswith("fragile")]
    assert "0.331 times (0.302 to 0.363)" in " ".join(cell[2].strip() for cell in cells)
    assert text.count("own question: ") == 1


def test_a_claim_that_is_not_testable_says_why_in_short(results):
    why = "below resolution: runs end too early to tell; more rounds may tell"
    found = verdict("demo-one/a", "not testable", effect=effect(), why=why)
    write(results / "experiments" / "demo-one" / "claims.csv", verdicts_to_csv([found]))
    text = " ".join(re.sub("[│\n]", " ", claims(results, "demo-*")).split())
    assert "0.331 times (0.302 to 0.363); below resolution: runs end too early to tell" in text
    assert "more rounds" not in text


def test_many_claims_are_counted(results):
    judged(results, "fmgda-fig2", *["reproduced"] * 41)
    text = claims(results, "fmgda-*")
    assert "41 reproduced" in text and "fedatlas summary --experiments NAME" in text


def test_an_experiment_without_claims_is_said_to_have_none(results):
    judged(results, "demo-one")
    assert claims(results, "demo-one") == (
        f"demo-one: declares no claims; its figures and tables: {results}/experiments/demo-one\n"
    )
    page(results, "claims")
    assert places(summary(results))["claims.html"] == "no verdicts"
    assert power(results).endswith("no claim has been judged yet\n")


def test_a_name_that_nothing_has_is_an_error_that_proposes_another(results):
    judged(results, "project-drift", "reproduced")
    for name, hint in (("drift", "did you mean project-drift?"), ("xyz", "`fedatlas summary ")):
        with pytest.raises(
            FedatlasError, match=f"no experiment '{name}' was judged here; .*"
        ) as it:
            claims(results, name)
        assert hint in str(it.value)


def test_published_verdicts_are_read_wherever_the_command_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = CliRunner().invoke(app, ["summary", "published/fedpage"]).stdout
    assert "fedpage-fig1a" in table and "Not judged yet" not in table
    arguments = ["summary", "published", "--experiments", "fedpage-tuned-a9a"]
    assert "reproduced" in CliRunner().invoke(app, arguments).stdout
    assert "needed" in CliRunner().invoke(app, ["power", "published/fedpage"]).stdout


def test_groups_stand_apart(results):
    for name in ("vfb2-b", "fedpage-b", "fedpage-a", "demo-x"):
        judged(results, name, "reproduced")
    body = [line for line in summary(results) if line[:1] in "│├"]
    assert [line[0] if line[0] == "├" else line.split()[1] for line in body] == [
        "demo-x", "├", "fedpage-a", "fedpage-b", "├", "vfb2-b",
    ]  # fmt: skip


def test_the_summary_page_is_named_and_marked_where_verdicts_are_newer(results):
    judged(results, "demo-one", "reproduced")
    write(results / "summary.md", age=5)
    holds = "what was run, published numbers beside those found here, verdicts, errata"
    assert places(summary(results)) == {"summary.md": holds}
    judged(results, "demo-two", "reproduced", age=1)
    assert places(summary(results)) == {"summary.md": f"{holds}  (older than the verdicts)"}


def test_what_lies_beside_verdicts_is_named_with_whose_it_is(results):
    usual = "figure.svg figure.png table.csv selection.json"
    judged(results, "demo-a", beside=usual)
    judged(results, "demo-b", beside=f"{usual} leaks.csv trees.svg")
    judged(results, "demo-c", beside=f"{usual} trees.svg landscape.svg landscape.json")
    judged(results, "demo-d", beside="budgets.svg budgets.nc conditions.csv graphs.svg")
    assert list(places(summary(results)).items()) == [
        ("experiments/*/figure.svg", "all but demo-d"),
        ("experiments/*/table.csv", "all but demo-d"),
        ("experiments/*/trees.svg", "demo-b, demo-c"),
        ("experiments/*/budgets.svg", "demo-d"),
        ("experiments/*/conditions.csv", "demo-d"),
        ("experiments/*/graphs.svg", "demo-d"),
        ("experiments/*/landscape.svg", "demo-c"),
        ("experiments/*/leaks.csv", "demo-b"),
    ]


def test_pages_are_named_with_what_they_hold(results):
    names = [f"fedpage-fig{number}" for number in range(5)]
    for name in ("demo-a", *names):
        judged(results, name, "reproduced")
    page(results, "claims/fedpage", *names)
    page(results, "claims/demo", "demo-a")
    page(results, "claims", "demo-a", *names[:2])
    write(results / "report.zip")
    found = places(summary(results))
    assert list(found.items()) == [
        ("claims.html", "verdicts of demo-a, fedpage-fig0, fedpage-fig1"),
        ("claims/demo.html", "verdicts of demo-a"),
        ("claims/fedpage.html", "verdicts of 5 experiments"),
        ("report.zip", "figures, tables and claims, to read offline"),
    ]


def test_pages_and_a_report_older_than_their_verdicts_are_marked(results):
    judged(results, "demo-a", "reproduced", age=30)
    judged(results, "demo-b", "reproduced", age=10)
    page(results, "claims", "demo-a", age=20)
    page(results, "claims/demo", "demo-a", "demo-b", age=20)
    write(results / "report.zip", age=20)
    assert places(summary(results)) == {
        "claims.html": "verdicts of demo-a",  # which holds nothing of demo-b
        "claims/demo.html": "verdicts of demo-a, demo-b  (older than the verdicts)",
        "report.zip": "figures, tables and claims, to read offline  (older than the verdicts)",
    }


def table(results: Path, experiment: str, *rows: str) -> None:
    head = "run,point,selected,seeds,diverged_seeds\n"
    write(
        results / "experiments" / experiment / "table.csv", head + "".join(f"{r}\n" for r in rows)
    )


def test_runs_whose_seeds_diverged_at_the_chosen_point_are_named(results):
    for name in ("demo-a", "demo-b"):
        judged(results, name, "undecided")
    table(results, "demo-a", "raiser,large,False,2,2", "raiser,small,True,2,0")
    assert not [line for line in summary(results) if line.startswith("diverged")]
    table(results, "demo-b", "raiser,only,True,2,2", "other,only,True,6,1", "fine,only,True,6,0")
    expected = "diverged: demo-b/raiser, 2 of 2 seeds; demo-b/other, 1 of 6 seeds"
    assert told(summary(results), "diverged") == expected
    table(results, "demo-a", *(f"run-{number},only,True,2,2" for number in range(13)))
    assert told(summary(results), "diverged").endswith("demo-a/run-9, 2 of 2 seeds; and 5 more")


def test_the_end_of_a_run_names_what_diverged_of_its_experiments(results, monkeypatch):
    monkeypatch.chdir(results.parent)
    for name in ("demo-a", "demo-b"):
        table(results, name, "raiser,only,True,2,2")
    assert diverged_of(["demo-b", "other-*"]) == "diverged: demo-b/raiser, 2 of 2 seeds"


def test_a_long_name_is_not_cut(results):
    name = f"demo-{'x' * 60}"
    judged(results, name, "reproduced")
    cells = [line.split("│")[1].strip() for line in summary(results) if line.startswith("│")]
    assert "".join(cells) == name


def test_long_lines_are_not_wrapped_and_brackets_are_no_markup(tmp_path):
    results = tmp_path / "[bold]results" / ("x" * 90)
    for name in ("demo-a", "demo-b"):
        judged(results, name, beside="figure.svg")
    assert places(summary(results)) == {"experiments/*/figure.svg": "all"}
    assert len(list(results.glob("experiments/*/figure.svg"))) == 2


def test_an_empty_folder_is_said_to_be_so(results):
    expected = [f"{results}: has no verdicts yet"]
    assert summary(results) == expected
    write(results / "raw" / "file")
    assert summary(results) == expected


# --- what would decide ----------------------------------------------------------------------------


def power(results: Path, *rows: Verdict) -> str:
    if rows:
        file = results / "experiments" / rows[0].claim.partition("/")[0] / "claims.csv"
        write(file, verdicts_to_csv(rows))
    stream = io.StringIO()
    print_power(results, Console(file=stream, width=120))
    return stream.getvalue()


def test_what_would_decide_stands_by_its_seeds(results):
    known = effect(0.1, -0.1, 0.3, seeds=6, needed=34)
    rows = [
        verdict("demo-one/long", "undecided", effect=known),
        verdict("demo-one/many", "undecided", effect=effect(0.01, -0.1, 0.1, seeds=6)),
        verdict("demo-one/cases", "undecided", effect=known),
        verdict("demo-one/cases", "undecided", "step [1]", effect=known),
        verdict("demo-one/cases", "reproduced", "step [2]", effect=known),
        verdict("demo-one/done", "reproduced", effect=known),
        verdict("demo-one/one-seed", "undecided", effect=effect(0.1, seeds=1)),
        verdict("demo-one/words", "undecided"),
    ]
    text = power(results, *rows)
    assert text.splitlines() == [
        "demo-one/long",
        "    0.794 times (0.501 to 1.26) with 6 seeds; 34 needed",
        "demo-one/cases, step [1]",
        "    0.794 times (0.501 to 1.26) with 6 seeds; 34 needed",
        "demo-one/many",
        "    0.977 times (0.794 to 1.26) with 6 seeds; more than 200 needed",
        "demo-one/one-seed",
        "    0.794 times (0.302 to 0.363) with 1 seed; unknown needed",
        "demo-one/words",
        "    no effect of its own",
        NEEDED,
    ]


@pytest.mark.parametrize(
    ("estimate", "expected"),
    [
        (0.0, "no difference (no interval below 6 seeds) with 2 seeds; 7 needed"),
        (0.1, "0.794 times (no interval below 6 seeds) with 2 seeds; 7 needed"),
        (
            math.inf,
            "with 2 seeds a run has no value: fix that first, as more seeds will not help",
        ),
    ],
)
def test_few_seeds_have_no_interval(results, estimate, expected):
    unbounded = effect(estimate, -math.inf, math.inf, seeds=2, needed=7)
    lines = power(results, verdict("demo-one/few", "undecided", effect=unbounded)).splitlines()
    assert lines[1] == f"    {expected}"


def test_nothing_undecided_is_said_so(results):
    assert power(results).endswith("no claim has been judged yet\n")
    text = power(results, verdict("demo-one/a"), verdict("demo-one/a", "undecided", "case"))
    assert "demo-one/a, case" in text
    assert power(results, verdict("demo-one/a")) == "Nothing is undecided in 1 judged experiment.\n"


def test_what_no_seed_decides_is_said_with_the_reason(results):
    cases = [verdict("demo-one/b", "not testable", case, evidence=case) for case in ("K 2", "K 4")]
    rows = [
        verdict("demo-one/a", "not testable", effect=effect(), why="the budget decides: x; y"),
        verdict("demo-one/b", "not testable", evidence="2 cases: 2 not testable"),
        *cases,
    ]
    assert power(results, *rows).splitlines() == [
        "Nothing is undecided in 1 judged experiment.",
        "No seeds are counted for 2 claims that these runs cannot test:",
        "demo-one/a: not testable",
        "    the budget decides: x; y",
        "demo-one/b: not testable",
        "    K 2",
    ]
