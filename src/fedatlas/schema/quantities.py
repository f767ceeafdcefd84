"""Quantities: the measurements and costs of runs, and their names.

A cost is an axis: something that traces count, or a time that declared links compute from counts.
"""

import math
import re
from collections.abc import Collection, Container
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator

from fedatlas.schema.declared import (
    Counted,
    Declared,
    Measured,
    Names,
    Table,
    declared_costs,
    declared_measurements,
    joined,
)
from fedatlas.schema.models import Model

#: f* is known to this; a difference from it may be smaller, or negative, by rounding.
OPTIMUM_ACCURACY = 1e-10


# Of the model, then of updates: what traces measure without being asked.
_USUAL_MEASUREMENTS = {
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

#: Everything that traces can measure, by name.
MEASUREMENTS = Table(lambda: joined(_USUAL_MEASUREMENTS, declared_measurements()))
#: Measurements that are best at 1; others are best at 0, if any value is best.
LARGER_IS_BETTER = Names(MEASUREMENTS, lambda one: one.best == 1)
#: Measurements with a best value. The logarithm of the distance to it tells how far a run got.
LEVELS = Names(MEASUREMENTS, lambda one: one.best is not None)


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
LargerIsBetter = Annotated[str, _one_of(LARGER_IS_BETTER)]


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


def _in_bytes(long_name: str, unit: str, label: str = "") -> Counted:
    return Counted(long_name, "byte", unit, label, "B")


def _in_seconds(long_name: str, unit: str, label: str = "", choice: str = "") -> Counted:
    return Counted(long_name, "s", unit, label, None, choice)


# What runs have spent by each record. A trace holds what its setting counts.
_USUAL_COSTS = {
    "round": Counted("communication rounds", unit="rounds"),
    "iteration": Counted(
        "sequential gradient steps",
        unit="iterations",
        label="iterations (sequential gradient steps)",
    ),
    "epoch": Counted(
        "gradient evaluations per training sample",
        unit="epochs",
        label="gradient evaluations per sample",
        ticks=None,
    ),
    "update_epoch": Counted(
        "dominated updates per training sample",
        unit="update epochs",
        label="epochs (dominated updates per sample)",
        ticks=None,
    ),
    "gradient_evaluations": Counted(
        "per-sample gradient evaluations", unit="gradients", label="per-sample gradients"
    ),
    "full_passes": Counted("passes over all samples (snapshots, initial tables)", unit="passes"),
    "block_updates": Counted("updates of a party's block", unit="block updates"),
    "bytes_up": _in_bytes("bytes towards a server, dominator or hub", "bytes up"),
    "bytes_down": _in_bytes("bytes from a server, dominator or hub", "bytes down"),
    "bytes_sent": _in_bytes("bytes between agents or hubs", "bytes sent"),
    "messages": Counted("messages", unit="messages"),
    "sequential_messages": Counted(
        "messages one after the other, each of which takes a latency", unit="sequential messages"
    ),
    "sequential_bytes": _in_bytes(
        "bytes of the busiest node, one exchange after the other", "sequential bytes"
    ),
    "sequential_gradients": Counted(
        "per-sample gradients one after the other", unit="sequential gradients"
    ),
    "hub_client_trips": Counted(
        "sequential round trips between hubs and clients", unit="trips between hubs and clients"
    ),
    "hub_hub_trips": Counted("sequential round trips between hubs", unit="trips between hubs"),
    "full_participations": Counted(
        "rounds in which every client took part", unit="rounds of all clients"
    ),
    "simulated_time": _in_seconds(
        "simulated time",
        "simulated seconds",
        "simulated time in seconds",
        "simulated time by the run's own clock (s)",
    ),
    "wasted_bytes": _in_bytes(
        "bytes to and from clients whose answers were late or lost", "wasted bytes"
    ),
    "wasted_gradients": Counted(
        "per-sample gradients of clients whose answers were late or lost", unit="wasted gradients"
    ),
    "elapsed_time": _in_seconds(
        "time that parties' processes took", "seconds elapsed", "time elapsed in seconds"
    ),
    "socket_bytes": _in_bytes(
        "bytes handed to sockets, with headers and requests", "bytes handed to sockets"
    ),
    "epsilon": Counted(
        "privacy spent, ε", unit="of ε", choice="privacy spent, ε (at each run's own δ)"
    ),
    "delta": Counted("privacy spent, δ", unit="of δ", ticks=None),
    "wall_time": _in_seconds(
        "time spent in rounds, evaluation excluded",
        "seconds of rounds",
        "time spent in rounds in seconds",
    ),
}
#: Everything that traces can count, by name.
COSTS = Table(lambda: joined(_USUAL_COSTS, declared_costs()))


def declared_as(name: str) -> Declared | None:
    """What the file of a measurement or cost says of runs; None of what needs no file."""
    found = MEASUREMENTS.get(name) or COSTS.get(name)
    return None if found is None else found.declared


def _has_file(name: str) -> str:
    if declared_as(name) is None:
        known = [one for one in (*MEASUREMENTS, *COSTS) if declared_as(one)]
        raise ValueError(f"must be a file of 'measurements': {', '.join(known)}")
    return name


#: A measurement or cost that a file declares.
DeclaredName = Annotated[str, AfterValidator(_has_file)]

#: Bytes of all kinds are one axis; "exchanges" are rounds, or updates of parties that never wait.
BYTES = ("bytes_up", "bytes_down", "bytes_sent")
#: Axes that a trace does not hold but its counts add up to.
SUMMED_COSTS = {
    "exchanges": Counted(
        "communication rounds, or dominated updates",
        unit="exchanges",
        label="communication rounds\n(of VFB²: dominated updates)",
    ),
    "bytes": _in_bytes("bytes of all directions", "bytes", "bytes communicated"),
}
#: All cost axes by name.
AXES = Table(lambda: {**COSTS, **SUMMED_COSTS})
_LETTERS_OF_AXIS = 42  # that fit along the width of a panel
_NUMBER = r"([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)"
_LATENCY = re.compile(rf"latency\( *{_NUMBER} *(?:, *{_NUMBER} *)?\)")
_NETWORK = re.compile(
    rf"network\( *latency *= *{_NUMBER} *, *bandwidth *= *{_NUMBER} *, *gradient *= *{_NUMBER} *\)"
)


def counts_all_bytes(costs: Container[str]) -> bool:
    """Whether these costs have the bytes of all directions; a log may count one direction only."""
    up, down, sent = (name in costs for name in BYTES)
    return "bytes" in costs or (up == down and (up or sent))


@dataclass(frozen=True)
class LinkLatencies:
    """Time of a round trip on either kind of link, in units of one local step's time."""

    hub_client: float
    hub_hub: float

    @property
    def label(self) -> str:
        """What figures and evidence call them."""
        if self.hub_client == self.hub_hub:
            return f"t_comm = {self.hub_client:g}"
        return f"t_comm = {self.hub_client:g} hub–client, {self.hub_hub:g} hub–hub"


@dataclass(frozen=True)
class DeclaredNetwork:
    """One network for methods of any kind.

    latency: seconds until a message arrives. bandwidth: bytes per second of every node, for all
    that it sends and receives. gradient: seconds for one sample's gradient of the whole model.
    """

    latency: float
    bandwidth: float
    gradient: float

    @property
    def label(self) -> str:
        """What figures and evidence call it."""
        return (
            f"latency {_in_units(self.latency, 's')}, {_in_units(self.bandwidth, 'B/s')}, "
            f"{_in_units(self.gradient, 's')} per gradient"
        )


def _in_units(value: float, unit: str) -> str:
    """A number with a prefix that leaves one to three digits before the point: 2.8 µs."""
    thousands = math.floor(math.log10(value) / 3) if value else 0
    thousands = min(max(thousands, -3), 3)
    return f"{value / 1000**thousands:g} {'nµm kMG'[thousands + 3].strip()}{unit}"


def link_latencies(cost: str) -> LinkLatencies | None:
    """Those of a cost latency(t) or latency(t_hub_client, t_hub_hub); None of any other cost."""
    declared = _LATENCY.fullmatch(cost)
    if declared is None:
        return None
    hub_client = float(declared[1])
    return LinkLatencies(hub_client, hub_client if declared[2] is None else float(declared[2]))


def declared_network(cost: str) -> DeclaredNetwork | None:
    """That of a cost network(latency=…, bandwidth=…, gradient=…); None of any other cost."""
    declared = _NETWORK.fullmatch(cost)
    return None if declared is None else DeclaredNetwork(*map(float, declared.groups()))


def axis(cost: str) -> Counted:
    """What is said of an axis; the label of a figure's is on two lines where it is long."""
    if network := declared_network(cost):
        unit = f"simulated seconds ({network.label})"
        label = f"simulated time in seconds,\n{network.label}"
        return Counted(f"simulated time, {cost}", "1", unit, label, ticks=None)
    if latencies := link_latencies(cost):
        label = f"simulated time units, {latencies.label}"
        label = label if len(label) <= _LETTERS_OF_AXIS else label.replace(", ", ",\n", 1)
        return Counted(f"simulated time, {cost}", "1", f"time units ({latencies.label})", label)
    return AXES[cost]._replace(label=AXES[cost].label or AXES[cost].long_name)


def choice_label(cost: str) -> str:
    """The label of a counted cost in a list from which readers choose."""
    counted = AXES[cost]
    return counted.choice or counted.label.replace("\n", " ") or counted.long_name


def known_cost(cost: str) -> str:
    """The cost as it is; ValueError if it is no axis."""
    links = link_latencies(cost) or declared_network(cost)
    if links is None and cost not in AXES:
        raise ValueError(
            f"must be one of {', '.join(AXES)}, latency(t) or "
            "latency(t_hub_client, t_hub_hub) with numbers that are not negative: latency(100), or "
            "network(latency=0.05, bandwidth=1e6, gradient=1e-5) in seconds and bytes per second"
        )
    if links is not None and not math.isfinite(sum(vars(links).values())):
        raise ValueError("its numbers must be finite")
    if isinstance(links, DeclaredNetwork) and links.bandwidth == 0:
        raise ValueError("a bandwidth of 0 carries nothing; state bytes per second")
    return cost


#: A cost axis: what traces count, or a time that declared links compute from it.
Cost = Annotated[str, AfterValidator(known_cost)]
