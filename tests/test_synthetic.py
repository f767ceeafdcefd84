import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogue_entry import PUBLISHED
from fedatlas.data.formats import read_raw
from fedatlas.data.formats.synthetic import Synthetic, make_samples
from fedatlas.errors import FedatlasError


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


def test_the_same_seed_gives_the_same_samples_and_another_split_other_rows():
    first, second = (make_samples(synthetic(), 1000, "train", 50) for _ in range(2))
    assert first.features.data.tobytes() == second.features.data.tobytes()
    assert np.array_equal(first.features.indices, second.features.indices)
    assert np.array_equal(first.label, second.label)
    for other in (
        make_samples(synthetic(), 1000, "test", 50),
        make_samples(synthetic(seed=2), 1000, "train", 50),
    ):
        assert not np.array_equal(first.features.toarray(), other.features.toarray())


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
    for entry in PUBLISHED.values():
        if entry.format != "synthetic" or entry.name == "standin-news20":  # which is large
            continue
        for split, declared in entry.splits.items():
            start = time.perf_counter()
            samples = read_raw(entry, split, [])
            assert time.perf_counter() - start < 60
            assert samples.features.shape == (declared.rows, entry.features)
            density = samples.features.nnz / declared.rows
            assert density == pytest.approx(entry.synthetic.non_zeros_per_row, rel=0.02)
