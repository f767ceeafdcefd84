"""Steps in processes of their own: seconds by the wall and of the processor, memory at most."""

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple


class Used(NamedTuple):
    """What a step took; mebibytes: the most memory of its process, or of one that it started."""

    seconds: float
    processor: float
    mebibytes: float

    def __str__(self) -> str:
        return f"{self.seconds:7.1f} s {self.processor:7.1f} s {self.mebibytes:7,.0f} MiB"


Steps = Mapping[str, Callable[[Path, int], object]]


def used(file: str, step: str, folder: Path, size: int) -> Used:
    """What a step of a benchmark, the file, takes on a folder, its start and imports left out."""
    command = [sys.executable, file, "--step", step, "--folder", str(folder), "--size", str(size)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Used(*map(float, done.stdout.splitlines()[-1].split()))


def is_step(steps: Steps, parser: argparse.ArgumentParser) -> bool:
    """Whether this process was started for a step, which is then done and told of."""
    parser.add_argument("--step", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.step:
        return False
    before, began = _processor(), time.perf_counter()
    steps[options.step](options.folder, options.size)
    seconds = time.perf_counter() - began
    most = max(resource.getrusage(who).ru_maxrss for who in _WHO)
    print(seconds, _processor() - before, most / 1024)
    return True


_WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def _processor() -> float:
    spent = map(resource.getrusage, _WHO)
    return sum(one.ru_utime + one.ru_stime for one in spent)
