"""How often verdicts err: the tables of docs/rule.md, simulated with the project's own judges.

    python benchmarks/verdicts.py [--draws 10000] [--processes 2] [--only order]
    python benchmarks/verdicts.py --only stopping

A draw makes the traces of n seeds under a known truth and judges them. Three seeds have a tenth of
the draws, as they decide next to nothing. Each number of seeds has three columns, in percent of
draws: those whose outcome is wrong in the claim's favour, those whose outcome is wrong against it,
and those that decide rightly. An outcome is wrong if the truth, at the border of what it may say,
is on the other side: under a tie both "reproduced" and "smaller than claimed" are too good.

Two more tables are of those who add seeds until the verdict is decided, and look at it after every
seed from 6 to 48. For the first the rule decides advantages, as many draws of them; the second is
exact.
"""

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import xarray as xr

from fedatlas import evaluation
from fedatlas.evaluation import quantities
from fedatlas.evaluation.claims import compared, slope
from fedatlas.evaluation.comparison import (
    MOST_SEEDS,
    POWER,
    SIGNIFICANCE,
    Criterion,
    advantages,
    decide,
    median_interval,
    p_of_signs,
)
from fedatlas.evaluation.horizon import Row, along
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.selection import Choice
from fedatlas.evaluation.verdicts import judge
from fedatlas.files import canonical_json
from fedatlas.schema.claims import CaseOutcome, Claim, Outcome

SEEDS = (3, 6, 10)
#: Numbers of seeds at which those look who add seeds.
LOOKS = range(6, 49)
#: No error may exceed this share of draws on a side, in percent.
MOST = 3.0
SPREAD = 0.02  # of a run's levels over seeds, in decades; of scores in 0.1
RECORDS = 41
FINE = 401  # where records tell when a target is reached

Random = np.random.Generator
#: From a generator and a number of seeds, the traces of a claim's runs.
Draw = Callable[[Random, int], dict[str, Any]]

TOO_GOOD: dict[str, tuple[Outcome, ...]] = {
    "tie": ("reproduced", "smaller than claimed"),
    "smallest": ("reproduced",),
    "beyond": (),
    "equal at its border": ("reproduced",),
    "worse at the border": ("reproduced",),
    "holds": (),
    "other": (),  # compatible all the same: the share that is told apart is what counts
}
TOO_BAD: dict[str, tuple[Outcome, ...]] = {
    "tie": ("contradicted",),
    "smallest": ("smaller than claimed", "no difference", "contradicted"),
    "beyond": ("smaller than claimed", "no difference", "contradicted", "incompatible"),
    "equal at its border": ("contradicted",),
    "worse at the border": ("contradicted",),
    "holds": ("smaller than claimed", "no difference", "contradicted", "incompatible"),
    "other": (),
}


@dataclass(frozen=True)
class Case:
    """A claim under a truth. truth: a key of `TOO_GOOD`. seeds_added: as of an experiment."""

    claim: str
    under: str
    truth: str
    test: dict[str, Any]
    draw: Draw
    seeds_added: bool = False


def trace(
    run: str,
    values: dict[str, np.ndarray],
    *,
    end: float = 400.0,
    step: float = 0.1,
    split: str = "{}",
    horizon: int = 0,
) -> xr.Dataset:
    """Of measurements by name, each (seeds, records), in `end` rounds; NaN where a seed diverged.

    The same object for every draw, with other values: making it anew would take half of the time.
    """
    ((name, measured),) = values.items()
    made = _blank(run, name, measured.shape, end, step, split, horizon)
    made.variables[name].values[...] = measured
    lost = np.isnan(measured).any(axis=1)
    made.variables["status"].values[...] = np.where(lost, "diverged", "ok")
    return made


@cache
def _blank(
    run: str, name: str, shape: tuple[int, int], end: float, step: float, split: str, horizon: int
) -> xr.Dataset:
    rounds = np.linspace(0, end, shape[1])
    objective = np.linspace(1, 0.5, shape[1])
    columns: dict[str, Any] = {
        "round": rounds,
        "wall_time": rounds,
        "objective": objective,
        name: 0.0,
    }
    # Half as fast, so that half of the rounds is one cost's end.
    columns |= {"iteration": 2 * rounds, "update_epoch": rounds / 10, "simulated_time": rounds}
    specification = {
        "rounds": int(end),
        "hyper_parameters": {"step": step, "horizon": horizon},
        "partition": json.loads(split),
        "tuning_seeds": [],
    }
    return xr.Dataset(
        {
            key: (("seed", "record"), np.broadcast_to(column, shape).astype(float))
            for key, column in columns.items()
        }
        | {"status": ("seed", np.full(shape[0], "diverged"))},
        coords={"seed": np.arange(shape[0])},
        attrs={
            "run": run,
            "point": f"step-{step}",
            "effective_step_size": step,
            "specification": canonical_json(specification),
        },
    )


