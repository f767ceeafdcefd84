"""Names of cost axes: what traces count, and the times that declared links make of it."""

import math
import re
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator

# What traces count, "bytes" being all of them.
_CountedCost = Literal[
    "round",
    "exchanges",
    "iteration",
    "epoch",
    "update_epoch",
    "gradient_evaluations",
    "bytes",
    "simulated_time",
    "epsilon",
]
_NUMBER = r"([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)"
_LATENCY = re.compile(rf"latency\( *{_NUMBER} *(?:, *{_NUMBER} *)?\)")
_NETWORK = re.compile(
    rf"network\( *latency *= *{_NUMBER} *, *bandwidth *= *{_NUMBER} *, *gradient *= *{_NUMBER} *\)"
)


@dataclass(frozen=True)
class LinkLatencies:
    """What a round trip takes on either kind of link, in units of one local step's time."""

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

    latency: seconds that a message takes to arrive. bandwidth: bytes per second of every node, for
    all that it sends and receives. gradient: seconds of a per-sample gradient of the whole model.
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
    stated = _LATENCY.fullmatch(cost)
    if stated is None:
        return None
    hub_client = float(stated[1])
    return LinkLatencies(hub_client, hub_client if stated[2] is None else float(stated[2]))


def declared_network(cost: str) -> DeclaredNetwork | None:
    """That of a cost network(latency=…, bandwidth=…, gradient=…); None of any other cost."""
    stated = _NETWORK.fullmatch(cost)
    return None if stated is None else DeclaredNetwork(*map(float, stated.groups()))


def _known_cost(cost: str) -> str:
    latencies, network = link_latencies(cost), declared_network(cost)
    if latencies is None and network is None and cost not in get_args(_CountedCost):
        raise ValueError(
            f"must be one of {', '.join(get_args(_CountedCost))}, latency(t) or "
            "latency(t_hub_client, t_hub_hub) with numbers that are not negative: latency(100), or "
            "network(latency=0.05, bandwidth=1e6, gradient=1e-5) in seconds and bytes per second"
        )
    if latencies and not math.isfinite(latencies.hub_client + latencies.hub_hub):
        raise ValueError("latencies must be finite")
    if network and not math.isfinite(sum(vars(network).values())):
        raise ValueError("latency, bandwidth and gradient must be finite")
    if network and network.bandwidth == 0:
        raise ValueError("a bandwidth of 0 carries nothing; state bytes per second")
    return cost


#: A cost axis: what traces count, or the time that links make of it.
Cost = Annotated[str, AfterValidator(_known_cost)]
