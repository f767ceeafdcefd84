"""Training in a notebook: one run, from arrays or a data set to its trace, without a workflow."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias

import numpy as np
import xarray as xr
from scipy import sparse

from fedatlas.arithmetic.samples import TENSOR_DTYPES, Samples
from fedatlas.data.catalogue import Catalogue, load_catalogue
from fedatlas.data.datasets import Dataset, Split
from fedatlas.data.prepare import prepare
from fedatlas.errors import FedatlasError
from fedatlas.extensions import open_projects
from fedatlas.federations.algorithm import Algorithm
from fedatlas.federations.context import shard_files
from fedatlas.objectives import own_losses
from fedatlas.plan.build import Plan, plan_of
from fedatlas.plan.holders import elsewhere
from fedatlas.plan.places import catalogue_files, find_projects
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.models import validated
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.partitions import Partition
from fedatlas.schema.runs import RecordEvery
from fedatlas.shards.writing import write_shards

#: Features (n, d), a dense array or a scipy matrix, or of a network's samples (n, *shape); labels
#: (n,): ±1, 0 and 1, classes from 0 on, or real numbers.
Rows: TypeAlias = tuple[Any, Any]

# How errors name what was asked.
_WHERE = "fedatlas.train"
_NAME = "notebook"


class _Given(Dataset):
    """Rows that a call hands over."""

    format: Literal["given"] = "given"
    files_of_split = "no files"

    rows: dict[str, Any]

    def read(self, split: str, raw: list[Path]) -> Samples:
        found: Samples = self.rows[split]
        return found


def train(
    method: str | type[Algorithm],
    data: str | Rows | Mapping[str, Rows],
    *,
    partition: Mapping[str, Any],
    objective: Mapping[str, Any],
    rounds: int,
    record_every: RecordEvery = 1,
    until: Mapping[str, float] | None = None,
    measurements: Sequence[str] = (),
    seeds: int | Sequence[int] = 1,
    split: str = "train",
    optimum: bool = False,
    graphs: Mapping[str, Any] | None = None,
    network: Mapping[str, Any] | None = None,
    device: str = "cpu",
    results: Path | str = "results",
    **hyper_parameters: Any,
) -> xr.Dataset:
    """Train one run and give its trace, as a workflow would: equal numbers, bit for bit.

    method: its name, or a class, which a rehearsal checks first (docs/adding/method.md). What lies
    in a project is found by name where that is the working directory.
    data: a data set's name, rows, or rows by split, such as {"train": …, "test": …}. A data set of
    raw files must have been prepared in `results`.
    partition, objective, graphs, network, record_every, until, measurements: as experiments declare
    them.
    seeds: the seeds, or how many, from 0 on. split: of the data, to train on.
    optimum: whether f* is found and sub-optimality measured. device: cpu, cuda or auto.
    hyper_parameters: the method's.

    The trace has the dimensions seed and record; costs are coordinates, and `trace.objective` and
    the like are what was measured. Raises FedatlasError, which names what does not fit.

    >>> trace = fedatlas.train(
    ...     "fedavg", "breast-cancer", rounds=50, seeds=3,
    ...     partition={"kind": "horizontal", "clients": 20, "samples": 560},
    ...     objective={"name": "logistic_l2", "weight": 1e-3}, optimum=True,
    ...     clients_per_round=5, local_steps=5, batch_size=4, local_step_size=0.1)
    >>> trace.sizes["seed"], float(trace.suboptimality[:, -1].median()) < 0.05
    (3, True)
    """
    if found := find_projects([Path.cwd()]):
        open_projects(found)
    chosen = [*range(seeds)] if isinstance(seeds, int) else [int(seed) for seed in seeds]
    if isinstance(method, str):
        name = algorithm = method
    else:
        if "<locals>" in method.__qualname__:
            raise FedatlasError(
                f"{_WHERE}: {method.__qualname__} is defined within a function, where nothing else "
                "finds it: define it outside"
            )
        name, algorithm = method.__name__, f"{method.__module__}:{method.__qualname__}"
    run = {
        "algorithm": algorithm,
        "hyper_parameters": hyper_parameters,
        "graphs": graphs,
        "network": network,
    }
    plan = planned(
        data, _WHERE, title=name, runs={name: run}, split=split, partition=partition,
        objective=objective, rounds=rounds, seeds=chosen, record_every=record_every,
        until=until or {}, measurements=list(measurements),
        figure={"measurement": "suboptimality" if optimum else "objective"},
    )  # fmt: skip
    with TemporaryDirectory() as folder:
        return train_plan(plan, Path(folder), Path(results), device, rehearsed=algorithm != name)


def planned(data: str | Rows | Mapping[str, Rows], where: str, **declared: Any) -> Plan:
    """The plan of one experiment of a call's own; where: what errors call it.

    data: as of `train`. declared: keys of the experiment.
    """
    catalogue = _catalogue(data, declared["objective"])
    declared |= {
        "paper": "ours", "source": "ours", "dataset": data if isinstance(data, str) else _NAME,
        "selection": {"measurement": "objective"},
    }  # fmt: skip
    experiment = validated(Experiment, declared, where, {"where": where, "inherited": {}})
    return plan_of({_NAME: experiment}, catalogue)


def share_out(plan: Plan, folder: Path, results: Path) -> dict[str, list[Path]]:
    """Write the shards of a plan of one experiment below the folder; files by partition's slug."""
    spec = next(iter(plan.runs.values()))
    return {
        slug: _sharded(
            plan.catalogue[spec.dataset], spec.split, partition, folder / slug, folder, results
        )
        for slug, partition in plan.partitions.items()
    }


