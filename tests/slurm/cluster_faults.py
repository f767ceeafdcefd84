"""Faults of a cluster, all in one submission through profiles/slurm, and what the terminal says.

Five jobs train slowly, with checkpoints. Their submitter is killed, and started again while they
run. Then one is cancelled, one takes too much memory, one too long, one is requeued, and the node
fails under all. Their traces must be those of a local run.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from fedatlas.training.seeds import FINISHED, read_seed
from slurm.one_node_slurm import OneNodeSlurm
from workflow_copy import copy_workflow

PROJECT = Path(__file__).parent / "faults"
RUNS = ("cancelled", "memory", "time", "requeued", "plain")
TRACES = [f"results/experiments/faults-training/traces/{run}/only.nc" for run in RUNS]
SELECTION = ("--config", 'experiments=["faults-training"]')
FIRST = "wildcards.run == '{}' and attempt == 1"
# Little memory and time for those runs that are to be short of them, at their first attempt.
OPTIONS = (
    *("--profile", "profiles/slurm", "--set-resources"),
    f"train_run:mem_mb=300 if {FIRST.format('memory')} else 1000",
    f"train_run:runtime=1 if {FIRST.format('time')} else 10",
)


class Job(NamedTuple):
    """A job of SLURM's: its number, the run that it trains, and its state."""

    number: str
    run: str
    state: str

    @property
    def lives(self) -> bool:
        return self.state in ("COMPLETING", "CONFIGURING", "PENDING", "RUNNING")


