"""Export all traces as one table, Parquet or CSV, for other programs.

It has a row for each run, seed and record; costs and measurements are columns, empty where a run
does not count or measure them and NaN after a divergence.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import xarray as xr

from fedatlas import __version__
from fedatlas.errors import FedatlasError
from fedatlas.files import canonical_json, write_atomically
from fedatlas.store.atlas import Atlas
from fedatlas.store.trace import NUMBERS

# Texts repeat from row to row.
_TYPES = {
    "text": pa.dictionary(pa.int32(), pa.string()),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
}


class Described(NamedTuple):
    """A column that identifies the run of a row."""

    long_name: str
    dtype: str = "text"


#: Columns besides costs and measurements.
KEYS = {
    "paper": Described("paper, or ours"),
    "experiment": Described("name of the experiment"),
    "run": Described("run of the experiment"),
    "point": Described("point of the run's grid"),
    "seed": Described("random seed", "int64"),
    "record": Described("position in the record schedule", "int64"),
    "title": Described("what figures call the run"),
    "method": Described("name of the method"),
    "selected": Described("whether the experiment chose this point", "bool"),
    "tuning": Described("whether the seed chose a point, so that no verdict looks at it", "bool"),
    "status": Described("outcome of the seed: ok or diverged"),
    "dataset": Described("data set, as the catalogue names it"),
    "hyper_parameters": Described("hyper-parameters, as JSON"),
    "source_digest": Described("digest of the code that made the trace"),
    "shard_digest": Described("digest of all shard files that the seed read"),
    "values_digest": Described("digest of the trace's values as they were measured"),
    "optimum": Described("f* of the seed, where sub-optimality is measured", "float64"),
}


def export_table(
    atlas: Atlas, places: Sequence[str], output: Path, licences: Mapping[str, str]
) -> int:
    """Write the traces at these places; return how many rows there are.

    output: .parquet, or .csv, which holds no units and no licences. places:
    paper/experiment/run/point. licences: of the data sets, by name. FedatlasError if there is no
    trace.
    """
    if not places:
        raise FedatlasError(f"{output}: not written, as {atlas.path} holds no trace to write")
    traces = {place: atlas.dataset(place) for place in places}
    numbers = [name for name in NUMBERS if any(name in trace for trace in traces.values())]
    datasets = {str(atlas.attributes(place.rsplit("/", 2)[0])["dataset"]) for place in places}
    own = {name: licences.get(name, "not in the catalogue") for name in sorted(datasets)}
    about = {"fedatlas": json.dumps({"version": __version__, "licences": own})}
    schema = pa.schema(
        [_field(name, one.dtype, one.long_name) for name, one in KEYS.items()]
        + [_field(name, "float64", *NUMBERS[name][:2]) for name in numbers],
        about,
    )
    rows = 0
    with write_atomically(output) as temporary, _writer(output, temporary, schema) as file:
        for place, trace in traces.items():
            table = _table(atlas, place, trace.compute(), schema)
            file.write_table(table)
            rows += len(table)
    return rows


def _writer(output: Path, temporary: Path, schema: pa.Schema) -> Any:
    """What writes tables to a file, one below the other."""
    if output.suffix == ".csv":
        return pc.CSVWriter(temporary, schema)
    # By the extremes of numbers, which NaN is none of, DuckDB 2.0 skips rows with NaN.
    return pq.ParquetWriter(temporary, schema, compression="zstd", write_statistics=list(KEYS))


def _field(name: str, dtype: str, long_name: str, units: str = "1") -> pa.Field:
    return pa.field(name, _TYPES[dtype], metadata={"long_name": long_name, "units": units})


def _table(atlas: Atlas, place: str, trace: xr.Dataset, schema: pa.Schema) -> pa.Table:
    seeds, records = trace.sizes["seed"], trace.sizes["record"]
    columns: dict[str, Any] = {one.name: [None] * (seeds * records) for one in schema}
    constant = _of_run(atlas, place, trace)
    columns |= {name: [value] * (seeds * records) for name, value in constant.items()}
    columns |= {
        name: [value for value in values for _ in range(records)]
        for name, values in _by_seed(trace).items()
    }
    columns["record"] = np.tile(trace["record"].to_numpy(), seeds)
    for name in columns.keys() & NUMBERS.keys() & trace.variables.keys():
        columns[name] = trace[name].transpose("seed", "record").to_numpy().ravel()
    return pa.table(columns, schema=schema).filter(_are_records(trace).ravel())


def _are_records(trace: xr.Dataset) -> np.ndarray:
    """(seeds, records) whether a record is one: a seed that ended sooner repeats its last."""
    rounds = trace["round"].transpose("seed", "record").to_numpy()
    return np.insert(np.diff(rounds, axis=1) != 0, 0, True, axis=1)


def _of_run(atlas: Atlas, place: str, trace: xr.Dataset) -> dict[str, Any]:
    paper, experiment, run, point = place.split("/")
    outer = place.rpartition("/")[0]
    specification = json.loads(trace.attrs.get("specification", "{}"))
    usual = atlas.attributes(f"{paper}/{experiment}")["dataset"]
    return {
        "paper": paper,
        "experiment": experiment,
        "run": run,
        "point": point,
        "title": atlas.title(outer, point),
        "method": trace.attrs.get("algorithm", ""),
        "selected": atlas.attributes(outer)["selected"] == point,
        "dataset": specification.get("dataset", usual),
        "hyper_parameters": canonical_json(specification.get("hyper_parameters", {})),
        "source_digest": trace.attrs.get("source_digest"),
        "values_digest": trace.attrs.get("values_digest"),
    }


def _by_seed(trace: xr.Dataset) -> dict[str, list[Any]]:
    specification, shards, optima = (
        json.loads(trace.attrs.get(name, "{}"))
        for name in ("specification", "shard_digests", "optima")
    )
    seeds = trace["seed"].to_numpy().tolist()
    tuned = set(specification.get("tuning_seeds", ()))
    return {
        "seed": seeds,
        "tuning": [seed in tuned for seed in seeds],
        "status": trace["status"].to_numpy().tolist(),
        "shard_digest": [shards.get(str(seed)) for seed in seeds],
        "optimum": [optima.get(str(seed)) for seed in seeds],
    }
