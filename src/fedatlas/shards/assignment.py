"""Which rows and features each client, party and silo of a partition holds."""

from itertools import combinations, islice, product
from typing import NamedTuple

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.schema.partitions import (
    AXES,
    MOST_CLASSES,
    BinaryClasses,
    HorizontalPartition,
    Partition,
    TieredPartition,
    VerticalPartition,
)

# Labels are classes only if each is met this often on average.
FEWEST_SAMPLES_PER_CLASS = 5

#: How often `dirichlet` draws before it gives up on a client with `minimum` samples.
MOST_DRAWS = 1000

# Independent random streams of a partition's seed, so that rows do not depend on the number of
# parties. Assignments to clients draw from the first stream, so their test rows need the fourth.
# Each silo has a stream of its own below the last.
_ROWS, _FEATURES, _THINNING, _ROWS_OF_CLIENTS, _SILOS = 0, 1, 2, 3, 4


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
    order = _generator(spec, stream).permutation(kept)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


def feature_blocks(spec: VerticalPartition, features: int) -> list[np.ndarray]:
    """Ascending column numbers of each party; every column is in one block.

    Blocks do not depend on who holds labels; their order does: active parties come first. The last
    column is that of `intercept`, if there is one: it goes to the first party. Raises FedatlasError
    when there are more parties than other features, or for every choice of label holders at once:
    `VerticalPartition.of_seed` gives one.
    """
    own = features - spec.intercept
    if spec.parties > own:
        raise FedatlasError(
            f"partition: {spec.parties} parties cannot share {own} features: each needs one; "
            "lower parties"
        )
    order = np.arange(own)
    if spec.assignment == "shuffled":
        order = _generator(spec, _FEATURES).permutation(own)
    blocks = _ordered(spec, [np.sort(block) for block in np.array_split(order, spec.parties)])
    blocks[0] = np.concatenate([blocks[0], np.arange(own, features)])
    return blocks


def _ordered(spec: VerticalPartition, blocks: list[np.ndarray]) -> list[np.ndarray]:
    """The blocks, those of active parties first."""
    if spec.label_holders == "first":
        return blocks
    if spec.label_holders == "every_choice":
        raise FedatlasError("partition: label_holders: every_choice is one choice for each trial")
    choices = combinations(range(spec.parties), spec.active)
    active = next(islice(choices, spec.label_holders, None))
    passive = [number for number in range(spec.parties) if number not in active]
    return [blocks[number] for number in (*active, *passive)]


