"""The rule of verdicts: from paired differences of seeds to an outcome.

The typical seed is compared. Its interval is that of the exact sign test: from the k-th smallest to
the k-th largest paired difference it holds the median, however differences are distributed. Lost
seeds are infinitely bad ones, so they count as ranks do and veto nothing. Six seeds are the fewest
that make 95 %. Where seeds are added after verdicts were seen, tests are e-processes, whose errors
hold whenever one stops; seven seeds are the fewest then. docs/rule.md shows how often the rule
errs.

Differences are advantages: positive in favour of the claim.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np

from fedatlas.schema.claims import SILENT, CaseOutcome, Effect, Outcome, Quantifier

CONFIDENCE = 0.95
SIGNIFICANCE = (1 - CONFIDENCE) / 2  # of a side
#: Advantages closer than this are equal: differences of decimal fractions carry rounding errors.
ROUNDING = 1e-12
#: Chance of deciding with as many seeds as are said to be needed, if their spread stays the same.
POWER = 0.8
#: More are not planned.
MOST_SEEDS = 200

Direction = Literal["better", "not worse", "equal"]


@dataclass(frozen=True)
class Criterion:
    """A claim of a comparison, in units of the advantage.

    better: ahead by `smallest` or more. not worse: not behind by `smallest` or more. equal: closer
    than `smallest`. published: the advantage that the paper prints, if any, the mean of `trials`.
    tie: advantages closer than this are "no difference", by default `smallest`.
    """

    direction: Direction
    smallest: float
    published: float | None = None
    trials: int = 1
    tie: float | None = None


@dataclass(frozen=True)
class Interval:
    """An estimate and its interval, which may be infinite."""

    estimate: float
    low: float
    high: float


def advantages(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(seeds,) by how much the losses of `first` are smaller, seed against the same seed.

    Losses of +inf are of lost seeds; where both runs lost one, neither is ahead.
    """
    with np.errstate(invalid="ignore"):
        gaps = second - first
    return np.where(np.isposinf(first) & np.isposinf(second), 0.0, gaps)


def median_interval(
    gaps: np.ndarray, seeds_added: bool = False, overlap: float = 0.0, repeats: int = 0
) -> Interval:
    """The interval of the median, from order statistics; without bounds below six seeds.

    seeds_added: whether seeds were added after a verdict; see `e_of_signs`. overlap: test rows over
    training rows, of trials that split the same rows anew. Their results are correlated, so the
    interval also covers that of Nadeau and Bengio (2003). That has no bounds where a seed was lost.
    repeats: how many more seeds coincide with these; one observation that others repeat has no
    interval but itself.
    """
    if len(gaps) == 1 and repeats:
        return Interval(*map(float, np.repeat(gaps, 3)))
    ranked = np.sort(gaps) + 0.0  # no -0.0, whose place is that of 0.0
    estimate = _median(ranked)
    outside = _outside(len(ranked), seeds_added)
    if outside == 0:
        return Interval(estimate, -np.inf, np.inf)
    low, high = float(ranked[outside - 1]), float(ranked[-outside])
    if overlap:
        error = _corrected_error(ranked, overlap)
        if np.isinf(error):
            return Interval(estimate, -np.inf, np.inf)
        half = float(t_quantile(len(ranked) - 1, seeds_added)) * error
        low, high = min(low, ranked.mean() - half), max(high, ranked.mean() + half)
    return Interval(estimate, low, high)


def _regions(criterion: Criterion) -> list[tuple[Outcome, float, float]]:
    """Outcomes, and the borders between which an interval must lie for them; the first counts.

    A border that belongs to its region is moved by twice `ROUNDING`.
    """
    smallest, infinity = criterion.smallest, float("inf")
    tie = smallest if criterion.tie is None else criterion.tie
    least = smallest - 2 * ROUNDING
    if criterion.direction == "not worse":
        return [("reproduced", -smallest, infinity), ("contradicted", -infinity, -least)]
    if criterion.direction == "equal":
        return [
            ("reproduced", -smallest, smallest),
            ("contradicted", least, infinity),
            ("contradicted", -infinity, -least),
        ]
    return [
        ("smaller than claimed", 0.0, max(smallest, criterion.published or 0.0)),
        ("reproduced", least, infinity),
        ("no difference", -tie, tie),
        ("contradicted", -infinity, 0.0),
    ]


