"""Traces as tables for others, published folders, and published runs beside one's own."""

import json
import re
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import xarray as xr
import yaml
from rocrate.rocrate import ROCrate
from typer.testing import CliRunner

import fedatlas
from atlas_factory import (
    join_results,
    noisy_trace,
    one_run,
    problem,
    small_atlas,
    write_atlas,
    write_claims,
)
from experiment_files import config_folder
from fedatlas.cli import app
from fedatlas.code import code_digest
from fedatlas.data.catalogue import load_catalogue
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.verdicts import read_verdicts
from fedatlas.files import canonical_json, file_digest, write_text
from fedatlas.pages.explorer import write_explorer
from fedatlas.pages.repository import data_card
from fedatlas.plan.build import build_plan
from fedatlas.steps import STEPS
from fedatlas.store import publishing
from fedatlas.store.compared import AtlasComparison
from fedatlas.store.crate import read_citation, revision
from fedatlas.store.publishing import Publication, publish
from fedatlas.store.table import export_table
from fedatlas.store.trace import read_trace, write_trace
from fedatlas.store.views import kept_records, thinned
from trace_factory import make_trace
from verdict_factory import every_outcome
from workflow_copy import EXPERIMENT, ROOT

LICENCES = {"made up": "CC BY 4.0"}
DAY = date(2026, 1, 2)
TITLES = {"scaffold": "SCAFFOLD", "fedavg": "FedAvg", "fedpage": "FedPAGE"}


def printed(*arguments) -> str:
    """What a command of fedatlas prints."""
    outcome = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def exported(atlas: Path, output: Path) -> Path:
    opened = fedatlas.open_atlas(atlas)
    export_table(opened, opened.places(), output, LICENCES)
    return output


def snapshot(atlas: Path, output: Path, records: int = 40) -> Path:
    opened = fedatlas.open_atlas(atlas)
    publish(opened, atlas / "experiments", output, Publication(LICENCES, records=records))
    return output


def asked_of_duckdb(question: str) -> list[list[float]]:
    """Its rows. In a process of its own, as it complains at an end without garbage collection."""
    program = "import duckdb, json, sys; print(json.dumps(duckdb.sql(sys.argv[1]).fetchall()))"
    command = [sys.executable, "-c", program, question]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)


# --- a table ---


def test_pandas_and_duckdb_read_a_row_for_each_run_seed_and_record(tmp_path):
    tuned = problem(noisy_trace(0.8, seeds=4, tuning_seeds=[3]))
    table = exported(one_run(tmp_path / "atlas", tuned), tmp_path / "atlas.parquet")
    rows = pd.read_parquet(table)
    assert len(rows) == 4 * 21
    expected = tuned["gradient_norm"].to_dataframe()["gradient_norm"]
    found = rows.set_index(["seed", "record"])["gradient_norm"]
    pd.testing.assert_series_equal(found, expected)
    (first,) = rows[["run", "method", "dataset", "source_digest"]].drop_duplicates().to_numpy()
    assert first.tolist() == ["page", "fedavg", "a9a", "c" * 64]
    assert json.loads(rows["hyper_parameters"][0]) == {"step_size": 0.1}
    assert rows.groupby("seed")["tuning"].all().tolist() == [False, False, False, True]
    assert set(rows["optimum"]) == {0.25} and set(rows["shard_digest"]) == {"5" * 64}
    question = f"""
        SELECT seed, arg_max(gradient_norm, record), max(bytes_up + bytes_down)
        FROM '{table}' WHERE run = 'page' AND NOT tuning GROUP BY seed ORDER BY seed"""
    ends = np.array(asked_of_duckdb(question))
    np.testing.assert_array_equal(ends[:, 1], tuned["gradient_norm"].to_numpy()[:3, -1])
    np.testing.assert_array_equal(
        ends[:, 2], (tuned["bytes_up"] + tuned["bytes_down"]).to_numpy()[:3, -1]
    )


def test_a_table_says_units_licences_and_what_is_missing(tmp_path):
    table = exported(small_atlas(tmp_path / "atlas"), tmp_path / "atlas.parquet")
    about = json.loads(pq.read_metadata(table).metadata[b"fedatlas"])
    assert about == {"version": fedatlas.__version__, "licences": LICENCES}
    assert pq.read_schema(table).field("bytes_up").metadata[b"units"] == b"byte"
    field = pq.read_schema(table).field("gradient_norm")
    assert field.metadata[b"long_name"].decode() == "norm of the full gradient ‖∇f(x)‖"
    # What a run does not measure is empty; what it lost by diverging is no number.
    # By filters, which DuckDB applies to what a file says of its groups first.
    counted = (
        f"(SELECT count(*) FROM '{table}' WHERE run = 'avg' AND {condition})"
        for condition in ("test_auroc IS NULL", "isnan(gradient_norm)")
    )
    assert asked_of_duckdb(f"SELECT {', '.join(counted)}") == [[3 * 21, 11]]


