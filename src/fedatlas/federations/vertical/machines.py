"""Declared networks: how fast parties are and how their times vary, simulated or injected.

A simulated network turns them into numbers for compiled loops. For processes they are sleeps, which
make few cores behave like many machines, as a sleep keeps no core busy; they come on top of what
the processes need by themselves. Drifts and shared cores are simulated only.
"""

from math import ceil, inf, log2

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.federations.times import NANOSECONDS, factors_of
from fedatlas.federations.vertical.kernels import TimeDistributions, Timing
from fedatlas.schema.network_model import NetworkModel


def timing_of(model: NetworkModel, widths: np.ndarray) -> Timing:
    """Average times of parties with so many features (q,), per row.

    FedatlasError if the straggler is none of them.
    """
    parties = len(widths)
    seconds = model.seconds_per_feature * widths * slowdown_of(model, parties)
    work = np.maximum(np.rint(seconds * NANOSECONDS), 1.0)  # a party may have nothing but zeros
    latency = float(np.rint(model.latency * NANOSECONDS)) if parties > 1 else 0.0
    order = np.argsort(work, kind="stable")
    return Timing(work, order, float(work.max()), latency, ceil(log2(parties)) * latency)


def time_distributions_of(model: NetworkModel, seed: int) -> TimeDistributions | None:
    """How times vary, by a seed; None if they do not."""
    drift = model.drift
    if not model.varies:
        return None
    return TimeDistributions(
        factors=factors_of(model.compute),
        drift=drift.spread if drift else 0.0,
        period=float(np.rint(drift.period * NANOSECONDS)) if drift else inf,
        cores=float(model.cores or inf),
        keys=np.random.SeedSequence([seed, 2]).generate_state(2, np.uint64),
    )


def slowdown_of(model: NetworkModel, parties: int) -> np.ndarray:
    """(q,) how many times slower than others each party computes.

    FedatlasError if the straggler is none of them.
    """
    slowdown, place = np.ones(parties), model.straggler_party
    if place is None:
        place = parties - 1
        if parties == 1:  # nobody is faster
            return slowdown
    if place >= parties:
        raise FedatlasError(
            f"network: straggler_party: {place} is none of {parties} parties, counted from 0"
        )
    slowdown[place] = model.straggler
    return slowdown


class InjectedTimes:
    """Seconds of one party.

    threads: how many collaborative updates it makes at a time. latency: seconds of a message.
    """

    def __init__(
        self, model: NetworkModel | None, width: float, party: int, parties: int, active: int
    ) -> None:
        """model: None adds nothing. width: features of the party's block, per row if sparse.

        FedatlasError for a network with drift or cores.
        """
        self.threads = (model.threads if model is not None else None) or active
        self._work = self.latency = 0.0
        self._factors, self._random = np.ones(1), np.random.default_rng(party)
        if model is not None:
            if model.drift is not None or model.cores is not None:
                raise FedatlasError(
                    "network: drift and cores are simulated only: leave them out of runs with "
                    "'backend: processes'"
                )
            self._factors = factors_of(model.compute)
            slow = float(slowdown_of(model, parties)[party])
            self._work, self.latency = model.seconds_per_feature * width * slow, model.latency

    def work(self) -> float:
        """Seconds of a share of one sample, or of an update of the block."""
        return self._work * float(self._factors[self._random.integers(len(self._factors))])

    def whole_pass(self, samples: int) -> float:
        """Seconds of a pass over all samples, shared by the threads."""
        return self._work * samples / self.threads
