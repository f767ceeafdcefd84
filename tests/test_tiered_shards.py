"""Tiered shards: what goes in comes out, slice by slice and client by client, or is refused."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedatlas.arithmetic.samples import Samples
from fedatlas.arithmetic.torch_device import DeviceSamples
from fedatlas.data.tables import from_table
from fedatlas.federations.shards import TieredSamples, read_shard, read_tiered_shards
from fedatlas.files import file_digest
from fedatlas.schema.partitions import HorizontalPartition
from fedatlas.shards.assignment import share_out_by_silo, silo_blocks, train_and_test_rows
from fedatlas.shards.writing import write_shards
from prepared_files import as_dense, make_samples, shard
from test_tiered_partition import shapes_and_cuts, silo_of_each_number, tiered

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
                Samples(*(part[start:stop] for part in vars(silo.samples).values())),
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
