"""Cut a prepared table into silos, for each kind of partition.

Clients: the samples of each in one row group of the one silo's file, then the server's test rows;
row groups hold many clients where there are more than `MOST_ROW_GROUPS`.
Silos: such a file for each, with a slice of every sample; its metadata speak of these columns
alone: `features` and `shape` (of one sample of its slice, views merged into channels),
`normalisation` of its own channels, and `columns`, those of the prepared file, in their order.
Parties: each file holds the party's columns of all samples, and the labels only if it is active;
row group 0 are the training rows, row group 1, if there is one, the test rows.
"""

import logging
from collections.abc import Iterator, Sequence
from itertools import chain, groupby, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.scaling import (
    ChannelScaling,
    check_range,
    constant_columns,
    scaled,
    scaling_of,
    warn_of_constant,
)
from fedatlas.data.tables import (
    KEPT,
    column_taker,
    feature_columns,
    features_from_table,
    from_table,
    to_array,
    to_column,
    to_table,
    without_kept,
)
from fedatlas.errors import FedatlasError, similar
from fedatlas.schema.partitions import (
    AXES,
    HorizontalPartition,
    TieredPartition,
    VerticalPartition,
)
from fedatlas.schema.rows import BinaryClasses
from fedatlas.shards.assignment import (
    share_out,
    share_out_by_silo,
    silo_blocks,
    train_and_test_rows,
)
from fedatlas.shards.columns import feature_blocks
from fedatlas.shards.skew import REDRAWN, Coded
from fedatlas.shards.writing import Silo

log = logging.getLogger(__name__)

# Of the prepared file's metadata; what it says of all columns and labels, a silo does not know.
_OF_PARTIES = ("dataset", "split", "task", "layout")
_OF_SILOS = (*_OF_PARTIES, "classes", "labels", "raw")
# Taking so many rows at once is five times faster than client by client, at ten rows a client.
_ROWS_AT_ONCE = 1024
#: A row group of two rows takes 0.4 kB in a file, and 8 kB of memory to write and read.
MOST_ROW_GROUPS = 10_000
_ROWS_OF_GROUP = 1 << 14  # of many clients


def cut_clients(
    spec: HorizontalPartition, table: pa.Table, test: pa.Table | None, metadata: dict[str, Any]
) -> list[Silo]:
    """The silo of a horizontal partition; see `fedatlas.shards.writing`."""
    column = None if spec.column is None else _coded(table, spec.column, metadata)
    shares = share_out(spec, to_array(table["label"]), column)
    if shares.filled:
        log.warning(
            "%d of %d clients were empty by the draw and were given one row each of the largest; "
            "'minimum' of the partition draws until every client has so many rows",
            *(shares.filled, spec.clients),
        )
    table, test = without_kept(table), test and without_kept(test)
    table, test = labelled(table, test, shares.test, spec.binary)
    silo = silo_of(table, test, shares.clients, metadata, shares.validation)
    drawn = {"filled_clients": shares.filled} if spec.assignment in REDRAWN else {}
    for client, value in zip(silo.entry["clients"], shares.values, strict=False):
        client[spec.column] = value
    return [silo._replace(entry=silo.entry | drawn)]


def _coded(table: pa.Table, column: str, metadata: dict[str, Any]) -> Coded:
    """A column that the data set keeps; FedatlasError where it does not."""
    kept = metadata.get("kept", [])
    if column not in kept:
        there = f"it keeps {', '.join(kept)}" if kept else "it keeps none"
        raise FedatlasError(
            f"partition: column '{column}' is none that data set {metadata['dataset']} keeps; "
            f"{there}{similar(column, kept)}"
        )
    coded = table[KEPT + column].combine_chunks().dictionary_encode()
    return Coded(to_array(coded.indices), tuple(coded.dictionary.to_pylist()))


def labelled(
    table: pa.Table,
    test: pa.Table | None,
    test_rows: np.ndarray,
    binary: BinaryClasses | None,
) -> tuple[pa.Table, pa.Table | None]:
    """The rows and those for testing, with labels ±1 if `binary` says so.

    test_rows: (n,) of the table; without any, the test rows are those of `test`.
    """
    if len(test_rows):
        test = table.take(to_column(test_rows))
    if binary is None:
        return table, test
    return _relabelled(table, binary), test and _relabelled(test, binary)


