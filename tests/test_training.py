"""The loop around the methods: schedule, divergence, checkpoints, devices, partitions by seed."""

import json
import re
import shutil
from dataclasses import dataclass

import numpy as np
import pytest

from fedatlas.arithmetic.client_rows import ClientRows
from fedatlas.errors import FedatlasError
from fedatlas.federations.context import FederationContext, shard_files
from fedatlas.federations.horizontal import Horizontal
from fedatlas.schema.quantities import COSTS
from fedatlas.schema.runs import RunSpec
from fedatlas.store.trace import read_trace
from fedatlas.training.loop import train
from fedatlas.training.states import restore_state, state_arrays
from small_federations import CLIENTS, LOCAL, PARTIES, ROWS, small, small_shards

HORIZONTAL = ("fedavg", "scaffold", "fedpage")
METHODS = (*HORIZONTAL, "vfb2_sgd", "vfb2_svrg", "vfb2_saga", "afsvrg_vp")


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    small_shards(folder, "fedavg")
    return small_shards(folder, "vfb2_sgd")  # in the same folder


def specification(algorithm="scaffold", **changes):
    return small(algorithm, **{"rounds": 25, "record_every": 10} | changes)


@pytest.mark.parametrize("algorithm", METHODS)
def test_trace_holds_every_axis_and_measurement(shard, tmp_path, algorithm):
    train(specification(algorithm), shard, tmp_path / "trace.nc")
    trace = read_trace(tmp_path / "trace.nc")
    always = {"round", "iteration", "epoch", "gradient_evaluations", "bytes_up", "bytes_down"}
    always |= {"messages", "wall_time", "seed", "record"}
    measured = {"objective", "gradient_norm", "train_accuracy", "status"}
    if algorithm in HORIZONTAL:
        sequential = {f"sequential_{of}" for of in ("messages", "bytes", "gradients")}
        assert set(trace.coords) == {*always, *sequential, "full_participations"}
        assert set(trace.data_vars) == measured
    else:
        counted = {"update_epoch", "full_passes", "block_updates", "simulated_time"}
        assert set(trace.coords) == {*always, *counted}
        delays = {f"{kind}_delay_{of}" for kind in ("read", "update") for of in ("mean", "max")}
        delays |= {"tau_1", "tau_2", "eta_1"}
        assert set(trace.data_vars) == {*measured, *delays, "test_accuracy", "mask_error"}
    assert list(trace["seed"].to_numpy()) == [3, 8]
    assert list(trace["status"].to_numpy()) == ["ok", "ok"]
    np.testing.assert_array_equal(trace["round"].to_numpy(), [[0, 10, 20, 25]] * 2)
    for name in set(trace.coords) & set(COSTS):
        values = trace[name].to_numpy()
        assert (np.diff(values, axis=1) >= 0).all()
    assert (trace["objective"][:, -1] < trace["objective"][:, 0]).all()
    samples = ROWS if algorithm in HORIZONTAL else 0.75 * ROWS
    epochs = trace["gradient_evaluations"] / samples
    np.testing.assert_allclose(trace["epoch"], epochs)


def test_attributes_tell_where_a_trace_comes_from(shard, tmp_path):
    spec = specification("fedpage")
    trace = train(spec, shard, tmp_path / "trace.nc")
    attributes = trace.attrs
    assert RunSpec.model_validate(json.loads(attributes["specification"])) == spec
    assert attributes["effective_step_size"] == 0.2
    # With defaults: the specification holds only what the experiment states.
    assert json.loads(attributes["hyper_parameters"])["local_batch_size"] == 1
    assert "torch" not in json.loads(attributes["versions"])
    digests = json.loads(attributes["shard_digests"])
    assert list(digests) == ["3", "8"]
    assert {len(digest) for digest in (attributes["source_digest"], *digests.values())} == {64}
    warnings = json.loads(attributes["warnings"])
    for warning, step in zip(warnings, ("η_g = 0.2", "η_l = 0.06667"), strict=True):
        assert f"{step} exceeds" in warning and "Theorem 4.2" in warning


def test_record_schedule_does_not_change_the_run(shard, tmp_path):
    coarse = train(specification(record_every=25), shard, tmp_path / "a.nc")
    fine = train(specification(record_every=1), shard, tmp_path / "b.nc")
    np.testing.assert_array_equal(coarse["objective"][:, -1], fine["objective"][:, -1])


def test_a_diverged_seed_is_data(shard, tmp_path):
    wild = LOCAL | {"local_step_size": 1e6}
    objective = {"name": "logistic_l2", "weight": 1.0}
    spec = specification("fedavg", hyper_parameters=wild, objective=objective)
    train(spec, shard, tmp_path / "trace.nc")
    trace = read_trace(tmp_path / "trace.nc")
    assert list(trace["status"].to_numpy()) == ["diverged", "diverged"]
    assert np.isfinite(trace["objective"][:, 0]).all()
    assert np.isnan(trace["objective"][:, -1]).all()
    assert np.isnan(trace["round"][:, -1]).all()


def test_a_device_that_is_not_there_is_one_clear_error(shard, tmp_path):
    with pytest.raises(FedatlasError, match=r"device 'cuda:99' cannot be used.*Set device to cpu"):
        train(specification(), shard, tmp_path / "trace.nc", device="cuda:99")


def test_runs_over_parties_take_no_gpu(shard, tmp_path):
    trace = train(specification("vfb2_sgd"), shard, tmp_path / "trace.nc", device="cuda:99")
    assert trace.attrs["device"] == "cpu"
    assert "gpu" not in json.loads(trace.attrs["versions"])


