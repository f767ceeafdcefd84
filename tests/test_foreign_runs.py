"""Runs made elsewhere: what columns are taken for what, and how they stand beside others."""

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest
import yaml

import fedatlas
from atlas_factory import noisy_trace, one_run, problem, small_atlas, write_atlas
from fedatlas.errors import FedatlasError
from fedatlas.schema.foreign import CurvesMapping
from fedatlas.store.logs import FORMATS
from fedatlas.store.publishing import Publication, publish
from fedatlas.store.table import export_table
from test_cli import fedatlas as command
from workflow_copy import ROOT

ROUNDS = [0, 10, 20, 30]


def curves(**columns) -> pd.DataFrame:
    """Two methods with two seeds each; accuracies rise by tenths, from 0.1 or 0.2 on."""
    rows = [
        {"method": run, "seed": seed, "round": at, "test/acc": start + 0.01 * seed + 0.01 * at}
        for run, start in (("mine", 0.1), ("other", 0.2))
        for seed in (0, 1)
        for at in ROUNDS
    ]
    return pd.DataFrame(rows).assign(**columns)


def spent(atlas, target: float, cost: str = "round", **options) -> np.ndarray:
    found = fedatlas.compare(atlas, "test_accuracy", cost, target, **options)
    return found.dataset["cost_to_target"].squeeze("cost").to_numpy()


# --- columns ---


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_obvious_columns_are_taken_and_told(tmp_path, ending):
    file = tmp_path / f"log.{ending}"
    rows = curves(bytes=lambda rows: 100 * rows["round"], lr=3)
    if ending == "parquet":
        rows.to_parquet(file)
    else:
        rows.to_csv(file, index=False, sep="\t" if ending == "tsv" else ",")
    atlas = fedatlas.import_runs(file)
    assert np.allclose(spent(atlas, 0.25), [[15, 14], [5, 4]], atol=0.3)
    assert np.allclose(spent(atlas, 0.25, "bytes"), 100 * spent(atlas, 0.25))
    notes = atlas.attributes("ours/log")["notes"].split("; ")
    told = "run: method, seed: seed, round: round, bytes: bytes, test_accuracy: test/acc"
    assert notes == [told, "not read: lr"]


def test_bytes_are_those_of_the_directions_that_a_log_counts():
    """One direction is not all; a total is no direction, and not added to its parts."""
    each = {"bytes_up": 100.0 * np.tile(ROUNDS, 4), "bytes_down": 50.0 * np.tile(ROUNDS, 4)}
    up = fedatlas.import_runs(curves(bytes_up=each["bytes_up"]))
    assert np.isnan(spent(up, 0.25, "bytes")).all()
    notes = up.attributes("ours/mine")["notes"]
    assert "bytes of all directions are not known, only bytes_up" in notes
    total = fedatlas.import_runs(curves(total=150.0 * np.tile(ROUNDS, 4)), costs={"bytes": "total"})
    assert np.isnan(spent(total, 0.25, "bytes_up")).all()
    both = fedatlas.import_runs(curves(**each, bytes=150.0 * np.tile(ROUNDS, 4)))
    beside = fedatlas.import_runs(
        curves(bytes_up=each["bytes_up"], bytes=150.0 * np.tile(ROUNDS, 4))
    )
    for atlas in (total, both, beside):
        assert np.allclose(spent(atlas, 0.25, "bytes"), 150 * spent(atlas, 0.25))


def test_names_of_runs_may_have_slashes():
    atlas = fedatlas.import_runs(
        curves(method=["lr/1"] * 8 + ["lr/2"] * 8), titles={"lr/1": "small", "lr-2": "large"}
    )
    assert [*atlas.runs()["run"]] == ["lr-1", "lr-2"]
    assert [*atlas.runs()["title"]] == ["small (foreign)", "large (foreign)"]


def test_a_log_may_have_a_step_beside_its_round():
    trace = fedatlas.import_runs(curves(step=np.tile([0, 1, 2, 3], 4)), round="step")
    assert [*trace.sel("mine", "other")["round"]] == [0, 1, 2, 3]


