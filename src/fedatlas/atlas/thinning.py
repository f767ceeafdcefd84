"""Fewer records of a trace, for files that are small enough to publish."""

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
    """The trace at `kept_records`; its attribute `thinned` says how many there were."""
    records = trace.sizes["record"]
    kept = trace.isel(record=kept_records(records, most))
    return kept.assign_attrs(thinned=f"{kept.sizes['record']} of {records} records")
