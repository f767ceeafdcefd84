"""Laws by which rows are shared out among clients, each against what it promises."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedatlas.errors import FedatlasError
from fedatlas.schema.partitions import OF_CLIENTS, HorizontalPartition
from fedatlas.shards.assignment import share_out
from fedatlas.shards.skew import Coded

CLASSES = 4


def spec_of(assignment: str, clients: int = 6, **values: Any) -> HorizontalPartition:
    return HorizontalPartition(assignment=assignment, clients=clients, **values)


def shared(spec: HorizontalPartition, labels: np.ndarray) -> list[np.ndarray]:
    return share_out(spec, labels).clients


def counts(spec: HorizontalPartition, labels: np.ndarray) -> np.ndarray:
    """(clients, classes) how many rows of each class each client has."""
    values = np.unique(labels)
    return np.array(
        [[(labels[rows] == value).sum() for value in values] for rows in shared(spec, labels)]
    )


@st.composite
def drawn(draw: st.DrawFn) -> HorizontalPartition:
    """A partition of 60 or more rows of four classes, whatever the assignment is."""
    assignment = draw(st.sampled_from([name for name in OF_CLIENTS if name != "by_column"]))
    needed, optional = OF_CLIENTS[assignment]
    clients = draw(st.integers(1, 8))
    choices = {
        "concentration": st.floats(1e-6, 1e6),
        "exponent": st.floats(1e-3, 20),
        "minimum": st.just(1),
        "shards_per_client": st.integers(1, 4),
        "classes_per_client": st.integers(-(-CLASSES // clients), CLASSES),
    }
    values = {key: draw(choices[key]) for key in (*needed, *optional) if key in needed}
    if assignment == "power_law_sizes":
        values["minimum"] = draw(st.none() | st.integers(1, 7))
    if assignment != "consecutive":
        values["seed"] = draw(st.integers(0, 2**63))
    test = draw(st.none() | st.integers(1, 9))
    return spec_of(assignment, clients, test=test, **values)


@given(drawn(), st.integers(69, 150))
def test_every_row_has_one_client_in_order_and_every_client_has_enough(spec, rows):
    labels = np.random.default_rng(rows).permutation(np.arange(rows) % CLASSES) * 1.0
    shares = share_out(spec, labels)
    held = np.concatenate([*shares.clients, shares.test])
    np.testing.assert_array_equal(np.sort(held), np.arange(rows))
    assert len(shares.clients) == spec.clients
    assert min(map(len, shares.clients)) >= (spec.minimum or 1)
    assert all((np.diff(own) > 0).all() for own in shares.clients)
    for again, own in zip(share_out(spec, labels).clients, shares.clients, strict=True):
        np.testing.assert_array_equal(again, own)


# ---------------------------------------------------------------------------------------- shards


@given(st.integers(1, 10), st.integers(1, 4), st.integers(0, 2**40))
def test_a_client_has_shards_of_sorted_rows(clients, each, seed):
    labels = np.random.default_rng(seed).integers(0, 3, 20 * clients * each) * 1.0
    spec = spec_of("shards", clients, shards_per_client=each, seed=seed)
    held = counts(spec, labels)
    assert (held.sum(axis=1) == 20 * each).all()
    # Cut at two places, at most two of all shards are of more than one class.
    assert (held > 0).sum() <= clients * each + 2


def test_the_paper_of_fedavg_gives_most_clients_two_digits():
    labels = np.repeat(np.arange(10.0), 600)
    held = counts(spec_of("shards", 100, shards_per_client=2, seed=1), labels)
    assert set(np.unique(held)) == {0, 30, 60}
    # Two shards are of one class for 19 of 199 pairs: of 100 clients about ten.
    assert 3 <= (held == 60).sum() <= 20


def test_shards_are_dealt_out_uniformly():
    labels = np.arange(4) % 2.0
    first = [
        shared(spec_of("shards", 2, shards_per_client=2, seed=s), labels)[0] for s in range(600)
    ]
    pairs, times = np.unique(first, axis=0, return_counts=True)
    assert len(pairs) == 6
    np.testing.assert_allclose(times / 600, 1 / 6, atol=4 * (5 / 36 / 600) ** 0.5)


# ----------------------------------------------------------------------------------- pathological


@given(st.data(), st.integers(1, 12), st.integers(2, 8), st.integers(0, 2**40))
def test_each_client_has_exactly_so_many_classes_in_equal_parts(data, clients, classes, seed):
    each = data.draw(st.integers(-(-classes // clients), classes))
    labels = np.random.default_rng(seed).permutation(np.arange(200) % classes) * 1.0
    held = counts(spec_of("pathological", clients, classes_per_client=each, seed=seed), labels)
    assert ((held > 0).sum(axis=1) == each).all()
    assert (held.sum(axis=0) == np.bincount(labels.astype(int))).all()
    assert (held[np.arange(clients), np.arange(clients) % classes] > 0).all()  # as in NIID-Bench
    for of_class in held.T:
        having = of_class[of_class > 0]
        assert having.max() - having.min() <= 1


def test_other_classes_are_drawn_uniformly():
    labels = np.arange(60) % 5.0
    times = np.zeros(5)
    for seed in range(300):
        held = counts(spec_of("pathological", 5, classes_per_client=2, seed=seed), labels)
        times += held[0] > 0
    assert times[0] == 300
    np.testing.assert_allclose(times[1:] / 300, 1 / 4, atol=0.1)  # four deviations


# -------------------------------------------------------------------------------- equal Dirichlet


def test_mixes_of_equal_clients_have_the_moments_of_the_dirichlet_distribution():
    """Shares of one of C classes among m rows are beta-binomial with α and (C − 1)α."""
    clients, each, classes, concentration = 3000, 20, 3, 0.4
    labels = np.arange(clients * each) % classes * 1.0
    spec = spec_of("inner_dirichlet", clients, concentration=concentration, seed=1)
    found = counts(spec, labels)
    assert (found.sum(axis=1) == each).all()
    p = 1 / classes
    expected = p * (1 - p) / each * (1 + (each - 1) / (classes * concentration + 1))
    assert (found / each).var() == pytest.approx(expected, rel=0.07)


def row_by_row(labels: np.ndarray, clients: int, concentration: float, seed: int) -> np.ndarray:
    """As Acar et al. (2021) do it: one client, one class, one row at a time."""
    random, (_, left) = np.random.default_rng(seed), np.unique(labels, return_counts=True)
    mixes = random.dirichlet([concentration] * len(left), clients)
    held, each = np.zeros((clients, len(left))), len(labels) // clients
    while (open_to := np.flatnonzero(held.sum(axis=1) < each)).size:
        client = random.choice(open_to)
        mix = mixes[client] * (left > 0)
        one = np.searchsorted(np.cumsum(mix / mix.sum()), random.random(), side="right")
        held[client, one] += 1
        left[one] -= 1
    return held


def test_classes_that_are_used_up_change_mixes_as_row_by_row():
    labels, seeds = np.repeat([0.0, 1.0, 2.0], [7, 12, 5]), range(250)
    plain = [row_by_row(labels, 4, 0.9, seed) for seed in seeds]
    ours = [counts(spec_of("inner_dirichlet", 4, concentration=0.9, seed=s), labels) for s in seeds]
    for one in range(3):
        variances = [np.var([held[:, one] for held in found], axis=0) for found in (plain, ours)]
        assert np.mean(variances[0]) == pytest.approx(np.mean(variances[1]), rel=0.15)


@given(st.floats(1e-9, 1e9), st.integers(1, 30), st.integers(0, 2**40))
def test_clients_are_equal_even_where_classes_are_used_up(concentration, clients, seed):
    labels = np.repeat([0.0, 1.0, 2.0], [40, 15, 9])
    spec = spec_of("inner_dirichlet", clients, concentration=concentration, seed=seed)
    sizes = [len(own) for own in shared(spec, labels)]
    assert max(sizes) - min(sizes) <= 1


def test_a_large_concentration_gives_all_clients_the_same_mix():
    labels = np.repeat([0.0, 1.0], 5_000)
    held = counts(spec_of("inner_dirichlet", 4, concentration=1e6, seed=1), labels)
    np.testing.assert_allclose(held / 2500, 0.5, atol=0.04)


# ------------------------------------------------------------------------------------------ sizes


def test_sizes_have_the_moments_of_the_dirichlet_distribution():
    clients, concentration = 5, 0.8
    spec = {"clients": clients, "concentration": concentration}
    shares = np.array(
        [
            [
                len(own) / 1000
                for own in shared(spec_of("dirichlet_sizes", **spec, seed=s), np.zeros(1000))
            ]
            for s in range(500)
        ]
    )
    mean = 1 / clients
    assert shares.mean() == pytest.approx(mean)
    assert shares.var() == pytest.approx(mean * (1 - mean) / (clients * concentration + 1), rel=0.1)


@given(st.integers(1, 6), st.integers(1, 20), st.integers(0, 2**40))
def test_sizes_are_drawn_until_every_client_has_the_minimum(clients, minimum, seed):
    spec = spec_of("dirichlet_sizes", clients, concentration=1.0, minimum=minimum, seed=seed)
    sizes = [len(own) for own in shared(spec, np.zeros(400))]
    assert sum(sizes) == 400 and min(sizes) >= minimum


@given(st.integers(1, 30), st.floats(0.01, 5), st.none() | st.integers(1, 9), st.integers(300, 900))
def test_sizes_fall_as_the_declared_power(clients, exponent, minimum, rows):
    spec = spec_of("power_law_sizes", clients, exponent=exponent, minimum=minimum, seed=3)
    sizes = np.array([len(own) for own in shared(spec, np.zeros(rows))])
    least = minimum or 1
    law = [(k + 1) ** -exponent for k in range(clients)]
    expected = [least + (rows - least * clients) * part / sum(law) for part in law]
    assert sizes.sum() == rows
    np.testing.assert_allclose(sizes, expected, atol=1 + 1e-9)


@pytest.mark.parametrize("assignment", ["dirichlet_sizes", "power_law_sizes"])
def test_rows_of_unequal_clients_are_alike(assignment):
    """A row is with client 0 as often as its size says, wherever it stands."""
    values = {"dirichlet_sizes": {"concentration": 5.0}, "power_law_sizes": {"exponent": 1.0}}
    held, sizes = np.zeros(20), 0
    for seed in range(800):
        own = shared(spec_of(assignment, 3, seed=seed, **values[assignment]), np.zeros(20))[0]
        held[own] += 1
        sizes += len(own)
    np.testing.assert_allclose(held / 800, sizes / 800 / 20, atol=0.075)  # four deviations


# ---------------------------------------------------------------------------------------- natural


NAMES = ("mia", "bo", "ada")


@given(st.lists(st.integers(0, 2), min_size=9, max_size=60), st.none() | st.integers(1, 5))
def test_a_client_holds_the_rows_of_a_value(codes, minimum):
    column, rows = Coded(np.array(codes), NAMES), np.zeros(len(codes))
    held = sorted({NAMES[code] for code in codes if codes.count(code) >= (minimum or 1)})
    natural = {"column": "writer", "minimum": minimum}
    if held and len(held) * (minimum or 1) <= len(codes):
        shares = share_out(spec_of("by_column", len(held), **natural), rows, column)
        assert shares.values == tuple(held)
        for name, own in zip(held, shares.clients, strict=True):
            assert own.tolist() == [row for row, code in enumerate(codes) if NAMES[code] == name]
    if (4 if minimum is None else 4 * minimum) <= len(codes):
        found = rf"'writer' has {len(held)} values among the {len(codes)} .* is 4: .*: {len(held)}$"
        with pytest.raises(FedatlasError, match=found):
            share_out(spec_of("by_column", 4, **natural), rows, column)


def test_values_that_only_test_rows_have_are_no_clients():
    column = Coded(np.array([0, 1, 0, 1, 2]), NAMES)
    shares = share_out(spec_of("by_column", 2, column="writer", test=1), np.zeros(5), column)
    assert shares.values == ("bo", "mia")
    assert [own.tolist() for own in shares.clients] == [[1, 3], [0, 2]]
    assert shares.test.tolist() == [4]


# ---------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("assignment", "values", "message"),
    [
        ("pathological", {"classes_per_client": 5}, "classes_per_client 5 .* are only 4; lower"),
        (
            "pathological",
            {"classes_per_client": 1, "clients": 3},
            "are 4, some of them nobody's; r",
        ),
        (
            "pathological",
            {"classes_per_client": 4, "clients": 10},
            "10 clients are to have class 3",
        ),
        (
            "pathological",
            {"classes_per_client": 4, "clients": 12},
            "need 48 samples, but there are",
        ),
        ("shards", {"shards_per_client": 8}, "6 clients with shards_per_client 8 need 48 samples"),
        ("dirichlet_sizes", {"concentration": 1, "minimum": 7}, "with minimum 7 need 42 samples"),
        ("dirichlet_sizes", {"concentration": 1e-3, "minimum": 5}, "none of 1000 draws with"),
        ("power_law_sizes", {"exponent": 1, "minimum": 7}, "with minimum 7 need 42 samples"),
        ("power_law_sizes", {"exponent": 1, "clients": 41}, "clients 41 exceeds the 40 samples"),
    ],
)
def test_what_cannot_be_shared_out_is_refused_with_what_to_do(assignment, values, message):
    with pytest.raises(FedatlasError, match=f"^partition: .*{message}"):
        shared(spec_of(assignment, **values), np.repeat([0.0, 1.0, 2.0, 3.0], [11, 10, 10, 9]))


@pytest.mark.parametrize("assignment", ["shards", "pathological", "inner_dirichlet"])
def test_regression_labels_have_no_classes(assignment):
    (key,) = OF_CLIENTS[assignment][0]
    with pytest.raises(FedatlasError, match=f"'{assignment}' goes by class, .* regression"):
        shared(spec_of(assignment, **{key: 2}), np.random.default_rng(0).normal(size=90))