def test_a_strangers_titles_command_no_terminal_of_a_notebook(tmp_path):
    own = fedatlas.compare(small_atlas(tmp_path / "atlas"), "gradient_norm", "round", 0.1)
    titles = np.full(own.dataset.sizes["run"], "\x1b]0;t\x07<b>")
    found = AtlasComparison(own.dataset.assign_coords(title=("run", titles)))
    assert "\x1b" not in repr(found) and "0;t" in repr(found)
    assert "<b>" not in found._repr_html_()


# --- fewer records ---


@pytest.mark.parametrize(("records", "most"), [(1, 2), (2, 2), (39, 40), (500, 40), (2000, 7)])
def test_records_that_are_kept_have_both_ends(records, most):
    kept = kept_records(records, most)
    assert kept[0] == 0 and kept[-1] == records - 1
    assert len(kept) == records if records <= most else len(kept) <= most
    assert (np.diff(kept) > 0).all()


def test_a_thinned_run_is_near_what_it_was_and_says_so(tmp_path):
    trace = problem(noisy_trace(0.97, records=300, seeds=4))
    atlas = one_run(tmp_path / "atlas", trace)
    thin_one = snapshot(atlas, tmp_path / "thin")
    opened = fedatlas.open_atlas(thin_one)
    found = opened.dataset("ours/ours-a/page/only").load()
    assert opened.attrs["thinned"].startswith("lossy: at most 40 records of each trace")
    assert opened.attributes("ours/ours-a")["licence"] == "CC BY 4.0"
    kept = thinned(trace, 40)
    assert found.attrs["thinned"] == f"{kept.sizes['record']} of 300 records"
    assert found["seed"].to_numpy().tolist() == [0, 1, 2, 3]
    assert found["record"].to_numpy().tolist() == kept["record"].to_numpy().tolist()
    for name in ("gradient_norm", "bytes_up"):
        np.testing.assert_allclose(found[name], kept[name], rtol=5e-4)
    asked = ("gradient_norm", "bytes", 1e-3)
    whole, thin = (fedatlas.compare(one, *asked).dataset for one in (atlas, thin_one))
    np.testing.assert_allclose(thin["centre"], whole["centre"], rtol=0.02)


# --- a published folder ---


@pytest.fixture
def results(tmp_path) -> Path:
    """A results folder: a run of two points with a selection, another of one without."""
    folder = tmp_path / "results"
    runs = {
        ("demo-a", "page", "step-1"): noisy_trace(0.9, records=100, seed=1),
        ("demo-a", "page", "step-2"): noisy_trace(0.95, records=100, seed=2),
        ("demo-b", "avg", "only"): noisy_trace(0.97, records=100, seed=3),
    }
    for (experiment, run, point), trace in runs.items():
        own = {"paper": "ours", "experiment": experiment, "run": run, "point": point}
        file = folder / "experiments" / experiment / "traces" / run / f"{point}.nc"
        write_trace(problem(trace).assign_attrs(own), file)
    own = folder / "experiments" / "demo-a"
    (own / "selection.json").write_text('{"rule": {}, "runs": {"page": {"selected": "step-2"}}}')
    join_results(folder, dataset="made up")
    write_claims(own / "claims.csv", every_outcome("demo-a"))
    return folder


def published(results: Path, output: Path, **options) -> list[Path]:
    atlas = fedatlas.open_atlas(results)
    cited = read_citation(ROOT / "CITATION.cff")
    declared = Publication(LICENCES, citation=cited, published=DAY, **options)
    return publish(atlas, results / "experiments", output, declared)


def test_a_folder_holds_traces_verdicts_selections_and_their_checksums(results, tmp_path):
    folder = tmp_path / "published"
    files = published(results, folder)
    assert [file.relative_to(folder).as_posix() for file in files] == [
        *(".gitattributes", "README.md", "SHA256SUMS", "Snakefile"),
        *("demo-a.nc.xz", "demo-b.nc.xz"),
        *("ro-crate-metadata.json", "selections/demo-a.json", "verdicts.csv"),
    ]
    assert max(file.stat().st_size for file in files) < 1_000_000
    checked = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder)
    assert checked.returncode == 0
    assert read_verdicts(folder / "verdicts.csv") == every_outcome("demo-a")
    atlas = fedatlas.open_atlas(folder)
    assert atlas.runs()[["run", "point", "selected"]].to_numpy().tolist() == [
        ["page", "step-2", True],
        ["avg", "only", True],
    ]
    assert atlas.sel("demo-a", "page").sizes["record"] <= 40
    # The same results give the same bytes, and what was published is replaced.
    before = {file: file.read_bytes() for file in files}
    published(results, folder)
    assert {file: file.read_bytes() for file in files} == before