def find_optima(plan: Plan, files: Mapping[str, list[Path]], folder: Path) -> None:
    """Find each f* that runs of the plan are measured against; files: as of `share_out`."""
    from fedatlas.training.solver import find_optimum

    for spec in plan.runs.values():
        for seed in spec.seeds:
            optimum = spec.optimum_file(folder, seed)
            if optimum is not None and not optimum.exists():
                optimum.parent.mkdir(parents=True, exist_ok=True)
                _, rows = spec.optimum_rows(seed)
                find_optimum(files[rows.slug], plan.objectives[spec.objective.slug], optimum)


def train_plan(
    plan: Plan, folder: Path, results: Path, device: str, *, rehearsed: bool = False
) -> xr.Dataset:
    """Train a plan's one run in a folder by the workflow's own steps; its trace.

    results: where data sets of raw files are prepared. rehearsed: whether the method is checked
    first.
    """
    from fedatlas.training.loop import train as train_seeds
    from fedatlas.training.rehearsal import rehearse
    from fedatlas.training.steps import naming_run

    if any(spec.optimum for spec in plan.runs.values()):
        import scipy.optimize  # noqa: F401 whose threads are to be limited, too

    (spec,) = plan.runs.values()
    shards = folder / "shards"
    files = share_out(plan, shards, results)
    plain = isinstance(spec.objective, LinearObjective) and not spec.objective.min_max
    with _threads_of_a_job(of_torch=device != "cpu" or not plain), naming_run(spec.name, device):
        find_optima(plan, files, folder / "optima")
        if rehearsed:
            rehearse(spec, shards)
        optima = folder / "optima" if spec.optimum else None
        return train_seeds(spec, shards, folder / "trace.nc", optima=optima, device=device)


@contextmanager
def _threads_of_a_job(*, of_torch: bool) -> Iterator[None]:
    """As many threads as a job of the workflow has, by which sums differ in their last digits.

    of_torch: whether torch computes, too, whose import takes 1.5 s.
    """
    from threadpoolctl import threadpool_limits

    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    if not of_torch:
        with threadpool_limits(threads):
            yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)


def _sharded(
    dataset: Dataset, split: str, partition: Partition, target: Path, folder: Path, results: Path
) -> list[Path]:
    """The shard files of a partition."""
    kept = partition.test_split
    if lacking := unprepared(dataset, [split, kept or split], results):
        raise FedatlasError(
            f"{_WHERE}: data set '{dataset.name}' is made of raw files and is not prepared yet: "
            f"make it by `{to_prepare(lacking)}`, or hand over features and labels"
        )
    prepared = _prepared(dataset, split, folder, results)
    test = _prepared(dataset, kept, folder, results) if kept else None
    target.mkdir(parents=True)
    files = shard_files(target, partition.silos)
    try:
        write_shards(prepared, partition, files, target / "manifest.json", test)
    except FedatlasError as error:  # which names a file of `folder`, of which nobody knows
        told = str(error).removeprefix(f"{prepared}: ")
        if told.startswith("partition: ") and (key := told.split()[1]) in partition.model_dump():
            told = f"key 'partition.{key}': {told.removeprefix('partition: ')}"
        raise FedatlasError(f"{_WHERE}: {told}") from None
    return files


