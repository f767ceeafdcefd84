"""Starting and ending the processes of all parties: by `mpirun`, or one by one on this machine."""

import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

import fedatlas.federations.parties.process as process
from fedatlas.errors import FedatlasError
from fedatlas.federations.parties.commands import KEY_VARIABLE, accepted

#: "mpi", "tcp", or "auto": MPI where mpirun and mpi4py are there.
TRANSPORT_VARIABLE = "FEDATLAS_TRANSPORT"
_SECONDS_TO_START = 120.0
_SECONDS_TO_END = 3.0

Carrier = Literal["mpi", "tcp"]


def carrier_of(environment: Mapping[str, str]) -> Carrier:
    """By what messages travel; FedatlasError if MPI is asked for and is not there."""
    asked = environment.get(TRANSPORT_VARIABLE, "auto")
    if asked not in ("auto", "mpi", "tcp"):
        raise FedatlasError(f"{TRANSPORT_VARIABLE} is '{asked}'; it must be auto, mpi or tcp")
    lacking = []
    if shutil.which("mpirun") is None:
        lacking.append("mpirun (package openmpi-bin)")
    if importlib.util.find_spec("mpi4py") is None:
        lacking.append("mpi4py (pip install 'fedatlas[mpi]')")
    if asked == "mpi" and lacking:
        missing = " and no ".join(lacking)
        raise FedatlasError(f"{TRANSPORT_VARIABLE} is mpi, but there is no {missing}")
    return "tcp" if asked == "tcp" or lacking else "mpi"


class Processes:
    """All parties' processes, each with a channel to this one; they end with this one.

    carrier: by what parties talk to each other. channels: in the order of the parties, once all
    have said hello.
    """

    def __init__(self, shards: Sequence[Path], carrier: Carrier) -> None:
        """Start one process for each file; each is told its own file only."""
        self.carrier = carrier
        self._key = secrets.token_bytes(32)
        # Parties on other nodes come by the network. The key keeps strangers out.
        elsewhere = carrier == "mpi" and int(os.environ.get("SLURM_JOB_NUM_NODES", "1")) > 1
        self._server = socket.create_server(("" if elsewhere else "127.0.0.1", 0))
        host = socket.gethostname() if elsewhere else "127.0.0.1"
        control = f"{host}:{self._server.getsockname()[1]}"
        commands = [
            [
                *(sys.executable, "-m", process.__name__, "--party", str(party)),
                *("--shard", str(shard.resolve()), "--control", control),
            ]
            for party, shard in enumerate(shards)
        ]
        environment = os.environ | {KEY_VARIABLE: self._key.hex(), "OMP_NUM_THREADS": "1"}
        if carrier == "mpi":
            commands = [_mpirun([[*command, "--mpi"] for command in commands])]
            environment["OMPI_MCA_mpi_yield_when_idle"] = "1"
        # Of a group of their own: Ctrl-C reaches this process, which then ends them.
        self._started = [
            subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True
            )
            for command in commands
        ]
        self.channels: list[Connection] = []

    def accept(self) -> Connection:
        """The channel of the next party that says hello; FedatlasError if one ends before."""
        self._server.settimeout(0.2)
        until = time.monotonic() + _SECONDS_TO_START
        while True:
            with suppress(TimeoutError, AuthenticationError, EOFError):
                connection, _ = self._server.accept()
                return accepted(connection, self._key)
            ended = [number for number, one in enumerate(self._started) if one.poll() is not None]
            if ended or time.monotonic() > until:
                self.end()
                what = "mpirun" if self.carrier == "mpi" else f"the process of party {ended[:1]}"
                raise FedatlasError(
                    f"{what} ended before it said hello; the log above says why"
                    if ended
                    else f"parties did not start within {_SECONDS_TO_START:g} s"
                )

    def fate_of(self, party: int) -> str:
        """How the process of a party ended, in words."""
        one = self._started[0 if self.carrier == "mpi" else party]
        with suppress(subprocess.TimeoutExpired):
            one.wait(_SECONDS_TO_END)
        if one.returncode is None:
            return "closed its channel"
        who = "mpirun " if self.carrier == "mpi" else ""
        if one.returncode < 0:
            return f"{who}was ended by {signal.Signals(-one.returncode).name}"
        if self.carrier == "mpi" and one.returncode > 128:
            return f"was ended by {signal.Signals(one.returncode - 128).name}, says mpirun"
        return f"{who}ended with exit code {one.returncode}"

    def end(self) -> None:
        """End all that still run, and wait for them."""
        self._server.close()
        for channel in self.channels:
            channel.close()  # parties end by themselves when they see it
        until = time.monotonic() + _SECONDS_TO_END
        for one in self._started:
            with suppress(subprocess.TimeoutExpired):
                one.wait(max(until - time.monotonic(), 0.0))
        for one in self._started:
            if one.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(one.pid, signal.SIGKILL)
                one.wait()


def _mpirun(commands: Sequence[Sequence[str]]) -> list[str]:
    """One call of mpirun that starts every command once, in the order of ranks."""
    # Parties sleep a lot and may be more than there are cores.
    call = ["mpirun", "--oversubscribe", "--bind-to", "none", "-x", KEY_VARIABLE]
    if os.geteuid() == 0:  # as in containers
        call.append("--allow-run-as-root")
    for number, command in enumerate(commands):
        call += [*([":"] if number else []), "-n", "1", *command]
    return call
