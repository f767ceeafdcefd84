"""Cost axes of a trace: what it counted, and simulated times on declared links."""

import json
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.schema.network_model import NetworkModel
from fedatlas.schema.quantities import (
    BYTES,
    COSTS,
    MEASUREMENTS,
    DeclaredNetwork,
    LinkLatencies,
    declared_network,
    link_latencies,
)

if TYPE_CHECKING:
    import xarray as xr

#: A run's records. Plans import this module and do without xarray.
Trace: TypeAlias = "xr.Dataset"


def specification(trace: Trace) -> dict[str, Any]:
    """Read the specification of the run that made the trace, as its experiment declared it."""
    declared: dict[str, Any] = json.loads(trace.attrs["specification"])
    return declared


def column(trace: Trace, name: str) -> np.ndarray:
    """A cost or measurement by record, (seeds, records); one that the run lacks is an error."""
    if name not in trace:
        known = [known for known in (*COSTS, *MEASUREMENTS) if known in trace]
        raise FedatlasError(
            f"run '{trace.attrs['run']}' has no '{name}': name one that it has in figure, "
            f"selection and claims: {', '.join(known)}"
        )
    # A variable is at hand, without the many coordinates of an array.
    variable = trace.variables[name]
    if variable.dims != ("seed", "record"):
        variable = variable.transpose("seed", "record")
    return variable.to_numpy()


def cost_axis(trace: Trace, cost: str) -> np.ndarray:
    """Cost by record, (seeds, records), NaN after a divergence.

    "bytes" are those of all directions. "exchanges" are communication rounds; asynchronous parties
    have none, so their dominated updates count, each an exchange of a dominator with all others.
    """
    latencies = link_latencies(cost)
    if latencies is not None:
        return simulated_latency(trace, latencies)
    network = declared_network(cost)
    if network is not None:
        return network_time(trace, network)
    if cost == "bytes":
        counted = [name for name in BYTES if name in trace] or ["bytes"]
        return np.sum([column(trace, name) for name in counted], axis=0)
    if cost == "exchanges":
        return column(trace, "iteration" if "update_epoch" in trace else "round")
    return column(trace, cost)


def is_counted(trace: Trace, cost: str) -> bool:
    """Whether a trace has what a cost axis needs."""
    if link_latencies(cost) is not None:
        return "hub_client_trips" in trace
    if declared_network(cost) is not None:
        return has_own_clock(trace) or "sequential_messages" in trace
    if cost == "bytes":
        return any(part in trace for part in BYTES)
    return cost == "exchanges" or cost in trace


def simulated_latency(trace: Trace, latencies: LinkLatencies) -> np.ndarray:
    """Time by record of a run over silos, (seeds, records), in units t_comp of one local step.

    Sequential trips and steps add up: clients of one hub, hubs and silos work at the same time. A
    round of Q steps has two round trips between a hub and its clients and one between hubs:
    t_Q = 3 t_comm + Q t_comp, t_comp = 1 (TDCD section 5.2).
    """
    return (
        latencies.hub_client * column(trace, "hub_client_trips")
        + latencies.hub_hub * column(trace, "hub_hub_trips")
        + column(trace, "iteration")
    )


def has_own_clock(trace: Trace) -> bool:
    """Whether time was simulated event by event, as for asynchronous methods."""
    return "simulated_time" in trace


def network_time(trace: Trace, network: DeclaredNetwork) -> np.ndarray:
    """Seconds by record, (seeds, records), of a run of any method under a declared network.

    Critical-path totals add up: a latency for each message, the bytes of the busiest node over its
    bandwidth, and per-sample gradients. Asynchronous methods have no such totals: their time is the
    clock of their own simulation, `simulated_time`, which must have had the same latency. There,
    gradients take what passes over features take, and small messages no bandwidth.

    Raises FedatlasError for a clock with another latency, and for traces that lack the counts.
    """
    if not has_own_clock(trace):
        return (
            network.latency * column(trace, "sequential_messages")
            + column(trace, "sequential_bytes") / network.bandwidth
            + network.gradient * column(trace, "sequential_gradients")
        )
    own = own_latency(trace)
    if own != network.latency:
        raise FedatlasError(
            f"run '{trace.attrs['run']}' has a clock of its own, with the latency {own:g} s, "
            f"not {network.latency:g} s: state that latency, or run it again with 'network: "
            f"{{latency: {network.latency:g}}}'"
        )
    return column(trace, "simulated_time")


def own_latency(trace: Trace) -> float:
    """The latency in seconds of a run's own clock."""
    # No more of it is looked at: traces that were published long ago may state keys of that time.
    declared = specification(trace)["network"] or {}
    return float(declared.get("latency", NetworkModel().latency))
