"""The loop around the methods: schedule, determinism, divergence, checkpoints, devices."""

import json
import re
import shutil
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

from fedatlas.arithmetic.client_rows import ClientRows
from fedatlas.arithmetic.samples import Samples
from fedatlas.data.tables import to_table
from fedatlas.errors import FedatlasError
from fedatlas.federations.setting import shard_files
from fedatlas.files import canonical_json
from fedatlas.schema.cost_names import COSTS
from fedatlas.schema.measurements import MEASUREMENTS
from fedatlas.schema.partitions import HorizontalPartition, VerticalPartition
from fedatlas.schema.runs import RunSpec
from fedatlas.shards.clients import write_shards
from fedatlas.shards.parties import write_party_shards
from fedatlas.traces.trace import read_trace
from fedatlas.training import checkpoints
from fedatlas.training import loop as training
from fedatlas.training.loop import CheckpointPolicy, train
from resuming import killed_and_resumed, without_times

SAMPLES, FEATURES, CLIENTS = 120, 7, 12
METHODS = {
    "fedavg": {"clients_per_round": 4, "local_steps": 3, "batch_size": 2, "local_step_size": 0.05},
    "scaffold": {
        "clients_per_round": 4,
        "local_steps": 3,
        "batch_size": 2,
        "local_step_size": 0.05,
    },
    "fedpage": {"clients_per_round": 3, "local_steps": 3, "global_step_size": 0.2},
    "vfb2_sgd": {"step_size": 0.02},
    "vfb2_svrg": {"step_size": 0.1, "synchronous": True},
    "vfb2_saga": {"step_size": 0.1},
    "afsvrg_vp": {"step_size": 0.1},
}
HORIZONTAL = ("fedavg", "scaffold", "fedpage")
PARTITIONS = {
    "horizontal": HorizontalPartition(clients=CLIENTS),
    "vertical": VerticalPartition(parties=3, active=2, test=0.25),
}


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards")
    generator = np.random.default_rng(5)
    features = sparse.random_array((SAMPLES, FEATURES), density=0.4, rng=generator, format="csr")
    label = np.where(generator.random(SAMPLES) < 0.4, 1.0, -1.0)
    table = to_table(Samples(np.arange(SAMPLES), label, features))
    metadata = {
        "dataset": "made-up",
        "split": "train",
        "rows": SAMPLES,
        "features": FEATURES,
        "layout": "sparse",
    }
    prepared = folder / "train.parquet"
    table = table.replace_schema_metadata({"fedatlas": canonical_json(metadata)})
    pq.write_table(pa.table(table), prepared)
    partition = PARTITIONS["horizontal"]
    shards = folder / partition.slug
    write_shards(prepared, partition, shard_files(shards, 1), shards / "manifest.json")
    for seed in (3, 8):
        partition = PARTITIONS["vertical"].of_trial(seed)
        shards = folder / partition.slug
        write_party_shards(prepared, partition, shard_files(shards, 3), shards / "manifest.json")
    return folder


def kind_of(algorithm):
    return "horizontal" if algorithm in HORIZONTAL else "vertical"


def specification(algorithm="scaffold", **changes):
    values = {
        "paper": "fedpage",
        "experiment": "test-small",
        "run": algorithm,
        "point": "only",
        "dataset": "made-up",
        "split": "train",
        "partition": PARTITIONS[kind_of(algorithm)].model_dump(),
        "objective": {"name": "logistic_nonconvex", "weight": 0.1},
        "algorithm": algorithm,
        "hyper_parameters": METHODS[algorithm],
        "rounds": 25,
        "record_every": 10,
        "seeds": (3, 8),
    }
    return RunSpec.model_validate(values | changes)


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
        assert set(trace.data_vars) == {*measured, *delays, "test_accuracy", "mask_error"}
    assert list(trace["seed"].to_numpy()) == [3, 8]
    assert list(trace["status"].to_numpy()) == ["ok", "ok"]
    np.testing.assert_array_equal(trace["round"].to_numpy(), [[0, 10, 20, 25]] * 2)
    for name in set(trace.coords) & set(COSTS):
        values = trace[name].to_numpy()
        assert (np.diff(values, axis=1) >= 0).all()
    assert (trace["objective"][:, -1] < trace["objective"][:, 0]).all()
    samples = SAMPLES if algorithm in HORIZONTAL else 0.75 * SAMPLES
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
    assert len(attributes["source_digest"]) == len(attributes["shard_digest"]) == 64
    (warning,) = json.loads(attributes["warnings"])
    assert "η_l = 0.06667 exceeds" in warning
    assert "Theorem 4.2" in warning


@pytest.mark.parametrize("algorithm", METHODS)
def test_same_seed_same_trace_and_seeds_are_independent(shard, tmp_path, algorithm):
    both = train(specification(algorithm), shard, tmp_path / "a.nc")
    again = train(specification(algorithm), shard, tmp_path / "b.nc")
    alone = train(specification(algorithm, seeds=(8,)), shard, tmp_path / "c.nc")
    xr_equal = without_times(both).identical(without_times(again))
    assert xr_equal
    for name in set(both.data_vars) & set(MEASUREMENTS):
        np.testing.assert_array_equal(both[name].sel(seed=8), alone[name].sel(seed=8))
    for name in ("objective", "gradient_norm"):
        assert (both[name][0, 1:] != both[name][1, 1:]).all()


