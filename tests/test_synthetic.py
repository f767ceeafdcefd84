"""Made data: sparse rows, solids seen from several sides, and time series that can be learnt."""

import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogue_entry import PUBLISHED, entry, tiny
from fedatlas.arithmetic.torch_device import DeviceSamples
from fedatlas.data.formats import dataset_of, read_raw
from fedatlas.data.formats.clinical import CHANNELS, COLUMNS, CONTINUOUS_COLUMNS
from fedatlas.data.formats.synthetic import SOLIDS, Synthetic, make_samples, shaded, surface
from fedatlas.data.formats.synthetic_series import SyntheticSeries, make_series
from fedatlas.data.prepare import prepare, read_prepared
from fedatlas.data.scaling import scaled
from fedatlas.errors import FedatlasError
from fedatlas.federations.shards import read_shard
from fedatlas.schema.partitions import HorizontalPartition
from fedatlas.shards.writing import write_shards
from prepared_files import as_dense

# ------------------------------------------------------------------------------------------- rows


def synthetic(**changes):
    plain = {"seed": 1, "non_zeros_per_row": 20, "informative": 100, "noise": 0.05}
    return Synthetic.model_validate({**plain, **changes})


@settings(max_examples=10)
@given(
    seed=st.integers(0, 2**64),
    features=st.integers(40, 2000),
    share=st.floats(0.001, 0.5),
    rows=st.integers(1, 300),
    regression=st.booleans(),
)
def test_rows_are_unit_and_sparse_and_labels_in_range(seed, features, share, rows, regression):
    made = synthetic(
        seed=seed,
        non_zeros_per_row=share * features,
        informative=features // 2,
        range=(-7.0, -1.0) if regression else None,
    )
    samples = make_samples(made, features, "train", rows)
    matrix = samples.features
    assert matrix.shape == (rows, features)
    assert matrix.has_canonical_format and (matrix.data > 0).all()
    np.testing.assert_allclose(np.sqrt(matrix.power(2).sum(axis=1)), 1, rtol=1e-12)
    assert samples.sample_id.tolist() == list(range(rows))
    if regression:
        assert ((samples.label >= -7) & (samples.label <= -1)).all()
    else:
        assert set(samples.label) <= {-1.0, 1.0}


def test_the_density_is_the_declared_one_and_popularity_a_power_law():
    samples = make_samples(
        synthetic(non_zeros_per_row=30, informative=500), 20_000, "train", 20_000
    )
    assert samples.features.nnz / 20_000 == pytest.approx(30, rel=0.01)
    held = np.sort(np.bincount(samples.features.indices, minlength=20_000))[::-1]
    # Past the few features that most rows hold, the number of holders is inverse to the rank.
    ranks = np.arange(30, 600)
    slope, _ = np.polyfit(np.log(ranks), np.log(held[ranks - 1]), 1)
    assert slope == pytest.approx(-1, abs=0.05)


