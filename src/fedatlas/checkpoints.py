"""Where an interrupted run continues: one file per run, outside the declared outputs.

A checkpoint holds arrays and a JSON header, nothing executable. It names the run's full identity;
one that belongs to another specification, code or data is ignored.
"""

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedatlas.files import write_atomically
from fedatlas.npz import read_npz
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
        arrays = read_npz(path)
        header = json.loads(str(arrays.pop(_HEADER)))
        if header["format"] != FORMAT or header["identity"] != identity:
            return None
        return header, arrays
    except Exception:  # damage can make zipfile and numpy raise anything
        return None


def state_arrays(state: Any, to_numpy: Any) -> dict[str, np.ndarray]:
    """The arrays of a state by field name, dotted where states are nested; None is left out."""
    arrays: dict[str, np.ndarray] = {}
    for name, value in _members(state).items():
        if _members(value):
            nested = state_arrays(value, to_numpy)
            arrays |= {f"{name}.{inner}": array for inner, array in nested.items()}
        elif isinstance(value, int | float):
            arrays[name] = np.array(value)
        elif value is not None:
            arrays[name] = to_numpy(value.table if isinstance(value, ClientRows) else value)
    return arrays


def restore_state(template: State, arrays: dict[str, np.ndarray], from_numpy: Any) -> State:
    """A state like `template`, the start of the same run, with the saved arrays."""
    values: dict[str, Any] = {}
    for name, kind in _members(template).items():
        saved = arrays.get(name)
        if _members(kind):
            prefix = f"{name}."
            nested = {
                key.removeprefix(prefix): array
                for key, array in arrays.items()
                if key.startswith(prefix)
            }
            values[name] = restore_state(kind, nested, from_numpy)
        elif saved is None:
            values[name] = None
        elif isinstance(kind, int | float):
            values[name] = saved.item()
        elif isinstance(kind, ClientRows):
            values[name] = ClientRows(from_numpy(saved))
        else:
            values[name] = from_numpy(saved)
    made: Any = type(template)
    restored: State = made(**values) if _is_named(template) else made(values.values())
    return restored


def _members(value: Any) -> dict[str, Any]:
    """Fields of a dataclass or named tuple, places of a tuple; nothing of anything else."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None) or map(str, range(len(value)))
        return dict(zip(names, value, strict=True))
    return {}


def _is_named(value: Any) -> bool:
    return is_dataclass(value) or hasattr(value, "_fields")
