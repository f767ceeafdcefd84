"""Measurements of the best constant predictor: a run that is better has learnt something.

A constant predictor answers alike whatever the sample: with one class, one number, or one share of
each class. It is the best one of the rows that are measured, test rows too, so that no constant is
better.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np

from fedatlas.data.tables import open_parquet, read_metadata, to_array
from fedatlas.evaluation.constants import ConstantRow
from fedatlas.evaluation.tables import to_csv
from fedatlas.federations.shards import row_weights
from fedatlas.files import write_text
from fedatlas.schema.losses import Loss
from fedatlas.schema.models import Model
from fedatlas.schema.objectives import (
    TOP,
    AucObjective,
    ClassificationObjective,
    ClientWeights,
    LinearObjective,
    PredictionObjective,
    RegressionObjective,
)

Objective: TypeAlias = (
    LinearObjective | AucObjective | ClassificationObjective | RegressionObjective
)
# Between grid points of the robust loss, whose curvature is 1, a minimum is not missed.
_SPACING, _FEWEST, _MOST = 0.05, 201, 4001


class Predictor(Model):
    """A run, as far as its labels go.

    shards: by seed, the file with the labels of its trial, below the folder of shards. objective:
    what it minimises. over_clients: whether that is a mean over clients.
    """

    shards: dict[int, str]
    objective: Objective
    over_clients: bool


def tabulate_constants(runs: dict[str, Predictor], shards: Path, output: Path) -> None:
    """Tabulate what the best constant predictor has of each run's measurements.

    shards: the folder of all data sets' shards. Seeds that have the same share a line.
    """

    @cache
    def known(shard: str, objective: str, over_clients: bool) -> Mapping[str, float]:
        return _of_shard(shards / shard, objectives[objective], over_clients)

    objectives = {run.objective.slug: run.objective for run in runs.values()}
    rows = []
    for name, run in runs.items():
        by_seed: dict[int | None, Mapping[str, float]] = {
            seed: known(shard, run.objective.slug, run.over_clients)
            for seed, shard in run.shards.items()
        }
        first = next(iter(by_seed.values()))
        if all(found == first for found in by_seed.values()):
            by_seed = {None: first}
        rows += [
            ConstantRow(name, measurement, value, seed)
            for seed, found in by_seed.items()
            for measurement, value in found.items()
        ]
    write_text(output, to_csv([row._asdict() for row in rows], ConstantRow._fields))


def _of_shard(path: Path, objective: Objective, over_clients: bool) -> Mapping[str, float]:
    with open_parquet(path) as file:
        metadata = read_metadata(file, path, ("rows",))
        label = to_array(file.read(columns=["label"])["label"])
    # Clients' rows one after the other, or parties' training rows; then those for testing.
    sizes = metadata.get("client_samples") or [metadata["groups"][0][1]]
    held = sum(sizes)
    weights = np.full(held, 1 / held)
    if over_clients:
        declared: ClientWeights = getattr(objective, "client_weights", "equal")
        weights = row_weights(np.array(sizes), declared)
    tested = held + metadata.get("test_samples", len(label) - held)  # then those for validation
    return best_constants(objective, label[:held], weights, label[held:tested])


def best_constants(
    objective: Objective,
    label: np.ndarray,
    weights: np.ndarray,
    test: np.ndarray,
) -> dict[str, float]:
    """The best value that a constant predictor reaches, by measurement.

    label, weights: (n,) of the training rows, and their weights in the objective, of sum 1. test:
    (m,) labels of test rows, if there are any.
    """
    found = {}
    if not isinstance(objective, LinearObjective | PredictionObjective) or (
        objective.name in objective.names()  # of users' losses the best constant is not known
    ):
        found["objective"] = _least_objective(objective, label, weights)
    every = np.concatenate([label, test])
    signs = np.isin(every, (-1.0, 1.0)).all()
    regression = isinstance(objective, RegressionObjective) or (
        isinstance(objective, LinearObjective) and not signs
    )
    for rows, own in (("train", label), ("test", test)):
        if len(own):
            qualities = (
                {"rmse": float(own.std())} if regression else _qualities(own, len(set(every)))
            )
            found |= {f"{rows}_{name}": value for name, value in qualities.items()}
    if "test_accuracy" in found:
        for agents in ("of_agents", "of_worst_agent"):
            found[f"test_accuracy_{agents}"] = found["test_accuracy"]
    return {name: value for name, value in found.items() if name in objective.measurements}


def _qualities(label: np.ndarray, classes: int) -> dict[str, float]:
    """Of predictions of a class; F1 and AUROC are of label 1."""
    _, counts = np.unique(label, return_counts=True)
    shares = np.sort(counts)[::-1] / len(label)
    positive = float((label == 1).mean())
    found = {"accuracy": float(shares[0]), "f1": 2 * positive / (1 + positive)}
    if 0 < positive < 1:
        found["auroc"] = 0.5  # ties count half
    if classes > TOP:
        found["top5_accuracy"] = float(shares[:TOP].sum())
    return found


def _least_objective(
    objective: Objective,
    label: np.ndarray,
    weights: np.ndarray,
) -> float:
    """The least of the objective without its regulariser, which does not bear on a constant."""
    values, places = np.unique(label, return_inverse=True)
    shares = np.bincount(places, weights)
    if isinstance(objective, AucObjective):
        return 1.0  # (1 − h₊ + h₋)² of equal scores
    of_network = Loss.SQUARE if isinstance(objective, RegressionObjective) else Loss.LOGISTIC
    loss = objective.loss if isinstance(objective, LinearObjective) else of_network
    if loss is Loss.LOGISTIC:
        return float(-(shares * np.log(shares)).sum())
    mean = float(shares @ values)
    if loss is Loss.SQUARE:
        return float(shares @ (values - mean) ** 2)
    return _least_robust(values, shares)


def _least_robust(values: np.ndarray, shares: np.ndarray) -> float:
    """The least mean of log(1 + (c − b)²/2), which has several local minima."""
    from scipy.optimize import minimize_scalar  # loads for a tenth of a second

    def mean(constant: float) -> float:
        return float(shares @ np.log1p((constant - values) ** 2 / 2))

    span = values[-1] - values[0]
    grid = np.linspace(values[0], values[-1], int(np.clip(span / _SPACING, _FEWEST, _MOST)))
    best = int(np.argmin([mean(constant) for constant in grid]))
    around = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(mean, bounds=around, method="bounded", options={"xatol": 1e-10})
    return min(float(found.fun), mean(float(grid[best])))
