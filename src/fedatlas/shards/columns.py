"""Assign columns to the parties of a vertical partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, islice
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from fedatlas.errors import FedatlasError, similar
from fedatlas.schema.partitions import Columns, VerticalPartition
from fedatlas.shards.assignment import CORRELATED_ROWS, FEATURES, generator_of

if TYPE_CHECKING:
    from scipy import sparse

    Features: TypeAlias = np.ndarray | sparse.csr_array

#: Rows that correlations are taken over, drawn if there are more: they then err by 1/128.
MOST_ROWS = 1 << 14
#: Columns whose correlations are searched: each step takes singular values of blocks of them.
MOST_COLUMNS = 1000
# Swaps that each search tries, and how near to the wanted Icor it may stop.
_TRIES, _TOLERANCE = 4000, 1e-4


def feature_blocks(
    spec: VerticalPartition,
    features: int,
    names: Sequence[str] | None = None,
    rows: Features | None = None,
) -> list[np.ndarray]:
    """Ascending column numbers of each party; every column is in one block.

    names: of the columns, where they have any. rows: (n, features), for training; `correlation`
    looks at them. Blocks do not depend on who holds labels; their order does: active parties come
    first. The last column is that of `intercept`, if there is one: it goes to the first party.
    Raises FedatlasError when there are more parties than other features, when `columns` are not all
    columns, or for every choice of label holders at once: `VerticalPartition.of_seed` gives one.
    """
    own = features - spec.intercept
    if spec.parties > own:
        raise FedatlasError(
            f"partition: {spec.parties} parties cannot share {own} features: each needs one; "
            "lower parties"
        )
    if spec.columns is not None:
        dealt = listed_blocks(spec.columns, own, names and names[:own])
    elif spec.concentration is not None:
        dealt = _by_importance(spec, own, spec.concentration)
    elif spec.beta is not None:
        assert rows is not None
        dealt = _by_correlation(spec, spec.beta, rows[:, :own])
    else:
        order = np.arange(own)
        if spec.assignment == "shuffled":
            order = generator_of(spec, FEATURES).permutation(own)
        dealt = np.array_split(order, spec.parties)
    blocks = _ordered(spec, [np.sort(block) for block in dealt])
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


def listed_blocks(
    columns: Sequence[Columns], features: int, names: Sequence[str] | None
) -> list[np.ndarray]:
    """The columns that are listed for each party, by number or name.

    A column of a CSV file is named with all of its indicators. Raises FedatlasError for a column
    that is unknown, listed twice, or not listed.
    """
    places: dict[str, list[int]] = {}
    for number, name in enumerate(names or ()):
        places[name] = [number]
        if "=" in name:
            places.setdefault(name.partition("=")[0], []).append(number)
    holder = np.full(features, -1)
    for party, own in enumerate(columns):
        for column in own:
            if isinstance(column, str) and column not in places:
                there = similar(column, places) if places else "; its columns have no names"
                raise FedatlasError(
                    f"partition: columns names '{column}', which the data set lacks{there}"
                )
            if isinstance(column, int) and column >= features:
                raise FedatlasError(
                    f"partition: columns names {column}, but columns are numbered from 0 to "
                    f"{features - 1}"
                )
            found = places[column] if isinstance(column, str) else [column]
            if (holder[found] >= 0).any():
                raise FedatlasError(f"partition: columns lists {column!r} twice; leave one out")
            holder[found] = party
    if len(missing := np.flatnonzero(holder < 0)):
        first = [names[number] if names else str(number) for number in missing[:5]]
        raise FedatlasError(
            f"partition: columns leaves {len(missing)} of {features} columns to no party: "
            f"{', '.join(first)}{', …' if len(missing) > 5 else ''}; list them"
        )
    return [np.flatnonzero(holder == party) for party in range(len(columns))]


def _by_importance(
    spec: VerticalPartition, features: int, concentration: float
) -> list[np.ndarray]:
    """Each party has one feature at random, and each other goes to party k with chance r_k.

    r ~ Dir(α 1_q), so that the sums of the parties' importance are in the ratio of r in expectation
    (Wu et al. 2024, VertiBench, proposition 1), whatever features are worth.
    """
    generator = generator_of(spec, FEATURES)
    chances = generator.dirichlet(np.full(spec.parties, concentration))
    party = generator.choice(spec.parties, features, p=chances)
    first = generator.choice(features, spec.parties, replace=False)
    party[first] = np.arange(spec.parties)
    return [np.flatnonzero(party == number) for number in range(spec.parties)]


# ------------------------------------------------------------------------------------ correlation


def _by_correlation(spec: VerticalPartition, beta: float, rows: Features) -> list[np.ndarray]:
    """Near equal blocks whose Icor is (1 − β) of the least and β of the largest that are found.

    Wu et al. 2024, VertiBench, section 4.2, who search by a genetic algorithm; here columns of two
    parties are swapped as long as that helps.
    """
    if (columns := rows.shape[1]) > MOST_COLUMNS:
        raise FedatlasError(
            f"partition: assignment 'correlation' searches among all blocks of at most "
            f"{MOST_COLUMNS} columns, but there are {columns}; use 'shuffled' or 'listed'"
        )
    if spec.parties < 2:
        return [np.arange(columns)]
    n = rows.shape[0]
    if n > MOST_ROWS:
        chosen = generator_of(spec, CORRELATED_ROWS).choice(n, MOST_ROWS, replace=False)
        rows = rows[np.sort(chosen)]
    correlation = rank_correlation(rows if isinstance(rows, np.ndarray) else rows.toarray())
    generator = generator_of(spec, FEATURES)
    least = _searched(correlation, spec.parties, generator, lambda icor: icor)
    if beta == 0:
        return least
    most = _searched(correlation, spec.parties, generator, lambda icor: -icor)
    if beta == 1:
        return most
    ends = [inter_party_correlation(correlation, blocks) for blocks in (least, most)]
    target = (1 - beta) * ends[0] + beta * ends[1]
    return _searched(
        correlation, spec.parties, generator, lambda icor: max(abs(icor - target), _TOLERANCE)
    )


def rank_correlation(rows: np.ndarray) -> np.ndarray:
    """Spearman's coefficients (d, d) of the columns of rows (n, d); 0 of constant columns."""
    from scipy.stats import rankdata  # loads for half a second

    ranks = rankdata(rows, axis=0)
    ranks -= ranks.mean(axis=0)
    norms = np.sqrt((ranks**2).sum(axis=0))
    ranks /= np.where(norms > 0, norms, 1)
    correlation: np.ndarray = ranks.T @ ranks
    return correlation


