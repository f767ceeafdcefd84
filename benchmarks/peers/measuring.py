"""What the scripts of all peers share, in whichever environment: their job, the clock, the report.

A script is called as `python SCRIPT JOB OUTPUT`. The folder JOB holds parameters.json and
arrays.npz, the same for all peers of a task; into the folder OUTPUT go measured.json and what was
computed, result.npz. Needs numpy and nothing else.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

_PROCESSES = Path("/proc")


@dataclass(frozen=True)
class Job:
    """What is to be done: `values` of the task and of this peer, and the arrays of the task."""

    folder: Path
    output: Path

    @cached_property
    def values(self) -> dict[str, Any]:
        own = json.loads((self.output / "parameters.json").read_text())
        return json.loads((self.folder / "parameters.json").read_text()) | own

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        with np.load(self.folder / "arrays.npz") as arrays:
            return dict(arrays)


class Timed:
    """Seconds and CPU-seconds of a block, those of the processes that it started included."""

    seconds = cpu_seconds = 0.0

    def __enter__(self) -> Self:
        self._cpu, self._began = _cpu_seconds(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._began
        self.cpu_seconds = _cpu_seconds() - self._cpu


def repeated(work: Callable[[], object], seconds: float = 1.0) -> int:
    """Do short work again and again until so much time has passed; how often."""
    times, end = 0, time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        work()
        times += 1
    return times


def job_of_command_line() -> Job:
    """The job that this process was started for."""
    return Job(Path(sys.argv[1]), Path(sys.argv[2]))


def report(
    job: Job, timed: Timed, work: float, peak_bytes: int | None = None, **arrays: np.ndarray
) -> None:
    """Write what was measured and computed. work: rounds, or whatever the task counts.

    peak_bytes: where processes have ended that had memory of their own; else it is asked for here.
    """
    np.savez(job.output / "result.npz", **arrays)
    measured = {
        "seconds": timed.seconds,
        "cpu_seconds": timed.cpu_seconds,
        "work": work,
        "peak_bytes": peak_bytes or peak_memory(),
    }
    (job.output / "measured.json").write_text(json.dumps(measured))


def time_rounds(job: Job, trained: Callable[[int], Any], warm_up: int) -> None:
    """Report the time of the task's rounds, and the point that they end at.

    trained: from a number of rounds, the point (d,), from the start. warm_up: rounds before the
    clock runs, which compile and load.
    """
    trained(warm_up)
    with Timed() as timed:
        x = trained(job.values["rounds"])
    report(job, timed, job.values["rounds"], x=np.asarray(x))


def peak_memory() -> int:
    """Bytes: the peaks of this process and of all that it started and that still run, added up.

    Pages that several of them share count once for each.
    """
    if _PROCESSES.is_dir():
        return sum(_peak_of(process) for process in [os.getpid(), *_descendants()])
    # Not on Linux, where it begins with what the process that started this one had; bytes on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _peak_of(process: int) -> int:
    try:
        status = (_PROCESSES / str(process) / "status").read_text()
    except OSError:  # it has ended
        return 0
    peaks = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return 1024 * int(peaks[0].split()[1]) if peaks else 0


def _cpu_seconds() -> float:
    """Of this process, of those that it started and of theirs, also where they have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = time.process_time() + ended.ru_utime + ended.ru_stime
    for process in _descendants():
        # User and system time, then those of children that were waited for.
        ticks = [int(part) for part in _stat(process)[11:15]]
        total += sum(ticks) / os.sysconf("SC_CLK_TCK")
    return total


def _descendants() -> list[int]:
    """Running processes that this one started, directly or not; none where there is no /proc."""
    if not _PROCESSES.is_dir():
        return []
    processes = [int(entry.name) for entry in _PROCESSES.iterdir() if entry.name.isdigit()]
    parents = {process: stat[1] for process in processes if (stat := _stat(process))}
    found, waiting = [], [str(os.getpid())]
    while waiting:
        parent = waiting.pop()
        children = [process for process, its in parents.items() if its == parent]
        found += children
        waiting += map(str, children)
    return found


def _stat(process: int) -> list[str]:
    """Fields of /proc/…/stat from the third on; empty once the process has ended."""
    try:
        # The second is the name in parentheses, which may hold anything.
        return (_PROCESSES / str(process) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
