"""The explorer's page: what it holds, and how it behaves in a real browser without a window."""

import json
import re
import shutil
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import gmean

from atlas_factory import noisy_trace, small_atlas, write_atlas, write_claims
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.evidence import in_full
from fedatlas.pages.claims_page import to_svg
from fedatlas.pages.explorer import ColumnStore, round_digits, write_explorer, write_page
from fedatlas.store.atlas import open_atlas
from fedatlas.store.foreign import import_runs
from fedatlas.store.publishing import Publication, publish
from verdict_factory import effect, every_outcome, verdict

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
DESKTOP = {"width": 1440, "height": 900}
FIRST = "show=fedpage-first&y=gradient_norm"
CLAIMS = [
    verdict("vfb2-crosspaper/order", "undecided", effect=effect(0.1, -0.1, 0.2, needed=34)),
    verdict("vfb2-crosspaper/order", "undecided", "step 1"),
    verdict("vfb2-crosspaper/order", "reproduced", "step 2"),
    verdict("fedpage-first/faster"),
    verdict("fedpage-first/slower", "contradicted"),
    verdict("fedpage-again/shown", "contradicted"),
    verdict("vfb2-audit/leaks", question="ours"),
]
READY = "body[data-ready]"  # what is chosen is read and drawn
OPEN_CLAIMS = "document.querySelectorAll('#claims details').forEach(one => (one.open = true))"
OPEN_TREE = "document.querySelectorAll('#tree details').forEach(one => (one.open = true))"
SHOWS = {"fedpage-again": ["fedpage-first/avg"]}
HOSTILE = (
    "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=2> %{x} &lt;b&gt;"
)


@given(st.lists(st.floats(width=32), min_size=1))
def test_six_significant_digits_are_kept(values):
    given = np.array(values, np.float32)
    kept = round_digits(given)
    whole = np.isfinite(given) & (np.abs(given) < 3e38)
    assert np.array_equal(np.isnan(kept), np.isnan(given))
    # Numbers below the smallest normal one have fewer digits to begin with.
    np.testing.assert_allclose(kept[whole], given[whole], rtol=5e-7, atol=1e-44)
    assert np.array_equal(round_digits(kept), kept, equal_nan=True)


def test_whole_numbers_to_two_million_are_exact():
    numbers = np.r_[0:5000, 2_000_000:2_001_000]
    assert np.array_equal(round_digits(numbers), numbers)


@given(st.integers(0, 4), st.integers(1, 5), st.integers(1, 6))
def test_columns_are_found_where_they_were_put(before, seeds, records):
    random = np.random.default_rng(0)
    store = ColumnStore()
    for _ in range(before):
        store.add(random.normal(size=(2, 3)))
    values = random.normal(size=(seeds, records)).astype(np.float32)
    offset, rows = store.add(values)
    planes = np.frombuffer(store.planes(), np.uint8).reshape(4, -1)
    numbers = np.ascontiguousarray(planes[::-1].T).view("<f4").ravel()
    found = numbers[offset : offset + rows * records].reshape(rows, records)
    np.testing.assert_allclose(found, values, rtol=5e-7)


def test_seeds_that_are_alike_are_stored_once():
    store = ColumnStore()
    assert store.add(np.array([[1.0, np.nan], [1.0, np.nan]])) == [0, 1]
    assert store.add(np.array([[1.0, 2.0], [1.0, 3.0]])) == [2, 2]


def test_a_foreign_file_is_refused_by_name(tmp_path):
    xr.Dataset({"a": 1}).to_netcdf(tmp_path / "foreign.nc")
    claims = write_claims(tmp_path / "claims.csv", [])
    with pytest.raises(FedatlasError, match=r"foreign\.nc"):
        write_page(tmp_path / "foreign.nc", [claims], tmp_path / "explorer.html")
    assert not (tmp_path / "explorer.html").exists()


