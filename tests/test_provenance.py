"""Digests checked again after every kind of tampering, and results compared with others."""

import hashlib
import json
import os
import pickle
import shutil
import subprocess
from collections import Counter
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file
from typer.testing import CliRunner

from atlas_factory import join_experiment
from catalogue_entry import entry
from fedatlas.cli import app
from fedatlas.data.download import Fetching, download
from fedatlas.data.prepare import prepare
from fedatlas.data.raw_files import LOCK
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.selection import by_run, select
from fedatlas.federations.context import shard_files
from fedatlas.federations.vertical.shards import read_party_shards
from fedatlas.files import canonical_json, write_text
from fedatlas.plan.build import build_plan
from fedatlas.provenance import verification
from fedatlas.provenance.difference import Tolerance, compare, compare_traces
from fedatlas.provenance.expected import State
from fedatlas.provenance.verification import exit_status, verify
from fedatlas.schema.runs import read_optimum, write_optimum
from fedatlas.shards.writing import write_shards
from fedatlas.store.netcdf import seal, write_netcdf
from fedatlas.store.trace import read_trace, values_digest, write_trace
from fedatlas.training.loop import train
from fedatlas.training.seeds import SeedPolicy
from fedatlas.training.solver import solve
from forking import forks
from trace_factory import make_trace
from workflow_copy import ROOT

CATALOGUE = {
    "small": entry(
        features=6,
        labels={-1: -1, 1: 1},
        splits={
            "train": {"rows": 40, "files": [{"path": "set/small"}]},
            "test": {"rows": 12, "files": [{"path": "set/small.t.bz2", "decompress": "bz2"}]},
        },
    )
}
SETTINGS = """
paper: ours
title: "Tiny"
source: "a test"
dataset: small
partition: {kind: horizontal, assignment: consecutive, clients: 5, test: test}
objective: {name: logistic_l2, weight: 1.0e-1}
rounds: 4
record_every: 2
seeds: [0, 1]
runs:
  star:
    algorithm: fedavg
    hyper_parameters: {clients_per_round: 2, local_steps: 2, batch_size: 2}
    grid: {local_step_size: [0.5, 0.1]}
  parties:
    algorithm: vfb2_sgd
    partition: {kind: vertical, parties: 2, active: 1, test: 0.25}
    hyper_parameters: {step_size: 0.1}
  silos:
    algorithm: tdcd
    partition: {kind: tiered, cut: {columns: 2}, clients: 4}
    hyper_parameters: {local_steps: 2, batch_size: 10, step_size: 0.1}
"""
TUNED = """
extends: demo-settings
figure: {measurement: suboptimality}
seeds: [3, 4]
runs:
  star: {algorithm: fedavg, tuned_in: demo-settings, hyper_parameters: {clients_per_round: 3}}
  best:
    algorithm: vfb2_svrg
    partition: {kind: vertical, parties: 2, active: 1, test: test, seed: 0}
    hyper_parameters: {step_size: 0.1}
"""
STAR = "experiments/demo-settings/traces/star/local_step_size-0.1.nc"
PARTIES = "experiments/demo-settings/traces/parties/only.nc"
BEST = "experiments/demo-tuned/traces/best/only.nc"
TUNED_STAR = "experiments/demo-tuned/traces/star/tuned.nc"
HORIZONTAL = "shards/small/train/horizontal-consecutive-5-on-test"


def write_libsvm(path, rows, seed):
    random = np.random.default_rng(seed)
    values = random.normal(size=(rows, 6))
    path.parent.mkdir(parents=True, exist_ok=True)
    dump_svmlight_file(values, np.sign(values @ random.normal(size=6)), str(path), zero_based=False)


def make_results(folder):
    """What the workflow makes of two small experiments, by the same functions."""
    config, results = folder / "config", folder / "results"
    write_text(config / "datasets.yaml", yaml.safe_dump(CATALOGUE))
    shutil.copy2(ROOT / "config" / "papers.yaml", config)
    write_text(config / "experiments" / "demo" / "settings.yaml", SETTINGS)
    write_text(config / "experiments" / "demo" / "tuned.yaml", TUNED)
    plan = build_plan(config)
    raw = {"train": results / "raw/set/small", "test": results / "raw/set/small.t"}
    write_libsvm(raw["train"], 40, 1)
    write_libsvm(raw["test"], 12, 2)
    served = hashlib.sha256(raw["train"].read_bytes()).hexdigest()
    write_text(config / "checksums.lock.json", json.dumps({"set/small": f"sha256:{served}"}))
    data = {split: results / "data" / "small" / f"{split}.parquet" for split in raw}
    for split, file in data.items():
        prepare(plan.catalogue["small"], split, [raw[split]], file)
    shards = results / "shards" / "small" / "train"
    for slug, partition in plan.partitions.items():
        files = shard_files(shards / slug, partition.silos)
        test = data["test"] if partition.test_split else None
        manifest = shards / slug / "manifest.json"
        write_shards(data["train"], partition, files, manifest, test)
    optima = results / "optima" / "small" / "train"
    for rows, partition in plan.pooled.items():
        pooled = read_party_shards(shard_files(shards / partition.slug, 1)).train
        for slug, objective in plan.objectives.items():
            write_optimum(solve(pooled, objective)[1], optima / rows / f"{slug}.json")
    train_and_join(plan, results)
    return folder


