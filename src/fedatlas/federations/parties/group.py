"""The launching process's view of all parties: it starts them, tells, waits, and notices who ended.

They are started by `mpirun`, or one by one on this machine.
"""

import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from multiprocessing import AuthenticationError
from multiprocessing.connection import (
    Connection,
    answer_challenge,
    deliver_challenge,
    wait,
)
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.federations.parties.messages import KEY_VARIABLE, BlockState, Report
from fedatlas.federations.parties.party import compile_kernels
from fedatlas.federations.vertical.problem import UpdateRule
from fedatlas.schema.network_model import NetworkModel
from fedatlas.schema.objectives import LinearObjective

#: "mpi", "sockets", or "auto": MPI where mpirun and mpi4py are there.
TRANSPORT_VARIABLE = "FEDATLAS_TRANSPORT"
_SECONDS_TO_START = 120.0
_SECONDS_TO_END = 3.0

Carrier = Literal["mpi", "sockets"]


def carrier_of(environment: Mapping[str, str]) -> Carrier:
    """How messages travel; FedatlasError if MPI is asked for and is not there."""
    asked = environment.get(TRANSPORT_VARIABLE, "auto")
    if asked not in ("auto", "mpi", "sockets"):
        raise FedatlasError(f"{TRANSPORT_VARIABLE} is '{asked}'; it must be auto, mpi or sockets")
    lacking = []
    if shutil.which("mpirun") is None:
        lacking.append("mpirun (package openmpi-bin)")
    if importlib.util.find_spec("mpi4py") is None:
        lacking.append("mpi4py (pip install 'fedatlas[mpi]')")
    if asked == "mpi" and lacking:
        missing = " and no ".join(lacking)
        raise FedatlasError(f"{TRANSPORT_VARIABLE} is mpi, but there is no {missing}")
    return "sockets" if asked == "sockets" or lacking else "mpi"


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
        program = [sys.executable, "-m", "fedatlas.federations.parties.process"]
        program += ["--control", control]
        commands = [
            [*program, "--party", str(party), "--shard", str(shard.resolve())]
            for party, shard in enumerate(shards)
        ]
        environment = os.environ | {KEY_VARIABLE: self._key.hex(), "OMP_NUM_THREADS": "1"}
        if carrier == "mpi":
            commands = [_mpirun([[*command, "--mpi"] for command in commands])]
            environment["OMPI_MCA_mpi_yield_when_idle"] = "1"
            ends: list[list[socket.socket]] = [[] for _ in commands]
        else:
            ends = _connected_in_pairs(len(commands))
        # Of a group of their own: Ctrl-C reaches this process, which then ends them.
        self._started = []
        for command, own in zip(commands, ends, strict=True):
            numbers = [end.fileno() for end in own]
            self._started.append(
                subprocess.Popen(
                    [*command, *(["--sockets", *map(str, numbers)] if numbers else [])],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                    pass_fds=numbers,
                )
            )
        for own in ends:
            for end in own:
                end.close()
        self.channels: list[Connection] = []

    def accept(self) -> Connection:
        """The channel of the next party that says hello; FedatlasError if one ends before."""
        self._server.settimeout(0.2)
        until = time.monotonic() + _SECONDS_TO_START
        while True:
            with suppress(TimeoutError, AuthenticationError, EOFError):
                connection, _ = self._server.accept()
                channel = Connection(connection.detach())
                deliver_challenge(channel, self._key)
                answer_challenge(channel, self._key)
                return channel
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


def _connected_in_pairs(parties: int) -> list[list[socket.socket]]:
    """Ends of connections between all parties: of each party, in the order of the others."""
    ends: list[list[socket.socket]] = [[] for _ in range(parties)]
    for one, other in combinations(range(parties), 2):
        for party, end in zip((one, other), socket.socketpair(), strict=True):
            ends[party].append(end)
    return ends


def _mpirun(commands: Sequence[Sequence[str]]) -> list[str]:
    """One call of mpirun that starts every command once, in the order of ranks."""
    # Parties sleep a lot and may be more than there are cores.
    call = ["mpirun", "--oversubscribe", "--bind-to", "none", "-x", KEY_VARIABLE]
    if os.geteuid() == 0:  # as in containers
        call.append("--allow-run-as-root")
    for number, command in enumerate(commands):
        call += [*([":"] if number else []), "-n", "1", *command]
    return call


