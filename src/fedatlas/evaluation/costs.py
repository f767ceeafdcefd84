"""Cost axes of a trace: what it counted, and the times that declared links make of that."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.schema.cost_names import (
    BYTES,
    COSTS,
    DeclaredNetwork,
    LinkLatencies,
    declared_network,
    link_latencies,
)
from fedatlas.schema.measurements import MEASUREMENTS
from fedatlas.schema.network_model import NetworkModel

if TYPE_CHECKING:
    import xarray as xr


def column(trace: xr.Dataset, name: str) -> np.ndarray:
    """A cost or measurement by record, (seeds, records); one that the run lacks is an error."""
    if name not in trace:
        known = [known for known in (*COSTS, *MEASUREMENTS) if known in trace]
        raise FedatlasError(
            f"run '{trace.attrs['run']}' has no '{name}': name one that it has in figure, "
            f"selection and claims: {', '.join(known)}"
        )
    return trace[name].transpose("seed", "record").to_numpy()


def cost_axis(trace: xr.Dataset, cost: str) -> np.ndarray:
    """Cost by record, (seeds, records), NaN after a divergence.

    "bytes" are all of them. "exchanges" are communication rounds; parties that wait for nobody have
    none, but every dominated update is an exchange of a dominator with all others: those count.
    """
    latencies = link_latencies(cost)
    if latencies is not None:
        return simulated_latency(trace, latencies.hub_client, latencies.hub_hub).to_numpy()
    network = declared_network(cost)
    if network is not None:
        return network_time(trace, network).to_numpy()
    if cost == "bytes":
        counted = [name for name in BYTES if name in trace] or ["bytes"]
        return np.sum([column(trace, name) for name in counted], axis=0)
    if cost == "exchanges":
        return column(trace, "iteration" if has_own_clock(trace) else "round")
    return column(trace, cost)


def is_counted(trace: xr.Dataset, cost: str) -> bool:
    """Whether a trace has what a cost axis needs."""
    if link_latencies(cost) is not None:
        return "hub_client_trips" in trace
    if declared_network(cost) is not None:
        return has_own_clock(trace) or "sequential_messages" in trace
    if cost == "bytes":
        return any(part in trace for part in BYTES)
    return cost == "exchanges" or cost in trace


def simulated_latency(
    trace: xr.Dataset, hub_client: float, hub_hub: float | None = None
) -> xr.DataArray:
    """Time by record (seed, record) of a run over silos, in units t_comp of one local step.

    hub_client, hub_hub: what a round trip takes between a hub and its clients, and between hubs;
    with one number both take that. Sequential trips and steps add up: clients of one hub, hubs and
    silos work at the same time. A round of Q steps has two trips of the first and one of the
    second kind, t_Q = 3 t_comm + Q t_comp, t_comp = 1 (TDCD section 5.2).

    `trace.assign_coords(latency=simulated_latency(trace, 100))` adds it to a trace's costs.
    """
    trips_of_hubs = hub_client if hub_hub is None else hub_hub
    if not (hub_client >= 0 and trips_of_hubs >= 0):
        raise FedatlasError(
            f"a round trip cannot take {min(hub_client, trips_of_hubs):g}: latencies are 0 or more"
        )
    times = (
        hub_client * column(trace, "hub_client_trips")
        + trips_of_hubs * column(trace, "hub_hub_trips")
        + column(trace, "iteration")
    )
    label = LinkLatencies(hub_client, trips_of_hubs).label
    return _along_records(trace, times, "latency", f"simulated time, {label}", "1")


def has_own_clock(trace: xr.Dataset) -> bool:
    """Whether time was simulated event by event, as it must be where nobody waits for all."""
    return "simulated_time" in trace


def network_time(trace: xr.Dataset, network: DeclaredNetwork) -> xr.DataArray:
    """Seconds by record (seed, record) of a run of any method under a declared network.

    What happens one after the other adds up: a latency for each message, the bytes of the busiest
    node over its bandwidth, and per-sample gradients. Asynchronous methods have no such sum: theirs
    is the clock of their own simulation, `simulated_time`, which must have had the same latency.
    Its gradients take what their passes over features take, its small messages no bandwidth.

    Raises FedatlasError for a clock with another latency, and for traces that lack the counts.
    """
    if has_own_clock(trace):
        own = own_latency(trace)
        if own != network.latency:
            raise FedatlasError(
                f"run '{trace.attrs['run']}' has a clock of its own, with the latency {own:g} s, "
                f"not {network.latency:g} s: state that latency, or run it again with 'network: "
                f"{{latency: {network.latency:g}}}'"
            )
        times = column(trace, "simulated_time")
    else:
        times = (
            network.latency * column(trace, "sequential_messages")
            + column(trace, "sequential_bytes") / network.bandwidth
            + network.gradient * column(trace, "sequential_gradients")
        )
    return _along_records(trace, times, "network_time", f"simulated time, {network.label}", "s")


def own_latency(trace: xr.Dataset) -> float:
    """The latency in seconds of a run's own clock."""
    stated = json.loads(trace.attrs["specification"])["network"]
    return NetworkModel.model_validate(stated or {}).latency


def _along_records(
    trace: xr.Dataset, values: np.ndarray, name: str, long_name: str, units: str
) -> xr.DataArray:
    import xarray as xr  # plans do without it

    attributes = {"long_name": long_name, "units": units}
    places = {axis: trace[axis] for axis in ("seed", "record") if axis in trace.coords}
    return xr.DataArray(values, places, dims=("seed", "record"), name=name, attrs=attributes)