def test_a_clone_of_git_for_windows_keeps_the_bytes(results, tmp_path):
    published(results, tmp_path / "source")
    shutil.copytree(ROOT / "published" / "fmgda", tmp_path / "source" / "here" / "published")
    shutil.copy(ROOT / ".gitattributes", tmp_path / "source" / "here")
    windows = ["git", "-c", "core.autocrlf=true", "-c", "user.name=A", "-c", "user.email=a@b.c"]
    for command in ("init -q", "add .", "commit -qm .", "clone -q . ../clone"):
        subprocess.run([*windows, *command.split()], cwd=tmp_path / "source", check=True)
    for folder in (tmp_path / "clone", tmp_path / "clone" / "here" / "published"):
        assert subprocess.run(["sha256sum", "--check", "SHA256SUMS"], cwd=folder).returncode == 0


def test_a_whole_folder_keeps_all(results, tmp_path):
    published(results, tmp_path / "whole", records=None, all_points=True)
    first, second = fedatlas.open_atlas(results), fedatlas.open_atlas(tmp_path / "whole")
    places = first.places()
    assert second.places() == places and len(places) == 3
    for place in places:
        xr.testing.assert_identical(*(one.dataset(place).load() for one in (first, second)))


def test_the_crate_describes_every_file(results, tmp_path):
    folder = tmp_path / "published"
    files = published(results, folder)
    crate = ROCrate(folder)
    described = {entity.id: entity for entity in crate.data_entities}
    own = {"ro-crate-metadata.json", "SHA256SUMS"}
    named = {file.relative_to(folder).as_posix() for file in files}
    assert described.keys() == named - {"ro-crate-metadata.json"}
    for name in named - own:
        assert described[name]["sha256"] == file_digest(folder / name)
    assert crate.license.id == "https://spdx.org/licenses/BSD-3-Clause"
    assert crate.datePublished.date() == DAY
    columns = {
        one["name"]: one.get("unitText") for one in described["demo-a.nc.xz"]["variableMeasured"]
    }
    assert columns["bytes_up"] == "byte" and columns["gradient_norm"] == "1"
    assert "demo-a" in described["selections/demo-a.json"]["description"]
    # What roc-validator requires of software.
    program = crate.get("#fedatlas")
    assert program["softwareVersion"] == fedatlas.__version__ and program["url"]
    assert crate.get("#repository") is None


def test_the_crate_says_what_made_each_file(results, tmp_path):
    folder = tmp_path / "published"
    published(results, folder)
    crate = ROCrate(folder)
    made = {
        file.id: action
        for action in crate.get_by_type("CreateAction")
        if action["instrument"] is not crate.mainEntity
        for file in [action["result"]]
        for file in (file if isinstance(file, list) else [file])
    }
    beside = {"README.md", ".gitattributes", "SHA256SUMS", "Snakefile"}
    assert made.keys() | beside == {entity.id for entity in crate.data_entities}
    trained, judged = made["demo-a.nc.xz"], made["verdicts.csv"]
    assert trained["description"].startswith("fedatlas run demo-a, by code with the digest ")
    assert trained["instrument"]["name"] == "fedatlas step train_run"
    assert trained["object"].id.startswith("#data-")
    assert {file.id for file in judged["object"]} >= {"demo-a.nc.xz", "selections/demo-a.json"}


def test_codecheck_names_files_that_the_demo_writes():
    """Each is what a step makes, of an experiment of the demo."""
    manifest = yaml.safe_load((ROOT / "codecheck.yml").read_text("utf-8"))["manifest"]
    made = {file.path for step in STEPS.values() for file in step.files()}
    heads = {path.stem for path in (ROOT / "config/experiments/demo").glob("*.yaml")}
    for entry in manifest:
        path = entry["file"].removeprefix("results/")
        named = re.sub(r"/demo-(\w+)/", lambda one: "/{experiment}/", path)
        assert named in made
        assert set(re.findall(r"/demo-(\w+)/", path)) <= heads


def test_a_folder_says_which_code_published_it(results, tmp_path):
    """A commit of the repository; the folders that are published there are no change of it."""

    def git(*arguments: str) -> None:
        name = ["-c", "user.name=A", "-c", "user.email=a@b.c", "-C", str(lab)]
        subprocess.run(["git", *name, *arguments], check=True, capture_output=True)

    lab = tmp_path / "lab"
    lab.mkdir()
    assert revision(lab) == ""
    git("init")
    write_text(lab / "methods" / "mine.py", "A = 1")
    assert revision(lab) == ""  # nothing is committed
    git("add", ".")
    git("commit", "-m", "first")
    commit = revision(lab)
    assert re.fullmatch("[0-9a-f]{40}", commit)
    folder = lab / "published" / "first"
    files = published(results, folder, commit=commit)
    before = {file: file.read_bytes() for file in files}
    assert revision(lab) == commit
    git("add", ".")
    write_text(folder / "README.md", "changed")
    assert revision(lab) == commit
    (folder / "README.md").write_bytes(before[folder / "README.md"])
    published(results, folder, commit=revision(lab))
    assert {file: file.read_bytes() for file in files} == before
    told = f"Published by fedatlas {fedatlas.__version__} from a repository at commit {commit}"
    assert told in " ".join((folder / "README.md").read_text(encoding="utf-8").split())
    assert ROCrate(folder).get("#repository")["version"] == commit
    for change in ("methods/mine.py", "methods/new.py"):
        git("stash", "--include-untracked")
        assert revision(lab) == commit
        write_text(lab / change, "A = 2")
        assert revision(lab / "methods") == f"{commit} and uncommitted changes"


