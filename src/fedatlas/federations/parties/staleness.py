"""How stale reads and updates were, from what the parties noted of a round.

Clocks of parties are compared: on one machine they are one; across nodes they must be synchronised
to better than a message's time.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedatlas.federations.parties.log import RoundLog


class Staleness(NamedTuple):
    """Of one round.

    read_delays (reads,): decided updates of a block that a read of it lacked, as the simulator
    counts. update_delays (updates,): updates of a block between a read and the update by its ϑ.
    tau_1 (dominated updates,), tau_2 (collaborative updates,): in global iterations as VFB² numbers
    them, "after read": one for every sum that a dominator finishes and one for every collaborative
    update that begins. tau_1: iterations from the first whose update the reads of a sum lacked to
    that sum, 0 if they lacked none; a block is taken to apply updates in the order of iterations.
    tau_2: iterations from a dominator's sum to a collaborative update by its ϑ. sum_delays
    (dominated updates,): read delays of all shares of a sum together.
    """

    read_delays: np.ndarray
    update_delays: np.ndarray
    tau_1: np.ndarray
    tau_2: np.ndarray
    sum_delays: np.ndarray


def staleness(logs: Sequence[RoundLog], before: Sequence[int], backward: bool) -> Staleness:
    """Compare the notes of all parties.

    before: updates that each block had had when the round began. backward: whether ϑ went to all.
    """
    dominators = np.concatenate(
        [np.full(len(log.decisions), party) for party, log in enumerate(logs)]
    )
    iterations, times = np.concatenate([log.decisions for log in logs]).T
    # (dominator, iteration) → place in `times`.
    places = {
        (int(dominator), int(iteration)): place
        for place, (dominator, iteration) in enumerate(zip(dominators, iterations, strict=True))
    }
    read_delays, of_sums = [], np.zeros(len(times), np.int64)
    first_lacked = times.copy()
    collaborative = []
    for party, log in enumerate(logs):
        own = dominators == party
        meant = np.sort(times if backward else times[own])
        found = np.array([places[int(a), int(b)] for a, b in log.reads[:, :2]], dtype=np.int64)
        had = log.reads[:, 2] - before[party]
        read_delays.append(np.searchsorted(meant, times[found]) - had)
        np.add.at(of_sums, found, read_delays[-1])
        applied = np.array([places[int(a), int(b)] for a, b in log.applications[:, :2]], np.int64)
        by_others = dominators[applied] != party if len(applied) else np.zeros(0, bool)
        collaborative.append((times[applied[by_others]], log.applications[by_others, 2]))
        # Iterations at this block so far: own sums, and others' updates when they begin.
        numbered = np.sort(np.concatenate([times[own], log.applications[by_others, 2]]))
        lacking = np.searchsorted(numbered, times[found]) > had
        np.minimum.at(first_lacked, found[lacking], numbered[had[lacking].astype(np.int64)])
    summed, begun = (np.concatenate(parts) for parts in zip(*collaborative, strict=True))
    numbered = np.sort(np.concatenate([times, begun]))
    return Staleness(
        np.concatenate(read_delays),
        np.concatenate([log.applications[:, 3] for log in logs]).astype(np.int64),
        np.searchsorted(numbered, times) - np.searchsorted(numbered, first_lacked),
        np.searchsorted(numbered, begun) - np.searchsorted(numbered, summed),
        of_sums,
    )
