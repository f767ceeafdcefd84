"""Columns of parties by list, importance and correlation, each against its law."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import spearmanr

from fedatlas.errors import FedatlasError
from fedatlas.federations.vertical.shards import read_party_shards
from fedatlas.schema.partitions import VerticalPartition
from fedatlas.shards import columns
from fedatlas.shards.columns import feature_blocks, inter_party_correlation, rank_correlation
from prepared_files import as_dense, make_samples, shard


def vertical(assignment: str, parties: int = 3, **rest: Any) -> VerticalPartition:
    return VerticalPartition(parties=parties, active=1, assignment=assignment, seed=1, **rest)


# ------------------------------------------------------------------------------------------- list


NAMES = ["age", "income", "grade=a", "grade=b", "grade=c"]


@pytest.mark.parametrize(
    ("listed", "blocks"),
    [
        ([[4, 0], [1], [2, 3]], [[0, 4], [1], [2, 3]]),
        ([["grade"], ["income"], ["age"]], [[2, 3, 4], [1], [0]]),
        ([["grade=b", 0], ["grade=c", "grade=a"], ["income"]], [[0, 3], [2, 4], [1]]),
        ([{"from": 0, "to": 1}, [2], {"from": 3, "to": 4}], [[0, 1], [2], [3, 4]]),
    ],
)
def test_parties_have_the_columns_that_are_listed_for_them(listed, blocks):
    spec = vertical("listed", columns=listed)
    assert [own.tolist() for own in feature_blocks(spec, 5, NAMES)] == blocks
    with_ones = spec.model_copy(update={"intercept": True, "label_holders": 2})
    found = feature_blocks(with_ones, 6, [*NAMES, "intercept"])
    assert [own.tolist() for own in found] == [[*blocks[2], 5], blocks[0], blocks[1]]


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ([["age"], ["incom"], ["grade"]], "names 'incom', .* lacks; similar: income"),
        ([["age"], ["income"], ["grade=a", 3]], "leaves 1 of 5 columns to no party: grade=c; list"),
        ([["age"], [1, 5], ["grade"]], "names 5, but columns are numbered from 0 to 4"),
        ([["age", 1], ["income"], ["grade"]], "lists 'income' twice"),
        ([["age"], ["income", "grade=b"], ["grade"]], "lists 'grade' twice"),
    ],
)
def test_lists_that_are_no_cover_are_refused(listed, message):
    with pytest.raises(FedatlasError, match=f"^partition: columns {message}"):
        feature_blocks(vertical("listed", columns=listed), 5, NAMES)


def test_columns_without_names_are_listed_by_number():
    with pytest.raises(FedatlasError, match="its columns have no names"):
        feature_blocks(vertical("listed", columns=[["age"], [1], [2]]), 3)


# ------------------------------------------------------------------------------------- importance


@given(st.integers(1, 8), st.floats(1e-9, 1e9), st.integers(0, 30), st.integers(0, 2**40))
def test_every_party_has_a_column_and_every_column_a_party(parties, concentration, extra, seed):
    spec = VerticalPartition(
        parties=parties, active=1, assignment="importance", concentration=concentration, seed=seed
    )
    blocks = feature_blocks(spec, parties + extra)
    assert min(map(len, blocks)) >= 1
    np.testing.assert_array_equal(np.sort(np.concatenate(blocks)), np.arange(parties + extra))
    assert all((np.diff(block) > 0).all() for block in blocks)


def test_shares_of_importance_have_the_moments_of_vertibench():
    """Beside its first, the columns of a party are beta-binomial with α and (q − 1)α."""
    q, alpha, features = 4, 0.6, 24
    importance = np.random.default_rng(0).exponential(size=features)
    sizes, worth = [], []
    for seed in range(800):
        spec = vertical("importance", q, concentration=alpha).model_copy(update={"seed": seed})
        blocks = feature_blocks(spec, features)
        sizes.append([len(block) - 1 for block in blocks])
        worth.append([importance[block].sum() / importance.sum() for block in blocks])
    left = features - q
    variance = left / q * (1 - 1 / q) * (q * alpha + left) / (q * alpha + 1)
    assert np.var(sizes) == pytest.approx(variance, rel=0.1)
    np.testing.assert_allclose(np.mean(worth, axis=0), 1 / q, atol=0.03)


# ------------------------------------------------------------------------------------ correlation


def plain_icor(correlation: np.ndarray, blocks: list[np.ndarray]) -> float:
    """Wu et al. 2024, equation 3, by loops."""
    q = len(blocks)

    def pcor(i: int, j: int) -> float:
        values = np.linalg.svd(correlation[blocks[i]][:, blocks[j]])[1]
        d = len(values)
        return float(np.sqrt(((values - values.sum() / d) ** 2).sum() / (d - 1) / d))

    return (
        sum(sum(pcor(i, j) - pcor(i, i) for j in range(q) if j != i) / (q - 1) for i in range(q))
        / q
    )


def grouped(rows: int, groups: int, each: int, seed: int = 0) -> np.ndarray:
    """(rows, groups · each): columns j and j + groups are nearly the same."""
    random = np.random.default_rng(seed)
    hidden = random.normal(size=(rows, groups))
    return np.tile(hidden, each) + 0.1 * random.normal(size=(rows, groups * each))


def test_correlations_are_spearmans_and_icor_is_the_papers():
    random = np.random.default_rng(2)
    rows = random.integers(0, 4, (80, 7)).astype(float)  # with ties
    np.testing.assert_allclose(rank_correlation(rows), spearmanr(rows).statistic, atol=1e-12)
    assert not rank_correlation(np.ones((5, 3))).any()
    blocks = [np.array([0, 4]), np.array([1, 2, 6]), np.array([3, 5])]
    correlation = rank_correlation(rows)
    found = inter_party_correlation(correlation, blocks)
    assert found == pytest.approx(plain_icor(correlation, blocks), abs=1e-14)


def test_beta_goes_from_groups_of_like_columns_to_parties_that_are_alike():
    rows = grouped(300, 3, 3)
    correlation = rank_correlation(rows)
    blocks = {
        b: feature_blocks(vertical("correlation", beta=b), 9, None, rows) for b in (0, 0.5, 1)
    }
    assert all([len(own) for own in found] == [3, 3, 3] for found in blocks.values())
    assert {frozenset(own % 3) for own in blocks[0]} == {frozenset({g}) for g in range(3)}
    icor = [plain_icor(correlation, found) for found in blocks.values()]
    # All choices of three times three of nine columns, by brute force.
    every = []
    for first in combinations(range(1, 9), 2):
        rest = [column for column in range(1, 9) if column not in first]
        for second in combinations(rest[1:], 2):
            third = [column for column in rest[1:] if column not in second]
            parts = [(0, *first), (rest[0], *second), third]
            every.append(plain_icor(correlation, [np.array(part) for part in parts]))
    assert icor[0] == pytest.approx(min(every), abs=1e-9)
    assert icor[2] == pytest.approx(max(every), abs=1e-9)
    middle = (min(every) + max(every)) / 2
    nearest = min(abs(value - middle) for value in every)
    assert abs(icor[1] - middle) <= max(nearest, 1e-4) + 1e-9


@settings(max_examples=8)
@given(st.integers(1, 4), st.floats(0, 1), st.integers(0, 2**40))
def test_blocks_by_correlation_are_equal_and_follow_from_the_seed(parties, beta, seed):
    rows = grouped(30, 2, 5)
    spec = vertical("correlation", parties, beta=beta).model_copy(update={"seed": seed})
    kept, columns._TRIES = columns._TRIES, 40
    try:
        blocks = feature_blocks(spec, 10, None, rows)
        again = feature_blocks(spec, 10, None, sparse.csr_array(rows))
    finally:
        columns._TRIES = kept
    np.testing.assert_array_equal(np.sort(np.concatenate(blocks)), np.arange(10))
    assert max(map(len, blocks)) - min(map(len, blocks)) <= 1
    assert [one.tolist() for one in again] == [one.tolist() for one in blocks]


def test_many_columns_are_not_searched():
    with pytest.raises(FedatlasError, match="at most 1000 columns, but there are 1001"):
        feature_blocks(vertical("correlation", beta=1), 1001, None, np.zeros((4, 1001)))


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_shards_of_parties_follow_the_training_rows(layout, tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "_TRIES", 30)
    samples = make_samples(60, 8, layout)
    spec = vertical("correlation", beta=0.3, test=0.25, intercept=True)
    read = read_party_shards(shard(tmp_path, samples, spec))
    train = as_dense(samples)[np.delete(np.arange(60), as_rows(read, samples))]
    expected = feature_blocks(spec, 9, None, np.hstack([train, np.ones((len(train), 1))]))
    order = np.concatenate(expected)
    np.testing.assert_array_equal(
        as_dense(read.train), np.hstack([train, np.ones((len(train), 1))])[:, order]
    )
    assert read.metadata["partition"]["beta"] == 0.3


def as_rows(read: Any, samples: Any) -> list[int]:
    """The rows kept for testing."""
    from fedatlas.shards.assignment import train_and_test_rows

    spec = VerticalPartition.model_validate(read.metadata["partition"])
    return train_and_test_rows(spec, len(samples))[1].tolist()
