"""Laws that distribute training rows among clients, one function each.

Each takes the partition, the rows' labels (n,) and a random stream, and gives the client of every
row (n,). `docs/partitions.md` has a table of them.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.schema.partitions import MOST_CLASSES, HorizontalPartition

# Labels are classes only if each is met this often on average.
FEWEST_SAMPLES_PER_CLASS = 5

#: How often Dirichlet distributions are drawn from before `minimum` is given up.
MOST_DRAWS = 1000

#: Assignments that go by class.
BY_CLASS = ("by_class", "shards", "pathological", "dirichlet", "inner_dirichlet")


class Coded(NamedTuple):
    """A column of the data set. codes: (rows,) the number of each row's value; values: distinct."""

    codes: np.ndarray
    values: tuple[str | int, ...]


class Holders(NamedTuple):
    """Who holds what. client: (n,) of each row, −1 of rows that nobody holds.

    filled: how many clients the draw left empty, so that each was given a row.
    values: of `by_column`, the column's value of each client.
    """

    client: np.ndarray
    filled: int = 0
    values: tuple[str | int, ...] = ()


_Law = Callable[[HorizontalPartition, np.ndarray, np.random.Generator], np.ndarray]


def holders_of(
    spec: HorizontalPartition,
    labels: np.ndarray,
    column: Coded | None,
    generator: np.random.Generator,
) -> Holders:
    """Who holds each of the training rows; labels: (n,), column: of these rows.

    Raises FedatlasError when there are fewer rows than `clients` or `minimum` need, when
    `MOST_DRAWS` do not meet `minimum`, when a class has fewer rows than clients that are to have
    it, or when the column has another number of values than `clients`.
    """
    rows, needed = len(labels), spec.fewest_samples
    if spec.clients > rows:
        raise FedatlasError(
            f"partition: clients {spec.clients} exceeds the {rows} samples to share out; lower "
            "clients"
        )
    if needed > rows:
        key = next(key for key in _AT_LEAST if getattr(spec, key) is not None)
        raise FedatlasError(
            f"partition: {spec.clients} clients with {key} {getattr(spec, key)} need {needed} "
            f"samples, but there are {rows}; lower {key} or clients"
        )
    if spec.assignment == "by_column":
        assert column is not None
        return _by_column(spec, column)
    if spec.assignment in REDRAWN:
        return _redrawn(spec, labels, generator, REDRAWN[spec.assignment])
    return Holders(_LAWS[spec.assignment](spec, labels, generator))


_AT_LEAST = ("minimum", "shards_per_client", "classes_per_client")


def require_classes(spec: HorizontalPartition, labels: np.ndarray) -> None:
    """Raise FedatlasError where labels (n,) look like those of a regression."""
    classes, samples = len(np.unique(labels)), len(labels)
    # Two values are classes however few the samples.
    if classes > 2 and (classes > MOST_CLASSES or classes * FEWEST_SAMPLES_PER_CLASS > samples):
        raise FedatlasError(
            f"partition: assignment '{spec.assignment}' goes by class, but the {samples} samples "
            f"have {classes} distinct labels (at most {MOST_CLASSES}, with "
            f"{FEWEST_SAMPLES_PER_CLASS} samples each on average): this looks like regression; use "
            "'consecutive' or 'shuffled'"
        )


# ------------------------------------------------------------------------------- natural clients


def _by_column(spec: HorizontalPartition, column: Coded) -> Holders:
    """A client for each value, in ascending order, as LEAF's users (Caldas et al. 2018).

    With `minimum`, values with fewer rows are left out, as LEAF's option -k does.
    """
    counts = np.bincount(column.codes, minlength=len(column.values))
    enough = np.flatnonzero(counts >= (spec.minimum or 1)).tolist()
    kept = sorted(enough, key=lambda code: column.values[code])
    if len(kept) != spec.clients:
        least = f" with at least {spec.minimum} of them" if spec.minimum else ""
        raise FedatlasError(
            f"partition: column '{spec.column}' has {len(kept)} values among the "
            f"{len(column.codes)} training rows{least}, but clients is {spec.clients}: a client "
            f"holds the rows of one value; state clients: {len(kept)}"
        )
    client_of_code = np.full(len(column.values), -1)
    client_of_code[kept] = np.arange(len(kept))
    values = tuple(column.values[code] for code in kept)
    return Holders(client_of_code[column.codes], values=values)


# --------------------------------------------------------------------------- clients of equal size


