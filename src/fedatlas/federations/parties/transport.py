"""How messages get from one party to another: one small interface, and TCP on one machine.

`mpi_transport` is the other implementation. Nothing else knows which of the two carries it.
"""

import hmac
import select
import socket
import struct
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence

_LENGTH = struct.Struct("<I")
_HELLO = struct.Struct("<32sI")
_CHUNK = 1 << 16
_SECONDS_TO_CONNECT = 60.0


class Transport(ABC):
    """Messages between a party and all others, in order for each pair.

    handed_bytes, handed_messages: what was handed to the sockets so far, with all framing.
    """

    def __init__(self) -> None:
        """Nothing has been sent."""
        self.handed_bytes = self.handed_messages = 0

    def forget_counts(self) -> None:
        """Count from 0 again."""
        self.handed_bytes = self.handed_messages = 0

    def send(self, party: int, message: bytes) -> None:
        """Hand a message over; never waits for the receiver."""
        self.handed_bytes += self._hand_over(party, message)
        self.handed_messages += 1

    @abstractmethod
    def _hand_over(self, party: int, message: bytes) -> int:
        """How many bytes it took."""

    @abstractmethod
    def receive(self) -> tuple[int, bytes] | None:
        """A sender and its message, of any party, if one has arrived; never waits."""

    @abstractmethod
    def wait(self, seconds: float, control: int) -> None:
        """Until a message has arrived, the file descriptor can be read, or the time is over."""

    @abstractmethod
    def close(self) -> None:
        """No more messages."""


class _Peer:
    """One connection: what has arrived in part, and what the kernel has not taken yet."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket, self.arrived, self.leaving = connection, bytearray(), bytearray()


class TcpTransport(Transport):
    """Processes of one machine, each connected to each other by a socket on localhost."""

    def __init__(
        self, party: int, server: socket.socket, addresses: Sequence[tuple[str, int]], key: bytes
    ) -> None:
        """Connect to all others; returns when all have connected.

        server: this party's listening socket. addresses: of all parties' servers. key: 32 bytes
        that only parties of the group know.
        """
        super().__init__()
        self._inbox: deque[tuple[int, bytes]] = deque()
        found: dict[int, socket.socket] = {}
        for other in range(party):
            connection = socket.create_connection(addresses[other], _SECONDS_TO_CONNECT)
            connection.sendall(_HELLO.pack(key, party))
            found[other] = connection
        server.settimeout(_SECONDS_TO_CONNECT)
        while len(found) < len(addresses) - 1:
            connection, _ = server.accept()
            connection.settimeout(_SECONDS_TO_CONNECT)
            hello = connection.recv(_HELLO.size, socket.MSG_WAITALL)
            if len(hello) == _HELLO.size and hmac.compare_digest(hello[:32], key):
                found[_HELLO.unpack(hello)[1]] = connection
            else:
                connection.close()
        server.close()
        self._peers = {other: _Peer(connection) for other, connection in found.items()}
        self._by_descriptor = {peer.socket.fileno(): other for other, peer in self._peers.items()}

    def _hand_over(self, party: int, message: bytes) -> int:
        framed = _LENGTH.pack(len(message)) + message
        peer = self._peers.get(party)
        if peer is not None:
            peer.leaving += framed
            self._flush(party, peer)
        return len(framed)

    def receive(self) -> tuple[int, bytes] | None:
        if not self._inbox:
            self._poll(0.0)
        return self._inbox.popleft() if self._inbox else None

    def wait(self, seconds: float, control: int) -> None:
        if not self._inbox:
            self._poll(seconds, control)

    def close(self) -> None:
        for peer in self._peers.values():
            peer.socket.close()

    def _poll(self, seconds: float, *others: int) -> None:
        blocked = [peer.socket for peer in self._peers.values() if peer.leaving]
        readable, writable, _ = select.select(
            [*self._by_descriptor, *others], blocked, [], max(seconds, 0.0)
        )
        for connection in writable:
            party = self._by_descriptor[connection.fileno()]
            self._flush(party, self._peers[party])
        for descriptor in readable:
            if descriptor in self._by_descriptor:
                self._read(self._by_descriptor[descriptor])

    def _read(self, party: int) -> None:
        peer = self._peers[party]
        try:
            found = peer.socket.recv(_CHUNK)
        except BlockingIOError:
            return
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

    def _flush(self, party: int, peer: _Peer) -> None:
        try:
            del peer.leaving[: peer.socket.send(peer.leaving)]
        except BlockingIOError:
            return
        except ConnectionError:
            self._lose(party)

    def _lose(self, party: int) -> None:
        """A party has ended. The launching process sees that, too, and says which."""
        peer = self._peers.pop(party)
        del self._by_descriptor[peer.socket.fileno()]
        peer.socket.close()
