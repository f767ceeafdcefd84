"""Messages between parties, how they travel, and what parties tell the launching process.

A message between parties is a header and a payload. The header says what it is, which iteration of
which dominator it belongs to, and when it was sent; the payload holds the numbers that the paper
counts. Commands of the launching process go over a channel of their own, as names of a party's
methods with their arguments: they start and end rounds, deal out samples, and gather what is
measured and kept. The launching process sees all blocks; none of that is part of the protocol, and
none of it is counted.

Messages travel by sockets on one machine, or by MPI; nothing else knows which of the two it is.
"""

import select
import socket
import struct
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Mapping
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


_LENGTH = struct.Struct("<I")
_CHUNK = 1 << 16
# Between two looks for a message by MPI, which knows no wait that lets the core go.
_SHORTEST, _LONGEST = 1e-5, 1e-4  # s


class Transport(ABC):
    """Messages between a party and all others, in order for each pair.

    traffic: socket_bytes, socket_messages, what was handed to the sockets, with all framing.
    """

    def __init__(self) -> None:
        self.traffic: Counter[str] = Counter()

    def send(self, party: int, message: bytes) -> None:
        """Hand a message over; never waits for the receiver."""
        self.traffic["socket_bytes"] += self._hand_over(party, message)
        self.traffic["socket_messages"] += 1

    @abstractmethod
    def _hand_over(self, party: int, message: bytes) -> int:
        """Send the message; return how many bytes it took."""

    @abstractmethod
    def receive(self) -> tuple[int, bytes] | None:
        """Return a sender and its message, of any party, if one has arrived; never waits."""

    @abstractmethod
    def wait(self, seconds: float, control: int) -> None:
        """Return when a message has arrived, the descriptor can be read, or the time is over."""


class _Peer:
    """One end of a connection: what has arrived in part, and what the kernel has not taken yet."""

    def __init__(self, party: int, descriptor: int) -> None:
        self.party, self.socket = party, socket.socket(fileno=descriptor)
        self.socket.setblocking(False)
        self.fileno = self.socket.fileno
        self.arrived, self.leaving = bytearray(), bytearray()


class SocketTransport(Transport):
    """Processes of one machine, connected in pairs by the process that started them."""

    def __init__(self, descriptors: Mapping[int, int]) -> None:
        """descriptors: of this party's end of each connection, by the other party."""
        super().__init__()
        self._inbox: deque[tuple[int, bytes]] = deque()
        self._peers = {party: _Peer(party, number) for party, number in descriptors.items()}

    def _hand_over(self, party: int, message: bytes) -> int:
        framed = _LENGTH.pack(len(message)) + message
        if party in self._peers:
            self._peers[party].leaving += framed
            self._flush(self._peers[party])
        return len(framed)

    def receive(self) -> tuple[int, bytes] | None:
        if not self._inbox:
            self._poll(0.0)
        return self._inbox.popleft() if self._inbox else None

    def wait(self, seconds: float, control: int) -> None:
        if not self._inbox:
            self._poll(seconds, control)

    def _poll(self, seconds: float, *others: int) -> None:
        peers: list[Any] = list(self._peers.values())
        leaving = [peer for peer in peers if peer.leaving]
        readable, writable, _ = select.select([*peers, *others], leaving, [], max(seconds, 0.0))
        for peer in writable:
            self._flush(peer)
        for peer in readable:
            if peer in self._peers.values():
                self._read(peer)

    def _read(self, peer: _Peer) -> None:
        try:
            found = peer.socket.recv(_CHUNK)
        except ConnectionError:
            found = b""
        if not found:
            self._lose(peer)
            return
        peer.arrived += found
        start = 0
        while len(peer.arrived) - start >= _LENGTH.size:
            end = start + _LENGTH.size + _LENGTH.unpack_from(peer.arrived, start)[0]
            if len(peer.arrived) < end:
                break
            self._inbox.append((peer.party, bytes(peer.arrived[start + _LENGTH.size : end])))
            start = end
        del peer.arrived[:start]

    def _flush(self, peer: _Peer) -> None:
        try:
            del peer.leaving[: peer.socket.send(peer.leaving)]
        except BlockingIOError:
            return
        except ConnectionError:
            self._lose(peer)

    def _lose(self, peer: _Peer) -> None:
        """Forget a party that has ended; the launching process sees that, too, and says which."""
        del self._peers[peer.party]
        peer.socket.close()


class MpiTransport(Transport):
    """Point-to-point messages of all processes of one `mpirun`; a party is its rank."""

    def __init__(self) -> None:
        """Start MPI, with a communicator that is a copy, so that nothing else can meddle."""
        super().__init__()
        import mpi4py

        mpi4py.rc.threads = False  # one thread sends and receives
        from mpi4py import MPI

        self._mpi, self._all, self._status = MPI, MPI.COMM_WORLD.Dup(), MPI.Status()
        self.rank = int(self._all.Get_rank())
        # MPI reads a message until its request is complete.
        self._leaving: list[tuple[MPI.Request, bytes]] = []

    def _hand_over(self, party: int, message: bytes) -> int:
        self._leaving = [(sent, kept) for sent, kept in self._leaving if not sent.Test()]
        self._leaving.append((self._all.Isend([message, self._mpi.BYTE], dest=party), message))
        return len(message)

    def _has_arrived(self) -> bool:
        any_sender, any_tag = self._mpi.ANY_SOURCE, self._mpi.ANY_TAG
        return bool(self._all.Iprobe(any_sender, any_tag, self._status))

    def receive(self) -> tuple[int, bytes] | None:
        if not self._has_arrived():
            return None
        sender = self._status.Get_source()
        message = np.empty(self._status.Get_count(self._mpi.BYTE), np.uint8)
        self._all.Recv([message, self._mpi.BYTE], source=sender)
        return sender, message.tobytes()

    def wait(self, seconds: float, control: int) -> None:
        until, pause = time.monotonic() + seconds, _SHORTEST
        while not self._has_arrived():
            left = until - time.monotonic()
            if left <= 0 or select.select([control], [], [], min(pause, left))[0]:
                return
            pause = min(2 * pause, _LONGEST)