def inter_party_correlation(correlation: np.ndarray, blocks: Sequence[np.ndarray]) -> float:
    """Icor of VertiBench: how much more parties correlate with others than within themselves.

    correlation: (d, d). The mean over pairs i ≠ j of Pcor(i, j) − Pcor(i, i), where Pcor is the
    deviation of the singular values of the correlations between two parties' columns, over the root
    of their number.
    """
    return _icor(_Pcor(correlation, blocks).of_all)


class _Pcor:
    """Pcor of the parties' pairs; columns are places of a table (q, most), whose ends may be empty.

    Empty places correlate with nothing: they add singular values 0, which are left out again.
    """

    def __init__(self, correlation: np.ndarray, blocks: Sequence[np.ndarray]) -> None:
        columns = len(correlation)
        self._correlation = np.pad(correlation, (0, 1))
        self.sizes = np.array([len(block) for block in blocks])
        self.table = np.full((len(blocks), self.sizes.max()), columns)
        for party, block in enumerate(blocks):
            self.table[party, : len(block)] = block
        self.of_all = self.of(range(len(blocks)))

    def of(self, parties: Sequence[int] | np.ndarray) -> np.ndarray:
        """(parties, q) of these with all, as the table stands."""
        own = self.table[list(parties)]
        between = self._correlation[own[:, None, :, None], self.table[None, :, None, :]]
        values = np.linalg.svd(between, compute_uv=False)
        number = np.minimum(self.sizes[list(parties), None], self.sizes)[..., None]
        apart = values - values.sum(axis=-1, keepdims=True) / number
        apart[np.arange(values.shape[-1]) >= number] = 0
        number = number[..., 0]
        pcor: np.ndarray = np.sqrt((apart**2).sum(axis=-1) / np.maximum(number - 1, 1) / number)
        return np.where(number > 1, pcor, 0)


def _icor(pcor: np.ndarray) -> float:
    """From Pcor of all pairs (q, q)."""
    within, parties = np.trace(pcor), len(pcor)
    return float((pcor.sum() - within) / (parties * (parties - 1)) - within / parties)


def _searched(
    correlation: np.ndarray,
    parties: int,
    generator: np.random.Generator,
    cost: Callable[[float], float],
) -> list[np.ndarray]:
    """Blocks of near equal sizes that cost least of all that were met.

    Two parties' columns are swapped as long as that helps; where as many swaps as there are pairs
    have not, all begins anew from other blocks.
    """
    columns = len(correlation)
    best, stale = np.inf, columns**2
    for _ in range(min(_TRIES, 10 * columns**2)):
        if stale >= columns**2 / 2:
            state = _Pcor(correlation, np.array_split(generator.permutation(columns), parties))
            here, stale = cost(_icor(state.of_all)), 0
        pair = generator.choice(parties, 2, replace=False)
        places = pair, generator.integers(state.sizes[pair])
        state.table[places] = state.table[places][::-1]
        changed = state.of_all.copy()
        changed[pair] = state.of(pair)
        changed[:, pair] = changed[pair].T
        stale += 1
        if (now := cost(_icor(changed))) < here:
            state.of_all, here, stale = changed, now, 0
        else:
            state.table[places] = state.table[places][::-1]
        if here < best:
            best, found = here, state.table.copy()
        if best == _TOLERANCE:
            break
    return [block[:size] for block, size in zip(found, state.sizes, strict=True)]
