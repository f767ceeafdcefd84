"""Partitions by features: blocks of columns, rows for training and testing, names."""

import re
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedatlas.errors import FedatlasError
from fedatlas.schema.partitions import VerticalPartition
from fedatlas.shards.assignment import train_and_test_rows
from fedatlas.shards.columns import feature_blocks

shares = st.floats(0.05, 0.95)
splits = st.sampled_from(["test", "train2", "t"])


@st.composite
def specifications(draw: st.DrawFn, most: int = 12) -> VerticalPartition:
    parties = draw(st.integers(1, most))
    return VerticalPartition(
        parties=parties,
        active=draw(st.integers(1, parties)),
        assignment=draw(st.sampled_from(["shuffled", "consecutive"])),
        samples=draw(st.none() | st.integers(20, 120)),
        test=draw(st.none() | shares | splits),
        standardise=draw(st.booleans()),
        seed=draw(st.none() | st.integers(0, 2**63)),
    )


def vertical(parties: int = 3, active: int = 1, **rest: Any) -> VerticalPartition:
    return VerticalPartition(parties=parties, active=active, **rest)


# ---------------------------------------------------------------------------- blocks of features


@given(specifications(), st.integers(0, 40))
def test_every_feature_is_in_one_block_and_blocks_are_near_equal(spec, extra):
    features = spec.parties + extra
    blocks = feature_blocks(spec, features)
    assert len(blocks) == spec.parties == spec.silos
    np.testing.assert_array_equal(np.sort(np.concatenate(blocks)), np.arange(features))
    sizes = [len(block) for block in blocks]
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True)
    assert all((np.diff(block) > 0).all() for block in blocks)
    for again, block in zip(feature_blocks(spec, features), blocks, strict=True):
        np.testing.assert_array_equal(again, block)


def test_consecutive_blocks_are_ranges():
    blocks = feature_blocks(vertical(3, assignment="consecutive", seed=5), 8)
    assert [block.tolist() for block in blocks] == [[0, 1, 2], [3, 4, 5], [6, 7]]


@given(st.integers(0, 2**32), st.integers(1, 10), st.integers(1, 10))
def test_blocks_depend_on_parties_and_seed_only(seed, active, other):
    one = vertical(10, active, seed=seed, samples=30, test=0.3)
    two = vertical(10, other, seed=seed, standardise=True)
    for left, right in zip(feature_blocks(one, 25), feature_blocks(two, 25), strict=True):
        np.testing.assert_array_equal(left, right)


def test_seeds_shuffle_features_and_rows_differently():
    blocks = {np.concatenate(feature_blocks(vertical(4, seed=s), 40)).tobytes() for s in range(20)}
    rows = {train_and_test_rows(vertical(seed=s, test=0.3), 40)[1].tobytes() for s in range(20)}
    assert len(blocks) == len(rows) == 20


def test_random_blocks_and_rows_stay_what_they_were():
    # Another platform or numpy that draws otherwise would silently make other experiments.
    spec = vertical(3, seed=7, test=0.3)
    assert [b.tolist() for b in feature_blocks(spec, 8)] == [[1, 3, 6], [0, 2, 4], [5, 7]]
    assert train_and_test_rows(spec, 10)[1].tolist() == [0, 7, 8]


def test_trials_with_every_choice_meet_each_choice_of_label_holders_once():
    declared = vertical(5, 2, label_holders="every_choice", seed=3)
    dealt = [tuple(block) for block in feature_blocks(vertical(5, 2, seed=3), 12)]
    chosen = []
    for trial in range(10):
        spec = declared.of_seed(trial)
        assert spec.seed == 3
        blocks = [tuple(block) for block in feature_blocks(spec, 12)]
        assert sorted(blocks) == sorted(dealt)
        chosen.append({dealt.index(block) for block in blocks[:2]})
    assert chosen == [set(pair) for pair in combinations(range(5), 2)]
    assert declared.of_seed(13) == declared.of_seed(3) != declared.of_seed(4)
    assert len({declared.of_seed(trial).slug for trial in range(10)}) == 10
    assert declared.of_seed(4).rows_slug == vertical(5, 2, seed=3).rows_slug
    assert declared.of_seed(4).pooled() == vertical(5, 2, seed=3).pooled()
    with pytest.raises(FedatlasError, match="one choice for each trial"):
        feature_blocks(declared, 12)


def test_every_feature_meets_every_party_equally_often():
    party = np.zeros((6, 3))
    for seed in range(600):
        for number, block in enumerate(feature_blocks(vertical(3, seed=seed), 6)):
            party[block, number] += 1
    np.testing.assert_allclose(party / 600, 1 / 3, atol=0.08)  # four standard deviations


# ------------------------------------------------------------------------- training and test rows


@given(specifications(), st.integers(120, 200))
def test_rows_are_for_training_or_for_testing(spec, rows):
    train, test = train_and_test_rows(spec, rows)
    kept = spec.samples or rows
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(kept))
    assert (np.diff(train) > 0).all()
    assert (np.diff(test) > 0).all()
    if isinstance(spec.test, float):
        assert len(test) == round(spec.test * kept)
        assert len(train) >= 1
    else:
        assert len(test) == 0


def test_samples_are_kept_before_test_rows_are_drawn():
    few = train_and_test_rows(vertical(samples=20, test=0.25, seed=3), 500)
    all_of_few = train_and_test_rows(vertical(test=0.25, seed=3), 20)
    for left, right in zip(few, all_of_few, strict=True):
        np.testing.assert_array_equal(left, right)


# --------------------------------------------------------------------------------------- names


@given(specifications(), specifications())
def test_equal_rows_have_equal_names(one, other):
    def rows(spec: VerticalPartition) -> tuple[Any, ...]:
        random = isinstance(spec.test, float)
        return (spec.samples, spec.test, spec.standardise, spec.seed if random else None)

    assert re.fullmatch(r"[A-Za-z0-9._-]+", one.rows_slug)
    assert (one.rows_slug == other.rows_slug) == (rows(one) == rows(other))
    spec = vertical(8, 3, samples=500, test=0.2, standardise=True, seed=4)
    assert spec.rows_slug == "seed4-rows-500-standardised-test0.2"
    assert vertical(test="test").rows_slug == "rows-all-on-test"


@given(specifications(), specifications())
def test_partitions_with_equal_rows_are_pooled_alike(one, other):
    pooled = one.pooled()
    assert (pooled.parties, pooled.active) == (1, 1)
    assert pooled.rows_slug == one.rows_slug.replace("seedNone", f"seed{pooled.seed}")
    assert (pooled == other.pooled()) == (one.rows_slug == other.rows_slug)
    for left, right in zip(
        train_and_test_rows(pooled, 150), train_and_test_rows(one, 150), strict=True
    ):
        np.testing.assert_array_equal(left, right)


# -------------------------------------------------------------------------------------- trials


@given(specifications(), st.integers(0, 1000))
def test_a_trial_has_the_partition_of_its_seed_unless_all_share_one(spec, seed):
    trial = spec.of_seed(seed)
    assert trial.seed == (seed if spec.seed is None else spec.seed)
    assert trial.model_copy(update={"seed": spec.seed}) == spec
    assert trial.of_seed(seed + 1) == trial
    assert VerticalPartition.model_validate(trial.model_dump()) == trial
