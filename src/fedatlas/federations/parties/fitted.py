"""A network model whose times are those that processes measured."""

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.federations.parties.log import TIMED
from fedatlas.federations.parties.measured import Measured
from fedatlas.schema.network_model import MeasuredTimes, NetworkModel, relative_times


def fitted_network(measured: Measured, widths: np.ndarray, threads: int | None) -> NetworkModel:
    """The network model that takes as long as what was measured, and varies as that did.

    widths: (q,) features of each party, per row if rows are sparse. A share and an update take one
    time in the model, so theirs are averaged; the last party is the straggler, as in the model.
    Means, since a run's time is a sum of them: medians would leave out what a busy machine adds.
    Single times are drawn from the measured ones, over the mean of their party and kind.
    Raises FedatlasError if too little was measured.
    """
    if len(widths) < 2 or not measured.noted[:2].sum(axis=0).all():
        raise FedatlasError("a network is fitted to two or more parties, all of which took part")
    shares, updates, messages = (measured.seconds[TIMED.index(name)] for name in TIMED)
    own = np.nanmean([_means(shares), _means(updates)], axis=0)
    groups = [kept.tolist() for kept in (*_kept(shares), *_kept(updates)) if len(kept)]
    per_feature = float(np.median(own[:-1] / widths[:-1]))
    return NetworkModel(
        seconds_per_feature=max(per_feature, 1e-9),
        compute=MeasuredTimes(kind="measured", times=relative_times(groups)),
        latency=max(float(np.nanmean(messages)), 1e-9),
        straggler=max(float(own[-1] / widths[-1]) / per_feature, 1.0),
        threads=threads,
    )


def _means(times: np.ndarray) -> np.ndarray:
    """Of every party, NaN of those without any."""
    return np.array([values.mean() if len(values) else np.nan for values in _kept(times)])


def _kept(times: np.ndarray) -> list[np.ndarray]:
    """Of every party."""
    return [values[np.isfinite(values)] for values in times]
