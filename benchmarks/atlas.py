"""The atlas at the size of all papers: joining traces, opening all, comparing runs, exporting.

Made are 5 experiments of 460 traces, each of 5 seeds × 200 records × 15 variables; with --traces N
of N traces in all. Every step runs in a process of its own; printed are its seconds by the wall and
of the processor, the start of the process excluded, and the largest memory that it ever held,
libraries included, beside its goals for 2,300 traces.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import xarray as xr

import fedatlas
from fedatlas.files import canonical_json
from fedatlas.store.experiment import (
    ExperimentHeading,
    StoredPoint,
    join_traces,
    write_experiment,
)
from fedatlas.store.table import export_table
from fedatlas.store.trace import build_trace, read_trace, write_trace

PAPERS = ("dpgt", "fedpage", "fmgda", "tdcd", "vfb2")
SEEDS, RECORDS, POINTS = 5, 200, 5
COSTS = (
    *("round", "iteration", "epoch", "gradient_evaluations", "bytes_up", "bytes_down"),
    *("messages", "sequential_messages", "sequential_bytes", "sequential_gradients"),
)
MEASUREMENTS = ("objective", "gradient_norm", "train_accuracy", "test_accuracy", "test_auroc")


def runs_of(traces: int) -> range:
    return range(traces // len(PAPERS) // POINTS)


def make(folder: Path, traces: int) -> None:
    generator = np.random.default_rng(0)
    for paper in PAPERS:
        for run in runs_of(traces):
            for number in range(POINTS):
                point = f"step_size-{number}"
                trace = made_trace(paper, f"run{run}", point, generator)
                own = folder / "experiments" / f"{paper}-made" / "traces" / f"run{run}"
                write_trace(trace, own / f"{point}.nc")


def made_trace(paper: str, run: str, point: str, generator: np.random.Generator) -> xr.Dataset:
    costs = {name: np.tile(np.arange(RECORDS, dtype=float), (SEEDS, 1)) for name in COSTS}
    measured = {name: generator.random((SEEDS, RECORDS)) for name in MEASUREMENTS}
    attributes = {
        "paper": paper,
        "experiment": f"{paper}-made",
        "run": run,
        "point": point,
        "algorithm": "fedavg",
        # As long as real ones are.
        "specification": canonical_json({"hyper_parameters": {}, "padding": "x" * 1000}),
    }
    return build_trace(costs | measured, ["ok"] * SEEDS, list(range(SEEDS)), attributes)


def join_all(folder: Path, traces: int) -> None:
    for own in (folder / "experiments").iterdir():
        points = [
            StoredPoint(read_trace(file), file.parent.name, file.stem[-1] == "0")
            for file in sorted(own.glob("traces/*/*.nc"))
        ]
        about = dict.fromkeys(("title", "source", "notes", "dataset"), "made up")
        paper = own.name.partition("-")[0]
        heading = ExperimentHeading(paper=paper, experiment=own.name, **about)
        write_experiment(join_traces(heading, points), own / "traces.nc")


def open_lazily(folder: Path, traces: int) -> None:
    assert len(fedatlas.open_atlas(folder).places()) == len(PAPERS) * len(runs_of(traces)) * POINTS


def compare_one(folder: Path, traces: int) -> None:
    costs = ["round", "bytes", "network(latency=0.05, bandwidth=1e6, gradient=1e-5)"]
    one = [f"{PAPERS[-1]}-made"]
    compared = fedatlas.compare(folder, "test_auroc", costs, 0.99, experiments=one)
    assert compared.dataset.sizes["run"] == len(runs_of(traces))


def export(folder: Path, traces: int) -> None:
    atlas = fedatlas.open_atlas(folder)
    export_table(atlas, atlas.places(), folder / "atlas.parquet", {})


STEPS = {
    "join": join_all,
    "open": open_lazily,
    "compare one experiment": compare_one,
    "export": export,
}
GOALS = {
    "join": "goal: below 60 s",
    "open": "goal: below 2 s",
    "compare one experiment": "goal: below 5 s, 400 MB",
}


def measured(step: str, folder: Path, traces: int) -> tuple[float, float, float]:
    """Seconds by the wall and of the processor, and MB at most, of this process."""
    start, computed = time.perf_counter(), time.process_time()
    STEPS[step](folder, traces)
    seconds, computed = time.perf_counter() - start, time.process_time() - computed
    return seconds, computed, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=2300)
    parser.add_argument("--step", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        print(*measured(options.step, options.folder, options.traces))
        return
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), options.traces)
        print(f"{options.traces} traces, {SEEDS} seeds × {RECORDS} records", flush=True)
        for step in STEPS:
            own = ["--step", step, "--folder", folder, "--traces", str(options.traces)]
            run = [sys.executable, __file__, *own]
            done = subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True)
            seconds, computed, memory = map(float, done.stdout.split())
            told = f"{step:22} {seconds:6.1f} s {computed:6.1f} s {memory:6.0f} MB"
            print(f"{told}  {GOALS.get(step, '')}", flush=True)


if __name__ == "__main__":
    main()
