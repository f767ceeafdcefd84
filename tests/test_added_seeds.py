"""Seeds that are added to a run train alone: finished ones keep their records, bit for bit."""

import json
import logging
import re
import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedatlas.files import canonical_json
from fedatlas.schema.partitions import HorizontalPartition
from fedatlas.schema.runs import RunSpec
from fedatlas.traces.trace import read_trace, values_digest, write_trace
from fedatlas.training.optimum import Optimum, write_optimum
from fedatlas.training.points import train_points
from resuming import without_times
from small_federations import share_out, small, small_shards
from workflow_copy import EXPERIMENT, WorkflowCopy

TRAINED = re.compile(r"seed (\d+) (?:ok|diverged) in")
SEEDS = st.lists(st.sampled_from([3, 8, 12, 5]), min_size=1, unique=True)


def point(seeds=(3, 8), tuning=(), algorithm="fedavg", **changes) -> RunSpec:
    spec = small(algorithm, seeds=tuple(seeds), tuning_seeds=tuple(tuning))
    return spec.model_copy(update=changes)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A results folder with shards that all seeds share."""
    results = tmp_path_factory.mktemp("results")
    shards = results / "shards" / "toy"
    shards.mkdir(parents=True)
    for algorithm in ("fedavg", "dp_gradient_tracking"):
        made = small_shards(shards, algorithm)
        shutil.copytree(made, shards / "train", dirs_exist_ok=True)
    return results


@pytest.fixture
def results(whole, tmp_path):
    left = shutil.ignore_patterns("experiments", "checkpoints")
    return shutil.copytree(whole, tmp_path / "results", ignore=left)


def trained(spec, results, caplog) -> tuple[list[int], object]:
    """The seeds that a job trains, and the trace that it leaves."""
    caplog.clear()
    with caplog.at_level(logging.INFO):
        train_points([spec], results, device="cpu", checkpoint_every=60.0)
    seeds = [int(seed) for seed in TRAINED.findall(caplog.text)]
    return seeds, read_trace(spec.trace_file(results))


@given(first=SEEDS, then=SEEDS, tuning=st.sets(st.sampled_from([3, 8, 12, 5])))
@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_only_seeds_that_are_new_are_trained(first, then, tuning, whole, tmp_path, caplog):
    for folder in ("experiments", "checkpoints"):
        shutil.rmtree(whole / folder, ignore_errors=True)
    trained(point(first), whole, caplog)
    before = read_trace(point(first).trace_file(whole))
    changed = point(then, [seed for seed in then if seed in tuning])
    seeds, after = trained(changed, whole, caplog)
    assert seeds == [seed for seed in then if seed not in first]
    assert after["seed"].values.tolist() == then
    kept = [seed for seed in then if seed in first]
    assert after.sel(seed=kept).drop_attrs().identical(before.sel(seed=kept).drop_attrs())
    assert after.attrs["values_digest"] == values_digest(after.variables)
    # But for times and digests of values it is the trace of a run that trained all of them.
    shutil.rmtree(whole / "experiments")
    _, anew = trained(changed, whole, caplog)
    assert without_times(after).identical(without_times(anew))
    assert trained(changed, whole, caplog)[0] == []


def test_what_was_removed_is_dropped_and_trains_anew_when_it_comes_back(results, caplog):
    assert trained(point((3, 8)), results, caplog)[0] == [3, 8]
    assert trained(point((8,)), results, caplog)[0] == []
    assert trained(point((8, 3)), results, caplog)[0] == [3]


STEP = {"hyper_parameters": point().hyper_parameters | {"local_step_size": 0.04}}


@pytest.mark.parametrize("changes", [{"rounds": 8}, {"record_every": 2}, STEP])
def test_another_specification_trains_all_seeds(results, caplog, changes):
    trained(point(), results, caplog)
    assert trained(point((3, 8, 12), **changes), results, caplog)[0] == [3, 8, 12]


def test_a_trace_that_stands_where_another_belongs_is_not_used(results, caplog):
    trained(point(), results, caplog)
    other = point((3, 8, 12), run="another")
    other.trace_file(results).parent.mkdir(parents=True)
    shutil.copy2(point().trace_file(results), other.trace_file(results))
    assert trained(other, results, caplog)[0] == [3, 8, 12]


def test_another_code_trains_all_seeds(results, caplog, monkeypatch):
    trained(point(), results, caplog)
    monkeypatch.setattr("fedatlas.training.points.code_digest", lambda *_: "0" * 64)
    monkeypatch.setattr("fedatlas.training.loop.code_digest", lambda *_: "0" * 64)
    assert trained(point((3, 8, 12)), results, caplog)[0] == [3, 8, 12]


def test_a_seed_whose_shards_are_others_trains_anew_and_no_other(results, caplog):
    """Every seed has a partition of its own; that of seed 8 is cut from other rows later."""
    partition = HorizontalPartition(assignment="shuffled", clients=12)
    folder = results / "shards" / "toy" / "train"

    def shards(seeds, scale):
        from fedatlas.arithmetic.samples import Samples

        random = np.random.default_rng(1)
        features = scale * random.normal(size=(120, 7))
        label = np.where(features[:, 0] > 0, 1.0, -1.0)
        rows = Samples(np.arange(120), label, features)
        share_out(folder, partition, rows, seeds=seeds, task="binary")

    shards((3, 8, 12), 1.0)
    spec = point(partition=partition)
    _, before = trained(spec, results, caplog)
    shutil.rmtree(folder / partition.of_trial(8).slug)
    shards((8,), 2.0)
    seeds, after = trained(point((3, 8, 12), partition=partition), results, caplog)
    assert seeds == [8, 12]
    np.testing.assert_array_equal(after["gradient_norm"][0], before["gradient_norm"][0])
    assert (after["gradient_norm"][1, 1:] != before["gradient_norm"][1, 1:]).all()


def test_a_seed_whose_optimum_is_another_trains_anew(results, caplog):
    spec = point(optimum=True, objective=small("vfb2_sgd").objective, algorithm="fedavg")
    file = spec.optimum_file(results / "optima" / "toy" / "train", 3)
    for value, expected in ((0.1, [3, 8]), (0.1, []), (0.2, [3, 8])):
        found = Optimum(objective=value, gradient_norm=0.0, gap=None, solver="a test")
        file.parent.mkdir(parents=True, exist_ok=True)
        write_optimum(found, file)
        assert trained(spec, results, caplog)[0] == expected


def rewritten(edit):
    def damage(path):
        trace = read_trace(path)
        edit(trace)
        write_trace(trace, path)

    return damage


DAMAGE = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:1000]),
    "empty": lambda path: path.write_bytes(b""),
    "value": rewritten(lambda trace: trace["objective"].values.__setitem__((0, 1), 7.0)),
    "seed": rewritten(lambda trace: trace.coords.update({"seed": [12, 8]})),
    "digests": rewritten(lambda trace: trace.attrs.update(shard_digests="[]")),
    "no digests": rewritten(lambda trace: trace.attrs.pop("shard_digests")),
    "text": rewritten(lambda trace: trace.attrs.update(specification="{")),
    "number": rewritten(lambda trace: trace.attrs.update(optima=3)),
    "list": rewritten(lambda trace: trace.attrs.update(specification="[]")),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_of_a_damaged_or_foreign_file_nothing_is_kept(results, caplog, damage):
    trained(point(), results, caplog)
    damage(point().trace_file(results))
    seeds, trace = trained(point((3, 8, 12)), results, caplog)
    assert seeds == [3, 8, 12]
    assert (trace["status"] == "ok").all()


def test_other_versions_of_what_is_kept_are_told(results, caplog):
    trained(point(), results, caplog)
    rewritten(lambda trace: trace.attrs.update(versions=canonical_json({"numpy": "0.1"})))(
        point().trace_file(results)
    )
    seeds, trace = trained(point((3, 8, 12)), results, caplog)
    assert seeds == [12]
    (warning,) = json.loads(trace.attrs["warnings"])
    assert warning == 'the seeds 3, 8 were trained with {"numpy":"0.1"} on cpu'


def test_budgets_of_privacy_are_those_of_all_seeds(results, caplog):
    spec = point(algorithm="dp_gradient_tracking")
    _, before = trained(spec, results, caplog)
    more = point((3, 8, 12), algorithm="dp_gradient_tracking")
    partition = more.partition
    for seed in (12,):
        source, target = (partition.of_trial(which).slug for which in (3, seed))
        folder = results / "shards" / "toy" / "train"
        if not (folder / target).exists():
            shutil.copytree(folder / source, folder / target)
            manifest = folder / target / "manifest.json"
            told = json.loads(manifest.read_text())
            told["partition"]["seed"] = seed
            manifest.write_text(json.dumps(told))
    seeds, after = trained(more, results, caplog)
    assert seeds == [12]
    for name in ("epsilon", "objective"):
        np.testing.assert_array_equal(after[name][:2], before[name])
    np.testing.assert_array_equal(after["epsilon"][2], after["epsilon"][0])


def test_in_the_workflow_only_the_new_seed_is_trained(tmp_path_factory):
    """Alone and in a shared job; finished records keep their bits, and times."""
    traces = tuple(
        f"results/experiments/demo-{name}/traces/{run}.nc"
        for name in ("small", "shared")
        for run in ("fedavg/only", "fedpage/global_step_size-0.1")
    )
    shared = EXPERIMENT.replace("record_every: 10", "record_every: 10\npoint_seconds: 1")
    copy = WorkflowCopy.finished(tmp_path_factory, {"shared": shared}, traces)
    files = [copy.folder / trace for trace in traces]
    before = [read_trace(file) for file in files]
    logs = copy.folder / "logs" / "train"
    shutil.rmtree(logs)
    for name in ("small", "shared"):
        copy.edit(f"config/experiments/demo/{name}.yaml", "\nseeds: [0, 1]", "\nseeds: [0, 1, 2]")
    outcome = copy.run()
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    told = [log.read_text(encoding="utf-8") for log in logs.rglob("*.log")]
    assert {seed for text in told for seed in TRAINED.findall(text)} == {"2"}
    for file, old in zip(files, before, strict=True):
        new = read_trace(file)
        # fedpage has a grid: seeds that tune come after the judged ones.
        seeds = [0, 1, 2] if "fedavg" in str(file) else [0, 1, 2, 100, 101]
        assert new["seed"].values.tolist() == seeds
        kept = new.sel(seed=old["seed"].values)
        assert kept.drop_attrs().identical(old.drop_attrs())
    assert copy.planned() == []
