"""Tables of results and verdicts: what they hold, and that any text survives them."""

import math
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims_page import verdicts_to_html
from fedatlas.evaluation.results_table import results_table
from fedatlas.evaluation.selection import Choice
from fedatlas.evaluation.verdicts import (
    Verdict,
    read_verdicts,
    verdict_summary,
    verdicts_to_csv,
)
from trace_factory import auroc_trace, levels_trace, linear_trace

NAN = np.nan


def a_verdict(verdict: str = "reproduced", text: str = "plain") -> Verdict:
    return Verdict(text, text, text, text, verdict, text)


def accuracies(*ends: float) -> np.ndarray:
    """(seeds, 41) that end at the given values."""
    return np.linspace(0.5, ends, 41).T


# --- results ---


def test_a_row_per_point_with_where_its_seeds_ended_and_what_it_cost():
    traces = {
        "first": {
            "p": levels_trace([0.1, 0.4, 0.2, NAN], step=0.5, cost_scale=[1, 2, 4, 8]),
            "q": levels_trace([0.3, 0.3, 0.3, 0.3], step=0.25),
        },
        "second": {"p": levels_trace([0.1])},
    }
    chosen = {"first": Choice("q", {}), "second": Choice("p", {})}
    rows = results_table(traces, chosen)
    assert [(row["run"], row["point"], row["selected"]) for row in rows] == [
        ("first", "p", False),
        ("first", "q", True),
        ("second", "p", True),
    ]
    row = rows[0]
    assert (row["seeds"], row["diverged_seeds"], row["effective_step_size"]) == (4, 1, 0.5)
    assert row["gradient_norm_median"] == pytest.approx(0.2)
    assert row["gradient_norm_lowest"] == pytest.approx(0.1)
    assert row["gradient_norm_highest"] == pytest.approx(0.4)
    assert row["objective_median"] == pytest.approx(0.04)
    assert row["round_median"] == 200
    assert row["bytes_median"] == pytest.approx(2 * 200 * 1000)
    assert row["algorithm"] == "fedavg"


def test_columns_are_those_that_the_runs_count():
    star = {"star": {"p": levels_trace([0.1, 0.2])}}
    vertical = {
        "vertical": {"p": linear_trace([0.1, 0.1, 0.1], test_accuracy=accuracies(0.8, 0.9, 0.7))}
    }
    (row,) = results_table(star, {"star": Choice("p", {})})
    assert "full_participations_median" in row
    assert not {"suboptimality_median", "simulated_time_median", "test_accuracy_mean"} & row.keys()
    (row,) = results_table(vertical, {"vertical": Choice("p", {})})
    assert "full_participations_median" not in row
    assert (row["update_epoch_median"], row["simulated_time_median"]) == (20, 20)
    assert (row["full_passes_median"], row["read_delay_max_highest"]) == (20, 7)
    assert row["suboptimality_median"] == pytest.approx(0.3e-4)
    assert row["test_accuracy_mean"] == pytest.approx(0.8)
    assert row["test_accuracy_deviation"] == pytest.approx(0.1)
    chosen = {"star": Choice("p", {}), "vertical": Choice("p", {})}
    both = results_table(star | vertical, chosen)
    assert both[0].keys() == both[1].keys() > row.keys()
    assert math.isnan(both[0]["simulated_time_median"])
    assert math.isnan(both[1]["full_participations_median"])


def test_a_table_shows_what_is_there():
    ends = (0.9, 0.96, 0.93)
    trace = auroc_trace([[0.5, 0.8, end] for end in ends])
    (row,) = results_table({"fmgda": {"p": trace}}, {"fmgda": Choice("p", {})})
    assert not any(name.startswith("gradient_norm") for name in row)
    assert row["test_auroc_median"] == row["test_auroc_mean"] == pytest.approx(0.93)
    assert row["test_auroc_deviation"] == pytest.approx(0.03)
    assert (row["test_auroc_lowest"], row["test_auroc_highest"]) == (0.9, 0.96)
    assert row["train_auroc_median"] == pytest.approx(0.965)
    assert row["min_max_objective_median"] == pytest.approx(-0.56)
    assert row["seeds_above_start"] == 0