_LARGEST_HAND = 16  # samples dealt to a dominator at a time


class PartyGroup:
    """q processes. pids: theirs, in the order of the parties. carrier: see `Processes`.

    holds: the state that the processes have, of whoever gave it to them last; None if nobody did.
    """

    holds: object = None

    def __init__(self, shards: Sequence[Path]) -> None:
        """Start all parties, each with its file."""
        compile_kernels()
        self._processes = Processes(shards, carrier_of(os.environ))
        # Whoever forgets the group ends it.
        self.close = weakref.finalize(self, self._processes.end)
        self.carrier, self.parties = self._processes.carrier, len(shards)
        self.pids: list[int] = []
        # All come before the first says hello: MPI starts when all are there.
        self._channels = [self._processes.accept() for _ in shards]
        found = dict(zip(self._hear_all(), self._channels, strict=True))
        self._channels = self._processes.channels = [found[hello] for hello in sorted(found)]
        self.pids = [process for _, process in sorted(found)]

    def set_up(self, objective: LinearObjective, network: NetworkModel | None) -> None:
        """Say what is to be minimised; network: what it adds to times, see `InjectedTimes`."""
        self.holds = None
        self._tell("set_up", objective, network)
        self._hear_all()

    def load(self, states: Sequence[BlockState]) -> None:
        """Let every party go on from its block."""
        for channel, state in zip(self._channels, states, strict=True):
            self._send(channel, "load", state)
        self._hear_all()

    def round(
        self, rule: UpdateRule, samples: np.ndarray, active: int
    ) -> tuple[float, list[Report]]:
        """Dominated updates on these samples, by m dominators, until all have been applied.

        When it began, in seconds of this machine's clock, and what the parties report.
        """
        self._tell("begin_round", rule, len(samples))
        self._hear_all()
        began = time.time()
        if rule.synchronous:
            hands = [samples[dominator::active].tolist() for dominator in range(active)]
            left: list[int] = []
        else:
            left = samples.tolist()
            hands = [self._hand(left, active) for _ in range(active)]
        for dominator, hand in enumerate(hands):
            self._send(self._channels[dominator], "give", hand)
        done = 0
        while done < active:
            for dominator, answer in self._heard():
                if answer == "done":
                    done += 1
                else:
                    self._send(self._channels[dominator], "give", self._hand(left, active))
        self._tell("settle")
        return began, self._hear_all()

    def full_pass(self, rule: UpdateRule) -> tuple[float, list[Report]]:
        """ϑ of all samples at one model, found and given to all; as `round`."""
        began = time.time()
        self._tell("begin_pass", rule)
        return began, self._hear_all()

    @staticmethod
    def _hand(left: list[int], active: int) -> list[int]:
        """The next samples of a dominator, fewer towards the end, so that all end together."""
        count = min(max(len(left) // (4 * active), 1), _LARGEST_HAND)
        hand, left[:count] = left[:count], []
        return hand

    def _tell(self, command: str, *arguments: Any) -> None:
        for channel in self._channels:
            self._send(channel, command, *arguments)

    def _send(self, channel: Connection, command: str, *arguments: Any) -> None:
        """Have a method of a `Party` called."""
        try:
            channel.send((command, arguments))
        except ConnectionError:
            self._lose(channel)

    def _hear_all(self) -> list[Any]:
        """One answer from every party."""
        answers: dict[int, Any] = {}
        while len(answers) < self.parties:
            answers |= dict(self._heard())
        return [answers[party] for party in range(self.parties)]

    def _heard(self) -> Iterator[tuple[int, Any]]:
        """Parties that have said something, and what; FedatlasError if one has ended."""
        for ready in wait(self._channels):
            assert isinstance(ready, Connection)
            try:
                answer = ready.recv()
            except (EOFError, ConnectionError):
                self._lose(ready)
            if isinstance(answer, FedatlasError):
                self.close()
                raise answer
            yield self._channels.index(ready), answer

    def _lose(self, channel: Connection) -> NoReturn:
        """A party has ended: end the others and say so."""
        if not self.pids:
            self.close()
            raise FedatlasError("a party ended while it read its file; the log above says why")
        party = self._channels.index(channel)
        fate = self._processes.fate_of(party)
        self.close()
        raise FedatlasError(
            f"party {party} (process {self.pids[party]}) {fate}; the other parties were ended. "
            "The same command resumes from the last checkpoint"
        )
