"""A star network: one server, N clients. It carries arrays and counts what they weigh."""

from typing import Any

from fedatlas.federations.counters import Counters


class StarNetwork:
    """Carries arrays between the server and clients, counting messages and bytes.

    An array weighs its number of entries times its item size (8 bytes for float64). All arrays that
    travel to or from one client at once are one message.
    """

    def __init__(self, clients: int, counters: Counters) -> None:
        """`clients` is the size of the whole federation, N."""
        self._clients = clients
        self._counters = counters

    def broadcast(self, *arrays: Any, to: Any) -> tuple[Any, ...]:
        """Send every array from the server to each of the clients `to`; returns the arrays."""
        receivers = len(to)
        weight = receivers * sum(array.nbytes for array in arrays)
        self._counters.bytes_down += weight
        self._counters.messages += receivers
        self._counters.full_participations += receivers == self._clients
        self._counters.count_exchange(weight)  # the server carries all clients' messages
        return arrays

    def gather(self, *arrays: Any) -> tuple[Any, ...]:
        """Send arrays (senders, …) to the server, a row from each sender; returns the arrays."""
        weight = sum(array.nbytes for array in arrays)
        self._counters.bytes_up += weight
        self._counters.messages += len(arrays[0])
        self._counters.count_exchange(weight)
        return arrays
