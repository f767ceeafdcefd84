"""States and points of methods: to named arrays, and back from a checkpoint."""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from fedatlas.arithmetic.client_rows import ClientRows

State = TypeVar("State")


def leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """What stands below dataclasses and tuples, by its dotted name."""
    parts = _parts(value)
    if not parts:
        yield name, value
    for key, part in parts.items():
        yield from leaves(part, f"{name}.{key}" if name else key)


def mapped(value: Any, function: Callable[[str, Any], Any], name: str = "") -> Any:
    """A value like this one, whose leaves are function(dotted name, leaf)."""
    parts = _parts(value)
    if not parts:
        return function(name, value)
    own = {
        key: mapped(part, function, f"{name}.{key}" if name else key) for key, part in parts.items()
    }
    kind = type(value)
    return kind(own.values()) if kind is tuple else kind(**own)


def _parts(value: Any) -> dict[str, Any]:
    """Fields of a dataclass or named tuple, places of a tuple; nothing of anything else."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None) or map(str, range(len(value)))
        return dict(zip(names, value, strict=True))
    return {}


def state_arrays(state: Any, to_numpy: Callable[[Any], np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a state by dotted name; None is left out."""
    arrays = {}
    for name, value in leaves(state):
        if isinstance(value, int | float):
            arrays[name] = np.array(value)
        elif value is not None:
            arrays[name] = to_numpy(value.table if isinstance(value, ClientRows) else value)
    return arrays


def restore_state(
    template: State, arrays: dict[str, np.ndarray], from_numpy: Callable[[np.ndarray], Any]
) -> State:
    """A state like `template`, the start of the same run, with the saved arrays."""

    def restored(name: str, leaf: Any) -> Any:
        if name not in arrays:
            return None
        if isinstance(leaf, int | float):
            return arrays[name].item()
        # Engines of tensors may have methods that number clients by arrays of numpy's.
        own = isinstance(leaf, np.ndarray)
        array = arrays[name] if own else from_numpy(arrays[name])
        return ClientRows(array) if isinstance(leaf, ClientRows) else array

    state: State = mapped(template, restored)
    return state