def falling(run: str, levels: np.ndarray, records: int = RECORDS, step: float = 0.1) -> xr.Dataset:
    """A gradient norm that falls from 1 to one level per seed on a line, and stays there."""
    curve = levels[:, None] * np.minimum(1.25 * np.linspace(0, 1, records), 1)
    return trace(run, {"gradient_norm": 10.0**curve}, step=step)


def scores(run: str, ends: np.ndarray, split: str = "{}") -> xr.Dataset:
    """An accuracy that rises evenly from 0.5 to one end per seed."""
    rise = 0.5 + (ends[:, None] - 0.5) * np.linspace(0, 1, 5)
    return trace(run, {"test_accuracy": rise}, split=split)


# --- truths: levels (or scores) of two runs, by how much the first is ahead ---


def normal(ahead: float, random: Random, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """Levels about -2 that share half of their variance, as runs under one seed do."""
    common = random.normal(0, SPREAD, seeds)
    first, second = (common + random.normal(0, SPREAD, seeds) for _ in range(2))
    return -2 - ahead + first, -2 + second


def spiky(ahead: float, random: Random, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """The same, and a fifth of either run's seeds end a decade higher."""
    first, second = normal(ahead, random, seeds)
    first[random.random(seeds) < 0.2] += 1
    second[random.random(seeds) < 0.2] += 1
    return first, second


def losing(ahead: float, random: Random, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """The same, and a tenth of either run's seeds diverge."""
    first, second = normal(ahead, random, seeds)
    first[random.random(seeds) < 0.1] = np.nan
    second[random.random(seeds) < 0.1] = np.nan
    return first, second


def skewed(ahead: float, random: Random, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """Differences of which one half is long-tailed; their median is what the first is ahead."""
    gaps = SPREAD * (np.exp(random.normal(0, 1.5, seeds)) - 1)
    return np.full(seeds, -2.0) - ahead + gaps, np.full(seeds, -2.0)


def mean_tie(ahead: float, random: Random, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """Four seeds in five are as much ahead, the fifth is so far behind that the means tie."""
    first, second = normal(ahead, random, seeds)
    first[random.random(seeds) < 0.2] += 5 * ahead
    return first, second


def pair(
    levels: Callable[..., Any], ahead: float, records: int = RECORDS, of_first: int = RECORDS
) -> Draw:
    """Two runs whose gradient norms end at such levels; records: of the second."""

    def draw(random: Random, seeds: int) -> dict[str, Any]:
        first, second = levels(ahead, random, seeds)
        return {"a": falling("a", first, of_first), "b": falling("b", second, records)}

    return draw


def pair_of_scores(ahead: float) -> Draw:
    """Two runs whose accuracies end about 0.9."""

    def draw(random: Random, seeds: int) -> dict[str, Any]:
        first, second = normal(10 * ahead, random, seeds)
        return {"a": scores("a", 0.7 - first / 10), "b": scores("b", 0.7 - second / 10)}

    return draw


def steps(ahead: float, number: int = 2) -> Draw:
    """One run at several steps, each ahead of the next smaller one."""

    def draw(random: Random, seeds: int) -> dict[str, Any]:
        common = random.normal(-2, SPREAD, seeds)
        levels = [
            common - place * ahead + random.normal(0, SPREAD, seeds) for place in range(number)
        ]
        return {"a": [falling("a", row, step=0.1 + place) for place, row in enumerate(levels)]}

    return draw


def leads(ahead: float) -> Draw:
    """Two runs at two steps: the first is a little ahead at the small one, by so much more then."""

    def draw(random: Random, seeds: int) -> dict[str, Any]:
        made: dict[str, Any] = {"a": [], "b": []}
        for step, lead in ((0.1, 0.1), (1.1, 0.1 + ahead)):
            for run, levels in zip("ab", normal(lead, random, seeds), strict=True):
                made[run].append(falling(run, levels, step=step))
        return made

    return draw


def rivals(ahead: float) -> Draw:
    """A run and six rivals, that is ahead of all by as much."""

    def draw(random: Random, seeds: int) -> dict[str, Any]:
        ends = 0.9 + random.normal(0, SPREAD / 10, (7, seeds))
        ends[0] += ahead
        return {run: scores(run, row) for run, row in zip("abcdefg", ends, strict=True)}

    return draw


def accuracies_on_splits(random: Random, seeds: int) -> np.ndarray:
    """(2, seeds) of two equally good learners on splits of the same rows, 4/5 for training.

    Ridge regressions on ten features each, the label being made of all twenty alike.
    """
    rows, share = 400, 0.2
    features = random.normal(size=(rows, 20))
    label = np.sign(features.sum(axis=1) + random.normal(0, 3, rows))
    found = np.empty((2, seeds))
    for seed in range(seeds):
        order = random.permutation(rows)
        test, train = order[: int(share * rows)], order[int(share * rows) :]
        for side in range(2):
            own = features[:, 10 * side : 10 * side + 10]
            gram = own[train].T @ own[train] + np.eye(10)
            weights = np.linalg.solve(gram, own[train].T @ label[train])
            found[side, seed] = np.mean(np.sign(own[test] @ weights) == label[test])
    return found


def resampled(random: Random, seeds: int) -> dict[str, Any]:
    """Those learners' traces."""
    split = canonical_json({"test": 0.2, "seed": None})
    found = accuracies_on_splits(random, seeds)
    return {run: scores(run, row, split) for run, row in zip("ab", found, strict=True)}


def resampled_and_lost(random: Random, seeds: int) -> dict[str, Any]:
    """The same, and a tenth of either run's seeds diverge."""
    runs = resampled(random, seeds)
    for made in runs.values():
        lost = random.random(seeds) < 0.1
        made.variables["test_accuracy"].values[lost] = np.nan
        made.variables["status"].values[lost] = "diverged"
    return runs


def printed(trials: int, off: float = 0.0) -> Draw:
    """A replication of a mean of trials that happened to be 0.9; off: in spreads."""

    def draw(random: Random, seeds: int) -> dict[str, Any]:
        truth = 0.9 + SPREAD / 10 * (off + random.normal(0, 1 / math.sqrt(trials)))
        return {"a": scores("a", truth + random.normal(0, SPREAD / 10, seeds))}

    return draw


def printed_lead(random: Random, seeds: int) -> dict[str, Any]:
    """A replication of a lead of one trial that happened to be 0.2 decades."""
    return pair(normal, 0.2 + random.normal(0, SPREAD * math.sqrt(2)))(random, seeds)


def profile(ahead: float, first: int = 1) -> Draw:
    """Five steps, the second behind the others by so much; seeds share nine tenths of the variance.

    first: the first that is behind with it. Run b has the second only: it was chosen there.
    """

    def draw(random: Random, seeds: int) -> dict[str, Any]:
        common = random.normal(0, SPREAD * math.sqrt(0.9), seeds)
        own = random.normal(0, SPREAD * math.sqrt(0.1), (5, seeds))
        own[first:2] += ahead
        order = random.permutation(5)  # by tuning seeds, which are others
        levels = -2 + common + own
        return {
            "a": [falling("a", levels[place], step=0.1 * (place + 1)) for place in order],
            "b": falling("b", levels[1], step=0.2),
        }

    return draw


def widening(ahead: float) -> Draw:
    """Two runs whose scores are as far apart at half of the rounds as at the end, but for this."""

    def draw(random: Random, seeds: int) -> dict[str, Any]:
        made = {}
        for run, lead in (("a", ahead), ("b", 0.0)):
            common = random.normal(0.9, SPREAD / 10, seeds)
            ends = common + lead + random.normal(0, SPREAD / 10, (2, seeds))
            early, late = ends[0] - lead, ends[1]
            rise = np.stack([np.full(seeds, 0.5), early, early, late, late], axis=1)
            made[run] = trace(run, {"test_accuracy": rise})
        return made

    return draw


def order_of_convergence(linear: bool) -> Draw:
    """Sub-optimality that is an exponential or a power law, with noise of a tenth."""

    def draw(random: Random, seeds: int) -> dict[str, Any]:
        at = np.linspace(0, 40, RECORDS)
        curve = -at / 10 if linear else -2 * np.log10(1 + at)
        levels = curve + random.normal(0, 0.04, (seeds, RECORDS))
        return {"a": trace("a", {"suboptimality": 10.0**levels})}

    return draw


def speedup(power: float) -> Draw:
    """Times to a target that fall as parties to this power."""

    def draw(random: Random, seeds: int) -> dict[str, Any]:
        made = {}
        for run, parties in zip("abcd", (1, 2, 4, 8), strict=True):
            pace = parties**-power * 10 ** random.normal(0, SPREAD, seeds)
            levels = -6 * np.minimum(pace[:, None] * np.linspace(0, 1, 401), 1)
            split = canonical_json({"parties": parties})
            made[run] = trace(run, {"suboptimality": 10.0**levels}, split=split)
        return made

    return draw


def growing(power: float) -> Draw:
    """Rounds to a target that grow as clients to this power."""

    def draw(random: Random, seeds: int) -> dict[str, Any]:
        made = {}
        for run, clients in zip("abcd", (1, 2, 4, 8), strict=True):
            pace = 8 / clients**power * 10 ** random.normal(0, SPREAD, seeds)
            levels = -6 * np.minimum(pace[:, None] * np.linspace(0, 1, 401), 1)
            split = canonical_json({"clients": clients})
            made[run] = trace(run, {"gradient_norm": 10.0**levels}, split=split)
        return made

    return draw


def errors(power: float) -> Draw:
    """Gradient norms at the end that grow as clients to this power."""

    def draw(random: Random, seeds: int) -> dict[str, Any]:
        made = {}
        for run, clients in zip("abcd", (1, 2, 4, 8), strict=True):
            ends = power * math.log10(clients) - 2 + random.normal(0, SPREAD, (seeds, 1))
            levels = ends * np.linspace(0, 1, RECORDS)
            split = canonical_json({"clients": clients})
            made[run] = trace(run, {"gradient_norm": 10.0**levels}, split=split)
        return made

    return draw


def horizons(power: float) -> Draw:
    """Gradient norms whose square at the end falls with runs' horizons K as (K + 1)^-power."""

    def draw(random: Random, seeds: int) -> dict[str, Any]:
        made = {}
        for run, horizon in zip("abcd", (100, 200, 400, 800), strict=True):
            level = -power / 2 * math.log10(horizon + 1) + random.normal(0, SPREAD, (seeds, 1))
            levels = np.minimum(np.linspace(0, 2, RECORDS), 1) * level
            made[run] = trace(run, {"gradient_norm": 10.0**levels}, horizon=horizon)
        return made

    return draw


def fallen(fall: float) -> Draw:
    """A run that ends so many decades below its start."""

    def draw(random: Random, seeds: int) -> dict[str, Any]:
        start, end = random.normal(0, SPREAD, (2, seeds, 1))
        levels = start + np.minimum(np.linspace(0, 2, RECORDS), 1) * (end - fall - start)
        return {"a": trace("a", {"gradient_norm": 10.0**levels})}

    return draw


def ever_slower(power: float) -> Draw:
    """Rounds to ε that grow as 1/ε to this power, which differs between seeds by the spread."""

    def draw(random: Random, seeds: int) -> dict[str, Any]:
        own = power + random.normal(0, SPREAD, seeds)
        levels = -np.log10(np.maximum(np.linspace(0, 400, 401) / 12, 1)) / own[:, None]
        return {"a": trace("a", {"gradient_norm": 10.0**levels})}

    return draw


def cases() -> Iterator[Case]:
    """All claims under all truths."""
    names = {"first": "a", "second": "b"}
    counts, much, near = math.log10(1.05), math.log10(2), math.log10(1.05)
    faster = {"kind": "order", **names, "relation": "faster"}
    at_least = {"kind": "order", **names, "relation": "at_least_as_fast"}
    yield Case("order, faster", "tie", "tie", faster, pair(normal, 0))
    yield Case("order, faster", "tie, a fifth spikes", "tie", faster, pair(spiky, 0))
    yield Case("order, faster", "tie of a skewed median", "tie", faster, pair(skewed, 0))
    yield Case("order, faster", "tie, a tenth lost", "tie", faster, pair(losing, 0))
    yield Case("order, faster", "tie, few records", "tie", faster, pair(normal, 0, 6))
    yield Case("order, faster", "smallest effect", "smallest", faster, pair(normal, counts))
    yield Case("order, faster", "smallest, spikes", "smallest", faster, pair(spiky, counts))
    yield Case("order, faster", "ahead by 1.26", "beyond", faster, pair(normal, 0.1))
    yield Case("order, faster", "1.26, a fifth spikes", "beyond", faster, pair(spiky, 0.1))
    yield Case("order, faster", "1.26, a tenth lost", "beyond", faster, pair(losing, 0.1))
    yield Case(
        "order, faster", "tie of the mean, four in five ahead", "holds", faster, pair(mean_tie, 0.1)
    )
    lead = {**faster, "published_effect": 10**0.2}
    yield Case("order, a printed lead", "a perfect replication", "holds", lead, printed_lead)
    added = {"seeds_added": True}
    yield Case("order, faster, seeds added", "tie", "tie", faster, pair(normal, 0), **added)
    yield Case("order, at least as fast", "tie", "holds", at_least, pair(normal, 0))
    yield Case(
        *("order, at least as fast", "behind by 1.05", "worse at the border"),
        at_least,
        pair(normal, -counts),
    )
    for word, border in (("much_faster", much), ("similar", near)):
        test = {**faster, "relation": word}
        truth = "smallest" if word == "much_faster" else "equal at its border"
        yield Case(
            f"order, {word.replace('_', ' ')}", "at the border", truth, test, pair(normal, border)
        )
    target = {"kind": "cost_to_target", **names, "relation": "faster", "target": 0.05}
    fine = partial(pair, of_first=FINE)
    yield Case("cost_to_target", "tie", "tie", target, fine(normal, 0, FINE))
    rarer = fine(normal, 0, FINE // 5)
    yield Case("cost_to_target", "tie, records 5 times as rare", "tie", target, rarer)
    yield Case("cost_to_target", "tie, a tenth lost", "tie", target, fine(losing, 0, FINE))
    # Costs are in proportion to levels, which fall on lines.
    ahead = 2 * (1.05 - 1)
    yield Case("cost_to_target", "smallest effect", "smallest", target, fine(normal, ahead, FINE))
    yield Case("cost_to_target", "ahead by 1.2", "beyond", target, fine(normal, 0.4, FINE))
    monotone = {"kind": "monotone", "run": "a"}
    yield Case("monotone", "tie", "tie", monotone, steps(0))
    yield Case("monotone, six steps", "all tie", "tie", monotone, steps(0, 6))
    yield Case("monotone", "ahead by 1.26", "beyond", monotone, steps(0.1))
    accuracy = {"measurement": "test_accuracy"}
    highest = {"kind": "highest", "run": "a", "among": tuple("bcdefg"), **accuracy}
    yield Case("highest of seven", "all tie", "tie", highest, rivals(0))
    yield Case("highest of seven", "ahead by 0.02", "beyond", highest, rivals(0.02))
    better = {"kind": "better_final", **names, **accuracy}
    equal = {**better, "kind": "equal_final", "smallest_effect": 0.005}
    yield Case("better_final", "tie", "tie", better, pair_of_scores(0))
    yield Case("better_final", "smallest effect", "smallest", better, pair_of_scores(0.005))
    yield Case("better_final", "ahead by 0.02", "beyond", better, pair_of_scores(0.02))
    yield Case("better_final", "tie, resampled splits", "tie", better, resampled)
    yield Case("better_final", "the same, a tenth lost", "tie", better, resampled_and_lost)
    yield Case(
        "equal_final", "apart by its border", "equal at its border", equal, pair_of_scores(0.005)
    )
    yield Case("equal_final", "tie", "holds", equal, pair_of_scores(0))
    accuracy_of: dict[str, Any] = {
        "kind": "published_measurement",
        "run": "a",
        **accuracy,
        "value": 0.9,
    }
    both = {**accuracy_of, "spread": SPREAD / 10, "trials": 10}
    for off, truth in ((0.0, "holds"), (3.0, "other")):
        under = f"{off:g} spreads off" if off else "a perfect replication"
        for tested, trials in ((accuracy_of, 1), (both, 10)):
            claim = f"published_measurement{' with ±' * (trials > 1)}"
            yield Case(claim, under, truth, tested, printed(trials, off))
    value = {"kind": "published_value", "run": "a", "hyper_parameter": "step", "value": 0.2}
    worse = "worse at the border"
    yield Case("published_value", "a flat profile", "holds", value, profile(0))
    yield Case("published_value", "behind by 1.05", worse, value, profile(counts))
    larger = {"kind": "selected_order", "larger": "a", "smaller": "b", "hyper_parameter": "step"}
    yield Case("selected_order", "a flat profile", "tie", larger, profile(0))
    yield Case("selected_order", "smallest effect", "smallest", larger, profile(counts, 0))
    wider = {
        "kind": "gap_widens",
        **names,
        **accuracy,
        "costs": ("iteration", "round"),
        "at": (400, 400),
    }
    yield Case("gap_widens", "tie", "tie", wider, widening(0))
    yield Case("gap_widens", "by 0.02", "beyond", wider, widening(0.02))
    grows = {"kind": "lead_grows_with_step", **names}
    for under, truth, ahead in (
        ("tie", "tie", 0.0),
        ("smallest effect", "smallest", counts),
        ("by 1.26", "beyond", 0.1),
    ):
        yield Case("lead_grows_with_step", under, truth, grows, leads(ahead))
    linear = {"kind": "convergence_order", "run": "a", "order": "linear"}
    yield Case(
        "convergence_order, linear", "an exponential", "holds", linear, order_of_convergence(True)
    )
    sublinear = {**linear, "order": "sublinear"}
    yield Case(
        "convergence_order, sublinear",
        "a power law",
        "holds",
        sublinear,
        order_of_convergence(False),
    )
    scaling = {"kind": "scaling", "series": tuple("abcd"), "target": 1e-3}
    yield Case(
        "scaling, near linear", "a power of -0.8", "equal at its border", scaling, speedup(-0.8)
    )
    yield Case("scaling, near linear", "a power of -1", "holds", scaling, speedup(-1))
    gradient = {"measurement": "gradient_norm", "power": 0.5}
    growth = {"kind": "growth", "series": tuple("abcd"), "target": 1e-3, **gradient}
    yield Case("growth, at most N^(1/2)", "N^0.6", worse, growth, growing(0.6))
    yield Case("growth, at most N^(1/2)", "N^0.5", "holds", growth, growing(0.5))
    rate = {"kind": "rate", "run": "a", "targets": (0.2, 0.1, 0.05), **gradient, "power": 1}
    yield Case("rate, at most 1/ε", "1/ε^1.1", worse, rate, ever_slower(1.1))
    yield Case("rate, at most 1/ε", "1/ε", "holds", rate, ever_slower(1))
    error = {"kind": "error_scaling", "series": tuple("abcd"), "size": "clients", **gradient}
    error["averaged"] = False
    yield Case("error_scaling, at most √N", "N^0.6", worse, error, errors(0.6))
    yield Case("error_scaling, at most √N", "N^0.5", "holds", error, errors(0.5))
    horizon = {"kind": "horizon_rate", "series": tuple("abcd"), **gradient, "power": 1}
    yield Case("horizon_rate, 1/K", "1/K^0.9", worse, horizon, horizons(0.9))
    yield Case("horizon_rate, 1/K", "1/K", "holds", horizon, horizons(1))
    falls = {"kind": "falls", "run": "a", "measurement": "gradient_norm", "smallest_effect": 1.05}
    yield Case("falls", "tie", "tie", falls, fallen(0))
    yield Case("falls", "smallest effect", "smallest", falls, fallen(counts))
    yield Case("falls", "by 1.26", "beyond", falls, fallen(0.1))


def along_few(judge: Callable[[float], Any], row: Row | None) -> list[CaseOutcome]:
    """Judge a claim at no other budgets or targets than its outcome depends on.

    Those are the declared one and, of limits, the next. All others take most of the time.
    """
    if row is not None:
        row = row._replace(scales=tuple(s for s in row.scales if 1 / 3 <= s <= 1)[-2:])
    return along(judge, row)


def judged(case: Case, seeds: int, draws: int, seed: int) -> Counter[str]:
    """Outcomes of the claim over draws."""
    for module in (evaluation.horizon, quantities, compared, slope):
        module.along = along_few  # type: ignore[attr-defined]
    random = np.random.default_rng([seed, seeds])
    claim = Claim(id="claim", source="", statement="", test=case.test)
    found: Counter[str] = Counter()
    for _ in range(draws):
        runs = case.draw(random, seeds)
        traces = {
            run: {
                trace.attrs["point"]: trace
                for trace in (given if isinstance(given, list) else [given])
            }
            for run, given in runs.items()
        }
        # Points are in the order of their scores on other seeds.
        chosen = {
            run: Choice(next(iter(tried)), {point: place for place, point in enumerate(tried)})
            for run, tried in traces.items()
        }
        results = Results(traces, chosen, seeds_added=case.seeds_added)
        whole = judge("", "", [claim], results)[0]
        found[whole.outcome] += 1
    return found


def row(case: Case, most: int, place: int) -> str:
    """The line of one case, for all numbers of seeds."""
    cells = []
    for seeds, draws in zip(SEEDS, (most // 10, most, most), strict=True):
        found = judged(case, seeds, draws, place)
        good, bad = (
            100 * sum(found[outcome] for outcome in wrong[case.truth]) / draws
            for wrong in (TOO_GOOD, TOO_BAD)
        )
        missed = found["compatible"] if case.truth == "other" else 0
        open_ = 100 * (found["undecided"] + found["not testable"] + missed) / draws
        # "incompatible" errs on two sides at once.
        flag = " **!**" if max(good, bad / 2 if "published_m" in case.claim else bad) > MOST else ""
        cells += [f"{good:.1f}", f"{bad:.1f}{flag}", f"{abs(100 - open_ - good - bad):.0f}"]
    return f"| {case.claim} | {case.under} | {' | '.join(cells)} |"


# --- seeds added until the verdict is decided ---


def gaps_of(levels: Callable[..., Any], ahead: float) -> Callable[[Random, int], np.ndarray]:
    """Advantages of two runs with such levels; lost seeds are infinitely bad."""

    def draw(random: Random, seeds: int) -> np.ndarray:
        runs = levels(ahead, random, seeds)
        first, second = (np.where(np.isnan(run), np.inf, run) for run in runs)
        return advantages(first, second)

    return draw


def split_gaps(random: Random, seeds: int) -> np.ndarray:
    """Advantages of equally good learners on splits of the same rows."""
    first, second = accuracies_on_splits(random, seeds)
    return first - second


def stopping_truths() -> Iterator[tuple[str, str, Criterion, Callable[..., np.ndarray], float]]:
    """Name, truth (a key of `TOO_GOOD`), criterion, advantages, and overlap of splits."""
    counts = math.log10(1.05)
    faster, similar = Criterion("better", counts), Criterion("equal", counts)
    yield "faster: tie", "tie", faster, gaps_of(normal, 0), 0.0
    yield "faster: tie, a fifth spikes", "tie", faster, gaps_of(spiky, 0), 0.0
    yield "faster: tie of a skewed median", "tie", faster, gaps_of(skewed, 0), 0.0
    yield "faster: tie, a tenth lost", "tie", faster, gaps_of(losing, 0), 0.0
    yield "faster: smallest effect", "smallest", faster, gaps_of(normal, counts), 0.0
    yield "faster: ahead by 1.1", "beyond", faster, gaps_of(normal, math.log10(1.1)), 0.0
    yield "faster: ahead by 1.26", "beyond", faster, gaps_of(normal, 0.1), 0.0
    yield (
        "similar: at the border",
        "equal at its border",
        similar,
        gaps_of(normal, counts),
        0.0,
    )
    yield "higher: tie, resampled splits", "tie", Criterion("better", 0.005), split_gaps, 0.25


def stopped(place: int, draws: int) -> str:
    """The line of a truth: errors at any look, what is right at the first decided, seeds then."""
    name, truth, criterion, draw, overlap = list(stopping_truths())[place]
    cells = []
    for seeds_added in (True, False):
        random = np.random.default_rng([place, LOOKS[-1]])  # the same draws for both
        good = bad = right = 0
        ends = []
        for _ in range(draws):
            gaps = draw(random, LOOKS[-1])
            found = [
                decide(median_interval(gaps[:seeds], seeds_added, overlap), criterion)
                for seeds in LOOKS
            ]
            good += any(outcome in TOO_GOOD[truth] for outcome in found)
            bad += any(outcome in TOO_BAD[truth] for outcome in found)
            first = next((i for i, outcome in enumerate(found) if outcome != "undecided"), None)
            ends.append(math.inf if first is None else LOOKS[first])
            right += first is not None and found[first] not in TOO_GOOD[truth] + TOO_BAD[truth]
        shares = [100 * good / draws, 100 * bad / draws]
        flags = [" **!**" if share > MOST else "" for share in shares]
        middle = float(np.median(ends))
        cells += [f"{share:.1f}{flag}" for share, flag in zip(shares, flags, strict=True)]
        cells += [f"{100 * right / draws:.0f}", f"{middle:.0f}" if middle < math.inf else "–"]
    return f"| {name} | {' | '.join(cells)} |"


def decided_by(outside: dict[int, int], above: float) -> np.ndarray:
    """(looks,) the exact probability that the median was found above a border by then.

    outside: number of seeds at a look → so many below decide no more. above: the share of seeds
    that lie above the border.
    """
    below, decided, found = np.array([1.0]), 0.0, []
    for seeds in range(1, max(outside) + 1):
        below = np.append(below, 0.0) * above + np.insert(below, 0, 0.0) * (1 - above)
        if seeds in outside:
            decided += below[: outside[seeds]].sum()
            below[: outside[seeds]] = 0.0
            found.append(decided)
    return np.array(found)


def seeds_to_decide(above: float) -> str:
    """The line of a share of seeds above the border: half and four fifths of experiments decide."""

    def outside(seeds: int, error: float, seeds_added: bool = False) -> int:
        return sum(p_of_signs(seeds, k, seeds_added) <= error for k in range(seeds // 2))

    many = range(1, MOST_SEEDS + 1)
    fixed = [decided_by({n: outside(n, SIGNIFICANCE)}, above)[-1] for n in many]
    rules = {
        "added": {n: outside(n, SIGNIFICANCE, seeds_added=True) for n in many},
        "five": {n: outside(n, SIGNIFICANCE / 5) for n in (6, 12, 24, 36, 48)},
        "every": {n: outside(n, SIGNIFICANCE / len(LOOKS)) for n in LOOKS},
    }
    found = [(list(many), np.array(fixed))]
    found += [(list(rule), decided_by(rule, above)) for rule in rules.values()]
    cells = []
    for looks, chances in found:
        for chance in (0.5, POWER):
            enough = np.flatnonzero(chances >= chance)
            cells.append(str(looks[enough[0]]) if len(enough) else f"over {looks[-1]}")
    return f"| {100 * above:g} % | {' | '.join(cells)} |"


def print_stopping(draws: int, pool: ProcessPoolExecutor) -> None:
    """Both tables."""
    print("| claim: truth | seeds added: for | against | right | seeds | ", end="")
    print("fixed number: for | against | right | seeds |")
    print("|---|" + "---:|" * 8)
    places = range(len(list(stopping_truths())))
    for line in pool.map(partial(stopped, draws=draws), places):
        print(line, flush=True)
    rules = ("fixed number", "seeds added", "Bonferroni, five looks", "Bonferroni, every seed")
    print(
        "\n| beyond the border | " + " | ".join(f"{rule}: half | four fifths" for rule in rules),
        "|",
    )
    print("|---:|" + "---:|" * 8)
    for above in (1.0, 0.95, 0.9, 0.8, 0.7):
        print(seeds_to_decide(above))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="", help="claims whose name begins with this")
    arguments = parser.parse_args()
    heads = [f"n = {seeds}: for | against | right" for seeds in SEEDS]
    print("| claim | truth | " + " | ".join(heads) + " |")
    print("|---|---|" + "---:|---:|---:|" * len(SEEDS))
    places = [place for place, case in enumerate(cases()) if case.claim.startswith(arguments.only)]
    with ProcessPoolExecutor(arguments.processes) as pool:
        for line in pool.map(partial(_row, draws=arguments.draws), places):
            print(line, flush=True)
        if "stopping".startswith(arguments.only):
            print()
            print_stopping(arguments.draws, pool)


def _row(place: int, draws: int) -> str:
    return row(list(cases())[place], draws, place)


if __name__ == "__main__":
    main()
