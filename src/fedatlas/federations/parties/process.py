"""The process of one party: `python -m fedatlas.federations.parties.process --party 0 …`.

It opens one file, its own. It ends when the launching process does, for whatever reason.
"""

import argparse
import os
import select
import signal
import socket
import traceback
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path

from fedatlas.errors import FedatlasError
from fedatlas.federations.parties.messages import (
    KEY_VARIABLE,
    MpiTransport,
    SocketTransport,
    Transport,
)
from fedatlas.federations.parties.party import OwnBlock, Party
from fedatlas.federations.vertical.machines import InjectedTimes
from fedatlas.federations.vertical.secure_sum import PrivateMasks
from fedatlas.federations.vertical.shards import OwnRows, read_own_rows
from fedatlas.schema.network_model import NetworkModel
from fedatlas.schema.objectives import LinearObjective

_IDLE = 1.0  # s, the longest sleep
_ANSWERED = ("set_up", "load", "begin_round")  # by "ready"


def main() -> None:
    """Serve until the launching process closes the channel."""
    options = argparse.ArgumentParser(description="One party of a vertical method.")
    options.add_argument("--party", type=int, required=True)
    options.add_argument("--shard", type=Path, required=True, help="the party's own file")
    options.add_argument("--control", required=True, help="HOST:PORT of the launching process")
    options.add_argument("--mpi", action="store_true", help="send by MPI, started by mpirun")
    options.add_argument(
        "--sockets", type=int, nargs="*", default=(), help="descriptors of ends, by other party"
    )
    told = options.parse_args()
    # The launching process notes signals, ends its round and closes the channel.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    host, _, port = told.control.rpartition(":")
    control = _connected(host, int(port))
    try:
        own = read_own_rows(told.shard)
        if own.party != told.party:
            raise FedatlasError(f"{told.shard}: is of party {own.party}, not {told.party}")
        transport: Transport
        if told.mpi:
            transport = MpiTransport()
            if transport.rank != own.party:
                raise FedatlasError(f"it was started as rank {transport.rank}")
        else:
            others = [other for other in range(own.parties) if other != own.party]
            transport = SocketTransport(dict(zip(others, told.sockets, strict=True)))
        control.send((own.party, os.getpid()))
        _serve(control, own, transport)
    except (EOFError, ConnectionError):  # the launching process has ended
        os._exit(0)
    except Exception as error:
        reason = str(error) if isinstance(error, FedatlasError) else traceback.format_exc()
        control.send(FedatlasError(f"party {told.party}: {reason}"))
        os._exit(1)


def _connected(host: str, port: int) -> Connection:
    """The party's end of its channel to the launching process; both prove that they know a key."""
    connection = socket.create_connection((host, port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    channel, key = Connection(connection.detach()), bytes.fromhex(os.environ[KEY_VARIABLE])
    answer_challenge(channel, key)
    deliver_challenge(channel, key)
    return channel


def _serve(control: Connection, own: OwnRows, transport: Transport) -> None:
    """One loop: messages, what is due, commands; until the channel is closed."""

    def set_up(objective: LinearObjective, network: NetworkModel | None) -> Party:
        block = OwnBlock(own.rows, objective)
        return Party(
            *(own.party, own.parties, own.active, block, transport),
            InjectedTimes(network, block.width, own.party, own.parties, own.active),
            PrivateMasks((network or NetworkModel()).masks, own.parties),
            control.send,
        )

    _, arguments = control.recv()
    party = set_up(*arguments)
    control.send("ready")
    while True:
        while (arrived := transport.receive()) is not None:
            party.handle(*arrived)
        if select.select([control], [], [], 0.0)[0]:
            command, arguments = control.recv()
            if command == "set_up":
                party = set_up(*arguments)
            else:
                getattr(party, command)(*arguments)
            if command in _ANSWERED:
                control.send("ready")
        left = party.run_planned()
        if (report := party.report()) is not None:
            control.send(report)
        transport.wait(_IDLE if left is None else min(left, _IDLE), control.fileno())


if __name__ == "__main__":
    main()