def _relabelled(table: pa.Table, binary: BinaryClasses) -> pa.Table:
    place = table.column_names.index("label")
    return table.set_column(place, "label", to_column(binary.labels(to_array(table["label"]))))


def silo_of(
    table: pa.Table,
    test: pa.Table | None,
    rows_of_client: Sequence[np.ndarray],
    metadata: dict[str, Any],
    validation: Sequence[np.ndarray] = (),
) -> Silo:
    """A silo with a row group for every client, then the test rows, then those for validation.

    metadata: its own. validation: rows of the table, by client or of all.
    """
    sizes = [len(rows) for rows in rows_of_client]
    held = np.concatenate(rows_of_client)
    label = to_array(table["label"])[held]
    signs = np.isin(label, (-1.0, 1.0)).all()
    test_samples = test.num_rows if test else 0
    described = {
        "rows": len(held) + test_samples,
        "client_samples": sizes,
        "test_samples": test_samples,
        "positive_rate": float((label > 0).mean()) if signs else None,
    }
    own = len(sizes) <= MOST_ROW_GROUPS
    bounds = _bounds(sizes, _ROWS_AT_ONCE if own else _ROWS_OF_GROUP)
    group = np.arange(len(sizes)) if own else np.repeat(range(len(bounds) - 1), np.diff(bounds))
    clients = [
        {"row_group": number, "samples": size}
        for number, size in zip(group.tolist(), sizes, strict=True)
    ]
    taken = _taken(table, rows_of_client, bounds, own)
    groups = chain(taken, [(test, test_samples)] if test else [])
    entry: dict[str, Any] = {"clients": clients, "test_samples": test_samples}
    if validation:
        kept = table.take(to_column(np.concatenate(validation)))
        groups = chain(groups, [(kept, kept.num_rows)])
        described["rows"] += kept.num_rows
        described["validation_samples"] = [len(rows) for rows in validation]
        entry["validation_samples"] = kept.num_rows
    return Silo(groups, metadata | described, entry)


def _bounds(sizes: Sequence[int], most: int) -> list[int]:
    """Where blocks of clients begin and end, who hold so many rows together, or of one client."""
    ends, bounds = np.cumsum(sizes), [0]
    while (start := bounds[-1]) < len(sizes):
        before = ends[start - 1] if start else 0
        bounds.append(max(start + 1, int(np.searchsorted(ends, before + most, side="right"))))
    return bounds


def _taken(
    table: pa.Table, rows_of_client: Sequence[np.ndarray], bounds: Sequence[int], own: bool
) -> Iterator[tuple[pa.Table, int]]:
    """All clients' rows in order, block by block, and how many rows make a row group.

    own: whether each client has a row group of its own: tables are then of equally large
    neighbours. Rows are taken for many small clients at once, which is faster; taking all at once
    would hold the table twice.
    """
    for start, stop in pairwise(bounds):
        of_clients = rows_of_client[start:stop]
        taken = table.take(to_column(np.concatenate(of_clients)))
        begin, sizes = 0, map(len, of_clients) if own else [taken.num_rows]
        for size, equal in groupby(sizes):
            rows = size * len(list(equal))
            yield taken.slice(begin, rows), size
            begin += rows


