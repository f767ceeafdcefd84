"""The atlas at the size of all papers: joining traces, opening all, comparing runs, exporting.

Made are 5 experiments of 460 traces, each of 5 seeds × 200 records × 15 variables, beside goals for
these 2,300 traces; `sizes.py traces` has more. Every step runs in a process of its own.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr
from own_process import is_step, used

import fedatlas
from fedatlas.files import canonical_json
from fedatlas.pages.explorer import write_page
from fedatlas.store.experiment import (
    ExperimentHeading,
    StoredPoint,
    join_traces,
    write_experiment,
)
from fedatlas.store.table import export_table
from fedatlas.store.trace import build_trace, read_trace, write_trace

PAPERS = ("dpgt", "fedpage", "fmgda", "tdcd", "vfb2")
TRACES, SEEDS, RECORDS, POINTS = 2300, 5, 200, 5
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


def made_trace(
    paper: str,
    run: str,
    point: str,
    generator: np.random.Generator,
    shape: tuple[int, int] = (SEEDS, RECORDS),
) -> xr.Dataset:
    costs = {name: np.tile(np.arange(shape[1], dtype=float), (shape[0], 1)) for name in COSTS}
    measured = {name: generator.random(shape) for name in MEASUREMENTS}
    attributes = {
        "paper": paper,
        "experiment": f"{paper}-made",
        "run": run,
        "point": point,
        "algorithm": "fedavg",
        "effective_step_size": 0.1,
        # As long as real ones are.
        "specification": canonical_json(
            {"hyper_parameters": {}, "rounds": shape[1] - 1, "padding": "x" * 1000}
        ),
    }
    return build_trace(costs | measured, ["ok"] * shape[0], list(range(shape[0])), attributes)


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


def write_explorer(folder: Path, traces: int) -> None:
    write_page(folder, [], folder / "explorer.html")


STEPS = {
    "make": make,
    "join": join_all,
    "open": open_lazily,
    "compare one experiment": compare_one,
    "export": export,
    "explorer": write_explorer,
}
GOALS = {
    "join": "goal: below 60 s",
    "open": "goal: below 2 s",
    "compare one experiment": "goal: below 5 s, 400 MB",
}


def main() -> None:
    if is_step(STEPS, argparse.ArgumentParser(description=__doc__)):
        return
    with tempfile.TemporaryDirectory() as folder:
        print(f"{TRACES} traces, {SEEDS} seeds × {RECORDS} records", flush=True)
        for step in STEPS:
            took = used(__file__, step, Path(folder), TRACES)
            print(f"{step:22} {took}  {GOALS.get(step, '')}", flush=True)


if __name__ == "__main__":
    main()
