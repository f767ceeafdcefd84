"""Every parser of files from outside reads damaged and hostile files.

A plain test run reads 60 files per parser, `make fuzz` 10,000 (FEDATLAS_FUZZ_CASES says another
number). A case is a number and gives the same file in every run.
"""

import multiprocessing
import os
import resource
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fedatlas.errors import FedatlasError
from fuzz.bombs import EXPECTED
from fuzz.targets import TARGETS

CASES = int(os.environ.get("FEDATLAS_FUZZ_CASES", "60"))
# What a case of a file of at most 200 kB may take.
SECONDS = 10
MEMORY = 256 << 20
# Beyond what tests look at: stops a case before the machine runs out of memory.
ADDRESS_SPACE = 8 << 30
# The HDF5 library itself hangs or crashes on some damage to its metadata, about one case in two
# thousand; nothing within the process can prevent it. Seals keep accidents from it, but not
# somebody who seals a file again. More deaths than this are our fault.
HDF5 = {"hostile_trace", "hostile_atlas"}
DEATHS = 1 / 200

PROCESSES = multiprocessing.get_context("forkserver")
# What readers import when they are called, once for all processes.
PROCESSES.set_forkserver_preload(
    ["h5py", "netCDF4", "PIL.Image", "sklearn.datasets", "fuzz.bombs", "fuzz.targets"]
)


def in_process(work: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """The answer of a process, as libraries crash, hang and keep memory; or of what it died."""
    answers, answer = PROCESSES.Pipe(duplex=False)
    case = PROCESSES.Value("q", -1)
    process = PROCESSES.Process(target=limited, args=(answer, case, work, *arguments))
    process.start()
    answer.close()
    try:
        return answers.recv()
    except EOFError:
        process.join()
        return {"case": case.value, "died": process.exitcode}
    finally:
        process.join()


def limited(answer: Connection, case: Any, work: Callable[..., Any], *arguments: Any) -> None:
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    answer.send(work(case, *arguments))


def run_cases(at: Any, target: str, first: int, count: int, folder: Path) -> dict[str, Any]:
    """Run cases until one has a fault; what happened."""
    run = TARGETS[target](folder)
    before, start, accepted = _peak(), time.perf_counter(), 0
    for case in range(first, first + count):
        at.value = case
        problem = ""
        signal.alarm(SECONDS)
        try:
            run(Random(f"{target} {case}"))
            accepted += 1
        except FedatlasError as error:
            problem = "" if str(folder) in str(error) else f"the error names no file: {error}"
        except BaseException:
            problem = traceback.format_exc()
        signal.alarm(0)
        if not problem and _peak() - before > MEMORY:
            problem = f"took {(_peak() - before) >> 20} MiB of memory"
        if problem:
            return {"case": case, "problem": problem}
    return {"accepted": accepted, "seconds": time.perf_counter() - start}


def run_bomb(at: Any, bomb: Callable[[Path], Callable[[], Any]], folder: Path) -> dict[str, Any]:
    """Read one file that asks for far too much; the error, memory and processor time."""
    read = bomb(folder)
    before, start = _peak(), time.process_time()
    signal.alarm(SECONDS)
    try:
        answer = f"gave {type(read()).__name__}"
    except FedatlasError as error:
        answer = str(error)
    signal.alarm(0)
    return {
        "answer": answer, "memory": _peak() - before, "seconds": time.process_time() - start
    }  # fmt: skip


def _peak() -> int:
    """The most memory that the process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize("target", TARGETS)
def test_any_file_gives_a_value_or_an_error_that_names_it(tmp_path: Path, target: str):
    first, accepted, seconds, died = 0, 0, 0.0, []
    while first < CASES:
        # The netCDF library keeps memory of files that it fails to open.
        step = min(CASES - first, 500) if target in HDF5 else CASES - first
        folder = tmp_path / str(first)
        folder.mkdir()
        answer = in_process(run_cases, target, first, step, folder)
        assert "problem" not in answer, f"{target}, case {answer['case']}: {answer['problem']}"
        if "died" in answer:
            died.append(f"{target}, case {answer['case']}: {answer['died']}")
            assert target in HDF5 and len(died) <= max(1, DEATHS * CASES), died
            first = answer["case"] + 1
            continue
        accepted, seconds = accepted + answer["accepted"], seconds + answer["seconds"]
        first += step
    print(f"{target}: {CASES} cases, {seconds:.1f} s, {accepted} gave a value; {died}")
    # Files that are all refused at the first byte would test nothing.
    assert accepted > 0


@pytest.mark.parametrize("bomb", EXPECTED, ids=lambda bomb: bomb.__name__)
def test_small_files_cannot_ask_for_much_memory(tmp_path: Path, bomb: Any):
    answer = in_process(run_bomb, bomb, tmp_path)
    assert "died" not in answer, answer
    assert (EXPECTED[bomb] or "gave NoneType") in answer["answer"]
    assert answer["memory"] < MEMORY and answer["seconds"] < 5
