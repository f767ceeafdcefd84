"""No seed is trained twice: results of seeds are found by what is computed, bit for bit."""

import json
import logging
import re
import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedatlas.algorithms.fedavg import FedAvg
from fedatlas.algorithms.fedpage import FedPage
from fedatlas.schema.partitions import HorizontalPartition
from fedatlas.schema.runs import Optimum, Points, RunSpec, write_optimum
from fedatlas.store.trace import read_trace, values_digest
from fedatlas.training import loop, seeds
from fedatlas.training.steps import train_run
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
    left = shutil.ignore_patterns("experiments", "seeds")
    return shutil.copytree(whole, tmp_path / "results", ignore=left)


def trained(spec, results, caplog) -> tuple[list[int], object]:
    """The seeds that a job trains, and the trace that it leaves."""
    caplog.clear()
    with caplog.at_level(logging.INFO):
        train_run(Points.of([spec]), results, "cpu")
    seeds = [int(seed) for seed in TRAINED.findall(caplog.text)]
    return seeds, read_trace(spec.trace_file(results))


@given(first=SEEDS, then=SEEDS, tuning=st.sets(st.sampled_from([3, 8, 12, 5])))
@settings(
    max_examples=8,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_only_seeds_that_are_new_are_trained(first, then, tuning, whole, tmp_path, caplog):
    for folder in ("experiments", "seeds"):
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
    shutil.rmtree(whole / "seeds")
    _, anew = trained(changed, whole, caplog)
    assert without_times(after).identical(without_times(anew))
    assert trained(changed, whole, caplog)[0] == []


def test_what_was_removed_is_dropped_and_does_not_train_when_it_comes_back(results, caplog):
    assert trained(point((3, 8)), results, caplog)[0] == [3, 8]
    assert trained(point((8,)), results, caplog)[0] == []
    assert trained(point((8, 3)), results, caplog)[0] == []


NAMES = {"paper": "another", "experiment": "another", "run": "renamed", "point": "moved"}


def test_names_papers_and_lost_traces_train_nothing(results, caplog):
    _, before = trained(point(), results, caplog)
    defaults = small("fedavg").hyper_parameters
    for changes in ({}, NAMES, {"hyper_parameters": dict(reversed(defaults.items()))}):
        point().trace_file(results).unlink(missing_ok=True)
        spec = point(**changes)
        seeds, after = trained(spec, results, caplog)
        assert seeds == []
        assert after.drop_attrs().identical(before.drop_attrs())
        assert [after.attrs[name] for name in NAMES] == [getattr(spec, name) for name in NAMES]


def test_a_seed_that_another_process_trains_meanwhile_is_taken(results, caplog, monkeypatch):
    spec = point((3, 8, 12))
    train_seed = loop._Run._train_seed
    trained(point((99,)), results, caplog)  # rehearsed

    def disturbed(self, seed, *more):
        train_seed(self, seed, *more)
        monkeypatch.setattr(loop._Run, "_train_seed", train_seed)
        train_run(Points.of([point((12,))]), results, "cpu")

    monkeypatch.setattr(loop._Run, "_train_seed", disturbed)
    seeds, trace = trained(spec, results, caplog)
    assert seeds == [12, 3, 8]  # 12 by the other
    assert "seed 12 was trained by another process" in caplog.text
    shutil.rmtree(results / "seeds")
    assert without_times(trained(spec, results, caplog)[1]).identical(without_times(trace))


def test_seeds_of_two_machines_are_joined_by_copying_a_folder(results, tmp_path, caplog):
    other = shutil.copytree(results, tmp_path / "other")
    trained(point((3, 8)), results, caplog)
    trained(point((12, 5)), other, caplog)
    shutil.copytree(other / "seeds", results / "seeds", dirs_exist_ok=True)
    seeds, both = trained(point((3, 5, 8, 12)), results, caplog)
    assert (seeds, both["seed"].values.tolist()) == ([], [3, 5, 8, 12])
    shutil.rmtree(results / "seeds")
    _, anew = trained(point((3, 5, 8, 12)), results, caplog)
    assert without_times(both).identical(without_times(anew))


STEP = {"hyper_parameters": point().hyper_parameters | {"local_step_size": 0.04}}


@pytest.mark.parametrize("changes", [{"rounds": 8}, {"record_every": 2}, STEP])
def test_another_specification_trains_all_seeds(results, caplog, changes):
    trained(point(), results, caplog)
    assert trained(point((3, 8, 12), **changes), results, caplog)[0] == [3, 8, 12]


def test_a_result_that_stands_where_another_belongs_is_not_used(results, caplog):
    trained(point((3,)), results, caplog)
    (first,) = (results / "seeds").glob("*/*.npz")
    trained(point((8,)), results, caplog)
    (second,) = set((results / "seeds").glob("*/*.npz")) - {first}
    shutil.copy2(first, second)
    assert trained(point((3, 8)), results, caplog)[0] == [8]


def test_another_code_trains_all_seeds(results, caplog, monkeypatch):
    trained(point(), results, caplog)
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
    shutil.rmtree(folder / partition.of_seed(8).slug)
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
        with np.load(path) as file:
            arrays = dict(file)
        header = json.loads(str(arrays.pop("header")))
        del arrays["digest"]
        edit(header, arrays)
        seeds.write_checkpoint(path, header.pop("identity"), header, arrays)

    return damage


def exchanged(path):
    """Another value behind the digest of the first."""
    with np.load(path) as file:
        arrays = dict(file)
    arrays["variable/objective"][1] = 7.0
    np.savez(path, **arrays)


DAMAGE = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:1000]),
    "empty": lambda path: path.write_bytes(b""),
    "value": exchanged,
    "code": rewritten(lambda header, _: header["identity"].update({"source code": "0" * 64})),
    "format": rewritten(lambda header, _: header.update(format="fedatlas checkpoint 2")),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_or_foreign_result_is_not_used(results, caplog, damage):
    _, before = trained(point(), results, caplog)
    for path in (results / "seeds").glob("*/*.npz"):
        damage(path)
    seeds, after = trained(point(), results, caplog)
    assert seeds == [3, 8]
    assert without_times(after).identical(without_times(before))