def test_states_keep_their_kinds_through_a_checkpoint():
    @dataclass(frozen=True)
    class State:
        x: np.ndarray
        rows: ClientRows
        count: int
        rate: float
        nothing: object

    state = State(np.arange(3.0), ClientRows(np.eye(2)), 7, 0.5, None)
    arrays = state_arrays(state, lambda array: array)
    template = State(np.zeros(3), ClientRows(np.zeros((2, 2))), 0, 0.0, None)
    restored = restore_state(template, arrays, lambda array: array)
    assert (restored.count, restored.rate, restored.nothing) == (7, 0.5, None)
    assert isinstance(restored.count, int)
    np.testing.assert_array_equal(restored.x, state.x)
    np.testing.assert_array_equal(restored.rows.table, state.rows.table)


def test_a_shard_of_another_partition_is_refused(shard, tmp_path):
    spec = specification(partition={"kind": "horizontal", "clients": 11})
    foreign = tmp_path / "shards" / spec.partition.slug
    foreign.mkdir(parents=True)
    (path,) = shard_files(shard / CLIENTS.slug, 1)
    shutil.copy(path, foreign)
    shutil.copy(path.with_name("manifest.json"), foreign)
    expected = rf"describes toy/train/.*, but toy/train/{re.escape(spec.partition.slug)} is"
    with pytest.raises(FedatlasError, match=expected):
        train(spec, tmp_path / "shards", tmp_path / "trace.nc")
    assert not (tmp_path / "trace.nc").exists()


def test_method_and_partition_must_be_of_one_kind(shard, tmp_path):
    with pytest.raises(FedatlasError, match=r"SCAFFOLD.* works on a horizontal partition, but"):
        train(specification("scaffold", partition=PARTIES), shard, tmp_path / "trace.nc")


def test_nothing_is_left_when_writing_fails(shard, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("a file where a folder belongs")
    with pytest.raises(FedatlasError, match="cannot write"):
        train(specification(), shard, blocked / "trace.nc")
    assert list(tmp_path.iterdir()) == [blocked]


# One of each federation and kind of engine.
ENGINES = [
    "fedavg",
    "vfb2_svrg",
    "fmgda",
    "dp_gradient_tracking",
    "growing_samples_descent",
    "tdcd",
]


def varied(algorithm, **changes):
    """The method's small run over partitions that differ by seed, where rows are thinned or cut."""
    spec = small(algorithm)
    partition = spec.partition.model_copy(update={"test": 0.2, "seed": None})
    return spec.model_copy(update={"partition": partition, **changes})


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")

    def made(algorithm, monkeypatch):
        import small_federations

        data, _, *rest = small_federations.SMALL[algorithm]
        changed = {**small_federations.SMALL, algorithm: (data, varied(algorithm).partition, *rest)}
        monkeypatch.setattr(small_federations, "SMALL", changed)
        return small_shards(folder, algorithm)

    return made


@pytest.mark.parametrize("algorithm", ENGINES)
def test_every_seed_trains_as_it_does_alone_on_its_own_partition(
    algorithm, shards, monkeypatch, tmp_path
):
    folder = shards(algorithm, monkeypatch)
    together = train(varied(algorithm), folder, tmp_path / "both.nc")
    objectives = []
    for number, seed in enumerate(together["seed"].values):
        alone = varied(algorithm, seeds=(int(seed),))
        alone = alone.model_copy(update={"partition": alone.partition.of_seed(int(seed))})
        trace = train(alone, folder, tmp_path / f"{seed}.nc")
        for name in set(trace.variables) - {"wall_time", "seed", "record", "epsilon", "delta"}:
            values = np.asarray(together[name])
            np.testing.assert_array_equal(
                values[number : number + 1] if values.ndim else values, trace[name], err_msg=name
            )
        objectives.append(float(trace["objective"][0, 0]))
        digests = (json.loads(found.attrs["shard_digests"]) for found in (together, trace))
        assert len({digest[str(seed)] for digest in digests}) == 1
    kept = json.loads(together.attrs["shard_digests"])
    assert list(kept) == ["3", "8"] and kept["3"] != kept["8"]
    # Linear models start at 0, where the loss is that of any rows.
    assert len(set(objectives)) == (2 if spec_has_a_network(algorithm) else 1)


def spec_has_a_network(algorithm):
    return "model" in small(algorithm).objective.model_dump()


def test_a_stated_seed_is_that_of_all_trials(shards, monkeypatch):
    folder = shards("fedavg", monkeypatch)
    spec = varied("fedavg")
    shared = spec.model_copy(update={"partition": spec.partition.of_seed(3)})
    digests = FederationContext(shared, folder, "cpu").shard_digests
    assert digests[3] == digests[8] == FederationContext(spec, folder, "cpu").shard_digests[3]


def test_one_trials_shards_are_held_at_once_and_read_when_it_changes(shards, monkeypatch):
    folder, read = shards("fedavg", monkeypatch), []
    original = Horizontal.read
    monkeypatch.setattr(Horizontal, "read", lambda files: read.extend(files) or original(files))
    setting = FederationContext(varied("fedavg"), folder, "cpu")
    for seed in (3, 3, 8, 8, 3):
        setting.seed_run(seed)
    parts = [varied("fedavg").partition.of_seed(seed).slug for seed in (3, 8, 3)]
    assert [file.parent.name for file in read] == parts


def test_a_trial_without_shards_is_named(shards, monkeypatch):
    folder = shards("fedavg", monkeypatch)
    with pytest.raises(FedatlasError, match=r"seed77.*manifest\.json: no such file"):
        FederationContext(varied("fedavg", seeds=(3, 77)), folder, "cpu")
