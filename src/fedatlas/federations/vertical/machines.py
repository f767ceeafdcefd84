"""What a declared network is to compiled loops: speeds of parties, and how their times vary."""

from math import ceil, inf, log2

import numpy as np
from scipy import special

from fedatlas.errors import FedatlasError
from fedatlas.federations.vertical.kernels.state import Laws, Timing
from fedatlas.schema.network_model import (
    ComputeTimes,
    LognormalTimes,
    MeasuredTimes,
    NetworkModel,
    ShiftedExponentialTimes,
)

NANOSECONDS = 1e9  # of a second
#: A law that is a formula is this many quantiles: the largest is 4 deviations of a normal law away.
QUANTILES = 2**14


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


def laws_of(model: NetworkModel, seed: int) -> Laws | None:
    """How times vary, by a seed; None if they do not."""
    drift = model.drift
    if not model.varies:
        return None
    return Laws(
        factors=factors_of(model.compute),
        drift=drift.spread if drift else 0.0,
        period=float(np.rint(drift.period * NANOSECONDS)) if drift else inf,
        cores=float(model.cores or inf),
        keys=np.random.SeedSequence([seed, 2]).generate_state(2, np.uint64),
    )


def factors_of(law: ComputeTimes) -> np.ndarray:
    """(times,) equally likely times of mean 1: a logarithm and more for each would cost more than
    all that is simulated with it.
    """
    middles = (np.arange(QUANTILES) + 0.5) / QUANTILES
    if isinstance(law, MeasuredTimes):
        factors = np.array(law.times)
    elif isinstance(law, LognormalTimes):
        factors = np.exp(law.spread * special.ndtri(middles))
    elif isinstance(law, ShiftedExponentialTimes):
        factors = law.fixed - (1 - law.fixed) * np.log1p(-middles)
    else:
        factors = np.ones(1)
    return factors / factors.mean()


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
