"""Every parser of files from outside reads damaged and hostile files.

A plain test run reads 60 files per parser, `make fuzz` 10,000 (FEDATLAS_FUZZ_CASES says another
number). A case is a number and gives the same file in every run; `python tests/fuzz/worker.py
TARGET CASE` runs it alone.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fuzz.bombs import EXPECTED
from fuzz.mutations import mutated
from fuzz.targets import TARGETS
from fuzz.worker import MEMORY

WORKER = Path(__file__).parent / "fuzz" / "worker.py"
CASES = int(os.environ.get("FEDATLAS_FUZZ_CASES", "60"))
# The HDF5 library itself hangs or crashes on some damage to its metadata, about one case in two
# thousand; nothing within the process can prevent it. Seals keep accidents from it, but not
# somebody who seals a file again. More deaths than this are our fault.
HDF5 = {"hostile_trace", "hostile_atlas"}
DEATHS = 1 / 200


class Worker:
    """A process that runs cases, in a fork for each question."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._places = 0
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, target: str, first: int | str, count: int) -> dict[str, Any]:
        """The answer; where the fork died at a case, that case and the signal."""
        self._places += 1
        place = self.folder / f"{self._places}" / target
        place.mkdir(parents=True)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{target} {first} {count} {place}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    started = Worker(tmp_path_factory.mktemp("fuzz"))
    yield started
    started.close()


@pytest.mark.parametrize("target", TARGETS)
def test_any_file_gives_a_value_or_an_error_that_names_it(worker: Worker, target: str):
    first, accepted, seconds, died = 0, 0, 0.0, []
    while first < CASES:
        # The netCDF library keeps memory of files that it fails to open.
        step = min(CASES - first, 500) if target in HDF5 else CASES - first
        answer = worker.ask(target, first, step)
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
def test_small_files_cannot_ask_for_much_memory(worker: Worker, bomb: Any):
    answer = worker.ask("bomb", bomb.__name__, 1)
    assert "died" not in answer, answer
    expected = EXPECTED[bomb] or "gave NoneType"
    assert expected in answer["answer"] and "Traceback" not in answer["answer"]
    assert answer["mebibytes"] < MEMORY >> 20
    assert answer["seconds"] < 5


def test_cases_are_the_same_in_every_process():
    seeds = [b"+1 1:0.5\n", b"-1 2:3\n"]
    made = [mutated(Random(f"libsvm {case}"), seeds) for case in range(300)]
    assert made == [mutated(Random(f"libsvm {case}"), seeds) for case in range(300)]
    assert len(set(made)) > 200
