"""What runs measure and which costs they count, by the setting in which they take place."""

from fedatlas.schema.cost_names import BYTES, COSTS, declared_network, link_latencies
from fedatlas.schema.network_model import Backend, NetworkModel
from fedatlas.schema.objectives import ClassificationObjective, Objective

# What only parties with columns count.
_PARTIES_COSTS = ("simulated_time", "elapsed_time", "update_epoch")
_OF_AGENTS = ("test_accuracy_of_agents", "test_accuracy_of_worst_agent", "disagreement")
_DELAYS = (
    *("read_delay_mean", "read_delay_max", "update_delay_mean", "update_delay_max"),
    *("tau_1", "tau_2"),
)
_OF_SIMULATED_PARTIES = ("eta_1", "mask_error")
_BY_ALL = ("round", "epoch", "iteration", "gradient_evaluations", "messages", "wall_time")
_SEQUENTIAL = ("sequential_messages", "sequential_bytes", "sequential_gradients")
_PRIVACY = ("epsilon", "delta")  # by methods that have budgets
_BY_PARTIES = ("bytes_up", "bytes_down", "update_epoch", "full_passes", "block_updates")
# By setting, as `_setting` names it; the counters of `fedatlas.federations`.
_COUNTED = {
    "clients": (*_BY_ALL, *_SEQUENTIAL, *_PRIVACY, "bytes_up", "bytes_down", "full_participations"),
    "agents": (*_BY_ALL, *_SEQUENTIAL, *_PRIVACY, "bytes_sent"),
    "silos": (*_BY_ALL, *_SEQUENTIAL, *BYTES, "hub_client_trips", "hub_hub_trips"),
    "parties": (*_BY_ALL, *_BY_PARTIES, "simulated_time"),
    "processes": (*_BY_ALL, *_BY_PARTIES, "elapsed_time", "socket_bytes"),
}


def _setting(kind: str, on_graphs: bool, backend: Backend) -> str:
    """Who takes part: clients of a server, agents, silos, parties, or parties' processes."""
    if kind == "vertical":
        return "processes" if backend == "processes" else "parties"
    return "silos" if kind == "tiered" else "agents" if on_graphs else "clients"


def measured_by(
    objective: Objective, kind: str, *, on_graphs: bool, backend: Backend
) -> tuple[str, ...]:
    """What a run over a partition of this kind measures.

    Only agents have accuracies of their own, and disagree; only silos measure the gradient of
    networks; only updates of parties are delayed.
    """
    known = [name for name in objective.measurements if name not in _OF_AGENTS]
    if kind != "tiered" and isinstance(objective, ClassificationObjective):
        known.remove("gradient_norm")
    of_setting = {
        "agents": _OF_AGENTS if "test_accuracy" in known else ("disagreement",),
        "parties": (*_DELAYS, *_OF_SIMULATED_PARTIES),
        "processes": _DELAYS,
    }
    return (*known, *of_setting.get(_setting(kind, on_graphs, backend), ()))


def why_not_counted(
    cost: str, kind: str, *, on_graphs: bool | None, backend: Backend, network: NetworkModel | None
) -> str:
    """Why a run over a partition of this kind does not count a cost; empty if it does.

    on_graphs: None where its method is not known. network: that of a run over parties.
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
    settings = {
        _setting(kind, graphs, backend) for graphs in (on_graphs is not False, bool(on_graphs))
    }
    counted = [name for name in COSTS if any(name in _COUNTED[setting] for setting in settings)]
    if cost in COSTS and cost not in counted:
        return f"it counts {', '.join(counted)}"
    if declared is not None and kind == "vertical":
        own = network.latency if network else declared.latency
        if own != declared.latency:
            return f"its own clock has the latency {own:g} s; state 'network: {{latency: …}}'"
    return ""
