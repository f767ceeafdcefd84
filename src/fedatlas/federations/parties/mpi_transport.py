"""Messages by MPI, between processes that `mpirun` has started, on one node or several."""

import select
import time

import mpi4py
import numpy as np

from fedatlas.federations.parties.transport import Transport

mpi4py.rc.threads = False  # one thread sends and receives

from mpi4py import MPI  # noqa: E402  (starts MPI)

# Between two looks for a message: MPI knows no wait that lets the core go.
_SHORTEST, _LONGEST = 1e-5, 1e-4  # s


class MpiTransport(Transport):
    """Point-to-point messages of all processes of one `mpirun`; a party is its rank."""

    def __init__(self) -> None:
        """The communicator is a copy, so that nothing else can meddle."""
        super().__init__()
        self._all = MPI.COMM_WORLD.Dup()
        self._status = MPI.Status()
        # MPI reads a message until its request is complete.
        self._leaving: list[tuple[MPI.Request, bytes]] = []

    @staticmethod
    def rank() -> int:
        """The number of this process."""
        return int(MPI.COMM_WORLD.Get_rank())

    def _hand_over(self, party: int, message: bytes) -> int:
        self._leaving = [(sent, kept) for sent, kept in self._leaving if not sent.Test()]
        self._leaving.append((self._all.Isend([message, MPI.BYTE], dest=party), message))
        return len(message)

    def receive(self) -> tuple[int, bytes] | None:
        if not self._all.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, self._status):
            return None
        sender = self._status.Get_source()
        message = np.empty(self._status.Get_count(MPI.BYTE), np.uint8)
        self._all.Recv([message, MPI.BYTE], source=sender)
        return sender, message.tobytes()

    def wait(self, seconds: float, control: int) -> None:
        until, pause = time.monotonic() + seconds, _SHORTEST
        while not self._all.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG, self._status):
            left = until - time.monotonic()
            if left <= 0 or select.select([control], [], [], min(pause, left))[0]:
                return
            pause = min(2 * pause, _LONGEST)

    def close(self) -> None:
        MPI.Request.Waitall([sent for sent, _ in self._leaving])
