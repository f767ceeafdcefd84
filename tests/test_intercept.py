"""`intercept: true`: a column of ones, who holds it, and what linear models learn with it."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.tables import from_table
from fedatlas.errors import FedatlasError
from fedatlas.federations.vertical.shards import read_party_shards
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.partitions import (
    HorizontalPartition,
    TieredPartition,
    VerticalPartition,
)
from fedatlas.shards.writing import write_shards
from fedatlas.training.loop import train
from fedatlas.training.solver import solve
from prepared_files import as_dense, make_samples, shard, write_prepared
from small_federations import share_out, specification

SPECS = {
    "horizontal": HorizontalPartition(assignment="shuffled", clients=4, seed=2, test=0.2),
    "vertical": VerticalPartition(parties=3, active=2, label_holders=2, seed=2, test=0.2),
    "tiered": TieredPartition(cut={"columns": 3}, clients=4, seed=2, test=0.2),
}


def held(path) -> np.ndarray:
    """All rows of a file of shards, with its columns side by side."""
    table = pq.read_table(path)
    width = json.loads(table.schema.metadata[b"fedatlas"])["features"]
    samples = from_table(table, width) if "label" in table.column_names else None
    if samples is None:
        samples = from_table(table.append_column("label", table["sample_id"].cast("double")), width)
    return as_dense(samples)


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("layout", ["dense", "sparse"])
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(features=st.integers(3, 9), seed=st.integers(0, 9))
def test_the_first_holder_has_a_column_of_ones_more(kind, layout, tmp_path, features, seed):
    samples = make_samples(20, features, layout, seed=seed)
    spec = SPECS[kind]
    plain = shard(tmp_path / "plain", samples, spec)
    added = shard(tmp_path / "added", samples, spec.model_copy(update={"intercept": True}))
    for number, (without, file) in enumerate(zip(plain, added, strict=True)):
        expected = held(without)
        if number == 0:
            expected = np.column_stack([expected, np.ones(len(expected))])
        np.testing.assert_array_equal(held(file), expected)


def test_the_column_is_not_standardised_and_constant_ones_are_told(tmp_path, caplog):
    rows = make_samples(30, 5, seed=3)
    rows.features[:, 3] = 0.1
    names = {"feature_names": ["a", "b", "c", "age", "d"]}
    spec = VerticalPartition(parties=2, active=1, seed=1, standardise=True, intercept=True)
    files = shard(tmp_path, rows, spec, **names)
    found = read_party_shards(files).train
    own = found.starts[1] - 1
    assert (found.features[:, own] == 1).all()
    others = np.delete(found.features, own, axis=1)
    assert sorted(np.round(others.std(axis=0), 12)) == [0, 1, 1, 1, 1]
    told = json.loads((tmp_path / "manifest.json").read_text())["silos"]
    assert [name for silo in told for name in silo["constant_columns"]] == ["age"]
    assert caplog.text.count("constant columns, which 'standardise' makes 0: age") == 1


def test_constant_columns_of_a_data_set_are_in_the_manifest(tmp_path):
    rows = make_samples(12, 3)
    scaling = {"mean": [1.0, 7.0, 2.0], "scale": [0.5, 0.0, 1.0]}
    for names, expected in ((None, [1]), (["a", "b", "c"], ["b"])):
        folder = tmp_path / str(expected[0])
        shard(folder, rows, SPECS["horizontal"], standardised=scaling, feature_names=names)
        assert json.loads((folder / "manifest.json").read_text())["constant_columns"] == expected


def test_filled_clients_are_in_log_and_manifest(tmp_path, caplog):
    rows = make_samples(60, 2)
    spec = HorizontalPartition(assignment="dirichlet", concentration=1e-3, clients=9, seed=0)
    shard(tmp_path / "drawn", rows, spec)
    (told,) = json.loads((tmp_path / "drawn" / "manifest.json").read_text())["silos"]
    sizes = [client["samples"] for client in told["clients"]]
    assert told["filled_clients"] == sizes.count(1) > 1
    assert f"{sizes.count(1)} of 9 clients were empty by the draw" in caplog.text


def test_samples_with_a_shape_are_refused(tmp_path):
    spec = HorizontalPartition(clients=2, intercept=True)
    prepared = write_prepared(tmp_path / "a.parquet", make_samples(8, 6, "float32"), (2, 3))
    with pytest.raises(FedatlasError, match="intercept adds a column to plain rows"):
        write_shards(prepared, spec, [tmp_path / "silo-0.parquet"], tmp_path / "manifest.json")


def skewed(rows: int) -> Samples:
    """Five in six labels are positive, and half of the others can be told from them."""
    random = np.random.default_rng(11)
    features = random.normal(size=(rows, 3))
    margin = features @ [1.5, -1.0, 0.0] + 3.0
    label = np.where(random.random(rows) < 1 / (1 + np.exp(-margin)), 1.0, -1.0)
    return Samples(np.arange(rows), label, features)


def test_a_linear_model_reaches_the_accuracy_of_one_with_an_intercept(tmp_path):
    samples, weight = skewed(1200), 1e-3
    expected = LogisticRegression(C=1 / (weight * 1000), tol=1e-8)
    expected.fit(samples.features[:1000], samples.label[:1000])
    accuracy = expected.score(samples.features[1000:], samples.label[1000:])
    found = {}
    for intercept in (False, True):
        partition = HorizontalPartition(clients=5, test=200, intercept=intercept)
        spec = specification(
            "fedavg",
            partition=partition,
            objective={"name": "logistic_l2", "weight": weight},
            hyper_parameters={"clients_per_round": 5, "local_steps": 2, "local_step_size": 1.0},
            rounds=60,
            record_every=60,
            seeds=(3,),
        )
        folder = tmp_path / str(intercept)
        folder.mkdir()
        shards = share_out(folder, partition, samples, task="binary")
        trace = train(spec, shards, folder / "trace.nc")
        found[intercept] = float(trace.test_accuracy[0, -1])
    assert found[True] == pytest.approx(accuracy, abs=0.005)
    assert found[False] < accuracy - 0.1


def test_the_optimum_is_that_of_the_objective_with_all_weights_penalised(tmp_path):
    samples, weight = skewed(300), 1e-2
    spec = HorizontalPartition(clients=6, intercept=True).pooled()
    train_rows = read_party_shards(shard(tmp_path, samples, spec)).train
    _, found = solve(train_rows, LinearObjective(name="logistic_l2", weight=weight))
    # Newton's method in float64, from the formula.
    rows, x = np.column_stack([samples.features, np.ones(300)]), np.zeros(4)
    for _ in range(30):
        share = 1 / (1 + np.exp(samples.label * (rows @ x)))
        gradient = -(rows.T @ (share * samples.label)) / 300 + weight * x
        curvature = (rows.T * (share * (1 - share))) @ rows / 300 + weight * np.eye(4)
        x = x - np.linalg.solve(curvature, gradient)
    value = np.log1p(np.exp(-samples.label * (rows @ x))).mean() + weight / 2 * x @ x
    assert found.objective == pytest.approx(value, rel=1e-10)


def test_a_specification_without_the_new_keys_is_written_as_before():
    dumped = HorizontalPartition(clients=6).model_dump(mode="json")
    assert not {"intercept", "minimum"} & dumped.keys()
