"""Where an interrupted run continues: one file per run, outside the declared outputs.

A checkpoint holds arrays and a JSON header, nothing executable. It names the run's full identity;
one that belongs to another specification, code or data is ignored.
"""

import json
import zipfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedatlas.files import write_atomically
from fedatlas.simulation.client_rows import ClientRows

FORMAT = "fedatlas checkpoint 1"
_HEADER = "header"

State = TypeVar("State")


def save(path: Path, identity: str, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write a checkpoint whole or not at all; `header` is JSON data."""
    text = json.dumps({"format": FORMAT, "identity": identity, **header})
    with write_atomically(path) as temporary, temporary.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **{_HEADER: np.array(text)}, **arrays)


def load(path: Path, identity: str) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
    """Header and arrays, or None if there is no usable checkpoint of this identity."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            header = json.loads(str(archive[_HEADER]))
            if header.get("format") != FORMAT or header.get("identity") != identity:
                return None
            return header, {name: archive[name] for name in archive.files if name != _HEADER}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def state_arrays(state: Any, to_numpy: Any) -> dict[str, np.ndarray]:
    """The arrays of a state dataclass by field name; fields that are None are left out."""
    arrays = {}
    for field in fields(state):
        value = getattr(state, field.name)
        if isinstance(value, int | float):
            arrays[field.name] = np.array(value)
        elif value is not None:
            table = value.table if isinstance(value, ClientRows) else value
            arrays[field.name] = to_numpy(table)
    return arrays


def restore_state(template: State, arrays: dict[str, np.ndarray], from_numpy: Any) -> State:
    """A state like `template`, the start of the same run, with the saved arrays."""
    values: dict[str, Any] = {}
    for field in fields(template):  # type: ignore[arg-type]
        kind, saved = getattr(template, field.name), arrays.get(field.name)
        if saved is None:
            values[field.name] = None
        elif isinstance(kind, int | float):
            values[field.name] = saved.item()
        elif isinstance(kind, ClientRows):
            values[field.name] = ClientRows(from_numpy(saved))
        else:
            values[field.name] = from_numpy(saved)
    return replace(template, **values)  # type: ignore[type-var]
