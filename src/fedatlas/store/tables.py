"""What a table of traces is: one row for each run, seed and record, in a Parquet file.

Costs and measurements are columns, empty where a run does not count or measure them and NaN after
a divergence. The schema says each column's long name and units; the file's metadata say the format,
the licences of data sets, how records were thinned if they were, and, under `INDEX`, all attributes
of experiments, runs and traces, from which `open_atlas` makes the traces again.
"""

import base64
import json
import zlib
from typing import Annotated, Any, NamedTuple, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from fedatlas.errors import FedatlasError
from fedatlas.schema.models import Model

FORMAT = "fedatlas table 1"
SUFFIX = ".parquet"
#: Keys of the file's metadata.
ABOUT, INDEX = b"fedatlas", b"fedatlas.index"
# Of an index, unpacked; that of thousands of traces has some ten million.
_MOST_BYTES = 1 << 28


class Described(NamedTuple):
    """A column that tells which run a row is of; `dtype`: as pyarrow names it."""

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


# Names of a paper, an experiment, a run and a point, of which none begins with a dot.
_Place = Annotated[str, Field(pattern=r"^[^/.][^/]*(/[^/.][^/]*)*$")]
_Attribute = str | int | float


class Index(Model):
    """What a table states of experiments, runs and traces, and which rows are a trace's.

    traces: place → its first row, its numbers of seeds and of records.
    """

    declared: dict[_Place, dict[str, _Attribute | list[_Attribute]]]
    traces: dict[_Place, tuple[NonNegativeInt, PositiveInt, PositiveInt]]

    @model_validator(mode="after")
    def _every_trace_has_a_run(self) -> Self:
        for place in self.traces:
            run = place.rpartition("/")[0]
            experiment = run.rpartition("/")[0]
            known = {place, run, experiment} <= self.declared.keys() and place.count("/") == 3
            if not known or not {"selected", "title"} <= self.declared[run].keys():
                raise ValueError(f"states too little of {place}")
        return self


def packed_index(index: dict[str, Any]) -> bytes:
    """JSON, compressed: thousands of specifications are much alike."""
    text = json.dumps(index).encode()
    if len(text) > _MOST_BYTES:
        raise FedatlasError(
            f"what is given of {len(index['traces'])} traces takes {len(text)} bytes, and a table "
            f"holds at most {_MOST_BYTES}; export fewer experiments at a time"
        )
    return base64.b64encode(zlib.compress(text, 9))


def unpacked_index(packed: bytes) -> dict[str, Any]:
    """What `packed_index` packed; ValueError or zlib.error for anything else."""
    unpacked = zlib.decompressobj()
    text = unpacked.decompress(base64.b64decode(packed, validate=True), _MOST_BYTES)
    if unpacked.unconsumed_tail:
        raise ValueError(f"its index claims more than {_MOST_BYTES} bytes")
    found: dict[str, Any] = json.loads(text)
    return found
