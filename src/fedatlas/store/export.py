"""Write traces as one table that pandas, DuckDB and others read; `tables.py` says what it holds.

Traces are read and written one after the other: a group of some ten thousand rows, and the
attributes of all, bound the memory.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xarray as xr

from fedatlas import __version__
from fedatlas.errors import FedatlasError
from fedatlas.files import canonical_json, write_atomically
from fedatlas.schema.config import Names, is_named, listed
from fedatlas.schema.quantities import COSTS, MEASUREMENTS
from fedatlas.store.atlas import Atlas, run_title
from fedatlas.store.tables import ABOUT, FORMAT, INDEX, KEYS, packed_index
from fedatlas.store.views import THINNED, six_digits, thinned

#: Rows of a group, which are in memory together.
ROWS = 1 << 16
_NUMBERS = COSTS | MEASUREMENTS
_TYPES = {"int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_()}
# Texts repeat from row to row. Beyond its limit a dictionary would be given up.
_TEXT = pa.dictionary(pa.int32(), pa.string())
_DICTIONARY_BYTES = 1 << 26


def point_places(atlas: Atlas, experiments: Names = None, *, all_points: bool = True) -> list[str]:
    """Places of the points of all runs, or of the selected ones, in the order of the atlas.

    experiments: names or patterns. Of a run without a selection all points count.
    """
    patterns = listed(experiments)
    return [
        f"{place}/{point}"
        for paper in atlas
        for experiment in atlas.names(paper)
        if patterns is None or is_named(experiment, patterns)
        for run in atlas.names(f"{paper}/{experiment}")
        for place in [f"{paper}/{experiment}/{run}"]
        for selected in [atlas.attributes(place)["selected"]]
        for point in atlas.names(place)
        if all_points or selected in ("", point)
    ]


def stale_points(atlas: Atlas, places: Sequence[str]) -> list[str]:
    """Which of these points are stale, each as experiment/run/point with what has changed."""
    return [
        f"{place.partition('/')[2]}: {why}" for place in places if (why := atlas.why_stale(place))
    ]


def write_table(
    atlas: Atlas,
    places: Sequence[str],
    output: Path,
    licences: Mapping[str, str],
    records: int | None = None,
) -> int:
    """Write the traces at these places, and return how many rows they have.

    licences: of the data sets, by name. records: how many of each trace are kept at most; None
    keeps all, in full precision. FedatlasError if there is no trace.
    """
    if not places:
        raise FedatlasError(f"{output}: not written, as {atlas.path} holds no trace to write")
    # A table's columns are given ahead of its rows, and memory does not hold all traces. Where the
    # traces come from a table, its rows alone say which of its columns each has: read twice.
    present = {name for place in places for name in atlas.variables(place)}
    numbers = [name for name in _NUMBERS if name in present]
    schema = _schema(numbers, pa.float64() if records is None else pa.float32())
    texts = [name for name in schema.names if schema.field(name).type == _TEXT]
    declared: dict[str, dict[str, Any]] = {}
    traces: dict[str, list[int]] = {}
    rows = 0
    with (
        write_atomically(output) as temporary,
        pq.ParquetWriter(
            temporary,
            schema,
            compression="zstd",
            compression_level=9 if records is None else 19,
            use_dictionary=texts,
            use_byte_stream_split=numbers,
            dictionary_pagesize_limit=_DICTIONARY_BYTES,
            # By the extremes of numbers, which NaN is none of, DuckDB 2.0 skips rows with NaN.
            write_statistics=list(KEYS),
        ) as writer,
    ):
        waiting: list[pa.Table] = []
        for place, trace in _read(atlas, places, records):
            for outer in (place.rsplit("/", 2)[0], place.rsplit("/", 1)[0]):
                declared.setdefault(outer, _plain(atlas.attributes(outer)))
            if atlas.why_stale(place):
                declared[outer]["stale"] = "yes"
            declared[place] = _plain(trace.attrs)
            traces[place] = [rows, trace.sizes["seed"], trace.sizes["record"]]
            waiting.append(_table(place, trace, declared, schema))
            rows += len(waiting[-1])
            if sum(map(len, waiting)) >= ROWS:
                writer.write_table(pa.concat_tables(waiting).unify_dictionaries())
                waiting = []
        if waiting:
            writer.write_table(pa.concat_tables(waiting).unify_dictionaries())
        about = _about(schema, declared, licences, records)
        index = packed_index({"declared": declared, "traces": traces})
        writer.add_key_value_metadata({ABOUT: json.dumps(about), INDEX: index})
    return rows


def _read(
    atlas: Atlas, places: Sequence[str], records: int | None
) -> Iterator[tuple[str, xr.Dataset]]:
    for place in places:
        trace = atlas.dataset(place).load()
        yield place, trace if records is None else thinned(trace, records)


def _schema(numbers: Sequence[str], number: pa.DataType) -> pa.Schema:
    """numbers: the costs and measurements that any of the traces has."""
    keys = [
        pa.field(name, _TYPES.get(one.dtype, _TEXT), metadata=_described(one.long_name, "1"))
        for name, one in KEYS.items()
    ]
    columns = [
        pa.field(name, number, metadata=_described(_NUMBERS[name].long_name, _NUMBERS[name].units))
        for name in numbers
    ]
    return pa.schema([*keys, *columns])


def _described(long_name: str, units: str) -> dict[str, str]:
    return {"long_name": long_name, "units": units}


def _about(
    schema: pa.Schema,
    declared: Mapping[str, Mapping[str, Any]],
    licences: Mapping[str, str],
    records: int | None,
) -> dict[str, Any]:
    used = {str(own["dataset"]) for place, own in declared.items() if place.count("/") == 1}
    return {
        "format": FORMAT,
        "fedatlas": __version__,
        "thinned": "" if records is None else THINNED.format(records=records),
        "units": {field.name: field.metadata[b"units"].decode() for field in schema},
        "licences": {name: licences.get(name, "not in the catalogue") for name in sorted(used)},
    }


def _table(
    place: str, trace: xr.Dataset, declared: Mapping[str, Mapping[str, Any]], schema: pa.Schema
) -> pa.Table:
    """A row for each seed and record."""
    seeds, records = trace.sizes["seed"], trace.sizes["record"]
    paper, experiment, run, point = place.split("/")
    own = declared[f"{paper}/{experiment}/{run}"]
    attributes = declared[place]
    specification = json.loads(attributes.get("specification", "{}"))
    numbers = [str(seed) for seed in trace["seed"].to_numpy()]
    constant = {
        "paper": paper,
        "experiment": experiment,
        "run": run,
        "point": point,
        "title": run_title(own),
        "method": attributes.get("algorithm", ""),
        "selected": own["selected"] == point,
        "dataset": specification.get("dataset", declared[f"{paper}/{experiment}"]["dataset"]),
        "hyper_parameters": canonical_json(specification.get("hyper_parameters", {})),
        "source_digest": attributes.get("source_digest"),
        "values_digest": attributes.get("values_digest"),
    }
    shards, optima = (
        json.loads(attributes.get(name, "{}")) for name in ("shard_digests", "optima")
    )
    tuned = set(map(str, specification.get("tuning_seeds", ())))
    by_seed = {
        "seed": trace["seed"].to_numpy().tolist(),
        "tuning": [seed in tuned for seed in numbers],
        "status": trace["status"].to_numpy().tolist(),
        "shard_digest": [shards.get(seed) for seed in numbers],
        "optimum": [optima.get(seed) for seed in numbers],
    }
    columns = []
    for field in schema:
        if field.name in constant:
            values = pa.array([constant[field.name]] * (seeds * records))
        elif field.name in by_seed:
            values = pa.array([one for one in by_seed[field.name] for _ in range(records)])
        elif field.name == "record":
            values = pa.array(np.tile(trace["record"].to_numpy(), seeds))
        elif field.name in trace.variables:
            found = trace[field.name].transpose("seed", "record").to_numpy().ravel()
            values = pa.array(six_digits(found) if field.type == pa.float32() else found)
        else:
            values = pa.nulls(seeds * records)
        columns.append(_as(values, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if kind == _TEXT:
        return values.cast(pa.string()).dictionary_encode()
    return values.cast(kind)


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as JSON takes them."""
    return {
        name: value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        for name, value in attributes.items()
    }
