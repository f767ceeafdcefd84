"""Partition specifications and the assignment of rows to clients."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from fedatlas.arithmetic.samples import Samples
from fedatlas.errors import FedatlasError
from fedatlas.federations.shards import read_shard
from fedatlas.schema.models import validated
from fedatlas.schema.partitions import HorizontalPartition, Partition
from fedatlas.schema.rows import BinaryClasses
from fedatlas.shards.assignment import share_out
from prepared_files import as_dense, make_samples, shard


def assign(spec: HorizontalPartition, labels: np.ndarray) -> np.ndarray:
    """Client of each row that is kept."""
    clients, test, *_ = share_out(spec, labels)
    assert len(test) == 0
    client = np.full(len(labels), -1)
    for number, rows in enumerate(clients):
        assert (client[rows] == -1).all()
        client[rows] = number
    return client[: spec.samples]


def dirichlet(clients: int, concentration: float, seed: int = 0) -> HorizontalPartition:
    return HorizontalPartition(
        assignment="dirichlet", clients=clients, concentration=concentration, seed=seed
    )


def shuffled(clients: int, seed: int = 0) -> HorizontalPartition:
    return HorizontalPartition(assignment="shuffled", clients=clients, seed=seed)


@st.composite
def specifications(draw: st.DrawFn) -> HorizontalPartition:
    assignment = draw(st.sampled_from(["consecutive", "shuffled", "by_class", "dirichlet"]))
    clients = draw(st.integers(1, 40))
    values = {
        "assignment": assignment,
        "clients": clients,
        "samples": draw(st.none() | st.integers(clients, clients + 100)),
    }
    if assignment == "dirichlet":
        values["concentration"] = draw(st.floats(1e-9, 1e9))
    if assignment != "consecutive":
        values["seed"] = draw(st.integers(0, 2**63))
    return HorizontalPartition.model_validate(values)


def binary_labels(rows: int) -> np.ndarray:
    return np.where(np.arange(rows) % 3 == 0, 1.0, -1.0)


@given(specifications(), st.integers(0, 50))
def test_every_kept_row_has_one_client_and_every_client_a_row(spec, extra):
    kept = spec.samples or spec.clients + extra
    client = assign(spec, binary_labels(kept if spec.samples is None else kept + extra))
    assert client.dtype == np.int64
    assert client.shape == (kept,)
    sizes = np.bincount(client, minlength=spec.clients)
    assert len(sizes) == spec.clients
    assert sizes.min() >= 1
    if spec.assignment != "dirichlet":
        assert sizes.max() - sizes.min() <= 1


def test_the_first_clients_take_the_remainder():
    client = assign(HorizontalPartition(clients=3), binary_labels(8))
    np.testing.assert_array_equal(client, [0, 0, 0, 1, 1, 1, 2, 2])


def test_random_assignments_stay_what_they_were():
    # Another platform or numpy that draws otherwise would silently make other experiments.
    np.testing.assert_array_equal(
        assign(shuffled(3, seed=7), binary_labels(9)), [0, 1, 2, 1, 2, 2, 1, 0, 0]
    )
    np.testing.assert_array_equal(
        assign(dirichlet(3, 0.5, seed=7), binary_labels(12)), [2, 2, 2, 1, 2, 2, 1, 2, 2, 1, 2, 0]
    )


@pytest.mark.parametrize("make", [shuffled, lambda clients, seed: dirichlet(clients, 0.5, seed)])
def test_seeds_differ(make):
    labels = binary_labels(300)
    assignments = {assign(make(10, seed=seed), labels).tobytes() for seed in range(20)}
    assert len(assignments) == 20


def class_shares(client: np.ndarray, labels: np.ndarray, clients: int) -> np.ndarray:
    """(classes, clients) share of each class that each client holds."""
    counts = np.array(
        [np.bincount(client[labels == value], minlength=clients) for value in np.unique(labels)]
    )
    return counts / counts.sum(axis=1, keepdims=True)


def test_shares_have_the_variance_of_the_dirichlet_distribution():
    labels = np.arange(4_000) % 2 * 2.0 - 1.0
    clients, concentration = 5, 0.5
    shares = np.array(
        [
            class_shares(assign(dirichlet(clients, concentration, seed), labels), labels, clients)
            for seed in range(300)
        ]
    )
    mean = 1 / clients
    variance = mean * (1 - mean) / (clients * concentration + 1)
    assert shares.mean() == pytest.approx(mean)
    assert shares.var() == pytest.approx(variance, rel=0.1)


def test_a_dirichlet_client_is_never_left_empty():
    client = assign(dirichlet(50, 1e-6), binary_labels(50))
    np.testing.assert_array_equal(np.sort(client), np.arange(50))


def sizes_of(spec: HorizontalPartition, labels: np.ndarray) -> list[int]:
    return [len(rows) for rows in share_out(spec, labels).clients]


def test_clients_that_a_draw_leaves_empty_are_counted():
    labels = np.arange(400) % 4.0
    # By a plain loop over the same stream.
    random, held = np.random.Generator(np.random.PCG64([3, 0])), np.zeros(40, int)
    for _ in range(4):
        random.permutation(100)
        ends = np.append(np.floor(np.cumsum(random.dirichlet([0.02] * 40))[:-1] * 100), 100)
        held += np.diff(ends, prepend=0).astype(int)
    empty = int((held == 0).sum())
    assert empty > 5
    assert share_out(dirichlet(40, 0.02, seed=3), labels).filled == empty
    assert share_out(dirichlet(4, 50.0, seed=3), labels).filled == 0


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 2**40))
def test_draws_go_on_until_every_client_has_the_minimum(clients, minimum, seed):
    labels = np.arange(300) % 3.0
    plain = dirichlet(clients, 0.4, seed)
    asked = plain.model_copy(update={"minimum": minimum})
    sizes = sizes_of(asked, labels)
    assert min(sizes) >= minimum and sum(sizes) == 300
    first = share_out(plain, labels)
    if not first.filled and min(map(len, first.clients)) >= minimum:
        np.testing.assert_array_equal(assign(asked, labels), assign(plain, labels))


def test_a_minimum_that_no_draw_meets_ends_in_an_error_that_says_what_to_do():
    few = dirichlet(30, 1e-3, seed=1).model_copy(update={"minimum": 5})
    with pytest.raises(FedatlasError, match="none of 1000 draws with concentration"):
        share_out(few, binary_labels(200))
    with pytest.raises(FedatlasError, match="30 clients with minimum 5 need 150 samples, but"):
        share_out(few, binary_labels(140))


def test_regression_labels_cannot_be_skewed_by_class():
    labels = np.random.default_rng(0).normal(size=442)
    with pytest.raises(FedatlasError, match=r"442 distinct labels .* regression"):
        assign(dirichlet(5, 0.5), labels)


DIRICHLET = {"assignment": "dirichlet"}
WRONG = {
    "horizontal": [
        ({"samples": 3}, "samples: 3, fewer than the 4 that clients need"),
        ({"seed": 3}, "seed: assignment 'consecutive' is not random; remove it"),
        ({"concentration": 0.5}, "concentration: assignment 'consecutive' takes none"),
        ({"minimum": 2}, "minimum: assignment 'consecutive' takes none"),
        (
            {**DIRICHLET, "concentration": 1, "minimum": 3, "samples": 11},
            "samples: 11, fewer than the 12 that clients need",
        ),
        (DIRICHLET, "concentration: 'dirichlet' needs one above 0"),
        ({"assignment": "by_column"}, "column: 'by_column' needs the name of a column that the"),
        ({"assignment": "by_column", "column": "user", "seed": 1}, "seed: assign"),
        ({"column": "user"}, "column: assignment 'consecutive' takes none; remove it"),
        ({"assignment": "shards"}, "shards_per_client: 'shards' needs a whole number, such as 2"),
        ({"assignment": "pathological", "classes_per_client": 0}, "key 'classes_p"),
        ({"assignment": "power_law_sizes", "concentration": 1}, "exponent: 'power_law_sizes' n"),
        (
            {"assignment": "shards", "shards_per_client": 2, "samples": 7},
            "samples: 7, fewer than the 8 that clients need",
        ),
    ],
    "vertical": [
        ({"active": 5}, "'active' is 5, but there are only 4 parties"),
        *(({"test": test}, f"key 'test', value {test}: must be a share [^\n]*$")
          for test in (0.0, 1.5, True, 0, -3, float("nan"))),
        ({"test": ["a"]}, "key 'test"),
        ({"columns": [[0], [1], [2], [3]]}, "columns: assignment 'shuffled' takes none; remove"),
        ({"assignment": "listed"}, "columns: 'listed' needs a list of columns for each party"),
        ({"assignment": "listed", "columns": [[0], [1]]}, "columns: lists those of 2 parties, but"),
        ({"assignment": "listed", "columns": [[0], [1], [2], [0]]}, "columns: 0 is listed twice"),
        ({"assignment": "listed", "columns": [[0], [1], [2], {"from": 3}]}, "key 'columns.*from"),
        ({"assignment": "importance"}, "concentration: 'importance' needs one above 0"),
        ({"assignment": "correlation", "beta": 1.5}, "key 'beta', value 1.5"),
        ({"label_holders": 6}, "'label_holders' is 6, but there are 6 choices of 2 from 4 part"),
        ({"clients": 4}, "unknown key 'clients'; similar: columns; allowed"),
    ],
    "tiered": [
        ({"cut": {}}, "key 'cut': names no axis; say which to cut and into how many"),
        ({"cut": {"widht": 2}}, "key 'cut': there is no axis 'widht'; axes are columns, time"),
        ({"samples": 3}, "samples: 3, fewer than the 4 that clients need"),
        ({"test": 2.0}, "key 'test', value 2.0: must be a share"),
        ({"active": 1}, "unknown key 'active'; allowed keys: binary, clients, cut, instances"),
    ],
}  # fmt: skip
SOUND = {
    "horizontal": {"clients": 4},
    "vertical": {"parties": 4, "active": 2},
    "tiered": {"cut": {"width": 2}, "clients": 4},
}


@pytest.mark.parametrize(
    ("kind", "changes", "message"), [(kind, *case) for kind in WRONG for case in WRONG[kind]]
)
def test_a_bad_specification_names_key_and_value(kind, changes, message):
    declared = {"kind": kind, **SOUND[kind], **changes}
    with pytest.raises(FedatlasError, match=f"^e: {message}"):
        validated(Partition, declared, "e")


# In random specifications: few, so that thinned rows do not look like those of a regression.
CLASSES = 4


def labels_of(rows: int, seed: int = 0, classes: int = 10) -> np.ndarray:
    """Every class is there, in no order."""
    rng = np.random.default_rng(seed)
    others = rng.integers(0, classes, rows - classes)
    return rng.permutation(np.concatenate([np.arange(classes), others])).astype(float)


@st.composite
def binaries(draw: st.DrawFn, classes: int = CLASSES, least: float = 0.3) -> BinaryClasses:
    positive = draw(st.sets(st.integers(0, classes - 1), min_size=1, max_size=classes - 1))
    share = st.sampled_from([1.0, 0.5, 1 / 3, least]) | st.floats(least, 1)
    return BinaryClasses(
        positive=tuple(positive), keep_negative=draw(share), keep_positive=draw(share)
    )


@st.composite
def partitions(draw: st.DrawFn) -> HorizontalPartition:
    values: dict[str, Any] = {
        "assignment": draw(st.sampled_from(["consecutive", "shuffled", "by_class", "dirichlet"])),
        "clients": draw(st.integers(1, 6)),
        "samples": draw(st.none() | st.integers(130, 150)),
        "test": draw(st.none() | st.sampled_from([0.1, 0.2, 0.37, "test"])),
        "binary": draw(binaries()),
    }
    if values["assignment"] == "dirichlet":
        values["concentration"] = draw(st.sampled_from([0.1, 1.0, 100.0]))
    thins = values["binary"].thins or isinstance(values["test"], float)
    if values["assignment"] != "consecutive" or thins:
        values["seed"] = draw(st.integers(0, 2**40))
    return HorizontalPartition.model_validate(values)


def rounded(share: float, of: int) -> int:
    """The whole number next to share · of, as Python rounds it: the even one of two."""
    return round(share * of)


# ------------------------------------------------------------------------------ who holds what


@settings(max_examples=40)
@given(partitions(), st.integers(150, 200), st.integers(0, 3))
def test_rows_are_thinned_by_exact_counts_and_shared_out_once(spec, rows, seed):
    labels = labels_of(rows, seed, CLASSES)
    plain = spec.model_copy(update={"binary": None})
    offered, expected_test, *_ = share_out(plain, labels)
    offered = np.concatenate(offered)
    clients, test, *_ = share_out(spec, labels)
    held = np.concatenate(clients)

    # Test rows are those without `binary`: neither thinned nor anybody's.
    np.testing.assert_array_equal(test, expected_test)
    kept = spec.samples or rows
    assert len(test) == (rounded(spec.test, kept) if isinstance(spec.test, float) else 0)
    assert len(set(held.tolist())) == len(held)
    assert not set(held.tolist()) & set(test.tolist())
    assert set(held.tolist()) <= set(offered.tolist())
    assert len(offered) + len(test) == kept
    assert max(held.tolist()) < kept

    is_positive = np.isin(labels, spec.binary.positive)
    for sign, share in (
        (True, spec.binary.keep_positive), (False, spec.binary.keep_negative)
    ):  # fmt: skip
        there = (is_positive[offered] == sign).sum()
        assert (is_positive[held] == sign).sum() == rounded(share, there)

    assert len(clients) == spec.clients
    for held_by_one in clients:
        assert len(held_by_one) >= 1
        assert (np.diff(held_by_one) > 0).all()
    if spec.assignment != "dirichlet":
        sizes = [len(held_by_one) for held_by_one in clients]
        assert max(sizes) - min(sizes) <= 1

    again, test_again, *_ = share_out(spec, labels)
    np.testing.assert_array_equal(test_again, test)
    for one, other in zip(again, clients, strict=True):
        np.testing.assert_array_equal(one, other)


def spec_of(assignment: str = "shuffled", **changes: Any) -> HorizontalPartition:
    binary = {"positive": {"from": 5, "to": 9}, "keep_negative": 0.2}
    values = {"assignment": assignment, "clients": 4, "binary": binary, **changes}
    return HorizontalPartition.model_validate(values)


def test_the_papers_share_of_positives():
    """80 % of the negatives of a balanced set removed: 5/6 are positive."""
    labels = np.repeat(np.arange(10.0), 60)
    clients, _, *_ = share_out(spec_of(clients=16), labels)
    held = np.concatenate(clients)
    assert Fraction(int((labels[held] >= 5).sum()), len(held)) == Fraction(5, 6)


def test_what_is_kept_depends_on_the_seed_alone():
    labels = labels_of(300)
    held = {
        (assignment, clients, seed): frozenset(
            np.concatenate(
                share_out(spec_of(assignment, clients=clients, seed=seed), labels)[0]
            ).tolist()
        )
        for assignment in ("consecutive", "shuffled", "by_class")
        for clients in (1, 4, 16)
        for seed in (0, 1)
    }
    assert len(set(held.values())) == 2
    assert len({rows for (*_, seed), rows in held.items() if seed == 0}) == 1


def test_thinned_rows_come_from_everywhere():
    """Uniformly, without replacement: every negative is kept by a fifth of the seeds."""
    labels = np.concatenate([np.zeros(40), np.full(10, 7.0)])
    times = np.zeros(50)
    for seed in range(400):
        clients, _, *_ = share_out(spec_of(seed=seed, clients=2), labels_with_all(labels))
        times[np.concatenate(clients)[np.concatenate(clients) < 50]] += 1
    assert (times[40:] == 400).all()
    share = times[:40] / 400
    assert abs(share.mean() - 0.2) < 0.01
    assert (np.abs(share - 0.2) < 4.5 * (0.16 / 400) ** 0.5).all()


def labels_with_all(labels: np.ndarray) -> np.ndarray:
    """Labels that lack none of 5 to 9, by rows at the end."""
    return np.concatenate([labels, np.arange(5.0, 10.0)])


@settings(max_examples=40)
@given(st.integers(1, 30), st.integers(100, 300), st.integers(2, 10), binaries(10, 0.05))
def test_by_class_workers_hold_few_classes(clients, rows, classes, binary):
    """Of the data set, not of the two: blocks of sorted labels have N + C − 1 pairs at most."""
    labels = labels_of(rows, classes=classes)
    assume(set(binary.positive) < set(labels.tolist()))
    spec = HorizontalPartition(assignment="by_class", clients=clients, binary=binary, seed=1)
    try:
        held, _, *_ = share_out(spec, labels)
    except FedatlasError as error:  # too few rows are left
        assert "no " in str(error) or "exceeds" in str(error) or "goes by class" in str(error)
        return
    everybody = np.concatenate(held)
    pairs = sum(len(np.unique(labels[rows])) for rows in held)
    assert pairs <= clients + len(np.unique(labels[everybody])) - 1
    tops = [labels[rows].max() for rows in held]
    bottoms = [labels[rows].min() for rows in held]
    assert all(top <= bottom for top, bottom in zip(tops, bottoms[1:], strict=False))
    assert len(set(everybody.tolist())) == len(everybody)
    if not binary.thins:
        assert len(everybody) == rows


def test_within_a_class_by_class_draws_at_random():
    labels = np.repeat([0.0, 1.0], 50)
    first, second = (
        share_out(HorizontalPartition(assignment="by_class", clients=4, seed=seed), labels)[0]
        for seed in (0, 1)
    )
    assert not np.array_equal(first[0], second[0])
    assert first[0].max() > 30  # from everywhere in the class
    assert {frozenset(np.unique(labels[rows]).tolist()) for rows in first} == {
        frozenset({0.0}), frozenset({1.0})
    }  # fmt: skip


# ------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("binary", "message"),
    [
        ({"positive": [1, 2, 1]}, "a label is listed twice"),
        ({"positive": {"from": 9, "to": 5}}, "positive"),
        ({"positive": {"from": 5}}, r"\{from: first, to: last\}"),
        ({"positive": {"from": 5, "to": 9, "by": 2}}, r"\{from: first, to: last\}"),
        ({"positive": {"from": 5.0, "to": 9}}, "whole numbers"),
        ({"positive": [1], "keep_negative": 0}, "keep_negative"),
    ],
)
def test_a_bad_specification_names_its_key(binary, message):
    values = {"clients": 2, "binary": binary}
    with pytest.raises(FedatlasError, match=rf"^e: key 'binary.*{message}"):
        validated(HorizontalPartition, values, "e")


def test_a_range_is_its_labels_in_any_order():
    assert BinaryClasses.model_validate({"positive": {"from": 3, "to": 5}}).positive == (3, 4, 5)
    assert BinaryClasses(positive=(5, 3, 4)) == BinaryClasses(positive=(3, 4, 5))
    assert BinaryClasses.model_validate({"positive": {"from": -1, "to": -1}}).positive == (-1,)


@pytest.mark.parametrize(
    ("values", "varies"),
    [
        ({}, False),
        ({"test": "test"}, False),
        ({"test": 3}, False),
        ({"binary": {"positive": [1]}}, False),
        ({"binary": {"positive": [1], "keep_negative": 0.5}}, True),
        ({"test": 0.5}, True),
        ({"assignment": "shuffled"}, True),
        ({"assignment": "by_class"}, True),
        ({"assignment": "dirichlet", "concentration": 1}, True),
    ],
)
def test_trials_have_partitions_of_their_own_where_something_is_random(values, varies):
    declared = {"clients": 2, **values}
    spec = HorizontalPartition.model_validate(declared)
    assert spec.seed is None
    assert (spec.of_seed(4).slug == spec.of_seed(5).slug) is not varies
    if not varies:
        assert spec.of_seed(4) == spec
        with pytest.raises(ValidationError, match=r"seed: .*remove it"):
            HorizontalPartition.model_validate({**declared, "seed": 4})
        return
    seeded = HorizontalPartition.model_validate({**declared, "seed": 4})
    assert spec.of_seed(4) == seeded == seeded.of_seed(5)


# ------------------------------------------------------------------------------ shards


SHAPE = (3, 2, 2)


def samples_of(labels: np.ndarray, layout: str, seed: int = 0) -> Samples:
    return replace(make_samples(len(labels), 12, layout, seed=seed), label=labels)


def signs(labels: np.ndarray, spec: HorizontalPartition) -> np.ndarray:
    return np.array([1.0 if label in spec.binary.positive else -1.0 for label in labels])


@pytest.mark.parametrize("kind", ["dense", "sparse", "uint8"])
@settings(max_examples=15)
@given(spec=partitions())
def test_shards_hold_signs_and_the_rows_that_are_kept(kind, tmp_path, spec):
    train = samples_of(labels_of(160, 0, CLASSES), kind)
    test = samples_of(labels_of(30, 1, CLASSES), kind, 1)
    held_out = test if spec.test == "test" else None
    read = read_shard(*shard(tmp_path, train, spec, SHAPE, held_out))
    clients, test_rows, *_ = share_out(spec, train.label)
    rows = np.concatenate(clients)
    np.testing.assert_array_equal(read.samples.sample_id, rows)
    np.testing.assert_array_equal(read.samples.label, signs(train.label[rows], spec))
    np.testing.assert_array_equal(as_dense(read.samples), as_dense(train)[rows])
    np.testing.assert_array_equal(np.diff(read.offsets), [len(held) for held in clients])
    assert read.samples.layout == train.layout
    positives = np.isin(train.label[rows], spec.binary.positive)
    assert read.metadata["positive_rate"] == pytest.approx(positives.mean(), abs=1e-15)

    if spec.test is None:
        assert read.test is None
        assert read.metadata["test_samples"] == 0
        return
    source, of_test = (test, np.arange(30)) if spec.test == "test" else (train, test_rows)
    assert read.metadata["test_samples"] == len(of_test)
    np.testing.assert_array_equal(read.test.sample_id, of_test)
    np.testing.assert_array_equal(read.test.label, signs(source.label[of_test], spec))
    np.testing.assert_array_equal(as_dense(read.test), as_dense(source)[of_test])


@pytest.mark.parametrize("kinds", [("dense", "sparse"), ("sparse", "dense")])
def test_the_test_split_may_be_stored_otherwise(kinds, tmp_path):
    """Either is stored as is smaller for it; in the shard both are as the training rows are."""
    spec = spec_of(test="test")
    train = samples_of(labels_of(100), kinds[0])
    test = samples_of(labels_of(20, 1), kinds[1], 1)
    read = read_shard(*shard(tmp_path, train, spec, SHAPE, test))
    assert read.samples.layout == read.test.layout == kinds[0]
    np.testing.assert_array_equal(as_dense(read.test), as_dense(test))
    np.testing.assert_array_equal(read.test.label, signs(test.label, spec))
    np.testing.assert_array_equal(read.test.sample_id, np.arange(20))


def test_labels_that_are_signs_have_a_share_of_positives(tmp_path):
    labels = np.array([1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    spec = HorizontalPartition(clients=2, samples=5)
    read = read_shard(*shard(tmp_path, samples_of(labels, "dense"), spec))
    assert read.metadata["positive_rate"] == 0.6
