"""Tables of results and verdicts: what they hold, and that any text survives them."""

import math
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.selection import Choice
from fedatlas.evaluation.verdicts import (
    Verdict,
    read_verdicts,
    verdict_summary,
    verdicts_to_csv,
)
from fedatlas.pages.claim_rows import titled
from fedatlas.pages.claims_page import verdicts_to_html
from fedatlas.pages.results_table import results_table
from fedatlas.schema.claims import OUTCOMES, Effect
from trace_factory import auroc_trace, levels_trace, linear_trace
from verdict_factory import effect, every_outcome

NAN = np.nan


def a_verdict(outcome: str = "reproduced", text: str = "plain", case: str = "") -> Verdict:
    texts = dict.fromkeys(
        ("claim", "paper", "source", "statement", "sentence", "question", "evidence"), text
    )
    return Verdict(case=case, outcome=outcome, fragile=text, **texts)


def asked(outcome: str = "reproduced", text: str = "plain", **more: Any) -> Verdict:
    """Of which the page's tables know whose question it is."""
    return replace(a_verdict(outcome, text), question="paper", **more)


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
    assert path.read_text() == (
        "claim,case,paper,source,statement,sentence,question,outcome,evidence,"
        "fragile,cases,horizon,tries,why,"
        "estimate,low,high,smallest,unit,seeds,published,needed,p,repeats,seeds_added,bound\n"
    )
    assert read_verdicts(path) == []


@pytest.mark.parametrize(
    "content",
    [
        "",
        "claim,paper\n",
        "claim,paper,source,statement,verdict,evidence\nx,y,z,s,inconclusive,e\n",  # of old
        "<html></html>\n",
    ],
)
def test_a_file_with_other_columns_is_refused_by_name(tmp_path: Path, content: str):
    path = tmp_path / "other.csv"
    path.write_text(content)
    with pytest.raises(FedatlasError, match=r"other\.csv: expected the columns claim, case, paper"):
        read_verdicts(path)


def test_verdicts_that_were_published_before_seeds_could_be_added_are_read(tmp_path: Path):
    path = tmp_path / "verdicts.csv"
    whole = verdicts_to_csv([a_verdict()]).splitlines()
    path.write_text("".join(line.rsplit(",", 2)[0] + "\n" for line in whole))
    assert read_verdicts(path) == [a_verdict()]


@pytest.mark.parametrize("row", ["a,b,c,d", "reproduced" + "," * 30])
def test_a_row_that_is_not_whole_is_refused_by_line(tmp_path: Path, row: str):
    path = tmp_path / "claims.csv"
    path.write_text(verdicts_to_csv([a_verdict()]) + row + "\n")
    with pytest.raises(FedatlasError, match=r"claims\.csv: the row that ends in line 3"):
        read_verdicts(path)


def test_a_foreign_outcome_is_refused_by_name(tmp_path: Path):
    path = tmp_path / "claims.csv"
    path.write_text(verdicts_to_csv([a_verdict("inconclusive")]))
    with pytest.raises(FedatlasError, match=r"claims\.csv: outcome 'inconclusive': "):
        read_verdicts(path)


numbers = st.floats(allow_nan=False)


@given(
    effect=st.builds(
        Effect,
        estimate=numbers,
        low=numbers,
        high=numbers,
        smallest=numbers,
        unit=st.sampled_from(["decades", "test_auroc"]),
        seeds=st.integers(0, 1000),
        published=st.none() | numbers,
        needed=st.none() | st.integers(1, 200),
        p=st.none() | numbers,
        repeats=st.integers(0, 20),
    ),
)
def test_every_number_of_an_effect_survives_csv(
    tmp_path_factory: pytest.TempPathFactory, effect: Effect
):
    path = tmp_path_factory.getbasetemp() / "claims.csv"
    given = replace(a_verdict(), effect=effect, cases="most")
    path.write_bytes(verdicts_to_csv([given]).encode())
    assert read_verdicts(path) == [given]


