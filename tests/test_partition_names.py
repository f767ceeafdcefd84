"""Names of partitions: file names, and no two alike."""

import re
from collections.abc import Iterator
from itertools import chain, product
from typing import Any

import pytest
from pydantic import ValidationError

from fedatlas.schema.partitions import HorizontalPartition, TieredPartition, VerticalPartition
from fedatlas.schema.rows import BinaryClasses

# Digits that could be read as part of a neighbouring field are where names would collide.
NUMBERS = [1, 2, 11, 12, 111]
SEEDS = [None, 0, 1, 11]
TESTS = [None, 2, 12, 0.1, 0.11, 0.1 + 0.2, 0.3, 1e-5, "2", "0.1", "test", "test0.1"]
TESTS += ["test-standardised", "test-seed1"]
# Lists that digits of neighbours could make alike, ranges beside their ends.
LABELS = [(1,), (2,), (12,), (1, 2), (1, 2, 3), (1, 3), (1, 23), (12, 3), (11, 12, 13), (1, 13)]
LABELS += [(0, 1, 2), (0, 2), (2, 3, 4, 5), (2, 5), (2, 3, 5), (2, 4, 5), (-1,), (-1, 0, 1)]
LABELS += [tuple(range(100, 200)), tuple(range(100, 199)), tuple(range(10, 20)), (-1, 1)]
LABELS += [(1.2,), (1.5, 2), (1, 5.2), (1234567,), (1234568,), (0, 1, 1e12), (1e22,)]
LABELS += [(*range(100, 199), 200), (*range(100, 199), 201), (100, 101, 102)]
RARE = [
    {"positive": positive, "keep_negative": negative, "keep_positive": kept}
    for positive in LABELS
    for negative in (0.2, 1.0, 0.1, 0.1 + 0.2, 0.3)
    for kept in (0.2, 1.0)
]
CUTS = [{"width": 2}, {"width": 12}, {"width": 1, "height": 2}, {"columns": 2}, {"time": 2}]


def grid(kind: Any, **choices: list[Any]) -> Iterator[Any]:
    """All partitions of these choices that there can be."""
    for values in product(*choices.values()):
        try:
            yield kind(**dict(zip(choices, values, strict=True)))
        except ValidationError:
            continue


