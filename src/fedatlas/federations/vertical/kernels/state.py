"""What compiled loops of parties read and change, as tuples of arrays."""

from typing import NamedTuple

import numpy as np

PLAIN, SNAPSHOT, TABLE = 0, 1, 2
REFERENCE_CODES = {"none": PLAIN, "snapshot": SNAPSHOT, "table": TABLE}

TIME, SLOPE, SAMPLE, ORDER, READ = 0, 1, 2, 3, 4  # of an update that waits
HEAD, WAITING, APPLIED = 0, 1, 2  # of a position
DECIDED, BLOCK_UPDATES, READS = 0, 1, 2  # of counts
READ_DELAYS, LARGEST_READ_DELAY, UPDATE_DELAYS, LARGEST_UPDATE_DELAY = 0, 1, 2, 3  # of values
LAST_SUM, LAST_APPLICATION, MASK_ERROR = 4, 5, 6


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
    """Whole nanoseconds: work (q,) of each party for a share or an update; slowest, the most of
    these; latency of a message; aggregation, of the messages up a tree.

    As float64, whose sums are then exact (up to 100 days): times that ought to be equal are equal.
    """

    work: np.ndarray
    slowest: float
    latency: float
    aggregation: float


class Rule(NamedTuple):
    """What an update computes: codes, weights and whether others take part in it."""

    loss: int
    regulariser: int
    weight: float
    step_size: float
    reference: int
    backward: bool  # whether collaborators update, too
    barrier: bool


class Queues(NamedTuple):
    """Decided updates that wait for their time, and all clocks; see `vertical.network`.

    An update that waits is five numbers: its time, inf if there is none; ϑ; the sample; the number
    of the dominated update; how many updates the block had when it was read. Whole numbers are
    exact in float64. ring (q, capacity, 5): of every party, the collaborative updates in order of
    their time; position (q, 3): where the ring starts, how many wait in it, and how many updates
    the block has had. own (m, 5): the one update that a dominator makes itself. threads (q, k):
    when each is free; begin (m,): when each dominator began its iteration, inf while it waits at a
    barrier.
    """

    ring: np.ndarray
    own: np.ndarray
    position: np.ndarray
    threads: np.ndarray
    begin: np.ndarray


class Tally(NamedTuple):
    """Numbers so far, by the constants above: counts (3,) int64, values (7,) float64."""

    counts: np.ndarray
    values: np.ndarray


class MaskLaw(NamedTuple):
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
