"""Made time series: the benchmark's columns, labels that can be learnt, float32 all the way."""

import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogue_entry import PUBLISHED, tiny
from fedatlas.arithmetic.torch_device import DeviceSamples
from fedatlas.data.formats import read_raw
from fedatlas.data.formats.clinical import CHANNELS, COLUMNS, CONTINUOUS_COLUMNS, encoded
from fedatlas.data.formats.synthetic_series import SyntheticSeries, make_series
from fedatlas.data.prepare import prepare, read_prepared
from fedatlas.data.scaling import scaled
from fedatlas.errors import FedatlasError
from fedatlas.federations.shards import read_shard
from fedatlas.schema.partitions import HorizontalPartition
from fedatlas.shards.writing import write_shards

STEPS = 6
CATEGORICAL = {0: 2, 3: 8, 4: 12, 5: 13, 6: 12}
MASKS = slice(59, 76)


def made_series(**changes):
    return SyntheticSeries.model_validate({"seed": 1, "positive": 0.16, "signal": 2.5, **changes})


def series_set(**changes):
    plain = {
        "features": STEPS * COLUMNS,
        "shape": (STEPS, COLUMNS),
        "labels": None,
        "standardise": True,
        "synthetic_series": made_series().model_dump(),
        "splits": {"train": {"rows": 300}, "test": {"rows": 100}},
    }
    return tiny(format="synthetic_series", **plain | changes)


# -------------------------------------------------------------------------------------- the columns


def test_columns_are_those_of_the_benchmark():
    assert [channel.name for channel in CHANNELS] == sorted(channel.name for channel in CHANNELS)
    assert {
        number: channel.width for number, channel in enumerate(CHANNELS) if channel.categories
    } == CATEGORICAL
    assert all(len(set(channel.categories)) == len(channel.categories) for channel in CHANNELS)
    assert COLUMNS == 76
    # Counted by hand: 2, 1, 1, 8, 12, 13, 12 and ten numbers.
    assert CONTINUOUS_COLUMNS == (2, 3, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58)
    normal = {channel.name: channel.normal for channel in CHANNELS}
    assert normal["Glascow coma scale verbal response"] == "5 Oriented"
    assert (normal["Mean blood pressure"], normal["pH"]) == (77.0, 7.4)


def slowly_encoded(series):
    """One sample, (T, 17) → (T, 76), as the benchmark describes it."""
    latest = [None] * 17
    rows = []
    for step in series:
        values, masks = [], []
        for number, value in enumerate(step):
            channel = CHANNELS[number]
            if not np.isnan(value):
                latest[number] = value
            held = latest[number]
            if number in CATEGORICAL:
                position = channel.categories.index(channel.normal) if held is None else int(held)
                values += [float(position == other) for other in range(CATEGORICAL[number])]
            else:
                values.append(channel.normal if held is None else held)
            masks.append(float(not np.isnan(value)))
        rows.append(values + masks)
    return np.array(rows)


@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 4),
    steps=st.integers(1, 9),
    gaps=st.floats(0, 1),
)
def test_gaps_hold_the_value_before_them_or_the_normal_one(seed, rows, steps, gaps):
    random = np.random.default_rng(seed)
    measurements = random.normal(100, 20, (rows, steps, 17))
    for number, width in CATEGORICAL.items():
        measurements[:, :, number] = random.integers(0, width, (rows, steps))
    measurements[random.random(measurements.shape) < gaps] = np.nan
    columns = encoded(measurements)
    assert columns.dtype == np.float32 and columns.shape == (rows, steps * 76)
    expected = np.array([slowly_encoded(series) for series in measurements])
    np.testing.assert_array_equal(columns.reshape(rows, steps, 76), expected.astype(np.float32))


# ---------------------------------------------------------------------------------------- the model


def by_step(samples, steps=STEPS):
    return samples.features.reshape(len(samples), steps, COLUMNS)


@settings(max_examples=10)
@given(
    seed=st.integers(0, 2**64),
    steps=st.integers(1, 9),
    rows=st.integers(1, 30),
    positive=st.floats(0.01, 0.99),
)
def test_every_step_has_one_category_per_channel_and_masks(seed, steps, rows, positive):
    made = made_series(seed=seed, positive=positive)
    samples = make_series(made, steps, "train", rows)
    series = by_step(samples, steps)
    assert samples.features.dtype == np.float32 and np.isfinite(series).all()
    first = 0
    for number, channel in enumerate(CHANNELS):
        columns = series[:, :, first : first + channel.width]
        if number in CATEGORICAL:
            assert ((columns == 0) | (columns == 1)).all() and (columns.sum(axis=2) == 1).all()
        unmeasured = series[:, 1:, 59 + number] == 0
        assert (columns[:, 1:][unmeasured] == columns[:, :-1][unmeasured]).all()
        first += channel.width
    assert set(np.unique(series[:, :, MASKS])) <= {0.0, 1.0}
    assert set(samples.label) <= {-1.0, 1.0}
    assert samples.sample_id.tolist() == list(range(rows))


