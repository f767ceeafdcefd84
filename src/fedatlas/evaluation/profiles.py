"""Compare methods over many problems and targets, one cost at a time.

A pair is a problem with a target. A problem has instances: the same problem under several seeds.
docs/profiles.md has the formulas. They are from Dolan and Moré (2002) for performance profiles,
Moré and Wild (2009) for data profiles, Hansen et al. (COCO, 2016) for expected running time and
for distributions of what instances spend, and Dahl et al. (AlgoPerf, 2023) for the area up to a
ratio of four.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.comparison import CONFIDENCE
from fedatlas.evaluation.levels import Trace, cost_axis, cost_to_reach, log_target
from fedatlas.evaluation.tuning import chances

#: A method that spends this many times as much as the best counts as never arriving.
MOST = 4.0
#: Areas that differ by less are never distinguished: costs are read between records.
LEAST = 0.01
#: As for seeds in verdicts: by a sign test fewer cannot make 95 %, however alike they are.
FEWEST_PROBLEMS = 6
DRAWS = 1000

#: problem → method → its trace, whose seeds are instances.
Problems = Mapping[str, Mapping[str, Trace]]
#: In units of the measurement: the same for every problem, or problem → its own.
Targets = Sequence[float] | Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Costs:
    """Costs of methods to reach targets, of one kind.

    methods: their names. problem, target: (pairs,). spent: (pairs, methods, instances), +inf where
    an instance never reached the target, NaN behind the last instance of a problem that has fewer.
    budget: likewise, what each spent in all. unit: (pairs,) what a round costs on average by the
    method whose rounds are the cheapest on the problem.
    """

    methods: tuple[str, ...]
    problem: np.ndarray
    target: np.ndarray
    spent: np.ndarray
    budget: np.ndarray
    unit: np.ndarray

    @property
    def instances(self) -> np.ndarray:
        """(pairs,) how many instances there are."""
        numbers: np.ndarray = (~np.isnan(self.spent[:, 0])).sum(axis=1)
        return numbers


def costs_to_targets(
    problems: Problems, measurement: str | Mapping[str, str], targets: Targets, cost: str
) -> Costs:
    """The cost of every method for every pair, read as `cost_to_reach` does.

    measurement: of all problems, or problem → its own. Instances are the seeds that all methods of
    a problem have. FedatlasError for problems whose methods are not the same, or share no seed.
    """
    methods = tuple(next(iter(problems.values())))
    rows = []
    for problem, traces in problems.items():
        if set(traces) != set(methods):
            raise FedatlasError(
                f"problem '{problem}' has the methods {', '.join(sorted(traces))}, others have "
                f"{', '.join(sorted(methods))}: every problem needs a trace of every method"
            )
        seeds = reduce(np.intersect1d, (trace["seed"].to_numpy() for trace in traces.values()))
        if not len(seeds):
            raise FedatlasError(
                f"problem '{problem}': its methods have no seed in common; instances are seeds, "
                "and every method must have run on the same ones"
            )
        own = [traces[method].sel(seed=seeds) for method in methods]
        axes = [cost_axis(trace, cost) for trace in own]
        budget = np.array([np.nanmax(axis, axis=1) for axis in axes])
        rounds = [np.nanmax(cost_axis(trace, "round"), axis=1) for trace in own]
        unit = min(np.sum(b) / np.sum(r) for b, r in zip(budget, rounds, strict=True))
        name = measurement if isinstance(measurement, str) else measurement[problem]
        for target in targets[problem] if isinstance(targets, Mapping) else targets:
            level = log_target(name, target)
            spent = np.array([cost_to_reach(trace, name, cost, level) for trace in own])
            rows.append((problem, target, spent, budget, unit))
    most = max(spent.shape[1] for _, _, spent, _, _ in rows)

    def padded(values: np.ndarray) -> np.ndarray:
        return np.pad(values, ((0, 0), (0, most - values.shape[1])), constant_values=np.nan)

    return Costs(
        methods,
        np.array([row[0] for row in rows]),
        np.array([row[1] for row in rows], float),
        np.array([padded(row[2]) for row in rows]),
        np.array([padded(row[3]) for row in rows]),
        np.array([row[4] for row in rows], float),
    )


def typical(spent: np.ndarray) -> np.ndarray:
    """(…,) medians over the last axis; NaN there is left out, and +inf is a cost like others."""
    ranked = np.sort(spent, axis=-1)  # NaN comes last
    number = (~np.isnan(ranked)).sum(axis=-1)
    low, high = (
        np.take_along_axis(ranked, place[..., None], axis=-1)[..., 0]
        for place in (np.maximum(number - 1, 0) // 2, number // 2)
    )
    median: np.ndarray = np.where(low == high, low, (low + high) / 2)
    return median


def expected_running_time(costs: Costs) -> np.ndarray:
    """(pairs, methods) what all instances spent, over how many arrived; +inf if none did.

    An instance that did not arrive spent its budget: ERT of COCO, what it takes on average to
    arrive once if one starts again and again.
    """
    arrived = np.isfinite(costs.spent)
    paid = np.nansum(np.where(arrived, costs.spent, costs.budget), axis=2)
    number = arrived.sum(axis=2)
    return np.where(number > 0, paid / np.maximum(number, 1), np.inf)


def ratios(spent: np.ndarray) -> np.ndarray:
    """(pairs that any method reaches, methods) costs over that of the best method of the pair.

    spent: (pairs, methods), +inf where a target is not reached.
    """
    kept = spent[np.isfinite(spent).any(axis=1)]
    best = kept.min(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(kept == best, 1.0, kept / best)  # a cost may be 0


def area(ratio: np.ndarray, most: float = MOST) -> np.ndarray:
    """(methods,) area under the performance profile from ratio 1 to `most`, over its width.

    It is exact, as a profile is a sum of steps, one for each pair.
    """
    shares: np.ndarray = worth(ratio, most).mean(axis=0)
    return shares


def worth(ratio: np.ndarray, most: float = MOST) -> np.ndarray:
    """The share of an area that each pair adds: (most − r)/(most − 1), or 0 behind."""
    found: np.ndarray = (most - np.clip(ratio, 1, most)) / (most - 1)
    return found


def performance_profile(ratio: np.ndarray, at: np.ndarray) -> np.ndarray:
    """(methods, at) share of pairs on which a method spends at most so many times the least."""
    return runtime_profile(ratio[:, :, None], at)


def runtime_profile(spent: np.ndarray, at: np.ndarray) -> np.ndarray:
    """(methods, at) share of pairs and instances that spent at most so much until the target.

    spent: (pairs, methods, instances). Of costs over `Costs.unit` this is a data profile.
    """
    methods = np.moveaxis(spent, 1, 0).reshape(spent.shape[1], -1)
    ranked = [np.sort(own[~np.isnan(own)]) for own in methods]
    return np.array([np.searchsorted(own, at, side="right") / len(own) for own in ranked])


def mean_ranks(spent: np.ndarray) -> np.ndarray:
    """(methods,) mean rank, 1 is best, over pairs that any method reaches; ties share ranks.

    spent: (pairs, methods). Methods that do not reach a target are tied on its last places.
    """
    kept = spent[np.isfinite(spent).any(axis=1)]
    own, other = kept[:, :, None], kept[:, None, :]
    ranks: np.ndarray = (other < own).sum(2) + ((other == own).sum(2) + 1) / 2
    return ranks.mean(axis=0)


class NothingReachedError(FedatlasError):
    """Raised if no method reaches any target."""


@dataclass(frozen=True)
class Scores:
    """Areas with their 95 % intervals, and ranks; each (methods,).

    margin: (methods, methods) by how much two areas must differ to be told apart, all pairs of
    methods asked at once. first: share of pairs on which no method spends less. reached: share of
    pairs and instances that arrive. pairs, unreached: how many pairs count, and how many do not, as
    no method reaches them.
    """

    area: np.ndarray
    low: np.ndarray
    high: np.ndarray
    margin: np.ndarray
    rank: np.ndarray
    first: np.ndarray
    reached: np.ndarray
    pairs: int
    unreached: int

    @property
    def ahead(self) -> np.ndarray:
        """(methods, methods) whether the first is significantly ahead of the second."""
        found: np.ndarray = self.area[:, None] - self.area > self.margin
        return found


def scores(costs: Costs, draws: int = DRAWS, seed: int = 0) -> Scores:
    """Areas under performance profiles of the typical instance, with intervals.

    Intervals and margins are of `resampled`, moved to lie around the areas, as seeds drawn with
    replacement are noisier and put the best further from the least; and wider for few problems by
    Student's t, as percentiles of few are too narrow (Hesterberg 2015). Margins are `LEAST` at
    least. Fewer than `FEWEST_PROBLEMS` tell nothing apart. NothingReachedError if no method reaches
    any target.
    """
    from scipy.special import ndtr, stdtrit

    spent = typical(costs.spent)
    ratio = ratios(spent)
    if not len(ratio):
        raise NothingReachedError(
            "targets: no method reaches any of them: name targets further from 0"
        )
    own, problems = area(ratio), len(set(costs.problem.tolist()))
    low, high, margin = np.zeros_like(own), np.ones_like(own), np.ones((len(own),) * 2)
    if problems >= FEWEST_PROBLEMS:

        def wider(share: float) -> float:
            return float(np.sqrt(problems / (problems - 1)) * stdtrit(problems - 1, share))

        drawn = resampled(costs, draws, seed)
        drawn += own - drawn.mean(axis=0)
        tail = ndtr(wider((1 + CONFIDENCE) / 2))
        low, high = np.clip(np.quantile(drawn, [1 - tail, tail], axis=0), 0, 1)
        # Problems that all came out alike say of others only that most do (Clopper and Pearson).
        alike, most = np.ptp(drawn, axis=0) < LEAST, ((1 - CONFIDENCE) / 2) ** (1 / problems)
        low = np.where(alike, own * most, low)
        high = np.where(alike, 1 - (1 - own) * most, high)
        gaps = (drawn - own)[:, :, None] - (drawn - own)[:, None, :]
        error = gaps.std(axis=0)
        furthest = (np.abs(gaps) / np.where(error > 0, error, np.inf)).max(axis=(1, 2))
        times = wider(ndtr(np.minimum(np.quantile(furthest, CONFIDENCE), 8)))  # 9 is ∞ to Student
        margin = np.clip(times * error, LEAST, 1)
    return Scores(
        own,
        np.minimum(low, own),
        np.maximum(high, own),
        margin,
        mean_ranks(spent),
        (ratio == 1).mean(axis=0),
        runtime_profile(costs.spent, np.array([np.finfo(float).max]))[:, 0],
        len(ratio),
        len(spent) - len(ratio),
    )


def resampled(costs: Costs, draws: int = DRAWS, seed: int = 0) -> np.ndarray:
    """(draws, methods) areas of as many problems drawn with replacement, and of each instances.

    All methods have the same draws, as they ran on the same instances.
    """
    random = np.random.default_rng(seed)
    pairs = [np.flatnonzero(costs.problem == name) for name in dict.fromkeys(costs.problem)]
    numbers = [int(costs.instances[own[0]]) for own in pairs]
    most, found = costs.spent.shape[2], np.empty((draws, len(costs.methods)))
    for draw in range(draws):
        places, instances = [], []
        for problem in random.integers(len(pairs), size=len(pairs)):
            own = np.arange(most)  # behind the last instance NaN stays
            number = numbers[problem]
            own[:number] = random.integers(number, size=number)
            places.append(pairs[problem])
            instances.append(np.tile(own, (len(pairs[problem]), 1)))
        columns = np.concatenate(instances)[:, None, :]
        spent = np.take_along_axis(costs.spent[np.concatenate(places)], columns, axis=2)
        ratio = ratios(typical(spent))
        found[draw] = area(ratio) if len(ratio) else 0.0
    return found


def by_tries(
    ranked: Mapping[str, Mapping[str, Sequence[Trace]]],
    measurement: str | Mapping[str, str],
    targets: Targets,
    cost: str,
) -> np.ndarray:
    """(tries, methods) expected area of those who try 1 to all configurations of a method's grid.

    ranked: problem → method → traces of its grid, the best first, as configurations are chosen.
    Whoever tries n draws n of them without replacement and keeps the best. Ratios are to the best
    of the methods after all tries, so that areas do not depend on who else tries how much. A method
    with fewer configurations, as one that tunes itself has one, keeps its last area.
    """
    methods = tuple(next(iter(ranked.values())))
    most = max(len(grid) for own in ranked.values() for grid in own.values())
    found = [
        costs_to_targets(
            {
                problem: {name: own[name][min(rank, len(own[name]) - 1)] for name in methods}
                for problem, own in ranked.items()
            },
            *(measurement, targets, cost),
        )
        for rank in range(most)
    ]
    spent = np.stack([typical(costs.spent) for costs in found], axis=2)  # pairs, methods, ranks
    kept = np.isfinite(spent[:, :, 0]).any(axis=1)
    spent, problem = spent[kept], found[0].problem[kept]
    best = spent[:, :, 0].min(axis=1)[:, None, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        each = worth(np.where(spent <= best, 1.0, spent / best))
    areas = np.zeros((most, len(methods)))
    for name, own in ranked.items():
        for place, method in enumerate(methods):
            size = len(own[method])
            chance = chances(size)[np.minimum(np.arange(most), size - 1)]
            areas[:, place] += chance @ each[problem == name, place, :size].sum(axis=0)
    return areas / len(spent)