def _dealt(order: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The client of each row: blocks of these sizes, (clients,), of the rows in this order."""
    client = np.empty(len(order), np.int64)
    client[order] = np.repeat(np.arange(len(sizes)), sizes)
    return client


def _even(rows: int, clients: int) -> np.ndarray:
    """(clients,) sizes that differ by at most one, the first being the larger."""
    return np.full(clients, rows // clients) + (np.arange(clients) < rows % clients)


def _consecutive(
    spec: HorizontalPartition, labels: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    return _dealt(np.arange(len(labels)), _even(len(labels), spec.clients))


def _shuffled(
    spec: HorizontalPartition, labels: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    return _dealt(generator.permutation(len(labels)), _even(len(labels), spec.clients))


def _sorted_by_class(labels: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Row numbers in ascending order of their labels, within a class in random order."""
    order = generator.permutation(len(labels))
    return order[np.argsort(labels[order], kind="stable")]


def _by_class(
    spec: HorizontalPartition, labels: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    return _dealt(_sorted_by_class(labels, generator), _even(len(labels), spec.clients))


def _shards(
    spec: HorizontalPartition, labels: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Sorted rows cut into shards, of which each client gets S at random (McMahan et al. 2017).

    N clients, S = shards_per_client: N·S shards whose sizes differ by at most one.
    """
    blocks = _even(len(labels), spec.blocks)
    shard = _dealt(_sorted_by_class(labels, generator), blocks)
    owner = np.empty(spec.blocks, np.int64)
    owner[generator.permutation(spec.blocks)] = np.arange(spec.blocks) % spec.clients
    client: np.ndarray = owner[shard]
    return client


def _inner_dirichlet(
    spec: HorizontalPartition, labels: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Every client draws its mix of the C classes, q ~ Dir(α 1_C); sizes are equal.

    Hsu et al. 2019 draw q ~ Dir(α p) with the classes' shares p: C times this α where classes are
    equally frequent. Acar et al. 2021, FedLab and Flower draw as here: again and again a client
    that is not full, uniformly, and a class by its mix among those that are not used up.
    """
    classes, class_of_row = np.unique(labels, return_inverse=True)
    number, rows = len(classes), len(labels)
    mixes = generator.dirichlet(np.full(number, spec.concentration), spec.clients)
    mixes = np.maximum(mixes, np.finfo(float).tiny)  # whatever is left, it can be drawn
    turns = _turns(_even(rows, spec.clients), generator)
    class_of_turn = np.empty(rows, np.int64)
    left, begin = np.bincount(class_of_row, minlength=number), 0
    while begin < rows:  # once more than classes are used up, at most
        mixes[:, left == 0] = 0
        bounds = np.cumsum(mixes / mixes.sum(axis=1, keepdims=True), axis=1)
        bounds[:, -1] = 1
        # One search for all: the bounds of client i lie between i and i + 1.
        flat = (bounds + np.arange(spec.clients)[:, None]).ravel()
        client = turns[begin:]
        found = np.searchsorted(flat, client + generator.random(len(client)), side="right")
        drawn = np.clip(found - client * number, 0, np.flatnonzero(left)[-1])
        beyond = np.flatnonzero(_rank(drawn) >= left[drawn])
        sound = drawn[: beyond[0]] if len(beyond) else drawn
        class_of_turn[begin : begin + len(sound)] = sound
        left -= np.bincount(sound, minlength=number)
        begin += len(sound)
    client_of_row = np.empty(rows, np.int64)
    for one in range(number):
        in_class = generator.permutation(np.flatnonzero(class_of_row == one))
        client_of_row[in_class] = turns[class_of_turn == one]
    return client_of_row


def _turns(sizes: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """The clients in an order in which each next one is uniform among those that are not full."""
    turns, left = [], sizes.copy()
    while left.any():
        there = np.flatnonzero(left)
        drawn = there[generator.integers(len(there), size=int(left.sum()))]
        turns.append(drawn[_rank(drawn) < left[drawn]])
        left -= np.bincount(turns[-1], minlength=len(sizes))
    return np.concatenate(turns)


def _rank(values: np.ndarray) -> np.ndarray:
    """(n,) how many equal values stand before each."""
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(values), np.int64)
    in_order = values[order]
    ranks[order] = np.arange(len(values)) - np.searchsorted(in_order, in_order)
    return ranks


# ------------------------------------------------------------------------- clients of unequal size


def _pathological(
    spec: HorizontalPartition, labels: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Each client has k of the C classes, and equally many rows of a class as others that have it.

    "#C = k" of Li et al. (2022): the first class of client i is i mod C, the others are drawn from
    the rest without replacement. With fewer than C clients first choices go on, so that no class
    is left out: the j-th class of client i is (i + jN) mod C as long as classes are new.
    """
    classes, class_of_row = np.unique(labels, return_inverse=True)
    number, each, clients = len(classes), spec.classes_per_client or 1, spec.clients
    if each > number or clients * each < number:
        why = f"are only {number}" if each > number else f"are {number}, some of them nobody's"
        remedy = "lower it" if each > number else "raise it or clients"
        raise FedatlasError(
            f"partition: classes_per_client {each} of {clients} clients: the training rows' "
            f"classes {why}; {remedy}"
        )
    rounds = -(-number // clients)  # of first choices
    has = np.zeros((clients, number), bool)
    for client in range(clients):
        first = (client + np.arange(min(rounds, each)) * clients) % number
        has[client, first] = True
        others = np.flatnonzero(~has[client])
        has[client, generator.choice(others, each - len(first), replace=False)] = True
    client_of_row = np.empty(len(labels), np.int64)
    for one in range(number):
        in_class = generator.permutation(np.flatnonzero(class_of_row == one))
        having = np.flatnonzero(has[:, one])
        if len(having) > len(in_class):
            raise FedatlasError(
                f"partition: classes_per_client {each}: {len(having)} clients are to have class "
                f"{classes[one]:g}, which has {len(in_class)} training rows; lower it or clients"
            )
        client_of_row[in_class] = np.repeat(having, _even(len(in_class), len(having)))
    return client_of_row


def _power_law_sizes(
    spec: HorizontalPartition, labels: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """`minimum` rows for each client, and of the rest a share in proportion to k^−a of the k-th.

    The rows that Li et al. (FedProx, 2020) share out so, after ten for each, are drawn from a
    log-normal distribution; here sizes are exact, and rows shuffled.
    """
    each = spec.minimum or 1
    share = np.arange(1, spec.clients + 1) ** -float(spec.exponent or 0)
    sizes = each + _sizes(share / share.sum(), len(labels) - each * spec.clients)
    return _dealt(generator.permutation(len(labels)), sizes)


def _sizes(proportions: np.ndarray, rows: int) -> np.ndarray:
    """(clients,) whole numbers that sum to `rows`, by where cumulative proportions end."""
    cuts = np.floor(np.cumsum(proportions)[:-1] * rows).astype(np.int64)
    return np.diff(cuts, prepend=0, append=rows)


def _dirichlet(
    spec: HorizontalPartition, labels: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """For every class, the clients' shares of its rows are one draw of Dir(α 1_N).

    Yurochkin et al. 2019, Li et al. 2022, without the rule in their code that a client with the
    mean size gets no more.
    """
    classes, class_of_row = np.unique(labels, return_inverse=True)
    client = np.empty(len(labels), np.int64)
    for number in range(len(classes)):
        of_class = generator.permutation(np.flatnonzero(class_of_row == number))
        proportions = generator.dirichlet(np.full(spec.clients, spec.concentration))
        client[of_class] = np.repeat(np.arange(spec.clients), _sizes(proportions, len(of_class)))
    return client


def _dirichlet_sizes(
    spec: HorizontalPartition, labels: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Shuffled rows; the clients' shares of all are one draw of Dir(α 1_N) (Li et al. 2022)."""
    order = generator.permutation(len(labels))
    proportions = generator.dirichlet(np.full(spec.clients, spec.concentration))
    return _dealt(order, _sizes(proportions, len(labels)))


def _redrawn(
    spec: HorizontalPartition, labels: np.ndarray, generator: np.random.Generator, law: _Law
) -> Holders:
    """Draw until every client has `minimum` rows, as the code of Li et al. (2022) and Flower do.

    Without it, a client left empty takes the last row of the then largest client.
    """
    if spec.minimum is None:
        client = law(spec, labels, generator)
        return Holders(client, _fill(client, spec.clients))
    best = 0
    for _ in range(MOST_DRAWS):
        client = law(spec, labels, generator)
        smallest = int(np.bincount(client, minlength=spec.clients).min())
        if smallest >= spec.minimum:
            return Holders(client)
        best = max(best, smallest)
    raise FedatlasError(
        f"partition: none of {MOST_DRAWS} draws with concentration {spec.concentration:g} gives "
        f"each of {spec.clients} clients minimum {spec.minimum} of {len(labels)} samples; at best "
        f"the smallest client has {best}. Lower minimum or clients, or raise concentration"
    )


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


_LAWS: dict[str, _Law] = {
    "consecutive": _consecutive,
    "shuffled": _shuffled,
    "by_class": _by_class,
    "shards": _shards,
    "pathological": _pathological,
    "inner_dirichlet": _inner_dirichlet,
    "power_law_sizes": _power_law_sizes,
}
#: Those whose draws may leave clients empty.
REDRAWN: dict[str, _Law] = {"dirichlet": _dirichlet, "dirichlet_sizes": _dirichlet_sizes}