def test_who_publishes_is_taken_once_it_is_filled_in(results, tmp_path, monkeypatch):
    (tmp_path / "desk").mkdir()
    monkeypatch.chdir(tmp_path / "desk")

    ask = ("publish", results, "out", "--config", ROOT / "config")
    without = printed(*ask)
    assert "CITATION.cff: does not exist, so out names no author and no licence" in without
    printed("new", "project", "lab")
    cited = Path("lab/CITATION.cff")
    ask = (*ask, "--citation", cited)
    assert "lab/CITATION.cff: is not filled in" in printed(*ask)
    assert ROCrate("out").license is None
    assert 'title: "lab"' in cited.read_text(encoding="utf-8")
    filled = re.sub("license: FILL IN", "license: CC-BY-4.0", cited.read_text(encoding="utf-8"))
    lines = [line for line in filled.splitlines() if not line.startswith("#")]
    cited.write_text("\n".join(lines).replace("FILL IN", "Ada"), encoding="utf-8")
    assert "CITATION.cff" not in printed(*ask)
    crate = ROCrate("out")
    assert crate.name == "lab: traces and verdicts" and crate.license.id.endswith("/CC-BY-4.0")
    assert crate.root_dataset["author"]["name"] == "Ada Ada"
    assert "licence: CC-BY-4.0" in Path("out/README.md").read_text(encoding="utf-8")


def test_large_files_are_divided(results, tmp_path, monkeypatch):
    published(results, tmp_path / "one", all_points=True)
    size = (tmp_path / "one" / "demo-a.nc.xz").stat().st_size
    monkeypatch.setattr(publishing, "MOST_BYTES", size - 1)
    published(results, tmp_path / "small", all_points=True)
    parts = sorted(file.name for file in (tmp_path / "small").glob("*.nc.xz"))
    assert parts == ["demo-a-part1.nc.xz", "demo-a-part2.nc.xz", "demo-b.nc.xz"]
    atlas = fedatlas.open_atlas(tmp_path / "small")
    assert len(atlas.runs()) == 3
    monkeypatch.setattr(publishing, "MOST_BYTES", 2_000)  # a point stays in one file
    published(results, tmp_path / "small", all_points=True)
    assert sorted(file.name for file in (tmp_path / "small").glob("*.nc.xz")) == parts


