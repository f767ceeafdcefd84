"""Tables of comparisons as files: what is bold is decided, and numbers are those of the data."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import fedatlas
from atlas_factory import noisy_trace, small_atlas, write_atlas
from fedatlas.errors import FedatlasError
from fedatlas.latex import text as latex
from fedatlas.store.compared import RunName, format_names


def comparison(tmp_path, *, seeds: int = 6, rates=(0.6, 0.8, 0.9), metric="gradient_norm"):
    traces = [noisy_trace(rate, seeds=seeds, seed=place) for place, rate in enumerate(rates)]
    runs = {f"r{place}": (f"Run_{place}", {"only": trace}) for place, trace in enumerate(traces)}
    atlas = write_atlas(tmp_path / "atlas", {"ours": {"one": ({}, runs)}})
    return fedatlas.compare(atlas, metric, ["round", "bytes"], 0.2)


def cells(found, tmp_path) -> list[list[str]]:
    found.save(tmp_path / "t.tex")
    text = (tmp_path / "t.tex").read_text(encoding="utf-8")
    body = text.partition("\\midrule\n")[2].partition("\\bottomrule")[0]
    return [row.removesuffix(r" \\").split(" & ") for row in body.splitlines()]


@pytest.mark.parametrize("ending", ["csv", "parquet", "json"])
def test_other_programs_get_all_numbers(tmp_path, ending):
    found = comparison(tmp_path, rates=(0.6, 0.99))
    file = tmp_path / f"t.{ending}"
    found.save(file)
    expected = found.to_dataframe()
    if ending == "json":
        rows = json.loads(file.read_text(encoding="utf-8"))
        assert [row["centre"] for row in rows[:2]] == pytest.approx(expected["centre"][:2])
        assert [row["centre"] for row in rows[2:]] == [None, None]  # never reached
        return
    read = pd.read_csv(file) if ending == "csv" else pd.read_parquet(file)
    pd.testing.assert_frame_equal(read, expected, check_dtype=False)


def test_a_paper_gets_three_digits_in_thousands_with_intervals(tmp_path):
    found = comparison(tmp_path)
    rows = cells(found, tmp_path)
    text = (tmp_path / "t.tex").read_text(encoding="utf-8")
    assert r"bytes (10\textsuperscript{3})" in text and r"\multicolumn{2}{l}{rounds}" in text
    assert [row[0] for row in rows] == [r"Run\_0", r"Run\_1", r"Run\_2"]
    for place, row in enumerate(rows):
        for cost, column, unit in (("round", 1, 1), ("bytes", 3, 1000)):
            own = found.dataset.sel(cost=cost).isel(run=place)
            number = float(row[column].removeprefix(r"\bfseries "))
            assert number == pytest.approx(float(own["centre"]) / unit, rel=5e-3)
            ends = [float(end) for end in row[column + 1].strip("[]").split(", ")]
            assert np.allclose(ends, [own["low"] / unit, own["high"] / unit], rtol=5e-3)
    whole, decimals = map(int, re.search(r"S\[table-format=(\d)\.(\d)\]", text).groups())
    parts = [row[1].removeprefix(r"\bfseries ").partition(".") for row in rows]
    assert max(len(part[0]) for part in parts) == whole
    assert max(len(part[2]) for part in parts) == decimals


@pytest.mark.parametrize(
    ("seeds", "rates", "bold", "marked"),
    [
        (6, (0.6, 0.8, 0.9), 1, 0),  # every seed spends less
        (6, (0.8, 0.8, 0.95), 0, 2),  # two of a kind
        (3, (0.6, 0.8, 0.9), 1, 0),  # too few for signs, but intervals lie apart
        (2, (0.79, 0.8, 0.81), 0, 3),  # nothing tells two seeds apart
    ],
)
def test_the_best_is_bold_where_it_is_decided_and_others_are_marked(
    tmp_path, seeds, rates, bold, marked
):
    rows = cells(comparison(tmp_path, seeds=seeds, rates=rates), tmp_path)
    assert sum(r"\bfseries" in row[1] for row in rows) == bold
    assert sum(r"\textsuperscript{a}" in row[2] for row in rows) == marked
    text = (tmp_path / "t.tex").read_text(encoding="utf-8")
    assert (r"\textbf{Bold}: best, and told apart" in text) == bool(bold)
    assert ("not told apart from the best" in text) == bool(marked)


def test_what_never_arrives_is_no_number(tmp_path):
    rows = cells(comparison(tmp_path, rates=(0.6, 0.99)), tmp_path)
    assert rows[1][1:] == ["{not within 200}", "", "{not within 300k}", "", "0 of 6"]


def test_a_table_of_runs_made_elsewhere_says_so_below(tmp_path):
    rows = pd.DataFrame({"method": ["50%_a"] * 2, "round": [0, 1], "objective": [1, 0.1]})
    found = fedatlas.compare(fedatlas.import_runs(rows), "objective", "round", 0.5)
    assert cells(found, tmp_path)[0][0] == r"50\%\_a\textsuperscript{f}"
    text = (tmp_path / "t.tex").read_text(encoding="utf-8")
    assert r"\par \textsuperscript{f} made elsewhere: not checked" in text
    assert "mine/" not in text and "read from" not in text
    found.save(tmp_path / "t.csv")
    assert pd.read_csv(tmp_path / "t.csv")["title"].tolist() == ["50%_a (foreign)"]


def test_a_table_counts_the_seeds_that_diverged(tmp_path):
    found = fedatlas.compare(small_atlas(tmp_path / "atlas"), "gradient_norm", "round", 0.1)
    found.save(tmp_path / "t.csv")
    rows = pd.read_csv(tmp_path / "t.csv").set_index(["experiment", "run"])["seeds_diverged"]
    assert rows["fedpage-first", "avg"] == 1 and rows["fedpage-first", "page"] == 0


def test_a_target_that_is_met_at_the_start_costs_nothing(tmp_path):
    one, other = noisy_trace(0.8), noisy_trace(0.9)
    other["gradient_norm"] = 3 * other["gradient_norm"]
    runs = {"a": ("A", {"only": one}), "b": ("B", {"only": other})}
    atlas = write_atlas(tmp_path / "atlas", {"ours": {"one": ({}, runs)}})
    start = float(one["gradient_norm"][:, 0].max())
    found = fedatlas.compare(atlas, "gradient_norm", ["round", "bytes"], 1.01 * start)
    assert [*found.dataset["seeds_at_start"]] == [3, 0]
    assert found.table()["bytes"]["A"] == "at start" != found.table()["bytes"]["B"]
    told = "A: the target is met at the start, which costs nothing: name a harder one"
    assert f"note: {told}" in found.remarks()
    rows = cells(found, tmp_path)
    assert rows[0][1] == "{at start}" and r"\bfseries" not in rows[0][1]
    assert told in (tmp_path / "t.tex").read_text(encoding="utf-8")
    # JSON and others say it by a column.
    assert found.to_dataframe()["seeds_at_start"].tolist() == [3, 3, 0, 0]


def test_rounds_of_parties_that_wait_for_nobody_are_not_beside_others(tmp_path):
    server, parties = noisy_trace(0.6, seeds=6), noisy_trace(0.9, seeds=6)
    parties = parties.assign(update_epoch=parties["round"], iteration=1000 * parties["round"])
    runs = {"a": ("A", {"only": server}), "b": ("B", {"only": parties})}
    atlas = write_atlas(tmp_path / "atlas", {"ours": {"one": ({}, runs)}})
    found = fedatlas.compare(atlas, "gradient_norm", ["round", "exchanges"], 0.2)
    (row, _), told = cells(found, tmp_path), "note: round: each method's own;"
    assert r"\bfseries" not in row[1] and r"\bfseries" in row[3]
    assert any(one.startswith(told) for one in found.remarks())
    alone = fedatlas.compare(atlas, "gradient_norm", "round", 0.2, runs="a")
    assert not any(one.startswith(told) for one in alone.remarks())


def test_names_have_experiments_only_where_titles_are_equal():
    def called(*titles):
        return format_names([RunName(f"e{at}", "r", name) for at, name in enumerate(titles)])

    assert called("A", "B") == ["A", "B"]
    assert called("A", "B", "A") == ["e0: A", "e1: B", "e2: A"]


def test_a_wide_table_spans_columns_and_wraps_long_names(tmp_path):
    comparison(tmp_path, rates=(0.6, 0.8)).save(tmp_path / "t.tex")
    assert r"\begin{table}" in (tmp_path / "t.tex").read_text(encoding="utf-8")
    runs = {"a": ("A method whose name is long enough", {"only": noisy_trace(0.6, seeds=6)})}
    atlas = write_atlas(tmp_path / "long", {"ours": {"one": ({}, runs)}})
    costs = ["round", "bytes", "gradient_evaluations"]
    fedatlas.compare(atlas, "gradient_norm", costs, 0.2).save(tmp_path / "t.tex")
    text = (tmp_path / "t.tex").read_text(encoding="utf-8")
    assert r"\begin{table*}" in text and r"p{9.5em}" in text
    assert r"\caption{Cost to norm of the full gradient $\|$$\nabla$f(x)$\|$ $\le$ 0.2" in text


@pytest.mark.parametrize(
    ("metric", "told"),
    [
        ("subopt", "'subopt' is no measurement; similar: suboptimality"),
        ("tau_1", "'tau_1' has no best value to approach; there are objective"),
    ],
)
def test_a_measurement_that_is_none_is_told_from_one_without_a_best_value(tmp_path, metric, told):
    with pytest.raises(FedatlasError, match=told):
        comparison(tmp_path, metric=metric)


def test_a_file_that_no_writer_takes_is_refused(tmp_path):
    with pytest.raises(FedatlasError, match=r"t\.xls: must end in \.tex, \.csv, \.parquet, \.json"):
        comparison(tmp_path).save(tmp_path / "t.xls")


def test_letters_that_latex_lacks_are_commands():
    shown = r"VFB\textsuperscript{2}, $\|$$\nabla$f(x)$\|$, $\tau$\textsubscript{1}, $\Delta$"
    assert latex("VFB², ‖∇f(x)‖, τ₁, Δ") == shown
    assert latex("≤ 95 %, a_b\n\\x, ∞") == r"$\le$ 95 \%, a\_b /x, $\infty$"
