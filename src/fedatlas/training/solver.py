"""Find optima with a trusted solver, independent of training code."""

import logging
from pathlib import Path

import numpy as np
from scipy import sparse

from fedatlas.arithmetic.kernels.formulas import LinearModel
from fedatlas.arithmetic.nonsmooth import largest_norm, minimise, nonsmooth_value
from fedatlas.arithmetic.objectives import mean_smoothness
from fedatlas.data.tables import open_parquet, read_metadata
from fedatlas.errors import FedatlasError
from fedatlas.federations.shards import read_shard, row_weights
from fedatlas.federations.vertical.shards import PartyRows, read_party_shards
from fedatlas.schema.losses import Nonsmooth, Regulariser
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.runs import Optimum, write_optimum

#: How far above the true optimum f* may be, where that can be known.
ACCURACY = 1e-10
# A restart that gains less than this is the last.
_GAIN = 1e-12

log = logging.getLogger(__name__)


def find_optimum(rows: list[Path], objective: LinearObjective, output: Path) -> None:
    """Find an objective's optimum on training rows: of one party, pooled, or of all clients."""
    with open_parquet(rows[0]) as file:
        of_clients = "client_samples" in read_metadata(file, rows[0], ("rows",))
    if of_clients:
        data = read_shard(rows[0])
        held = PartyRows(data.samples.features, data.samples.label, np.array([0]))
        weights = row_weights(np.diff(data.offsets), objective.client_weights)
        _, found = solve(held, objective, weights)
    else:
        _, found = solve(read_party_shards(rows).train, objective)
    # Down to a multiple of 2^−40, a hundredth of ACCURACY: last digits of solvers, which use BLAS,
    # depend on the processor.
    kept = float(np.floor(found.objective * 2.0**40) / 2.0**40)
    write_optimum(found.model_copy(update={"objective": kept}), output)
    log.info("%s", found)


def solve(
    rows: PartyRows, objective: LinearObjective, weights: np.ndarray | None = None
) -> tuple[np.ndarray, Optimum]:
    """Minimise from w = 0 by L-BFGS (scipy), restarted while it improves: w* and f*.

    weights: (n,) of rows in f, of sum 1; 1/n by default.

    Raises FedatlasError when a strongly convex objective is not solved to ACCURACY.
    """
    from scipy.optimize import minimize

    if objective.nonsmooth is not None:
        return _solve_composite(rows, objective, objective.nonsmooth, weights)
    # Columns without any value stay at 0, where no regulariser has a slope.
    used = np.arange(rows.features.shape[1])
    features = rows.features
    if not isinstance(features, np.ndarray):
        used = np.unique(features.indices)
        features = sparse.csr_array(sparse.csc_array(features)[:, used])
    model = LinearModel(features, rows.label, objective, weights)
    w = np.zeros(len(used))
    value, _ = model.value_and_gradient(w)
    strength = objective.convexity
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


def _solve_composite(
    rows: PartyRows, objective: LinearObjective, term: Nonsmooth, weights: np.ndarray | None
) -> tuple[np.ndarray, Optimum]:
    """The same of F = f + ψ, by accelerated proximal steps; `gradient_norm` is ‖ξ‖, ξ ∈ ∂F(x).

    Of a convex loss the gap is proved: F(x) − F* ≤ ‖ξ‖ ‖x − x*‖, where ‖x*‖ is bounded, and with an
    l2 regulariser F(x) − F* ≤ ‖ξ‖²/2μ. FedatlasError when it is not below ACCURACY.
    """
    model = LinearModel(rows.features, rows.label, objective, weights)
    zero = np.zeros(model.dimension)
    radius = largest_norm(term, model.dimension, model.value_and_gradient(zero)[0])
    convex = objective.loss.convex and objective.regulariser is not Regulariser.NONCONVEX
    strength = objective.convexity

    def gap_of(x: np.ndarray, norm: float) -> float | None:
        if not convex:
            return None
        proved = norm * (float(np.linalg.norm(x)) + radius)
        return proved if strength is None else min(proved, norm**2 / (2 * strength))

    def enough(x: np.ndarray, norm: float) -> bool:
        gap = gap_of(x, norm)
        return norm < _GAIN if gap is None else gap < ACCURACY / 100

    smoothness = mean_smoothness(rows.features, objective, weights)
    x, norm = minimise(model.value_and_gradient, term, zero, smoothness, enough)
    gap = gap_of(x, norm)
    if gap is not None and gap > ACCURACY:
        raise FedatlasError(
            f"optimum of {objective.slug}: accelerated proximal steps ended with f − f* up to "
            f"{gap:.1e}, more than {ACCURACY:g}: add a regulariser, or scale the features"
        )
    value = model.value_and_gradient(x)[0] + nonsmooth_value(term, x)
    solver = "accelerated proximal gradient"
    return x, Optimum(objective=value, gradient_norm=norm, gap=gap, solver=solver)