def forget_joined(copy):
    for file in (copy / "results" / "experiments").glob("*/traces.nc"):
        file.unlink()


def train_and_join(plan, results):
    experiments, policy = results / "experiments", SeedPolicy(results / "seeds", 60)
    for name, experiment in plan.experiments.items():
        traces = []
        for spec in plan.runs_of(name):
            if spec.tuned_in:
                selection = experiments / spec.tuned_in / "selection.json"
                spec = spec.tuned(json.loads(selection.read_text()))
            output = experiments / name / "traces" / spec.run / f"{spec.point}.nc"
            split = Path("small") / "train"
            shards, optima = (results / kind / split for kind in ("shards", "optima"))
            traces.append(train(spec, shards, output, optima=optima, seeds=policy))
        record = select(by_run(traces), experiment.selection)
        write_text(experiments / name / "selection.json", json.dumps(record))
    join(plan, results)


def join(plan, results):
    for name in plan.experiments:
        join_experiment(results / "experiments" / name, plan.run_titles(name))


def fedatlas(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return make_results(tmp_path_factory.mktemp("provenance") / "whole")


@pytest.fixture
def copy(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def checked(folder):
    return verify(folder / "results", folder / "config", folder / LOCK)


def drift(folder):
    """path → {(state, check)} of what is not as recorded, besides results that no trace has now."""
    return {
        file.path: {(f.state, f.check) for f in file.findings}
        for file in checked(folder)
        if {f.check for f in file.findings} - {"use"}
    }


def test_untouched_results_are_clean_and_nothing_is_left_unchecked(finished):
    before = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    files = checked(finished)
    assert [file for file in files if file.findings] == []
    kinds = Counter(file.kind for file in files)
    assert kinds.keys() == {"raw", "prepared", "shards", "optimum", "trace", "seed", "experiment"}
    assert (kinds["trace"], kinds["seed"]) == (6, 12)
    origins = [origin for file in files for origin in file.seeds.values()]
    assert {(origin.folder, origin.device) for origin in origins} == {
        (str(finished / "results/seeds"), "cpu")
    }
    assert all(origin.versions["numpy"] == np.__version__ for origin in origins)
    assert exit_status(files) == 0
    assert {path: path.read_bytes() for path in before} == before


# Tampering: each takes the folder and changes one thing.


@contextmanager
def edited(path):
    """A file that is changed by who knows of seals."""
    with h5py.File(path, "r+") as file:
        yield file
    seal(path)


def edit_attribute(name, change):
    def edit(path):
        with edited(path) as file:
            value = file.attrs[name]
            text = value.decode() if isinstance(value, bytes) else str(value)
            del file.attrs[name]
            file.attrs[name] = change(text)

    return edit


def edit_specification(name="specification", **changes):
    return edit_attribute(name, lambda text: canonical_json(json.loads(text) | changes))


edit_versions = partial(edit_specification, "versions")


def flip_last_digit(text):
    return text[:-1] + ("0" if text[-1] != "0" else "1")


def next_float(path, variable="objective", place=(1, 2)):
    with edited(path) as file:
        values = file[variable][...]
        values[place] = np.nextafter(values[place], np.inf)
        file[variable][...] = values


def flip_byte(path, place=-20):
    content = bytearray(path.read_bytes())
    content[place] ^= 0x10
    path.write_bytes(content)


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-100])


def replace_text(old, new):
    def edit(path):
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return edit


def edit_object(change):
    def edit(path):
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return edit


def other_selection(content):
    entry = content["runs"]["star"]
    (entry["selected"],) = {c["point"] for c in entry["candidates"]} - {entry["selected"]}


def set_status(path):
    trace = read_trace(path)
    trace["status"] = ("seed", ["ok", "diverged"])
    write_trace(trace, path)