def test_popular_features_lie_anywhere():
    samples = make_samples(synthetic(), 4000, "train", 5000)
    quarters = np.bincount(samples.features.indices // 1000, minlength=4)
    assert quarters.min() > 0.03 * quarters.sum()


def least_squares(train, test):
    """Predictions for test of a ridge regression on train."""
    x = train.features
    gram = (x.T @ x).toarray() + 0.1 * np.eye(x.shape[1])
    centre = train.label.mean()
    return centre + test.features @ np.linalg.solve(gram, x.T @ (train.label - centre))


def test_binary_labels_are_balanced_and_can_be_learnt_up_to_the_noise():
    made = synthetic(non_zeros_per_row=30, noise=0.1)
    train, test = (make_samples(made, 200, split, 4000) for split in ("train", "test"))
    assert abs(train.label.mean()) < 0.1 and abs(test.label.mean()) < 0.1
    correct = np.mean(np.sign(least_squares(train, test)) == test.label)
    assert 0.8 < correct < 0.92


def test_regression_labels_fill_their_range_and_can_be_learnt_up_to_the_noise():
    made = synthetic(non_zeros_per_row=30, noise=0.5, range=(0, 6))
    train, test = (make_samples(made, 500, split, 4000) for split in ("train", "test"))
    assert train.label.mean() == pytest.approx(3, abs=0.2)
    assert train.label.std() == pytest.approx(1, abs=0.1)
    explained = 1 - np.var(test.label - least_squares(train, test)) / np.var(test.label)
    assert 0.6 < explained < 0.83


def test_labels_that_would_depend_on_nothing_are_refused():
    with pytest.raises(FedatlasError, match=r"hardly ever hold the 1 features.*'informative'"):
        for seed in range(20):
            made = synthetic(seed=seed, informative=1, non_zeros_per_row=0.001)
            make_samples(made, 100_000, "train", 1)


def test_synthetic_sets_of_the_catalogue_are_made_in_time():
    for made in PUBLISHED.values():
        if made.format != "synthetic" or made.name == "standin-news20":  # which is large
            continue
        for split, declared in made.splits.items():
            start = time.perf_counter()
            samples = read_raw(made, split, [])
            assert time.perf_counter() - start < 60
            rows = declared.rows * (made.instances or 1)
            assert samples.features.shape == (rows, made.features)
            density = samples.features.nnz / rows
            assert density == pytest.approx(made.synthetic.non_zeros_per_row, rel=0.02)


# ----------------------------------------------------------------------------------------- solids

SHAPES = {key: value for key, value in entry().items() if key != "labels"} | {
    "name": "shapes",
    "format": "synthetic_views",
    "synthetic_views": {"seed": 3},
    "task": "multiclass",
    "features": 4 * 16 * 16,
    "shape": [4, 1, 16, 16],
    "classes": 8,
    "normalise": "from_train",
    "splits": {"train": {"rows": 16}, "test": {"rows": 16}},
}


@pytest.mark.parametrize("solid", SOLIDS)
def test_points_lie_on_closed_surfaces_with_unit_normals(solid):
    points, normals = surface(solid, np.random.default_rng(0))
    assert points.shape == normals.shape
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1)
    assert np.linalg.norm(points, axis=1).max() < 1.01  # stays within the image from all sides
    assert (np.ptp(points, axis=0) > 0.4).all()


def test_a_ball_is_lit_in_its_middle_and_hides_what_is_behind():
    points, normals = surface("ball", np.random.default_rng(1))
    image = shaded(points, normals, 16, 16)
    assert image[8, 8] > 245  # turned to the viewer
    assert image[0, 0] == 0  # empty
    assert 55 <= image[8, 2] < 200  # its edge
    behind = shaded(np.array([[-0.5, 0, 0], [0.5, 0, 0]]), np.eye(3)[[0, 1]], 4, 4)
    assert behind[2, 2] == 55  # the nearer of the two, which is turned away


def test_solids_are_of_all_classes():
    train = dataset_of(SHAPES, "shapes").read("train", [])
    assert train.features.shape == (16, 4 * 16 * 16) and train.features.dtype == np.uint8
    assert np.bincount(train.label.astype(int)).tolist() == [2] * 8


def test_views_need_an_axis_of_views():
    with pytest.raises(FedatlasError, match="channels, height, width"):
        dataset_of(SHAPES | {"shape": [1, 16, 64]}, "shapes")


# ----------------------------------------------------------------------------------------- series

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
        ({"labels": {0: -1, 1: 1}}, "leave 'labels' out"),
        ({"splits": {"train": {}}}, "split 'train': synthetic data need 'rows'"),
    ],
)
def test_a_wrong_set_of_series_is_refused(changes, problem):
    with pytest.raises(FedatlasError, match=problem):
        series_set(**changes)


# ------------------------------------------------------------------------------------------- seeds

MADE = {
    "rows": lambda seed, split: make_samples(synthetic(seed=seed), 1000, split, 16),
    "series": lambda seed, split: make_series(made_series(seed=seed), STEPS, split, 16),
    "solids": lambda seed, split: dataset_of(
        SHAPES | {"synthetic_views": {"seed": seed}}, "shapes"
    ).read(split, []),
}


@pytest.mark.parametrize("kind", MADE)
def test_samples_are_of_the_seed_and_the_split_alone(kind):
    first, same, *others = (
        as_dense(MADE[kind](*of)) for of in ((1, "train"), (1, "train"), (1, "test"), (2, "train"))
    )
    assert np.array_equal(first, same)
    assert not any((first == other).all(axis=1).any() for other in others)
