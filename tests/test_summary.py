"""The summary of a results folder: all that was judged, whenever, and where it lies."""

import io
import os
import re
from pathlib import Path

import pytest
from rich.console import Console

from fedatlas.evaluation.summary import print_summary
from fedatlas.evaluation.verdicts import Verdict, verdicts_to_csv

LAST = 1_000_000_000


def write(file: Path, text: str = "", age: int = 0) -> None:
    """Files are written in the order of their ages, the youngest last."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    os.utime(file, (LAST - age, LAST - age))


def verdicts(experiment: str, *found: str) -> list[Verdict]:
    return [
        Verdict(f"{experiment}/claim-{number}", "paper", "source", "statement", verdict, "evidence")
        for number, verdict in enumerate(found)
    ]


def judged(results: Path, experiment: str, *found: str, beside: str = "", age: int = 10) -> None:
    folder = results / "experiments" / experiment
    write(folder / "claims.csv", verdicts_to_csv(verdicts(experiment, *found)), age)
    for name in beside.split():
        write(folder / name, age=age)


def page(results: Path, name: str, *of: str, age: int = 5) -> None:
    rows = [row for experiment in of for row in verdicts(experiment, "reproduced", "inconclusive")]
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
    """Cells of the table's rows, by experiment."""
    rows = [re.split(r" *│ *", line.strip("│ ")) for line in lines if line.startswith("│")]
    assert len({row[0] for row in rows}) == len(rows)
    return {name: cells for name, *cells in rows}


def places(lines: list[str]) -> dict[str, str]:
    start = lines.index("Where to look:")
    return dict(re.split(r" {2,}", line.strip(), maxsplit=1) for line in lines[start + 1 :])


def test_every_judged_experiment_is_counted_once_whatever_was_selected_last(results):
    judged(results, "demo-one", "reproduced", "reproduced", "inconclusive")
    judged(results, "fmgda-fig2", "not reproduced", *["inconclusive"] * 11)
    judged(results, "fmgda-grid")
    page(results, "claims", "demo-one")
    page(results, "claims/fmgda", "fmgda-fig2")
    assert counts(summary(results)) == {
        "demo-one": ["2", "0", "1"],
        "fmgda-fig2": ["0", "1", "11"],
        "fmgda-grid": ["–", "–", "–"],
    }


def test_fresh_verdicts_count_not_those_of_a_page(results):
    judged(results, "demo-one", "not reproduced")
    page(results, "claims", "demo-one", "demo-gone")
    assert counts(summary(results)) == {"demo-one": ["0", "1", "0"]}


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
    holds = "what was run, published numbers beside ours, verdicts, errata"
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


def test_what_all_have_is_said_so_and_patterns_find_it(results):
    for name in ("demo-a", "demo-b"):
        judged(results, name, beside="figure.svg")
    assert places(summary(results)) == {"experiments/*/figure.svg": "all"}
    assert len(list(results.glob("experiments/*/figure.svg"))) == 2


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
        ("report.zip", "report, offline"),
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
        "report.zip": "report, offline  (older than the verdicts)",
    }


def test_a_long_name_is_not_cut(results):
    name = f"demo-{'x' * 60}"
    judged(results, name, "reproduced")
    assert "".join(counts(summary(results))) == name


def test_what_is_not_judged_yet_is_named(results):
    judged(results, "demo-a", "reproduced")
    for name in ("vfb2-x", "fmgda-y"):
        write(results / "experiments" / name / "traces" / "run" / "only.nc")
    assert "Not judged yet: fmgda-y, vfb2-x" in summary(results)


def test_long_lines_are_not_wrapped_and_brackets_are_no_markup(tmp_path):
    results = tmp_path / "[bold]results" / ("x" * 90)
    judged(results, "demo-a", beside="figure.svg")
    assert places(summary(results)) == {"experiments/*/figure.svg": "all"}


def test_an_empty_folder_is_said_to_be_so(results):
    expected = [f"{results}: nothing yet"]
    assert summary(results) == expected
    write(results / "raw" / "file")
    assert summary(results) == expected