def decide(interval: Interval, criterion: Criterion) -> Outcome:
    """The outcome of an interval; `OUTCOMES` says what each means."""
    for outcome, low, high in _regions(criterion):
        above = np.isinf(low) or interval.low > low + ROUNDING
        if above and (np.isinf(high) or interval.high < high - ROUNDING):
            return outcome
    return "undecided"


def compare(
    gaps: np.ndarray,
    criterion: Criterion,
    unit: str,
    *,
    seeds_added: bool = False,
    overlap: float = 0.0,
    repeats: int = 0,
) -> tuple[Outcome, Effect]:
    """The outcome of advantages (seeds,), and the effect.

    repeats: how many more seeds coincide with these. One observation that others repeat is exact.
    The printed advantage is a mean of the paper's trials, whose spread is taken to be ours: what is
    "surely less" is below all of its own 95 % interval.
    """
    if np.isposinf(gaps).all() or np.isneginf(gaps).all():
        overlap = 0.0  # all are lost, and have no spread that splits could add to
    interval, published = median_interval(gaps, seeds_added, overlap, repeats), criterion.published
    criterion = beside_printed(gaps, criterion)
    outcome = decide(interval, criterion)
    effect = Effect(
        **vars(interval),
        smallest=criterion.smallest,
        unit=unit,
        seeds=len(gaps),
        published=published,
        needed=seeds_needed(gaps, criterion, overlap) if outcome == "undecided" else None,
        p=_p_value(gaps, criterion, outcome, seeds_added, overlap),
        repeats=repeats,
        seeds_added=seeds_added,
    )
    return outcome, replace(effect, p=None, needed=None) if effect.exact else effect


def beside_printed(gaps: np.ndarray, criterion: Criterion) -> Criterion:
    """The criterion, whose printed advantage is less by half the 95 % interval of its mean.

    Its trials are spread as these advantages.
    """
    finite = gaps[np.isfinite(gaps)]
    if criterion.published is None or len(finite) < 2:
        return criterion
    error = 1.96 * float(np.std(finite, ddof=1)) / np.sqrt(criterion.trials)
    return replace(criterion, published=criterion.published - error)


def sign_p(gaps: np.ndarray, border: float, seeds_added: bool = False) -> float:
    """One-sided p of the sign test that the median is not above the border; ties are against it."""
    above = int((gaps > border + ROUNDING).sum())
    return p_of_signs(len(gaps), len(gaps) - above, seeds_added)


@cache
def p_of_signs(seeds: int, against: int = 0, seeds_added: bool = False) -> float:
    """One-sided p of the sign test in which so many seeds are against the claim."""
    # scipy.stats would load for longer than most judgements take.
    from scipy.special import bdtr

    if not seeds_added:
        return float(bdtr(against, seeds, 0.5))
    return min(1.0, 1 / e_of_signs(seeds, against))


def e_of_signs(seeds: int, against: int) -> float:
    """The e-process of the sign test: E = 2ⁿ ∫ pⁿ⁻ᵏ (1 − p)ᵏ dΠ(p), n seeds of which k are against.

    Π is Jeffreys' prior Beta(1/2, 1/2) restricted to p > 1/2. While the median is not above the
    border, no further seed raises the expectation of E. So it ever reaches 1/α with a probability
    of α at most (Ville 1939), however seeds are added.
    """
    from scipy.special import betainc, betaln

    both = seeds - against + 0.5, against + 0.5
    whole = np.exp(seeds * np.log(2) + betaln(*both)) / np.pi
    return float(2 * whole * betainc(*both[::-1], 0.5))


def t_quantile(freedom: np.ndarray | float, seeds_added: bool = False) -> np.ndarray:
    """Half the 95 % interval of a mean of normal numbers, in its standard errors.

    seeds_added: where the e-process of the t-test reaches 20, of both sides: the Bayes factor of
    effects in spreads that are N(0, 1) against none (Rouder et al. 2009; valid whenever one stops,
    Hendriksen et al. 2021). Infinite where it cannot.
    """
    from scipy.special import stdtrit

    if not seeds_added:
        return np.asarray(stdtrit(freedom, (1 + CONFIDENCE) / 2))
    size = 1 + np.asarray(freedom, float)
    reached = (np.sqrt(1 + size) / (1 - CONFIDENCE)) ** (2 / size)
    left = np.maximum(1 - reached / (1 + size), 0)
    with np.errstate(divide="ignore"):
        return np.sqrt((size - 1) * (reached - 1) / left)


