"""Small atlases: the layout that joining writes, out of synthetic traces."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fedatlas.evaluation.verdicts import Verdict, verdicts_to_csv
from fedatlas.files import canonical_json
from fedatlas.store.experiment import (
    ExperimentHeading,
    StoredPoint,
    join_traces,
    write_experiment,
)
from fedatlas.store.trace import read_trace
from trace_factory import auroc_trace, make_trace, vertical_trace

Runs = Mapping[str, tuple[str, Mapping[str, xr.Dataset]]]  # run → title, point → trace


def write_atlas(
    path: Path,
    papers: Mapping[str, Mapping[str, tuple[dict[str, str], Runs]]],
) -> Path:
    """A folder with a file for each experiment, as published ones are, but whole.

    papers: paper → experiment → (what it says, runs); the first point of a run is selected.
    """
    path.mkdir(parents=True, exist_ok=True)
    for paper, experiments in papers.items():
        for experiment, (declared, runs) in experiments.items():
            write_runs(path / f"{experiment}.nc", paper, experiment, runs, **declared)
    return path


def write_runs(file: Path, paper: str, experiment: str, runs: Runs, **declared: str) -> Path:
    usual = {"title": experiment, "source": "Figure 1", "notes": "", "dataset": "made up"}
    heading = ExperimentHeading(paper=paper, experiment=experiment, **usual | declared)
    points = [
        StoredPoint(
            trace.assign_attrs(paper=paper, experiment=experiment, run=run, point=point),
            title,
            point == next(iter(traces)),
        )
        for run, (title, traces) in runs.items()
        for point, trace in traces.items()
    ]
    write_experiment(join_traces(heading, points), file)
    return file


def join_results(results: Path, titles: Mapping[str, str] | None = None, **declared: str) -> None:
    """Join the traces of all experiments of a results folder, as their step of selection does.

    titles: of runs, their names by default.
    """
    for folder in (results / "experiments").iterdir():
        join_experiment(folder, titles or {}, **declared)


def join_experiment(folder: Path, titles: Mapping[str, str], **declared: str) -> None:
    chosen: dict[str, str] = {}
    if (folder / "selection.json").exists():
        record = json.loads((folder / "selection.json").read_text(encoding="utf-8"))
        chosen = {run: entry["selected"] for run, entry in record["runs"].items()}
    traces = [read_trace(file) for file in sorted(folder.glob("traces/*/*.nc"))]
    runs = Counter(trace.attrs["run"] for trace in traces)
    points = []
    for trace in traces:
        run, point = trace.attrs["run"], trace.attrs["point"]
        selected = chosen.get(run, point if runs[run] == 1 else "") == point
        points.append(StoredPoint(trace, titles.get(run, run), selected))
    usual = {"title": folder.name, "source": "", "notes": "", "dataset": "made up"}
    heading = ExperimentHeading(
        paper=traces[0].attrs["paper"], experiment=folder.name, **usual | declared
    )
    write_experiment(join_traces(heading, points), folder / "traces.nc")


def write_claims(path: Path, verdicts: Sequence[Verdict]) -> Path:
    path.write_text(verdicts_to_csv(verdicts), encoding="utf-8")
    return path


def noisy_trace(
    rate: float,
    *,
    seeds: int = 3,
    records: int = 21,
    seed: int = 0,
    optimum: bool = False,
    **options: Any,
) -> xr.Dataset:
    """Falls by `rate` per record, every seed a little otherwise; costs differ by seed."""
    random = np.random.default_rng(seed)
    falls = rate ** np.arange(records) * 10 ** random.normal(0, 0.05, (seeds, records))
    scale = 1 + np.arange(seeds) / 10
    rounds = 10.0 * np.arange(records) * np.ones((seeds, 1))
    counted = {
        "sequential_messages": 2 * rounds,
        "sequential_bytes": 3000 * rounds * scale[:, None],
        "sequential_gradients": 40.5 * rounds,
        "test_accuracy": 1 - 0.4 * falls / falls[:, :1],
    }
    if optimum:
        counted["suboptimality"] = falls / 10
    return make_trace(falls, cost_scale=scale, **(counted | options))


def small_atlas(path: Path) -> Path:
    """Two papers, three experiments: grid points, diverged seeds, an own clock, an AUROC."""
    lost = noisy_trace(0.7, seed=5)
    for name in [*lost.data_vars, *lost.coords]:
        if lost[name].dims == ("seed", "record"):
            lost[name][1, 10:] = np.nan
    lost["status"] = ("seed", ["ok", "diverged", "ok"], lost["status"].attrs)
    steps = {"step_size-0.1": noisy_trace(0.8, seed=1, step=0.1)}
    steps["step_size-0.3"] = noisy_trace(0.9, seed=2, step=0.3)
    parties = vertical_trace(0.3 * 0.5 ** np.arange(11)[None] * np.array([[1.0], [1.1]]))
    specification = json.loads(parties.attrs["specification"]) | {"network": {"latency": 2e-6}}
    parties.attrs["specification"] = canonical_json(specification)
    star = {
        "page": ("FedPAGE", steps),
        "avg": ("FedAvg", {"only": lost}),
        "auc": ("CODA", {"only": auroc_trace(np.linspace(0.5, 0.9, 11)[None])}),
    }
    experiments = {
        "fedpage": {
            "fedpage-first": ({"title": "The first", "notes": "Ours: the data."}, star),
            "fedpage-gone": (
                {},
                {"none": ("FedAvg", {"only": make_trace(np.full((2, 4), np.nan))})},
            ),
        },
        "vfb2": {
            "vfb2-crosspaper": (
                {"title": "Across papers"},
                {
                    "svrg": ("VFB²-SVRG", {"only": parties}),
                    "page": ("FedPAGE", {"only": noisy_trace(0.6, seed=3, optimum=True)}),
                },
            )
        },
    }
    return write_atlas(path, experiments)


def problem(trace: xr.Dataset, optimum: float = 0.25, **declared) -> xr.Dataset:
    """The trace with all that says which problem it solves."""
    specification = json.loads(trace.attrs["specification"])
    usual = {
        "dataset": "a9a",
        "split": "train",
        "partition": {"kind": "horizontal", "clients": 10, "test": 100, "samples": None},
        "objective": {"name": "logistic_l2", "weight": 1e-4},
    }
    seeds = [str(seed) for seed in trace["seed"].to_numpy()]
    digests = declared.pop("shards", dict.fromkeys(seeds, "5" * 64))
    return trace.assign_attrs(
        specification=canonical_json(specification | usual | declared),
        shard_digests=canonical_json(digests),
        optima=canonical_json(dict.fromkeys(seeds, optimum)),
        source_digest="c" * 64,
        values_digest="d" * 64,
        versions=declared.pop("versions", '{"numpy":"1.0"}'),
    )


def one_run(path: Path, trace: xr.Dataset, name: str = "page", experiment: str = "ours-a"):
    return write_atlas(path, {"ours": {experiment: ({}, {name: (name.upper(), {"only": trace})})}})
