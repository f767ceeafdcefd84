"""Assign rows to training, testing and clients, and blocks to silos.

`fedatlas.shards.skew` has the laws by which rows are shared out, `fedatlas.shards.columns` those by
which parties get columns.
"""

from itertools import product
from typing import NamedTuple

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.schema.partitions import (
    AXES,
    HorizontalPartition,
    Partition,
    TieredPartition,
    VerticalPartition,
)
from fedatlas.schema.rows import BinaryClasses, OfEachClient
from fedatlas.shards.skew import BY_CLASS, Coded, holders_of, require_classes

# Independent random streams of a partition's seed, so that rows do not depend on the number of
# parties. Assignments to clients draw from the first stream, so their test rows need the fourth.
# Each silo has a stream of its own below the last but one; rows that correlations are taken over
# have the last but one, rows for validation the last.
_ROWS, FEATURES, _THINNING, _ROWS_OF_CLIENTS, _SILOS, CORRELATED_ROWS, _VALIDATION = range(7)


def train_and_test_sizes(spec: Partition, rows: int) -> tuple[int, int]:
    """How many of `rows` train and test; FedatlasError when one of the two would be empty."""
    if spec.samples is not None and spec.samples > rows:
        raise FedatlasError(
            f"partition: samples {spec.samples} exceeds the {rows} rows of the data set; lower "
            "samples or remove it"
        )
    kept = spec.samples or rows
    if not isinstance(spec.test, int | float):
        return kept, 0
    held_out = spec.test if isinstance(spec.test, int) else round(spec.test * kept)
    if not 0 < held_out < kept:
        raise FedatlasError(
            f"partition: test {spec.test} of {kept} rows leaves no row for "
            f"{'training' if held_out else 'testing'}"
        )
    return kept - held_out, held_out


