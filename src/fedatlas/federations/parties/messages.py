"""What parties send to one another, as bytes.

A message is a header and a payload. The header says what it is, which iteration of which dominator
it belongs to, and when it was sent; the payload holds the numbers that the paper counts.
"""

import struct
from typing import Any, NamedTuple

import numpy as np

_HEADER = struct.Struct("<BHId")
HEADER_BYTES = _HEADER.size

#: Kinds. A request names a sample; masked shares and masks go up their trees; ϑ goes to all.
REQUEST, MASKED, MASK, SLOPE = 1, 2, 3, 4
#: The same for all samples at once.
ALL_MASKED, ALL_MASKS, ALL_SLOPES = 5, 6, 7
#: Kinds of masked shares and of masks, by tree: of one sample, and of all.
SUMMED, ALL_SUMMED = (MASKED, MASK), (ALL_MASKED, ALL_MASKS)
UPWARDS = frozenset((*SUMMED, *ALL_SUMMED))
DOWNWARDS = frozenset((SLOPE, ALL_SLOPES))

_FLOAT = np.dtype(np.float64)
_ONE_SAMPLE = struct.Struct("<q")
_SLOPE_OF_SAMPLE = struct.Struct("<dq")


class Header(NamedTuple):
    """sent: seconds of the sender's clock, when it made the message."""

    kind: int
    dominator: int
    iteration: int
    sent: float


def request(header: Header, row: int) -> bytes:
    """Ask for a share of a sample."""
    return _HEADER.pack(*header) + _ONE_SAMPLE.pack(row)


def slope(header: Header, value: float, row: int) -> bytes:
    """(ϑ, i)."""
    return _HEADER.pack(*header) + _SLOPE_OF_SAMPLE.pack(value, row)


def numbers(header: Header, values: np.ndarray) -> bytes:
    """Numbers of eight bytes, (n,): ϑ of every sample, or partial sums, of one sample or of all."""
    return _HEADER.pack(*header) + values.astype(values.dtype.newbyteorder("<")).tobytes()


def header_of(message: bytes) -> Header:
    """What a message is."""
    return Header(*_HEADER.unpack_from(message))


def row_of(message: bytes) -> int:
    """The sample that a request names."""
    row: int = _ONE_SAMPLE.unpack_from(message, HEADER_BYTES)[0]
    return row


def slope_of(message: bytes) -> tuple[float, int]:
    """ϑ and its sample."""
    value, row = _SLOPE_OF_SAMPLE.unpack_from(message, HEADER_BYTES)
    return value, row


def numbers_of(message: bytes, dtype: np.dtype[Any] = _FLOAT) -> np.ndarray:
    """The numbers, (n,)."""
    return np.frombuffer(message, dtype.newbyteorder("<"), offset=HEADER_BYTES).astype(dtype)
