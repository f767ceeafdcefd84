"""What a trace's recorded specification says, read as this version of fedatlas reads it.

A trace that was published long ago may lack keys of today, whose usual values then hold, or state
keys that are gone.
"""

import json
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fedatlas.atlas.runs import AtlasRun
from fedatlas.schema.network_model import NetworkModel
from fedatlas.schema.objectives import Objective
from fedatlas.schema.partitions import Partition
from fedatlas.schema.runs import RunSpec

# Each is filled in on its own, as another part may be of a version that is gone.
_PARTS: dict[str, TypeAdapter[Any]] = {
    "partition": TypeAdapter(Partition),
    "objective": TypeAdapter(Objective),
    "network": TypeAdapter(NetworkModel | None),
}


def completed(run: AtlasRun) -> dict[str, Any]:
    """The run's specification with the usual values of keys that it does not state.

    A part that cannot be read today stays as it was recorded.
    """
    return _completed(run.trace.attrs["specification"])


@lru_cache(maxsize=256)
def _completed(recorded: str) -> dict[str, Any]:
    declared: dict[str, Any] = json.loads(recorded)
    return declared | {
        name: _filled(part, declared[name]) for name, part in _PARTS.items() if name in declared
    }


def _filled(part: TypeAdapter[Any], declared: Any) -> Any:
    try:
        return part.dump_python(part.validate_python(declared), mode="json")
    except ValidationError:
        return declared


def specification_today(run: AtlasRun) -> RunSpec | str:
    """The run's specification; where it is of another version, the keys at fault."""
    try:
        return RunSpec.model_validate_json(run.trace.attrs["specification"])
    except ValidationError as error:
        keys = (".".join(map(str, item["loc"])) for item in error.errors())
        return ", ".join(dict.fromkeys(keys))
