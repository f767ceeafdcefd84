"""Messages between parties, and commands and answers of the launching process and parties.

A message between parties is a header and a payload. The header says what it is, which iteration of
which dominator it belongs to, and when it was sent; the payload holds the numbers that the paper
counts. Commands of the launching process go over a channel of their own: it starts and ends rounds,
deals out samples, and gathers what is measured and kept. It sees all blocks; none of that is part
of the protocol, and none of it is counted.
"""

import os
import socket
import struct
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import Any, NamedTuple, Self

import numpy as np

from fedatlas.federations.vertical.problem import UpdateRule
from fedatlas.schema.network_model import NetworkModel
from fedatlas.schema.objectives import LinearObjective

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
    """The header of a message."""
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


class BlockState(NamedTuple):
    """A block between two rounds: w, mean (d_ℓ,); reference (n,) or (0,); updates it has had."""

    w: np.ndarray
    mean: np.ndarray
    reference: np.ndarray
    applied: int


#: What takes time: from a request to its share, from ϑ to its update, from sender to receiver.
TIMED = ("share", "update", "message")


class RoundLog(NamedTuple):
    """One party's notes of one round; times in seconds of its clock.

    reads (reads, 3): dominator, iteration, updates that the block had had. applications (updates,
    4): dominator, iteration, time, updates since the read. decisions (decisions, 2): iteration,
    time. seconds: by `TIMED`.
    """

    reads: np.ndarray
    applications: np.ndarray
    decisions: np.ndarray
    seconds: dict[str, np.ndarray]


class Notes:
    """Notes of the round under way."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.reads: list[tuple[int, int, int]] = []
        self.applications: list[tuple[int, int, float, int]] = []
        self.decisions: list[tuple[int, float]] = []
        self.seconds: dict[str, list[float]] = {name: [] for name in TIMED}

    @property
    def log(self) -> RoundLog:
        """All of them."""
        return RoundLog(
            np.array(self.reads, dtype=np.int64).reshape(-1, 3),
            np.array(self.applications).reshape(-1, 4),
            np.array(self.decisions).reshape(-1, 2),
            {name: np.array(values) for name, values in self.seconds.items()},
        )


#: Environment variable that holds the key by which a group's processes know each other, in hex.
KEY_VARIABLE = "FEDATLAS_PARTY_KEY"


class Hello(NamedTuple):
    """A party has read its file. process: its number."""

    party: int
    process: int


class Setup(NamedTuple):
    """The objective, and the network that adds to times. Answered by "ready"."""

    objective: LinearObjective
    network: NetworkModel | None


class Load(NamedTuple):
    """Go on from a block, with the updates it has had. Answered by "ready"."""

    state: BlockState


class Round(NamedTuple):
    """A round of so many dominated updates is about to begin. Answered by "ready"."""

    rule: UpdateRule
    updates: int


class Samples(NamedTuple):
    """Samples that a dominator may draw, in this order; none says that there are no more."""

    rows: list[int]


class Settle(NamedTuple):
    """Report when the block has had so many updates in this round. Answered by a Report."""

    updates: int


class Pass(NamedTuple):
    """A pass over all samples. Answered by a Report."""

    rule: UpdateRule


class Failed(NamedTuple):
    """A party cannot go on, and ends."""

    reason: str


class Traffic(NamedTuple):
    """Bytes and messages sent so far, counted where they were sent.

    numbers_up, numbers_down: bytes of the numbers that the paper counts, towards dominators by the
    trees, and ϑ with its sample. socket_bytes, socket_messages: all that was handed to sockets,
    with requests, headers and framing.
    """

    numbers_up: int = 0
    numbers_down: int = 0
    socket_bytes: int = 0
    socket_messages: int = 0

    def plus(self, other: Self, times: int = 1) -> Self:
        """Return it with so many times the other added."""
        return type(self)(*(a + times * b for a, b in zip(self, other, strict=True)))


class Report(NamedTuple):
    """A party at the end of a round; finished: when, in seconds of its clock."""

    state: BlockState
    log: RoundLog
    finished: float
    traffic: Traffic


def key_of_group() -> bytes:
    """The group's key, from the environment."""
    return bytes.fromhex(os.environ[KEY_VARIABLE])


def accepted(connection: socket.socket, key: bytes) -> Connection:
    """The launching process's end of a channel; an error of `multiprocessing` for a stranger."""
    channel = Connection(connection.detach())
    deliver_challenge(channel, key)
    answer_challenge(channel, key)
    return channel


def connected(address: tuple[str, int], key: bytes) -> Connection:
    """A party's end of its channel to the launching process."""
    connection = socket.create_connection(address)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    channel = Connection(connection.detach())
    answer_challenge(channel, key)
    deliver_challenge(channel, key)
    return channel
