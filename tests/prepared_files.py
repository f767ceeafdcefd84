"""Samples of few rows, their prepared files, and the shards of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from scipy import sparse

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.tables import to_table
from fedatlas.files import canonical_json
from fedatlas.schema.partitions import Partition
from fedatlas.shards.writing import write_shards


def make_samples(
    rows: int, features: int, layout: str = "dense", density: float = 0.5, seed: int = 0
) -> Samples:
    """Random rows with labels ±1; at low density many are empty.

    layout: dense or sparse float64, or the type of tensors, float32 or uint8.
    """
    random = np.random.default_rng(seed)
    present = random.random((rows, features)) < density
    values = np.where(present, random.normal(size=present.shape), 0)
    label = random.choice([1.0, -1.0], rows)
    if layout == "uint8":
        values = random.integers(0, 256, (rows, features))
    if layout == "sparse":
        values = sparse.csr_array(values)
    elif layout != "dense":
        values = values.astype(layout)
    return Samples(np.arange(rows), label, values)


def shard(
    folder: Path,
    samples: Samples,
    spec: Partition,
    shape: tuple[int, ...] | None = None,
    test: Samples | None = None,
    **changes: Any,
) -> list[Path]:
    """The shards of samples, beside `prepared.parquet`, `test.parquet` and `manifest.json`."""
    folder.mkdir(exist_ok=True)
    prepared = write_prepared(folder / "prepared.parquet", samples, shape, **changes)
    held_out = None
    if test is not None:
        held_out = write_prepared(folder / "test.parquet", test, shape, split="test", **changes)
    files = [folder / f"silo-{number}.parquet" for number in range(spec.silos)]
    write_shards(prepared, spec, files, folder / "manifest.json", held_out)
    return files


def write_prepared(
    path: Path, samples: Samples, shape: tuple[int, ...] | None = None, **changes: Any
) -> Path:
    """A prepared split train of data set toy; changes to None leave a key of its metadata out."""
    metadata = {
        "dataset": "toy",
        "split": "train",
        "rows": len(samples),
        "features": samples.features.shape[1],
        "layout": samples.layout,
        "shape": shape,
        **changes,
    }
    kept = {key: value for key, value in metadata.items() if value is not None}
    table = to_table(samples, shape).replace_schema_metadata({"fedatlas": canonical_json(kept)})
    pq.write_table(table, path, row_group_size=7)
    return path


def as_dense(samples: Any) -> np.ndarray:
    """The features (n, d) of samples or of parties' rows as an array."""
    features = samples.features
    return features.toarray() if sparse.issparse(features) else features
