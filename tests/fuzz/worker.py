"""A process that runs cases of targets, so that a crash or a hang is one case's and not pytest's.

Reads lines `target first count folder`, or `bomb name 1 folder`; a fork answers each with a line of
JSON, and this process does so for one that died: at which case, and of what. `python worker.py
target case` runs one case and shows its error.
"""

import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).parents[1]))

# What readers import when they are called, once for all forks.
import h5py  # noqa: F401
import netCDF4  # noqa: F401
import PIL.Image  # noqa: F401
import sklearn.datasets  # noqa: F401

from fedatlas.errors import FedatlasError
from fuzz.bombs import BOMBS
from fuzz.targets import TARGETS

# What a case of a file of at most 200 kB may take.
SECONDS = 10
MEMORY = 256 << 20
# Beyond what tests look at: stops a case before the machine runs out of memory.
ADDRESS_SPACE = 8 << 30


def number_of(target: str, case: int) -> random.Random:
    """The generator of a case: the same in every process."""
    return random.Random(f"{target} {case}")


def run_cases(target: str, first: int, count: int, folder: Path, at: int) -> dict[str, object]:
    """Run cases until one has a fault; what happened."""
    run = TARGETS[target](folder)
    before = _peak()
    accepted = 0
    start = time.perf_counter()
    for case in range(first, first + count):
        os.pwrite(at, b"%19d\n" % case, 0)
        signal.alarm(SECONDS)
        is_value, problem = _outcome(run, number_of(target, case), folder)
        signal.alarm(0)
        grown = _peak() - before
        if not problem and grown > MEMORY:
            problem = f"took {grown >> 20} MiB of memory"
        if problem:
            return {"case": case, "problem": problem}
        accepted += is_value
    seconds = time.perf_counter() - start
    return {"accepted": accepted, "seconds": seconds, "mebibytes": (_peak() - before) >> 20}


def run_bomb(name: str, folder: Path) -> dict[str, object]:
    """Read one file that asks for far too much; the error, memory and processor time."""
    read = BOMBS[name](folder)
    before, start = _peak(), time.process_time()
    signal.alarm(SECONDS)
    try:
        answer = f"gave {type(read()).__name__}"
    except FedatlasError as error:
        answer = str(error)
    except BaseException:
        answer = traceback.format_exc()
    signal.alarm(0)
    return {
        "answer": answer,
        "mebibytes": (_peak() - before) >> 20,
        "seconds": time.process_time() - start,
    }


def _outcome(
    run: Callable[[random.Random], object], number: random.Random, folder: Path
) -> tuple[bool, str]:
    """Whether a case ended with a value, and what is wrong with how it ended."""
    try:
        run(number)
    except FedatlasError as error:
        named = str(folder) in str(error)
        return False, "" if named else f"the error names no file: {error}"
    except BaseException:
        return False, traceback.format_exc()
    return True, ""


def _peak() -> int:
    """The most memory that the process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def answer(target: str, first: str, count: int, place: Path, case: Path) -> NoReturn:
    """In a process of its own, as libraries keep memory of files that they fail to open."""
    if target == "bomb":
        said = run_bomb(first, place)
    else:
        said = run_cases(target, int(first), count, place, os.open(case, os.O_CREAT | os.O_WRONLY))
    print(json.dumps(said), flush=True)
    os._exit(0)


def main() -> None:
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    if len(sys.argv) == 3:
        with tempfile.TemporaryDirectory() as folder:
            target, case = sys.argv[1], int(sys.argv[2])
            TARGETS[target](Path(folder))(number_of(target, case))
        return
    for line in sys.stdin:
        target, first, count, folder = line.split(maxsplit=3)
        place = Path(folder.rstrip("\n"))
        case = place.parent / "case"
        process = os.fork()
        if process == 0:
            answer(target, first, int(count), place, case)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if status:
            name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
            at = int(case.read_text()) if target != "bomb" else first
            print(json.dumps({"case": at, "died": name}), flush=True)


if __name__ == "__main__":
    main()