def test_the_configuration_says_whose_runs_an_experiment_shows(tmp_path):
    """Published folders do not say so."""
    runs = {"s1-0.1": ("S1", {"only": noisy_trace(0.5)})}
    held = {"dpgt": {"dpgt-mnist-cpu": ({}, runs)}, "ours": {"crosspaper-a9a": ({}, runs)}}
    atlas = write_atlas(tmp_path / "atlas", held)
    claims = write_claims(tmp_path / "claims.csv", [verdict("dpgt-fig2-mnist-cpu/faster")])
    page = tmp_path / "explorer.html"
    write_explorer(atlas, [claims], page)
    told = re.search(r'id="description">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)
    described = json.loads(told[1])
    shows = described["shows"]
    assert shows["dpgt-fig2-mnist-cpu"] == ["dpgt-mnist-cpu/s1-0.1"]
    assert "tdcd-fig3-fashion-mnist" not in shows  # whose runs are not here
    (across,) = next(one["experiments"] for one in described["papers"] if one["name"] == "ours")
    assert across["network"] == {"latency": 0.02, "bandwidth": 1e7, "gradient": 2.8e-6}
    assert across["targets"]["suboptimality"] == 0.01


# --- in a browser ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no chromium on the path: install it to test the explorer's page")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("explorer")
    atlas = small_atlas(folder / "atlas")
    claims = write_claims(folder / "claims.csv", CLAIMS)
    write_page(atlas, [claims], folder / "explorer.html", SHOWS)
    return folder / "explorer.html"


class Opener:
    """Opens pages that may ask for nothing, and gathers what they ask for or complain about."""

    def __init__(self, browser, written: Path) -> None:
        self.browser, self.written = browser, written
        self.troubles: list[str] = []
        self.opened: dict[Path, Any] = {}

    def __call__(self, address: str = "", file: Path | None = None, fresh: bool = False):
        """A file is opened once, as that takes long; views of it as a link within it does."""
        file = file or self.written
        if fresh or file not in self.opened:
            page = self._open(address, file)
            return page if fresh else self.opened.setdefault(file, page)
        page = self.opened[file]
        page.set_viewport_size(DESKTOP)
        page.emulate_media(color_scheme="light")
        page.fill("#search", "")
        page.evaluate(
            "address => { document.activeElement.blur(); location.hash = address }", address
        )
        # The event of a changed hash comes before the next task.
        page.evaluate("new Promise(done => setTimeout(done, 20))")
        page.wait_for_selector(READY)
        return page

    def _open(self, address: str, file: Path):
        context = self.browser.new_context(
            viewport=DESKTOP, permissions=["clipboard-read", "clipboard-write"]
        )
        context.set_offline(True)
        page = context.new_page()
        page.set_default_timeout(60_000)
        asked = self.troubles.append
        own = ("data:", file.as_uri(), f"{file.with_suffix('').as_uri()}/")
        page.on("request", lambda r: r.url.startswith(own) or asked(r.url))
        page.on("console", lambda message: asked(message.text))
        page.on("pageerror", lambda error: asked(str(error)))
        page.on("dialog", lambda dialog: asked(dialog.message))
        page.goto(f"{file.as_uri()}#{address}")
        page.wait_for_selector(READY)
        return page


@pytest.fixture(scope="module")
def opener(browser, written):
    return Opener(browser, written)


@pytest.fixture
def open_page(opener):
    yield opener
    troubles, opener.troubles = opener.troubles, []
    assert troubles == []


def curves(page) -> list[np.ndarray]:
    """Drawn medians (points, 2), in the order of Plotly's traces."""
    page.wait_for_selector(READY)
    drawn = page.evaluate(
        """() => document.getElementById("figure").data
             .filter(trace => trace.hoverinfo !== "skip")
             .map(trace => [Array.from(trace.x, String), Array.from(trace.y, String)])"""
    )
    found = []
    for x, y in drawn:
        points = np.array([x, y], dtype=float).T
        ends = np.flatnonzero(np.isnan(points[:, 0]))
        found += [part[~np.isnan(part[:, 0])] for part in np.split(points, ends) if len(part) > 1]
    return found


def until(page, condition: str) -> None:
    """Playwright's own waiting evaluates texts within the page, whose policy forbids that."""
    page.evaluate(
        f"async () => {{ while (!({condition})) await new Promise(go => setTimeout(go, 10)); }}"
    )


def legend(page) -> list[str]:
    page.wait_for_selector(READY)
    return page.locator("#legend .name").all_text_contents()


def state(page) -> dict[str, list[str]]:
    return parse_qs(page.url.partition("#")[2], keep_blank_values=True)


def trace_at(written: Path, place: str) -> xr.Dataset:
    atlas = open_atlas(written.with_name("atlas"))
    return atlas.dataset(place).load()


def at_equal_cost(costs: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Points (records, 2) by plain loops: the median seed at the median cost of every record."""
    points = []
    for record in range(costs.shape[1]):
        x = sorted(costs[:, record])[len(costs) // 2]
        x = max(min(x, min(costs[:, -1])), max(costs[:, 0]))
        at_x = [np.interp(x, *seed) for seed in zip(costs, values, strict=True)]
        points.append((x, sorted(at_x)[len(at_x) // 2]))
    return np.array(points)


def test_first_view_is_across_papers(open_page):
    page = open_page()
    assert sorted(legend(page)) == ["FedPAGE", "VFB²-SVRG"]
    assert page.input_value("#measurement") == "suboptimality"
    assert len(curves(page)) == 2
    assert page.locator("#runs input[data-run]:checked").count() == 2


@pytest.mark.parametrize("cost", ["round", "gradient_evaluations", "bytes"])
def test_curves_are_medians_at_equal_cost(open_page, written, cost):
    page = open_page(f"{FIRST}&x={cost}&points=all&xs=linear")
    trace = trace_at(written, "/fedpage/fedpage-first/page/step_size-0.3")
    counted = trace.bytes_up + trace.bytes_down if cost == "bytes" else trace[cost]
    expected = at_equal_cost(counted.to_numpy(), trace.gradient_norm.to_numpy())
    np.testing.assert_allclose(curves(page)[1], expected, rtol=3e-6)


def test_the_page_says_what_is_not_checked_and_what_rounds_are(open_page, tmp_path):
    rows = pd.DataFrame({"method": "mine", "round": [0, 1, 2], "objective": [1, 0.5, 0.2]})
    import_runs(rows, tmp_path, experiment="mine", problem="theirs")
    write_page(tmp_path, [], tmp_path / "mine.html")
    page = open_page("show=mine&x=round", tmp_path / "mine.html")
    not_checked = "That runs made elsewhere solve the problem of theirs was declared, not checked."
    assert not_checked in page.text_content("#message")
    figure = "document.getElementById('figure').layout.xaxis.title.text"
    option = "#cost option[value=round]"
    assert page.evaluate(figure) == page.text_content(option) == "communication rounds"
    page = open_page("show=vfb2-crosspaper&x=round")
    assert page.evaluate(figure).startswith("communication rounds (of VFB²: dominated")
    assert page.text_content(option) == "communication rounds (of VFB²: dominated updates)"
    assert "not checked" not in page.text_content("#message")
    assert open_page(f"{FIRST}&x=round").evaluate(figure) == "communication rounds"


def test_diverged_seeds_are_left_out_of_medians_and_named(open_page, written):
    page = open_page(f"{FIRST}&x=epoch&xs=linear")
    trace = trace_at(written, "/fedpage/fedpage-first/avg/only").isel(seed=[0, 2])
    drawn = curves(page)[1]
    low, high = np.sort(trace.gradient_norm.to_numpy()[:, 0])
    assert drawn[0, 1] == pytest.approx((low + high) / 2, rel=1e-5)
    assert drawn[-1, 0] == pytest.approx(trace.epoch.to_numpy()[:, -1].min(), rel=1e-6)
    assert "1 of 3 seeds diverged" in legend(page)[0]


def test_ranges_reach_from_the_lowest_to_the_highest_seed(open_page, written):
    page = open_page(f"{FIRST}&x=round&xs=linear")
    bands = "document.getElementById('figure').data.filter(trace => trace.fill === 'toself')"
    values = np.array(page.evaluate(f"{bands}[0].y"))
    trace = trace_at(written, "/fedpage/fedpage-first/page/step_size-0.1").gradient_norm.to_numpy()
    np.testing.assert_allclose(values, [*trace.max(axis=0), *trace.min(axis=0)[::-1]], rtol=1e-6)
    page.evaluate("look.open = true")
    page.select_option("#band", "none")
    assert page.evaluate(f"{bands}.length") == 0


def test_intervals_are_bands_by_choice(open_page, written):
    page = open_page(f"{FIRST}&x=round&xs=linear&band=interval")
    values = trace_at(written, "/fedpage/fedpage-first/page/step_size-0.1").gradient_norm.to_numpy()
    mean, error = np.log10(values).mean(axis=0), np.log10(values).std(axis=0, ddof=1) / 3**0.5
    half = stats.t.ppf(0.975, 2) * error
    np.testing.assert_allclose(curves(page)[0][:, 1], 10**mean, rtol=3e-6)
    band = page.evaluate("document.getElementById('figure').data.find(t => t.fill === 'toself').y")
    expected = [*(mean + half), *(mean - half)[::-1]]
    np.testing.assert_allclose(np.log10(band), expected, atol=1e-5)
    assert "geometric means and their 95 % t-intervals" in page.inner_text("#message")
    # A linear measurement has the usual mean.
    page.select_option("#measurement", "objective")
    np.testing.assert_allclose(curves(page)[0][:, 1], (values**2).mean(axis=0), rtol=3e-6)


def downloaded(page) -> pd.DataFrame:
    page.wait_for_selector(READY)
    with page.expect_download() as download:
        page.click("#save-numbers")
    return pd.read_csv(download.value.path())


def python_finds(page, written: Path, monkeypatch) -> pd.DataFrame:
    """What the page's own line gives where the atlas lies."""
    first, line = page.inner_text("#python").splitlines()
    monkeypatch.chdir(written.parent)
    names: dict[str, Any] = {}
    exec(first, names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of clocks with another latency
        return eval(line, names)


@pytest.mark.parametrize(
    "view",
    [
        f"{FIRST}&x=bytes",
        f"{FIRST}&x=epoch&points=all&target=0.05",
        "show=vfb2-crosspaper&y=suboptimality&x=round&target=0.001",
        "show=vfb2-crosspaper&y=suboptimality&x=network&latency=2e-6&target=1e-3",
        "show=vfb2-crosspaper&y=suboptimality&x=network&target=1e-3",
        "show=fedpage-first/auc&y=test_auroc&x=round&target=0.8",
        "show=vfb2-crosspaper&y=test_accuracy&x=bytes&target=0.7",
    ],
)
def test_the_table_s_numbers_are_those_of_its_line_of_python(open_page, written, monkeypatch, view):
    page = open_page(view)
    table = downloaded(page).set_index(["experiment", "run", "point"]).sort_index()
    found = python_finds(page, written, monkeypatch)
    found = found.set_index(["experiment", "run", "point"]).sort_index().loc[table.index]
    assert len(table) == page.locator("#numbers-table tbody tr").count() > 0
    for name in (
        "seeds",
        "seeds_reached",
        "centre",
        "low",
        "high",
        "final",
        "final_low",
        "final_high",
        "final_median",
        "final_lowest",
        "final_highest",
        "final_floor",
        "seeds_at_floor",
    ):
        mine, theirs = (frame[name].to_numpy(float) for frame in (table, found))
        if name == "seeds_reached":  # of a clock with another latency the page asks no target
            theirs = np.where(np.isnan(mine), np.nan, theirs)
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, err_msg=name)
    assert set(found["cost"]) == set(table["cost"])


def test_published_folders_are_shown_together(open_page, tmp_path, monkeypatch):
    """Their traces, verdicts and thinning, and numbers that Python reads off the same tables."""
    atlas, snapshots = small_atlas(tmp_path / "atlas"), tmp_path / "published"
    for experiment in ("fedpage-first", "vfb2-crosspaper"):
        judged = tmp_path / "experiments" / experiment
        judged.mkdir(parents=True)
        own = [one for one in CLAIMS if one.claim.startswith(experiment)]
        write_claims(judged / "claims.csv", own)
        options = Publication({}, records=10, experiments=[experiment])
        opened = open_atlas(atlas)
        publish(opened, judged.parent, snapshots / experiment, options)
    written = tmp_path / "explorer.html"
    write_page(snapshots, sorted(snapshots.glob("*/verdicts.csv")), written)
    page = open_page(file=written)
    assert page.inner_text("#holds") == "5 runs of 2 experiments, 3 claims"
    headings = page.locator("#claims-frame h3").all_text_contents()
    assert headings == ["fedpage-first", "vfb2-crosspaper"]
    assert "each keeps at most 10 records" in page.inner_text("#numbers-about")
    assert max(len(curve) for curve in curves(page)) <= 10
    assert "some 10 % off those of whole traces" in page.inner_text("#numbers-about")
    row = downloaded(page).set_index("run").loc["page"]
    found = python_finds(page, written, monkeypatch).set_index("run").loc["page"]
    for name in ("centre", "low", "high", "final"):
        assert row[name] == pytest.approx(found[name], rel=2e-5)
    assert "whole traces" not in open_page().inner_text("#numbers-about")


def rows_of(page) -> list[list[str]]:
    page.wait_for_selector(READY)
    rows = page.locator("#numbers-table tbody tr").all()
    return [
        [row.locator(".name").inner_text(), *row.locator("td").all_inner_texts()] for row in rows
    ]


@pytest.mark.parametrize(
    ("band", "name", "mean"),
    [("range", "median", np.median), ("interval", "geometric mean", gmean)],
)
def test_the_legend_tells_where_runs_end_and_by_which_statistic(
    open_page, written, band, name, mean
):
    page = open_page(f"show=fedpage-first/avg&y=gradient_norm&x=round&band={band}")
    trace = trace_at(written, "/fedpage/fedpage-first/avg/only").isel(seed=[0, 2])
    expected = mean(trace.gradient_norm.to_numpy()[:, -1])
    ((_, final, *_),) = rows_of(page)
    assert float(final.split()[0]) == pytest.approx(expected, rel=5e-3)
    assert page.locator("#numbers-table thead th").nth(1).inner_text() == f"final {name} ↕"
    assert f"Final: {name} and" in page.inner_text("#numbers-about")


def test_the_legend_is_sorted_and_filtered_and_hides_curves(open_page):
    page = open_page(f"{FIRST}&x=round&target=0.1")
    page_row, avg_row = "FedPAGE, step size 0.1", "FedAvg (1 of 3 seeds diverged)"
    shown = rows_of(page)
    assert [row[0] for row in shown] == [avg_row, page_row]  # by cost
    assert [row[3] for row in shown] == ["2 of 3", "3 of 3"]
    assert re.search(r"> \d+\)$", shown[0][2])  # one of its seeds diverged
    assert page.inner_text("#answer") == (
        f"Least communication rounds to norm of the full gradient ‖∇f(x)‖ ≤ 0.1: {page_row} at "
        f"{shown[1][2].split()[0]}. 1 of 2 do not arrive with all seeds."
    )
    head = page.locator("#numbers-table thead th").nth(2)
    assert head.inner_text() == "cost to ≤ 0.1 ▲"
    assert head.get_attribute("aria-sort") == "ascending"
    # Numbers of hidden curves are not told, wherever the order would put them.
    page.locator("#legend button").first.click()
    assert [row[:2] for row in rows_of(page)] == [[page_row, shown[1][1]], [avg_row, ""]]
    assert list(downloaded(page)["run"]) == ["page"]
    assert "fedpage-first/avg" not in page.inner_text("#python")
    page.locator("#legend button").nth(1).click()
    assert [row[0] for row in rows_of(page)] == [avg_row, page_row]
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "descending" and state(page)["sort"] == ["-cost"]
    page.fill("#numbers-filter", "avg")
    assert [row[0] for row in rows_of(page)] == [avg_row]
    assert "1 of 2 rows" in page.inner_text("#numbers-about")
    assert "fedpage-first/page" not in page.inner_text("#python")
    page.fill("#numbers-filter", "")
    page.locator("#legend button").nth(1).click()
    page.fill("#target", "-1")
    page.locator("#target").blur()
    assert page.get_attribute("#target", "aria-invalid") == "true"
    assert "above 0" in page.inner_text("#answer")
    page.fill("#target", "1e-9")
    page.locator("#target").blur()
    assert rows_of(page)[0][2:] == ["not within 200", "0 of 3"]
    assert page.inner_text("#answer").startswith("No run arrives at")
    page.click("#copy-python")
    assert page.evaluate("navigator.clipboard.readText()") == page.text_content("#python")


def test_a_map_of_networks_is_drawn_as_one(open_page, tmp_path):
    """What the first run of a pair spends over what the second does, cell by cell."""
    runs, pairs = {}, {}
    for latency, (fast, slow) in {1e-6: (0.5, 0.9), 1e-3: (0.8, 0.8)}.items():
        for name, rate in (("a", fast), ("b", slow)):
            trace = noisy_trace(rate, seeds=1, records=200, seed=1)
            spec = json.loads(trace.attrs["specification"])
            spec |= {
                "network": {"latency": latency},
                "partition": {"kind": "vertical", "parties": 4, "active": 2},
            }
            trace.attrs["specification"] = json.dumps(spec)
            runs[f"{name}-{latency:g}"] = (f"Method {name}", {"only": trace})
        pairs[f"a-{latency:g}"] = f"b-{latency:g}"
    atlas = write_atlas(tmp_path / "atlas", {"vfb2": {"vfb2-map": ({}, runs)}})
    declared = SimpleNamespace(figure=SimpleNamespace(pairs=pairs), claims=())
    write_page(atlas, [], tmp_path / "explorer.html", experiments={"vfb2-map": declared})
    view = "show=vfb2-map&y=gradient_norm&x=round&target=0.01"
    page = open_page(view, file=tmp_path / "explorer.html")
    assert page.evaluate("figure.data[0].type") == "heatmap"
    spent = [float(row[2].split()[0].replace("k", "e3")) for row in rows_of(page)]
    (ratios,) = page.evaluate("figure.data[0].text")
    assert float(ratios[1]) == 1 and float(ratios[0]) == pytest.approx(
        spent[0] / spent[-1], rel=0.1
    )
    assert page.inner_text("#answer").endswith(
        "less on 1 of 2 networks. Choose fewer runs to see their curves."
    )
    page = open_page(
        view.replace("vfb2-map&", "vfb2-map/a-0.001&"), file=tmp_path / "explorer.html"
    )
    assert len(curves(page)) == 1


def test_a_method_keeps_its_colour(open_page):
    colour = "getComputedStyle(document.querySelector(`#legend [data-key^='${key}'] line`)).stroke"
    seen = {
        open_page(view).evaluate(f"key => {colour}", key)
        for view, key in (
            ("show=vfb2-crosspaper/page", "vfb2-crosspaper/page"),
            ("show=vfb2-crosspaper&y=suboptimality", "vfb2-crosspaper/page"),
            ("show=fedpage-first&y=gradient_norm", "fedpage-first/page"),
        )
    }
    assert len(seen) == 1


@pytest.mark.parametrize(("cost", "unit"), [("bytes", "[kM]B"), ("simulated_time", "[mµ]?s")])
def test_costs_have_units_of_a_readable_size(open_page, cost, unit):
    page = open_page(f"show=vfb2-crosspaper/svrg&y=suboptimality&x={cost}&target=0.01")
    (row,) = rows_of(page)
    assert re.fullmatch(rf"(not within )?[0-9.]+ {unit}( \(.*\))?", row[2])


def test_a_measurement_without_a_best_value_has_no_target(open_page):
    page = open_page("show=vfb2-crosspaper/svrg&y=tau_1&x=round")
    page.wait_for_selector(READY)
    assert page.is_disabled("#target") and page.is_disabled("#copy-python")
    assert rows_of(page)[0][1:] == ["7", "–", "2"] and page.inner_text("#answer") == ""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_wrong(open_page, scheme):
    """Names, roles, headings, contrast, and all else that axe-core tests of WCAG 2 A and AA."""
    axe = pytest.importorskip("axe_playwright_python.base").AXE_SCRIPT
    page = open_page("show=fedpage-first&show=vfb2-crosspaper&x=network&y=gradient_norm&sort=cost")
    page.emulate_media(color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(one => (one.open = true))")
    until(page, "document.querySelectorAll('#claims .cases ul').length > 0")
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    told = [
        (one["id"], [node["html"][:120] for node in one["nodes"]]) for one in found["violations"]
    ]
    assert told == []
    assert len(found["passes"]) > 20


def test_time_under_a_declared_network_is_as_the_formula_says(open_page, written):
    page = open_page("show=vfb2-crosspaper&y=suboptimality&x=network&xs=linear")
    own, star = (trace_at(written, f"/vfb2/vfb2-crosspaper/{run}/only") for run in ("svrg", "page"))
    before = curves(page)
    for name, value in {"latency": "0.25", "bandwidth": "2000", "gradient": "0.003"}.items():
        page.fill(f"#{name}", value)
        page.keyboard.press("Tab")
    after = curves(page)
    times = 0.25 * star.sequential_messages + star.sequential_bytes / 2000
    times = (times + 0.003 * star.sequential_gradients).to_numpy()
    expected = at_equal_cost(times, star.suboptimality.to_numpy())
    np.testing.assert_allclose(after[1], expected, rtol=3e-6)
    assert not np.allclose(before[1][:, 0], after[1][:, 0])
    np.testing.assert_allclose(after[0][:, 0], own.simulated_time.to_numpy()[0], rtol=1e-6)
    np.testing.assert_array_equal(before[0], after[0])
    assert legend(page) == ["FedPAGE", "VFB²-SVRG (own clock, latency 2e-6 s)"]
    assert "With 2 µs they do not compare" in page.inner_text("#message")
    # What cannot be a bandwidth is said to be none, and nothing is redrawn.
    page.fill("#bandwidth", "0")
    page.keyboard.press("Tab")
    assert "bandwidth must be a number above 0" in page.inner_text("#answer")
    assert page.get_attribute("#bandwidth", "aria-invalid") == "true"
    np.testing.assert_array_equal(curves(page)[1], after[1])


def test_one_number_s_typing_is_one_step_back(open_page):
    page = open_page("show=vfb2-crosspaper&y=suboptimality&x=network")
    page.focus("#latency")
    page.keyboard.press("Control+a")
    page.keyboard.type("0.125")
    page.keyboard.press("Tab")
    assert state(page)["latency"] == ["0.125"]
    page.go_back()
    assert state(page).get("latency") != ["0.125"]


def test_axes_and_scales_change(open_page):
    page = open_page("show=fedpage-first&y=gradient_norm&x=round")
    kinds = "[figure.layout.xaxis.type, figure.layout.yaxis.type]"
    assert page.evaluate(kinds) == ["linear", "log"]
    page.evaluate("look.open = true")
    page.select_option("#y-scale", "linear")
    page.select_option("#x-scale", "log")
    assert page.evaluate(kinds) == ["log", "linear"]
    page.select_option("#cost", "epoch")
    assert page.evaluate("figure.layout.xaxis.title.text") == "gradient evaluations per sample"
    page.select_option("#measurement", "train_accuracy")
    assert page.locator("#figure .main-svg[role=img]").get_attribute("aria-label") == (
        "accuracy on the training samples against gradient evaluations per sample: "
        "2 curves of fedpage-first. The table below has their numbers."
    )
    for curve in curves(page):
        assert np.isnan(curve[0, 1])  # no cost has no place on a logarithmic axis
        np.testing.assert_allclose(curve[1:, 1], 0.9, rtol=1e-6)


def test_what_cannot_be_drawn_is_listed_with_the_reason(open_page):
    page = open_page("show=fedpage-first&show=fedpage-gone&y=gradient_norm&x=epoch")
    assert page.locator("#left-out-list li").all_text_contents() == [
        "CODA · fedpage-first: does not measure the norm of the full gradient ‖∇f(x)‖",
        "FedAvg · fedpage-gone: every seed of 2 diverged",
    ]
    page.select_option("#cost", "simulated_time")
    assert len(curves(page)) == 0
    assert "does not count simulated time" in page.inner_text("#left-out-list")
    assert page.is_visible("#empty")


def test_all_grid_points_are_an_option(open_page):
    page = open_page(f"{FIRST}&x=round")
    assert legend(page)[1] == "FedPAGE, step size 0.1"
    page.check("#all-points")
    assert {*legend(page)} >= {"FedPAGE, step size 0.1", "FedPAGE, step size 0.3"}
    assert len(curves(page)) == 3


def test_an_entry_of_the_legend_hides_its_curve(open_page):
    page = open_page(f"{FIRST}&x=round")
    entry = page.locator("#legend button", has_text="FedAvg")
    entry.click()
    assert entry.get_attribute("aria-pressed") == "false"
    assert len(curves(page)) == 1
    assert state(page)["off"] == ["fedpage-first/avg/only"]
    page.go_back()
    assert len(curves(page)) == 2
    page.go_forward()
    assert len(curves(page)) == 1


def test_the_legend_tells_what_runs_ran_with(open_page):
    page = open_page(f"{FIRST}&x=round")
    page.wait_for_selector(READY)
    assert page.locator("#legend .settings").first.inner_text().startswith("step size 0.1")


def test_what_is_not_resolved_is_told_as_a_bound(open_page, tmp_path, monkeypatch):
    """f* is known to 1e-10: what lies below it is no measurement, neither here nor in Python."""
    ends = {"deep": [2e-13, 4e-12, 3e-11], "mixed": [2e-13, 3e-10, 5e-9], "far": [1e-3, 2e-3, 4e-3]}
    runs = {}
    for name, own in ends.items():
        falls = np.array([np.geomspace(0.1, end, 21) for end in own])
        runs[name] = (name, {"only": noisy_trace(0.8, suboptimality=falls)})
    write_atlas(tmp_path / "atlas", {"ours": {"ours-floor": ({}, runs)}})
    written = tmp_path / "explorer.html"
    write_page(tmp_path / "atlas", [], written)
    page = open_page("y=suboptimality&x=round", file=written)
    page.click("#numbers-table [data-sort=final]")
    assert [row[1] for row in rows_of(page)] == [
        "≤ 1.00e-10",
        "3.00e-10 (≤ 1.00e-10 to 5.00e-9)",
        "0.002 (0.001 to 0.004)",
    ]
    assert "≤ 1e-10 is there or below" in page.inner_text("#message")
    table = downloaded(page).set_index("run")
    found = python_finds(page, written, monkeypatch).set_index("run").loc[table.index]
    for numbers in (table, found):
        np.testing.assert_allclose(numbers["final_floor"], 1e-10)
        assert numbers["seeds_at_floor"].tolist() == [3, 1, 0]
        np.testing.assert_allclose(numbers["final_lowest"], [1e-10, 1e-10, 1e-3], rtol=1e-5)
    page.evaluate("look.open = true")
    page.select_option("#band", "interval")
    deep, mixed, far = (row[1] for row in rows_of(page))
    assert deep == "≤ 1.00e-10"
    assert mixed.startswith("≤ 5.31e-10 (≤ ") and "≤" not in far
    for name in ("deep", "mixed"):
        page.locator("#legend button", has_text=name).click()
    page.wait_for_selector(READY)
    assert "1e-10" not in page.inner_text("#message")
    page.select_option("#measurement", "gradient_norm")
    assert downloaded(page)["final_floor"].isna().all()


def test_an_address_restores_the_view(open_page):
    page = open_page()
    page.click("[data-only=fedpage-first]")
    page.evaluate(OPEN_TREE)
    page.uncheck("[data-run='fedpage-first/auc']")
    page.check("#all-points")
    page.select_option("#cost", "network")
    page.fill("#bandwidth", "12345")
    page.keyboard.press("Tab")
    page.evaluate("look.open = true")
    page.select_option("#x-scale", "log")
    page.locator("#legend button").first.click()
    page.select_option("#outcome", "contradicted")
    copy = open_page(page.url.partition("#")[2], fresh=True)
    assert state(copy) == state(page)
    assert legend(copy) == legend(page)
    assert copy.input_value("#bandwidth") == "12345"
    assert copy.inner_text("#claims-count") == page.inner_text("#claims-count")
    for mine, other in zip(curves(copy), curves(page), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_an_address_of_another_page_is_told(open_page):
    page = open_page("show=nowhere&show=fedpage-first&y=happiness&x=round&latency=-1")
    message = page.inner_text("#message")
    for name in ("nowhere", "happiness", "latency -1"):
        assert name in message
    # Of what it does not say, what most of the runs have is shown.
    assert page.input_value("#measurement") == "objective"
    assert len(curves(page)) == 3


def test_the_link_is_copied(open_page):
    page = open_page(f"{FIRST}&x=round")
    page.click("#copy-link")
    until(page, "document.getElementById('answer').textContent === 'Link copied.'")
    assert "show=fedpage-first" in page.evaluate("navigator.clipboard.readText()")


def test_runs_are_searched_and_chosen(open_page):
    page = open_page()
    page.fill("#search", "coda")
    assert page.inner_text("#search-result") == "1 run found"
    assert page.locator("#tree input[data-run]:visible").count() == 1
    page.check("[data-run='fedpage-first/auc']")
    assert len(legend(page)) == 2
    assert "CODA" in page.inner_text("#left-out-list")  # it has no sub-optimality
    page.fill("#search", "")
    page.click("#choose-none")
    assert page.inner_text("#empty") == "Nothing is chosen: tick an experiment or a run."
    page.check("[data-experiment=fedpage-first]")
    # Nothing chosen before had it: what most runs measure is shown.
    assert page.input_value("#measurement") == "objective"
    assert page.is_checked("[data-experiment=fedpage-first]")
    assert page.evaluate("document.querySelector('[data-paper=fedpage]').indeterminate")


def test_claims_are_filtered_and_lead_to_curves(open_page):
    page = open_page()
    headings = page.locator("#claims-frame h3")
    page.evaluate(OPEN_CLAIMS)
    assert headings.all_text_contents() == [
        "fedpage-again",
        "fedpage-first",
        "vfb2-audit (no curves in this page)",
        "vfb2-crosspaper",
    ]
    page.select_option("#outcome", "contradicted")
    assert page.locator("#claims .outcome").count() == 2
    page.select_option("#outcome", "")
    page.select_option("#paper", "vfb2")
    assert headings.count() == 2
    page.check("#shown-only")
    assert headings.all_text_contents() == ["vfb2-crosspaper"]
    assert page.inner_text("#claims-count") == (
        "1 of 4 claims of papers: 1 undecided; 0 of 1 own questions: none"
    )
    page.uncheck("#shown-only")
    page.select_option("#paper", "")
    assert page.locator("#claims-frame button", has_text="leaks").count() == 0
    page.select_option("#question", "ours")
    assert headings.all_text_contents() == ["vfb2-audit (no curves in this page)"]
    page.select_option("#question", "")
    page.click("#unfold-claims")
    page.get_by_role("button", name="says fedpage-first/faster").click()
    assert state(page)["show"] == ["fedpage-first"]
    page.get_by_role("button", name="says fedpage-again/shown").click()
    assert state(page)["show"] == ["fedpage-first/avg"]


@pytest.mark.parametrize("width", [1280, 390])
def test_a_claim_leads_to_the_head_of_the_figure(open_page, width):
    page = open_page("show=fedpage-first")
    page.set_viewport_size({"width": width, "height": 500})
    page.get_by_role("button", name="says fedpage-first/faster").click()
    heading = page.locator("#figure-heading")
    assert 0 <= heading.bounding_box()["y"] < 50
    assert heading.evaluate("heading => heading === document.activeElement")


def open_claims(page) -> list[str]:
    return page.locator("#claims-frame .experiment[open] h3").all_text_contents()


def test_claims_of_what_is_shown_are_unfolded(open_page):
    page = open_page(fresh=True)
    assert open_claims(page) == ["vfb2-crosspaper"]
    page.click("[data-only=fedpage-first]")
    assert open_claims(page) == ["fedpage-again", "fedpage-first", "vfb2-crosspaper"]
    page.locator("#claims-frame summary", has_text="vfb2-crosspaper").click()
    page.select_option("#outcome", "contradicted")
    page.select_option("#outcome", "")
    assert open_claims(page) == ["fedpage-again", "fedpage-first"]  # as the reader left them
    page.click("#fold-claims")
    assert open_claims(page) == []
    page.click("#unfold-claims")
    assert len(open_claims(page)) == 4


@pytest.mark.parametrize(
    ("name", "shown", "drawn"),
    [
        ("fedpage-first", ["fedpage-first"], 2),
        ("fedpage-again", ["fedpage-first/avg"], 1),
        ("vfb2-audit", [""], 0),
    ],
)
def test_a_link_opens_an_experiment_with_its_claims(open_page, name, shown, drawn):
    page = open_page(f"experiment={name}", fresh=True)
    assert page.input_value("#experiment") == name
    assert [heading.split()[0] for heading in open_claims(page)] == [name]
    assert page.locator("#claims-frame h3").count() == 1
    page.select_option("#measurement", "gradient_norm")
    assert len(curves(page)) == drawn
    assert state(page)["show"] == shown and state(page)["experiment"] == [name]
    if not drawn:
        assert page.inner_text("#empty") == f"This page has no curves of {name}."
    # Claims follow the choice of another experiment.
    page.click("[data-only=vfb2-crosspaper]")
    assert open_claims(page) == ["vfb2-crosspaper"]
    page.select_option("#experiment", "")
    assert page.locator("#claims-frame h3").count() == 4


def test_a_link_to_an_experiment_of_another_page_is_told(open_page):
    page = open_page("experiment=nowhere")
    assert "does not hold nowhere" in page.inner_text("#message")
    assert len(curves(page)) == 2  # the first view


def test_evidence_has_titles_and_words(open_page, tmp_path):
    claims = [verdict("fedpage-first/step", evidence="gradient_norm by t_comm: page 0.5, avg 1")]
    write_page(
        small_atlas(tmp_path / "atlas"),
        [write_claims(tmp_path / "claims.csv", claims)],
        tmp_path / "explorer.html",
    )
    page = open_page(file=tmp_path / "explorer.html")
    told = page.text_content("#claims-frame .evidence")
    assert told == "gradient norm by t_comm: FedPAGE 0.5, FedAvg 1"


def test_experiments_of_no_paper_are_across_papers(open_page, many):
    assert open_page(file=many).locator("#tree .paper").inner_text() == "own experiments"


def test_cases_fold_out_below_their_claim(open_page):
    page = open_page()
    page.select_option("#paper", "vfb2")
    cases = page.locator("#claims .cases")
    assert cases.locator("summary").inner_text() == "2 cases"
    assert cases.locator("ul").count() == 0
    cases.locator("summary").click()
    cases.locator("ul").wait_for()
    assert cases.locator(".case").all_inner_texts() == ["step 1", "step 2"]
    assert cases.locator(".outcome").all_inner_texts() == ["? undecided", "✓ reproduced"]
    (claim,) = page.locator("[data-of=vfb2-crosspaper] > ul > li > .outcome").all_inner_texts()
    assert " ".join(claim.split()) == "? undecided about 34 seeds in all would decide"


PARTS = """svg => [...svg.querySelectorAll("*")].map(part =>
  [part.tagName, part.textContent, ...[...part.attributes].map(a => [a.name, a.value])])"""


def test_without_an_atlas_effects_are_drawn_as_on_pythons_pages(browser, open_page, tmp_path):
    found = every_outcome("ours-all")
    claims = write_claims(tmp_path / "claims.csv", found)
    atlas = write_atlas(tmp_path / "atlas", {"ours": {"ours-none": ({}, {})}})
    write_page(atlas, [claims], tmp_path / "explorer.html")
    assert list((tmp_path / "explorer").iterdir()) == []  # the rule promises a folder
    page = open_page(file=tmp_path / "explorer.html")
    assert page.inner_text("#empty").startswith("Nothing is chosen")
    assert page.inner_text("#holds").startswith("0 runs of 0 experiments, ")
    page.evaluate(OPEN_CLAIMS)
    page.locator("#claims .cases ul").wait_for()
    drawn = [each.effect for each in found if each.effect]
    plain = browser.new_page()
    plain.set_content("".join(map(to_svg, drawn)))
    of_python = [svg.evaluate(PARTS) for svg in plain.locator("svg").all()]
    of_page = [svg.evaluate(PARTS) for svg in page.locator("#claims svg.interval").all()]
    assert of_page == of_python
    assert len(of_page) == len(drawn)
    names = [svg.get_attribute("aria-label") for svg in page.locator("#claims svg.interval").all()]
    assert names == [in_full(each) for each in drawn]
    scale = page.locator("#scale text").all_text_contents()
    assert scale == ["−10", "−100", "10", "100", "0", "← against the claim", "for it →"]
    marks = page.locator("#claims .outcome").all_inner_texts()
    assert len({text[:1] for text in marks}) == 8  # told without colour
    plain.close()


FOCUSED = """() => {
  const element = document.activeElement;
  if (element === document.body) return null;
  element.dataset.visited = "true";
  const style = getComputedStyle(element);
  return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
}"""


def test_everything_is_reached_and_done_by_keyboard(open_page):
    page = open_page(f"{FIRST}&x=network")
    page.evaluate(OPEN_TREE)
    page.evaluate(OPEN_CLAIMS)
    rings: list[bool | None] = []
    while rings.count(None) < 2:  # once round, from wherever focus was
        page.keyboard.press("Tab")
        rings.append(page.evaluate(FOCUSED))
        assert len(rings) < 300
    assert False not in rings  # focus is seen wherever it is
    missed = """() => [...document.querySelectorAll("button, input, select, summary")]
      .filter(e => e.checkVisibility() && !e.dataset.visited).map(e => e.outerHTML)"""
    assert page.evaluate(missed) == []
    unlabelled = """() => [...document.querySelectorAll("input, select")]
      .filter(e => !e.labels.length || !e.labels[0].textContent.trim()).map(e => e.outerHTML)"""
    assert page.evaluate(unlabelled) == []

    def go_to(selector: str) -> None:
        while not page.evaluate("s => document.activeElement.matches(s)", selector):
            page.keyboard.press("Tab")

    go_to("#legend button")
    page.keyboard.press("Enter")
    assert len(curves(page)) == 1
    # Focus has stayed on the entry.
    page.keyboard.press("Space")
    assert len(curves(page)) == 2
    go_to("#claims-frame button")
    page.keyboard.press("Enter")
    assert state(page)["show"] == ["fedpage-first/avg"]
    go_to("#skips button")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "measurement"
    go_to("[data-experiment=vfb2-crosspaper]")
    page.keyboard.press("Space")
    assert "vfb2-crosspaper" in state(page)["show"]


CONTRASTS = """() => {
  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const [R, G, B] = [r / 255, g / 255, b / 255]
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * R + 0.7152 * G + 0.0722 * B;
  };
  const ground = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parts(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
      if (colour[3] > 0) throw new Error("half transparent: " + at.outerHTML);
    }
    return [255, 255, 255];
  };
  const ratio = (one, other) => {
    const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || !element.checkVisibility() || element.closest("script, noscript")) continue;
    const style = getComputedStyle(element);
    const colour = element instanceof SVGElement ? style.fill : style.color;
    found.push([ratio(parts(colour), ground(element)), element.textContent.slice(0, 40)]);
  }
  const surface = ground(document.getElementById("view"));
  for (const line of document.querySelectorAll("#legend line")) {
    found.push([1.5 * ratio(parts(getComputedStyle(line).stroke), surface), "line"]);
  }
  for (const control of document.querySelectorAll("input:not([type=checkbox]), select")) {
    const edge = parts(getComputedStyle(control).borderTopColor);
    if (control.checkVisibility()) found.push([1.5 * ratio(edge, surface), control.id]);
  }
  return found;
}"""


def contrasts(page):
    """Of all texts and marks, as soon as the figure is drawn in the colours of the scheme."""
    return page.evaluate(f"""async () => {{
      const measure = {CONTRASTS};
      const end = performance.now() + 10000;
      for (;;) {{
        const found = measure();
        const lowest = Math.min(...found.map(([ratio]) => ratio));
        if (lowest >= 4.5 || performance.now() > end) return found;
        await new Promise(done => setTimeout(done, 50));
      }}
    }}""")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_is_that_of_wcag_aa(open_page, many, scheme):
    """Text 4.5 to 1; curves and edges of controls 3 to 1, here times 1.5."""
    page = open_page("x=network&show=fedpage-first&show=vfb2-crosspaper")
    page.emulate_media(color_scheme=scheme)
    page.locator("#legend button").first.click()
    found = contrasts(page)
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (dark == "rgb(17, 21, 26)") == (scheme == "dark")
    page = open_page(file=many)
    page.emulate_media(color_scheme=scheme)
    found += contrasts(page)
    assert len(found) > 100
    assert min(found)[0] >= 4.5, min(found)


def test_a_phone_scrolls_down_only(open_page):
    page = open_page("show=fedpage-first&show=vfb2-crosspaper&x=network&y=objective")
    page.set_viewport_size({"width": 390, "height": 844})
    until(page, "document.querySelector('.main-svg').clientWidth <= 390")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    beyond = """() => [...document.querySelectorAll("body *")].filter(
      e => e.checkVisibility() && !e.closest("svg") && e.getBoundingClientRect().right > 390.5)"""
    assert page.evaluate(f"({beyond})().map(e => e.outerHTML)") == []
    assert page.evaluate(
        "document.getElementById('claims').offsetTop > document.getElementById('view').offsetTop"
    )


def test_on_a_phone_outcomes_stand_above_claims(open_page):
    page = open_page("show=fedpage-first")
    page.set_viewport_size({"width": 390, "height": 844})
    claim = page.locator("#claims-frame .claim", has_text="says fedpage-first/faster")
    outcome, about = (claim.locator(part).bounding_box() for part in (".outcome", ".about"))
    assert outcome["y"] + outcome["height"] <= about["y"]
    assert about["width"] > 300


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Path:
    """More curves than there are colours and dashes."""
    folder = tmp_path_factory.mktemp("many")
    runs = {}
    for i in range(44):
        whole = noisy_trace(0.5 + i / 100, records=4, seed=i)
        few = whole[["gradient_norm", "status"]].reset_coords(drop=True)
        few = few.assign_coords(round=whole["round"].variable)
        runs[f"run-{i}"] = (f"Run {i}", {"only": few})
    atlas = write_atlas(folder / "atlas", {"ours": {"ours-many": ({}, runs)}})
    write_page(atlas, [], folder / "explorer.html")
    return folder / "explorer.html"


def test_many_curves_share_colours_then_dashes(open_page, many):
    page = open_page(file=many)
    assert len(curves(page)) == 44
    styles = page.evaluate("figure.data.map(trace => trace.line.color + trace.line.dash)")
    assert len(set(styles)) == len(styles) == 44  # one method: eight colours, six dashes
    message = page.inner_text("#message")
    assert "Bands are drawn for up to 24 curves" in message
    assert "Colours and dashes repeat" not in message


def read_by(page) -> list[str]:
    page.wait_for_selector(READY)
    sources = page.evaluate("[...document.head.querySelectorAll('[src]')].map(one => one.src)")
    return [source.rpartition("/")[2] for source in sources]


def test_curves_are_read_when_they_are_shown_and_a_lost_file_is_named(opener, tmp_path):
    atlas, claims = small_atlas(tmp_path / "atlas"), write_claims(tmp_path / "claims.csv", [])
    folder = tmp_path / "explorer"
    write_page(atlas, [claims], tmp_path / "explorer.html", SHOWS)
    files = {file.name for file in folder.iterdir()}
    assert len(files) == 7
    (folder / "0123.js").write_text("of an older page")
    write_page(atlas, [claims], tmp_path / "explorer.html", SHOWS)
    assert {file.name for file in folder.iterdir()} == files
    page = opener(file=tmp_path / "explorer.html", fresh=True)
    lost = read_by(page)[0]
    assert len(curves(page)) == len(read_by(page)) == 2
    page.click("[data-only=fedpage-first]")
    page.select_option("#measurement", "gradient_norm")
    # Of its three runs one does not measure that: it is read for the measurement before.
    assert len(curves(page)) == 2 and len(read_by(page)) == 5
    for _ in range(2):
        page.check("#all-points")
        assert len(curves(page)) == 3 and len(read_by(page)) == 6
        page.uncheck("#all-points")
    assert opener.troubles == []
    (folder / lost).unlink()
    page.goto(f"{page.url.partition('#')[0]}#show=vfb2-crosspaper")
    page.reload()
    assert len(curves(page)) == 1
    assert f"explorer/{lost} could not be read" in page.inner_text("#left-out-list")
    opener.troubles.clear()  # the browser's own words for it


def test_hostile_texts_are_shown_as_they_are(open_page, tmp_path):
    trace = noisy_trace(0.5, records=4, hyper_parameters={"step_size": HOSTILE})
    attributes = dict.fromkeys(("title", "source", "notes", "dataset"), HOSTILE)
    runs = {"run": (HOSTILE, {"only": trace}), "other": ("{{library}}", {"only": trace})}
    atlas = write_atlas(tmp_path / "atlas", {"ours": {"ours-bad": (attributes, runs)}})
    texts = dict.fromkeys(("statement", "evidence", "source", "fragile", "tries"), HOSTILE)
    bad = verdict("ours-bad/claim", **texts, effect=effect(unit=HOSTILE))
    claims = write_claims(tmp_path / "claims.csv", [bad])
    write_page(atlas, [claims], tmp_path / "explorer.html")
    page = open_page(file=tmp_path / "explorer.html")
    assert legend(page) == [HOSTILE, "{{library}}"]
    assert page.inner_text("#claims-frame .evidence") == HOSTILE
    tried = page.locator("#claims-frame .note", has_text="by configurations tried")
    assert tried.inner_text() == f"by configurations tried: {HOSTILE}"
    assert page.text_content("#tree .title") == HOSTILE
    assert HOSTILE in page.locator("#legend .settings").first.inner_text()
    page.evaluate("Plotly.Fx.hover(figure, [{curveNumber: 2, pointNumber: 1}])")
    shown = page.locator(".hoverlayer").text_content()
    assert re.sub(r"\s", "", HOSTILE) in re.sub(r"\s", "", shown)
    assert page.evaluate("globalThis.hacked") is None
    assert page.locator("img").count() == 0


def test_hovering_tells_values_seeds_and_hyper_parameters(open_page):
    page = open_page(f"{FIRST}&x=round")
    page.evaluate("Plotly.Fx.hover(figure, [{curveNumber: 3, pointNumber: 2}])")
    shown = page.locator(".hoverlayer").text_content()
    for part in ("FedAvg", "1 of 3 seeds diverged", "step size 0.1", " to ", "at 20"):
        assert part in shown


def test_a_saved_figure_has_a_legend(open_page, tmp_path):
    page = open_page(f"{FIRST}&x=round")
    page.evaluate("look.open = true")
    with page.expect_download() as download:
        page.click("#save-figure")
    download.value.save_as(tmp_path / "atlas.svg")
    drawing = (tmp_path / "atlas.svg").read_text(encoding="utf-8")
    assert "FedPAGE, step size 0.1" in drawing and "FedAvg" in drawing
