"""Compiled loops of parties: secure sums, updates of blocks, and events in order of time.

Here are the tuples of arrays that they read and change.
"""

from typing import NamedTuple

import numpy as np

PLAIN, SNAPSHOT, TABLE = 0, 1, 2
REFERENCE_CODES = {"none": PLAIN, "snapshot": SNAPSHOT, "table": TABLE}

TIME, SLOPE, SAMPLE, ORDER, READ, LABEL = 0, 1, 2, 3, 4, 5  # of an update that waits
HEAD, WAITING, APPLIED, LABELLED, VISITED = 0, 1, 2, 3, 4  # of a position
SUM, ROW, SINCE, ITERATION = 0, 1, 2, 3  # of what a dominator has asked for
PENDING, WHEN, PART, SEEN, LACKED = 0, 1, 2, 3, 4  # of a read
UNTIL, FROM = 0, 1  # of a thread
DECIDED, BLOCK_UPDATES, READS, GLOBAL, NEXT, UPCOMING = 0, 1, 2, 3, 4, 5  # of counts
READ_DELAYS, LARGEST_READ_DELAY, UPDATE_DELAYS, LARGEST_UPDATE_DELAY = 0, 1, 2, 3  # of values
LAST_SUM, LAST_APPLICATION, MASK_ERROR = 4, 5, 6
TAU_1, TAU_2, ETA_1 = 7, 8, 9


class Blocks(NamedTuple):
    """Samples cut by columns; party ℓ owns columns starts[ℓ]:starts[ℓ+1].

    dense: (n, d), or (0, 0) for sparse rows: bounds (n, q + 1) into columns, values; labels (n,).
    """

    starts: np.ndarray
    dense: np.ndarray
    bounds: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    labels: np.ndarray


class Timing(NamedTuple):
    """Whole nanoseconds: work (q,) of each party for a share or an update, on average; order (q,)
    of parties by it; slowest, the most; latency of a message; aggregation, of those up a tree.

    As float64, whose sums are then exact (up to 100 days): times that ought to be equal are equal.
    """

    work: np.ndarray
    order: np.ndarray
    slowest: float
    latency: float
    aggregation: float


class TimeDistributions(NamedTuple):
    """How times vary, see `times`: factors (times,) of mean 1, equally likely; drift and
    period (ns) of `drifted`; cores of each party, inf if as many as it needs; keys (2,) uint64 of
    factors and of drifts.
    """

    factors: np.ndarray
    drift: float
    period: float
    cores: float
    keys: np.ndarray


class Rule(NamedTuple):
    """An update rule: codes, weights and whether others take part in it."""

    loss: int
    regulariser: int
    weight: float
    step_size: float
    reference: int
    backward: bool  # whether collaborators update, too
    barrier: bool


class Queues(NamedTuple):
    """Everything under way, and all clocks; see `vertical.network`. Whole numbers are exact.

    An update that waits is five numbers: its time, inf if there is none; ϑ; the sample; the global
    iteration of the dominated update; how many updates the block had when it was read.

    ring (q, capacity, 6): of every party, the collaborative updates in order of their time; the
        sixth number is the update's own global iteration, if it has one yet.
    own (m, 5): the one update that a dominator makes itself.
    position (q, 5) int64: where the ring starts; how many wait in it, and how many of these have
        had their global iteration; how many updates the block has had; its last global iteration.
    threads (q, k, 2): when each is free, and since when it has not been.
    begin (m,): when each dominator begins its next iteration; inf while one is under way, and at a
        barrier.
    asked (m, 4): of the iteration under way: the time of its sum, inf if there is none; the sample;
        when parties begin its shares; how many iterations the dominator has decided.
    reads (q, m, 5): of that iteration at each party: the time of the read, inf once it is done; the
        time of the read; the share; how many updates the block had; the first global iteration
        whose update the block has seen since, inf if there is none.
    upcoming (q · capacity, 3): collaborative updates that have had no global iteration yet, in
        order of time: when they are due, the global iteration of their sum, the party. A ring, too.
    """

    ring: np.ndarray
    own: np.ndarray
    position: np.ndarray
    threads: np.ndarray
    begin: np.ndarray
    asked: np.ndarray
    reads: np.ndarray
    upcoming: np.ndarray


class Tally(NamedTuple):
    """Numbers so far, by the constants above: counts (6,) int64, values (10,) float64."""

    counts: np.ndarray
    values: np.ndarray


class Masking(NamedTuple):
    """How shares are hidden: by real masks, uniform on [−scale, scale], or by masks in a ring.

    key: of the pseudo-random numbers. steps: integers per unit in the ring, 0 for real masks.
    limit: shares of this size or more do not fit into the ring, inf for real masks.
    """

    key: np.uint64
    scale: float
    steps: float
    limit: float


class Scratch(NamedTuple):
    """Room for one call, which allocates nothing: see `updates` for scale, drift (q,) and touched
    (d,), or (0,) where it is not needed; masked, masks (q,) float64; ring_masked,
    ring_masks (q,) uint64, the same in the ring.
    """

    scale: np.ndarray
    drift: np.ndarray
    touched: np.ndarray
    masked: np.ndarray
    masks: np.ndarray
    ring_masked: np.ndarray
    ring_masks: np.ndarray
