"""Tuning as a cost: outcomes of comparisons by the number of configurations tried.

Suppose that n of a grid's N configurations are tried, drawn without replacement, and the best is
kept. The one of rank r is kept with probability C(N − r, n − 1) / C(N, n). This is the "expected
validation performance" of Dodge et al. (2019, Show Your Work), for draws without replacement, so
that all is exact and nothing is sampled. Ranks follow the scores that choose configurations; the
compared values are those that the claim measures.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from math import comb
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedatlas.evaluation.comparison import Criterion, Interval, decide
from fedatlas.evaluation.levels import Trace
from fedatlas.evaluation.selection import TunedRun
from fedatlas.schema.claims import CaseOutcome, Outcome
from fedatlas.schema.models import read_json
from fedatlas.schema.runs import Candidate, agreeing, best_candidate, flat

#: Fewer seeds decide nothing: their typical one alone says how a draw comes out.
FEWEST_SEEDS = 6
#: Share of draws within a band.
BAND = 0.9


class Grid(NamedTuple):
    """The configurations among which a run's was chosen.

    source: experiment and run whose choice it is; runs of one source share their draws. traces: by
    rank, the best first, with the seeds that are compared.
    """

    source: tuple[str, str]
    traces: tuple[Trace, ...]


def chances(size: int) -> np.ndarray:
    """(tries, ranks) chance that the one of each rank is the best of 1 to `size` draws."""
    return np.array(
        [
            [comb(size - 1 - rank, tries - 1) / comb(size, tries) for rank in range(size)]
            for tries in range(1, size + 1)
        ]
    )


def expected_best(values: np.ndarray) -> np.ndarray:
    """(tries,) mean of the best of 1 to all draws; values: (ranks,), infinite where lost."""
    with np.errstate(invalid="ignore"):
        return np.array([row[row > 0] @ values[row > 0] for row in chances(len(values))])


def band_of_best(values: np.ndarray, share: float = BAND) -> tuple[np.ndarray, np.ndarray]:
    """(tries,) quantiles between which the best of 1 to all draws lies in a share of them.

    values: (ranks,). A quantile is the smallest value that so many draws, or more, do not exceed.
    """
    order = np.argsort(values, kind="stable")
    below = np.cumsum(chances(len(values))[:, order], axis=1)
    tails = ((1 - share) / 2, (1 + share) / 2)
    low, high = (values[order][(below >= tail - 1e-12).argmax(axis=1)] for tail in tails)
    return low, high


def ranked(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates from the best on, as points are chosen: those that lost a seed last."""

    left, found = list(candidates), []
    while left:
        found.append(best_candidate(left))
        left.remove(found[-1])
    return found


def grids_of(
    record: Mapping[str, Any],
    traces: Mapping[str, Mapping[str, Trace]],
    experiment: str,
    tuned: Mapping[str, TunedRun],
    tuning: Sequence[Path],
) -> dict[str, Grid]:
    """The grids of runs that were chosen among several configurations.

    record: the experiment's selection. traces: of its judged seeds. tuned: runs that are tuned in
    another experiment. tuning: the selections of these, with their runs beside them. Left out is a
    run that states several points itself, each of which was chosen for itself.
    """
    from fedatlas.store.experiment import Experiment  # loads xarray, which pages do without
    from fedatlas.store.trace import judged

    others = {file.parent.name: file for file in tuning}
    found = {}
    for run, entry in record["runs"].items():
        if run not in tuned:
            source = entry.get("shared_with", run)
            points = [one["point"] for one in ranked(record["runs"][source]["candidates"])]
            if len(points) > 1 and set(points) <= set(traces[run]):
                chosen = tuple(traces[run][point] for point in points)
                found[run] = Grid((experiment, source), chosen)
        elif len(entry["candidates"]) == 1:
            (own,), told = entry["candidates"], tuned[run]
            file = others[told.experiment]
            values = flat(own["hyper_parameters"])
            candidates = agreeing(
                read_json(file)["runs"][run]["candidates"],
                {key: values[key] for key in told.declared if key in values},
            )
            stored = Experiment(file.with_name("traces.nc"))
            best_first = [judged(stored.trace(run, one["point"])) for one in ranked(candidates)]
            if len(best_first) > 1:
                found[run] = Grid((told.experiment, run), tuple(best_first))
    return found