def cut_silos(
    spec: TieredPartition, table: pa.Table, test: pa.Table | None, metadata: dict[str, Any]
) -> Iterator[Silo]:
    """The silos of a tiered partition; see `fedatlas.shards.writing`."""
    features = metadata["features"]
    own_features = features - spec.intercept
    shape = tuple(metadata.get("shape") or [own_features])
    blocks = silo_blocks(spec, shape)
    rows_of_silo, test_rows = share_out_by_silo(spec, to_array(table["label"]))
    table, test = labelled(table, test, test_rows, spec.binary)
    parts = [from_table(part, features) for part in (table, test) if part]
    takers = [column_taker(part.features) for part in parts]
    common = {key: metadata[key] for key in _OF_SILOS if key in metadata}
    places = np.arange(own_features).reshape(shape)
    added = [np.arange(own_features, features)]  # to the first silo

    def silo(block: tuple[slice, ...], rows_of_client: list[np.ndarray]) -> Silo:
        columns = np.concatenate([places[block].ravel(), *added])
        own_shape = (len(columns),) if spec.intercept else _as_images(places[block].shape)
        added.clear()
        own, *held_out = (
            to_table(Samples(part.sample_id, part.label, take(columns)), own_shape)
            for part, take in zip(parts, takers, strict=True)
        )
        entry = {"features": len(columns), "shape": own_shape}
        normalisation = _normalisation(metadata.get("normalisation"), shape, block)
        described = {"columns": columns.tolist(), "normalisation": normalisation}
        of_clients = silo_of(
            own, held_out[0] if held_out else None, rows_of_client, common | entry | described
        )
        return of_clients._replace(entry=of_clients.entry | entry)

    return (silo(*pair) for pair in zip(blocks, rows_of_silo, strict=True))


def _as_images(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape as networks take it: views merged into channels."""
    return (shape[0] * shape[1], *shape[2:]) if len(shape) == 4 else shape


def _normalisation(
    whole: ChannelScaling | None, shape: tuple[int, ...], block: tuple[slice, ...]
) -> ChannelScaling | None:
    """Of the channels of a silo's slice, as merged; `whole` is that of all channels."""
    if whole is None:
        return None
    axes = AXES[len(shape)]
    channels = block[axes.index("channels")]
    views = len(range(shape[0])[block[0]]) if "views" in axes else 1
    return {key: values[channels] * views for key, values in whole.items()}


def cut_parties(
    spec: VerticalPartition, table: pa.Table, test: pa.Table | None, metadata: dict[str, Any]
) -> Iterator[Silo]:
    """The parties of a vertical partition; see `fedatlas.shards.writing`."""
    if spec.standardise and metadata["layout"] == "sparse":
        raise FedatlasError("the partition's 'standardise' would make sparse rows dense; remove it")
    train_rows, test_rows = train_and_test_rows(spec, table.num_rows)
    if len(test_rows):
        test = table.take(to_column(test_rows))
    groups = [table.take(to_column(train_rows)), *([test] if test else [])]
    features = metadata["features"]
    of_groups = [features_from_table(group, features) for group in groups]
    takers = [column_taker(group) for group in of_groups]
    sizes = [[name, group.num_rows] for name, group in zip(("train", "test"), groups, strict=False)]
    common = {key: metadata[key] for key in _OF_PARTIES if key in metadata}
    common |= {"rows": sum(size for _, size in sizes), "groups": sizes}
    names, numeric = metadata.get("feature_names"), metadata.get("numeric_columns")
    blocks = feature_blocks(spec, features, names, of_groups[0])

    def party(number: int, block: np.ndarray) -> Silo:
        columns = block.tolist()
        own_names = names and [names[column] for column in columns]
        parts = [take(block) for take in takers]
        scaling = None
        if spec.standardise:
            for part in parts:
                check_range(part, own_names or columns, common["dataset"])
            own = None if numeric is None else np.flatnonzero(np.isin(block, numeric)).tolist()
            scaling = scaling_of(parts[0], numeric=own)
            parts = [scaled(part, scaling) for part in parts]
        constant = constant_columns(scaling, own_names or columns)
        warn_of_constant(constant, f"party {number}")
        entry = {"features": len(block), "labelled": number < spec.active}
        described = {"columns": columns, "feature_names": own_names, "scaling": scaling}
        kept = ["sample_id", "label"] if entry["labelled"] else ["sample_id"]
        tables = (
            pa.table({**{name: group[name] for name in kept}, **feature_columns(part)})
            for group, part in zip(groups, parts, strict=True)
        )
        groups_of_rows = ((rows, rows.num_rows) for rows in tables)
        told = entry | ({"constant_columns": constant} if spec.standardise else {})
        return Silo(groups_of_rows, common | entry | described, told)

    return (party(number, block) for number, block in enumerate(blocks))
