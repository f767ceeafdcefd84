"""Python batches of CIFAR-10 and CIFAR-100, read without executing them.

A pickle is a program: unpickled in the usual way it may import and call whatever it likes. Here it
may use the opcodes that a batch is made of and no more of them than a batch does, and the three
names in it become inert objects of our own, which keep what they are given. What numpy would make
of these is then checked and done by hand.

Bounding the opcodes also bounds memory and time: without opcodes that refer back, few containers
and few puts into the memo, a small file cannot become a large object or one that is deep or hard
to hash.
"""

import io
import pickle
import pickletools
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fedatlas.errors import FedatlasError, error_context

# CIFAR-100's one batch has 154 MB and 200,000 opcodes, four per image.
MOST_BYTES = 1 << 28
MOST_OPCODES = 200_000

# How often an opcode may occur; those of single labels, names and puts as often as there are any.
_OFTEN = ("MARK", "APPENDS", "SHORT_BINSTRING", "BININT1", "BINPUT", "LONG_BINPUT")
_OPCODES = dict.fromkeys(_OFTEN, MOST_OPCODES) | {
    "PROTO": 1,
    "EMPTY_DICT": 1,
    "EMPTY_LIST": 3,
    "GLOBAL": 3,
    "REDUCE": 2,
    "BUILD": 2,
    "TUPLE": 2,
    "TUPLE1": 1,
    "TUPLE2": 1,
    "TUPLE3": 2,
    "NONE": 3,
    "NEWFALSE": 1,
    "BININT": 4,
    "BININT2": 2,
    "BINSTRING": 1,
    "SETITEMS": 1,
    "STOP": 1,
}


_NAMES = ("numpy.core.multiarray._reconstruct", "numpy.ndarray", "numpy.dtype")


class _Inert:
    """Stands in for what a pickle calls: it keeps the arguments and the state, and does nothing."""

    def __init__(self, name: str, *arguments: Any) -> None:
        self.name, self.arguments = name, arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Unpickler(pickle.Unpickler):
    """Knows `_NAMES` and nothing else."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        name = f"{module_name}.{global_name}"
        if name not in _NAMES:
            raise _refusal(f"asks for {name}")
        return partial(_Inert, name)


def read_pickle(path: Path, features: int, key: str) -> tuple[np.ndarray, np.ndarray]:
    """Read one batch → pixels (n, features) uint8 and raw labels (n,) int64.

    key: what the batch calls the labels that count.
    Raises FedatlasError, naming the file, when it holds anything but a batch of such images;
    nothing of it has been executed then. OSError when it cannot be read.
    """
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise FedatlasError(
            f"{path}: is {size} bytes long, more than any batch of CIFAR has; download it again"
        )
    with error_context(path):
        content = path.read_bytes()
        _check_opcodes(content)
        unpickler = _Unpickler(io.BytesIO(content), fix_imports=False, encoding="bytes")
        try:
            batch = unpickler.load()
        except FedatlasError:
            raise
        except Exception as error:  # a damaged pickle can make an unpickler raise anything
            raise _refusal(f"is damaged ({type(error).__name__}: {error})") from error
        return _images(batch, features, key)


def _check_opcodes(content: bytes) -> None:
    """Refuse a pickle that is made of anything but what batches are made of, before it is run."""
    left = dict(_OPCODES)
    end = 0
    try:
        for opcode, argument, position in pickletools.genops(content):
            end = (position or 0) + 1
            left[opcode.name] = left.get(opcode.name, 0) - 1
            if left[opcode.name] < 0:
                raise _refusal(f"has the opcode {opcode.name} at byte {position}")
            # The memo is as long as its largest index.
            if opcode.name == "LONG_BINPUT" and (argument or 0) > MOST_OPCODES:
                raise _refusal(f"puts into place {argument} of its memo at byte {position}")
    except ValueError as error:
        raise _refusal(f"is no whole pickle ({error})") from error
    # The last opcode is STOP, which has no argument.
    if end != len(content):
        raise _refusal("goes on after its end")


def _images(batch: Any, features: int, key: str) -> tuple[np.ndarray, np.ndarray]:
    """What numpy would make of the array in a batch, if it is one of bytes in rows."""
    labels = batch.get(key.encode()) if isinstance(batch, dict) else None
    match batch:
        case {
            b"data": _Inert(
                name="numpy.core.multiarray._reconstruct",
                state=(
                    1,
                    (int(rows), int(columns)),
                    _Inert(name="numpy.dtype", arguments=(b"u1", *_)),
                    False,
                    bytes(pixels),
                ),
            ),
        } if isinstance(labels, list):
            pass
        case _:
            if isinstance(batch, dict) and b"fine_labels" in batch and key == "labels":
                raise FedatlasError("has fine and coarse labels: state 'cifar_label: fine'")
            raise _refusal(f"lacks '{key}' in a list, or 'data' as rows of unsigned bytes")
    if columns != features:
        raise FedatlasError(
            f"its images have {columns} values, expected {features}: the file and the catalogue's "
            "'shape' do not belong together"
        )
    if rows < 1 or len(pixels) != rows * columns or len(labels) != rows:
        raise _refusal(
            f"promises {rows} images of {columns} bytes, but holds {len(pixels)} bytes and "
            f"{len(labels)} labels"
        )
    if not all(type(label) is int for label in labels):
        raise _refusal("has a label that is no whole number")
    return np.frombuffer(pixels, np.uint8).reshape(rows, columns), np.array(labels, np.int64)


def _refusal(problem: str) -> FedatlasError:
    return FedatlasError(
        f"{problem}; refused, since it is not as CIFAR's Python batches are: download it again"
    )
