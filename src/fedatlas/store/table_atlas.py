"""Tables of traces, read back as an atlas; `tables.py` says what they hold."""

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import xarray as xr

from fedatlas.errors import FedatlasError, NotReadNowError, is_shortage
from fedatlas.schema.models import validated
from fedatlas.schema.quantities import COSTS, MEASUREMENTS
from fedatlas.store.atlas import ListedAtlas
from fedatlas.store.checksums import NAME as SUMS
from fedatlas.store.checksums import check_sums
from fedatlas.store.tables import ABOUT, FORMAT, INDEX, SUFFIX, Index, unpacked_index
from fedatlas.store.trace import build_trace

# Of one group of rows, unpacked; ours have a few tens of MB.
_MOST_BYTES = 1 << 30


class _Rows(NamedTuple):
    """Where a trace lies: in which file, from which row on, and its shape."""

    file: Path
    first: int
    seeds: int
    records: int


class TableAtlas(ListedAtlas):
    """The traces of a table, or of all tables in a folder or in the folders there.

    Checksums are verified.
    """

    def __init__(self, path: Path) -> None:
        """`open_atlas` says what is refused."""
        files = _tables(path) if path.is_dir() else [path]
        folders = _folders(path, files)
        for folder in folders:
            own = [file for file in files if file.parent == folder]
            # Of a folder all tables must be there; one alone may be opened without the others.
            check_sums(folder, own, SUFFIX if path.is_dir() else "")
        self.unchecked = [folder for folder in folders if not (folder / SUMS).is_file()]
        declared: dict[str, dict[str, Any]] = {}
        self._rows: dict[str, _Rows] = {}
        self._ends: dict[Path, list[int]] = {}  # the rows up to the end of each group
        thinned: set[str] = set()
        for file in files:
            about, index, self._ends[file] = _metadata(file)
            thinned.add(about["thinned"])
            # Parts of one experiment both state it.
            declared |= index.declared
            for place, numbers in index.traces.items():
                if place in self._rows:
                    raise FedatlasError(
                        f"{file}: holds {place}, which {self._rows[place].file} holds, too; "
                        "open one of the two, or keep them apart"
                    )
                self._rows[place] = _Rows(file, *numbers)
        attrs = {"format": FORMAT, "thinned": "; ".join(sorted(filter(None, thinned)))}
        super().__init__(path, attrs, declared)
        # A walk over runs asks for one trace of a group of rows after the other.
        self._group = lru_cache(maxsize=2)(_group)

    def _trace(self, place: str) -> xr.Dataset:
        rows, declared = self._rows[place], self._declared[place]
        with _naming(rows.file):
            table = self._read(rows)
            shape = rows.seeds, rows.records
            found = {
                name: table[name].to_numpy().astype(float).reshape(shape)
                for name in (*COSTS, *MEASUREMENTS)
                if name in table.column_names and table[name].null_count < len(table)
            }
            seeds = table["seed"].to_numpy()[:: rows.records].tolist()
            status = table["status"].to_pylist()[:: rows.records]
            trace = build_trace(found, status, seeds, {})
            record = trace["record"].copy(data=table["record"].to_numpy()[: rows.records])
            outcome = trace["status"].astype(object)  # as netCDF gives texts
            return trace.assign(status=outcome).assign_coords(record=record).assign_attrs(declared)

    def _read(self, rows: _Rows) -> pa.Table:
        """The rows of one trace, which groups may divide."""
        ends = self._ends[rows.file]
        last = rows.first + rows.seeds * rows.records
        groups = range(bisect_right(ends, rows.first), bisect_right(ends, last - 1) + 1)
        start = ends[groups[0] - 1] if groups[0] else 0
        table = pa.concat_tables([self._group(rows.file, group) for group in groups])
        return table.slice(rows.first - start, last - rows.first)


def _tables(folder: Path) -> list[Path]:
    """Tables in a folder that was published, or in all such folders in it."""
    files = sorted(folder.glob(f"*{SUFFIX}")) or sorted(folder.glob(f"*/*{SUFFIX}"))
    if not files:
        raise FedatlasError(
            f"{folder}: holds no atlas: neither results (experiments/) nor tables (*{SUFFIX}), "
            "here or in a folder of it"
        )
    return files


def _folders(path: Path, files: list[Path]) -> list[Path]:
    """The folders of tables, and those that lack all that they list."""
    listed = [*path.glob(SUMS), *path.glob(f"*/{SUMS}")] if path.is_dir() else []
    return sorted({file.parent for file in (*files, *listed)})


def _metadata(file: Path) -> tuple[Mapping[str, Any], Index, list[int]]:
    """What the table is about, its index, and the rows up to the end of each group."""
    with _naming(file):
        stored = pq.read_metadata(file)
        found = stored.metadata or {}
        about = json.loads(found[ABOUT]) if ABOUT in found else {}
        if about.get("format") != FORMAT:
            raise FedatlasError(
                f"{file}: is no table of traces of this version (its format is "
                f"{about.get('format')!r}, expected {FORMAT!r}); fedatlas export writes one"
            )
        groups = [stored.row_group(group) for group in range(stored.num_row_groups)]
        if any(group.total_byte_size > _MOST_BYTES for group in groups):
            raise ValueError(f"claims more than {_MOST_BYTES} bytes in a group of rows")
        ends = list(accumulate(group.num_rows for group in groups))
        return about, _index(file, found[INDEX]), ends


def _index(file: Path, packed: bytes) -> Index:
    unpacked = unpacked_index(packed)
    try:
        return validated(Index, unpacked, f"{file}: index")
    except FedatlasError as error:  # names each of thousands of traces
        first = str(error).partition("\n")[0]
        raise FedatlasError(f"{first}; fetch it again, or do not trust it") from None


def _group(file: Path, group: int) -> pa.Table:
    numbers = {"seed", "record", "status", *COSTS, *MEASUREMENTS}
    with pq.ParquetFile(file) as opened:
        names = [name for name in opened.schema_arrow.names if name in numbers]
        return opened.read_row_group(group, columns=names)


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """What damage raises names the file."""
    try:
        yield
    except FedatlasError:
        raise
    except FileNotFoundError:
        raise FedatlasError(f"{file}: there is no such file") from None
    except Exception as error:  # pyarrow, zlib and JSON raise anything of damage
        if is_shortage(error):
            raise NotReadNowError(file, error) from error
        raise FedatlasError(
            f"{file}: cannot be read as a table of traces ({error}); fetch it again"
        ) from error
