"""What runs measure and which costs they count, by the setting in which they take place."""

from fedatlas.schema.cost_names import declared_network, link_latencies
from fedatlas.schema.network_model import Backend, NetworkModel
from fedatlas.schema.objectives import ClassificationObjective, Objective

# What only parties with columns count.
_PARTIES_COSTS = ("simulated_time", "elapsed_time", "update_epoch")


def measured_by(objective: Objective, kind: str) -> tuple[str, ...]:
    """What a run over a partition of this kind measures.

    Only agents have accuracies of their own, and disagree; only silos measure the gradient of
    networks.
    """
    known = objective.measurements
    if kind != "tiered" and isinstance(objective, ClassificationObjective):
        return tuple(name for name in known if name != "gradient_norm")
    if kind != "tiered":
        return known
    return tuple(name for name in known if "agent" not in name and name != "disagreement")


def why_not_counted(cost: str, kind: str, *, backend: Backend, network: NetworkModel | None) -> str:
    """Why a run over a partition of this kind does not count a cost; empty if it does.

    network: that of a run over parties.
    """
    declared = declared_network(cost)
    if link_latencies(cost) is not None and kind != "tiered":
        return "it has no silos"
    if cost in _PARTIES_COSTS and kind != "vertical":
        return "it has no parties"
    is_real = backend == "processes"
    if cost == "simulated_time" and is_real:
        return "its time is real: name elapsed_time"
    if cost == "elapsed_time" and not is_real:
        return "its time is simulated: name simulated_time, or say 'backend: processes'"
    if cost == "epsilon" and kind != "horizontal":
        return "it is not private"
    if declared is not None and kind == "vertical":
        own = network.latency if network else declared.latency
        if own != declared.latency:
            return f"its own clock has the latency {own:g} s; state 'network: {{latency: …}}'"
    return ""
