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
    samples: int
    address: tuple[str, int] | None


class Setup(NamedTuple):
    """What is to be minimised, what the network adds, and where parties listen."""

    objective: LinearObjective
    network: NetworkModel | None
    addresses: Sequence[tuple[str, int]]


class Load(NamedTuple):
    """Go on from a block, with the updates it has had. Answered by "ready"."""

    state: BlockState


class Round(NamedTuple):
    """A round by this rule is about to begin. Answered by "ready"."""

    rule: UpdateRule


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


class Report(NamedTuple):
    """A party at the end of a round.

    finished: when, in seconds of its clock. payload: bytes of counted numbers that it has sent "up"
    and "down" so far. handed_bytes, handed_messages: see `Transport`.
    """

    state: BlockState
    log: RoundLog
    finished: float
    payload: dict[str, int]
    handed_bytes: int
    handed_messages: int


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
