"""What a declared network is to compiled loops: speeds of parties, and how their times vary."""

from math import ceil, inf, log2

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.federations.vertical.kernels import times
from fedatlas.federations.vertical.kernels.state import Laws, Timing
from fedatlas.schema.network_model import (
    LognormalTimes,
    MeasuredTimes,
    NetworkModel,
    ShiftedExponentialTimes,
)

NANOSECONDS = 1e9  # of a second


def timing_of(model: NetworkModel, widths: np.ndarray) -> Timing:
    """Average times of parties with so many features (q,), per row.

    FedatlasError if the straggler is none of them.
    """
    parties = len(widths)
    seconds = model.seconds_per_feature * widths * _slowdown(model, parties)
    work = np.maximum(np.rint(seconds * NANOSECONDS), 1.0)  # a party may have nothing but zeros
    latency = float(np.rint(model.latency * NANOSECONDS)) if parties > 1 else 0.0
    order = np.argsort(work, kind="stable")
    return Timing(work, order, float(work.max()), latency, ceil(log2(parties)) * latency)


def laws_of(model: NetworkModel, seed: int) -> Laws | None:
    """How times vary, by a seed; None if they do not."""
    law, drift = model.compute, model.drift
    if not model.varies:
        return None
    parameter, measured = 0.0, np.ones(1)
    if isinstance(law, LognormalTimes):
        parameter = law.spread
    elif isinstance(law, ShiftedExponentialTimes):
        parameter = law.fixed
    elif isinstance(law, MeasuredTimes):
        measured = np.array(law.times) / np.mean(law.times)
    return Laws(
        law=times.LAW_CODES[law.kind],
        parameter=parameter,
        measured=measured,
        drift=drift.spread if drift else 0.0,
        period=float(np.rint(drift.period * NANOSECONDS)) if drift else inf,
        cores=float(model.cores or inf),
        keys=np.random.SeedSequence([seed, 2]).generate_state(2, np.uint64),
    )


def _slowdown(model: NetworkModel, parties: int) -> np.ndarray:
    """(q,) how many times slower than others each party computes."""
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