TRACE_TAMPERING = {
    "values": (next_float, State.DAMAGED, "values"),
    "status": (set_status, State.DAMAGED, "values"),
    "values_digest": (
        edit_attribute("values_digest", flip_last_digit), State.DAMAGED, "values"),
    "source_digest": (edit_attribute("source_digest", flip_last_digit), State.STALE, "source"),
    "shard_digests": (
        edit_attribute("shard_digests", lambda text: text.replace('":"', '":"0', 1)),
        State.STALE, "shards"),
    "rounds": (edit_specification(rounds=5), State.STALE, "configuration"),
    "unknown key": (edit_specification(colour="red"), State.STALE, "configuration"),
    "nowhere": (edit_specification(algorithm="/etc/passwd"), State.STALE, "configuration"),
    "no JSON": (
        edit_attribute("specification", lambda text: text[1:]), State.UNREADABLE, "reading"),
    "versions": (edit_versions(numpy="1.0"), State.STALE, "environment"),
    "platform": (edit_versions(platform="PDP-11"), State.STALE, "environment"),
    "uninstalled": (edit_versions(leftpad="1.0"), State.STALE, "environment"),
    "point": (edit_attribute("point", lambda text: "other"), State.DAMAGED, "place"),
    "format": (edit_attribute("format", lambda text: "foreign"), State.UNREADABLE, "reading"),
    "cut short": (cut_short, State.UNREADABLE, "reading"),
    "foreign": (
        lambda path: write_netcdf(xr.Dataset({"x": 1.0}), path), State.UNREADABLE, "reading"),
}  # fmt: skip


@pytest.mark.parametrize("tampering", TRACE_TAMPERING)
def test_a_tampered_trace_is_told(copy, tampering):
    edit, *expected = TRACE_TAMPERING[tampering]
    forget_joined(copy)
    edit(copy / "results" / STAR)
    assert drift(copy) == {STAR: {tuple(expected)}}


@pytest.mark.parametrize(
    ("models", "driver", "expected"),
    [
        (set(), None, State.UNCHECKED),
        ({"Tesla T4"}, "570.86", State.UNCHECKED),  # another machine's
        ({"Tesla T4", "NVIDIA H100"}, "570.86", None),
        ({"NVIDIA H100"}, "580.10", State.STALE),
    ],
)
def test_a_gpus_driver_is_checked_where_such_a_gpu_is(copy, monkeypatch, models, driver, expected):
    monkeypatch.setattr(verification, "models", lambda: models)
    monkeypatch.setattr(verification, "driver_version", lambda: driver)
    forget_joined(copy)
    gpu = {"gpu": "NVIDIA H100", "gpu_driver": "570.86", "cuda": "12.8"}
    edit_versions(**gpu)(copy / "results" / STAR)
    assert drift(copy) == ({STAR: {(expected, "environment")}} if expected else {})


def found_anew(file):
    found = read_optimum(file)
    write_optimum(found.model_copy(update={"objective": found.objective + 1e-9}), file)


@pytest.mark.parametrize(
    ("edit", "of_file", "of_traces"),
    [
        (found_anew, None, State.STALE),
        (edit_object(lambda best: best.update(objective=0.125)), "reading", State.UNCHECKED),
        (edit_object(dict.clear), "reading", State.UNCHECKED),
        (edit_object(lambda best: best.pop("digest")), "digest", None),  # of an older version
    ],
)
def test_damage_of_an_optimum_is_told_of_itself_and_a_new_one_of_traces(
    copy, edit, of_file, of_traces
):
    (file,) = (copy / "results").glob("optima/*/*/*/*.json")
    edit(file)
    expected = {BEST: {(of_traces, "optima")}, TUNED_STAR: {(of_traces, "optima")}}
    expected = expected if of_traces else {}
    if of_file:
        state = State.UNREADABLE if of_file == "reading" else State.UNCHECKED
        expected[str(file.relative_to(copy / "results"))] = {(state, of_file)}
    assert drift(copy) == expected


def test_hyper_parameters_follow_the_selection(copy):
    selection = copy / "results/experiments/demo-settings/selection.json"
    edit_object(other_selection)(selection)
    assert drift(copy) == {TUNED_STAR: {(State.STALE, "configuration")}}
    selection.unlink()
    assert drift(copy) == {TUNED_STAR: {(State.UNCHECKED, "hyper_parameters")}}
    selection.write_text('{"runs": {"star": {}}}')
    assert drift(copy) == {TUNED_STAR: {(State.UNREADABLE, "reading")}}


def test_a_changed_configuration_makes_its_traces_stale_and_says_how(copy):
    file = copy / "config/experiments/demo/settings.yaml"
    replace_text("batch_size: 10", "batch_size: 20")(file)
    silos = "experiments/demo-settings/traces/silos/only.nc"
    assert drift(copy) == {silos: {(State.STALE, "configuration")}}
    (found,) = [f for f in checked(copy) if f.path == silos]
    assert "hyper_parameters.batch_size: 10 → 20" in found.findings[0].detail
    file.write_text(SETTINGS.replace("silos:", "renamed:"))
    assert drift(copy) == {silos: {(State.UNCHECKED, "name")}}