def test_record_schedule_does_not_change_the_run(shard, tmp_path):
    coarse = train(specification(record_every=25), shard, tmp_path / "a.nc")
    fine = train(specification(record_every=1), shard, tmp_path / "b.nc")
    np.testing.assert_array_equal(coarse["objective"][:, -1], fine["objective"][:, -1])


@pytest.mark.parametrize("algorithm", HORIZONTAL)
def test_torch_gives_the_same_trace(shard, tmp_path, algorithm):
    compiled = train(specification(algorithm), shard, tmp_path / "a.nc")
    on_torch = train(specification(algorithm), shard, tmp_path / "b.nc", device="cpu:0")
    assert on_torch.attrs["device"] == "cpu:0"
    for name in set(compiled.variables) & {*COSTS, *MEASUREMENTS}:
        if name != "wall_time":
            np.testing.assert_allclose(compiled[name], on_torch[name], rtol=1e-10)


def test_a_diverged_seed_is_data(shard, tmp_path):
    wild = METHODS["fedavg"] | {"local_step_size": 1e6}
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


@pytest.fixture(scope="module")
def whole_traces(shard, tmp_path_factory):
    """Of every method, as it is trained without an interruption."""
    folder = tmp_path_factory.mktemp("whole")
    return {name: train(short(name), shard, folder / "trace.nc") for name in METHODS}


def short(algorithm: str) -> RunSpec:
    return specification(algorithm, rounds=9, record_every=4)


@pytest.mark.parametrize("algorithm", METHODS)
@pytest.mark.parametrize(
    ("checkpoints_before", "resumed_at"),
    [
        (1, "seed 3 after round 0"),
        (3, "seed 3 after round 2"),
        (5, "seed 3 after round 4"),  # a record
        (11, "with seed 8"),
        (16, "seed 8 after round 4"),
    ],
)
def test_resuming_ends_with_the_same_trace(
    shard, tmp_path, algorithm, checkpoints_before, resumed_at, whole_traces, caplog
):
    """Killed after any checkpoint, at a record or not, a run continues to the identical trace."""
    with caplog.at_level("INFO"):
        resumed = killed_and_resumed(checkpoints_before, short(algorithm), shard, tmp_path)
    assert without_times(resumed).identical(without_times(whole_traces[algorithm]))
    assert (np.diff(resumed["wall_time"].to_numpy(), axis=1) > 0).all()  # time goes on as well
    assert f"resuming {resumed_at}" in caplog.text  # what the checkpoint held is not done again


def test_a_file_that_is_no_checkpoint_changes_nothing(shard, tmp_path):
    path = tmp_path / "checkpoint.npz"
    path.write_bytes(b"not an archive")
    plain = train(specification(), shard, tmp_path / "a.nc")
    resumed = train(
        specification(), shard, tmp_path / "b.nc", checkpoint=CheckpointPolicy(path, 60)
    )
    assert without_times(plain).identical(without_times(resumed))


def test_a_checkpoint_belongs_to_its_specification_code_and_data():
    spec = specification()
    same = training.run_identity(spec, "code", "data")
    assert training.run_identity(specification(), "code", "data") == same
    others = [
        training.run_identity(specification(rounds=26), "code", "data"),
        training.run_identity(spec, "other code", "data"),
        training.run_identity(spec, "code", "other data"),
    ]
    for other, changed in zip(others, ("specification", "source code", "shards"), strict=True):
        assert {name for name in same if same[name] != other[name]} == {changed}


def test_states_keep_their_kinds_through_a_checkpoint():
    @dataclass(frozen=True)
    class State:
        x: np.ndarray
        rows: ClientRows
        count: int
        rate: float
        nothing: object

    state = State(np.arange(3.0), ClientRows(np.eye(2)), 7, 0.5, None)
    arrays = checkpoints.state_arrays(state, lambda array: array)
    template = State(np.zeros(3), ClientRows(np.zeros((2, 2))), 0, 0.0, None)
    restored = checkpoints.restore_state(template, arrays, lambda array: array)
    assert (restored.count, restored.rate, restored.nothing) == (7, 0.5, None)
    assert isinstance(restored.count, int)
    np.testing.assert_array_equal(restored.x, state.x)
    np.testing.assert_array_equal(restored.rows.table, state.rows.table)


def test_a_shard_of_another_partition_is_refused(shard, tmp_path):
    spec = specification(partition={"kind": "horizontal", "clients": CLIENTS - 1})
    foreign = tmp_path / "shards" / spec.partition.slug
    foreign.mkdir(parents=True)
    (path,) = shard_files(shard / PARTITIONS["horizontal"].slug, 1)
    shutil.copy(path, foreign)
    shutil.copy(path.with_name("manifest.json"), foreign)
    expected = rf"describes made-up/train/.*, but made-up/train/{re.escape(spec.partition.slug)} is"
    with pytest.raises(FedatlasError, match=expected):
        train(spec, tmp_path / "shards", tmp_path / "trace.nc")
    assert not (tmp_path / "trace.nc").exists()


def test_method_and_partition_must_be_of_one_kind(shard, tmp_path):
    partition = PARTITIONS["vertical"].model_dump()
    with pytest.raises(FedatlasError, match=r"SCAFFOLD.* works on a horizontal partition, but"):
        train(specification("scaffold", partition=partition), shard, tmp_path / "trace.nc")


def test_nothing_is_left_when_writing_fails(shard, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("a file where a folder belongs")
    with pytest.raises(FedatlasError, match="cannot write"):
        train(specification(), shard, blocked / "trace.nc")
    assert list(tmp_path.iterdir()) == [blocked]
