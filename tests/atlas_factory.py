"""Small atlases: the layout that joining writes, out of synthetic traces."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fedatlas.evaluation.verdicts import Verdict, verdicts_to_csv
from fedatlas.files import canonical_json
from fedatlas.store.netcdf import seal
from trace_factory import auroc_trace, make_trace, vertical_trace

Runs = Mapping[str, tuple[str, Mapping[str, xr.Dataset]]]  # run → title, point → trace


def write_atlas(
    path: Path,
    papers: Mapping[str, Mapping[str, tuple[dict[str, str], Runs]]],
) -> Path:
    """papers: paper → experiment → (attributes, runs); the first point of a run is selected."""
    nodes = {"/": xr.Dataset(attrs={"format": "fedatlas atlas 1"})}
    for paper, experiments in papers.items():
        for experiment, (attributes, runs) in experiments.items():
            place = f"/{paper}/{experiment}"
            usual = {"title": experiment, "source": "Figure 1", "notes": "", "dataset": "made up"}
            nodes[place] = xr.Dataset(attrs=usual | attributes)
            for run, (title, points) in runs.items():
                chosen = {"title": title, "selected": next(iter(points))}
                nodes[f"{place}/{run}"] = xr.Dataset(attrs=chosen)
                for point, trace in points.items():
                    own = {"paper": paper, "experiment": experiment, "run": run, "point": point}
                    nodes[f"{place}/{run}/{point}"] = trace.assign_attrs(own)
    xr.DataTree.from_dict(nodes).to_netcdf(path, engine="netcdf4")
    seal(path)
    return path


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