def test_summary_counts_claims_and_our_questions_apart():
    verdicts = [asked(), replace(asked(), case="step 1"), asked("undecided"), asked()]
    told = "claims of papers, 3 judged: 2 reproduced, 1 undecided"
    assert verdict_summary(verdicts) == told
    ours = replace(asked("contradicted"), question="ours")
    assert verdict_summary([*verdicts, ours]) == (
        f"{told}; own questions, 1 judged: 1 contradicted"
    )
    assert verdict_summary([]) == "no claim judged"


# --- verdicts as a page ---


class Cells(HTMLParser):
    """The text of table cells, and every tag met."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.classes: list[str | None] = []
        self.tags: list[str] = []
        self._open: list[int] = []  # cells that are open, tables within tables

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "td":
            self._open.append(len(self.cells))
            self.cells.append("")
            self.classes.append(dict(attributes).get("class"))

    def handle_endtag(self, tag: str) -> None:
        if tag == "td":
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open:
            self.cells[self._open[-1]] += data


def parsed(verdicts: list[Verdict]) -> Cells:
    cells = Cells()
    cells.feed(verdicts_to_html(verdicts))
    return cells


def test_evidence_has_titles_in_place_of_keys():
    evidence = "test_f1 by 5 s (t_comm = 1): q1 0.5, q10 0.8; q1-slow and q10 chosen in step_size"
    evidence += "; record_every: 1 would tell"
    titles = {"q1": "Q = 1", "q10": "Q = 10", "q1-slow": "slow"}
    (found,) = titled([asked(claim="a/b", evidence=evidence)], {"a": titles, "c": {"s": "S"}})
    told = (
        "test f1 by 5 s (t_comm = 1): Q = 1: 0.5, Q = 10: 0.8; slow and Q = 10 chosen in step size"
        "; record_every: 1 would tell"
    )
    assert found.evidence == told


def test_the_page_shows_text_and_never_runs_it():
    nasty = "<script>alert('x')</script> & \"η̃ ≤ 0.5\" {summary}"
    drawn = effect(unit=nasty, smallest=0.1)
    whole = asked("contradicted", nasty, effect=drawn)
    page = parsed([whole, replace(whole, case=nasty)])
    assert "script" not in page.tags
    assert page.tags.count("svg") == 2
    row = page.cells[:9]  # of the claim, of all its cases, and of the case
    assert row[0] == f"{nasty}{nasty} · {nasty}"
    assert row[1] == f"✗ contradictedfragile: {nasty}"
    assert row[3] == row[8] == nasty
    assert row[5] == nasty
    assert page.classes[1] == "outcome contradicted"


def test_the_page_tells_every_outcome_its_counts_and_its_corrections():
    page = verdicts_to_html(every_outcome())
    for kind, meaning in OUTCOMES.items():
        assert f"{kind}</dt><dd>{meaning}</dd>" in page
    cells = parsed(every_outcome()).cells
    place = cells.index("fmgda, the paper's claims")
    # Nine claims, by outcome, tested, decided, after Holm, at most, seeds for all.
    assert cells[place + 1 : place + 15] == [*"91111", "2", *"111", *"62168"]
    place = cells.index("fmgda, own questions")
    assert cells[place + 1 : place + 15] == [*"11000", "0", *"000", *"11116"]
    assert "3 cases, of which the worst counts" in page
    assert "about 34 seeds in all would decide" in page
    assert "more than 200 seeds in all would decide" in page
    assert "fragile: no difference at half the budget" in page


def test_the_page_is_self_contained():
    text = verdicts_to_html([asked(), asked("undecided")])
    assert "Claims of papers, 2 judged: 1 reproduced, 1 undecided" in text
    assert "http" not in text
    assert '<meta charset="utf-8">' in text


def test_a_page_without_verdicts_says_so():
    assert "No claim judged." in verdicts_to_html([])