def as_found(folder: Path) -> dict[str, bytes | None]:
    """Everything in a folder, by name; None for folders."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def keep_notes(folder: Path) -> None:
    write_text(folder / "notes" / "plan.md", "mine")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (keep_notes, r"notes/plan\.md is not as"),
        (lambda folder: (folder / ".git" / "refs").mkdir(parents=True), r"\.git/refs is not as"),
        (lambda folder: write_text(folder / "README.md", "mine"), r"README\.md is not as"),
        (
            lambda folder: (folder / "SHA256SUMS").unlink(),
            r"\.gitattributes, README\.md, Snakefile and 5 more is not as",
        ),
        # It might be anyone's, though its checksums are right.
        (
            lambda folder: (folder / "ro-crate-metadata.json").unlink(),
            "was not published by fedatlas",
        ),
    ],
)
def test_a_folder_that_holds_anything_else_is_not_replaced(results, tmp_path, change, named):
    folder = tmp_path / "published"
    published(results, folder)
    change(folder)
    before = as_found(folder)
    with pytest.raises(FedatlasError, match=named):
        published(results, folder)
    assert as_found(folder) == before


def test_a_folder_that_changes_while_another_is_written_stays(results, tmp_path, monkeypatch):
    folder = tmp_path / "published"
    published(results, folder)
    whole = publishing.write_sums

    def meanwhile(new: Path) -> None:
        whole(new)
        keep_notes(folder)

    monkeypatch.setattr(publishing, "write_sums", meanwhile)
    with pytest.raises(FedatlasError, match="notes/plan"):
        published(results, folder)
    assert (folder / "notes" / "plan.md").exists() and (folder / "demo-a.nc.xz").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_link_to_a_published_folder_stays_a_link(results, tmp_path):
    published(results, tmp_path / "release-1")
    (tmp_path / "newest").symlink_to("release-1")
    published(results, tmp_path / "newest", experiments=["demo-b"])
    assert (tmp_path / "newest").is_symlink()
    assert [file.name for file in (tmp_path / "release-1").glob("*.nc.xz")] == ["demo-b.nc.xz"]


def test_a_damaged_list_of_checksums_is_refused(results, tmp_path):
    folder = tmp_path / "all" / "published"
    published(results, folder)
    sums = folder / "SHA256SUMS"
    lines = sums.read_text(encoding="utf-8").splitlines(keepends=True)

    def refused(content: list[str], said: str, *opened: Path) -> None:
        sums.write_text("".join(content), encoding="utf-8")
        for path in opened or (folder, folder.parent, folder / "demo-a.nc.xz"):
            with pytest.raises(FedatlasError, match=rf"published/SHA256SUMS{said}"):
                fedatlas.open_atlas(path)

    place = next(n for n, line in enumerate(lines) if "demo-a.nc.xz" in line)
    refused([*lines[:place], *lines[place + 1 :]], r": has no line for demo-a\.nc\.xz")
    refused(["hello\n"], ", line 1: is no checksum and name of a file: 'hello'")
    refused([*lines[:2], "\n", *lines[2:]], ", line 3: is no checksum")
    refused([], ": has no line for demo-a")
    gone = [*lines, f"{'0' * 64}  gone.nc\n"]
    refused(gone, f", line {len(gone)}: lists gone.nc, which is", folder, folder.parent)
    fedatlas.open_atlas(folder / "demo-a.nc.xz")  # alone, as it was fetched alone
    for file in folder.glob("*.nc.xz"):
        file.unlink()
    published(results, tmp_path / "all" / "second", experiments=["demo-b"])
    refused(lines, f", line {place + 1}: lists demo-a.nc.xz, which is", folder.parent)


def test_the_explorer_refuses_changed_verdicts_of_a_published_folder(results, tmp_path):
    folder = tmp_path / "published"
    published(results, folder)
    verdicts, page = folder / "verdicts.csv", tmp_path / "page.html"
    write_explorer(folder, [verdicts], page)
    assert page.is_file()
    verdicts.write_bytes(verdicts.read_bytes().replace(b"reproduced", b"undecided"))
    with pytest.raises(FedatlasError, match=r"verdicts\.csv: its SHA-256 is"):
        write_explorer(folder, [verdicts], page)


def test_a_folder_of_published_folders_is_one_atlas(results, tmp_path):
    published(results, tmp_path / "all" / "first", experiments=["demo-a"])
    published(results, tmp_path / "all" / "second", experiments=["demo-b"], records=10)
    both = fedatlas.open_atlas(tmp_path / "all")
    assert both.names("ours") == ["demo-a", "demo-b"]
    assert all(f"at most {most} records" in both.attrs["thinned"] for most in (40, 10))
    for name in ("first", "second"):
        one = fedatlas.open_atlas(tmp_path / "all" / name)
        (place,) = one.places()
        xr.testing.assert_identical(*(each.dataset(place).load() for each in (both, one)))
    found = fedatlas.compare(tmp_path / "all", "gradient_norm", "bytes", 0.5)
    assert found.dataset["experiment"].to_numpy().tolist() == ["demo-a", "demo-b"]
    shutil.copy(tmp_path / "all/first/demo-a.nc.xz", tmp_path / "all/second/demo-b.nc.xz")
    with pytest.raises(FedatlasError, match=r"second/demo-b\.nc\.xz: its SHA-256 is"):
        fedatlas.open_atlas(tmp_path / "all")


# --- beside one's own ---


def test_a_published_run_stands_beside_ours_with_costs_by_hand(tmp_path):
    """Levels fall by a decade in 10 and in 20 rounds: half a decade takes 5 and 10 of them."""
    ours = problem(make_trace([[1, 0.1, 0.01]] * 2), versions='{"numpy":"2.0"}')
    theirs = problem(make_trace([[1, 10**-0.5, 0.1, 0.01], [1, 10**-0.5, 0.1, 0.01]]))
    mine = one_run(tmp_path / "mine", ours, "new", "mine-a9a")
    atlas = one_run(tmp_path / "published", theirs)
    theirs_now = snapshot(atlas, tmp_path / "snapshot")
    target = 10**-0.5
    found = fedatlas.compare(mine, "gradient_norm", ["round", "bytes"], target, against=theirs_now)
    data = found.dataset
    assert data["origin"].to_numpy().tolist() == ["ours", "published"]
    np.testing.assert_allclose(data["centre"].sel(cost="round"), [5, 10], rtol=5e-4)
    # A round sends 1000 bytes.
    np.testing.assert_allclose(data["centre"].sel(cost="bytes"), [5e3, 1e4], rtol=5e-4)
    for name in ("final", "final_median", "final_lowest", "final_highest"):
        np.testing.assert_allclose(data[name], [0.01, 0.01], rtol=5e-4)
    assert found.table().index.tolist() == ["NEW", "PAGE (published)"]
    told = "\n".join(data.attrs["notes"])
    assert "ours-a/page: published with a specification of another version" in told
    assert "published with numpy 1.0 (ours: 2.0)" in told
    assert "lines between the records that were kept" in told
    assert all(note in repr(found) for note in data.attrs["notes"])
    drawn = fedatlas.plot(mine, "gradient_norm", "round", against=theirs_now)
    (axes,) = drawn.figure.axes
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend == ["NEW", "PAGE (published)"]


def legend_of(drawn) -> list[str]:
    return [text.get_text() for text in drawn.figure.axes[-1].get_legend().get_texts()]


def test_runs_of_equal_titles_are_told_apart_by_their_keys(tmp_path):
    """In the table and the figure alike; the published run of the same title is another."""
    runs = {
        "page": ("FedPAGE", {"only": problem(make_trace([[1, 0.1]]))}),
        "page-large": ("FedPAGE", {"only": problem(make_trace([[1, 0.2]]))}),
        "avg": ("FedAvg", {"only": problem(make_trace([[1, 0.3]]))}),
    }
    mine = write_atlas(tmp_path / "mine", {"ours": {"same-a9a": ({}, runs)}})
    published = {"avg": ("FedAvg", {"only": problem(make_trace([[1, 0.4]]))})}
    other = write_atlas(tmp_path / "other", {"ours": {"same-a9a": ({}, published)}})
    told = ["FedPAGE (page)", "FedPAGE (page-large)", "FedAvg", "FedAvg (published)"]
    found = fedatlas.compare(mine, "gradient_norm", "bytes", 0.5, against=other)
    assert found.table().index.tolist() == told
    assert legend_of(fedatlas.plot(mine, "gradient_norm", "bytes", against=other)) == told
    assert fedatlas.compare(mine, "gradient_norm", "bytes", 0.5).table().index.tolist() == told[:3]
    assert legend_of(fedatlas.plot(mine, "gradient_norm", "bytes")) == told[:3]


@pytest.mark.parametrize("named", ["compare", "plot"])
def test_nothing_comparable_has_a_reason(tmp_path, named):
    """Of published runs that measure something else, as of those of another problem."""
    asked = {"compare": ("bytes", 0.5), "plot": ("bytes",)}[named]
    mine = one_run(tmp_path / "mine", problem(make_trace([[1, 0.1]], test_auroc=[[0.5, 0.6]])))
    other = one_run(tmp_path / "other", problem(make_trace([[1, 0.1]])))
    with pytest.raises(
        FedatlasError, match=r"other: metric: no run measures 'test_auroc'; measured are \w+"
    ):
        getattr(fedatlas, named)(mine, "test_auroc", *asked, against=other)
    foreign = one_run(tmp_path / "foreign", problem(make_trace([[1, 0.1]]), split="x"))
    with pytest.raises(FedatlasError, match='ours-a/page: split: "train" here, "x" published'):
        getattr(fedatlas, named)(mine, "gradient_norm", *asked, against=foreign)


FEWER = {"kind": "horizontal", "clients": 4, "test": 100, "samples": None}
PARTIES = {"kind": "vertical", "parties": 4, "test": 100, "samples": None}


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"dataset": "w8a"}, 'dataset: "a9a" here, "w8a" published'),
        ({"split": "test"}, 'split: "train" here, "test" published'),
        (
            {"objective": {"name": "logistic_l2", "weight": 1e-2}},
            "objective.weight: 0.0001 here, 0.01 published",
        ),
        ({"partition": FEWER}, "partition.clients: 10 here, 4 published"),
        ({"partition": PARTIES | {"test": 50}}, "partition.test: 100 here, 50 published"),
        ({"shards": {"0": "6" * 64}}, r"data \(shard_digests\) of seed 0: 5{12} here, 6{12}"),
        ({"optimum": 0.26}, "f[*] of seed 0: 0.25 here, 0.26 published"),
    ],
)
def test_what_is_not_comparable_is_refused_with_key_and_both_values(tmp_path, declared, said):
    def trace(**own):
        return problem(make_trace([[1, 0.1]] * 2, suboptimality=[[1, 0.1]] * 2), **own)

    mine = one_run(tmp_path / "mine", trace(), "new", "mine-a9a")
    atlas = one_run(tmp_path / "published", trace(**declared))
    with pytest.raises(FedatlasError, match=f"ours-a/page: {said}"):
        fedatlas.compare(mine, "suboptimality", "bytes", 0.5, against=atlas)
    # Of several published runs those of our problem are shown, and the others told.
    both = {"page": ("P", {"only": trace(**declared)}), "avg": ("A", {"only": trace()})}
    several = write_atlas(tmp_path / "several", {"ours": {"ours-a": ({}, both)}})
    found = fedatlas.compare(mine, "suboptimality", "bytes", 0.5, against=several).dataset
    assert found["run"].to_numpy().tolist() == ["new", "avg"]
    assert len(found.attrs["not_comparable"]) == 1


def test_other_settings_on_the_same_rows_are_comparable(tmp_path):
    trace = make_trace([[1, 0.1]])
    mine = one_run(tmp_path / "mine", problem(trace), "new", "mine-a9a")
    theirs = problem(trace, partition=PARTIES, shards={"0": "7" * 64})
    atlas = one_run(tmp_path / "published", theirs)
    found = fedatlas.compare(mine, "gradient_norm", "bytes", 0.5, against=atlas)
    assert found.dataset.sizes["run"] == 2
    with pytest.raises(FedatlasError, match="solve different problems"):
        other = {
            "a": ("A", {"only": problem(trace)}),
            "b": ("B", {"only": problem(trace, split="x")}),
        }
        two = write_atlas(tmp_path / "two", {"ours": {"mine-a9a": ({}, other)}})
        fedatlas.compare(two, "gradient_norm", "bytes", 0.5, against=atlas)


def test_a_text_is_one_name_wherever_names_are_meant(results, tmp_path):
    asked = ("gradient_norm", "bytes", 0.2)
    named = {"experiments": "demo-a", "runs": "page"}
    found = fedatlas.compare(results, *asked, **named).dataset
    assert found["run"].to_numpy().tolist() == ["page"]
    published(results, tmp_path / "out", experiments="demo-b")
    against = {"against": tmp_path / "out", "published": "demo-b"}
    beside = fedatlas.compare(results, *asked, **named, **against).dataset
    assert beside["run"].to_numpy().tolist() == ["page", "avg"]
    assert legend_of(fedatlas.plot(results, *asked[:2], experiments="demo-b")) == ["avg"]
    at = fedatlas.interpolate(results, "gradient_norm", "bytes", [1e4], experiments="demo-b")
    assert at["run"].to_numpy().tolist() == ["avg"]
    for other, said in (({"against": [results]}, "is no path"), ({"target": None}, "is no number")):
        with pytest.raises(FedatlasError, match=said):
            fedatlas.compare(results, "gradient_norm", "bytes", **({"target": 0.2} | other))


def test_figures_and_tables_take_every_cost_that_is_counted(results):
    costs = ["bytes_up", "messages", "sequential_bytes", "full_participations", "exchanges"]
    found = fedatlas.compare(results, "gradient_norm", costs, 0.5, experiments="demo-b").dataset
    assert np.isfinite(found["centre"]).all() and not found.attrs["left_out"]
    drawn = fedatlas.plot(results, "gradient_norm", costs, experiments="demo-b").figure
    labels = [axes.get_xlabel() for axes in drawn.axes]
    assert labels[:2] == ["bytes towards a server, dominator or hub", "messages"]


def test_commands_publish_compare_and_export(results, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)

    told = printed("publish", results, tmp_path / "out", "--archive", tmp_path / "all.zip")
    assert "9 files" in told and (tmp_path / "all.zip").stat().st_size > 10_000
    csv, figure = tmp_path / "table.csv", tmp_path / "figure.svg"
    told = printed(
        "compare", results, "--against", tmp_path / "out", "--metric", "gradient_norm", "--target",
        0.2, "--cost", "bytes", "--runs", "demo-a/page", "--csv", csv, "--figure", figure,
    )  # fmt: skip
    assert "avg (published)" in told and "of another version" in told
    assert "stale" not in told  # results from elsewhere are no leftovers of experiments here
    assert pd.read_csv(csv)["origin"].tolist() == ["ours", "published", "published"]
    assert figure.read_text(encoding="utf-8").rstrip().endswith("</svg>")
    told = printed("export", tmp_path / "out", tmp_path / "again.parquet")
    assert "rows of 2 traces" in told
    assert (
        told.split(":")[1:]
        == printed("export", tmp_path / "out", tmp_path / "a.csv").split(":")[1:]
    )
    first, second = pd.read_parquet(tmp_path / "again.parquet"), pd.read_csv(tmp_path / "a.csv")
    assert list(first) == list(second)
    np.testing.assert_array_equal(first["gradient_norm"], second["gradient_norm"])


@pytest.fixture
def configured(tmp_path, monkeypatch) -> Path:
    """A configuration, and beside it results of all its runs, as they would be computed now."""
    config = config_folder(tmp_path / "config", small=EXPERIMENT)
    for spec in build_plan(config).runs.values():
        own = {key: getattr(spec, key) for key in ("paper", "experiment", "run", "point")}
        own["specification"] = canonical_json(spec.model_dump(mode="json"))
        own["source_digest"] = code_digest(*spec.code)
        trace = problem(noisy_trace(0.9)).assign_attrs(own)
        write_trace(trace, spec.trace_file(tmp_path / "results"))
    join_results(tmp_path / "results", TITLES)
    monkeypatch.chdir(tmp_path)
    return config


def change_rounds(config: Path) -> str:
    edit_experiment(config, "rounds: 40", "rounds: 50")
    return r"configuration: rounds: 40 → 50"


def edit_experiment(config: Path, old: str, new: str) -> None:
    file = config / "experiments" / "demo" / "small.yaml"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def rename_experiment(config: Path) -> str:
    file = config / "experiments" / "demo" / "small.yaml"
    file.rename(file.with_name("tiny.yaml"))
    return "configuration: its experiment is gone: the configuration has no demo-small"


def edit_method(config: Path) -> str:
    """Seen from the trace: other code made it than there is now."""
    file = config.parent / "results/experiments/demo-small/traces/fedavg/only.nc"
    write_trace(read_trace(file).assign_attrs(source_digest="e" * 64), file)
    join_results(config.parent / "results", TITLES)
    return "source: eeeeeeeeeeee… → "


@pytest.mark.parametrize("change", [change_rounds, rename_experiment, edit_method])
def test_stale_runs_of_a_results_folder_are_marked_and_not_published_unasked(configured, change):
    asked = ("--metric", "gradient_norm", "--target", 0.2, "--cost", "bytes")
    own = ("--config", configured)
    assert "stale" not in printed("compare", "results", *asked, *own)
    printed("publish", "results", "before", *own)

    why = change(configured)
    shown = printed("compare", "results", *asked, *own)
    assert re.search(r"^(FedAvg|fedavg) \(stale\) +\d", shown, re.MULTILINE), shown
    assert f"note: demo-small/fedavg/only: is stale: {why}" in shown
    assert f"demo-small/fedavg/only: {why}" in printed("export", "results", "all.parquet", *own)
    titles = pd.read_parquet("all.parquet").groupby("run")["title"].first()
    assert titles["fedavg"].endswith(" (stale)")
    with pytest.raises(FedatlasError, match=r"traces are stale:(.|\n)*demo-small/fedavg/only: "):
        printed("publish", "results", "out", *own)
    assert not Path("out").exists()
    printed("publish", "results", "out", "--stale", *own)
    atlas = fedatlas.open_atlas("out")
    assert atlas.runs().set_index("run")["title"]["fedavg"].endswith(" (stale)")
    assert "(stale)" in printed("compare", "out", *asked)


def test_a_renamed_run_is_not_stale(configured):
    edit_experiment(configured, "  fedavg:", "  averaging:")
    edit_experiment(configured, "second: fedavg", "second: averaging")
    asked = ("--metric", "gradient_norm", "--target", 0.2, "--config", configured)
    assert "stale" not in printed("compare", "results", *asked)


def test_without_a_configuration_the_code_alone_says_what_is_stale(configured):
    asked = ("results", "gradient_norm", "bytes", 0.2)
    rename_experiment(configured)
    assert fedatlas.compare(*asked).dataset.attrs["notes"] == []
    edit_method(configured)
    (note,) = fedatlas.compare(*asked).dataset.attrs["notes"]
    assert note.startswith("demo-small/fedavg/only: is stale: source")
    assert "FedAvg (stale)" in legend_of(fedatlas.plot("results", "gradient_norm", "round"))


def test_commands_call_runs_of_a_results_folder_by_the_titles_of_its_configuration(configured):
    """A published folder has titles; a results folder's stand in the experiments' files."""
    results, config = Path("results"), configured

    printed("publish", results, "out", "--config", config)
    asked = ("--metric", "gradient_norm", "--target", 0.2, "--cost", "bytes", "--config", config)
    shown = printed("compare", results, "--against", "out", *asked)
    for title in ("SCAFFOLD", "FedAvg"):
        assert re.search(rf"^{title} +\d", shown, re.MULTILINE), shown
        assert re.search(rf"^{title} \(published\) +\d", shown, re.MULTILINE), shown
    printed("export", results, "table.parquet", "--config", config)
    assert set(pd.read_parquet("table.parquet")["title"]) == {"SCAFFOLD", "FedAvg", "FedPAGE"}
    write_explorer(results, [Path("out/verdicts.csv")], Path("page.html"), config=config)
    page = Path("page.html").read_text(encoding="utf-8")
    assert '"title": "SCAFFOLD"' in page and '"title": "scaffold"' not in page


def test_the_data_card_is_as_generated():
    card = data_card(load_catalogue(ROOT / "config" / "datasets.yaml"))
    assert (ROOT / "docs" / "data-card.md").read_text(encoding="utf-8") == card, (
        "run: fedatlas data-card --output docs/data-card.md"
    )
    for name in ("seed", "bytes_up", "suboptimality", "uci-credit-card", "PhysioNet"):
        assert name in card