def test_leftovers_of_an_older_configuration_are_told(copy):
    (copy / "config/experiments/demo/tuned.yaml").unlink()
    found = drift(copy)
    assert {path.split("/")[0] for path in found} == {"experiments", "optima", "shards"}
    assert set.union(*found.values()) == {(State.STALE, "configuration")}

    def told():
        files = checked(copy)
        return next(file.findings[0].detail for file in files if file.path == BEST)

    assert told() == "its experiment is gone: the configuration has no demo-tuned"
    (copy / "config/experiments/demo/tuned.yaml").write_text("paper: [\n")
    with pytest.raises(FedatlasError, match=r"tuned\.yaml, line 2: is not valid YAML"):
        told()
    (copy / "config/experiments/demo/tuned.yaml").unlink()
    gone = build_plan(copy / "config").catalogue["small"].model_copy(update={"name": "gone"})
    raw, output = copy / "results/raw/set/small", copy / "results/data/gone/train.parquet"
    prepare(gone, "train", [raw], output)
    assert drift(copy)["data/gone/train.parquet"] == {(State.STALE, "configuration")}


def test_a_point_that_was_removed_is_left_over_once_its_experiment_is_made_without_it(copy):
    settings = copy / "config/experiments/demo/settings.yaml"
    replace_text("[0.5, 0.1]", "[0.1]")(settings)
    left = STAR.replace("-0.1", "-0.5")
    assert drift(copy)[left] == {(State.STALE, "configuration")}
    trace, aside = copy / "results" / left, copy / "aside.nc"
    trace.rename(aside)
    join(build_plan(copy / "config"), copy / "results")
    aside.rename(trace)
    assert drift(copy)[left] == {(State.UNCHECKED, "configuration")}
    assert exit_status(checked(copy)) == 0


def test_seeds_beyond_those_declared_are_known(copy):
    """As after `fedatlas run --decide`, which adds seeds, and after a plain run, without them."""
    replace_text("seeds: [0, 1]", "seeds: [0]")(copy / "config/experiments/demo/settings.yaml")
    assert drift(copy) == {}
    for trace in (copy / "results/experiments/demo-settings/traces").glob("*/*.nc"):
        trace.unlink()
    forget_joined(copy)
    assert drift(copy) == {}


def test_a_renamed_experiment_is_not_stale_and_one_with_other_numbers_is(copy):
    config = copy / "config/experiments/demo"
    (config / "tuned.yaml").rename(config / "another.yaml")
    assert drift(copy) == {file: {(State.UNCHECKED, "name")} for file in (BEST, TUNED_STAR)}
    assert exit_status(checked(copy)) == 0
    replace_text("step_size: 0.1", "step_size: 0.2")(config / "another.yaml")
    assert drift(copy)[BEST] == {(State.STALE, "configuration")}


def file_of_seed(folder, trace, seed="0"):
    (origin,) = [file.seeds[seed] for file in checked(folder) if file.path == trace]
    (file,) = Path(origin.folder).rglob(origin.file)
    return file


