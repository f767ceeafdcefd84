"""The largest inputs that are promised: what they take, beside their goals; each takes minutes.

    rows      a LIBSVM file of 2.4 GB, 5 million rows × 40, beside scikit-learn's reading of it
    clients   a federation of a million clients, with two rows each
    points    a dry run of an experiment with 20,000 points; joining their traces
    traces    an atlas of 10,000 traces: opening, comparing, and the explorer
    records   50 seeds × 200,000 records: the trace of seeds with results, joining, the figure

Steps run in processes of their own; told are their seconds by the wall and of the processor, the
most memory, libraries included, and what they write.

    python benchmarks/sizes.py rows clients [--small]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from own_process import Steps, is_step, used

if TYPE_CHECKING:
    from fedatlas.data.datasets import Dataset
    from fedatlas.federations.context import FederationContext
    from fedatlas.schema.runs import RunSpec

COLUMNS, OF_CLIENTS, RECORDS = 40, 4, 200_000
_AT_ONCE = 1 << 16


def write_libsvm(path: Path, rows: int, columns: int) -> None:
    """Rows of which no value is 0, of 12 bytes each."""
    generator = np.random.default_rng(0)
    cells = [f"{column:2d}:0.000000".encode().rjust(12) for column in range(1, columns + 1)]
    line = np.frombuffer(b"+1" + b"".join(cells) + b"\n", np.uint8)
    with path.open("wb") as file:
        for start in range(0, rows, _AT_ONCE):
            block = np.tile(line, (min(_AT_ONCE, rows - start), 1))
            block[:, 0] = generator.choice(np.frombuffer(b"+-", np.uint8), len(block))
            values = block[:, 2:-1].reshape(len(block), columns, 12)
            values[:, :, 6:] = generator.integers(48, 58, (len(block), columns, 6), np.uint8)
            block[:, 2:-1] = values.reshape(len(block), -1)
            file.write(block.tobytes())


def _dataset(rows: int, columns: int) -> Dataset:
    from fedatlas.data.formats import dataset_of

    file = {"path": "rows", "checksum": f"md5:{0:032}"}
    entry = {
        **{"name": "made-up", "title": "Made up", "homepage": "https://example.org"},
        **{"licence": "none stated", "citation": "none", "format": "libsvm", "task": "binary"},
        **{"features": columns, "labels": {-1: -1, 1: 1}},
        "splits": {"train": {"rows": rows, "files": [file]}},
    }
    return dataset_of(entry, "made-up")


def make_rows(folder: Path, rows: int) -> None:
    write_libsvm(folder / "rows", rows, COLUMNS)


def read_by_scikit_learn(folder: Path, rows: int) -> None:
    from sklearn.datasets import load_svmlight_file

    load_svmlight_file(folder / "rows", n_features=COLUMNS)


def prepare_rows(folder: Path, rows: int, columns: int = COLUMNS) -> None:
    from fedatlas.data.prepare import prepare

    prepare(_dataset(rows, columns), "train", [folder / "rows"], folder / "train.parquet")


def shard(folder: Path, rows: int, clients: int = 100) -> None:
    from fedatlas.schema.partitions import HorizontalPartition
    from fedatlas.shards.writing import write_shards

    partition = HorizontalPartition(clients=clients, assignment="shuffled", seed=0)
    write_shards(
        folder / "train.parquet", partition, [folder / "silo-0.parquet"], folder / "manifest.json"
    )


def read(folder: Path, rows: int) -> None:
    from fedatlas.federations.shards import read_shard

    read_shard(folder / "silo-0.parquet")


def make_clients(folder: Path, clients: int) -> None:
    write_libsvm(folder / "rows", 2 * clients, OF_CLIENTS)
    prepare_rows(folder, 2 * clients, OF_CLIENTS)


def make_points(folder: Path, points: int) -> None:
    import atlas

    from fedatlas.store.trace import write_trace

    generator = np.random.default_rng(0)
    for number in range(points):
        trace = atlas.made_trace("ours", "fedavg", f"step-{number}", generator, (1, 11))
        write_trace(trace, folder / "traces" / f"step-{number}.nc")


def dry_run_of_points(folder: Path, points: int) -> None:
    from growth import dry_run

    dry_run(points)


def join_points(folder: Path, points: int) -> None:
    join(folder, sorted((folder / "traces").glob("*.nc")), "fedavg")


def join(folder: Path, traces: list[Path], run: str) -> None:
    """As a job of the workflow does it."""

    from fedatlas.evaluation.selection import select_points
    from fedatlas.schema.runs import Selection

    words = dict.fromkeys(("title", "source", "notes", "dataset"), "made up")
    select_points(
        traces=traces,
        tuning=[],
        selection=Selection(),
        tuned={},
        heading={"paper": "ours", "experiment": "made"} | words,
        titles={run: "A run"},
        output=folder / "selection.json",
        joined=folder / "traces.nc",
    )


def _run(folder: Path, seeds: int) -> tuple[RunSpec, FederationContext]:
    """A run of so many seeds and records, whose shards are made."""
    from growth import ROOT

    from fedatlas.data.catalogue import load_catalogue
    from fedatlas.data.prepare import prepare
    from fedatlas.federations.context import FederationContext
    from fedatlas.plan.build import build_plan
    from fedatlas.shards.writing import write_shards

    run = build_plan(ROOT / "config").runs_of("demo-fedpage")[0]
    changed = {"seeds": tuple(range(seeds)), "rounds": RECORDS - 1, "record_every": 1}
    run = run.model_copy(update=changed)
    own = folder / run.partition.slug
    if not own.exists():
        prepare(load_catalogue(ROOT / "config/datasets.yaml")[run.dataset], "train", [], own / "p")
        write_shards(own / "p", run.partition, [own / "silo-0.parquet"], own / "manifest.json")
    return run, FederationContext(run, folder, "cpu")


def make_seeds(folder: Path, seeds: int) -> None:
    """Results of seeds, which fall and are noisy."""
    import atlas

    from fedatlas.algorithms import build_algorithm
    from fedatlas.code import code_digest
    from fedatlas.training.seeds import SeedFiles, SeedPolicy, SeedResult, versions

    run, context = _run(folder, seeds)
    algorithm, code = build_algorithm(run), code_digest(*run.code)
    files = SeedFiles(SeedPolicy(folder / "seeds", 60), context, run, algorithm, code, {})
    made = {"start": "", "device": "cpu", "versions": versions(context), "warnings": []}
    generator = np.random.default_rng(0)
    rounds = np.arange(RECORDS, dtype=float)
    for seed in range(seeds):
        counted = {name: rounds * (1 + place) for place, name in enumerate(atlas.COSTS)}
        noise = {
            name: generator.lognormal(0, 0.1, RECORDS) / (1 + rounds) for name in atlas.MEASUREMENTS
        }
        files.save(seed, SeedResult(counted | noise, "ok", made))


def write_run(folder: Path, seeds: int) -> None:
    from fedatlas.training.loop import train
    from fedatlas.training.seeds import SeedPolicy

    run, context = _run(folder, seeds)
    policy = SeedPolicy(folder / "seeds", 60)
    train(run, folder, folder / "trace.nc", seeds=policy, context=context)


def join_run(folder: Path, seeds: int) -> None:
    join(folder, [folder / "trace.nc"], "fedpage")


def open_run(folder: Path, seeds: int) -> None:
    from fedatlas.store.experiment import Experiment

    Experiment(folder / "traces.nc").traces()


def draw_run(folder: Path, seeds: int) -> None:
    from fedatlas.figures.kinds.convergence import ConvergenceFigure
    from fedatlas.figures.style import draw_figure

    figure, names = ConvergenceFigure(kind="convergence"), {"fedpage": "FedPAGE"}
    traces, selection = folder / "traces.nc", folder / "selection.json"
    draw_figure("Made up", figure, names, traces, selection, [folder / "figure.svg"])


class Size(NamedTuple):
    """size: in full. steps: in order, of this file or of another. goals: in words, by step."""

    size: int
    steps: Sequence[str]
    goals: Mapping[str, str]
    file: str = __file__


_MEMORY = "goal: 2,000 MiB"
SIZES = {
    "rows": Size(
        5_000_000,
        ("make rows", "scikit-learn", "prepare rows", "shard rows", "read rows"),
        {"prepare rows": f"{_MEMORY}, 1.5 times scikit-learn", "shard rows": _MEMORY},
    ),
    "clients": Size(
        1_000_000,
        ("make clients", "shard clients", "read clients"),
        {"shard clients": _MEMORY},
    ),
    "points": Size(
        20_000,
        ("dry run", "make points", "join points"),
        {"dry run": "goal: 20 s of the processor"},
    ),
    "traces": Size(
        10_000,
        ("make", "join", "open", "compare one experiment", "explorer"),
        {
            "open": "goal: 0.5 s",
            "compare one experiment": "goal: 5 s",
            "explorer": "goal: 60 s",
        },
        str(Path(__file__).with_name("atlas.py")),
    ),
    "records": Size(50, ("make seeds", "write run", "join run", "open run", "draw run"), {}),
}
STEPS: Steps = {
    "make rows": make_rows,
    "scikit-learn": read_by_scikit_learn,
    "prepare rows": prepare_rows,
    "shard rows": shard,
    "read rows": read,
    "make clients": make_clients,
    "shard clients": lambda folder, clients: shard(folder, 2 * clients, clients),
    "read clients": read,
    "dry run": dry_run_of_points,
    "make points": make_points,
    "join points": join_points,
    "make seeds": make_seeds,
    "write run": write_run,
    "join run": join_run,
    "open run": open_run,
    "draw run": draw_run,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sizes", nargs="*", metavar="SIZE", help=f"of {', '.join(SIZES)}")
    parser.add_argument("--small", action="store_true", help="a tenth of each")
    if is_step(STEPS, parser):
        return
    options = parser.parse_args()
    for name in options.sizes or SIZES:
        size = SIZES[name].size // (10 if options.small else 1)
        print(f"{name}: {size:,}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            for step in SIZES[name].steps:
                there = _bytes(Path(folder))
                took = used(SIZES[name].file, step, Path(folder), size)
                written = (_bytes(Path(folder)) - there) / 1e6
                goal = SIZES[name].goals.get(step, "")
                print(f"  {step:30} {took} {written:9,.1f} MB written  {goal}", flush=True)


def _bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


if __name__ == "__main__":
    main()
