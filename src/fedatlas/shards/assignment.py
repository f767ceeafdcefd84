"""Which rows and features each client, party and silo of a partition holds."""

from itertools import combinations, islice, product

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

# Independent random streams of a partition's seed, so that rows do not depend on the number of
# parties. Assignments to clients draw from the first stream, so their test rows need the fourth.
# Each silo has a stream of its own below the last.
_ROWS, _FEATURES, _THINNING, _ROWS_OF_CLIENTS, _SILOS = 0, 1, 2, 3, 4


def train_and_test_rows(spec: Partition, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Ascending row numbers for training and for testing, out of `rows`; a cover without overlap.

    They depend on `samples`, `test` and `seed` only: partitions among other numbers of parties
    have the same. Raises FedatlasError when one of the two would be empty.
    """
    if spec.samples is not None and spec.samples > rows:
        raise FedatlasError(
            f"partition: samples {spec.samples} exceeds the {rows} rows of the data set; lower "
            "samples or remove it"
        )
    kept = spec.samples or rows
    if not isinstance(spec.test, int | float):
        return np.arange(kept), np.arange(0)
    held_out = spec.test if isinstance(spec.test, int) else round(spec.test * kept)
    if not 0 < held_out < kept:
        raise FedatlasError(
            f"partition: test {spec.test} of {kept} rows leaves no row for "
            f"{'training' if held_out else 'testing'}"
        )
    if isinstance(spec.test, int):
        return np.arange(kept - held_out), np.arange(kept - held_out, kept)
    stream = _ROWS if isinstance(spec, VerticalPartition) else _ROWS_OF_CLIENTS
    order = _generator(spec, stream).permutation(kept)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


def feature_blocks(spec: VerticalPartition, features: int) -> list[np.ndarray]:
    """Ascending column numbers of each party; every column is in one block.

    Blocks do not depend on who holds labels; their order does: active parties come first. Raises
    FedatlasError when there are more parties than features, or for every choice of label holders
    at once: `VerticalPartition.of_trial` gives one.
    """
    if spec.parties > features:
        raise FedatlasError(
            f"partition: {spec.parties} parties cannot share {features} features: each needs one; "
            "lower parties"
        )
    order = np.arange(features)
    if spec.assignment == "shuffled":
        order = _generator(spec, _FEATURES).permutation(features)
    blocks = [np.sort(block) for block in np.array_split(order, spec.parties)]
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


def share_out(spec: HorizontalPartition, labels: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Ascending row numbers of each client, and those kept for testing; no row is in two of them.

    `labels` (rows,) are those of the whole data set, in row order. The result depends on nothing
    but the arguments (PCG64 under `spec.seed`), and every client gets at least one sample. Rows
    beyond `samples`, and rows of a class that is made rare, may be left out.

    `dirichlet` follows Yurochkin et al. (2019): for every class, the proportions of its samples
    that go to the clients are drawn from Dirichlet(concentration, …, concentration), so client
    sizes vary. (Hsu et al. 2019 draw the class mix of equally sized clients instead.) A client
    left empty takes the last row of the then largest client.

    Raises FedatlasError when there are fewer rows than `samples` or `clients`, when `by_class` or
    `dirichlet` meet labels that are not classes, or when a class of `binary` has no training row.
    """
    train, test = train_and_test_rows(spec, len(labels))
    if spec.assignment in ("by_class", "dirichlet"):
        _require_classes(spec, labels[train])
    if spec.binary is not None:
        train = _thinned(spec, spec.binary, train, labels)
    _require_a_sample_each(spec.clients, len(train))
    if spec.assignment == "consecutive":
        return _dealt(train, np.arange(len(train)), spec.clients), test
    generator = _generator(spec)
    if spec.concentration is not None:
        shares = _skewed_by_label(train, labels[train], spec.clients, spec.concentration, generator)
        return shares, test
    order = generator.permutation(len(train))
    if spec.assignment == "by_class":
        order = order[np.argsort(labels[train][order], kind="stable")]
    return _dealt(train, order, spec.clients), test


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
    rows: np.ndarray,
    labels: np.ndarray,
    clients: int,
    concentration: float,
    generator: np.random.Generator,
) -> list[np.ndarray]:
    """Ascending row numbers of each client; labels: (n,) of the rows."""
    classes, class_of_row = np.unique(labels, return_inverse=True)
    client = np.empty(len(labels), np.int64)
    for number in range(len(classes)):
        of_class = generator.permutation(np.flatnonzero(class_of_row == number))
        proportions = generator.dirichlet(np.full(clients, concentration))
        cuts = np.floor(np.cumsum(proportions)[:-1] * len(of_class)).astype(np.int64)
        sizes = np.diff(cuts, prepend=0, append=len(of_class))
        client[of_class] = np.repeat(np.arange(clients), sizes)
    sizes = np.bincount(client, minlength=clients)
    for empty in np.flatnonzero(sizes == 0):
        largest = sizes.argmax()
        client[np.flatnonzero(client == largest)[-1]] = empty
        sizes[largest] -= 1
        sizes[empty] = 1
    return np.split(rows[np.argsort(client, kind="stable")], np.cumsum(sizes)[:-1])


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
