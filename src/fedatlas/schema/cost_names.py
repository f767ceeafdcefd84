"""Names of cost axes: what traces count, and times that declared links compute from it."""

import math
import re
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from pydantic import AfterValidator


class Counted(NamedTuple):
    """What a trace counts; every one is a cost axis.

    unit: what evidence calls so many of it. label: of figures' axes, the long name where it is
    empty. ticks: unit of figures' ticks, such as 2.5k or 2.5MB; None for plain numbers.
    """

    long_name: str
    units: str = "1"
    unit: str = ""
    label: str = ""
    ticks: str | None = ""


def _in_bytes(long_name: str, unit: str, label: str = "") -> Counted:
    return Counted(long_name, "byte", unit, label, "B")


def _in_seconds(long_name: str, unit: str, label: str = "") -> Counted:
    return Counted(long_name, "s", unit, label, None)


#: What a run has spent by each record. A trace holds what its setting counts.
COSTS = {
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
        "simulated time", "simulated seconds", "simulated time in seconds"
    ),
    "elapsed_time": _in_seconds(
        "time that parties' processes took", "seconds elapsed", "time elapsed in seconds"
    ),
    "socket_bytes": _in_bytes(
        "bytes handed to sockets, with headers and requests", "bytes handed to sockets"
    ),
    "epsilon": Counted("privacy spent, ε", unit="of ε"),
    "delta": Counted("privacy spent, δ", unit="of δ", ticks=None),
    "wall_time": _in_seconds(
        "time spent in rounds, evaluation excluded",
        "seconds of rounds",
        "time spent in rounds in seconds",
    ),
}
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
AXES = COSTS | SUMMED_COSTS
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
    declared = _LATENCY.fullmatch(cost)
    if declared is None:
        return None
    hub_client = float(declared[1])
    return LinkLatencies(hub_client, hub_client if declared[2] is None else float(declared[2]))


def declared_network(cost: str) -> DeclaredNetwork | None:
    """That of a cost network(latency=…, bandwidth=…, gradient=…); None of any other cost."""
    declared = _NETWORK.fullmatch(cost)
    return None if declared is None else DeclaredNetwork(*map(float, declared.groups()))


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
