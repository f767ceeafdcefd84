"""Party shards: every party's file holds its own columns and nothing else, and damage is named."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.tables import features_from_table
from fedatlas.errors import FedatlasError
from fedatlas.federations.vertical.shards import read_party_shards
from fedatlas.files import file_digest
from fedatlas.schema.partitions import HorizontalPartition, VerticalPartition
from fedatlas.shards.assignment import train_and_test_rows
from fedatlas.shards.columns import feature_blocks
from fedatlas.shards.writing import write_shards
from prepared_files import as_dense, make_samples, shard, write_prepared

both_layouts = pytest.mark.parametrize("layout", ["dense", "sparse"])


def vertical(parties: int = 3, active: int = 2, **rest: Any) -> VerticalPartition:
    return VerticalPartition(**{"parties": parties, "active": active, "seed": 4, **rest})


def metadata_of(path: Path) -> dict[str, Any]:
    return json.loads(pq.read_schema(path).metadata[b"fedatlas"])


def own_features(path: Path, group: int, width: int) -> np.ndarray:
    features = features_from_table(pq.ParquetFile(path).read_row_group(group), width)
    return features.toarray() if sparse.issparse(features) else features


@pytest.fixture(params=["dense", "sparse"])
def files(request, tmp_path) -> list[Path]:
    """Three parties, two of them active, of thirty rows, nine of which are for testing."""
    return shard(tmp_path, make_samples(30, 8, request.param), vertical(test=0.3))


# ------------------------------------------------------------------------------ what a file holds


@both_layouts
@settings(max_examples=20)
@given(data=st.data())
def test_a_partys_file_holds_its_columns_and_nothing_else(layout, tmp_path, data):
    parties = data.draw(st.integers(1, 5), "parties")
    spec = vertical(
        parties,
        data.draw(st.integers(1, parties), "active"),
        assignment=data.draw(st.sampled_from(["shuffled", "consecutive"])),
        samples=data.draw(st.sampled_from([None, 11])),
        test=data.draw(st.sampled_from([None, 0.3])),
        seed=data.draw(st.integers(0, 100)),
    )
    features = parties + data.draw(st.integers(0, 5), "more features")
    density = data.draw(st.sampled_from([0.0, 0.1, 1.0]), "density")
    samples = make_samples(14, features, layout, density, data.draw(st.integers(0, 9), "seed"))
    files = shard(tmp_path, samples, spec)
    train, test = train_and_test_rows(spec, 14)
    blocks = feature_blocks(spec, features)
    whole = as_dense(samples)
    inner = {"dense": ["features"], "sparse": ["indices", "values"]}[layout]
    for number, (path, block) in enumerate(zip(files, blocks, strict=True)):
        labelled = number < spec.active
        described = metadata_of(path)
        assert described["columns"] == block.tolist()
        assert described["features"] == len(block)
        assert described["silo"] == number
        assert described["labelled"] == labelled
        assert described["partition"] == spec.model_dump()
        assert described["prepared_digest"] == file_digest(tmp_path / "prepared.parquet")
        expected = ["sample_id", "label", *inner] if labelled else ["sample_id", *inner]
        assert pq.read_schema(path).names == expected
        groups = [train, test] if len(test) else [train]
        with pq.ParquetFile(path) as file:
            assert file.num_row_groups == len(groups)
            for group, rows in enumerate(groups):
                table = file.read_row_group(group)
                np.testing.assert_array_equal(table["sample_id"].to_numpy(), rows)
                if labelled:
                    np.testing.assert_array_equal(table["label"].to_numpy(), samples.label[rows])
                held = own_features(path, group, len(block))
                np.testing.assert_array_equal(held, whole[rows][:, block])
                if layout == "sparse":  # no entry more, explicit zeros included
                    assert len(table["values"].combine_chunks().flatten()) == np.count_nonzero(held)

    read = read_party_shards(files)
    for rows, part in ((train, read.train), (test, read.test)):
        if part is None:
            assert len(rows) == 0
            continue
        assert len(part) == len(rows)
        assert part.parties == parties
        np.testing.assert_array_equal(part.starts, np.cumsum([0, *map(len, blocks)]))
        np.testing.assert_array_equal(part.label, samples.label[rows])
        restored = np.empty((len(rows), features))
        restored[:, np.concatenate(blocks)] = as_dense(part)
        np.testing.assert_array_equal(restored, whole[rows])
        assert sparse.issparse(part.features) == (layout == "sparse")
        if layout == "sparse":
            assert part.features.has_sorted_indices


@both_layouts
def test_a_test_split_is_taken_whole(tmp_path, layout):
    samples = make_samples(20, 6, layout)
    test = make_samples(7, 6, layout, seed=1)
    spec = vertical(test="test", samples=12)
    read = read_party_shards(shard(tmp_path, samples, spec, test=test))
    order = np.concatenate(feature_blocks(spec, 6))
    assert read.test is not None
    np.testing.assert_array_equal(as_dense(read.train), as_dense(samples)[:12, order])
    np.testing.assert_array_equal(read.train.label, samples.label[:12])
    np.testing.assert_array_equal(as_dense(read.test), as_dense(test)[:, order])
    np.testing.assert_array_equal(read.test.label, test.label)
    described = metadata_of(tmp_path / "silo-2.parquet")
    assert described["groups"] == [["train", 12], ["test", 7]]
    assert described["test_digest"] == file_digest(tmp_path / "test.parquet")


def test_the_manifest_names_every_file(tmp_path):
    spec = vertical(test="test")
    samples, test = make_samples(9, 4), make_samples(5, 4)
    files = shard(tmp_path, samples, spec, test=test)
    assert json.loads((tmp_path / "manifest.json").read_text()) == {
        "dataset": "toy",
        "split": "train",
        "features": 4,
        "prepared_digest": file_digest(tmp_path / "prepared.parquet"),
        "partition": spec.model_dump(),
        "seed": 4,
        "constant_columns": [],
        "silos": [
            {
                "file": f"silo-{number}.parquet",
                "digest": file_digest(path),
                "features": width,
                "labelled": number < 2,
            }
            for number, (path, width) in enumerate(zip(files, (2, 1, 1), strict=True))
        ],
    }
    assert {path.name for path in tmp_path.iterdir()} == {
        "prepared.parquet", "test.parquet", "manifest.json", *(path.name for path in files),
    }  # fmt: skip


# ---------------------------------------------------------------------------------- standardised


def table_of_csv() -> Samples:
    """Eight columns: 0, 2, 5 and 7 numeric (7 constant on most rows), 1, 3, 4 and 6 indicators."""
    random = np.random.default_rng(0)
    features = np.column_stack(
        [
            random.normal(5.0, 3.0, 40),
            random.random(40) < 0.3,
            random.exponential(1e4, 40),
            np.ones(40),
            np.zeros(40),
            np.full(40, 0.1),
            random.random(40) < 0.5,
            random.integers(0, 3, 40),
        ]
    ).astype(float)
    return Samples(np.arange(40), np.where(random.random(40) < 0.5, 1.0, -1.0), features)


NUMERIC, CONSTANT = [0, 2, 5, 7], 5


def test_values_too_large_to_be_standardised_are_named(tmp_path):
    samples = table_of_csv()
    samples.features[7, 2] = -1e200
    with pytest.raises(FedatlasError, match=r"column '2': the value -1e\+200 is too large"):
        shard(tmp_path, samples, vertical(3, 1, standardise=True))


@pytest.mark.parametrize("parties", [1, 3, 8])
@pytest.mark.parametrize("test", [None, 0.3, "test"])
def test_numeric_columns_are_standardised_by_training_rows(tmp_path, parties, test):
    samples, spec = table_of_csv(), vertical(parties, 1, test=test, standardise=True)
    whole = samples.features
    other = Samples(np.arange(5), samples.label[:5], whole[:5] * 2 + 1) if test == "test" else None
    files = shard(tmp_path, samples, spec, test=other, numeric_columns=NUMERIC)
    read = read_party_shards(files)
    train_rows, test_rows = train_and_test_rows(spec, 40)
    order = np.concatenate(feature_blocks(spec, 8))
    train = np.empty((len(train_rows), 8))
    train[:, order] = as_dense(read.train)
    mean, scale = whole[train_rows].mean(axis=0), whole[train_rows].std(axis=0)
    for column in range(8):
        if column not in NUMERIC:
            np.testing.assert_array_equal(train[:, column], whole[train_rows, column])
        elif column == CONSTANT:
            assert not train[:, column].any()
        else:
            assert train[:, column].mean() == pytest.approx(0, abs=1e-14)
            assert train[:, column].std() == pytest.approx(1, rel=1e-13)
    if read.test is None:
        assert test is None
    else:
        held_out = whole[test_rows] if other is None else other.features
        tested = np.empty_like(held_out)
        tested[:, order] = as_dense(read.test)
        for column in range(8):
            expected = held_out[:, column]
            if column == CONSTANT:
                expected = np.zeros(len(held_out))
            elif column in NUMERIC:
                expected = (expected - mean[column]) / scale[column]
            np.testing.assert_allclose(tested[:, column], expected, rtol=1e-13, atol=1e-13)
    for path in files:
        described = metadata_of(path)
        assert len(described["scaling"]["mean"]) == described["features"]
        assert len(described["scaling"]["scale"]) == described["features"]


@pytest.mark.parametrize("numeric", [None, []])
def test_without_a_list_all_columns_are_numeric_and_by_an_empty_one_none(tmp_path, numeric):
    samples = table_of_csv()
    spec = vertical(2, 1, assignment="consecutive", standardise=True)
    found = as_dense(
        read_party_shards(shard(tmp_path, samples, spec, numeric_columns=numeric)).train
    )
    if numeric is not None:
        np.testing.assert_array_equal(found, samples.features)
        return
    varied = found[:, [0, 1, 2, 6, 7]]
    np.testing.assert_allclose(varied.mean(axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(varied.std(axis=0), 1, rtol=1e-13)
    assert not found[:, [3, 4, 5]].any()


# -------------------------------------------------------------------------------- damage by name


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ((1, 0, 2), r"silo-1\.parquet: is not party 0 of the partition"),
        ((0, 2, 1), r"silo-2\.parquet: is not party 1 of the partition"),
        ((0, 0, 1), r"silo-0\.parquet: is not party 1 of the partition"),
        ((), "0 party files were given"),
        ((0, 1), "2 party files were given"),
    ],
)
def test_other_files_than_one_of_each_party_in_order_are_refused(files, order, message):
    with pytest.raises(FedatlasError, match=message):
        read_party_shards([files[party] for party in order])


@pytest.mark.parametrize("changes", [{"seed": 5}, {"active": 1}, {"test": 0.2}, {"samples": 30}])
@both_layouts
def test_files_of_another_partition_are_refused(tmp_path, layout, changes):
    samples = make_samples(30, 8, layout)
    files = shard(tmp_path / "one", samples, vertical(test=0.3))
    others = shard(tmp_path / "other", samples, vertical(**{"test": 0.3, **changes}))
    with pytest.raises(FedatlasError, match=r"other/silo-1\.parquet: is not party 1 of the par"):
        read_party_shards([files[0], others[1], files[2]])


def test_files_of_other_test_data_are_refused(tmp_path):
    samples, spec = make_samples(30, 8, "sparse"), vertical(test="test")
    files = shard(tmp_path / "one", samples, spec, test=make_samples(9, 8, "sparse", seed=1))
    others = shard(tmp_path / "other", samples, spec, test=make_samples(9, 8, "sparse", seed=2))
    with pytest.raises(FedatlasError, match=r"other/silo-2\.parquet: is not party 2"):
        read_party_shards([*files[:2], others[2]])


def test_prepared_files_and_horizontal_shards_are_no_party_shards(tmp_path):
    samples = make_samples(9, 4, "dense")
    shard(tmp_path, samples, vertical(1, 1))
    with pytest.raises(FedatlasError, match=r"prepared\.parquet: .*lack partition"):
        read_party_shards([tmp_path / "prepared.parquet"])
    clients, manifest = tmp_path / "clients.parquet", tmp_path / "clients.json"
    write_shards(tmp_path / "prepared.parquet", HorizontalPartition(clients=3), [clients], manifest)
    with pytest.raises(FedatlasError, match=r"clients\.parquet: .*lack .*columns"):
        read_party_shards([clients])


# ------------------------------------------------------------------------------ refused requests


@pytest.mark.parametrize(("split", "given_one"), [("test", False), (None, True), (0.3, True)])
def test_a_test_file_is_given_exactly_when_the_partition_names_one(tmp_path, split, given_one):
    prepared = write_prepared(tmp_path / "prepared.parquet", make_samples(9, 4))
    spec = vertical(test=split)
    with pytest.raises(FedatlasError, match=r"manifest\.json: the partition's test is"):
        files = [tmp_path / f"silo-{number}.parquet" for number in range(spec.parties)]
        held_out = prepared if given_one else None
        write_shards(prepared, spec, files, tmp_path / "manifest.json", held_out)


def test_a_test_split_with_other_features_is_refused(tmp_path):
    train, test = make_samples(9, 4), make_samples(9, 5)
    with pytest.raises(FedatlasError, match=r"test\.parquet: has 5 features, but .* has 4"):
        shard(tmp_path, train, vertical(test="test"), test=test)


@pytest.mark.parametrize("failing", [1, 2, 3, 4])
def test_files_are_written_whole_or_not_at_all_and_the_manifest_last(
    tmp_path, monkeypatch, failing
):
    samples = make_samples(9, 4)
    files = shard(tmp_path, samples, vertical(test=0.3))
    before = {path: path.read_bytes() for path in files}
    written, original = [], pq.ParquetWriter.write_table

    def fail_in_time(writer: pq.ParquetWriter, *arguments: Any, **options: Any) -> None:
        written.append(writer)
        if len(written) == failing:
            raise RuntimeError("killed while writing")
        original(writer, *arguments, **options)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fail_in_time)
    with pytest.raises(RuntimeError, match="killed"):
        write_shards(
            tmp_path / "prepared.parquet",
            vertical(test=0.3, seed=5),
            files,
            tmp_path / "manifest.json",
        )
    names = {"prepared.parquet", *(path.name for path in files)}
    assert {path.name for path in tmp_path.iterdir()} == names
    replaced = (failing - 1) // 2  # two row groups each
    for path in files[replaced:]:
        assert path.read_bytes() == before[path]
    if replaced:  # and the mixture is noticed
        with pytest.raises(FedatlasError, match=rf"silo-{replaced}\.parquet: is not party"):
            read_party_shards(files)