def test_other_versions_of_what_is_kept_are_told(results, caplog):
    trained(point(), results, caplog)
    for path in (results / "seeds").glob("*/*.npz"):
        rewritten(lambda header, _: header["made"].update(versions={"numpy": "0.1"}))(path)
    seeds, trace = trained(point((3, 8, 12)), results, caplog)
    assert seeds == [12]
    (warning,) = json.loads(trace.attrs["warnings"])
    assert warning == 'the seeds 3, 8 were trained with {"numpy":"0.1"} on cpu'


CERTAIN = [
    ("fedavg", FedAvg, {"clients_per_round": 12, "batch_size": 1000}, {"batch_size": 1}),
    ("fedpage", FedPage, {"full_round_probability": 1.0}, {"full_round_probability": 0.5}),
]


@pytest.mark.parametrize(("name", "algorithm", "sure", "unsure"), CERTAIN)
def test_a_run_without_random_numbers_trains_once(
    results, caplog, monkeypatch, name, algorithm, sure, unsure
):
    """Gradient descent: all clients, all their rows; other seeds have the first one's records."""
    spec = point((3, 8, 12), algorithm=name)
    values = spec.hyper_parameters | sure
    certain = spec.model_copy(update={"hyper_parameters": values})
    # It is rehearsed like this one.
    trained(spec.model_copy(update={"hyper_parameters": values | unsure}), results, caplog)
    rounds = []
    whole = algorithm.round
    monkeypatch.setattr(algorithm, "round", lambda *given: rounds.append(1) or whole(*given))
    _, trace = trained(certain, results, caplog)
    assert len(rounds) == 2 + spec.rounds  # two warm up
    first = trace.sel(seed=3).drop_vars("seed")
    assert all(trace.sel(seed=seed).drop_vars("seed").identical(first) for seed in (8, 12))
    rounds.clear()
    added = certain.model_copy(update={"seeds": (3, 8, 12, 5)})
    assert trained(added, results, caplog)[1].sizes["seed"] == 4
    assert len(rounds) <= 2


def test_budgets_of_privacy_are_those_of_all_seeds(results, caplog):
    spec = point(algorithm="dp_gradient_tracking")
    _, before = trained(spec, results, caplog)
    more = point((3, 8, 12), algorithm="dp_gradient_tracking")
    partition = more.partition
    for seed in (12,):
        source, target = (partition.of_seed(which).slug for which in (3, seed))
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
    # Other names of an experiment and of a run, another title: a trace is made, nothing is trained.
    shutil.rmtree(logs)
    small = copy.folder / "config/experiments/demo/small.yaml"
    text = small.read_text(encoding="utf-8").replace("fedavg", "averaging")
    text = text.replace("algorithm: averaging", "algorithm: fedavg").replace("title: ", "title: M ")
    small.with_name("moved.yaml").write_text(text, encoding="utf-8")
    small.unlink()
    moved = "results/experiments/demo-moved/traces/averaging/only.nc"
    copy.targets = (moved,)
    outcome = copy.run()
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    told = [log.read_text(encoding="utf-8") for log in logs.rglob("*.log")]
    assert told and not any(TRAINED.search(text) for text in told)
    renamed, before = read_trace(copy.folder / moved), read_trace(files[0])
    assert renamed.drop_attrs().identical(before.drop_attrs())
