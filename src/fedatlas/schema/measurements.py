"""What traces measure: names, long names, units, and which values are best."""

import math
from collections.abc import Collection
from typing import Annotated, NamedTuple

from pydantic import AfterValidator

from fedatlas.schema.models import Model

#: f* is known to this; a difference from it may be smaller, or negative, by rounding.
OPTIMUM_ACCURACY = 1e-10


class Measured(NamedTuple):
    """One measurement; best: 0 or 1, None where neither less nor more is better."""

    long_name: str
    units: str = "1"
    best: int | None = None
    logarithmic: bool = False  # falls towards 0 over orders of magnitude


#: Of the model, then of updates: everything that a trace measures.
MEASUREMENTS = {
    "objective": Measured("objective f(x)", best=0),
    "gradient_norm": Measured("norm of the full gradient ‖∇f(x)‖", best=0, logarithmic=True),
    "suboptimality": Measured("sub-optimality f(x) − f*", best=0, logarithmic=True),
    "train_accuracy": Measured("accuracy on the training samples", best=1),
    "test_accuracy": Measured("accuracy on the test samples", best=1),
    "train_auroc": Measured("area under the ROC curve on the training samples", best=1),
    "test_auroc": Measured("area under the ROC curve on the test samples", best=1),
    "train_f1": Measured("F1 score of the positive class on the training samples", best=1),
    "test_f1": Measured("F1 score of the positive class on the test samples", best=1),
    "train_top5_accuracy": Measured("top-5 accuracy on the training samples", best=1),
    "test_top5_accuracy": Measured("top-5 accuracy on the test samples", best=1),
    # It falls with θ and rises with w.
    "min_max_objective": Measured("min–max objective F(θ, w)"),
    "dual_variable": Measured("dual variable w"),
    "dual_optimum": Measured("best dual variable w*(θ)"),
    "dual_distance": Measured("distance |w − w*(θ)| of the dual variable from its best", best=0),
    "primal_gradient_norm": Measured(
        "norm of the gradient ‖∇Φ(θ)‖ of Φ(θ) = max_w F(θ, w)", best=0, logarithmic=True
    ),
    "test_accuracy_of_agents": Measured("accuracy on the test samples, mean over agents", best=1),
    "test_accuracy_of_worst_agent": Measured(
        "accuracy on the test samples, of the worst agent", best=1
    ),
    "disagreement": Measured("root mean square distance of agents from their mean", best=0),
    "train_rmse": Measured("root mean square error on the training samples", best=0),
    "test_rmse": Measured("root mean square error on the test samples", best=0),
    "read_delay_mean": Measured("updates that a read of a block lacked, mean so far"),
    "read_delay_max": Measured("updates that a read of a block lacked, largest so far"),
    "update_delay_mean": Measured("updates of a block between read and application, mean so far"),
    "update_delay_max": Measured("updates of a block between read and application, largest so far"),
    "tau_1": Measured(
        "global iterations since the first that a sum's reads lacked, most so far (τ₁)"
    ),
    "tau_2": Measured("global iterations from ϑ to a collaborative update, largest so far (τ₂)"),
    "eta_1": Measured("successive global iterations that visit every block, most so far (η₁)"),
    "mask_error": Measured("largest rounding error left by masks in a sum so far"),
}

#: Measurements that are best at 1; others are best at 0, if any value is best.
LARGER_IS_BETTER = frozenset(name for name, one in MEASUREMENTS.items() if one.best == 1)
#: Measurements with a best value. The logarithm of the distance to it tells how far a run got.
LEVELS = tuple(name for name, one in MEASUREMENTS.items() if one.best is not None)


def _one_of(names: Collection[str]) -> AfterValidator:
    def known(name: str) -> str:
        if name not in names:
            raise ValueError(f"must be one of {', '.join(names)}")
        return name

    return AfterValidator(known)


#: One of `MEASUREMENTS`.
Measurement = Annotated[str, _one_of(MEASUREMENTS)]
#: One of `LEVELS`.
Level = Annotated[str, _one_of(LEVELS)]
#: One of `LARGER_IS_BETTER`.
LargerIsBetter = Annotated[str, _one_of([name for name in LEVELS if name in LARGER_IS_BETTER])]


def check_target(model: Model, measurement: str, target: float | None) -> None:
    """Raise ValueError unless runs can reach the target, in units of the measurement.

    The default target is for measurements that are best at 0.
    """
    if target is None:
        return
    if measurement in LARGER_IS_BETTER and "target" not in model.model_fields_set:
        raise ValueError(f"measurement: {measurement} needs a 'target' of its own, such as 0.9")
    check_reachable(measurement, target)


def check_reachable(measurement: str, target: float) -> None:
    """Raise ValueError for a target that is the best value, beyond it, or below what is known."""
    if measurement in LARGER_IS_BETTER:
        if not target < 1:
            raise ValueError(
                f"target: {target:g} of {measurement} must lie below 1, the best value"
            )
    elif not 0 < target < math.inf:
        raise ValueError(f"target: {target:g}, but a target of {measurement} must be above 0")
    elif measurement == "suboptimality" and target < OPTIMUM_ACCURACY:
        raise ValueError(
            f"target: {target:g} of suboptimality lies below {OPTIMUM_ACCURACY:g}, to which f* is "
            f"known; choose {OPTIMUM_ACCURACY:g} or more"
        )
