"""l2-logistic regression on a9a to a given sub-optimality, by incremental methods on one core."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from rows import row_arrays
from scipy.special import expit
from task import DifferentResult, Peer, Task, write_job

from fedatlas.arithmetic.samples import Samples
from fedatlas.federations.vertical.shards import PartyRows
from fedatlas.schema.objectives import LinearObjective
from fedatlas.training.solver import solve

WEIGHT, GAP = 1e-4, 1e-6


@dataclass(frozen=True)
class SagaTask(Task):
    """From x = 0, with scikit-learn's step 1/(3L) for both forms of SAGA, L the largest of a row.

    All draw rows uniformly with replacement, from streams of their own; equal are their losses.
    """

    samples: Samples

    name: ClassVar[str] = "saga"
    title: ClassVar[str] = f"l2-logistic regression, λ = {WEIGHT:g}, from 0 to f − f* ≤ {GAP:g}"
    unit: ClassVar[str] = "solutions"
    peers: ClassVar[tuple[Peer, ...]] = (
        Peer("fedatlas, SAGA", "saga_fedatlas.py", None, {"method": "vfb2_saga"}),
        Peer("fedatlas, SVRG", "saga_fedatlas.py", None, {"method": "vfb2_svrg"}),
        Peer("scikit-learn, SAGA", "saga_sklearn.py"),
    )

    def write(self, folder: Path) -> None:
        rows = PartyRows(self.samples.features, self.samples.label, np.array([0]))
        _, optimum = solve(rows, LinearObjective(name="logistic_l2", weight=WEIGHT))
        largest = 0.25 * float((self.samples.features**2).sum(axis=1).max()) + WEIGHT
        values = {
            "features": self.samples.features.shape[1],
            "weight": WEIGHT,
            # What scikit-learn takes where 2nλ > L, as here.
            "step_size": 1 / (3 * largest),
            "target": optimum.objective + GAP,
            "optimum": optimum.objective,
            "epochs_at_most": 500,
        }
        write_job(folder, values, **row_arrays(self.samples))

    def check(self, peer: Peer, output: Path, ours: Path) -> str:
        best = json.loads((output.parent / "parameters.json").read_text())["optimum"]
        with np.load(output / "result.npz") as result:
            x, epochs = result["x"], int(result["epochs"])
        margins = self.samples.label * (self.samples.features @ x)
        # By another formula than the scripts'.
        loss = float(-np.log(expit(margins)).mean() + WEIGHT / 2 * (x @ x))
        if not -1e-9 <= loss - best <= GAP * (1 + 1e-6):
            raise DifferentResult(f"{peer.name}: f − f* is {loss - best:.3g} after {epochs} epochs")
        return f"f − f* = {loss - best:.1e} after {epochs} epochs"
