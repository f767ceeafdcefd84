"""Partition specifications and the assignment of rows to clients."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedatlas.errors import FedatlasError
from fedatlas.schema.models import validated
from fedatlas.schema.partitions import HorizontalPartition, Partition
from fedatlas.shards.assignment import share_out


def assign(spec: HorizontalPartition, labels: np.ndarray) -> np.ndarray:
    """Client of each row that is kept."""
    clients, test, _ = share_out(spec, labels)
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


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            HorizontalPartition(clients=2, samples=10),
            "samples 10 exceeds the 9 rows .*; lower samp",
        ),
        (HorizontalPartition(clients=10), "clients 10 exceeds the 9 samples"),
    ],
)
def test_more_samples_or_clients_than_rows_are_refused(spec, message):
    with pytest.raises(FedatlasError, match=message):
        assign(spec, binary_labels(9))


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
    ],
    "vertical": [
        ({"active": 5}, "'active' is 5, but there are only 4 parties"),
        *(({"test": test}, f"key 'test', value {test}: must be a share [^\n]*$")
          for test in (0.0, 1.5, True, 0, -3, float("nan"))),
        ({"test": ["a"]}, "key 'test"),
        ({"label_holders": 6}, "'label_holders' is 6, but there are 6 choices of 2 from 4 part"),
        ({"clients": 4}, "unknown key 'clients'; allowed keys: active"),
    ],
    "tiered": [
        ({"cut": {}}, "key 'cut': names no axis; say which to cut and into how many"),
        ({"cut": {"widht": 2}}, "key 'cut': there is no axis 'widht'; axes are columns, time"),
        ({"samples": 3}, "samples: 3, fewer than the 4 that clients need"),
        ({"test": 2.0}, "key 'test', value 2.0: must be a share"),
        ({"active": 1}, "unknown key 'active'; allowed keys: binary, clients, cut, intercept"),
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
