"""A declared network whose times are those that processes measured."""

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.federations.parties.log import TIMED
from fedatlas.federations.parties.measured import Measured
from fedatlas.schema.network_model import NetworkModel


def fitted_network(measured: Measured, widths: np.ndarray, threads: int | None) -> NetworkModel:
    """The network model of constants that is closest to what was measured, by medians.

    widths: (q,) features of each party, per row if rows are sparse. A share and an update take one
    time in the model, so theirs are averaged; the last party is the straggler, as in the model.
    Laws other than constants belong here, once the model has them: `measured` keeps samples.
    Raises FedatlasError if too little was measured.
    """
    if len(widths) < 2 or not measured.noted[:2].sum(axis=0).all():
        raise FedatlasError("a network is fitted to two or more parties, all of which took part")
    shares, updates, messages = (measured.seconds[TIMED.index(name)] for name in TIMED)
    own = np.nanmean([_medians(shares), _medians(updates)], axis=0)
    per_feature = float(np.median(own[:-1] / widths[:-1]))
    return NetworkModel(
        seconds_per_feature=max(per_feature, 1e-9),
        latency=max(float(np.nanmedian(messages)), 1e-9),
        straggler=max(float(own[-1] / widths[-1]) / per_feature, 1.0),
        threads=threads,
    )


def _medians(times: np.ndarray) -> np.ndarray:
    """Of every party, NaN of those without any."""
    return np.array([np.median(kept) if len(kept) else np.nan for kept in map(_there, times)])


def _there(times: np.ndarray) -> np.ndarray:
    return times[np.isfinite(times)]
