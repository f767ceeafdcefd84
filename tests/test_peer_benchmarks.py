"""The driver of benchmarks/peers: a peer that computes something else must never be timed."""

import importlib
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow.parquet as pq
import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks/peers"
ROUNDS = {"rounds": 4}


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("run")


def test_only_equal_results_are_timed(driver: ModuleType, tmp_path: Path) -> None:
    rows, fedavg = (importlib.import_module(name) for name in ("rows", "tasks.fedavg"))
    peers = (
        driver.Peer("fedatlas", "fedavg_fedatlas.py", None, ROUNDS),
        driver.Peer("numpy", "fedavg_numpy.py", None, ROUNDS),
        driver.Peer("other step", "fedavg_numpy.py", None, ROUNDS | {"step_size": 0.0101}),
        driver.Peer("broken", "no_such_script.py", None, ROUNDS),
        driver.Peer("absent", "fedavg_numpy.py", "no-such-environment", ROUNDS),
    )
    task = fedavg.FedAvgTask(rows.made_up_rows(clients=60), peers)
    columns = driver.run_task(task, 1, tmp_path)

    for name in ("fedatlas", "numpy"):
        assert not columns[name].fault
        (run,) = columns[name].repetitions
        assert run.work == 4 and run.seconds > 0 and run.peak_bytes > 1e7
    assert columns["other step"].fault.startswith("FAILED: other step")
    assert columns["broken"].fault.startswith("FAILED: ended with status")
    assert columns["absent"].fault.startswith("not installed")
    assert not any(columns[name].repetitions for name in ("other step", "broken", "absent"))


def test_ratios_are_of_medians(driver: ModuleType) -> None:
    fedavg = importlib.import_module("tasks.fedavg")
    peers = (driver.Peer("fedatlas", "", None, ROUNDS), driver.Peer("other", "", None, ROUNDS))

    def column(*seconds: float) -> object:
        return driver.Column([driver.Measured(s, 2 * s, 10, 5_000_000, 1.0) for s in seconds])

    task = fedavg.FedAvgTask(importlib.import_module("rows").made_up_rows(20), peers)
    columns = {"fedatlas": column(1, 2, 90), "other": column(8, 0.1, 6)}
    own, other = list(driver.table(task, columns))[-3:-1]
    # 10 rounds in 2 s against 10 in 6 s; twice that in CPU-seconds.
    assert own.startswith("| fedatlas | 5 (0.111 to 10) | 400 | 5 | 1.0 | 1 × | 1 × |")
    assert other.startswith("| other | 1.67 (1.25 to 100) | 1,200 | 5 | 1.0 | 3 × | 3 × |")


def test_a_result_that_is_no_number_is_different(driver: ModuleType) -> None:
    for value in (float("nan"), float("inf"), 1.002):
        with pytest.raises(driver.DifferentResult):
            importlib.import_module("task").require_equal("peer", value, 1.0, 1e-3)
    importlib.import_module("task").require_equal("peer", 1.0005, 1.0, 1e-3)


def test_a_point_that_is_not_there_is_different(driver: ModuleType, tmp_path: Path) -> None:
    rows, saga = (importlib.import_module(name) for name in ("rows", "tasks.saga"))
    task = saga.SagaTask(rows.made_up_rows(20))
    task.write(tmp_path)
    output = tmp_path / "peer0"
    output.mkdir()
    np.savez(output / "result.npz", x=np.zeros(123), epochs=3)
    with pytest.raises(driver.DifferentResult, match="f − f"):
        task.check(task.peers[0], output, output)


def test_shards_with_rows_in_another_order_are_different(
    driver: ModuleType, tmp_path: Path
) -> None:
    rows, sharding = (importlib.import_module(name) for name in ("rows", "tasks.sharding"))
    task = sharding.ClientShards(rows.made_up_rows(20))
    task.write(tmp_path)
    ours, same, other = (tmp_path / f"peer{number}" for number in range(3))
    table = pq.read_table(tmp_path / "prepared.parquet")
    swapped = table.take([1, 0, *range(2, 200)])
    for folder, content in ((ours, table), (same, table), (other, swapped)):
        folder.mkdir()
        pq.write_table(content, folder / "silo.parquet")
    assert task.check(task.peers[1], same, ours).startswith("1 row groups")
    with pytest.raises(driver.DifferentResult, match="sample_id"):
        task.check(task.peers[1], other, ours)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked for in /proc")
def test_time_and_memory_of_processes_count(driver: ModuleType) -> None:
    measuring = importlib.import_module("measuring")
    before = measuring.peak_memory()
    # Busy for 0.2 s with 50 MB, then alive until it is told to go.
    work = (
        "import time; held = bytearray(50_000_000); end = time.process_time() + 0.2\n"
        "while time.process_time() < end: pass\n"
        "print(flush=True); input()"
    )
    start = measuring._cpu_seconds()
    with measuring.Timed() as timed:
        command = [sys.executable, "-c", work]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            assert measuring.peak_memory() > before + 5e7
            with measuring.Timed() as idle:
                time.sleep(0.05)
            living = measuring._cpu_seconds()
            assert living >= start + 0.18  # clock ticks are of 0.01 s
            process.communicate("\n")
    assert 0.2 <= timed.cpu_seconds < 2
    assert idle.cpu_seconds < 0.05
    # Now that it has ended it still counts, once.
    assert measuring._cpu_seconds() >= living - 0.02
