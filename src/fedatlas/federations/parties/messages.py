"""Messages between parties, and what parties tell the launching process.

A message between parties is a header and a payload. The header says what it is, which iteration of
which dominator it belongs to, and when it was sent; the payload holds the numbers that the paper
counts. Commands of the launching process go over a channel of their own, as names of a party's
methods with their arguments: they start and end rounds, deal out samples, and gather what is
measured and kept. The launching process sees all blocks; none of that is part of the protocol, and
none of it is counted.
"""

import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

_HEADER = struct.Struct("<BHId")
HEADER_BYTES = _HEADER.size

#: Kinds. A request names a sample; masked shares and masks go up their trees; (ϑ, i) goes to all.
REQUEST, MASKED, MASK, SLOPE = 1, 2, 3, 4
#: Kinds of masked shares and of masks, by tree.
SUMMED = (MASKED, MASK)
#: Iterations count from 0 in every round; a pass has this one, with the numbers of all samples.
PASS = (1 << 32) - 1


class Header(NamedTuple):
    """sent: seconds of the sender's clock, when it made the message."""

    kind: int
    dominator: int
    iteration: int
    sent: float


def packed(header: Header, values: ArrayLike) -> bytes:
    """A message with numbers of eight bytes, (n,)."""
    return _HEADER.pack(*header) + np.asarray(values).tobytes()


def header_of(message: bytes) -> Header:
    """The header of a message."""
    return Header(*_HEADER.unpack_from(message))


def numbers_of(message: bytes, dtype: Any = np.float64) -> np.ndarray:
    """The numbers, (n,)."""
    return np.frombuffer(message, np.uint8, offset=HEADER_BYTES).copy().view(dtype)


class BlockState(NamedTuple):
    """A block between two rounds: w, mean (d_ℓ,); reference (n,) or (0,); updates it has had."""

    w: np.ndarray
    mean: np.ndarray
    reference: np.ndarray
    applied: int


#: What takes time: from a request to its share, from ϑ to its update, from sender to receiver.
TIMED = ("share", "update", "message")


@dataclass
class RoundLog:
    """One party's notes of one round, rows of numbers; times in seconds of its clock.

    reads: dominator, iteration, updates that the block had had. applications: dominator, iteration,
    time, updates since the read. decisions: iteration, time. seconds: by `TIMED`.
    """

    reads: list[tuple[int, int, int]] = field(default_factory=list)
    applications: list[tuple[int, int, float, int]] = field(default_factory=list)
    decisions: list[tuple[int, float]] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in TIMED})


#: Environment variable that holds the key by which a group's processes know each other, in hex.
KEY_VARIABLE = "FEDATLAS_PARTY_KEY"


class Hello(NamedTuple):
    """A party has read its file. process: its number."""

    party: int
    process: int


class Failed(NamedTuple):
    """A party cannot go on, and ends."""

    reason: str


class Report(NamedTuple):
    """A party at the end of a round; finished: when, in seconds of its clock.

    traffic: sent since the last report, counted where it was sent. numbers_up, numbers_down: bytes
    of the numbers that the paper counts, towards dominators by the trees, and ϑ with its sample.
    socket_bytes, socket_messages: all that was handed to sockets, with requests, headers, framing.
    """

    state: BlockState
    log: RoundLog
    finished: float
    traffic: Counter[str]
