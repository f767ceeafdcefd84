"""Files of every kind of partition: the prepared ones that are shared out, the shards written."""

from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.parquet import (
    METADATA_KEY,
    PREPARED_KEYS,
    open_parquet,
    read_metadata,
    read_rows,
)
from fedatlas.data.tables import from_table, to_table
from fedatlas.errors import FedatlasError
from fedatlas.files import canonical_json, file_digest, write_atomically
from fedatlas.schema.partitions import BinaryClasses, Partition

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


def read_sources(
    prepared: Path, test: Path | None, spec: Partition, silos: Sequence[Path], manifest: Path
) -> tuple[pa.Table, pa.Table | None, dict[str, Any]]:
    """The rows to share out, those of the test split if the partition names one, and metadata.

    Raises FedatlasError when a file is missing or damaged, when test rows have other features, or
    unless there are as many files to write as silos, beside the manifest.
    """
    if len(silos) != spec.silos or any(silo.parent != manifest.parent for silo in silos):
        raise FedatlasError(
            f"{manifest}: a {spec.kind} partition is {spec.silos} silo file(s) in the manifest's "
            f"folder, but these were given: {', '.join(map(str, silos)) or 'none'}"
        )
    table, metadata = _read_prepared(prepared)
    return table, _read_test(test, spec, manifest, prepared, metadata), metadata


def labelled(
    table: pa.Table,
    test_table: pa.Table | None,
    test_rows: np.ndarray,
    binary: BinaryClasses | None,
) -> tuple[pa.Table, pa.Table | None]:
    """The rows and those for testing, with labels ±1 if `binary` says so.

    test_rows: (n,) of the table; without any, the test rows are those of `test_table`.
    """
    if len(test_rows):
        test_table = table.take(test_rows)
    if binary is None:
        return table, test_table
    return _relabelled(table, binary), test_table and _relabelled(test_table, binary)


def partition_metadata(spec: Partition, prepared: Path, test: Path | None) -> dict[str, Any]:
    """What a shard's metadata say of its origin."""
    return {
        "partition": spec.model_dump(mode="json"),
        "prepared_digest": file_digest(prepared),
        "test_digest": file_digest(test) if test else None,
    }


def write_row_groups(path: Path, groups: Iterable[pa.Table], metadata: dict[str, Any]) -> None:
    """Write each table as one row group of a Parquet file, whole or not at all."""
    write_runs(path, ((group, group.num_rows) for group in groups), metadata)


def write_runs(path: Path, runs: Iterable[tuple[pa.Table, int]], metadata: dict[str, Any]) -> None:
    """As `write_row_groups`, of tables with the size of the row groups to cut them into."""
    waiting = iter(runs)
    first = next(waiting)
    schema = first[0].schema.with_metadata({METADATA_KEY: canonical_json(metadata)})
    with (
        write_atomically(path) as temporary,
        pq.ParquetWriter(temporary, schema, **WRITER_OPTIONS) as writer,
    ):
        for table, size in chain([first], waiting):
            # Without a size Arrow cuts after a million rows; a size of 0, of no rows, it refuses.
            writer.write_table(
                table.replace_schema_metadata(schema.metadata), row_group_size=max(size, 1)
            )


def _read_prepared(prepared: Path) -> tuple[pa.Table, dict[str, Any]]:
    """The rows and the metadata of a prepared file."""
    with open_parquet(prepared) as file:
        metadata = read_metadata(file, prepared, PREPARED_KEYS)
        # One chunk per column: taking rows from a chunked list column joins the chunks each time.
        return read_rows(file).combine_chunks(), metadata


def _read_test(
    test: Path | None, spec: Partition, manifest: Path, prepared: Path, metadata: dict[str, Any]
) -> pa.Table | None:
    """The rows of the split that a partition keeps for testing; None if it names none.

    metadata: of `prepared`, with which the test rows must agree.
    """
    if (test is None) != (spec.test_split is None):
        raise FedatlasError(
            f"{manifest}: the partition's test is {spec.test!r}, but the test file given is {test}"
        )
    if test is None:
        return None
    table, test_metadata = _read_prepared(test)
    if test_metadata["features"] != metadata["features"]:
        raise FedatlasError(
            f"{test}: has {test_metadata['features']} features, but {prepared} has "
            f"{metadata['features']}"
        )
    if test_metadata["layout"] == metadata["layout"]:
        return table
    # Each split is stored in its smaller layout, but the row groups of one file must be alike.
    samples = from_table(table, metadata["features"])
    rows = sparse.csr_array(samples.features)
    features = rows.toarray() if samples.is_sparse else rows
    return to_table(Samples(samples.sample_id, samples.label, features))


def _relabelled(table: pa.Table, binary: BinaryClasses) -> pa.Table:
    place = table.column_names.index("label")
    return table.set_column(place, "label", pa.array(binary.labels(table["label"].to_numpy())))
