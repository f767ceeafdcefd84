"""The atlas at the size of all papers: joining traces on both levels, opening it, comparing runs,
exporting it as a table.

Made are 5 papers of 460 traces, each of 5 seeds × 200 records × 15 variables; with --traces N of N
traces in all. Every step runs in a process of its own; printed are its seconds by the wall and of
the processor, the start of the process excluded, and the largest memory that it ever held,
libraries included, beside its goals for 2,300 traces. With --xarray also how often xarray's own
joining takes ours, in the same numbers; it takes the square of the traces, so name fewer.
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
from fedatlas.store import FORMAT
from fedatlas.store.export import point_places, write_table
from fedatlas.store.joining import (
    JoinedExperiment,
    JoinedPaper,
    JoinedRun,
    join_papers,
    join_traces,
)
from fedatlas.store.netcdf import seal
from fedatlas.store.trace import build_trace, read_trace, write_trace

PAPERS = ("dpgt", "fedpage", "fmgda", "tdcd", "vfb2")
SEEDS, RECORDS, POINTS = 5, 200, 5
COSTS = ("round", "iteration", "epoch", "gradient_evaluations", "bytes_up", "bytes_down")
COSTS += ("messages", "sequential_messages", "sequential_bytes", "sequential_gradients")
MEASUREMENTS = ("objective", "gradient_norm", "train_accuracy", "test_accuracy", "test_auroc")


def runs_of(traces: int) -> range:
    return range(traces // len(PAPERS) // POINTS)


def paper_of(name: str, traces: int) -> JoinedPaper:
    points = tuple(f"step_size-{point}" for point in range(POINTS))
    runs = tuple(
        JoinedRun(
            name=f"run{run}", title=f"run {run}", code="", selected_in=f"{name}-made", points=points
        )
        for run in runs_of(traces)
    )
    made = JoinedExperiment(
        name=f"{name}-made", title="made up", source="none", notes="", dataset="none", runs=runs
    )
    return JoinedPaper(paper=name, experiments=(made,))


def make(folder: Path, traces: int) -> None:
    generator = np.random.default_rng(0)
    for paper in PAPERS:
        for run in paper_of(paper, traces).experiments[0].runs:
            for point in run.points:
                write_trace(
                    made_trace(paper, run.name, point, generator),
                    folder / f"{paper}-made" / "traces" / run.name / f"{point}.nc",
                )


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


def join_first_level(folder: Path, traces: int) -> None:
    for name in PAPERS:
        paper = paper_of(name, traces)
        chosen = {(f"{name}-made", run.name): run.points[0] for run in paper.experiments[0].runs}
        join_traces(paper, chosen, folder, folder / "atlas" / f"{name}.nc")


def join_second_level(folder: Path, traces: int) -> None:
    files = [folder / "atlas" / f"{name}.nc" for name in PAPERS]
    join_papers(files, folder / "atlas" / "atlas.nc")


def join_traces_by_xarray(folder: Path, traces: int) -> None:
    """One tree per paper. Groups that are appended one by one take three times as long."""
    for name in PAPERS:
        tree = {"/": xr.Dataset(attrs={"format": FORMAT})}
        for run in paper_of(name, traces).experiments[0].runs:
            for point in run.points:
                place = f"/{name}/{name}-made/{run.name}/{point}"
                tree[place] = read_trace(folder / f"{name}-made/traces/{run.name}/{point}.nc")
        output = folder / "xarray" / f"{name}.nc"
        output.parent.mkdir(exist_ok=True)
        xr.DataTree.from_dict(tree).to_netcdf(output, engine="netcdf4")
        seal(output)


def join_papers_by_xarray(folder: Path, traces: int) -> None:
    tree = {"/": xr.Dataset(attrs={"format": FORMAT})}
    for name in PAPERS:
        groups = xr.open_groups(folder / "xarray" / f"{name}.nc", engine="netcdf4")
        tree |= {place: group for place, group in groups.items() if place != "/"}
    xr.DataTree.from_dict(tree).to_netcdf(folder / "xarray" / "atlas.nc", engine="netcdf4")
    seal(folder / "xarray" / "atlas.nc")


def open_lazily(folder: Path, traces: int) -> None:
    fedatlas.open_atlas(folder / "atlas" / "atlas.nc").close()


def compare_one(folder: Path, traces: int) -> None:
    costs = ["round", "bytes", "network(latency=0.05, bandwidth=1e6, gradient=1e-5)"]
    with fedatlas.open_atlas(folder / "atlas" / "atlas.nc") as atlas:
        one = [f"{PAPERS[-1]}-made"]
        compared = fedatlas.compare(atlas, "test_auroc", costs, 0.99, experiments=one)
    assert compared.dataset.sizes["run"] == len(runs_of(traces))


def export(folder: Path, traces: int) -> None:
    with fedatlas.open_atlas(folder / "atlas" / "atlas.nc") as atlas:
        write_table(atlas, point_places(atlas), folder / "atlas.parquet", {})


STEPS = {
    "join traces": join_first_level,
    "join papers": join_second_level,
    "open": open_lazily,
    "compare one experiment": compare_one,
    "export": export,
}
BY_XARRAY = {
    "join traces, by xarray": join_traces_by_xarray,
    "join papers, by xarray": join_papers_by_xarray,
}
GOALS = {
    "join traces": "goal: with joining papers below 60 s",
    "open": "goal: below 2 s",
    "compare one experiment": "goal: below 5 s, 400 MB",
}


def measured(step: str, folder: Path, traces: int) -> tuple[float, float, float]:
    """Seconds by the wall and of the processor, and MB at most, of this process."""
    start, computed = time.perf_counter(), time.process_time()
    (STEPS | BY_XARRAY)[step](folder, traces)
    seconds, computed = time.perf_counter() - start, time.process_time() - computed
    return seconds, computed, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=2300)
    parser.add_argument("--xarray", action="store_true")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        print(*measured(options.step, options.folder, options.traces))
        return
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), options.traces)
        print(f"{options.traces} traces, {SEEDS} seeds × {RECORDS} records", flush=True)
        for step in STEPS | (BY_XARRAY if options.xarray else {}):
            own = ["--step", step, "--folder", folder, "--traces", str(options.traces)]
            run = [sys.executable, __file__, *own]
            done = subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True)
            seconds, computed, memory = found[step] = [float(x) for x in done.stdout.split()]
            told = f"{step:22} {seconds:6.1f} s {computed:6.1f} s {memory:6.0f} MB"
            print(f"{told}  {GOALS.get(step, '')}", flush=True)
    for step in ("join traces", "join papers") if options.xarray else ():
        ratios = zip(found[f"{step}, by xarray"], found[step], strict=True)
        told = ", ".join(f"{theirs / ours:.1f}" for theirs, ours in ratios)
        print(f"{step}, xarray / ours: {told} (wall, processor, memory)", flush=True)


if __name__ == "__main__":
    main()