def by_tries(
    grids: Sequence[Grid | None],
    chosen: Sequence[Trace],
    judge: Callable[[Sequence[Trace]], CaseOutcome],
    criterion: Criterion,
    measured: Collection[str] = (),
) -> str:
    """How two runs compare after 1 to all tries of each, as a text; empty if neither was tuned.

    It is empty, too, where the grid of one run was tried on other seeds than the other run's, or
    without recording what is compared.

    grids: of both runs; None: declared. chosen: their traces at the compared configurations. judge:
    compares two traces, by the criterion. measured: what traces must hold for that. The text has,
    for ranges of numbers of tries, the outcome of most draws, of equally many that of better
    configurations, and the share that has it.
    """
    if not any(grids):
        return ""
    sides = [grid.traces if grid else (trace,) for grid, trace in zip(grids, chosen, strict=True)]
    seeds = {tuple(trace["seed"].to_numpy().tolist()) for side in sides for trace in side}
    recorded = all(name in trace for side in sides for trace in side for name in measured)
    if len(seeds) > 1 or not recorded:
        return ""
    together = bool(grids[0] and grids[1] and grids[0].source == grids[1].source)
    outcomes = {
        (i, j): _decided(judge([one, other]), criterion)
        for i, one in enumerate(sides[0])
        for j, other in enumerate(sides[1])
        if i == j or not together
    }
    shares = _shares(outcomes, [len(side) for side in sides], together=together)
    few = len(*seeds) < FEWEST_SEEDS
    return _to_text(shares) + (f" (by the typical one of {len(*seeds)} seeds)" if few else "")


def _decided(case: CaseOutcome, criterion: Criterion) -> Outcome:
    """The outcome of two traces; of the typical seed alone where seeds are too few to decide."""
    effect = case.effect
    if case.outcome != "undecided" or effect is None or effect.seeds >= FEWEST_SEEDS:
        return case.outcome
    return decide(Interval(*(effect.estimate,) * 3), criterion)


def _shares(
    outcomes: Mapping[tuple[int, int], Outcome], sizes: Sequence[int], *, together: bool
) -> list[dict[Outcome, float]]:
    """Outcome → share of draws, for 1 to all tries of each run; together: of both at once."""
    own, other = map(chances, sizes)
    found = []
    for tries in range(max(sizes)):
        left, right = (rows[min(tries, len(rows) - 1)] for rows in (own, other))
        shares: dict[Outcome, float] = {}
        for (i, j), outcome in outcomes.items():
            chance = left[i] if together else left[i] * right[j]
            shares[outcome] = shares.get(outcome, 0.0) + float(chance)
        found.append(shares)
    return found


def _to_text(shares: Sequence[Mapping[Outcome, float]]) -> str:
    """Ranges of numbers of tries with the outcome of most draws, and its share at both ends."""
    most = [max(own, key=lambda outcome: own[outcome]) for own in shares]
    told, start = [], 0
    for end in range(1, len(most) + 1):
        if end < len(most) and most[end] == most[start]:
            continue
        last = f" to {end}" if end - 1 > start else ""
        which = dict.fromkeys(_share(shares[place][most[start]]) for place in (start, end - 1))
        draws = "all draws" if [*which] == ["1"] else f"{' to '.join(which)} of draws"
        told.append(f"{start + 1}{last} {'try' if end == 1 else 'tries'}: {most[start]} in {draws}")
        start = end
    return "; ".join(told)


def _share(share: float) -> str:
    """A share of draws; 1 is that of all."""
    return "1" if share > 1 - 1e-9 else f"{min(share, 0.99):.2g}"


def ends(text: str) -> tuple[str, str, int]:
    """The outcomes of most draws of one try and of all, and how many these are."""
    parts = re.findall(r"(\d+) tr(?:y|ies): ([a-z ]+) in ", text)
    return parts[0][1], parts[-1][1], int(parts[-1][0])


def format_tries(texts: Sequence[str]) -> str:
    """How many comparisons change between one try of each grid and all; empty without any."""
    found = [ends(text) for text in texts if text]
    if not found:
        return ""
    flips = sum(first != last for first, last, _ in found)
    most = [tries for _, _, tries in found]
    span = f"{min(most)} to {max(most)}" if min(most) < max(most) else f"{max(most)}"
    return (
        f"{flips} of {len(found)} comparisons of tuned runs come out otherwise after one try of "
        f"each grid than after all {span} tries"
    )