def test_one_seed_has_no_deviation():
    (row,) = results_table({"v": {"p": linear_trace([0.1])}}, {"v": Choice("p", {})})
    assert row["test_accuracy_mean"] == 0.82
    assert math.isnan(row["test_accuracy_deviation"])


def test_a_row_of_diverged_seeds_has_no_numbers_and_no_failure():
    (row,) = results_table({"run": {"p": levels_trace([NAN, NAN])}}, {"run": Choice("p", {})})
    assert row["diverged_seeds"] == row["seeds"] == 2
    assert math.isnan(row["gradient_norm_median"])
    assert math.isnan(row["bytes_median"])


# --- verdicts as CSV ---


# A lone carriage return is no line's end in any text that people write.
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r")))
def test_any_text_survives_csv(tmp_path_factory: pytest.TempPathFactory, text: str):
    path = tmp_path_factory.getbasetemp() / "claims.csv"
    path.write_bytes(verdicts_to_csv([a_verdict(text=text)]).encode())
    assert read_verdicts(path) == [a_verdict(text=text)]


def test_no_verdict_leaves_the_header(tmp_path: Path):
    path = tmp_path / "claims.csv"
    path.write_text(verdicts_to_csv([]))
    assert path.read_text() == "claim,paper,source,statement,verdict,evidence\n"
    assert read_verdicts(path) == []


@pytest.mark.parametrize(
    "content",
    ["", "claim,paper\n", "claim,paper,source,statement,evidence,verdict\n", "<html></html>\n"],
)
def test_a_file_with_other_columns_is_refused_by_name(tmp_path: Path, content: str):
    path = tmp_path / "other.csv"
    path.write_text(content)
    with pytest.raises(FedatlasError, match=r"other\.csv: expected the columns claim, paper"):
        read_verdicts(path)


@pytest.mark.parametrize("row", ["a,b,c,d", "a,b,c,d,reproduced,e,f"])
def test_a_row_that_is_not_whole_is_refused_by_line(tmp_path: Path, row: str):
    path = tmp_path / "claims.csv"
    path.write_text(verdicts_to_csv([a_verdict()]) + row + "\n")
    with pytest.raises(FedatlasError, match=r"claims\.csv: the row that ends in line 3"):
        read_verdicts(path)


def test_summary_counts_every_kind():
    verdicts = [a_verdict(), a_verdict(), a_verdict("inconclusive")]
    assert verdict_summary(verdicts) == "3 judged: 2 reproduced, 0 not reproduced, 1 inconclusive"
    assert verdict_summary([]).startswith("0 judged")


# --- verdicts as a page ---


class Cells(HTMLParser):
    """The text of table cells, and every tag met."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.classes: list[str | None] = []
        self.tags: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._inside = tag == "td"
        if self._inside:
            self.cells.append("")
            self.classes.append(dict(attributes).get("class"))

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.cells[-1] += data


def parsed(verdicts: list[Verdict]) -> Cells:
    cells = Cells()
    cells.feed(verdicts_to_html(verdicts))
    return cells


def test_the_page_shows_text_and_never_runs_it():
    nasty = "<script>alert('x')</script> & \"η̃ ≤ 0.5\" {summary}"
    page = parsed([a_verdict("not reproduced", nasty)])
    assert "script" not in page.tags
    assert page.cells == [nasty, nasty, nasty, "not reproduced", nasty]
    assert page.classes[3] == "verdict not-reproduced"


def test_a_foreign_verdict_cannot_break_out_of_its_attribute():
    page = parsed([a_verdict('"><script>alert(1)</script>')])
    assert "script" not in page.tags
    assert len(page.cells) == 5


def test_the_page_is_self_contained_and_says_the_counts():
    text = verdicts_to_html([a_verdict(), a_verdict("inconclusive")])
    assert "2 judged: 1 reproduced, 0 not reproduced, 1 inconclusive" in text
    assert "http" not in text
    assert '<meta charset="utf-8">' in text
    assert text.count("<tr>") == 3