def train_and_test_rows(spec: Partition, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Ascending row numbers for training and for testing, out of `rows`; a cover without overlap.

    They depend on `samples`, `test` and `seed` only: partitions among other numbers of parties
    have the same. Raises FedatlasError when one of the two would be empty.
    """
    train, held_out = train_and_test_sizes(spec, rows)
    kept = train + held_out
    if not isinstance(spec.test, float):
        return np.arange(train), np.arange(train, kept)
    stream = _ROWS if isinstance(spec, VerticalPartition) else _ROWS_OF_CLIENTS
    order = generator_of(spec, stream).permutation(kept)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


def silo_blocks(spec: TieredPartition, shape: tuple[int, ...]) -> list[tuple[slice, ...]]:
    """The block of each silo in samples of this shape: a slice along every axis.

    The blocks cover a sample without overlap. Raises FedatlasError when samples lack an axis of the
    cut, or when it has fewer places than blocks.
    """
    axes = AXES.get(len(shape), ())
    for axis, blocks in spec.cut.items():
        if axis not in axes:
            raise FedatlasError(
                f"partition: cut names the axis '{axis}', but samples of shape {shape} have "
                f"{', '.join(axes) or 'no axis that can be cut'}"
            )
        length = shape[axes.index(axis)]
        if blocks > length:
            raise FedatlasError(
                f"partition: cut.{axis} asks for {blocks} blocks, but samples of shape {shape} "
                f"have {length} along '{axis}', and each silo needs one; lower it"
            )
    lengths = zip(axes, shape, strict=True)
    return list(product(*(_blocks(length, spec.cut.get(axis, 1)) for axis, length in lengths)))


def _blocks(length: int, blocks: int) -> list[slice]:
    """Contiguous near equal blocks of an axis."""
    parts = np.array_split(np.arange(length), blocks)
    return [slice(int(part[0]), int(part[-1]) + 1) for part in parts]


def share_out_by_silo(
    spec: TieredPartition, labels: np.ndarray
) -> tuple[list[list[np.ndarray]], np.ndarray]:
    """Ascending row numbers by silo and client, and the rows kept for testing.

    `labels` (rows,) are those of the whole data set, in row order. Each silo has every training row
    at one client; rows of a class that is made rare may be left out. A silo's permutation depends
    on `seed`, the number of training rows and, unless it is shared, the silo's number only: not on
    the other silos, nor on the number of clients. The shared one is that of silo 0.

    Raises FedatlasError when there are fewer rows than `samples` or `clients`, or when a class of
    `binary` has no training row.
    """
    train, test = train_and_test_rows(spec, len(labels))
    if spec.binary is not None:
        train = _thinned(spec, spec.binary, train, labels)
    if (clients := max(spec.clients_by_silo)) > len(train):
        raise FedatlasError(
            f"partition: clients {clients} exceeds the {len(train)} samples to share out; lower "
            "clients"
        )
    shared = spec.permutation == "shared"
    of_silos = []
    for silo, clients in enumerate(spec.clients_by_silo):
        generator = generator_of(spec, _SILOS, 0 if shared else silo)
        order = generator.permutation(len(train))
        of_silos.append([train[np.sort(block)] for block in np.array_split(order, clients)])
    return of_silos, test


def generator_of(spec: Partition, *stream: int) -> np.random.Generator:
    """The random stream of a partition's seed with this number."""
    # PCG64 by name: numpy may change what `default_rng` stands for.
    return np.random.Generator(np.random.PCG64([spec.seed or 0, *stream]))


class Shares(NamedTuple):
    """Ascending row numbers of each client, and those kept for testing; no row is in two of them.

    filled: how many clients the draw left empty, so that each was given a row.
    validation: those kept for validation: of each client, or of all together; none by default.
    values: of `by_column`, the column's value of each client.
    """

    clients: list[np.ndarray]
    test: np.ndarray
    filled: int = 0
    values: tuple[str | int, ...] = ()
    validation: tuple[np.ndarray, ...] = ()


def share_out(spec: HorizontalPartition, labels: np.ndarray, column: Coded | None = None) -> Shares:
    """Share out the rows of a data set.

    labels: (rows,) of the whole data set, in row order; column: the one that `by_column` names.
    The result depends on nothing but the arguments (PCG64 under `spec.seed`), and every client gets
    at least one sample. Rows beyond `samples`, of a class that is made rare, or of a value of the
    column that is rarer than `minimum`, may be left out.

    Raises FedatlasError when there are fewer rows than `samples` needs, when a class of `binary`
    has no training row, when labels are not the classes that an assignment goes by, and when rows
    do not suit the assignment otherwise: see `fedatlas.shards.skew.holders_of`.
    """
    train, test = train_and_test_rows(spec, len(labels))
    validation: list[np.ndarray] = []
    if isinstance(spec.validation, float):
        train, kept = _kept_apart(spec, train, spec.validation, generator_of(spec, _VALIDATION))
        validation = [kept]
    if spec.assignment in BY_CLASS:
        require_classes(spec, labels[train])
    if spec.binary is not None:
        train = _thinned(spec, spec.binary, train, labels)
    own = None if column is None else column._replace(codes=column.codes[train])
    held = holders_of(spec, labels[train], own, generator_of(spec))
    # Those of nobody come first.
    ends = np.cumsum(np.bincount(held.client + 1, minlength=spec.clients + 1))
    clients = np.split(train[np.argsort(held.client, kind="stable")], ends[:-1])[1:]
    if isinstance(spec.validation, OfEachClient):
        share, generator = spec.validation.by_client, generator_of(spec, _VALIDATION)
        parts = [_kept_apart(spec, rows, share, generator) for rows in clients]
        clients, validation = [own for own, _ in parts], [kept for _, kept in parts]
    if validation and not any(map(len, validation)):
        raise FedatlasError(
            f"partition: validation {spec.validation} keeps no row: raise it, or lower 'clients'"
        )
    return Shares(clients, test, held.filled, held.values, tuple(validation))


def _kept_apart(
    spec: HorizontalPartition, rows: np.ndarray, share: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Ascending rows that stay, one at least, and a share of them that is kept for validation."""
    order = generator.permutation(len(rows))
    kept = min(round(share * len(rows)), max(len(rows) - 1, 0))
    return rows[np.sort(order[kept:])], rows[np.sort(order[:kept])]


def _thinned(
    spec: HorizontalPartition | TieredPartition,
    binary: BinaryClasses,
    rows: np.ndarray,
    labels: np.ndarray,
) -> np.ndarray:
    """The rows that are kept, ascending: the declared share of either class."""
    unknown = sorted(set(binary.positive) - set(labels.tolist()))
    if unknown:
        raise FedatlasError(
            f"partition: binary.positive names the label {unknown[0]:g}, which no row has; labels "
            f"are {', '.join(f'{label:g}' for label in np.unique(labels)[:20])}"
        )
    generator = generator_of(spec, _THINNING)
    sign = binary.labels(labels[rows])
    kept = []
    for value, share in ((-1.0, binary.keep_negative), (1.0, binary.keep_positive)):
        of_class = rows[sign == value]
        size = round(share * len(of_class))
        if size == 0:
            name = "positive" if value > 0 else "negative"
            raise FedatlasError(
                f"partition: no {name} row is left to train on: {len(of_class)} rows, of which "
                f"binary.keep_{name} keeps {share:g}; both classes are needed"
            )
        kept.append(generator.choice(of_class, size, replace=False))
    return np.sort(np.concatenate(kept))
