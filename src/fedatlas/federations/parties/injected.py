"""Times that a declared network adds: sleeps that make few cores behave like many machines.

A sleep keeps no core busy. A machine is what a declared `network` says: a share and an update of a
party take r_ℓ = seconds_per_feature · d_ℓ, the straggler longer, and a message the latency Λ. They
come on top of what the processes need by themselves. This is the only place that says how long a
sleep is. Single shares and updates vary by the law of the network, each party by random numbers of
its own; drifts and shared cores are not injected.
"""

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.federations.vertical.machines import factors_of, slowdown_of
from fedatlas.schema.network_model import NetworkModel


class InjectedTimes:
    """Seconds of one party. threads: how many collaborative updates it makes at a time."""

    def __init__(
        self, model: NetworkModel | None, width: float, party: int, parties: int, active: int
    ) -> None:
        """model: None adds nothing. width: features of the party's block, per row if sparse.

        FedatlasError for a network with drift or cores.
        """
        self.threads = (model.threads if model is not None else None) or active
        self._work = self._latency = 0.0
        self._factors, self._random = np.ones(1), np.random.default_rng(party)
        if model is not None:
            if model.drift is not None or model.cores is not None:
                raise FedatlasError(
                    "network: drift and cores are simulated only: leave them out of runs with "
                    "'backend: processes'"
                )
            self._factors = factors_of(model.compute)
            slow = float(slowdown_of(model, parties)[party])
            self._work, self._latency = model.seconds_per_feature * width * slow, model.latency

    def share(self) -> float:
        """Of a share of one sample."""
        return self._work * self._factor()

    def update(self) -> float:
        """Of an update of the block."""
        return self._work * self._factor()

    def message(self) -> float:
        """From sender to receiver."""
        return self._latency

    def whole_pass(self, samples: int) -> float:
        """Of all samples, shared by the threads."""
        return self._work * samples / self.threads

    def _factor(self) -> float:
        return float(self._factors[self._random.integers(len(self._factors))])
