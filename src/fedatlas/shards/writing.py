"""Write a partition: a Parquet file for each silo, then the manifest with their digests.

Each federation names the function of its kind, `cut(spec, table, test, metadata)`, which gives the
silos: `table` and `metadata` are those of the prepared split, `test` are the rows of a split kept
for testing.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.reading import joined
from fedatlas.data.scaling import constant_columns
from fedatlas.data.tables import (
    KEPT,
    METADATA_KEY,
    PREPARED_KEYS,
    feature_columns,
    features_from_table,
    from_table,
    open_parquet,
    read_metadata,
    to_array,
    to_column,
    to_table,
    with_ones,
)
from fedatlas.errors import FedatlasError, error_context
from fedatlas.files import canonical_json, file_digest, write_atomically
from fedatlas.schema.federation import federation_of
from fedatlas.schema.partitions import Partition
from fedatlas.schema.rows import INSTANCE

# Measured on a9a with 3250 clients: statistics and dictionaries cost 20-40 % of the writing and
# reading time and more bytes than they save in groups of ten rows; zstd sets up a context per
# page and reads five times slower; lz4 costs nothing and leaves a third of the bytes. A checksum
# per page is free and turns a flipped bit into an error instead of a wrong gradient.
WRITER_OPTIONS: dict[str, Any] = {
    "compression": "lz4",
    "use_dictionary": False,
    "write_statistics": False,
    "write_page_checksum": True,
}
_FEATURES = ("features", "indices", "values")  # columns of either layout


class Silo(NamedTuple):
    """A file to write.

    groups: tables, each with the size of the row groups that it is cut into.
    metadata: what the file says of itself, besides its origin.
    entry: what the manifest says of the file, besides its name and digest.
    """

    groups: Iterable[tuple[pa.Table, int]]
    metadata: dict[str, Any]
    entry: dict[str, Any]


def write_shards(
    prepared: Path,
    spec: Partition,
    silos: Sequence[Path],
    manifest: Path,
    test: Path | None = None,
) -> None:
    """Share out a prepared file: one Parquet file per silo, then the manifest.

    prepared, test: files of `fedatlas.data.prepare`; `test` where the partition names a test split.
    silos: the `spec.silos` files to write, beside `manifest`.
    manifest: JSON with the partition, the columns that the data set's `standardise` made 0 since
        they are constant, the digests of all files and, for each client of a silo, its row group
        and number of samples, whose ids are in the file.

    Every file is written whole or not at all, and the manifest last: if it is there, so are the
    files that it describes. Raises FedatlasError when an input is missing, damaged or lacks its
    metadata, or when its samples cannot be shared out as asked.
    """
    if len(silos) != spec.silos or any(silo.parent != manifest.parent for silo in silos):
        raise FedatlasError(
            f"{manifest}: a {spec.kind} partition is {spec.silos} silo file(s) in the manifest's "
            f"folder, but these were given: {', '.join(map(str, silos)) or 'none'}"
        )
    if (test is None) != (spec.test_split is None):
        raise FedatlasError(
            f"{manifest}: the partition's test is {spec.test!r}, but the test file given is {test}"
        )
    table, metadata = _read_prepared(prepared)
    test_table = None if test is None else _read_test(test, prepared, metadata)
    origin = {
        "partition": spec.model_dump(mode="json"),
        "prepared_digest": file_digest(prepared),
        "test_digest": file_digest(test) if test else None,
    }
    cut = resolve_name(federation_of(spec.kind).sharding)
    constant = constant_columns(metadata.get("standardised"), metadata.get("feature_names"))
    with error_context(prepared):
        if spec.instances:
            table = _instance_of(table, spec.seed or 0, metadata)
            test_table = test_table and _instance_of(test_table, spec.seed or 0, metadata)
        if spec.intercept:
            table, test_table, metadata = _with_intercept(table, test_table, metadata)
        cuts = cut(spec, table, test_table, metadata)
    with write_atomically(manifest) as temporary:
        # An older manifest must not vouch for new files.
        manifest.unlink(missing_ok=True)
        described = {key: metadata[key] for key in ("dataset", "split", "features")}
        described |= {key: origin[key] for key in ("partition", "prepared_digest")}
        described |= {"seed": spec.seed, "constant_columns": constant, "silos": []}
        for number, (path, silo) in enumerate(zip(silos, cuts, strict=True)):
            _write_groups(path, silo.groups, {**silo.metadata, **origin, "silo": number})
            entry = {"file": path.name, "digest": file_digest(path), **silo.entry}
            described["silos"].append(entry)
        temporary.write_text(canonical_json(described) + "\n", encoding="utf-8")


def _read_prepared(prepared: Path) -> tuple[pa.Table, dict[str, Any]]:
    """The rows and the metadata of a prepared file."""
    with open_parquet(prepared) as file:
        metadata = read_metadata(file, prepared, PREPARED_KEYS)
        return _in_one_chunk(file, metadata["features"]), metadata


def _in_one_chunk(file: pq.ParquetFile, features: int) -> pa.Table:
    """All rows, in memory once; taking rows from a chunked column would join its chunks each time.

    features: the number of columns d.
    """
    others = []

    def blocks() -> Iterator[Any]:
        for number in range(file.num_row_groups):
            rows = file.read_row_group(number)
            other = [name for name in rows.column_names if name not in _FEATURES]
            others.append(rows.select(other))
            yield features_from_table(rows, features)

    columns = joined(blocks())
    kinds = file.schema_arrow.types
    shapes = [tuple(one.shape) for one in kinds if isinstance(one, pa.FixedShapeTensorType)]
    table = pa.concat_tables(others).combine_chunks()
    for name, column in feature_columns(columns, *shapes).items():
        table = table.append_column(name, column)
    return table.select(file.schema_arrow.names).cast(file.schema_arrow)


def _instance_of(table: pa.Table, seed: int, metadata: dict[str, Any]) -> pa.Table:
    """The rows of a trial's instance; FedatlasError where the data set has none."""
    if INSTANCE not in metadata.get("kept", ()):
        raise FedatlasError(
            f"partition: instances: data set {metadata['dataset']} is declared with none; remove it"
        )
    numbers = to_array(table[KEPT + INSTANCE])
    return table.take(to_column(np.flatnonzero(numbers == seed % (numbers.max() + 1))))