def test_the_same_seed_gives_the_same_samples_and_another_split_other_rows(monkeypatch):
    first, second = (make_series(made_series(), STEPS, "train", 50) for _ in range(2))
    assert first.features.tobytes() == second.features.tobytes()
    assert np.array_equal(first.label, second.label)
    for other in (
        make_series(made_series(), STEPS, "test", 50),
        make_series(made_series(seed=2), STEPS, "train", 50),
    ):
        assert not np.array_equal(first.features, other.features)


def test_rows_of_several_blocks_differ():
    samples = make_series(made_series(), 2, "train", 2100)
    assert len(np.unique(samples.features, axis=0)) == 2100


@pytest.mark.parametrize(("positive", "signal"), [(0.16, 2.5), (0.5, 0.1), (0.03, 6)])
def test_the_share_of_positive_labels_is_as_declared(positive, signal):
    made = made_series(positive=positive, signal=signal)
    rows = 6000
    label = make_series(made, 4, "train", rows).label
    # Four deviations of the share, and the error of calibration.
    tolerance = 4 * np.sqrt(positive * (1 - positive) * (1 / rows + 1 / 16384))
    assert (label > 0).mean() == pytest.approx(positive, abs=tolerance)


def test_each_sample_uses_one_vocabulary_and_both_are_used():
    series = by_step(make_series(made_series(), 12, "train", 200), 12)
    # Steps before the first measurement hold the first vocabulary's normal value.
    measured = series[:, :, 59 + 3] == 1
    first_words = [3, 1, 7, 2]  # "4 Spontaneously" and so on, of the eight of eye opening
    words = series[:, :, 4:12].argmax(axis=2)
    first = [set(np.isin(words[n], first_words)[measured[n]]) for n in range(200)]
    assert all(len(used) <= 1 for used in first)
    assert {True} in first and {False} in first


def ranked_above(scores, label):
    """The share of pairs in which the positive sample has the higher score."""
    order = scores.argsort().argsort()
    positive = label > 0
    ranks = order[positive].sum() - positive.sum() * (positive.sum() - 1) / 2
    return ranks / (positive.sum() * (~positive).sum())


def learnt(train, test, columns):
    """AUROC on `test` of ridge regression on the means of `columns` over the last third."""

    def means(samples):
        wide = by_step(samples, 12)[:, 8:, columns].mean(axis=1).astype(np.float64)
        return np.column_stack([(wide - centre) / spread, np.ones(len(wide))])

    every = by_step(train, 12)[:, 8:, columns].mean(axis=1).astype(np.float64)
    centre, spread = every.mean(axis=0), every.std(axis=0) + 1e-9
    rows = means(train)
    weights = np.linalg.solve(rows.T @ rows + 10 * np.eye(rows.shape[1]), rows.T @ train.label)
    return ranked_above(means(test) @ weights, test.label)


def test_a_quarter_of_the_columns_tells_something_and_all_tell_more():
    train, test = (make_series(made_series(), 12, split, 6000) for split in ("train", "test"))
    quarters = [learnt(train, test, np.arange(19 * q, 19 * q + 19)) for q in range(4)]
    everything = learnt(train, test, np.arange(COLUMNS))
    assert min(quarters) > 0.6
    assert 0.8 < everything < 0.88
    assert everything > max(quarters) + 0.02


def test_without_signal_nothing_can_be_learnt():
    made = made_series(signal=1e-6, positive=0.5)
    train, test = (make_series(made, 12, split, 3000) for split in ("train", "test"))
    assert abs(learnt(train, test, np.arange(COLUMNS)) - 0.5) < 0.04


# ------------------------------------------------------------------------- preparation and shards


@pytest.fixture
def prepared(tmp_path):
    dataset = series_set()
    prepare(dataset, "train", [], tmp_path / "train")
    prepare(dataset, "test", [], tmp_path / "test", train=tmp_path / "train")
    return tmp_path


