"""Runs that are killed again and again, until one of them comes to its end."""

import json
import os
import shutil
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random

import numpy as np

from fedatlas.schema.runs import RunSpec
from fedatlas.store.trace import read_trace
from forking import Forks, forks

LOADED = (
    "fedatlas.data.prepare",
    "fedatlas.store.experiment",
    "fedatlas.figures.kinds.convergence",
)
# A round, and what is measured at a record, takes milliseconds here; the machine may be busy.
PROMPT = 10.0
HANGS = 60.0


@dataclass
class Counts:
    """What happened to all processes."""

    kills: dict[str, int] = field(default_factory=lambda: {"SIGKILL": 0, "SIGTERM": 0})
    resumed: int = 0  # processes that went on from a checkpoint or a finished seed
    within_records: int = 0  # of these, from between two records
    waited: float = 0.0  # s, the longest that one took to end after SIGTERM


@cache
def _server() -> Forks:
    """One for all test files of this process, a fork of that of workflows: it loads fedatlas."""
    return forks().another()


class Runner:
    """Starts runs as processes, one at a time."""

    def __init__(self, shards: Path, warm: list[RunSpec], folder: Path) -> None:
        self.shards = shards
        self._forks = _server()
        for spec in warm:
            short = spec.model_copy(update={"rounds": 1, "record_every": 1, "seeds": (0,)})
            self._forks.load(LOADED, self.arguments(short, folder / "warm.nc"))

    def arguments(self, spec: RunSpec, output: Path, **others: object) -> list[str]:
        """The command line of a run."""
        shards = str(self.shards / spec.dataset / spec.split)
        given = {"spec": spec.model_dump(mode="json"), "shards": shards, "output": str(output)}
        return ["step", "train_alone", json.dumps(given | {"device": "cpu"} | others)]

    def start(self, arguments: list[str], log: Path) -> int:
        """The number of a new process."""
        self._running = self._forks.start(arguments, log)
        return self._running.process

    def status(self) -> int:
        """Wait for the process; its exit status, negative if a signal ended it."""
        # One that hangs is killed: no test expects that then.
        watch = threading.Timer(HANGS, os.kill, (self._running.process, signal.SIGKILL))
        watch.start()
        try:
            return self._running.status()
        finally:
            watch.cancel()


class Chain:
    """One run's folder, in which only whole files may ever have their names."""

    def __init__(self, runner: Runner, spec: RunSpec, folder: Path, every: float) -> None:
        folder.mkdir()
        self.runner, self.spec, self.folder = runner, spec, folder
        self.output, self.seeds = folder / "only.nc", folder / "seeds"
        self.log = folder / "log.txt"
        self.arguments = runner.arguments(
            spec, self.output, seeds=str(self.seeds), checkpoint_every=every
        )
        began = time.monotonic()
        assert self.to_the_end() == 0, self._logged()
        self.seconds = time.monotonic() - began
        self.whole = read_trace(self.output)
        self.clear()

    def to_the_end(self) -> int:
        """Start once and wait; the exit status."""
        self.runner.start(self.arguments, self.log)
        return self.runner.status()

    def kill(self, number: signal.Signals, after: float, counts: Counts) -> bool:
        """Start and kill; whether it was still alive. It must leave what it had, and no trace."""
        logged = self._logged()
        from_the_start = not self.checkpoints()
        before = self._half_written()
        process = self.runner.start(self.arguments, self.log)
        began = time.monotonic()
        with suppress(ProcessLookupError):
            while (left := began + after - time.monotonic()) > 0:
                os.kill(process, 0)  # is it there?
                time.sleep(min(left, 0.002))
            os.kill(process, number)
        killed = time.monotonic()
        status = self.runner.status()
        waited = time.monotonic() - killed
        said = self._logged()[len(logged) :]
        self.count(said, counts)
        assert "Traceback" not in said and "not used" not in said, said
        if status == 0:
            if from_the_start:  # the very first run may have compiled
                self.seconds = min(self.seconds, killed - began)
            return False
        counts.kills[number.name] += 1
        if number == signal.SIGTERM:
            # Before the command line has begun there is nothing to clean up.
            assert status == 143 or (status == -15 and not said)
            counts.waited = max(counts.waited, waited)
            assert waited < PROMPT
            # Nothing half-written but what an earlier SIGKILL left, which a write clears; a
            # checkpoint if rounds were done, and a line that says so.
            assert self._half_written() <= before
            assert ("SIGTERM: ends after" not in said) or self.checkpoints()
            assert said.count("SIGTERM") <= 1
        else:
            assert status == -9
        if self.output.exists():  # killed at its end
            self.same()
        return True

    def _half_written(self) -> set[Path]:
        return set(self.folder.rglob(".*"))

    def checkpoints(self) -> list[Path]:
        """Files of seeds, finished or not."""
        return list(self.seeds.glob("*/[!.]*.npz"))

    def count(self, said: str, counts: Counts) -> None:
        """Whether a process resumed, and where."""
        counts.resumed += "resuming" in said or " 1 of 2 seeds are to train" in said
        _, _, after = said.partition("after round ")
        if after:
            counts.within_records += int(after.split()[0]) not in self.whole["round"].to_numpy()

    def ends_the_same(self, counts: Counts) -> None:
        """Run to the end: the same trace, to the last bit, and nothing beside it."""
        logged = self._logged()
        assert self.to_the_end() == 0, self._logged()
        self.count(self._logged()[len(logged) :], counts)
        self.same()
        assert {file.name for file in self.folder.iterdir()} == {"only.nc", "log.txt", "seeds"}
        assert len(self.checkpoints()) == len(self.spec.seeds) and not self._half_written()
        self.clear()

    def same(self) -> None:
        """All variables and attributes but the measured times."""
        trace = read_trace(self.output)
        assert trace.drop_vars("wall_time").identical(self.whole.drop_vars("wall_time"))
        assert trace.attrs["values_digest"] == self.whole.attrs["values_digest"]
        assert (np.diff(trace["wall_time"].to_numpy(), axis=1) > 0).all()  # time goes on as well

    def clear(self) -> None:
        """Back to the start."""
        shutil.rmtree(self.seeds, ignore_errors=True)
        for file in self.folder.iterdir():
            if file != self.log:
                file.unlink()

    def _logged(self) -> str:
        return self.log.read_text(encoding="utf-8") if self.log.exists() else ""


def kill_often(chain: Chain, kills: int, random: Random, counts: Counts) -> None:
    """Kill until so many processes died, at any time of a whole run; then come to the end."""
    killed = 0
    while killed < kills:
        number = random.choice((signal.SIGTERM, signal.SIGKILL))
        # Mostly after it has begun, and before all that is left is done.
        after = chain.seconds * random.uniform(0.1, 0.7)
        if chain.kill(number, after, counts):
            killed += 1
        else:
            chain.same()
            chain.clear()
    chain.ends_the_same(counts)
