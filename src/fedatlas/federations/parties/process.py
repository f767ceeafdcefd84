"""The process of one party: `python -m fedatlas.federations.parties.process --party 0 …`.

It opens one file, its own. It ends when the launching process does, for whatever reason.
"""

import argparse
import os
import select
import signal
import time
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fedatlas.errors import FedatlasError
from fedatlas.federations.parties.messages import (
    Failed,
    Hello,
    Load,
    Pass,
    Report,
    Round,
    Samples,
    Settle,
    Setup,
    Traffic,
    connected,
    key_of_group,
)
from fedatlas.federations.parties.party import OwnBlock, Party
from fedatlas.federations.parties.transport import MpiTransport, SocketTransport, Transport
from fedatlas.federations.vertical.machines import InjectedTimes
from fedatlas.federations.vertical.secure_sum import PrivateMasks
from fedatlas.federations.vertical.shards import OwnRows, read_own_rows
from fedatlas.schema.network_model import NetworkModel

_IDLE = 1.0  # s, the longest sleep


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
    control = connected((host, int(port)), key_of_group())
    try:
        own = read_own_rows(told.shard)
        if own.party != told.party:
            raise FedatlasError(f"{told.shard}: is of party {own.party}, not {told.party}")
        transport: Transport
        if told.mpi:
            transport = MpiTransport()
            if transport.rank != own.party:
                raise FedatlasError(f"party {own.party} was started as rank {transport.rank}")
        else:
            others = [other for other in range(own.parties) if other != own.party]
            transport = SocketTransport(dict(zip(others, told.sockets, strict=True)))
        control.send(Hello(own.party, os.getpid()))
        _serve(control, own, transport)
    except (EOFError, ConnectionError):  # the launching process has ended
        os._exit(0)
    except FedatlasError as error:
        control.send(Failed(str(error)))
        os._exit(1)
    except Exception:
        control.send(Failed(traceback.format_exc()))
        os._exit(1)


def _set_up(control: Connection, own: OwnRows, transport: Transport, setup: Setup) -> Party:
    """A party that knows what is to be minimised."""
    block = OwnBlock(own.rows, setup.objective)
    masks = (setup.network or NetworkModel()).masks
    return Party(
        *(own.party, own.parties, own.active, block, transport),
        InjectedTimes(setup.network, block.width, own.party, own.parties, own.active),
        PrivateMasks(masks, own.parties),
        control.send,
    )


def _serve(control: Connection, own: OwnRows, transport: Transport) -> None:
    """One loop: messages, what is due, commands; until the channel is closed."""
    descriptor = control.fileno()
    setup: Setup = control.recv()
    party = _set_up(control, own, transport, setup)
    control.send("ready")
    updates: int | None = None  # in this round, at which a report is due
    passing = False
    while True:
        while (arrived := transport.receive()) is not None:
            party.handle(*arrived)
        party.timers.run()
        if select.select([descriptor], [], [], 0.0)[0]:
            command: Any = control.recv()
            if isinstance(command, Samples):
                party.give(command.rows)
            elif isinstance(command, Settle):
                updates = command.updates
            elif isinstance(command, Pass):
                passing = True
                party.begin_pass(command.rule)
            else:
                if isinstance(command, Round):
                    party.begin_round(*command)
                elif isinstance(command, Load):
                    party.block.load(command.state)
                elif isinstance(command, Setup):
                    transport.handed_bytes = transport.handed_messages = 0
                    party = _set_up(control, own, transport, command)
                control.send("ready")
        if party.applied_all(updates) or (passing and party.referred):
            updates, passing = None, False
            control.send(_report(party, transport))
        transport.wait(party.timers.until_next(_IDLE), descriptor)


def _report(party: Party, transport: Transport) -> Report:
    log = party.notes.log
    finished = log.applications[-1, 2] if len(log.applications) else time.time()
    traffic = Traffic(
        party.numbers_up, party.numbers_down, transport.handed_bytes, transport.handed_messages
    )
    return Report(party.block.state, log, float(finished), traffic)


if __name__ == "__main__":
    main()