def _p_of_t(t: float, freedom: int, seeds_added: bool) -> float:
    """One-sided p of a mean so many standard errors above the border."""
    from scipy.special import stdtr

    if not seeds_added:
        return float(stdtr(freedom, -t))
    if t <= 0:
        return 1.0
    size, square = 1 + freedom, t**2 / freedom
    e_value = ((1 + square) / (1 + square / (1 + size))) ** (size / 2) / np.sqrt(1 + size)
    return float(min(1.0, 1 / (2 * e_value)))  # half of the error is of this side


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values, adjusted by Holm (1979) for as many tests."""
    order = np.argsort(p_values, kind="stable")
    ranked = np.asarray(p_values, float)[order] * np.arange(len(order), 0, -1)
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(ranked), 1.0)
    return [float(value) for value in adjusted]


def seeds_needed(gaps: np.ndarray, criterion: Criterion, overlap: float = 0.0) -> int | None:
    """Seeds that decide with a chance of `POWER`, these included; None if too many.

    More are added after a look at these, so the rule for added seeds counts. They are spread as
    these, and as many of them are lost. Normal spread is assumed of the others here, and only here:
    it is a plan, not a verdict.
    """
    from scipy.special import bdtrc, ndtr

    finite = gaps[np.isfinite(gaps)]
    if len(finite) < 2:
        return None
    middle, spread = _median(finite), max(float(np.std(finite, ddof=1)), ROUNDING)

    best, kept = float(np.mean(np.isposinf(gaps))), len(finite) / len(gaps)

    def above(border: float) -> float:
        if np.isinf(border):
            return float(border < 0)
        return best + kept * float(ndtr((middle - border) / spread))

    seeds = np.arange(max(len(gaps) + 1, fewest_seeds(seeds_added=True)), MOST_SEEDS + 1)
    outside = np.array([_outside(int(number), seeds_added=True) for number in seeds], int)
    more, regions = seeds - len(gaps), _regions(criterion)

    def beyond(there: np.ndarray, chance: float) -> np.ndarray:
        """The chance that all but fewer than `outside` lie on a side, on which some are already."""
        left = seeds - outside - there.sum()
        return np.asarray(bdtrc(np.clip(left, -1, more), more, chance))

    chances = [
        beyond(gaps > low + ROUNDING, above(low))
        + beyond(gaps < high - ROUNDING, 1 - above(high))
        - 1
        for _, low, high in regions
    ]
    if overlap:
        if kept < 1:
            return None
        half = t_quantile(seeds - 1, seeds_added=True) * spread * np.sqrt(1 / seeds + overlap)
        chances = [
            np.where((middle - half > low) & (middle + half < high), chance, 0.0)
            for chance, (_, low, high) in zip(chances, regions, strict=True)
        ]
    enough = np.max(chances, axis=0) >= POWER
    return int(seeds[enough.argmax()]) if enough.any() else None


@cache
def fewest_seeds(seeds_added: bool) -> int:
    """The fewest seeds that have an interval."""
    return next(seeds for seeds in range(1, 100) if _outside(seeds, seeds_added))


def of_claim(found: Sequence[CaseOutcome], cases: Quantifier = "all") -> Outcome:
    """The outcome of a claim from those of the cases that it names: that of `together`.

    But a minority of its cases does not reproduce a claim about all or most: if more cases are not
    testable than can be tested, it is not testable.
    """
    outcome = together(found, cases)
    untested = sum(case.outcome == "not testable" for case in found)
    minority = untested > sum(case.outcome not in SILENT for case in found)
    return "not testable" if outcome == "reproduced" and minority and cases != "any" else outcome


def together(found: Sequence[CaseOutcome], cases: Quantifier = "all") -> Outcome:
    """The outcome of several tests of one thing.

    Those of a `SILENT` outcome do not count; where there are no others, the outcome is not covered
    if none is covered, else not testable.

    all: the worst outcome counts. That any case is contradicted pays for asking all (Holm), but for
    what has no p, which is not random. most: the outcome that more than half are at least as bad
    as; half is not most, and what undecided cases could change is undecided. any: the best outcome
    counts, and that any case is reproduced pays likewise.
    """
    spoken = [case.outcome for case in found if case.outcome not in SILENT]
    if not spoken:
        return "not covered" if all(c.outcome == "not covered" for c in found) else "not testable"
    if cases == "most":
        ends: tuple[Outcome, ...] = ("contradicted", "reproduced")
        possible = {_of_most([end if o == "undecided" else o for o in spoken]) for end in ends}
        return possible.pop() if len(possible) == 1 else "undecided"
    if cases == "any":
        best = max(spoken, key=WORST_FIRST.index)
        if best == "reproduced":
            return best if _any_stands(found, best) else "undecided"
        return "undecided" if "undecided" in spoken else best
    worst = min(spoken, key=WORST_FIRST.index)
    return worst if worst != "contradicted" or _any_stands(found, worst) else "undecided"


def _any_stands(found: Sequence[CaseOutcome], outcome: Outcome) -> bool:
    """Whether any case of an outcome that some have stands, as all were asked.

    Holm's first step is Bonferroni's. What has no p is not random, and stands.
    """
    effects = [case.effect for case in found if case.outcome == outcome]
    known = [effect.p for effect in effects if effect and effect.p is not None]
    return len(known) < len(effects) or len(found) * min(known) <= SIGNIFICANCE


def _of_most(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of most decided cases."""
    ranked = sorted(outcomes, key=WORST_FIRST.index)
    outcome = ranked[len(ranked) // 2]
    half = 2 * ranked.count(outcome) <= len(ranked)
    return "undecided" if outcome in ("reproduced", "compatible") and half else outcome


#: Outcomes by which a claim with cases is judged, in this order.
WORST_FIRST: tuple[Outcome, ...] = (
    "contradicted",
    "incompatible",
    "undecided",
    "no difference",
    "smaller than claimed",
    "reproduced",
    "compatible",
)


@cache
def _outside(seeds: int, seeds_added: bool) -> int:
    """k, so that the k-th smallest to the k-th largest hold the median surely enough."""
    tests = (p_of_signs(seeds, against, seeds_added) for against in range(seeds // 2))
    return sum(p <= SIGNIFICANCE for p in tests)


def _median(gaps: np.ndarray) -> float:
    """Median of numbers, of which some may be infinite."""
    with np.errstate(invalid="ignore"):
        return float(np.median(gaps)) if len(gaps) else np.nan


def _corrected_error(gaps: np.ndarray, overlap: float) -> float:
    """Standard error of the mean over overlapping training sets; infinite with lost seeds."""
    if not np.isfinite(gaps).all():
        return np.inf
    return float(np.std(gaps, ddof=1) * np.sqrt(1 / len(gaps) + overlap))


def _p_value(
    gaps: np.ndarray, criterion: Criterion, outcome: Outcome, seeds_added: bool, overlap: float
) -> float | None:
    """One-sided, of the border that a decided outcome lies beyond."""

    def beyond(border: float, gaps: np.ndarray) -> float:
        if np.isinf(border):
            return 0.0
        return max(
            sign_p(gaps, border, seeds_added), _corrected_p(gaps, border, seeds_added, overlap)
        )

    if outcome not in ("reproduced", "contradicted"):
        return None
    return min(
        max(beyond(low, gaps), beyond(-high, -gaps))
        for name, low, high in _regions(criterion)
        if name == outcome
    )


def _corrected_p(gaps: np.ndarray, border: float, seeds_added: bool, overlap: float) -> float:
    """One-sided p of the t-test over overlapping training sets; 0 without, 1 with lost seeds."""
    if not overlap:
        return 0.0
    error = _corrected_error(gaps, overlap)
    if not np.isfinite(error):
        return 1.0
    lead = float(gaps.mean()) - border
    return _p_of_t(lead / error, len(gaps) - 1, seeds_added) if error else float(lead < 0)
