"""The launching process's view of all parties: it tells, waits, and notices who has ended."""

import os
import time
import weakref
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.federations.parties.block import BlockState, compile_kernels
from fedatlas.federations.parties.commands import (
    Failed,
    Hello,
    Load,
    Meet,
    Pass,
    Report,
    Round,
    Samples,
    Settle,
    Setup,
    Traffic,
)
from fedatlas.federations.parties.launch import Processes, carrier_of
from fedatlas.federations.vertical.problem import UpdateRule
from fedatlas.schema.network_model import NetworkModel
from fedatlas.schema.objectives import LinearObjective

_LARGEST_HAND = 16  # samples dealt to a dominator at a time

Answer = TypeVar("Answer")


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
        self.carrier = self._processes.carrier
        found: dict[int, tuple[Connection, Hello]] = {}
        # All come before the first says hello: MPI starts when all are there.
        silent = [self._processes.accept() for _ in shards]
        while silent:
            for channel in wait(silent):
                assert isinstance(channel, Connection)
                hello = self._hello(channel)
                found[hello.party] = channel, hello
                silent.remove(channel)
        hellos = [found[party][1] for party in range(len(shards))]
        self._channels = self._processes.channels = [found[party][0] for party in sorted(found)]
        self.pids = [hello.process for hello in hellos]
        self.parties, self._sent = len(shards), Traffic()
        addresses = [hello.address for hello in hellos if hello.address is not None]
        self._tell(Meet(addresses))
        self._hear_all(str)

    def set_up(self, objective: LinearObjective, network: NetworkModel | None) -> None:
        """Say what is to be minimised; network: what it adds to times, see `InjectedTimes`."""
        self.holds = None
        self._tell(Setup(objective, network))
        self._hear_all(str)
        self._sent = Traffic()

    def _hello(self, channel: Connection) -> Hello:
        try:
            hello = channel.recv()
        except (EOFError, ConnectionError):
            hello = Failed("a party ended while it read its file; the log above says why")
        if isinstance(hello, Failed):
            self.close()
            raise FedatlasError(hello.reason)
        told: Hello = hello
        return told

    def load(self, states: Sequence[BlockState]) -> None:
        """Let every party go on from its block."""
        for channel, state in zip(self._channels, states, strict=True):
            self._send(channel, Load(state))
        self._hear_all(str)

    def round(
        self, rule: UpdateRule, samples: np.ndarray, active: int
    ) -> tuple[float, list[Report]]:
        """Dominated updates on these samples, by m dominators, until all have been applied.

        When it began, in seconds of this machine's clock, and what the parties report.
        """
        self._tell(Round(rule, len(samples)))
        self._hear_all(str)
        made = [0] * active
        began = time.time()
        if rule.synchronous:
            hands = [samples[dominator::active].tolist() for dominator in range(active)]
            left: list[int] = []
        else:
            left = samples.tolist()
            hands = [self._hand(left, active) for _ in range(active)]
        for dominator, hand in enumerate(hands):
            made[dominator] += len(hand)
            self._send(self._channels[dominator], Samples(hand))
        done = 0
        while done < active:
            for dominator, answer in self._heard(self._channels[:active]):
                if answer == "done":
                    done += 1
                    continue
                hand = self._hand(left, active)
                made[dominator] += len(hand)
                self._send(self._channels[dominator], Samples(hand))
        for party, channel in enumerate(self._channels):
            own = made[party] if party < active else 0
            self._send(channel, Settle(len(samples) if rule.backward else own))
        return began, self._hear_all(Report)

    def full_pass(self, rule: UpdateRule) -> tuple[float, list[Report]]:
        """ϑ of all samples at one model, found and given to all; as `round`."""
        began = time.time()
        self._tell(Pass(rule))
        return began, self._hear_all(Report)

    def newly_sent(self, reports: Sequence[Report]) -> Traffic:
        """What all parties have sent since this was asked last."""
        before, self._sent = self._sent, Traffic()
        for report in reports:
            self._sent = self._sent.plus(report.traffic)
        return self._sent.plus(before, -1)

    @staticmethod
    def _hand(left: list[int], active: int) -> list[int]:
        """The next samples of a dominator, fewer towards the end, so that all end together."""
        count = min(max(len(left) // (4 * active), 1), _LARGEST_HAND)
        hand, left[:count] = left[:count], []
        return hand

    def _tell(self, command: Any) -> None:
        for channel in self._channels:
            self._send(channel, command)

    def _send(self, channel: Connection, command: Any) -> None:
        try:
            channel.send(command)
        except ConnectionError:
            self._lose(channel)

    def _hear_all(self, kind: type[Answer]) -> list[Answer]:
        """One answer of that kind from every party."""
        answers: dict[int, Answer] = {}
        while len(answers) < self.parties:
            heard = self._heard(self._channels)
            answers |= {party: answer for party, answer in heard if isinstance(answer, kind)}
        return [answers[party] for party in sorted(answers)]

    def _heard(self, channels: Sequence[Connection]) -> Iterator[tuple[int, Any]]:
        """Parties that have said something, and what; FedatlasError if one has ended."""
        # All are watched: a dominator waits for a party that has ended.
        for ready in wait(self._channels):
            assert isinstance(ready, Connection)
            try:
                answer = ready.recv()
            except (EOFError, ConnectionError):
                self._lose(ready)
            if isinstance(answer, Failed):
                self.close()
                raise FedatlasError(f"party {self._channels.index(ready)}: {answer.reason}")
            if ready in channels:
                yield self._channels.index(ready), answer

    def _lose(self, channel: Connection) -> None:
        """A party has ended: end the others and say so."""
        party = self._channels.index(channel)
        fate = self._processes.fate_of(party)
        self.close()
        raise FedatlasError(
            f"party {party} (process {self.pids[party]}) {fate}; the other parties were ended. "
            "The same command resumes from the last checkpoint"
        )