def _with_intercept(
    table: pa.Table, test: pa.Table | None, metadata: dict[str, Any]
) -> tuple[pa.Table, pa.Table | None, dict[str, Any]]:
    """The rows, those for testing and the metadata, with a last column of ones.

    Raises FedatlasError where samples have a shape, as images and time series do.
    """
    if metadata["layout"] == "tensor" or metadata.get("shape"):
        raise FedatlasError(
            "partition: intercept adds a column to plain rows, not to samples of a shape, of which "
            "networks learn with biases of their own; remove it"
        )
    features, names = metadata["features"], metadata.get("feature_names")
    numeric = metadata.get("numeric_columns")
    changed = {
        "features": features + 1,
        "feature_names": names and [*names, "intercept"],
        "numeric_columns": list(range(features)) if numeric is None else numeric,
    }
    test = test and with_ones(test, features)
    return with_ones(table, features), test, metadata | changed


def _read_test(test: Path, prepared: Path, metadata: dict[str, Any]) -> pa.Table:
    """The rows of the split kept for testing, stored as those of `prepared`, with its `metadata`.

    Raises FedatlasError when they have other features.
    """
    table, test_metadata = _read_prepared(test)
    if test_metadata["features"] != metadata["features"]:
        raise FedatlasError(
            f"{test}: has {test_metadata['features']} features, but {prepared} has "
            f"{metadata['features']}"
        )
    if test_metadata["layout"] == metadata["layout"]:
        return table
    # Each split is stored in its smaller layout, but the row groups of one file must be alike.
    from scipy import sparse  # loads for a tenth of a second

    samples = from_table(table, metadata["features"])
    rows = sparse.csr_array(samples.features)
    features = rows.toarray() if samples.is_sparse else rows
    return to_table(Samples(samples.sample_id, samples.label, features))


def _write_groups(
    path: Path, groups: Iterable[tuple[pa.Table, int]], metadata: dict[str, Any]
) -> None:
    """Write tables as row groups of these sizes, whole or not at all."""
    waiting = iter(groups)
    first = next(waiting)
    schema = first[0].schema.with_metadata({METADATA_KEY: canonical_json(metadata)})
    with (
        write_atomically(path) as temporary,
        pq.ParquetWriter(temporary, schema, **WRITER_OPTIONS) as writer,
    ):
        for table, size in chain([first], waiting):
            # Without a size Arrow cuts after a million rows.
            table = table.replace_schema_metadata(schema.metadata)
            writer.write_table(table, row_group_size=size)