def test_columns_may_be_computed_with():
    rows = curves(
        percent=lambda rows: 100 * rows["test/acc"],
        upload=7.0,
        loss=lambda rows: 2 - rows["test/acc"],
    )
    costs = {"bytes_up": "sum(upload)", "bytes_down": "round * 3", "messages": "sum(upload) / 7"}
    metrics = {"test_accuracy": "percent / 100", "suboptimality": "loss - 1.4"}
    atlas = fedatlas.import_runs(rows, costs=costs, metrics=metrics)
    trace = atlas.sel("mine", "other")
    assert np.allclose(trace["bytes_up"], [7, 14, 21, 28])
    assert np.allclose(trace["bytes_down"], np.multiply(3, ROUNDS))
    assert np.allclose(trace["messages"], [1, 2, 3, 4])
    assert np.allclose(trace["bytes"], trace["bytes_up"] + trace["bytes_down"])
    assert np.allclose(trace["test_accuracy"][1], 0.21 + 0.01 * np.array(ROUNDS))
    assert np.allclose(trace["suboptimality"], 0.6 - trace["test_accuracy"])


def test_names_of_files_tell_runs_and_seeds(tmp_path):
    for (run, seed), rows in curves().groupby(["method", "seed"]):
        (tmp_path / run).mkdir(exist_ok=True)
        file = tmp_path / run / f"lr0.1_seed{seed}.csv"
        rows[["round", "test/acc"]].to_csv(file, index=False)
    expected = spent(fedatlas.import_runs(curves()), 0.25)
    atlas = fedatlas.import_runs(tmp_path, names="{run}/lr0.1_seed{seed}")
    assert atlas.names(f"ours/{tmp_path.name}") == ["mine", "other"]
    assert np.array_equal(spent(atlas, 0.25), expected)
    atlas = fedatlas.import_runs(tmp_path, titles={"mine-lr0.1": "Ours"})
    assert [*atlas.runs()["title"]] == ["Ours (foreign)", "other/lr0.1 (foreign)"]
    assert np.array_equal(spent(atlas, 0.25), expected)


def test_what_is_measured_now_and_then_is_kept_and_a_lost_seed_is_marked():
    rows = curves(objective=[1.0, np.nan, 3.0, np.nan] * 3 + [1.0, 2.0, np.nan, np.nan])
    atlas = fedatlas.import_runs(rows)
    assert [*atlas.sel("mine", "mine")["round"]] == [0, 20]
    other = atlas.sel("mine", "other")
    assert [*other["status"]] == ["ok", "diverged"]
    assert np.array_equal(other["objective"], [[1, 3, 3], [1, 2, np.nan]], equal_nan=True)
    notes = atlas.attributes("ours/mine")["notes"]
    assert "run 'mine': 4 of 8 rows left out, without a finite number of objective" in notes
    assert "run 'other', seed 1 diverged: no numbers after row 14, round 10" in notes


