"""Columns that rows keep beside their features, and clients that hold the rows of one value."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from catalogue_entry import PUBLISHED, prepared, tiny, written
from fedatlas.data.formats.csv import CsvTable, read_csv
from fedatlas.data.formats.libsvm import read_libsvm
from fedatlas.data.formats.synthetic_clients import SyntheticClients, make_clients
from fedatlas.data.prepare import read_prepared
from fedatlas.errors import FedatlasError
from fedatlas.federations.shards import read_shard
from fedatlas.schema.partitions import HorizontalPartition
from fedatlas.shards.writing import write_shards
from prepared_files import as_dense

TABLE: dict[str, Any] = {"label": "y", "numeric": ["a"], "keep": ["user", "a"], "ignore": ["id"]}
#: Users with 2, 1 and 3 rows, whose order is not that of their names.
TEXT = "id,y,user,a\n0,1,zoe,1\n1,0,Ann B,2\n2,1, zoe,3\n3,0,10,0\n4,0,10,5\n5,1,10,6\n"
NATURAL = {"assignment": "by_column", "column": "user"}


def shards_of(folder: Path, text: str = TEXT, **partition: Any) -> tuple[Any, dict[str, Any]]:
    """What is read of the shards of a CSV file, and the manifest."""
    table = TABLE if "header" not in partition else TABLE | partition.pop("header")
    declared = tiny(format="csv", features=1, labels={0: -1, 1: 1}, csv=table)
    prepared(declared, folder, train=[written(folder / "raw.csv", text)])
    spec = HorizontalPartition.model_validate(NATURAL | partition)
    files = folder / "silo-0.parquet", folder / "manifest.json"
    write_shards(folder / "train.parquet", spec, [files[0]], files[1])
    return read_shard(files[0]), json.loads(files[1].read_text())


def test_each_user_of_a_csv_file_is_a_client(tmp_path):
    read, manifest = shards_of(tmp_path, clients=3)
    assert np.diff(read.offsets).tolist() == [3, 1, 2]
    assert read.samples.sample_id.tolist() == [3, 4, 5, 1, 0, 2]
    assert as_dense(read.samples)[:, 0].tolist() == [0, 5, 6, 2, 1, 3]
    assert read.samples.label.tolist() == [-1, -1, 1, -1, 1, 1]
    clients = manifest["silos"][0]["clients"]
    assert [client["user"] for client in clients] == ["10", "Ann B", "zoe"]
    assert [client["samples"] for client in clients] == [3, 1, 2]
    # Who wrote a row is no business of the server's: the file of the shards does not say it.
    columns = pq.ParquetFile(tmp_path / "silo-0.parquet").schema_arrow.names
    assert columns == ["sample_id", "label", "features"]
    held = pq.read_table(tmp_path / "train.parquet")
    assert held["kept:user"].to_pylist() == ["zoe", "Ann B", "zoe", "10", "10", "10"]


def test_users_with_few_rows_are_left_out_and_columns_of_ones_come_with_the_rest(tmp_path):
    read, _ = shards_of(tmp_path, clients=2, minimum=2, intercept=True)
    assert read.samples.sample_id.tolist() == [3, 4, 5, 0, 2]
    assert as_dense(read.samples).tolist() == [[0, 1], [5, 1], [6, 1], [1, 1], [3, 1]]


def test_a_numeric_column_can_be_kept_too(tmp_path):
    read, _ = shards_of(tmp_path, clients=6, column="a")
    assert read.samples.sample_id.tolist() == [3, 0, 1, 2, 4, 5]


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        ({"clients": 2}, "'user' has 3 values among the 6 training rows, but clients is 2: .* 3$"),
        ({"clients": 1, "minimum": 3, "column": "a"}, "'a' has 0 values .* at least 3 of them"),
        (
            {"clients": 3, "column": "usr"},
            "'usr' is none that data set tiny keeps; .*similar: user",
        ),
    ],
)
def test_another_number_of_clients_is_refused_with_the_right_one(tmp_path, partition, message):
    with pytest.raises(FedatlasError, match=rf"train\.parquet: partition: column {message}"):
        shards_of(tmp_path, **partition)


def test_rows_without_a_user_are_missing_a_value(tmp_path):
    table = CsvTable.model_validate(TABLE)
    path = written(tmp_path / "a.csv", TEXT.replace("Ann B", "NA"))
    with pytest.raises(FedatlasError, match=r"a\.csv:3: column 'user' lacks a value"):
        read_csv(path, table, None)
    left = read_csv(path, table.model_copy(update={"drop_missing": True}), None)
    assert left.kept == {"user": ["zoe", "zoe", "10", "10", "10"], "a": ["1", "3", "0", "5", "6"]}


@pytest.mark.parametrize("keep", [["y"], ["id"], ["user", "user"], ["usr"]])
def test_a_column_that_cannot_be_kept_is_refused(tmp_path, keep):
    with pytest.raises((ValueError, FedatlasError), match=keep[0]):
        read_csv(
            written(tmp_path / "a", TEXT), CsvTable.model_validate(TABLE | {"keep": keep}), None
        )


def test_prepared_files_without_kept_columns_say_nothing_of_them(tmp_path):
    table = {**TABLE, "keep": [], "ignore": ["id", "user"]}
    declared = tiny(format="csv", features=1, labels={0: -1, 1: 1}, csv=table)
    assert "keep" not in declared.model_dump()["csv"]
    ((_, metadata),) = prepared(declared, tmp_path, train=[written(tmp_path / "t", TEXT)]).values()
    assert "kept" not in metadata


def test_queries_of_libsvm_files_are_kept_on_demand(tmp_path):
    path = written(tmp_path / "a", "1 qid:7 1:2\n-1 qid:12 2:1 # mine\n1 qid:7\n")
    samples = read_libsvm(path, 2, None, keep=["qid"])
    assert samples.kept == {"qid": [7, 12, 7]}
    assert samples.features.toarray().tolist() == [[2, 0], [0, 1], [0, 0]]
    assert read_libsvm(path, 2, None).kept == {}
    lacking = written(tmp_path / "b", "1 qid:7 1:2\n\n# no sample\n-1 2:1\n".replace("\n\n", "\n"))
    with pytest.raises(FedatlasError, match=r"b:3: lacks the query, 'qid:…', that 'keep' asks for"):
        read_libsvm(lacking, 2, None, keep=["qid"])


# --------------------------------------------------------------------------------- synthetic(α, β)


def made(clients: int = 30, alpha: float = 1, beta: float = 1, seed: int = 0) -> SyntheticClients:
    return SyntheticClients(seed=seed, alpha=alpha, beta=beta, clients=clients)


def test_the_published_entry_is_shared_out_by_client(tmp_path):
    read = prepared(PUBLISHED["synthetic-1-1"], tmp_path, train=[], test=[])
    assert (len(read["train"][0]), len(read["test"][0])) == (9639, 1089)
    spec = HorizontalPartition(assignment="by_column", column="client", clients=30, test="test")
    files = tmp_path / "silo-0.parquet", tmp_path / "manifest.json"
    write_shards(tmp_path / "train.parquet", spec, [files[0]], files[1], tmp_path / "test.parquet")
    shard = read_shard(files[0])
    sizes = np.diff(shard.offsets)
    samples, _ = read_prepared(tmp_path / "train.parquet")
    np.testing.assert_array_equal(shard.samples.features, samples.features)  # they stand by client
    assert sizes.min() >= 45 and len(shard.test) == 1089
    whole = sizes + np.bincount(make_clients(made(), 60, 10, "test").kept["client"])
    assert sizes.tolist() == [int(0.9 * rows) for rows in whole]


def test_splits_are_parts_of_the_same_clients_and_clients_do_not_depend_on_their_number():
    few, more = (make_clients(made(n), 6, 3, "train") for n in (3, 5))
    np.testing.assert_array_equal(more.features[: len(few)], few.features)
    assert set(np.unique(make_clients(made(3), 6, 3, "test").label)) <= {0.0, 1.0, 2.0}


@pytest.mark.parametrize(("alpha", "beta"), [(0, 0), (0.5, 2.0)])
def test_rows_and_sizes_have_the_moments_of_the_paper(alpha, beta):
    """Means of inputs: N(B, 1) about B ~ N(0, β); about them N(0, j^−1.2); sizes log-normal."""
    features, clients = 20, 150
    samples = make_clients(made(clients, alpha, beta), features, 4, "train")
    owner = np.array(samples.kept["client"])
    sizes = np.bincount(owner)
    means = np.array([samples.features[owner == one].mean(axis=0) for one in range(clients)])
    assert means.mean(axis=1).var() == pytest.approx(beta**2 + 1 / features, rel=0.3)
    assert means.var(axis=1, ddof=1).mean() == pytest.approx(1, rel=0.1)
    within = (samples.features - means[owner]).var(axis=0)
    np.testing.assert_allclose(within, np.arange(1, features + 1) ** -1.2, rtol=0.1)
    logs = np.log(sizes / 0.9 - 50 + 0.5)
    assert np.median(logs) == pytest.approx(4, abs=0.5)
    # Clients label alike if they have one model; these have not, even at α = 0.
    first = [np.bincount(samples.label[owner == one].astype(int), minlength=4) for one in range(9)]
    assert len({tuple(counts / counts.sum()) for counts in np.array(first)}) == 9


def test_labels_are_those_of_a_plain_loop():
    """Client 1 by the authors' code, with the same numbers."""
    from fedatlas.arithmetic.randomness import named_stream

    alpha, beta, features, classes = 0.7, 0.3, 5, 3
    random = named_stream(4, "client 1")
    u, b = random.normal(0, alpha), random.normal(0, beta)
    weights = np.array([[random.normal(u, 1) for _ in range(classes)] for _ in range(features)])
    bias = np.array([random.normal(u, 1) for _ in range(classes)])
    centre = np.array([random.normal(b, 1) for _ in range(features)])
    rows = 50 + int(random.lognormal(4, 2))
    expected = []
    for _ in range(rows):
        x = np.array(
            [centre[j] + (j + 1) ** -0.6 * random.standard_normal() for j in range(features)]
        )
        scores = np.exp(x @ weights + bias)
        expected.append((*x, float(np.argmax(scores / scores.sum()))))
    found = []
    for split in ("train", "test"):
        samples = make_clients(made(2, alpha, beta, seed=4), features, classes, split)
        own = np.array(samples.kept["client"]) == 1
        found.append(np.column_stack([samples.features[own], samples.label[own]]))
    assert len(found[0]) == int(0.9 * rows)
    np.testing.assert_allclose(np.vstack(found), expected, atol=1e-12)
