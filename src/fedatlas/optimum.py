"""The optimum f* of an objective on pooled training rows, from a trusted solver."""

import json
from pathlib import Path

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.files import canonical_json, write_text
from fedatlas.models import Model, validated
from fedatlas.objectives import Objective, Regulariser
from fedatlas.party_shards import PartyRows
from fedatlas.problems.linear import LinearModel

#: How far above the true optimum f* may be, where that can be known.
ACCURACY = 1e-10


class Optimum(Model):
    """What a solver found.

    objective: f there. gradient_norm: ‖∇f‖ there. gap: an upper bound of f − f*, ‖∇f‖²/2μ for a
    μ-strongly convex objective; None for others, where `objective` is that of the stationary point
    which the solver reaches from w = 0.
    """

    objective: float
    gradient_norm: float
    gap: float | None
    solver: str


def solve(rows: PartyRows, objective: Objective) -> tuple[np.ndarray, Optimum]:
    """Minimise from w = 0 by L-BFGS (scipy), restarted until it no longer improves: w* and f*.

    Raises FedatlasError when a strongly convex objective is not solved to ACCURACY.
    """
    from scipy.optimize import minimize

    model = LinearModel(rows.features, rows.label, objective)
    w = np.zeros(model.dimension)
    strength = objective.weight if objective.regulariser is Regulariser.L2 else None
    # A fresh start forgets curvature that rounding has spoilt.
    for _ in range(20):
        result = minimize(
            model.value_and_gradient,
            w,
            jac=True,
            method="L-BFGS-B",
            options={"maxcor": 30, "maxiter": 20_000, "maxfun": 40_000, "ftol": 0, "gtol": 1e-12},
        )
        moved = not np.array_equal(w, result.x)
        w = result.x
        value, gradient = model.value_and_gradient(w)
        norm = float(np.linalg.norm(gradient))
        gap = None if strength is None else norm**2 / (2 * strength)
        if not moved or (gap is not None and gap < ACCURACY / 100):
            break
    if gap is not None and gap > ACCURACY:
        raise FedatlasError(
            f"optimum of {objective.slug}: L-BFGS ended with f − f* up to {gap:.1e}, more than "
            f"{ACCURACY:g}: are the features badly scaled?"
        )
    return w, Optimum(objective=value, gradient_norm=norm, gap=gap, solver="scipy L-BFGS-B")


def write_optimum(optimum: Optimum, path: Path) -> None:
    """Write as JSON, whole or not at all."""
    write_text(path, canonical_json(optimum.model_dump(mode="json")) + "\n")


def read_optimum(path: Path) -> Optimum:
    """Read back; FedatlasError names the file."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FedatlasError(f"{path}: cannot be read as JSON: {error}. Make it again.") from None
    return validated(Optimum, content, str(path))
