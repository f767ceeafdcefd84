"""Tiered partitions: every number of a sample at one silo, every sample at one client of each."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalogue_entry import FILES, entry
from fedatlas.data.catalogue import Catalogue
from fedatlas.data.formats import dataset_of
from fedatlas.errors import FedatlasError
from fedatlas.files import canonical_json
from fedatlas.plan.checks import check_partition
from fedatlas.schema.models import validated
from fedatlas.schema.partitions import HorizontalPartition, Partition, TieredPartition
from fedatlas.shards.assignment import (
    share_out,
    share_out_by_silo,
    silo_blocks,
)
from small_federations import small

NAMES = {
    1: ["columns"],
    2: ["time", "features"],
    3: ["channels", "height", "width"],
    4: ["views", "channels", "height", "width"],
}
quick = settings(max_examples=60)
shapes = st.integers(1, 4).flatmap(lambda n: st.tuples(*[st.integers(1, 5)] * n))


@st.composite
def shapes_and_cuts(draw, most_blocks=5):
    shape = draw(shapes)
    cut = {
        name: draw(st.integers(1, min(length, most_blocks)), name)
        for name, length in zip(NAMES[len(shape)], shape, strict=True)
    }
    kept = draw(st.sets(st.sampled_from(sorted(cut)), min_size=1))
    return shape, {name: cut[name] for name in sorted(kept)}


def tiered(cut: dict[str, int] | None = None, clients: int = 3, **rest: Any) -> TieredPartition:
    return TieredPartition(cut=cut or {"columns": 2}, clients=clients, **rest)


def silo_of_each_number(shape: tuple[int, ...], cut: dict[str, int]) -> np.ndarray:
    """(d,) silo of each number of a flattened sample, by walking through it number by number."""
    names = NAMES[len(shape)]
    grid = [cut.get(name, 1) for name in names]
    silo = []
    for place in itertools.product(*map(range, shape)):
        number = 0
        for index, length, blocks in zip(place, shape, grid, strict=True):
            # The first `length % blocks` blocks have one more than the others.
            ends = list(
                itertools.accumulate(
                    length // blocks + (b < length % blocks) for b in range(blocks)
                )
            )
            number = number * blocks + sum(index >= end for end in ends)
        silo.append(number)
    return np.array(silo)


# ------------------------------------------------------------------------------ slices of a sample


@quick
@given(shape_and_cut=shapes_and_cuts())
def test_every_number_of_a_sample_is_in_the_block_of_one_silo(shape_and_cut):
    shape, cut = shape_and_cut
    spec = tiered(cut)
    blocks = silo_blocks(spec, shape)
    assert len(blocks) == spec.silos == np.prod(list(cut.values()))
    found = np.full(shape, -1)
    for number, block in enumerate(blocks):
        assert (found[block] == -1).all()
        found[block] = number
        assert found[block].size > 0
    np.testing.assert_array_equal(found.ravel(), silo_of_each_number(shape, cut))


@pytest.mark.parametrize(
    ("shape", "cut", "message"),
    [
        ((6,), {"width": 2}, r"the axis 'width', but samples of shape \(6,\) have columns"),
        ((4, 6), {"columns": 2}, r"'columns', .*shape \(4, 6\) have time, features"),
        ((1, 8, 8), {"views": 2}, r"'views', .*\(1, 8, 8\) have channels, height, width"),
        ((2, 1, 8, 8), {"time": 2}, "'time', .*have views, channels, height, width"),
        ((1, 1, 1, 1, 9), {"width": 2}, "'width', .*have no axis that can be cut"),
        ((1, 8, 8), {"width": 9}, r"cut.width asks for 9 blocks, .* have 8 along 'width'.*lower"),
        ((1, 8, 8), {"width": 2, "channels": 2}, "cut.channels asks for 2 blocks.* have 1 along"),
        ((7,), {"columns": 8}, r"cut.columns asks for 8 blocks, .*\(7,\) have 7 along 'columns'"),
    ],
)  # fmt: skip
def test_a_cut_that_samples_do_not_allow_is_refused(shape, cut, message):
    with pytest.raises(FedatlasError, match=message):
        silo_blocks(tiered(cut), shape)


# -------------------------------------------------------------------------- samples of the clients


@quick
@given(data=st.data())
def test_every_training_sample_is_at_one_client_of_each_silo(data):
    kept = data.draw(st.integers(3, 60), "kept")
    rows = kept + data.draw(st.sampled_from([0, 5]), "more rows")
    test = data.draw(st.sampled_from([None, 0.3, "test"]), "test")
    training = kept - round(0.3 * kept) if test == 0.3 else kept
    number, counts = data.draw(st.integers(1, 4), "silos"), st.integers(1, training)
    spec = tiered(
        {"columns": number},
        data.draw(counts | st.tuples(*[counts] * number), "clients"),
        samples=None if rows == kept else kept,
        test=test,
        permutation=data.draw(st.sampled_from(["own", "shared"]), "permutation"),
        seed=data.draw(st.integers(0, 99), "seed"),
    )
    silos, held_out = share_out_by_silo(spec, np.zeros(rows))
    assert len(silos) == spec.silos
    for clients, expected in zip(silos, spec.clients_by_silo, strict=True):
        sizes = [len(own) for own in clients]
        assert len(sizes) == expected
        assert sizes == sorted(sizes, reverse=True)
        assert max(sizes) - min(sizes) <= 1
        for own in clients:
            assert (np.diff(own) > 0).all()
        held = np.concatenate([*clients, held_out])
        np.testing.assert_array_equal(np.sort(held), np.arange(kept))


@quick
@given(
    rows=st.integers(1, 60),
    silos=st.integers(1, 4),
    clients=st.integers(1, 60),
    seed=st.integers(0),
)
def test_the_number_of_clients_does_not_change_a_silos_permutation(rows, silos, clients, seed):
    clients = min(clients, rows)
    each_alone, _ = share_out_by_silo(tiered({"columns": silos}, rows, seed=seed), np.zeros(rows))
    shared, _ = share_out_by_silo(tiered({"columns": silos}, clients, seed=seed), np.zeros(rows))
    for order, held in zip(each_alone, shared, strict=True):
        permutation = np.concatenate(order)  # a client for each row: client i has the i-th
        for expected, own in zip(np.array_split(permutation, clients), held, strict=True):
            np.testing.assert_array_equal(own, np.sort(expected))


def permutations(cut: dict[str, int], rows: int = 40, **rest: Any) -> list[tuple[int, ...]]:
    """The permutation of each silo, seen where every client has one sample."""
    silos, _ = share_out_by_silo(tiered(cut, rows, **rest), np.zeros(rows))
    return [tuple(np.concatenate(clients).tolist()) for clients in silos]


def test_more_silos_do_not_change_the_permutations_of_the_first():
    assert permutations({"width": 2, "height": 2}) == permutations({"columns": 6})[:4]


def test_a_shared_permutation_is_that_of_the_first_silo():
    """Clients of one number then hold the same samples in every silo."""
    own = permutations({"columns": 3}, seed=5)
    assert len(set(own)) == 3
    assert permutations({"columns": 3}, seed=5, permutation="shared") == [own[0]] * 3
    silos, _ = share_out_by_silo(
        tiered({"columns": 2}, (4, 2), permutation="shared", seed=1), np.zeros(20)
    )
    halves = [np.sort(np.concatenate(silos[0][first : first + 2])) for first in (0, 2)]
    for half, held in zip(halves, silos[1], strict=True):
        np.testing.assert_array_equal(half, held)


def test_permutations_are_uniform():
    """Over 900 seeds each of the six orders of three samples comes 150 times, ± 4.5 deviations."""
    for silo in range(2):
        orders = [permutations({"columns": 2}, 3, seed=seed)[silo] for seed in range(900)]
        counts = [orders.count(order) for order in itertools.permutations(range(3))]
        assert all(abs(count - 150) < 4.5 * np.sqrt(900 * 5 / 36) for count in counts)


# ------------------------------------------------------------------------------ binary classes


@quick
@given(data=st.data())
def test_thinned_rows_are_those_of_a_horizontal_partition(data):
    """Whatever the assignment, the clients and the cut: the same seed keeps the same rows."""
    rows = data.draw(st.integers(100, 160), "rows")
    labels = np.random.default_rng(data.draw(st.integers(0, 9), "labels")).permutation(rows) % 5.0
    rest = {
        "samples": data.draw(st.sampled_from([None, rows - 10]), "samples"),
        "test": data.draw(st.sampled_from([None, 0.25, "test"]), "test"),
        "seed": data.draw(st.integers(0, 99), "seed"),
        "binary": {
            "positive": data.draw(st.sampled_from([(3, 4), (0,), (0, 1, 2, 4)]), "positive"),
            "keep_negative": data.draw(st.sampled_from([0.4, 0.75]), "negatives"),
            "keep_positive": data.draw(st.sampled_from([0.5, 1.0]), "positives"),
        },
    }
    assignment = data.draw(st.sampled_from(["consecutive", "shuffled", "by_class"]), "assignment")
    clients, test_rows, *_ = share_out(
        HorizontalPartition(assignment=assignment, clients=3, **rest), labels
    )
    expected = np.sort(np.concatenate(clients))
    cut = data.draw(st.sampled_from([{"width": 2}, {"height": 1}, {"columns": 3}]), "cut")
    spec = tiered(cut, data.draw(st.integers(1, 5), "clients"), **rest)
    silos, own_test_rows = share_out_by_silo(spec, labels)
    np.testing.assert_array_equal(own_test_rows, test_rows)
    for silo in silos:
        np.testing.assert_array_equal(np.sort(np.concatenate(silo)), expected)
        assert max(map(len, silo)) - min(map(len, silo)) <= 1


def check(partition: TieredPartition, **changes: Any) -> None:
    """What the plan says of a partition of a set of 100 images, known by the catalogue only."""
    splits = {"train": {"rows": 100, "files": FILES}, "test": {"files": FILES}}
    content = entry(features=64, shape=(1, 8, 8), splits=splits) | changes
    dataset = dataset_of({"name": "tiny", **content}, "here")
    catalogue = Catalogue([Path("datasets.yaml")], {"tiny": dataset})
    spec = small("tdcd").model_copy(update={"dataset": "tiny", "partition": partition})
    check_partition(spec, catalogue, "a.yaml: runs.x")


@pytest.mark.parametrize(
    ("partition", "changes", "message"),
    [
        (tiered({"width": 9}), {}, "cut.width asks for 9 blocks, .* have 8 .*data set 'tiny'"),
        (tiered({"columns": 2}), {}, "axis 'columns', .*have channels, height, width.*'tiny'"),
        (tiered({"width": 2}), {"shape": None}, "axis 'width', .*have columns"),
        (tiered({"width": 2}, 101), {}, "asks for 101 rows or clients, but tiny has 100 rows"),
        (tiered({"width": 2}, samples=101), {}, "asks for 101 rows or clients"),
        (tiered({"width": 2}, test="dev"), {}, "key 'partition.test': .*dev"),
    ],
)
def test_the_plan_refuses_what_the_catalogue_rules_out(partition, changes, message):
    with pytest.raises(FedatlasError, match=rf"a\.yaml: runs\.x: .*{message}"):
        check(partition, **changes)


def test_the_plan_accepts_what_the_catalogue_allows():
    check(tiered({"width": 8, "height": 8}, 100, samples=100, test="test"))
    check(tiered({"columns": 64}, 100), shape=None)


# ------------------------------------------------------------------------------------------ names


def test_a_partition_survives_json_and_is_that_of_every_trial_if_it_has_a_seed():
    binary = {"positive": {"from": 5, "to": 9}, "keep_positive": 0.5}
    spec = tiered({"views": 2, "width": 3}, 4, samples=9, test=0.5, seed=2, binary=binary)
    again = validated(Partition, json.loads(spec.model_dump_json()), "here")  # type: ignore[type-var]
    assert again == spec
    assert again.slug == spec.slug
    assert spec.of_seed(7) == spec  # it states a seed, so all trials share it
    assert tiered().of_seed(7) == tiered(seed=7)
    assert spec.test_split is None
    assert tiered(test="dev").test_split == "dev"


def test_the_order_of_axes_makes_no_other_partition():
    one, other = (
        tiered({"width": 2, "height": 3}, seed=0),
        tiered({"height": 3, "width": 2}, seed=0),
    )
    assert one.slug == other.slug == "tiered-height3-width2-k3-seed0"
    assert canonical_json(one.model_dump()) == canonical_json(other.model_dump())
    assert one.silos == 6
