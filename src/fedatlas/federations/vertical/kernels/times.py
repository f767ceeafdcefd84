"""How long a share or an update takes: `vertical.network` states the model.

Numbers are those of counters: of a dominator's iteration, a party, and whether it is the share or
the update. So methods that wait and methods that do not draw the same times.
"""

import math

import numpy as np

from fedatlas.arithmetic.kernels.compilation import compiled
from fedatlas.federations.vertical.kernels import state as at
from fedatlas.federations.vertical.kernels.sums import normal, uniform

SHARE, UPDATE = 0, 1


@compiled(allocates=False)
def factor(factors, key, number):
    """One of `factors`, (times,) of mean 1, which are equally likely."""
    return factors[np.int64(uniform(key, number) * len(factors))]


@compiled(allocates=False)
def drifted(spread, period, key, party, parties, time):
    """The factor of a party in the period in which `time` lies; 1 without drift."""
    if spread == 0.0:
        return 1.0
    number = np.int64(time // period) * parties + party
    return math.exp(spread * (normal(key, number) - 0.5 * spread))


@compiled(allocates=False)
def duration(work, time_distributions, party, begins, number, busy):
    """Whole nanoseconds, at least one, of a share or an update.

    work: (q,) on average. number: see `number_of`. busy: how much else the party computes when it
    begins.
    """
    took = work[party] * factor(time_distributions.factors, time_distributions.keys[0], number)
    took *= drifted(
        time_distributions.drift,
        time_distributions.period,
        time_distributions.keys[1],
        party,
        len(work),
        begins,
    )
    return max(1.0, np.rint(took * max(1.0, (1.0 + busy) / time_distributions.cores)))


@compiled(inline="always")
def number_of(iteration, dominator, dominators, party, parties, what):
    """The counter of what a party does in a dominator's iteration, SHARE or UPDATE."""
    return ((iteration * dominators + dominator) * parties + party) * 2 + what


@compiled(allocates=False)
def busy_with(party, begins, own, asked, reads, threads):
    """How much a party computes at the moment at which something begins there, as far as is known.

    Its own update, shares, and of each thread the latest work.
    """
    found = 0.0
    if party < len(own) and begins < own[party, at.TIME] < math.inf:
        found += 1.0
    for dominator in range(len(asked)):
        if (
            asked[dominator, at.SUM] < math.inf
            and asked[dominator, at.SINCE] <= begins
            and reads[party, dominator, at.WHEN] > begins
        ):
            found += 1.0
    for thread in range(threads.shape[1]):
        if threads[party, thread, at.FROM] <= begins < threads[party, thread, at.UNTIL]:
            found += 1.0
    return found


@compiled(inline="always")
def time_taken(
    work, time_distributions, party, begins, iteration, dominator, what, own, asked, reads, threads
):
    """How long a party takes for a SHARE or an UPDATE of a dominator's iteration.

    time_distributions: None where it is the average. own to threads: the queues, by which
        work shares cores.
    """
    took = work[party]
    if time_distributions is not None:
        busy = 0.0
        if time_distributions.cores < math.inf:
            busy = busy_with(party, begins, own, asked, reads, threads)
        number = number_of(iteration, dominator, len(asked), party, len(work), what)
        took = duration(work, time_distributions, party, begins, number, busy)
    return took
