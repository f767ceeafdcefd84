"""Fewer records of a trace, for files that are small enough to publish."""

from collections.abc import Iterable

import numpy as np
import xarray as xr

#: How a thinned file tells what it left out.
THINNED = (
    "lossy: at most {records} records of each trace, half of them evenly and half logarithmically "
    "spaced over the record schedule, the first and the last among them; values are float32 with "
    "six significant digits; all seeds are kept"
)


def kept_records(records: int, most: int) -> np.ndarray:
    """Positions of at most `most` (at least 2) of so many records, rising, with both ends."""
    if records <= most:
        return np.arange(records)
    logarithmic = np.geomspace(1, records - 1, most // 2)
    even = np.linspace(0, records - 1, most - most // 2)
    return np.unique(np.rint(np.concatenate([even, logarithmic])).astype(int))


def thinned(trace: xr.Dataset, most: int) -> xr.Dataset:
    """The trace at `kept_records`; its attribute `thinned` says how many its run had."""
    kept = trace.isel(record=kept_records(trace.sizes["record"], most))
    told = f"{kept.sizes['record']} of {_records_before(trace)} records"
    return kept.assign_attrs(thinned=told)


def most_kept(traces: Iterable[xr.Dataset]) -> int | None:
    """To how many records at most these traces were thinned, the fewest; None if none was."""
    return min(filter(None, map(_most_kept, traces)), default=None)


def _most_kept(trace: xr.Dataset) -> int | None:
    """Told by the positions of its records: `thinned` says how many there were."""
    kept, records = trace["record"].to_numpy(), _records_before(trace)
    if len(kept) == records:
        return None
    mosts = range(2, records)
    found = (most for most in mosts if np.array_equal(kept_records(records, most), kept))
    return next(found, len(kept))


def _records_before(trace: xr.Dataset) -> int:
    """How many records a trace had before it was thinned."""
    declared = str(trace.attrs.get("thinned", f"all of {trace.sizes['record']} records"))
    return int(declared.partition(" of ")[2].partition(" ")[0])


def is_thinned(trace: xr.Dataset) -> bool:
    """Whether the trace lacks records that its run had."""
    return trace.sizes["record"] < _records_before(trace)