@pytest.mark.parametrize(
    ("changes", "mapping", "told"),
    [
        ({}, {"rund": "a"}, "frame: mapping: unknown key 'rund'; similar: round, run"),
        (
            {},
            {"metrics": {"test_acuracy": "a"}},
            "key 'metrics': 'test_acuracy' is none of .*; similar: test_accuracy",
        ),
        ({}, {"costs": {"bytes_in": "a"}}, "key 'costs': 'bytes_in' is none of .*; similar: bytes"),
        ({}, {"metrics": {"objective": "los"}}, "objective: there is no column 'los'; columns are"),
        ({}, {"seed": "sed"}, "seed: there is no column 'sed'; similar: seed"),
        ({"seed": 0.5}, {}, "seed: column 'seed', row 1: '0.5', but whole numbers are expected"),
        ({"seed": 0}, {}, r"run 'mine', seed 0 has round 0 in row 1 and row 5: remove one .*say"),
        ({"seed": np.nan}, {}, "seed: column 'seed', row 1: is empty, but whole numbers"),
        ({"method": None}, {}, "run: column 'method', row 1: is empty, but the name of a run"),
        ({"test_accuracy": 0.5}, {}, "columns 'test/acc' and 'test_accuracy' may both be test_acc"),
        ({"up": 1.0}, {"costs": {"bytes_up": "up / 0"}}, "bytes_up: 'up / 0' divides by 0"),
        ({}, {"costs": {"bytes": "a", "bytes_up": "b"}}, "'bytes' are all of them: remove it"),
        ({"method": ["a/b"] * 8 + ["a-b"] * 8}, {}, "runs 'a/b' and 'a-b' would both be 'a-b'"),
        ({"test/acc": "good"}, {}, "test_accuracy: column 'test/acc', row 1: 'good', but numbers"),
        ({"test/acc": 55.0}, {}, "seed 0: test_accuracy is 55, but lies between 0 and 1: write"),
        (
            {"bytes": range(16, 0, -1)},
            {},
            r"bytes falls to 15 at round 10 \(row 2\), .* write sum\(bytes",
        ),
        ({"up": 3e4}, {"costs": {"bytes_up": "up"}}, r"bytes_up is 30000 in .* write sum\(up\)"),
        (
            {"loss": [*np.linspace(1, 0.5, 4)] * 4},
            {"metrics": {"suboptimality": "loss - 0.6"}},
            "seed 0: suboptimality: column 'loss', row 4: 'loss - 0.6' is -0.1, but .* too large",
        ),
        (
            {},
            {"metrics": {"objective": "(loss - 0.32)*2"}},
            r"no column '\(loss - 0.32\)'; .* a formula is COLUMN or sum\(COLUMN\), then at most",
        ),
        ({"round": [0, 1, 2, 3] * 4, "seed": range(16)}, {}, "run 'mine' has one record, but"),
        ({"test/acc": np.nan}, {}, "run 'mine' has no value of test_accuracy"),
        ({}, {"titles": {"mind": "M"}}, "titles: no run is named 'mind'; similar: mine"),
        ({}, {"names": "{run}{run}"}, "key 'names', value '{run}{run}': must match pattern"),
        ({}, {"names": "{run}-{seed}"}, "names: 'mine' does not match '{run}-{seed}'"),
    ],
)
def test_an_error_names_column_value_and_what_is_expected(changes, mapping, told):
    with pytest.raises(FedatlasError, match=told):
        fedatlas.import_runs(curves(**changes), **mapping)