def test_numbers_are_standardised_by_train_over_samples_and_steps(prepared, monkeypatch):
    raw = {split: by_step(read_raw(series_set(), split, [])) for split in ("train", "test")}
    for split in ("train", "test"):
        samples, metadata = read_prepared(prepared / split)
        expected = raw[split].astype(np.float64)
        for column in CONTINUOUS_COLUMNS:
            values = [float(x) for x in raw["train"][:, :, column].ravel()]
            mean = sum(values) / len(values)
            deviation = (sum((x - mean) ** 2 for x in values) / len(values)) ** 0.5
            expected[:, :, column] = (expected[:, :, column] - mean) / deviation
            assert metadata["standardised"]["mean"][column] == pytest.approx(mean, rel=1e-12)
            assert metadata["standardised"]["scale"][column] == pytest.approx(deviation, rel=1e-9)
        np.testing.assert_allclose(by_step(samples), expected, rtol=2e-6, atol=1e-6)
        others = np.setdiff1d(np.arange(COLUMNS), CONTINUOUS_COLUMNS)
        assert np.array_equal(by_step(samples)[:, :, others], raw[split][:, :, others])
        assert metadata["shape"] == [STEPS, COLUMNS] and metadata["normalisation"] is None
        assert metadata["layout"] == "tensor" and metadata["task"] == "binary"
        assert metadata["numeric_columns"][:13] == [*CONTINUOUS_COLUMNS, 76 + 2]
        assert len(metadata["numeric_columns"]) == 12 * STEPS


def test_without_standardise_values_are_in_their_own_units(tmp_path):
    prepare(series_set(standardise=False), "train", [], tmp_path / "train")
    samples, metadata = read_prepared(tmp_path / "train")
    assert metadata["standardised"] is None
    assert np.array_equal(samples.features, read_raw(series_set(), "train", []).features)


def test_a_number_that_is_constant_in_train_becomes_zero():
    features = read_raw(series_set(), "train", []).features
    constant = features.copy()
    constant.reshape(-1, COLUMNS)[:, 51] = 0.1
    scaling = series_set().standardisation(constant)
    for split in (constant, features):
        assert (scaled(split, scaling).reshape(-1, COLUMNS)[:, 51] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_networks_see_what_a_shard_holds(prepared, dtype):
    spec = HorizontalPartition(assignment="consecutive", clients=3, test="test")
    silo = prepared / "silo-0.parquet"
    write_shards(prepared / "train", spec, [silo], prepared / "manifest.json", prepared / "test")
    held = read_shard(silo)
    assert held.samples.features.dtype == held.test.features.dtype == np.float32
    whole, _ = read_prepared(prepared / "train")
    assert np.array_equal(held.samples.features, whole.features)
    on_device = DeviceSamples(held.samples, held.metadata, torch.device("cpu"), dtype)
    taken = on_device.at(torch.tensor([[7, 0], [299, 7]]))
    assert taken.dtype == dtype and taken.shape == (2, 2, STEPS, COLUMNS)
    assert np.array_equal(taken.numpy(), by_step(whole)[[[7, 0], [299, 7]]])


# ------------------------------------------------------------------------------------ the catalogue


def test_the_set_of_the_catalogue_is_made_in_time_and_says_what_it_is():
    dataset = PUBLISHED["synthetic-ihm"]
    assert dataset.title.startswith("SYNTHETIC") and "no patient data" in dataset.title
    assert "nothing about patients can be read" in " ".join(dataset.note.split())
    assert (dataset.shape, dataset.task, dataset.standardise) == ((48, 76), "binary", True)
    benchmark = PUBLISHED["mimic3-in-hospital-mortality"]
    assert dataset.shape == benchmark.shape
    for name, split in dataset.splits.items():
        assert split.rows == benchmark.splits[name].rows
    start = time.perf_counter()
    samples = read_raw(dataset, "test", [])
    assert time.perf_counter() - start < 20
    assert samples.features.shape == (3236, 3648)
    assert (samples.label > 0).mean() == pytest.approx(0.16, abs=0.03)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"shape": ()}, r"need 'shape': \[steps, 76\]"),
        ({"shape": (2 * STEPS, COLUMNS // 2)}, r"need 'shape': \[steps, 76\]"),
        ({"task": "regression"}, "time series have 'task: binary'"),
        ({"labels": {"0": -1, "1": 1}}, "leave 'labels' out"),
        ({"splits": {"train": {}}}, "split 'train': synthetic data need 'rows'"),
    ],
)
def test_a_wrong_set_is_refused(changes, problem):
    with pytest.raises(FedatlasError, match=problem):
        series_set(**changes)
