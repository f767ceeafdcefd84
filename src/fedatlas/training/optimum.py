"""Optima f* of objectives on pooled training rows: finding them, and their files."""

from pathlib import Path

import numpy as np
from scipy import sparse

from fedatlas.arithmetic.kernels.formulas import LinearModel
from fedatlas.errors import FedatlasError
from fedatlas.federations.vertical.shards import PartyRows
from fedatlas.files import canonical_json, text_digest, write_text
from fedatlas.schema.models import Model, read_json, validated
from fedatlas.schema.objectives import LinearObjective, Regulariser
from fedatlas.schema.runs import RunSpec


class Optimum(Model):
    """What a solver found.

    objective: f there. gradient_norm: ‖∇f‖ there. gap: an upper bound of f − f*, ‖∇f‖²/2μ for a
    μ-strongly convex objective; None for others, where `objective` is that of the stationary point
    which the solver reaches from w = 0. digest: SHA-256 of the rest in its file; None unless it was
    read from a file, and of files of versions that wrote none, which are taken as they are.
    """

    objective: float
    gradient_norm: float
    gap: float | None
    solver: str
    digest: str | None = None

    def found_digest(self) -> str:
        """What `digest` must be."""
        return text_digest(canonical_json(self.model_dump(mode="json", exclude={"digest"})))


def write_optimum(optimum: Optimum, path: Path) -> None:
    """Write as JSON, whole or not at all."""
    found = optimum.model_copy(update={"digest": optimum.found_digest()})
    write_text(path, canonical_json(found.model_dump(mode="json")) + "\n")


def read_optimum(path: Path) -> Optimum:
    """Read back; FedatlasError names a file that cannot be read or was changed."""
    found = validated(Optimum, read_json(path), str(path))
    if found.digest not in (None, found.found_digest()):
        raise FedatlasError(
            f"{path}: is damaged or was changed since it was written: its digest is not that of "
            "its values. Move it away and run again."
        )
    return found


def read_optima(spec: RunSpec, folder: Path | None) -> dict[int, float]:
    """f* of every trial, by seed; empty where sub-optimality is not measured.

    folder: holds the split's optima.
    """
    if spec.optimum and folder is None:
        raise FedatlasError(f"{spec.name}: measures sub-optimality: give --optima, too")
    files = {seed: spec.optimum_file(folder or Path(), seed) for seed in spec.seeds}
    read = {file: read_optimum(file).objective for file in set(files.values()) if file}
    return {seed: read[file] for seed, file in files.items() if file}


#: How far above the true optimum f* may be, where that can be known.
ACCURACY = 1e-10
# A restart that gains less than this is the last.
_GAIN = 1e-12


def solve(rows: PartyRows, objective: LinearObjective) -> tuple[np.ndarray, Optimum]:
    """Minimise from w = 0 by L-BFGS (scipy), restarted while it improves: w* and f*.

    Raises FedatlasError when a strongly convex objective is not solved to ACCURACY.
    """
    from scipy.optimize import minimize

    # Columns without any value stay at 0, where no regulariser has a slope.
    used = np.arange(rows.features.shape[1])
    features = rows.features
    if not isinstance(features, np.ndarray):
        used = np.unique(features.indices)
        features = sparse.csr_array(sparse.csc_array(features)[:, used])
    model = LinearModel(features, rows.label, objective)
    w = np.zeros(len(used))
    value, _ = model.value_and_gradient(w)
    strength = objective.weight if objective.regulariser is Regulariser.L2 else None
    least = 1e-14 if strength is None else 0.0
    # A fresh start forgets curvature that rounding has spoilt.
    for _ in range(20):
        result = minimize(
            model.value_and_gradient,
            w,
            jac=True,
            method="L-BFGS-B",
            options={"maxcor": 20, "maxiter": 5000, "maxfun": 10_000, "ftol": least, "gtol": 1e-12},
        )
        before, w = value, result.x
        value, gradient = model.value_and_gradient(w)
        norm = float(np.linalg.norm(gradient))
        gap = None if strength is None else norm**2 / (2 * strength)
        # A gap can be proved small; without one, steps that gain nothing are all there is.
        if before - value < _GAIN if gap is None else gap < ACCURACY / 100 or before <= value:
            break
    if gap is not None and gap > ACCURACY:
        raise FedatlasError(
            f"optimum of {objective.slug}: L-BFGS ended with f − f* up to {gap:.1e}, more than "
            f"{ACCURACY:g}: are the features badly scaled?"
        )
    found = np.zeros(rows.features.shape[1])
    found[used] = w
    return found, Optimum(objective=value, gradient_norm=norm, gap=gap, solver="scipy L-BFGS-B")