class Faults:
    """A folder whose workflow is submitted, hit, and submitted again."""

    def __init__(self, folder: Path, slurm: OneNodeSlurm) -> None:
        self.folder, self.slurm = folder, slurm
        self.earlier: set[str] = set()  # jobs of the first submitter
        self.submitter: subprocess.Popen[bytes] | None = None  # the one that is to submit now
        self.environment = {
            **slurm.environment,
            "PYTHONPATH": str(folder / "src"),
            "FEDATLAS_PROJECTS": str(PROJECT),
            "FEDATLAS_TEST_SLOW": str(folder / "slow"),
            "FEDATLAS_CHECKPOINT_EVERY": "1",
            "OMP_NUM_THREADS": "1",
        }

    def hit(self) -> None:
        """Every fault, from the first submission to the last trace."""
        (self.folder / "slow").touch()
        with self.submitted("killed.out") as submitter:
            self.wait("jobs have checkpoints", lambda: len(self.seeds()) >= len(RUNS) - 1)
            submitter.kill()
            submitter.wait()
        told = self.refused("SLURM goes on with its jobs")
        say("submitter killed, started again", told)
        # To take the lock away is not enough while its jobs run.
        self.refused("Unlocked working directory", "--unlock")
        say("the same, unlocked", self.refused("Then start again"))
        self.slurm.ask("scancel", "--name", told.partition("scancel --name ")[2].split(".")[0])
        # Their processes are in this folder until they have ended.
        self.wait("cancelled jobs have ended", lambda: not any(job.lives for job in self.jobs()))
        self.forget(*RUNS)
        self.earlier = {job.number for job in self.jobs()}
        with self.submitted("faults.out") as submitter:
            self.wait("jobs train", lambda: self.training() >= {*RUNS} - {"memory"})
            say("a second submitter", self.refused("a run is active in this folder"))
            jobs = {job.run: job.number for job in self.jobs() if job.state == "RUNNING"}
            self.slurm.ask("scontrol", "update", f"JobId={jobs['time']}", "EndTime=now+1")
            self.slurm.ask("scancel", jobs["cancelled"])
            self.slurm.ask("scontrol", "requeue", jobs["requeued"])
            self.forget("time", "cancelled", "requeued")
            ended = {("cancelled", "CANCELLED"), ("memory", "FAILED"), ("time", "TIMEOUT")}
            self.wait("jobs are ended", lambda: ended <= {job[1:] for job in self.jobs()})
            self.wait("all train again", lambda: self.training() >= {*RUNS})
            self.wait("all have checkpoints", lambda: len(self.seeds()) == len(RUNS))
            self.slurm.fail_node()
            self.slurm.return_node()
            (self.folder / "slow").unlink()
            self.wait("Snakemake ends", lambda: self.jobs() and submitter.poll() is not None)
        told = (self.folder / "faults.out").read_text()
        if submitter.returncode:
            raise SystemExit(f"{told}\nFAILED: Snakemake did not end well")
        for run in RUNS:
            say(run, *re.findall(rf"traces/{run}/only.nc(?:\n    .*)*\n    ended: (.*)", told)[:1])
            self.check_resumed(run)
        self.check_left_overs()

    @contextmanager
    def submitted(self, output: str) -> Iterator[subprocess.Popen[bytes]]:
        """Snakemake while it runs, in a session of its own."""
        with (self.folder / output).open("wb") as stream:
            process = self.submitter = subprocess.Popen(
                self.command(*OPTIONS), stdout=stream, stderr=subprocess.STDOUT,
                cwd=self.folder, env=self.environment, start_new_session=True,
            )  # fmt: skip
        try:
            yield process
        finally:
            self.submitter = None
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def refused(self, expected: str, *options: str) -> str:
        """The line in which Snakemake says this, and ends."""
        outcome = subprocess.run(
            self.command(*OPTIONS, *options), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            cwd=self.folder, env=self.environment, text=True, timeout=60,
        )  # fmt: skip
        for line in outcome.stdout.splitlines():
            if expected in line:
                return line
        raise SystemExit(f"{outcome.stdout}\nFAILED: Snakemake did not say '{expected}'")

    def command(self, *options: str) -> list[str]:
        return [sys.executable, str(PROJECT / "snakemake"), *TRACES, *SELECTION, *options]

    def jobs(self) -> list[Job]:
        """Those that SLURM remembers. One that was requeued is not left to wait for two minutes."""
        lines = self.slurm.ask("squeue", "-ht", "all", "-o", "%i %k %T %r").splitlines()
        found = []
        for number, comment, state, reason in (line.split(None, 3) for line in lines):
            run = re.search("faults-training_([a-z]+)_only", comment)
            if run and number not in self.earlier:
                found.append(Job(number, run[1], state))
                if reason == "BeginTime":
                    self.slurm.ask("scontrol", "update", f"JobId={number}", "StartTime=now")
        return found

    def training(self) -> set[str]:
        """The runs whose jobs are in their rounds."""
        running = {job.run for job in self.jobs() if job.state == "RUNNING"}
        return {run for run in running if "are to train" in self.log(run)}

    def log(self, run: str) -> str:
        """What the last attempt at a run has told."""
        file = self.folder / "logs" / "train" / "faults-training" / run / "only.log"
        return file.read_text() if file.exists() else ""

    def forget(self, *runs: str) -> None:
        """Take their logs away, so that the next that are there are of the next attempts."""
        for run in runs:
            shutil.rmtree(self.folder / "logs" / "train" / "faults-training" / run)

    def seeds(self) -> list[Path]:
        return list((self.folder / "results" / "seeds").glob("[0-9a-f][0-9a-f]/[!.]*.npz"))

    def wait(self, what: str, ready: Callable[[], object], seconds: float = 240) -> None:
        start = time.monotonic()
        while True:
            # Asked first: what it did last may be what is awaited.
            ended = self.submitter and self.submitter.poll() is not None
            if ready():
                break
            if ended or time.monotonic() > start + seconds:
                files = sorted(self.folder.glob("*.out"), key=lambda file: file.stat().st_mtime)
                told = "\n".join(file.read_text() for file in files)
                reason = "Snakemake ended before" if ended else f"not after {seconds} s"
                queue = self.slurm.ask("squeue", "-t", "all")
                raise SystemExit(f"{queue}\n{told}\nFAILED: {reason}: {what}")
            time.sleep(0.5)
        print(f"{time.monotonic() - start:.0f} s until {what}", flush=True)

    def check_resumed(self, run: str) -> None:
        resumed = re.findall(r"resuming seed \d+ after round \d+", self.log(run))
        if not resumed:
            raise SystemExit(f"{self.log(run)}\nFAILED: {run} does not resume")
        print(f"    its last attempt: {resumed[0]}", flush=True)

    def check_left_overs(self) -> None:
        hidden = [file for file in (self.folder / "results").rglob(".*") if file.is_file()]
        unfinished = [file for file in self.seeds() if FINISHED not in read_seed(file)[0]]
        if left := [*hidden, *unfinished, *self.folder.glob(".snakemake/locks/*")]:
            raise SystemExit(f"FAILED: left over: {', '.join(map(str, left))}")


def say(fault: str, *told: str) -> None:
    print(f"  {fault}:", *(told or ["(nothing: SLURM starts the job again)"]), flush=True)


def make_reference(folder: Path) -> None:
    """Train here, in a new folder, without any fault."""
    folder.mkdir()
    copy_workflow(folder)
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, "-m", "snakemake", *TRACES, *SELECTION, "--cores", "2", "--quiet", "all"],
        cwd=folder, env=environment | {"FEDATLAS_PROJECTS": str(PROJECT)}, check=True,
    )  # fmt: skip


def copy_prepared(reference: Path, folder: Path) -> None:
    """Copy data and shards, but nothing trained: faults are to hit training."""
    shutil.copytree(reference, folder)
    for name in ("results/experiments", "results/seeds", "logs"):
        shutil.rmtree(folder / name)
