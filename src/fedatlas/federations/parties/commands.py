"""What the launching process tells parties, and what they tell it, over a channel of its own.

It starts and ends rounds, deals out samples, and gathers what is measured and kept. It sees all
blocks; none of it is part of the protocol, and none of it is counted.
"""

import os
import socket
from collections.abc import Sequence
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import NamedTuple

from fedatlas.federations.parties.block import BlockState
from fedatlas.federations.parties.log import RoundLog
from fedatlas.federations.vertical.problem import UpdateRule
from fedatlas.schema.network_model import NetworkModel
from fedatlas.schema.objectives import LinearObjective

#: Environment variable that holds the key by which a group's processes know each other, in hex.
KEY_VARIABLE = "FEDATLAS_PARTY_KEY"


class Hello(NamedTuple):
    """A party has read its file. address: where it listens for others, for TCP."""

    party: int
    process: int
    address: tuple[str, int] | None


class Meet(NamedTuple):
    """Connect to each other; where all parties listen. Answered by "ready"."""

    addresses: Sequence[tuple[str, int]]


class Setup(NamedTuple):
    """What is to be minimised, and what the network adds. Answered by "ready"."""

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
    """What was sent so far, counted where it was sent.

    numbers_up, numbers_down: bytes of the numbers that the paper counts, towards dominators by the
    trees, and ϑ with its sample. socket_bytes, socket_messages: all that was handed to sockets,
    with requests, headers and framing.
    """

    numbers_up: int = 0
    numbers_down: int = 0
    socket_bytes: int = 0
    socket_messages: int = 0

    def plus(self, other: "Traffic", times: int = 1) -> "Traffic":
        """With so many times the other added."""
        return Traffic(*(a + times * b for a, b in zip(self, other, strict=True)))


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
