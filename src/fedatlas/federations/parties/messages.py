"""What parties send to one another, as bytes.

A message is a header and a payload. The header says what it is, which iteration of which dominator
it belongs to, and when it was sent; the payload holds the numbers that the paper counts.
"""

import struct
from typing import NamedTuple

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

_ONE_SAMPLE = struct.Struct("<q")
_ONE_NUMBER = struct.Struct("<d")
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


def number(header: Header, value: float) -> bytes:
    """A partial sum of masked shares or of masks."""
    return _HEADER.pack(*header) + _ONE_NUMBER.pack(value)


def slope(header: Header, value: float, row: int) -> bytes:
    """(ϑ, i)."""
    return _HEADER.pack(*header) + _SLOPE_OF_SAMPLE.pack(value, row)


def numbers(header: Header, values: np.ndarray) -> bytes:
    """One number of every sample, (n,)."""
    return _HEADER.pack(*header) + values.astype("<f8").tobytes()


def header_of(message: bytes) -> Header:
    """What a message is."""
    return Header(*_HEADER.unpack_from(message))


def row_of(message: bytes) -> int:
    """The sample that a request names."""
    row: int = _ONE_SAMPLE.unpack_from(message, HEADER_BYTES)[0]
    return row


def number_of(message: bytes) -> float:
    """A partial sum."""
    value: float = _ONE_NUMBER.unpack_from(message, HEADER_BYTES)[0]
    return value


def slope_of(message: bytes) -> tuple[float, int]:
    """ϑ and its sample."""
    value, row = _SLOPE_OF_SAMPLE.unpack_from(message, HEADER_BYTES)
    return value, row


def numbers_of(message: bytes) -> np.ndarray:
    """One number of every sample, (n,)."""
    return np.frombuffer(message, "<f8", offset=HEADER_BYTES).astype(np.float64)