def test_files_of_seeds_are_checked_and_damage_is_told(copy):
    seeds = copy / "results/seeds"
    damaged, moved = file_of_seed(copy, STAR), file_of_seed(copy, PARTIES)
    flip_byte(damaged, place=damaged.stat().st_size // 2)
    other = moved.with_name(f"{'0' * 38}.npz")
    shutil.copy(moved, other)
    found = drift(copy)
    assert found == {
        str(damaged.relative_to(copy / "results")): {(State.UNREADABLE, "reading")},
        str(other.relative_to(copy / "results")): {(State.DAMAGED, "place")},
    }
    for file in (damaged, other):
        file.unlink()
    (trace,) = [file for file in checked(copy) if file.path == STAR]
    assert trace.seeds["0"].folder == "" and trace.seeds["1"].folder == str(seeds)
    (copy / "results" / STAR).unlink()
    unused = [file for file in checked(copy) if file.kind == "seed" and file.findings]
    assert {finding.check for file in unused for finding in file.findings} == {"use"}
    assert len(unused) == 1 and exit_status(unused) == 0


def test_results_of_seeds_may_lie_in_a_shared_folder(copy):
    shared = copy / "shared"
    (copy / "results/seeds").rename(shared)
    files = verify(copy / "results", copy / "config", copy / LOCK, seeds=shared)
    assert {one.folder for file in files for one in file.seeds.values()} == {str(shared)}
    outcome = fedatlas(
        *("verify", copy / "results", "--config", copy / "config", "--lock", copy / LOCK),
        *("--seeds", shared),
    )
    assert f"12 in {shared}" in " ".join(outcome.stdout.split())


def test_a_trace_whose_seeds_have_other_results_is_damaged(copy):
    forget_joined(copy)
    path = copy / "results" / STAR
    trace = read_trace(path).copy(deep=True)
    trace["objective"][0, 1] += 1
    trace.attrs["values_digest"] = values_digest(trace.variables)
    write_trace(trace, path)
    assert drift(copy) == {STAR: {(State.DAMAGED, "seeds")}}


MANIFEST = f"{HORIZONTAL}/manifest.json"


def edit_manifest(change):
    return lambda folder: edit_object(change)(folder / "manifest.json")


SHARD_TAMPERING = {
    "byte": lambda folder: flip_byte(folder / "silo-0.parquet"),
    "missing": lambda folder: (folder / "silo-0.parquet").unlink(),
    "digest": edit_manifest(lambda content: content["silos"][0].update(digest="0")),
    "partition": edit_manifest(lambda content: content.update(partition=None)),
    "place": edit_manifest(lambda content: content["partition"].update(clients=6)),
    "no manifest": lambda folder: (folder / "manifest.json").unlink(),
}


@pytest.mark.parametrize("tampering", SHARD_TAMPERING)
def test_damaged_shards_are_told_once_and_not_of_every_trace(copy, tampering):
    SHARD_TAMPERING[tampering](copy / "results" / HORIZONTAL)
    found = drift(copy)
    assert found.pop(HORIZONTAL) == {(State.DAMAGED, "manifest")}
    traces = {path: found.pop(path) for path in list(found) if "/star/" in path}
    assert len(traces) == 3
    assert set.union(*traces.values()) == {(State.UNCHECKED, "shards")}
    assert found == {}


def test_shards_that_were_made_anew_make_traces_stale(copy):
    plan = build_plan(copy / "config")
    folder, data = copy / "results" / HORIZONTAL, copy / "results/data/small/train.parquet"
    files, partition = shard_files(folder, 1), plan.partitions[folder.name]
    # The training rows in place of the test rows: other bytes, vouched for by a new manifest.
    write_shards(data, partition, files, folder / "manifest.json", data)
    found = drift(copy)
    assert found.pop(HORIZONTAL) == {(State.STALE, "prepared")}  # test rows are of another digest
    assert {path: state for path, state in found.items() if "/star/" in path} == found
    assert set.union(*found.values()) == {(State.STALE, "shards")}


def test_prepared_data_that_changed_are_told_from_damaged_ones(copy):
    results = copy / "results"
    train_file, test_file = (results / "data/small" / f"{s}.parquet" for s in ("train", "test"))
    whole = test_file.read_bytes()
    flip_byte(test_file, 60)  # in the first page
    found = drift(copy)
    assert found.pop("data/small/test.parquet") == {(State.UNREADABLE, "reading")}
    unchecked = {(State.UNCHECKED, "prepared"), (State.UNCHECKED, "checksum")}
    assert set.union(*found.values()) == unchecked
    test_file.write_bytes(whole)
    write_libsvm(results / "raw/set/small.t", 12, 7)
    assert drift(copy)["data/small/test.parquet"] == {(State.STALE, "raw")}
    small = build_plan(copy / "config").catalogue["small"]
    prepare(small, "test", [results / "raw/set/small.t"], test_file)
    found = drift(copy)
    assert found.pop(HORIZONTAL) == {(State.STALE, "prepared")}
    assert set.union(*found.values()) == {(State.STALE, "prepared")}
    assert all("on-test" in path for path in found)
    shutil.copy(train_file, test_file)
    assert drift(copy)["data/small/test.parquet"] == {(State.UNREADABLE, "reading")}


def test_raw_files_are_verified_by_lock_and_catalogue(copy):
    flip_byte(copy / "results/raw/set/small")
    found = drift(copy)
    assert found == {
        "raw/set/small": {(State.DAMAGED, "checksum")},
        "data/small/train.parquet": {(State.STALE, "raw")},
    }
    checksum = "sha256:" + hashlib.sha256((copy / "results/raw/set/small").read_bytes()).hexdigest()
    declared = f"{{path: set/small, checksum: '{checksum}'}}\n"
    replace_text("path: set/small\n", declared)(copy / "config/datasets.yaml")
    assert drift(copy) == {"data/small/train.parquet": {(State.STALE, "raw")}}


def test_an_own_file_that_changed_in_the_mirror_is_drift(copy):
    raw = build_plan(copy / "config").catalogue.raw_files()["set/small"]
    place, kept = copy / "mirror/set/small", copy / "results/raw/set/small"
    place.parent.mkdir(parents=True)
    shutil.copy2(kept, place)
    download(raw, kept, Fetching(copy / "mirror", copy / LOCK, copy / "results/archives"))
    assert drift(copy) == {}
    os.utime(place)
    assert drift(copy) == {}
    place.write_bytes(kept.read_bytes()[::-1])
    os.utime(place, ns=(1, 1))
    assert drift(copy) == {"raw/set/small": {(State.STALE, "mirror")}}


def test_inputs_that_are_not_here_are_no_drift(copy):
    for name in ("raw", "data", "shards", "optima"):
        shutil.rmtree(copy / "results" / name)
    found = drift(copy)
    assert {state for states in found.values() for state, _ in states} == {State.UNCHECKED}
    assert exit_status(checked(copy)) == 0


def test_runs_kept_together_are_held_against_the_traces(copy):
    results = copy / "results"
    joined = "experiments/demo-tuned/traces.nc"
    next_float(results / joined, "objective", (0, 1, 2))
    assert drift(copy) == {joined: {(State.STALE, "traces")}}
    join(build_plan(copy / "config"), results)
    assert drift(copy) == {}
    # Traces made again, elsewhere say, with the same values: only their attributes differ.
    edit_attribute("device", lambda text: "cuda:0")(results / STAR)
    own = "/".join([*STAR.split("/")[:2], "traces.nc"])
    assert drift(copy) == {own: {(State.STALE, "traces")}}
    (results / own).write_bytes(b"no runs")
    assert drift(copy)[own] == {(State.UNREADABLE, "reading")}


def test_older_traces_lack_digests_and_are_not_damaged(copy):
    forget_joined(copy)
    with edited(copy / "results" / BEST) as file:
        for name in ("values_digest", "optima", "versions"):
            del file.attrs[name]
    assert drift(copy) == {
        BEST: {(State.UNCHECKED, "values"), (State.STALE, "optima"), (State.STALE, "environment")}
    }


class Marker:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


def test_nothing_is_unpickled(copy, tmp_path):
    bomb = pickle.dumps(Marker(tmp_path / "executed"))
    for path in (STAR, "experiments/demo-tuned/traces.nc", MANIFEST, "data/small/train.parquet"):
        (copy / "results" / path).write_bytes(bomb)
    found = drift(copy)
    for path in (STAR, "experiments/demo-tuned/traces.nc", "data/small/train.parquet"):
        assert (State.UNREADABLE, "reading") in found[path]
    assert found[HORIZONTAL] == {(State.DAMAGED, "manifest")}
    assert not (tmp_path / "executed").exists()


def test_an_edit_of_behaviour_is_found_and_one_of_comments_is_not(finished, tmp_path):
    sources = Path(verification.__file__).parents[2]
    shutil.copytree(sources, tmp_path / "src", ignore=shutil.ignore_patterns("*.nb?", "*.egg-info"))
    edited = tmp_path / "src/fedatlas/federations/vertical/network.py"
    for edit, stale in (("# a comment", set()), ("EDITED = True", {BEST, PARTIES})):
        edited.write_text(f"{edited.read_text()}\n{edit}\n")
        folders = [finished / "results", "--config", finished / "config", "--lock", finished / LOCK]
        outcome = subprocess.run(
            [*forks().command("fedatlas", "verify"), *folders, "--json"],
            env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
            capture_output=True,
        )
        files = json.loads(outcome.stdout)["files"]
        found = {
            file["path"]: [(f["state"], f["check"]) for f in file["findings"]]
            for file in files
            if file["findings"]
        }
        assert found == {path: [("stale", "source")] for path in stale}


# The digest of values.


@settings(max_examples=40, deadline=None)
@given(
    values=st.lists(st.floats(width=64), min_size=6, max_size=6),
    place=st.integers(0, 5),
    other=st.floats(width=64),
)
def test_the_digest_changes_with_any_value_and_with_nothing_else(values, place, other):
    trace = make_trace(np.ones((2, 3)), train_accuracy=np.reshape(values, (2, 3)))
    changed = trace.copy(deep=True)
    changed["train_accuracy"].to_numpy().flat[place] = other
    pair = np.array([values[place], other])
    same = np.isnan(pair).all() or pair[0].tobytes() == pair[1].tobytes()
    assert (values_digest(trace.variables) == values_digest(changed.variables)) == same
    untimed = trace.assign_coords(wall_time=trace["wall_time"] + 1)
    assert values_digest(untimed.variables) == values_digest(trace.variables)


def test_the_digest_survives_files_and_is_of_names_and_shapes(tmp_path):
    trace = make_trace([[1.0, np.nan], [0.5, 0.25]])
    digest = values_digest(trace.variables)
    write_trace(trace, tmp_path / "trace.nc")
    assert values_digest(read_trace(tmp_path / "trace.nc").variables) == digest
    assert values_digest(trace.rename(objective="suboptimality").variables) != digest
    assert values_digest(trace.drop_vars("objective").variables) != digest
    flat = {"a": np.arange(4.0)}
    assert values_digest(flat) != values_digest({"a": np.arange(4.0).reshape(2, 2)})


# Differences.


VALUES = np.random.default_rng(0).uniform(0.1, 2, (3, 7))
VALUES[2, 5:] = np.nan
PLAIN = make_trace(VALUES)
EXACT = Tolerance()


def changed(**arrays):
    trace = PLAIN.copy(deep=True)
    for name, values in arrays.items():
        trace[name] = (PLAIN[name].dims, values)
    return trace


def differences(first, second, tolerance=EXACT):
    return list(compare_traces("run", first, second, tolerance))


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_perturbed_value_is_found_where_it_was_put(data):
    names = sorted({*PLAIN.variables} - {"seed", "record", "status", "wall_time"})
    name = data.draw(st.sampled_from(names))
    seed, record = data.draw(st.integers(0, 2)), data.draw(st.integers(0, 6))
    delta = data.draw(st.floats(1e-9, 1e3))
    values = PLAIN[name].to_numpy().copy()
    old = values[seed, record]
    new = delta if np.isnan(old) else old + delta
    values[seed, record] = new
    other = changed(**{name: values})
    (found,) = differences(PLAIN, other)
    assert (found.variable, found.seed, found.record) == (name, seed, record)
    assert found.second == new
    assert (found.differing, found.compared) == (1, 21)
    if np.isnan(old):
        assert np.isnan(found.first)
        assert found.largest == np.inf
        assert differences(PLAIN, other, Tolerance(1e6, 1e6))
        return
    assert found.largest == abs(new - old)
    scale = found.largest / max(abs(old), abs(new))
    for kind, limit in (("absolute", found.largest), ("relative", scale)):
        assert not differences(PLAIN, other, Tolerance(**{kind: 1.01 * limit}))
        assert differences(other, PLAIN, Tolerance(**{kind: 0.99 * limit}))


def test_the_first_of_several_and_the_largest_are_told():
    values = PLAIN["objective"].to_numpy().copy()
    values[1, 6] += 0.25
    values[1, 3] += 0.125
    values[2, 0] += 0.5
    (found,) = differences(PLAIN, changed(objective=values))
    assert (found.seed, found.record, found.differing) == (1, 3, 3)
    assert found.largest == pytest.approx(0.5)


@pytest.mark.parametrize("order", [(2, 0, 1), (1, 0, 2)])
def test_the_order_of_seeds_is_no_difference(order):
    assert differences(PLAIN, PLAIN.isel(seed=list(order))) == []


def test_seeds_and_records_are_paired_by_their_numbers():
    (found,) = differences(PLAIN, PLAIN.isel(seed=[2, 1]))
    assert (found.variable, found.first, found.second) == ("seed", [0, 1, 2], [2, 1])
    for kept in (slice(4), [0, 2, 4, 6]):
        (found,) = differences(PLAIN, PLAIN.isel(record=kept))
        assert (found.variable, found.first, found.second) == ("record", 7, 4)
    (found,) = differences(PLAIN, PLAIN.assign_coords(seed=PLAIN["seed"] + 9))
    assert found.variable == "seed"
    found, *_ = differences(PLAIN, PLAIN.assign_coords(record=2 * PLAIN["record"]))
    assert (found.variable, found.first) == ("record", [*range(7)])


def test_texts_missing_variables_infinities_and_times():
    other = changed(status=["ok"] * 3, wall_time=PLAIN["wall_time"].to_numpy() + 1)
    (found,) = differences(PLAIN, other)
    assert (found.variable, found.seed, found.record) == ("status", 2, None)
    timed = differences(PLAIN, other, Tolerance(wall_time=True))
    assert [found.variable for found in timed] == ["status", "wall_time"]
    (found,) = differences(PLAIN, PLAIN.drop_vars("objective"))
    assert (found.variable, found.first, found.second) == ("objective", "there", "–")
    infinite, negative = (changed(objective=np.full((3, 7), x)) for x in (np.inf, -np.inf))
    assert not differences(infinite, infinite)
    assert differences(infinite, negative, Tolerance(1.0, 1e9))


def test_folders_and_files_hold_the_same_runs(finished):
    results = finished / "results"
    for side in (results, results / "experiments"):
        found = compare(results, side, Tolerance(wall_time=True))
        assert len(found.compared) == 6
        assert found.exit_status == 0
        assert not found.attributes
    own = results / "experiments/demo-tuned"
    one = compare(own, own / "traces.nc", EXACT)
    assert len(one.compared) == 2 and one.exit_status == 0 and not one.attributes


def test_attributes_are_told_and_do_not_count(copy, finished):
    edit_versions(numpy="1.0")(copy / "results" / STAR)
    edit_attribute("device", lambda text: "cuda:0")(copy / "results" / STAR)
    found = compare(finished / "results", copy / "results", EXACT)
    assert found.exit_status == 0
    told = {(name, new): runs for (name, _, new), runs in found.attributes.items()}
    runs = ["ours/demo-settings/star/local_step_size-0.1"]
    assert told == {("versions.numpy", "1.0"): runs, ("device", "cuda:0"): runs}


def test_two_named_traces_are_a_pair(finished):
    folder = finished / "results" / Path(STAR).parent
    pair = folder / "local_step_size-0.1.nc", folder / "local_step_size-0.5.nc"
    found = compare(*pair, EXACT)
    assert len(found.compared) == 1
    assert {d.variable for d in found.differences} >= {"objective", "gradient_norm"}
    assert all(d.record == 1 for d in found.differences if d.variable == "objective")
    assert ("point", "local_step_size-0.1", "local_step_size-0.5") in found.attributes


def test_what_cannot_be_read_is_named_and_the_rest_compared(copy, finished):
    (copy / "results" / STAR).write_text("no trace")
    shutil.copy(copy / "results" / BEST, copy / "results" / Path(BEST).with_name("twice.nc"))
    found = compare(finished / "results", copy / "results", EXACT)
    assert found.exit_status == 2
    assert len(found.compared) == 5
    assert "local_step_size-0.1.nc" in found.unreadable[0]
    assert "holds ours/demo-tuned/best/only, as does" in found.unreadable[1]
    (copy / "empty").mkdir()
    for nothing in (copy / "empty", copy / "missing"):
        with pytest.raises(FedatlasError, match=str(nothing)):
            compare(finished / "results", nothing, EXACT)


# The commands.


def test_verify_says_what_drifted_and_what_to_do(copy):
    results, config = copy / "results", ("--config", copy / "config", "--lock", copy / LOCK)
    outcome = fedatlas("verify", results, *config)
    assert outcome.exit_code == 0, outcome.stderr
    assert "without drift." in outcome.stdout
    edit_versions(numpy="1.0")(results / STAR)
    flip_byte(results / HORIZONTAL / "silo-0.parquet")
    outcome = fedatlas("verify", results, *config, "--json")
    assert outcome.exit_code == 1
    told = json.loads(outcome.stdout)
    # The experiment's file still holds the trace as it was.
    assert (told["counts"]["stale"], told["counts"]["damaged"]) == (2, 1)
    (trace,) = [file for file in told["files"] if file["path"] == STAR]
    assert {finding["check"] for finding in trace["findings"]} == {"environment", "shards"}
    (results / BEST).write_text("")
    outcome = fedatlas("verify", results, *config)
    assert outcome.exit_code == 2
    assert STAR in outcome.stdout
    assert f"numpy: 1.0 → {np.__version__}" in outcome.stdout
    for meaning in ("stale: intact, but", "damaged: not the bytes", "What to do:"):
        assert meaning in outcome.stdout


def test_diff_says_where(copy, finished):
    next_float(copy / "results" / STAR)
    pair = finished / "results" / STAR, copy / "results" / STAR
    outcome = fedatlas("diff", *pair, "--json")
    assert outcome.exit_code == 1
    told = json.loads(outcome.stdout)
    (found,) = told["differences"]
    assert (found["variable"], found["seed"], found["record"]) == ("objective", 1, 2)
    assert fedatlas("diff", *pair, "--relative-tolerance", "1e-12").exit_code == 0
    for refused in ("-1", "nan", "inf"):
        assert fedatlas("diff", *pair, "--relative-tolerance", refused).exit_code == 2
    readable = fedatlas("diff", *pair)
    assert readable.exit_code == 1
    assert "1 runs compared: 1 differ" in readable.stdout
    edit_attribute("device", lambda text: "[red]\x1b[2J")(copy / "results" / BEST)
    edit_attribute("device", lambda text: "cuda:1")(copy / "results" / STAR)
    both = fedatlas("diff", finished / "results", copy / "results")
    assert "device: cpu → cuda:1 and 1 other changes (2 runs)" in both.stdout
    one = fedatlas("diff", finished / "results" / BEST, copy / "results" / BEST)
    assert "device: cpu → [red]\ufffd[2J (1 runs)" in one.stdout
    assert "6 runs compared: 1 differ." in both.stdout


@pytest.mark.parametrize("command", ["verify", "diff"])
def test_nothing_to_look_at_is_an_error_of_its_own(finished, tmp_path, command):
    config = ("--config", finished / "config") if command == "verify" else (finished,)
    outcome = fedatlas(command, tmp_path, *config)
    assert outcome.exit_code == 2
    assert outcome.stderr.startswith("error: ")
    assert "Traceback" not in outcome.stderr


def test_a_folder_that_is_not_there_is_told_from_an_empty_one(finished, tmp_path):
    outcome = fedatlas("verify", tmp_path / "nope", "--config", finished / "config")
    assert outcome.exit_code == 2 and "nope: there is no such folder in" in outcome.stderr
