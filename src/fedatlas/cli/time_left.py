"""How long the rest of a run may take, of what its steps have taken so far."""

import re
from collections.abc import Mapping, Sequence
from statistics import fmean

#: Seconds that a step which trains nothing is expected to take before its kind is measured: it
#: starts Python, reads and writes. For training there is no such number: it takes seconds or hours.
OTHER_SECONDS = 5.0
#: A step that takes longer than those before it may take this much longer than it has so far.
_LONGER = 1.25


def kind_of(rule: str) -> str:
    """Steps of a kind take about as long as each other: the parts that an experiment trains in."""
    return re.sub(r"_\d+$", "", rule)


def trains(kind: str) -> bool:
    """Whether steps of this kind train; in a module, a prefix stands before the rule's name."""
    return re.search(r"(^|_)train_", kind) is not None


def seconds_left(
    counts: Mapping[str, int],
    taken: Mapping[str, Sequence[float]],
    running: Mapping[str, Sequence[float]],
    cores: int,
) -> float | None:
    """About the seconds until all steps are done; None while training is to come, none measured.

    By kind: counts, how many steps there are in all; taken, how long those took that are done;
    running, for how long those that run have run.
    """
    work, longest = 0.0, 0.0
    for kind, count in counts.items():
        ages = running.get(kind, ())
        waiting = max(0, count - len(taken.get(kind, ())) - len(ages))
        if not waiting and not ages:
            continue
        usual = _usual(kind, taken)
        if usual is None:
            return None
        rest = [max(usual, _LONGER * age) - age for age in ages]
        work += sum(rest) + waiting * usual
        longest = max(longest, usual if waiting else 0.0, *rest)
    # No step is shared by cores here: the rest cannot end before its longest step.
    return max(work / cores, longest)


def _usual(kind: str, taken: Mapping[str, Sequence[float]]) -> float | None:
    """What a step of this kind takes: the mean of its kind, else of all kinds that likewise train.

    Each kind counts once there: a hundred short steps say little of a long one.
    """
    if own := taken.get(kind):
        return fmean(own)
    others = [fmean(of) for other, of in taken.items() if of and trains(other) == trains(kind)]
    if trains(kind):
        return fmean(others) if others else None
    return fmean([OTHER_SECONDS, *others])
