"""Files of seeds: a checkpoint, from which an interrupted seed continues, or the finished records.

Each holds arrays, a JSON header and their digest, nothing executable. The header names all that the
numbers depend on. A file that does not fit is not used; the log says why.
"""

import hashlib
import json
import logging
import zipfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedatlas.arithmetic.client_rows import ClientRows
from fedatlas.errors import NotReadNowError, is_shortage
from fedatlas.files import canonical_json, write_atomically

FORMAT = "fedatlas checkpoint 3"
#: Key of a header that only finished seeds have.
FINISHED = "status"
_HEADER = "header"
_DIGEST = "digest"
_DIGEST_LENGTH = 64

State = TypeVar("State")

log = logging.getLogger(__name__)


def save(
    path: Path, identity: Mapping[str, str], header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """Write a checkpoint whole or not at all.

    identity: what the run's numbers depend on, by name. header: JSON data.
    """
    text = json.dumps({"format": FORMAT, "identity": dict(identity), **header})
    own = {_HEADER: np.array(text), _DIGEST: np.array(content_digest(text, arrays))}
    with write_atomically(path) as temporary, temporary.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **own, **arrays)


def load(
    path: Path, identity: Mapping[str, str], environment: Mapping[str, str], *, quiet: bool = False
) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
    """Header and arrays of a whole file of this identity, or None.

    environment: what a checkpoint must share besides; a finished seed need not.
    If there is a file that is not used, a line in the log says why, unless quiet. NotReadNowError
    where memory runs out for a sound one, which training anew would overwrite.
    """
    try:
        arrays = _read_npz(path)
        text, digest = str(arrays.pop(_HEADER)), str(arrays.pop(_DIGEST, ""))
        header = json.loads(text)
        needed = {**identity} if FINISHED in header else {**identity, **environment}
        if header["format"] != FORMAT:
            reason = f"its format is not '{FORMAT}'"
        elif digest != content_digest(text, arrays):
            reason = "it is damaged, its digest is another"
        elif header["identity"] != needed:
            reason = f"it was made with {_changes(header['identity'], needed)}"
        else:
            return header, arrays
    except FileNotFoundError:
        return None
    except Exception as error:  # damage can make zipfile and numpy raise anything
        if is_shortage(error) and _is_sound(path):
            raise NotReadNowError(path, error) from error
        reason = "it is damaged, or no file of a seed"
    if not quiet:
        log.warning("%s: is not used, training starts anew: %s", path, reason)
    return None


def _is_sound(path: Path) -> bool:
    """Whether its parts have their checksums: damage can claim arrays that no memory holds."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except Exception as error:
        return is_shortage(error)


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file that `np.savez` wrote, if it promises no more bytes than it has."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
    if not stored or sum(member.file_size for member in members) > path.stat().st_size:
        raise ValueError("would unpack to more than it has")
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def content_digest(header: str, arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of a header and of names, types, shapes and values of arrays."""
    digest = hashlib.sha256(header.encode())
    for name, array in sorted(arrays.items()):
        kept = np.ascontiguousarray(array)
        digest.update(canonical_json([name, kept.dtype.str, array.shape]).encode())
        digest.update(kept.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _changes(saved: Mapping[str, str], identity: Mapping[str, str]) -> str:
    """What has changed, in words; digests are only named."""
    changed = [name for name in identity if saved.get(name) != identity[name]]
    digests = [name for name in changed if len(identity[name]) == _DIGEST_LENGTH]
    others = [
        f"{name} {str(saved.get(name))[:40]!r} instead of {identity[name]!r}"
        for name in changed
        if name not in digests
    ]
    return ", ".join([*(f"another {name}" for name in digests), *others]) or "more than is known"


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
            values[name] = restore_state(kind, within(f"{name}.", arrays), from_numpy)
        elif saved is None:
            values[name] = None
        elif isinstance(kind, int | float):
            values[name] = saved.item()
        elif isinstance(kind, ClientRows):
            values[name] = ClientRows(from_numpy(saved))
        else:
            values[name] = from_numpy(saved)
    made: Any = type(template)
    named = is_dataclass(template) or hasattr(template, "_fields")
    restored: State = made(**values) if named else made(values.values())
    return restored


def within(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays below a prefix, which their names lose."""
    below = (name for name in arrays if name.startswith(prefix))
    return {name.removeprefix(prefix): arrays[name] for name in below}


def _members(value: Any) -> dict[str, Any]:
    """Fields of a dataclass or named tuple, places of a tuple; nothing of anything else."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None) or map(str, range(len(value)))
        return dict(zip(names, value, strict=True))
    return {}