def test_columns_that_are_not_obvious_must_be_named(tmp_path):
    with pytest.raises(FedatlasError, match=r"no column has the name of the round.*are epoch"):
        fedatlas.import_runs(pd.DataFrame({"epoch": [1], "test_acc": [0.5]}))
    with pytest.raises(FedatlasError, match="no column has the name of the round"):
        fedatlas.import_runs(pd.DataFrame(index=range(3)))
    with pytest.raises(FedatlasError, match=r"such as 'metrics: {test_acc.*are round, l;"):
        fedatlas.import_runs(pd.DataFrame({"round": [1], "l": [0.5]}))
    with pytest.raises(FedatlasError, match=r"{objective: Loss}.*{suboptimality: Loss - F\*}"):
        fedatlas.import_runs(pd.DataFrame({"round": [1], "Loss": [0.5]}))
    with pytest.raises(FedatlasError, match="frame: holds no rows"):
        fedatlas.import_runs(curves()[:0])
    with pytest.raises(FedatlasError, match=r"holds no files of tensorboard \(.*csv \(\*"):
        fedatlas.import_runs(tmp_path)
    (tmp_path / "a.parquet").write_text("no", encoding="utf-8")
    with pytest.raises(FedatlasError, match=r"a\.parquet: cannot be read as Parquet \(\*\.parquet"):
        fedatlas.import_runs(tmp_path)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_of_another_format_is_named_with_what_is_expected(tmp_path, kind):
    for name, text in (("empty.csv", ""), ("plain.csv", "round,acc\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
        with pytest.raises(FedatlasError) as told:
            fedatlas.import_runs(tmp_path / name, format=kind)
        assert name in str(told.value) and FORMATS[kind].holds in str(told.value)


def test_lines_of_csv_are_those_of_editors(tmp_path):
    for seed, value in enumerate(("0.5", "good")):
        text = f"round,test_acc\n0,0.1\n1,{value}\n"
        (tmp_path / f"mine-{seed}.csv").write_text(text, encoding="utf-8")
    with pytest.raises(FedatlasError, match="column 'test_acc', line 3 of mine-1: 'good'"):
        fedatlas.import_runs(tmp_path)
    with pytest.raises(FedatlasError, match="column 'test_acc', line 3: 'good'"):
        fedatlas.import_runs(tmp_path / "mine-1.csv")


def test_a_cost_that_stays_after_its_first_record_is_told():
    atlas = fedatlas.import_runs(curves(bytes_up=lambda rows: 5 * (rows["round"] > 0)))
    notes = atlas.attributes("ours/mine")["notes"]
    assert notes.count("bytes_up stays at 5 after its first record: write sum(bytes_up)") == 4


def test_a_misspelt_problem_is_refused(tmp_path):
    curves().to_csv(tmp_path / "log.csv", index=False)
    (tmp_path / "m.yaml").write_text("problem: crosspaper-a9b\n", encoding="utf-8")
    asked = ("import", tmp_path / "log.csv", "--output", tmp_path, "--mapping", tmp_path / "m.yaml")
    told = str(command(*asked).exception)
    assert "problem: no experiment 'crosspaper-a9b'" in told
    assert "similar: crosspaper-a9a" in told


# --- beside others ---


@pytest.fixture
def published(tmp_path):
    return one_run(tmp_path / "published", problem(noisy_trace(0.8)), "page", "theirs-a")


def test_a_declared_problem_puts_runs_beside_published_ones(tmp_path, published):
    mine = fedatlas.import_runs(curves(), problem="theirs-a")
    for ours, theirs in ((mine, published), (published, mine)):
        found = fedatlas.compare(ours, "test_accuracy", "round", 0.25, against=theirs)
        (told,) = [one for one in found.remarks() if "foreign" in one]
        assert told.startswith("note: mine/mine, mine/other: foreign: made elsewhere, read from")
        assert "lacks digests of code and data, hyper-parameters; that it solves" in told
        assert told.endswith("the problem of theirs-a was declared, not checked")
        assert sum("(foreign)" in name for name in found.table().index) == 2
        assert np.array_equal(
            spent(ours, 0.25, against=theirs), found.dataset["cost_to_target"][..., 0], True
        )
    drawn = fedatlas.plot(mine, "test_accuracy", "round", against=published)
    labels = [text.get_text() for text in drawn.figure.axes[0].get_legend().get_texts()]
    assert sum("(foreign)" in label for label in labels) == 2


def test_without_a_declared_problem_no_published_run_is_comparable(published):
    mine = fedatlas.import_runs(curves(), experiment="log")
    told = 'theirs-a/page: problem: "log" here, "theirs-a" published; say in the mapping'
    with pytest.raises(FedatlasError, match=told):
        fedatlas.compare(mine, "test_accuracy", "round", 0.25, against=published)


def test_runs_made_elsewhere_are_published_and_profiled(tmp_path):
    curves().to_csv(tmp_path / "log.csv", index=False)
    results = tmp_path / "mine"
    (tmp_path / "m.yaml").write_text("titles: {mine: Ours}\n", encoding="utf-8")
    done = command(
        "import", tmp_path / "log.csv", "--output", results, "--mapping", tmp_path / "m.yaml"
    )
    assert done.stdout.splitlines()[0].startswith("run: method, seed: seed, round: round")
    assert done.stdout.splitlines()[-1] == f"{results}/experiments/log/traces.nc: mine, other"
    profiles = fedatlas.profile(results, "test_accuracy", "round", [0.25, 0.3])
    assert [*profiles.table("round").index] == ["other (foreign)", "Ours (foreign)"]
    assert profiles.notes[0].startswith("log/mine, log/other: foreign: made elsewhere")
    atlas, made = fedatlas.open_atlas(results), Publication({})
    publish(atlas, results / "experiments", tmp_path / "published", made)
    assert np.allclose(spent(tmp_path / "published", 0.25), spent(results, 0.25), rtol=1e-3)


def test_a_published_folder_says_what_was_made_elsewhere_and_is_not_checked(tmp_path):
    for problem_said in ({}, {"problem": "theirs-a"}):
        results = tmp_path / f"mine-{len(problem_said)}"
        atlas = fedatlas.import_runs(curves(), results, experiment="log", **problem_said)
        publish(atlas, results / "experiments", folder := results / "published", Publication({}))
        crate = json.loads((folder / "ro-crate-metadata.json").read_text(encoding="utf-8"))
        (root,) = (one for one in crate["@graph"] if one["@id"] == "./")
        readme = " ".join((folder / "README.md").read_text(encoding="utf-8").split())
        for told in (root["description"], readme):
            assert "log/mine, log/other: foreign: made elsewhere, read from" in told
            not_checked = "problem of theirs-a was declared, not checked" in told
            assert not_checked == bool(problem_said)


def test_a_declared_problem_is_one_of_profiles_and_the_explorer(tmp_path, published):
    both = tmp_path / "both"
    shutil.copytree(published, both / "theirs")
    own = fedatlas.open_atlas(both / "theirs")
    publish(own, both / "none", both / "published", Publication({}))
    shutil.rmtree(both / "theirs")
    mine = fedatlas.import_runs(curves(), both / "mine", problem="theirs-a")
    found = fedatlas.profile([mine, both / "published"], "test_accuracy", "round", [0.25, 0.3])
    assert {*found.table("round").index} == {
        *("mine (foreign)", "other (foreign)"),
        "PAGE (published)",
    }
    found.save(tmp_path / "p.tex")
    caption = (tmp_path / "p.tex").read_text(encoding="utf-8").partition("\\end{table")[0]
    assert "6 problems at least. 1 problem with" in caption
    # A folder of both holds all, also for the explorer.
    assert {*fedatlas.open_atlas(both).runs()["run"]} == {"mine", "other", "page"}


def test_a_profile_finds_names_in_any_folder_and_tells_equal_ones_apart(tmp_path, published):
    mine = fedatlas.import_runs(
        curves(method=["page"] * 8 + ["mine"] * 8), tmp_path / "mine", problem="theirs-a"
    )
    asked = [mine, published], "test_accuracy", "round", [0.25, 0.3]
    found = fedatlas.profile(*asked, runs=["mine", "theirs-a/page"])
    assert {*found.titles} == {"mine", "page"}
    assert {*fedatlas.profile(*asked, runs="page").titles} == {"page", "page (foreign)"}
    titles = {*fedatlas.profile(*asked).titles.values()}
    assert titles == {"page (foreign)", "mine (foreign)", "PAGE (published)"}
    with pytest.raises(FedatlasError, match=r"runs: pag not found; there are page, mine$"):
        fedatlas.profile(*asked, runs=["pag"])
    twice = one_run(tmp_path / "twice", problem(noisy_trace(0.8)), "page", "theirs-a")
    with pytest.raises(FedatlasError, match=r"theirs-a/page: is in .*hed and in .*twice:"):
        fedatlas.profile([*asked[0], twice], *asked[1:])


def test_many_runs_of_other_problems_are_one_line(tmp_path):
    runs = {"page": ("PAGE", {"only": problem(noisy_trace(0.8))})}
    held = {f"theirs-{n}": ({}, runs) for n in "abcde"}
    published = write_atlas(tmp_path / "published", {"ours": held})
    mine = fedatlas.import_runs(curves(), problem="theirs-a")
    asked = (mine, "test_accuracy", "round", 0.25)
    (told,) = fedatlas.compare(*asked, against=published).dataset.attrs["not_comparable"]
    assert told.startswith("4 runs of 4 experiments (theirs-b, theirs-c, theirs-d, …): problem: ")
    assert '"theirs-a" here, another published; say in the mapping' in told
    few = fedatlas.compare(*asked, against=published, published=["theirs-[abc]"])
    assert len(few.dataset.attrs["not_comparable"]) == 2


def test_commands_say_what_is_wrong_with_files_and_folders(tmp_path):
    curves().to_csv(tmp_path / "log.csv", index=False)
    mine = tmp_path / "mine"
    command("import", tmp_path / "log.csv", "--output", mine)
    asked = ("--metric", "test_accuracy", "--target", 0.25)
    told = str(command("compare", tmp_path / "mien", *asked).exception)
    assert told == f"{tmp_path / 'mien'}: there is no such file or folder; similar: mine"
    told = str(command("compare", mine, *asked, "--against", tmp_path / "none" / "x").exception)
    assert "none/x: there is no such file or folder; name a folder of results" in told
    for option in ("--table", "--figure"):
        file = tmp_path / "log.csv" / f"x{'.csv' if option == '--table' else '.svg'}"
        told = str(command("compare", mine, *asked, "--cost", "round", option, file).exception)
        assert told.endswith("log.csv is a file, not a folder: name another place")
    both = ("--table", tmp_path / "t.tex", "--figure", tmp_path / "t.tex")
    told = str(command("compare", mine, *asked, *both).exception)
    assert "t.tex: is the file of --figure, too: name another file" in told
    publish(fedatlas.open_atlas(mine), mine / "experiments", tmp_path / "out", Publication({}))
    told = command("verify", tmp_path / "out").stdout
    assert told == f"{tmp_path / 'out'}: has no verdicts, so there is nothing to judge again\n"


def test_runs_that_were_trained_are_not_replaced(tmp_path):
    write_atlas(tmp_path / "experiments" / "a", {})
    one_run(tmp_path / "experiments" / "a", problem(noisy_trace(0.8)), experiment="traces")
    with pytest.raises(FedatlasError, match=r"traces\.nc: holds runs that fedatlas trained"):
        fedatlas.import_runs(curves(), tmp_path, experiment="a")
    fedatlas.import_runs(curves(), tmp_path, experiment="b")
    fedatlas.import_runs(curves(), tmp_path, experiment="b")


def test_the_mapping_of_the_guide_is_one():
    guide = (ROOT / "docs" / "curves.md").read_text(encoding="utf-8")
    shown = guide.partition("<!-- mapping -->\n```yaml\n")[2].partition("```")[0]
    rows = pd.DataFrame(
        {"method": "fedprox", "epoch": [0, 1], "upload": 8, "acc": [10, 50], "train_loss": [1, 0.5]}
    )
    trace = fedatlas.import_runs(rows, **yaml.safe_load(shown)).sel("runs", "fedprox")
    assert np.allclose(trace["bytes"], [8, 16 + 31400])
    assert np.allclose(trace["suboptimality"], [1 - 0.3244566, 0.5 - 0.3244566])
    keys = set(re.findall(r"`(\w+)`", guide.partition("| key | says |")[2].partition("\n\n")[0]))
    assert keys == {*CurvesMapping.model_fields}


# --- there and back ---


def test_exported_runs_come_back_as_they_were(tmp_path):
    atlas = fedatlas.open_atlas(small_atlas(tmp_path / "atlas"))
    export_table(atlas, atlas.places(), tmp_path / "table.parquet", {})
    rows = pd.read_parquet(tmp_path / "table.parquet")
    rows = rows[(rows.experiment == "fedpage-first") & rows.selected]
    back = fedatlas.import_runs(rows, experiment="fedpage-first")
    for run in ("page", "avg", "auc"):
        one, other = (each.sel("fedpage-first", run) for each in (atlas, back))
        assert [*one["status"]] == [*other["status"]]
        for name in {*one.variables} & {*other.variables} - {"record"}:
            assert one[name].variable.equals(other[name].variable)
        assert {*one.data_vars} == {*other.data_vars}


def test_a_seed_with_fewer_records_comes_back_with_these(tmp_path):
    rows = curves().drop(index=[14, 15])
    atlas = fedatlas.import_runs(rows)
    export_table(atlas, atlas.places(), tmp_path / "table.csv", {})
    table = pd.read_csv(tmp_path / "table.csv")
    assert table.groupby(["run", "seed"]).size().tolist() == [4, 4, 4, 2]
    back = fedatlas.import_runs(table[["run", "seed", "round", "test_accuracy"]])
    assert np.array_equal(spent(back, 0.25), spent(atlas, 0.25))


def test_a_data_set_of_xarray_is_taken(tmp_path):
    trace = noisy_trace(0.8)
    back = fedatlas.import_runs(trace, experiment="x").sel("x", "mine")
    for name in ("round", "bytes_up", "gradient_norm", "test_accuracy"):
        assert np.array_equal(*np.broadcast_arrays(back[name], trace[name]))
    assert json.loads(back.attrs["specification"])["seeds"] == [0, 1, 2]