def test_no_two_specifications_of_dense_grids_share_a_slug():
    skewed = {"concentration": [0.1, 1.0, 0.3, 0.1 + 0.2, 11, 1e-5, 1e-51, 1e9]}
    made = chain(
        grid(HorizontalPartition, clients=NUMBERS, samples=[None, *NUMBERS], test=TESTS[:5]),
        grid(
            HorizontalPartition, assignment=["shuffled", "by_class"], clients=NUMBERS,
            samples=[None, *NUMBERS], seed=SEEDS, test=[None, 2, 0.1],
        ),
        grid(
            HorizontalPartition, assignment=["dirichlet"], clients=NUMBERS,
            samples=[None, *NUMBERS], seed=SEEDS, minimum=[None, 1, 11], **skewed,
        ),
        grid(
            HorizontalPartition, assignment=["inner_dirichlet", "dirichlet_sizes"],
            clients=NUMBERS, seed=SEEDS, minimum=[None, 1, 11], **skewed,
        ),
        grid(
            HorizontalPartition, assignment=["power_law_sizes"], clients=NUMBERS,
            minimum=[None, 1, 11], exponent=[0.1, 1.0, 11, 0.3, 0.1 + 0.2], seed=SEEDS,
        ),
        grid(
            HorizontalPartition, assignment=["shards"], clients=NUMBERS, seed=SEEDS,
            shards_per_client=NUMBERS,
        ),
        grid(
            HorizontalPartition, assignment=["pathological"], clients=NUMBERS, seed=SEEDS,
            classes_per_client=NUMBERS,
        ),
        grid(
            HorizontalPartition, assignment=["by_column"], clients=NUMBERS, minimum=[None, 1, 11],
            column=["user", "user1", "a b", "a-b", "ä", "x" * 99, "x" * 98], test=[None, 1, "1"],
        ),
        grid(
            VerticalPartition, parties=[2], active=[1], assignment=["listed"], seed=[0, 1],
            columns=[([0], [1]), ([1], [0]), (["0"], ["1"]), ([0, 1], [2]), ([0], [1, 2])],
        ),
        grid(
            VerticalPartition, parties=NUMBERS, active=[1], assignment=["importance"], seed=[0, 1],
            **skewed,
        ),
        grid(
            VerticalPartition, parties=NUMBERS, active=[1], assignment=["correlation"], seed=[0, 1],
            beta=[0, 1, 0.1, 0.11, 0.3, 0.1 + 0.2],
        ),
        grid(HorizontalPartition, clients=[3], test=[None, 0.2, "test", "0.2"], binary=RARE),
        grid(
            VerticalPartition, parties=NUMBERS, active=NUMBERS, samples=[None, 1, 11, 111],
            assignment=["shuffled", "consecutive"], test=TESTS, standardise=[False, True],
            seed=SEEDS[:3],
        ),
        grid(
            TieredPartition, cut=CUTS, clients=[1, 2, 12], samples=[None, 12, 13],
            test=[None, 0.1, 0.11, "test", "test0.1", "seed1-on-test"], seed=[0, 1, 12],
            binary=[None, {"positive": (5, 6)}, *RARE[:3]],
        ),
    )  # fmt: skip
    specs = {spec.model_dump_json(): spec.slug for spec in made}
    assert len(specs) > 15_000
    assert len(set(specs.values())) == len(specs)
    # Lists of labels are cut, and names fit into a folder.
    assert all(re.fullmatch(r"[A-Za-z0-9._-]{1,130}", slug) for slug in specs.values())
    assert BinaryClasses(positive=(-0.0,)).slug == BinaryClasses(positive=(0.0,)).slug


VERTICAL = {"samples": 500, "test": 0.2, "standardise": True, "seed": 4}
RANGE = {"positive": {"from": 100, "to": 199}, "keep_negative": 0.2}
SHUFFLED = {"assignment": "shuffled", "clients": 16}


@pytest.mark.parametrize(
    ("spec", "slug"),
    [
        (
            HorizontalPartition(clients=3250, samples=32500),
            "horizontal-consecutive-3250-first32500",
        ),
        (
            HorizontalPartition(assignment="dirichlet", clients=100, concentration=0.5, seed=1),
            "horizontal-dirichlet-100-concentration0.5-seed1",
        ),
        (
            HorizontalPartition(**SHUFFLED, binary=RANGE, test="validation", seed=0),
            "horizontal-shuffled-16-positive100to199-keep0.2-1.0-seed0-on-validation",
        ),
        (
            HorizontalPartition(assignment="by_column", clients=9, column="user", minimum=2),
            "horizontal-by_column-9-minimum2-columnuser",
        ),
        (
            HorizontalPartition(assignment="shards", clients=100, shards_per_client=2, seed=1),
            "horizontal-shards-100-shards2-seed1",
        ),
        (
            VerticalPartition(parties=2, active=1, assignment="correlation", beta=0.5, seed=2),
            "vertical-correlation-q2-m1-beta0.5-seed2-rows-all",
        ),
        (BinaryClasses(positive=(5, 6)), "positive5_6-keep1.0-1.0"),
        (BinaryClasses(positive=(5, 7, 9)), "positive5_7_9-keep1.0-1.0"),
        (
            VerticalPartition(parties=8, active=3, **VERTICAL),
            "vertical-shuffled-q8-m3-seed4-rows-500-standardised-test0.2",
        ),
        (
            VerticalPartition(parties=3, active=1, seed=2),
            "vertical-shuffled-q3-m1-seed2-rows-all",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_names_stay_what_they_were(spec, slug):
    assert spec.slug == slug