def silo_blocks(spec: TieredPartition, shape: tuple[int, ...]) -> list[tuple[slice, ...]]:
    """Where each silo's block lies in samples of this shape: a slice along every axis.

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
    _require_a_sample_each(max(spec.clients_by_silo), len(train))
    shared = spec.permutation == "shared"
    of_silos = []
    for silo, clients in enumerate(spec.clients_by_silo):
        generator = _generator(spec, _SILOS, 0 if shared else silo)
        of_silos.append(_dealt(train, generator.permutation(len(train)), clients))
    return of_silos, test


def _generator(spec: Partition, *stream: int) -> np.random.Generator:
    # PCG64 by name: numpy may change what `default_rng` stands for.
    return np.random.Generator(np.random.PCG64([spec.seed or 0, *stream]))


class Shares(NamedTuple):
    """Ascending row numbers of each client, and those kept for testing; no row is in two of them.

    filled: how many clients the draw left empty, so that each was given a row.
    """

    clients: list[np.ndarray]
    test: np.ndarray
    filled: int = 0


def share_out(spec: HorizontalPartition, labels: np.ndarray) -> Shares:
    """Share out the rows of a data set.

    `labels` (rows,) are those of the whole data set, in row order. The result depends on nothing
    but the arguments (PCG64 under `spec.seed`), and every client gets at least one sample. Rows
    beyond `samples`, and rows of a class that is made rare, may be left out.

    `dirichlet` follows Yurochkin et al. (2019): for every class, the proportions of its samples
    that go to the clients are drawn from Dirichlet(concentration, …, concentration), so client
    sizes vary. (Hsu et al. 2019 draw the class mix of equally sized clients instead.) A client
    left empty takes the last row of the then largest client. With `minimum`, whole partitions are
    drawn until every client has so many rows, as in the code of Li et al. (2022).

    Raises FedatlasError when there are fewer rows than `samples`, `clients` or `minimum` need, when
    `MOST_DRAWS` do not meet `minimum`, when `by_class` or `dirichlet` meet labels that are not
    classes, or when a class of `binary` has no training row.
    """
    train, test = train_and_test_rows(spec, len(labels))
    if spec.assignment in ("by_class", "dirichlet"):
        _require_classes(spec, labels[train])
    if spec.binary is not None:
        train = _thinned(spec, spec.binary, train, labels)
    _require_a_sample_each(spec.clients, len(train))
    if spec.assignment == "consecutive":
        return Shares(_dealt(train, np.arange(len(train)), spec.clients), test)
    generator = _generator(spec)
    if spec.concentration is not None:
        client, filled = _skewed_by_label(spec, labels[train], spec.concentration, generator)
        ends = np.cumsum(np.bincount(client, minlength=spec.clients))
        return Shares(np.split(train[np.argsort(client, kind="stable")], ends[:-1]), test, filled)
    order = generator.permutation(len(train))
    if spec.assignment == "by_class":
        order = order[np.argsort(labels[train][order], kind="stable")]
    return Shares(_dealt(train, order, spec.clients), test)


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
    generator = _generator(spec, _THINNING)
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


def _dealt(rows: np.ndarray, order: np.ndarray, clients: int) -> list[np.ndarray]:
    """Ascending row numbers of each client: near equal blocks of the rows in this order."""
    return [rows[np.sort(block)] for block in np.array_split(order, clients)]


def _require_a_sample_each(clients: int, samples: int) -> None:
    if clients > samples:
        raise FedatlasError(
            f"partition: clients {clients} exceeds the {samples} samples to share out; lower "
            "clients"
        )


def _skewed_by_label(
    spec: HorizontalPartition,
    labels: np.ndarray,
    concentration: float,
    generator: np.random.Generator,
) -> tuple[np.ndarray, int]:
    """The client of each row, (n,), and how many were filled; labels: (n,)."""
    if spec.minimum is None:
        client = _drawn(spec.clients, labels, concentration, generator)
        return client, _fill(client, spec.clients)
    if spec.fewest_samples > len(labels):
        raise FedatlasError(
            f"partition: {spec.clients} clients with minimum {spec.minimum} need "
            f"{spec.fewest_samples} samples, but there are {len(labels)}; lower minimum or clients"
        )
    best = 0
    for _ in range(MOST_DRAWS):
        client = _drawn(spec.clients, labels, concentration, generator)
        smallest = int(np.bincount(client, minlength=spec.clients).min())
        if smallest >= spec.minimum:
            return client, 0
        best = max(best, smallest)
    raise FedatlasError(
        f"partition: none of {MOST_DRAWS} draws with concentration {concentration:g} gives each of "
        f"{spec.clients} clients minimum {spec.minimum} of {len(labels)} samples; at best the "
        f"smallest client has {best}. Lower minimum or clients, or raise concentration"
    )


def _drawn(
    clients: int, labels: np.ndarray, concentration: float, generator: np.random.Generator
) -> np.ndarray:
    """The client of each row, (n,), by one draw; labels: (n,)."""
    classes, class_of_row = np.unique(labels, return_inverse=True)
    client = np.empty(len(labels), np.int64)
    for number in range(len(classes)):
        of_class = generator.permutation(np.flatnonzero(class_of_row == number))
        proportions = generator.dirichlet(np.full(clients, concentration))
        cuts = np.floor(np.cumsum(proportions)[:-1] * len(of_class)).astype(np.int64)
        sizes = np.diff(cuts, prepend=0, append=len(of_class))
        client[of_class] = np.repeat(np.arange(clients), sizes)
    return client


def _fill(client: np.ndarray, clients: int) -> int:
    """Give every empty client the last row of the then largest, in place; how many there were."""
    sizes = np.bincount(client, minlength=clients)
    empty = np.flatnonzero(sizes == 0)
    for number in empty:
        largest = sizes.argmax()
        client[np.flatnonzero(client == largest)[-1]] = number
        sizes[largest] -= 1
        sizes[number] = 1
    return len(empty)


def _require_classes(spec: HorizontalPartition, labels: np.ndarray) -> None:
    classes, samples = len(np.unique(labels)), len(labels)
    # Two values are classes however few the samples.
    if classes > 2 and (classes > MOST_CLASSES or classes * FEWEST_SAMPLES_PER_CLASS > samples):
        raise FedatlasError(
            f"partition: assignment '{spec.assignment}' goes by class, but the {samples} samples "
            f"have {classes} distinct labels (at most {MOST_CLASSES}, with "
            f"{FEWEST_SAMPLES_PER_CLASS} samples each on average): this looks like regression; use "
            "'consecutive' or 'shuffled'"
        )
