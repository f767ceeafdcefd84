"""How messages get from one party to another: by sockets on one machine, or by MPI.

Nothing else knows which of the two carries them.
"""

import select
import socket
import struct
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping

import numpy as np

_LENGTH = struct.Struct("<I")
_CHUNK = 1 << 16
# Between two looks for a message by MPI, which knows no wait that lets the core go.
_SHORTEST, _LONGEST = 1e-5, 1e-4  # s


class Transport(ABC):
    """Messages between a party and all others, in order for each pair.

    handed_bytes, handed_messages: what was handed to the sockets so far, with all framing.
    """

    def __init__(self) -> None:
        self.handed_bytes = self.handed_messages = 0

    def send(self, party: int, message: bytes) -> None:
        """Hand a message over; never waits for the receiver."""
        self.handed_bytes += self._hand_over(party, message)
        self.handed_messages += 1

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

    def __init__(self, descriptor: int) -> None:
        self.socket = socket.socket(fileno=descriptor)
        self.socket.setblocking(False)
        self.arrived, self.leaving = bytearray(), bytearray()


class SocketTransport(Transport):
    """Processes of one machine, connected in pairs by the process that started them."""

    def __init__(self, descriptors: Mapping[int, int]) -> None:
        """descriptors: of this party's end of each connection, by the other party."""
        super().__init__()
        self._inbox: deque[tuple[int, bytes]] = deque()
        self._peers = {party: _Peer(number) for party, number in descriptors.items()}
        self._parties = {number: party for party, number in descriptors.items()}

    def _hand_over(self, party: int, message: bytes) -> int:
        framed = _LENGTH.pack(len(message)) + message
        if party in self._peers:
            self._peers[party].leaving += framed
            self._flush(party)
        return len(framed)

    def receive(self) -> tuple[int, bytes] | None:
        if not self._inbox:
            self._poll(0.0)
        return self._inbox.popleft() if self._inbox else None

    def wait(self, seconds: float, control: int) -> None:
        if not self._inbox:
            self._poll(seconds, control)

    def _poll(self, seconds: float, *others: int) -> None:
        blocked = [peer.socket.fileno() for peer in self._peers.values() if peer.leaving]
        readable, writable, _ = select.select(
            [*self._parties, *others], blocked, [], max(seconds, 0.0)
        )
        for descriptor in writable:
            self._flush(self._parties[descriptor])
        for descriptor in readable:
            if descriptor in self._parties:
                self._read(self._parties[descriptor])

    def _read(self, party: int) -> None:
        peer = self._peers[party]
        try:
            found = peer.socket.recv(_CHUNK)
        except ConnectionError:
            found = b""
        if not found:
            self._lose(party)
            return
        peer.arrived += found
        start = 0
        while len(peer.arrived) - start >= _LENGTH.size:
            end = start + _LENGTH.size + _LENGTH.unpack_from(peer.arrived, start)[0]
            if len(peer.arrived) < end:
                break
            self._inbox.append((party, bytes(peer.arrived[start + _LENGTH.size : end])))
            start = end
        del peer.arrived[:start]

    def _flush(self, party: int) -> None:
        peer = self._peers[party]
        try:
            del peer.leaving[: peer.socket.send(peer.leaving)]
        except BlockingIOError:
            return
        except ConnectionError:
            self._lose(party)

    def _lose(self, party: int) -> None:
        """Forget a party that has ended; the launching process sees that, too, and says which."""
        peer = self._peers.pop(party)
        del self._parties[peer.socket.fileno()]
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