def unprepared(dataset: Dataset, splits: Sequence[str], results: Path) -> list[Path]:
    """Files of the workflow that splits of raw files need and that are not there."""
    own = dict.fromkeys(split for split in splits if dataset.split(split).files)
    files = [results / "data" / dataset.name / f"{split}.parquet" for split in own]
    return [file for file in files if not file.is_file()]


def to_prepare(files: Sequence[Path]) -> str:
    """The command that makes these files, in the working folder."""
    return shlex.join(["snakemake", *elsewhere(), *map(str, files), "--cores", "1"])


def _prepared(dataset: Dataset, split: str, folder: Path, results: Path) -> Path:
    """The prepared file of a split: the workflow's, or one made of what needs no raw file."""
    if dataset.split(split).files:
        return results / "data" / dataset.name / f"{split}.parquet"
    made = folder / f"{split}.parquet"
    if not made.exists():
        by = split != "train" and dataset.scaled_by_train
        train = _prepared(dataset, "train", folder, results) if by else None
        prepare(dataset, split, [], made, train=train)
    return made


def _catalogue(data: str | Rows | Mapping[str, Rows], objective: Mapping[str, Any]) -> Catalogue:
    """The data sets there are, or the one that rows make."""
    if isinstance(data, str):
        return load_catalogue(*catalogue_files())
    by_split = data if isinstance(data, Mapping) else {"train": data}
    found, shape = {}, None
    for split, rows in by_split.items():
        where = f"{_WHERE}: data, split '{split}'"
        found[split], shape = _samples(*rows, tensors="model" in objective, where=where)
    label = np.concatenate([samples.label for samples in found.values()])
    task, classes, name = "regression", None, str(objective.get("name"))
    if set(np.unique(label)) <= {0.0, 1.0}:
        for samples in found.values():
            samples.label[:] = np.where(samples.label > 0, 1.0, -1.0)
        task = "binary"
    elif set(np.unique(label)) <= {-1.0, 1.0}:
        task = "binary"
    elif name == "cross_entropy" or getattr(own_losses().get(name), "labels", "") == "classes":
        task, classes = "multiclass", int(label.max()) + 1
    features = next(iter(found.values())).features.shape[1]
    splits = {split: Split(rows=len(samples)) for split, samples in found.items()}
    about: dict[str, Any] = {"name": _NAME, "title": _NAME, "format": "given", "rows": found}
    about |= {"task": task, "classes": classes, "features": features, "shape": shape}
    given = _Given.model_construct(**about, splits=splits)
    return Catalogue([Path(_WHERE)], {_NAME: given})


def _samples(
    features: Any, labels: Any, *, tensors: bool, where: str
) -> tuple[Samples, tuple[int, ...] | None]:
    """Rows with their labels, and a sample's shape if they are tensors, as networks take them."""
    label, shape = np.array(labels, dtype=np.float64), None
    rows: Any = features if sparse.issparse(features) else np.asarray(features)
    if label.shape != rows.shape[:1] or rows.ndim < 2 or (rows.ndim > 2 and not tensors):
        raise FedatlasError(
            f"{where}: features have the shape {rows.shape} and labels {label.shape}: give (n, d) "
            "and (n,), or (n, *shape) with an objective that has a 'model'"
        )
    if tensors:
        rows, shape = rows.toarray() if sparse.issparse(rows) else rows, rows.shape[1:]
        kept = rows.dtype if rows.dtype in TENSOR_DTYPES else np.float32
        rows = rows.reshape(len(rows), -1).astype(kept)
    elif sparse.issparse(rows):
        rows = sparse.csr_array(rows, dtype=np.float64)
        rows.sort_indices()
    else:
        rows = rows.astype(np.float64)
    values = rows.data if sparse.issparse(rows) else rows
    if not (np.isfinite(values).all() and np.isfinite(label).all()):
        raise FedatlasError(f"{where}: features or labels are infinite or not a number")
    return Samples.numbered(label, rows), shape
