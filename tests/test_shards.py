"""Shards: what goes in comes out, client by client, and damage is named."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedatlas.arithmetic.samples import Samples
from fedatlas.arithmetic.torch_device import DeviceSamples
from fedatlas.data.tables import from_table
from fedatlas.errors import FedatlasError
from fedatlas.federations.shards import TieredSamples, read_shard, read_tiered_shards
from fedatlas.files import file_digest
from fedatlas.schema.partitions import HorizontalPartition, TieredPartition, VerticalPartition
from fedatlas.shards import cutting
from fedatlas.shards.assignment import (
    share_out,
    share_out_by_silo,
    silo_blocks,
    train_and_test_rows,
)
from fedatlas.shards.writing import write_shards
from prepared_files import as_dense, make_samples, shard, write_prepared
from test_tiered_partition import shapes_and_cuts, silo_of_each_number, tiered


def test_sharding_dense_rows_loads_no_pandas_and_no_scipy(tmp_path):
    """They would take longer than the sharding."""
    write_prepared(tmp_path / "data.parquet", make_samples(12, 5, "dense"))
    specs = {
        "horizontal": HorizontalPartition(assignment="shuffled", clients=3, test=0.2),
        "vertical": VerticalPartition(parties=1, active=1, assignment="shuffled", test=0.2),
    }
    for kind, spec in specs.items():
        code = (
            "import sys; from fedatlas.cli import app; app(sys.argv[1:], standalone_mode=False); "
            "print({'pandas', 'scipy', 'torch', 'xarray'} & set(sys.modules))"
        )
        folder = tmp_path / kind
        given = {
            "prepared": str(tmp_path / "data.parquet"),
            "spec": spec.model_dump(mode="json"),
            "silos": str(folder / "silo-0.parquet"),
            "manifest": str(folder / "manifest.json"),
        }
        command = [sys.executable, "-c", code, "step", "shard_split", json.dumps(given)]
        found = subprocess.run(command, check=True, capture_output=True, text=True)
        assert found.stdout == "set()\n"


def assert_same_rows(actual: Samples, whole: Samples, rows: np.ndarray) -> None:
    np.testing.assert_array_equal(actual.sample_id, whole.sample_id[rows])
    np.testing.assert_array_equal(actual.label, whole.label[rows])
    np.testing.assert_array_equal(as_dense(actual), as_dense(whole)[rows])
    assert actual.is_sparse == whole.is_sparse


def shard_and_manifest(
    folder: Path, samples: Samples, spec: HorizontalPartition
) -> tuple[Path, dict]:
    (silo,) = shard(folder, samples, spec)
    return silo, json.loads(silo.with_name("manifest.json").read_text())


def partition(assignment: str, clients: int, samples: int | None = None) -> HorizontalPartition:
    concentration = 0.5 if assignment == "dirichlet" else None
    return HorizontalPartition(
        assignment=assignment, clients=clients, samples=samples, concentration=concentration
    )


@pytest.fixture
def silo(tmp_path) -> Path:
    """Six clients of five sparse rows each."""
    return shard(tmp_path, make_samples(30, 8, "sparse"), partition("consecutive", 6))[0]


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@settings(max_examples=30)
@given(data=st.data())
def test_every_kept_sample_comes_back_once_with_its_client(layout, tmp_path, data):
    rows = data.draw(st.integers(1, 40), "rows")
    kept = data.draw(st.integers(1, rows), "kept")
    spec = partition(
        data.draw(st.sampled_from(["consecutive", "shuffled", "dirichlet"])),
        data.draw(st.integers(1, kept), "clients"),
        data.draw(st.sampled_from([kept, None])),
    )
    samples = make_samples(
        rows,
        data.draw(st.integers(1, 6), "features"),
        layout,
        data.draw(st.sampled_from([0.0, 0.1, 1.0]), "density"),
    )
    check_shard(tmp_path, samples, spec)


@pytest.mark.parametrize("clients", [2, 700])
@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_thousands_of_rows_come_back_too(tmp_path, clients, layout):
    check_shard(tmp_path, make_samples(3000, 3, layout), partition("dirichlet", clients))


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_row_groups_hold_many_clients_where_there_are_very_many(tmp_path, monkeypatch, layout):
    """A file of a million row groups is ten times its data, and takes gigabytes to write."""
    samples, spec = make_samples(60, 3, layout), partition("dirichlet", 20)
    own, _ = shard_and_manifest(tmp_path / "own", samples, spec)
    monkeypatch.setattr(cutting, "MOST_ROW_GROUPS", 19)
    monkeypatch.setattr(cutting, "_ROWS_OF_GROUP", 25)
    silo, manifest = shard_and_manifest(tmp_path / "shared", samples, spec)
    read, expected, file = read_shard(silo), read_shard(own), pq.ParquetFile(silo)
    assert read.offsets.tolist() == expected.offsets.tolist()
    assert_same_rows(read.samples, samples, expected.samples.sample_id)
    groups = [client["row_group"] for client in manifest["silos"][0]["clients"]]
    assert 1 < file.num_row_groups == groups[-1] + 1 < 10
    for number in range(file.num_row_groups):
        held = np.flatnonzero(np.repeat(groups, np.diff(read.offsets)) == number)
        group = from_table(file.read_row_group(number), 3)
        assert_same_rows(group, samples, expected.samples.sample_id[held])


def check_shard(folder: Path, samples: Samples, spec: HorizontalPartition) -> None:
    """Every client of a shard holds the rows that it is dealt."""
    silo, manifest = shard_and_manifest(folder, samples, spec)
    clients, _, *_ = share_out(spec, samples.label)
    rows = len(samples)
    read, file = read_shard(silo), pq.ParquetFile(silo)
    assert read.clients == spec.clients
    assert read.offsets.dtype == np.int64
    assert read.offsets[0] == 0
    np.testing.assert_array_equal(np.sort(read.samples.sample_id), np.arange(spec.samples or rows))
    assert_same_rows(read.samples, samples, np.concatenate(clients))
    for number, entry in enumerate(manifest["silos"][0]["clients"]):
        held = clients[number]
        assert read.offsets[number + 1] - read.offsets[number] == len(held) == entry["samples"]
        assert entry["row_group"] == number
        group = file.read_row_group(number)
        assert_same_rows(from_table(group, read.metadata["features"]), samples, held)


def test_manifest_and_metadata_tell_where_a_shard_comes_from(tmp_path):
    spec = HorizontalPartition(assignment="shuffled", clients=2, samples=5, seed=3)
    silo, manifest = shard_and_manifest(tmp_path, make_samples(6, 4), spec)
    prepared_digest = file_digest(tmp_path / "prepared.parquet")
    clients = manifest["silos"][0].pop("clients")
    assert [client["samples"] for client in clients] == [3, 2]
    assert manifest == {
        "dataset": "toy",
        "split": "train",
        "features": 4,
        "prepared_digest": prepared_digest,
        "partition": spec.model_dump(),
        "seed": 3,
        "constant_columns": [],
        "silos": [{"file": "silo-0.parquet", "digest": file_digest(silo), "test_samples": 0}],
    }
    assert read_shard(silo).metadata == {
        "dataset": "toy",
        "split": "train",
        "rows": 5,
        "features": 4,
        "layout": "dense",
        "partition": spec.model_dump(),
        "silo": 0,
        "client_samples": [3, 2],
        "test_samples": 0,
        "positive_rate": 0.8,
        "prepared_digest": prepared_digest,
        "test_digest": None,
    }


@pytest.mark.parametrize("layout", ["dense", "sparse", "float32", "uint8"])
@pytest.mark.parametrize(
    "spec",
    [
        partition("dirichlet", 4),
        VerticalPartition(parties=3, active=2, seed=4, test=0.2),
        TieredPartition(cut={"columns": 3}, clients=4),
    ],
)
def test_the_same_request_writes_the_same_bytes(tmp_path, spec, layout):
    samples = make_samples(40, 6, layout)
    for name in ("first", "second"):
        shard(tmp_path / name, samples, spec)
    for file in (tmp_path / "first").iterdir():
        assert file.read_bytes() == (tmp_path / "second" / file.name).read_bytes()


def test_a_shard_has_the_prepared_columns_and_nothing_else_is_left_behind(tmp_path):
    (silo,) = shard(tmp_path, make_samples(9, 3, "sparse"), partition("shuffled", 3))
    prepared = pq.read_schema(tmp_path / "prepared.parquet")
    assert pq.read_schema(silo).equals(prepared, check_metadata=False)
    assert {path.name for path in tmp_path.iterdir()} == {
        "prepared.parquet",
        "silo-0.parquet",
        "manifest.json",
    }


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    # The last byte of a row group, before the next one.
    content[pq.read_metadata(path).row_group(4).column(0).data_page_offset - 1] ^= 1
    path.write_bytes(content)


def with_metadata(**metadata: str) -> Callable[[Path], None]:
    return lambda path: pq.write_table(pq.read_table(path).replace_schema_metadata(metadata), path)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (flip_a_bit, "is truncated, damaged"),
        (Path.unlink, "no such file"),
        (lambda path: shutil.copy(path.with_name("prepared.parquet"), path), ".*lack partition"),
        (with_metadata(), "lacks the schema metadata"),
        (with_metadata(fedatlas="not JSON"), "lacks the schema metadata"),
        (with_metadata(fedatlas="3"), "lacks the schema metadata"),
    ],
)
def test_a_damaged_shard_is_refused_by_name(silo, damage, problem):
    damage(silo)
    with pytest.raises(FedatlasError, match=rf"silo-0\.parquet: {problem}"):
        read_shard(silo)


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.8, 0.999])
def test_a_truncated_shard_is_refused_by_name(silo, kept):
    content = silo.read_bytes()
    silo.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(FedatlasError, match=r"silo-0\.parquet: is truncated"):
        read_shard(silo)


def test_a_prepared_file_without_a_key_is_refused(tmp_path):
    prepared = write_prepared(tmp_path / "prepared.parquet", make_samples(9, 2), features=None)
    spec, silo = partition("consecutive", 3), tmp_path / "silo-0.parquet"
    with pytest.raises(FedatlasError, match=r"prepared\.parquet: .*lack features"):
        write_shards(prepared, spec, [silo], tmp_path / "manifest.json")
    assert not (tmp_path / "manifest.json").exists()


@pytest.mark.parametrize(
    ("spec", "files"),
    [
        (HorizontalPartition(clients=3), 1),
        (VerticalPartition(parties=3, active=2, seed=0), 3),
        (TieredPartition(cut={"columns": 2}, clients=2), 2),
    ],
)
@pytest.mark.parametrize(
    "names", [[], ["a", "b", "c", "d"], ["a", "b", "x/c"], ["x/a"], ["a", "x/b"]]
)
def test_every_silo_has_a_file_beside_the_manifest(tmp_path, spec, files, names):
    message = rf"manifest\.json: a {spec.kind} partition is {files} silo file"
    silos = [tmp_path / name for name in names]
    with pytest.raises(FedatlasError, match=message):
        write_shards(tmp_path / "prepared.parquet", spec, silos, tmp_path / "manifest.json")


def two_classes(**binary: object) -> HorizontalPartition:
    return HorizontalPartition(clients=2, binary=binary)


def tiers(clients: int = 2, **rest: object) -> TieredPartition:
    return TieredPartition(**{"cut": {"columns": 2}, "clients": clients, **rest})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (HorizontalPartition(clients=10), "clients 10 exceeds the 9 samples to share out; lower"),
        (HorizontalPartition(clients=2, samples=10), "samples 10 exceeds the 9 rows .*; lower sa"),
        (two_classes(positive=(7,)), "positive names the label 7, which no row has; labels are"),
        (two_classes(positive=(-1, 1)), "no negative row is left to train on: 0 rows"),
        (two_classes(positive=(1,), keep_positive=0.01), "no positive row .* keeps 0.01;"),
        (two_classes(positive=(1,), keep_negative=0.01), "no negative row .* keeps 0.01;"),
        (VerticalPartition(parties=5, active=2), "5 parties cannot share 4 features"),
        (VerticalPartition(parties=3, active=2, samples=10), "samples 10 exceeds the 9 rows"),
        (VerticalPartition(parties=3, active=2, test=0.01), "0.01 of 9 rows leaves no .* testing"),
        (VerticalPartition(parties=3, active=2, test=0.99), "0.99 of 9 rows leaves no .* training"),
        (VerticalPartition(parties=3, active=2, standardise=True), "'standardise' would make spa"),
        (tiers(80), "clients 80 exceeds the 9 samples"),
        (tiers(8, test=0.3), "clients 8 exceeds the 6 samples"),
        (tiers(samples=10), "samples 10 exceeds the 9 rows"),
        (tiers(test=0.99), "leaves no row for training"),
        (tiers(9, binary={"positive": (1,), "keep_negative": 0.5}), "clients 9 exceeds the . sam"),
        (tiers(3, cut={"columns": 5}), "cut.columns asks for 5 blocks"),
        (tiers(3, cut={"width": 2}), "names the axis 'width'"),
    ],
)
def test_what_cannot_be_shared_out_is_refused_and_leaves_nothing(tmp_path, spec, message):
    with pytest.raises(FedatlasError, match=message):
        shard(tmp_path, make_samples(9, 4, "sparse"), spec)
    assert {path.name for path in tmp_path.iterdir()} == {"prepared.parquet"}


LAYOUTS = ["dense", "float32", "uint8", "sparse"]


def put_together(data: TieredSamples, test: bool = False) -> np.ndarray:
    """(n, d) training rows by ascending sample id, or test rows, from the slices of all silos."""
    parts = [silo.test if test else silo.samples for silo in data.silos]
    dtype = as_dense(parts[0]).dtype
    width = sum(part.features.shape[1] for part in parts)
    whole = np.zeros((len(parts[0]), width), dtype)
    for number, (silo, part) in enumerate(zip(data.silos, parts, strict=True)):
        rows = slice(None) if test else data.place[number]
        whole[:, silo.metadata["columns"]] = as_dense(part)[rows]
    return whole


# --------------------------------------------------------------------------------- through files


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=15)
@given(data=st.data())
def test_slices_come_back_and_can_be_put_together(layout, tmp_path, data):
    shape, cut = data.draw(shapes_and_cuts(most_blocks=3))
    rows = data.draw(st.integers(4, 12), "rows")
    test = data.draw(st.sampled_from([None, 0.25]), "test")
    spec = tiered(cut, data.draw(st.integers(1, 3), "clients"), test=test)
    samples = make_samples(
        rows, int(np.prod(shape)), layout, seed=data.draw(st.integers(0, 9), "seed")
    )
    declared = None if len(shape) == 1 else shape
    files = shard(tmp_path, samples, spec, declared)
    train, held_out = train_and_test_rows(spec, rows)
    silo_of_number = silo_of_each_number(shape, cut)
    whole = as_dense(samples)
    shared, _ = share_out_by_silo(spec, samples.label)

    read = read_tiered_shards(files)
    assert len(read.silos) == spec.silos
    assert read.place.shape == (spec.silos, len(train))
    assert read.place.dtype == np.int64
    for number, silo in enumerate(read.silos):
        columns = np.flatnonzero(silo_of_number == number)
        assert silo.clients == spec.clients
        assert silo.metadata["silo"] == number
        assert silo.metadata["columns"] == columns.tolist()
        assert silo.metadata["features"] == silo.samples.features.shape[1] == len(columns)
        assert np.prod(silo.metadata["shape"]) == len(columns)
        for client, own in enumerate(shared[number]):
            start, stop = silo.offsets[client : client + 2]
            for held in (
                Samples(*(part[start:stop] for part in list(vars(silo.samples).values())[:3])),
                from_table(pq.ParquetFile(files[number]).read_row_group(client), len(columns)),
            ):
                np.testing.assert_array_equal(held.sample_id, own)
                np.testing.assert_array_equal(held.label, samples.label[own])
                np.testing.assert_array_equal(as_dense(held), whole[np.ix_(own, columns)])
                assert held.features.dtype == samples.features.dtype
                assert held.is_sparse == samples.is_sparse
        np.testing.assert_array_equal(silo.samples.sample_id[read.place[number]], train)
        np.testing.assert_array_equal(silo.samples.label[read.place[number]], samples.label[train])
        if test is None:
            assert silo.test is None
        else:
            np.testing.assert_array_equal(silo.test.sample_id, held_out)
            np.testing.assert_array_equal(silo.test.label, samples.label[held_out])
    np.testing.assert_array_equal(put_together(read), whole[train])
    if test is not None:
        np.testing.assert_array_equal(put_together(read, test=True), whole[held_out])


@pytest.mark.parametrize("layout", ["dense", "uint8", "sparse"])
def test_a_test_split_is_taken_whole_by_every_silo(tmp_path, layout):
    samples, test = make_samples(12, 24, layout), make_samples(5, 24, layout, seed=1)
    spec = tiered({"width": 2}, test="test", samples=9)
    read = read_tiered_shards(shard(tmp_path, samples, spec, (2, 3, 4), test))
    np.testing.assert_array_equal(put_together(read), as_dense(samples)[:9])
    np.testing.assert_array_equal(put_together(read, test=True), as_dense(test))
    for silo in read.silos:
        assert silo.test is not None
        np.testing.assert_array_equal(silo.test.label, test.label)
        assert silo.metadata["test_digest"] == file_digest(tmp_path / "test.parquet")


def test_a_cut_of_channels_takes_their_normalisation_along(tmp_path):
    normalisation = {"mean": [1.0, 2.0, 3.0], "deviation": [4.0, 5.0, 6.0]}
    files = shard(
        tmp_path,
        make_samples(6, 12, "uint8"),
        tiered({"channels": 2}, 2),
        (3, 2, 2),
        normalisation=normalisation,
    )
    first, second = read_tiered_shards(files).silos
    assert first.metadata["normalisation"] == {"mean": [1.0, 2.0], "deviation": [4.0, 5.0]}
    assert second.metadata["normalisation"] == {"mean": [3.0], "deviation": [6.0]}


@pytest.mark.parametrize("layout", ["uint8", "float32"])
@pytest.mark.parametrize("cut", [{"views": 2}, {"views": 3}, {"width": 2}, {"channels": 2}])
def test_networks_see_views_as_channels_normalised_by_their_own_numbers(tmp_path, layout, cut):
    shape = (3, 2, 4, 5)
    samples = make_samples(8, 120, layout)
    mean, deviation = [1.5, 20.0], [3.0, 0.5]
    normalisation = {"mean": mean, "deviation": deviation}
    spec = tiered(cut, 2)
    read = read_tiered_shards(shard(tmp_path, samples, spec, shape, normalisation=normalisation))
    normalised = samples.features.reshape(8, *shape).astype(float)
    for channel in range(2):
        normalised[:, :, channel] = (normalised[:, :, channel] - mean[channel]) / deviation[channel]
    for number, block in enumerate(silo_blocks(spec, shape)):
        silo = read.silos[number]
        seen = DeviceSamples(silo.samples, silo.metadata, torch.device("cpu"), torch.float64)
        expected = normalised[(slice(None), *block)]
        views, channels, height, width = expected.shape[1:]
        assert silo.metadata["shape"] == [views * channels, height, width]
        np.testing.assert_allclose(
            seen.at(torch.from_numpy(read.place[number])),
            expected.reshape(8, views * channels, height, width),
            rtol=1e-12,
        )


@pytest.mark.parametrize("cut", [{"features": 4}, {"time": 2}])
def test_networks_see_blocks_of_time_series(tmp_path, cut):
    shape, spec = (6, 10), tiered(cut, 2)
    samples = make_samples(5, 60, "float32")
    read = read_tiered_shards(shard(tmp_path, samples, spec, shape))
    series = samples.features.reshape(5, *shape)
    parts = np.array_split(series, spec.silos, axis=2 if "features" in cut else 1)
    for silo, place, part in zip(read.silos, read.place, parts, strict=True):
        seen = DeviceSamples(silo.samples, silo.metadata, torch.device("cpu"), torch.float32)
        np.testing.assert_array_equal(seen.at(torch.from_numpy(place)), part)


def test_metadata_and_manifest_tell_where_shards_come_from(tmp_path):
    spec = tiered({"height": 2}, 2, test=0.25, seed=3)
    samples = make_samples(8, 12, "uint8")
    scaling = {"mean": [0.0], "scale": [1.0]}
    files = shard(tmp_path, samples, spec, (2, 3, 2), task="multiclass", standardised=scaling)
    silos, test = share_out_by_silo(spec, np.zeros(8))
    common = {"dataset": "toy", "split": "train", "partition": spec.model_dump()}
    prepared_digest = file_digest(tmp_path / "prepared.parquet")
    columns = [[0, 1, 2, 3, 6, 7, 8, 9], [4, 5, 10, 11]]
    for number, silo in enumerate(read_tiered_shards(files).silos):
        assert silo.metadata == {
            **common,
            "task": "multiclass",
            "rows": 8,
            "features": len(columns[number]),
            "layout": "tensor",
            "shape": [2, 2 - number, 2],
            "normalisation": None,
            "columns": columns[number],
            "silo": number,
            "client_samples": [3, 3],
            "test_samples": 2,
            "positive_rate": (samples.label[np.concatenate(silos[number])] > 0).mean(),
            "prepared_digest": prepared_digest,
            "test_digest": None,
        }
        assert pq.read_schema(files[number]).field("features").type.shape == [2, 2 - number, 2]
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    for silo in manifest["silos"]:
        for client, held in enumerate(silo.pop("clients")):
            assert (held["row_group"], held["samples"]) == (client, 3)
    assert manifest == {
        **common,
        "features": 12,
        "prepared_digest": prepared_digest,
        "seed": 3,
        "constant_columns": [],
        "silos": [
            {
                "file": file.name,
                "digest": file_digest(file),
                "features": len(columns[number]),
                "shape": [2, 2 - number, 2],
                "test_samples": len(test),
            }
            for number, file in enumerate(files)
        ],
    }


# ------------------------------------------------------------------------------ binary classes


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("test", [None, 0.25, "test"])
def test_silos_hold_the_signs_and_rows_of_a_horizontal_shard(layout, test, tmp_path):
    """The same samples, labels and test rows in both, and the same share of positives."""
    rest = {"test": test, "seed": 3, "samples": 50}
    rest["binary"] = {"positive": (1,), "keep_negative": 0.5}
    samples, others = make_samples(60, 6, layout), make_samples(9, 6, layout, seed=1)
    held_out = others if test == "test" else None
    spec = tiered({"columns": 3}, 4, **rest)
    silos = read_tiered_shards(shard(tmp_path, samples, spec, test=held_out))
    horizontal = HorizontalPartition(clients=2, **rest)
    file = tmp_path / "whole" / "silo-0.parquet"
    file.parent.mkdir()
    write_shards(
        tmp_path / "prepared.parquet",
        horizontal,
        [file],
        file.parent / "manifest.json",
        tmp_path / "test.parquet" if held_out else None,
    )
    whole = read_shard(file)
    order = np.argsort(whole.samples.sample_id)
    sources = [(samples, whole.samples.sample_id)]
    if whole.test is not None:
        sources.append((others if test == "test" else samples, whole.test.sample_id))
    assert len(sources) == 1 + (test is not None)
    for number, silo in enumerate(silos.silos):
        place = silos.place[number]
        np.testing.assert_array_equal(silo.samples.sample_id[place], whole.samples.sample_id[order])
        np.testing.assert_array_equal(silo.samples.label[place], whole.samples.label[order])
        assert silo.metadata["positive_rate"] == whole.metadata["positive_rate"]
        if test is not None:
            np.testing.assert_array_equal(silo.test.sample_id, whole.test.sample_id)
            np.testing.assert_array_equal(silo.test.label, whole.test.label)
        for part, (source, ids) in zip((silo.samples, silo.test), sources, strict=False):
            raw = source.label[part.sample_id]
            np.testing.assert_array_equal(part.label, np.where(raw >= 1, 1.0, -1.0))
            assert len(ids) == len(part)
    np.testing.assert_array_equal(put_together(silos), as_dense(whole.samples)[order])
    negatives = round(0.5 * (samples.label[train_and_test_rows(spec, 60)[0]] < 0).sum())
    assert (whole.samples.label < 0).sum() == negatives
