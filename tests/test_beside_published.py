"""Published runs beside one's own: what makes them comparable, and what notes say of them."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import fedatlas
from atlas_factory import one_run, problem, write_atlas
from experiment_files import BASE, RUN, load
from fedatlas.cli.new import Kind, new
from fedatlas.code import code_digest
from fedatlas.errors import FedatlasError
from fedatlas.files import canonical_json, write_text
from fedatlas.plan.build import Plan, build_plan
from fedatlas.schema.models import validated
from fedatlas.schema.runs import RunSpec
from fedatlas.store.atlas import AtlasRun, atlas_runs
from fedatlas.store.beside import differences
from fedatlas.store.publishing import Publication, publish
from fedatlas.store.views import is_thinned, kept_records, thinned
from figure_factory import caption
from outside_project import open_project, write_project
from trace_factory import make_trace
from workflow_copy import ROOT

# What a trace records of a run over parties that this version can read.
OF_PARTIES = {
    **{"paper": "ours", "experiment": "ours-a", "run": "page", "point": "only"},
    **{"algorithm": "vfb2_svrg", "hyper_parameters": {}, "record_every": 10, "seeds": [0]},
    "partition": {"kind": "vertical", "parties": 8, "active": 3, "test": 100, "samples": None},
    "network": {"latency": 0.02},
}


def of_parties(**declared) -> xr.Dataset:
    return problem(make_trace([[1, 0.1]]), **(OF_PARTIES | declared))


def compared(tmp_path: Path, ours: xr.Dataset, theirs: xr.Dataset, *costs: str, **options):
    mine = one_run(tmp_path / "mine", ours, "new", "mine-a9a")
    other = one_run(tmp_path / "published.nc", theirs)
    asked = ("gradient_norm", list(costs) or ["bytes"], 0.5)
    return fedatlas.compare(mine, *asked, against=other, **options)


def notes_of(*arguments, **options) -> list[str]:
    return compared(*arguments, **options).dataset.attrs["notes"]


# --- recorded specifications ---


@pytest.mark.parametrize("current", [True, False])
def test_code_that_is_not_that_of_today_is_named(tmp_path, current):
    here = code_digest(*validated(RunSpec, declared(of_parties()), "run").code)
    theirs = of_parties().assign_attrs(source_digest=here if current else "c" * 64)
    said = "ours-a/page: published by other code than is installed here"
    assert notes_of(tmp_path, of_parties(), theirs) == ([] if current else [said])


def declared(trace: xr.Dataset) -> dict:
    return json.loads(trace.attrs["specification"])


def test_a_method_is_missing_only_where_it_is(tmp_path):
    (note,) = notes_of(tmp_path, of_parties(), of_parties(algorithm="unheard_of"))
    assert note.endswith("published by the method unheard_of, which is not installed here")
    older = of_parties(network={"latency": 0.02, "mask_scale": 1.0})
    (note,) = notes_of(tmp_path, of_parties(), older)
    assert "not installed" not in note
    assert "of another version of fedatlas than is installed here (network.mask_scale)" in note


def test_keys_that_a_recorded_run_lacks_have_their_usual_values(tmp_path):
    holders = OF_PARTIES["partition"] | {"label_holders": "first", "assignment": "shuffled"}
    found = compared(tmp_path, of_parties(partition=holders), of_parties())
    assert found.dataset.sizes["run"] == 2
    # Also where another part of what it states cannot be read today.
    older = of_parties(network={"latency": 0.02, "mask_scale": 1.0})
    assert compared(tmp_path, of_parties(partition=holders), older).dataset.sizes["run"] == 2
    every = of_parties(partition=holders | {"label_holders": "every_choice"})
    with pytest.raises(
        FedatlasError, match='label_holders: "every_choice" here, "first" published'
    ):
        compared(tmp_path, every, of_parties())


# --- records, seeds and effort ---


def falling(records: int, **options) -> xr.Dataset:
    """Over parties; falls at once in the middle, which lines between fewer records spread out."""
    falls = np.where(np.arange(records) < records // 2, 1.0, 1e-3)
    return problem(make_trace([falls, falls * 1.1, falls * 0.9], **options), **OF_PARTIES)


def published_table(tmp_path: Path, trace: xr.Dataset, records: int | None = None) -> Path:
    atlas = one_run(tmp_path / "whole", trace)
    opened = fedatlas.open_atlas(atlas)
    publish(opened, tmp_path / "none", tmp_path / "table", Publication({}, records=records))
    return tmp_path / "table"


def test_ours_are_thinned_as_the_published_runs_are(tmp_path):
    """Equal traces cost the same; without thinning ours they would seem to differ."""
    trace = falling(101)
    mine = one_run(tmp_path / "mine", trace, "new", "mine-a9a")
    thin = published_table(tmp_path, trace, records=20)
    asked = (mine, "gradient_norm", ["round", "bytes"], 0.01)
    found = fedatlas.compare(*asked, against=thin).dataset
    np.testing.assert_allclose(found["centre"][0], found["centre"][1], rtol=1e-5)
    assert found.attrs["notes"][-1] == (
        "yours are thinned likewise; costs may be some 10 % off those of whole traces"
    )
    whole = fedatlas.compare(*asked, against=thin, whole=True).dataset
    assert abs(whole["centre"][1, 0] / whole["centre"][0, 0] - 1) > 0.01
    assert "yours are not thinned" in whole.attrs["notes"][-1]
    (axes,) = fedatlas.plot(mine, "gradient_norm", "round", against=thin).figure.axes
    medians = [line for line in axes.lines if line.get_linewidth() > 1]
    assert {len(line.get_xdata()) for line in medians} == {18}
    # One that has no more records than are published is read off as they are.
    short = one_run(tmp_path / "short", falling(12), "new", "mine-a9a")
    found = fedatlas.compare(short, *asked[1:], against=thin)
    assert not any(note.startswith("yours are") for note in found.dataset.attrs["notes"])
    said = "costs are read off lines between the records that were kept"
    assert [said in note for note in found.remarks()].count(True) == 1
    untouched = fedatlas.compare(*asked, against=published_table(tmp_path, trace)).dataset
    np.testing.assert_array_equal(untouched["centre"][0], whole["centre"][0])
    assert not any(note.startswith("yours are") for note in untouched.attrs["notes"])


def test_a_schedule_of_another_length_is_thinned_to_as_many_records(tmp_path):
    thin = fedatlas.open_atlas(published_table(tmp_path, falling(101), records=20))
    published = thin.dataset("ours/ours-a/page/only")
    own = thinned(falling(301), 20)
    np.testing.assert_array_equal(own["record"], kept_records(301, 20))
    short = thinned(falling(12), 20)
    assert short.sizes["record"] == 12 and not is_thinned(short) and is_thinned(own)
    again = thinned(published, 40)  # what is published once more is as thin as before
    assert again.attrs["thinned"] == "18 of 101 records" and is_thinned(again)


def test_seeds_that_are_only_partly_the_same_are_told(tmp_path):
    theirs = problem(make_trace([[1, 0.1]] * 6), **OF_PARTIES)
    ours = problem(make_trace([[1, 0.1]] * 3), **OF_PARTIES)
    (note,) = [note for note in notes_of(tmp_path, ours, theirs) if "seed" in note]
    assert note == "ours-a/page: seeds 0 to 5, yours 0 to 2: only some are the same"
    assert not [note for note in notes_of(tmp_path, theirs, theirs) if "seed" in note]


def test_tuning_with_other_effort_is_told(tmp_path):
    """By records of selections; a run without any has as many points as are there."""
    folder = tmp_path / "all" / "published"
    folder.mkdir(parents=True)
    shutil.move(published_table(tmp_path, of_parties()) / "ours-a.nc.xz", folder / "ours-a.nc.xz")
    mine = one_run(tmp_path / "mine", of_parties(), "new", "mine-a9a")
    record = {"page": {"selected": "only", "tried": 16}}
    write_text(folder / "selections" / "ours-a.json", json.dumps({"runs": record}))
    for against in (folder, folder.parent):
        found = fedatlas.compare(mine, "gradient_norm", "bytes", 0.5, against=against)
        told = "ours-a/page: best of 16 points of its grid; yours: one point"
        assert told in found.dataset.attrs["notes"]
    points = {name: of_parties() for name in ("step-1", "step-2")}
    several = write_atlas(tmp_path / "two", {"ours": {"mine-a9a": ({}, {"new": ("N", points)})}})
    found = fedatlas.compare(several, "gradient_norm", "bytes", 0.5, against=folder)
    assert any(note.endswith("yours: best of 2 points") for note in found.dataset.attrs["notes"])
    record["page"] = {"selected": "only", "candidates": [{"point": "only"}]}
    write_text(folder / "selections" / "ours-a.json", json.dumps({"runs": record}))
    found = fedatlas.compare(mine, "gradient_norm", "bytes", 0.5, against=folder)
    assert not any("grid" in note for note in found.dataset.attrs["notes"])


# --- what is comparable ---


def test_simulated_time_of_other_settings_names_the_cost_that_they_have(tmp_path):
    clocks = {"simulated_time": [[0, 1]]}
    star = problem(make_trace([[1, 0.1]], **clocks))
    theirs = problem(make_trace([[1, 0.1]], **clocks), **OF_PARTIES)
    said = r"no clock of its own: .* network\(latency=0\.02, bandwidth=…, gradient=…\) in its"
    with pytest.raises(FedatlasError, match=f"network: null here, .*{said}"):
        compared(tmp_path, star, theirs, "simulated_time")


def test_our_own_runs_must_be_comparable_with_each_other(tmp_path):
    clients = {"kind": "horizontal", "test": 100, "samples": None}
    runs = {
        str(number): (str(number), {"only": problem(make_trace([[1, 0.1]]), partition=declared)})
        for number, declared in ((n, clients | {"clients": n}) for n in (3250, 325))
    }
    mine = write_atlas(tmp_path / "mine", {"ours": {"mine-a9a": ({}, runs)}})
    asked = (mine, "gradient_norm", "bytes", 0.5)
    said = (
        r"mine-a9a/3250/only and mine-a9a/325/only solve different problems \(partition\.clients: "
        r"3250 and 325\); choose runs of one problem"
    )
    other = one_run(tmp_path / "published.nc", runs["3250"][1]["only"])
    with pytest.raises(FedatlasError, match=said):
        fedatlas.compare(*asked, against=other)
    assert fedatlas.compare(*asked, against=other, runs=["3250"]).dataset.sizes["run"] == 2
    assert fedatlas.compare(*asked).dataset.sizes["run"] == 2  # side by side without others'


# --- the figure ---


def test_published_curves_are_dashed_and_no_two_look_alike(tmp_path):
    """Also of more runs than there are colours, and without colours."""
    runs = {f"run-{n}": (f"Run {n}", {"only": of_parties()}) for n in range(13)}
    mine = write_atlas(tmp_path / "mine", {"ours": {"mine-a9a": ({}, runs)}})
    other = write_atlas(tmp_path / "other", {"ours": {"ours-a": ({}, runs)}})
    drawn = fedatlas.plot(mine, "gradient_norm", "bytes", against=other).figure
    assert "Solid: ours; dashed, with hollow marks: published" in caption(drawn)
    (legend,) = drawn.legends
    looks = []
    for line, text in zip(legend.get_lines(), legend.get_texts(), strict=True):
        published = "(published)" in text.get_text()
        assert line.is_dashed() == published
        assert published == (line.get_markerfacecolor() == "white")
        looks.append((line.get_color(), line.get_linestyle(), line.get_marker()))
    assert len(set(looks)) == len(looks) == 26
    alone = fedatlas.plot(mine, "gradient_norm", "bytes").figure
    assert "published" not in caption(alone)


# --- an experiment that is like a published one ---


def comparable_experiment() -> str:
    """As docs/published.md shows it."""
    page = (ROOT / "docs" / "published.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- experiment: mine-a9a -->\n```yaml\n(.*?)```", page, re.DOTALL)
    assert found
    return found[1]


def planned(folder: Path, declared: str, monkeypatch) -> Plan:
    """Beside the experiment that it is like, in a project with a method that was just begun."""
    config = folder / "config"
    files = ("datasets.yaml", "papers.yaml", "experiments/crosspaper/grid-a9a.yaml")
    texts = {name: (ROOT / "config" / name).read_text(encoding="utf-8") for name in files}
    write_project(config, texts)
    lab = open_project(folder / "lab", {"experiments/mine-a9a.yaml": declared}, monkeypatch)
    return build_plan(config, lab)


@pytest.fixture
def lab(tmp_path, monkeypatch) -> Path:
    """A folder with a project, which has the method `mine`."""
    (tmp_path / "lab").mkdir()
    monkeypatch.chdir(tmp_path / "lab")
    new(Kind.METHOD, "mine")
    return tmp_path


def test_the_shown_experiment_is_comparable_with_published_runs(lab, monkeypatch):
    plan = planned(lab, comparable_experiment(), monkeypatch)
    runs = [run for run in plan.runs.values() if run.experiment == "project-mine-a9a"]
    assert len(runs) == 16 and {run.algorithm for run in runs} == {"mine"}
    ours = make_trace([[1, 0.1]]).assign_attrs(
        specification=canonical_json(runs[0].model_dump(mode="json"))
    )
    mine = AtlasRun("ours", "project-mine-a9a", "mine", "only", "Mine", True, ours)
    atlas = fedatlas.open_atlas(ROOT / "published" / "crosspaper")
    others = list(atlas_runs(atlas, experiments=["crosspaper-a9a"]))
    network = "network(latency=0.02, bandwidth=1e7, gradient=2.8e-6)"
    for other in others:
        assert not list(differences(mine, other, "suboptimality", ["bytes", network]))
    assert len(others) == 8


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ("network: null", "belongs to vertical partitions; .*inherited from crosspaper-grid-a9a: "),
        ("graphs: null", "no run works on graphs; inherited from crosspaper-grid-a9a: write "),
    ],
)
def test_inherited_keys_that_suit_no_run_say_whose_they_are(lab, monkeypatch, own, said):
    """And what to write in their place, as there is nothing to remove."""
    declared = comparable_experiment()
    line = next(line for line in declared.splitlines(keepends=True) if line.startswith(own))
    with pytest.raises(FedatlasError, match=f"mine-a9a.yaml.*{said}.*`{own}`"):
        planned(lab, declared.replace(line, ""), monkeypatch)


def test_other_keys_are_told_likewise(tmp_path):
    """Also of a model that has a model; what a file states itself can be removed there."""
    order = {"kind": "order", "first": "one", "second": "two", "relation": "faster"}
    tuned = RUN | {"grid": {"local_step_size": [0.1, 0.2]}}
    model = BASE | {
        "runs": {"one": tuned, "two": tuned},
        "tuning_seeds": [7, 8],
        "claims": [{"id": "a", "source": "b", "statement": "c", "test": order}],
    }
    middle = {"like": "paper-model", "title": "middle"}
    own = {"extends": "paper-middle", "runs": {"mine": RUN}}

    def refused(said: str, content: dict) -> None:
        with pytest.raises(FedatlasError, match=said):
            load(tmp_path, model=model, middle=middle, own=content)

    refused("runs are mine; 'claims' is inherited from paper-model: state your own", own)
    own["claims"] = []
    refused("several points; inherited from paper-model: write `tuning_seeds: \\[\\]`", own)
    refused("tuning_seeds: no run has .*; remove it", own | {"tuning_seeds": [9]})
    for empty in ([], None):
        load(tmp_path, model=model, middle=middle, own=own | {"tuning_seeds": empty})
    # What is null is not inherited, whatever the key.
    refused("missing key 'rounds'", own | {"tuning_seeds": None, "rounds": None})


@pytest.mark.parametrize("folder", sorted((ROOT / "published").iterdir()), ids=lambda it: it.name)
def test_every_published_run_has_a_specification_of_today(folder):
    atlas = fedatlas.open_atlas(folder)
    for run in atlas_runs(atlas, all_points=True):
        validated(RunSpec, json.loads(run.trace.attrs["specification"]), run.name)
