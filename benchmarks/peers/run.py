"""The same work in fedatlas and in its peers, one core, turn by turn; prints rates and ratios.

Peers that are installed (`make peers`) run in environments of their own, each repetition in a
process of its own, all on one core. Results are compared before times are: a peer that has computed
something else is not timed, and the exit status is 1.

    python benchmarks/peers/run.py [--task fedavg …] [--repeats 3] [--scale 1] [--synthetic]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from task import DifferentResult, Peer, Task

from fedatlas.arithmetic.samples import Samples
from fedatlas.errors import FedatlasError

_HERE = Path(__file__).parent
_ENVIRONMENTS = _HERE.parents[1] / ".venv-peers"
_SECONDS_AT_MOST = 900
_ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "NUMBA_NUM_THREADS",
    ),
    "1",
) | {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    # Nothing is told to anybody.
    "RAY_USAGE_STATS_ENABLED": "0",
    "FLWR_TELEMETRY_ENABLED": "0",
}


@dataclass(frozen=True)
class Measured:
    """One repetition. seconds: of the work itself; around: of start, imports and compiling."""

    seconds: float
    cpu_seconds: float
    work: float
    peak_bytes: int
    around: float

    @property
    def rate(self) -> float:
        """Work per second."""
        return self.work / self.seconds


class PeerFailed(Exception):
    """A script that ended with an error; the end of what it said."""


@dataclass
class Column:
    """What is known of a peer: its repetitions and what it computed, or why there are none."""

    repetitions: list[Measured] = field(default_factory=list)
    result: str = ""
    fault: str = ""


def interpreter(peer: Peer) -> Path | None:
    """The Python of a peer's environment; None if that is not installed."""
    if peer.environment is None:
        return Path(sys.executable)
    python = _ENVIRONMENTS / peer.environment / "bin/python"
    return python if (python.parents[1] / ".installed").exists() else None


def run_once(peer: Peer, python: Path, job: Path, output: Path) -> Measured:
    """Run a peer's script in a process of its own; PeerFailed if it fails."""
    output.mkdir(exist_ok=True)
    (output / "parameters.json").write_text(json.dumps(dict(peer.values)))
    environment = {**os.environ, **_ONE_THREAD, "PYTHONPATH": str(_HERE)}
    if peer.environment is None and "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] += os.pathsep + os.environ["PYTHONPATH"]
    began = time.perf_counter()
    with (output / "log").open("w") as log:
        status = subprocess.run(
            [python, _HERE / "scripts" / peer.script, job, output],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=_SECONDS_AT_MOST,
            check=False,
        ).returncode
    whole = time.perf_counter() - began
    if status:
        said = (output / "log").read_text(errors="replace").splitlines()
        raise PeerFailed(f"ended with status {status}: " + " / ".join(said[-3:])[-300:])
    measured = json.loads((output / "measured.json").read_text())
    return Measured(**measured, around=whole - measured["seconds"])


def run_task(task: Task, repeats: int, folder: Path) -> dict[str, Column]:
    """Let all installed peers take turns; the first of them is fedatlas."""
    job = folder / task.name
    job.mkdir()
    task.write(job)
    columns = {peer.name: Column() for peer in task.peers}
    for _ in range(repeats):
        for number, peer in enumerate(task.peers):
            column, python = columns[peer.name], interpreter(peer)
            if python is None:
                column.fault = f"not installed: make .venv-peers/{peer.environment}/.installed"
            if column.fault or python is None:
                continue
            output = job / f"peer{number}"
            try:
                measured = run_once(peer, python, job, output)
                column.result = task.check(peer, output, job / "peer0")
                column.repetitions.append(measured)
            except (PeerFailed, DifferentResult, subprocess.TimeoutExpired) as error:
                column.fault = f"FAILED: {error}"
                if number == 0:
                    raise
    return columns


def table(task: Task, columns: dict[str, Column]) -> Iterator[str]:
    """Lines of Markdown."""
    yield f"### {task.title}"
    yield ""
    yield (
        f"| | {task.unit}/s, median (range) | CPU ms per {task.unit.removesuffix('s')} | peak MB "
        "| start, s | fedatlas is faster by | by CPU time | result |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    own = columns[task.peers[0].name].repetitions
    for name, column in columns.items():
        runs = column.repetitions
        if column.fault:
            yield f"| {name} | {column.fault} | | | | | | |"
            continue
        rates = [run.rate for run in runs]
        spent = _cpu(runs)
        yield (
            f"| {name} | {_number(statistics.median(rates))} "
            f"({_number(min(rates))} to {_number(max(rates))}) | {_number(1e3 * spent)} "
            f"| {max(run.peak_bytes for run in runs) / 1e6:,.0f} "
            f"| {statistics.median(run.around for run in runs):.1f} "
            f"| {_number(_rate(own) / _rate(runs))} × | {_number(spent / _cpu(own))} × "
            f"| {column.result} |"
        )
    yield ""


def _rate(runs: Sequence[Measured]) -> float:
    return statistics.median(run.rate for run in runs)


def _cpu(runs: Sequence[Measured]) -> float:
    return statistics.median(run.cpu_seconds / run.work for run in runs)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def tasks(names: Sequence[str], samples: Samples, scale: float) -> list[Task]:
    """The tasks of these names; torch and the rest are imported only for those that need them."""
    chosen: list[Task] = []
    for name in names:
        if name == "fedavg":
            from tasks import fedavg

            chosen.append(fedavg.FedAvgTask(samples, fedavg.PEERS).scaled(scale))
        elif name == "saga":
            from tasks.saga import SagaTask

            chosen.append(SagaTask(samples))
        elif name == "auroc":
            from tasks.auroc import AurocTask

            chosen += [AurocTask(workers).scaled(scale) for workers in (1, 16)]
        elif name == "networks":
            from tasks.networks import METHODS, NetworkTask

            chosen += [NetworkTask(method, max(2, round(20 * scale))) for method in METHODS]
        else:
            from tasks.sharding import ClientShards, PartyShards

            chosen += [ClientShards(samples), PartyShards(samples)]
    return chosen


def stay_on_one_core() -> None:
    """This process and all that it starts; where the system has no such call, threads are few."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def main() -> None:
    from rows import made_up_rows, real_rows

    names = ("fedavg", "networks", "saga", "auroc", "sharding")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", choices=names, action="append", help="repeatable; all by default")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the rounds, to try it out")
    parser.add_argument("--synthetic", action="store_true", help="made-up rows of a9a's shape")
    arguments = parser.parse_args()
    stay_on_one_core()
    mirror = os.environ.get("FEDATLAS_MIRROR")
    try:
        samples = (
            made_up_rows() if arguments.synthetic else real_rows(Path(mirror) if mirror else None)
        )
    except FedatlasError as error:
        sys.exit(f"{error}\nor take made-up rows of the same shape: --synthetic")
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for task in tasks(arguments.task or names, samples, arguments.scale):
            load = os.getloadavg()[0]
            columns = run_task(task, arguments.repeats, Path(folder))
            print("\n".join(table(task, columns)))
            print(f"load average {load:.1f} before, {os.getloadavg()[0]:.1f} after\n", flush=True)
            failed |= any(column.fault.startswith("FAILED") for column in columns.values())
    sys.exit(failed)


if __name__ == "__main__":
    main()
