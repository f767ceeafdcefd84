"""How often intervals of profiles hold: the table of docs/profiles.md, simulated.

    python benchmarks/profiles.py [--draws 300]

A draw makes what four methods spend on P problems with five targets and five instances. The truth
is the mean of areas over many suites of that size. Columns: in how many draws, in percent, the 95 %
interval of a method's score holds the truth (the worst and the mean of the methods), all
differences are within their margins, and any difference is told apart that is none or the other way
round; and the margin of the median pair.
"""

import argparse

import numpy as np

from fedatlas.evaluation.profiles import Costs, area, ratios, scores, typical

TARGETS = INSTANCES = 5
#: Logarithm of what a method spends more than the first; the last two are equally good.
SLOWER = np.array([0.0, 0.15, 0.4, 0.4])
#: Standard deviations, of logarithms, over problems and over instances.
SPREADS = {"problems differ": (0.5, 0.3), "instances differ": (0.1, 0.6)}
#: An instance never reaches the harder targets; a method no instance's.
LOST = 0.1
TRUTH_DRAWS = 3000
RESAMPLED = 300


def draw(random: np.random.Generator, problems: int, between: float, within: float) -> Costs:
    """What methods spend on so many problems."""

    def noise(spread: float, *shape: int) -> np.ndarray:
        return random.normal(0, spread, shape)

    methods = len(SLOWER)
    level = noise(1, problems, 1, 1, 1) + np.linspace(0, 2, TARGETS)[None, :, None, None]
    level = level + SLOWER[:, None] + noise(between, problems, 1, methods, 1)
    level = level + noise(between / 2, problems, TARGETS, methods, 1)
    level = level + noise(within, problems, 1, methods, INSTANCES)
    level = level + noise(within / 2, problems, TARGETS, methods, INSTANCES)
    lost = random.random((problems, 1, methods, INSTANCES)) < LOST
    lost |= random.random((problems, 1, methods, 1)) < LOST
    hard = (np.arange(TARGETS) >= TARGETS // 2)[:, None, None]
    spent = np.where(lost & hard, np.inf, np.exp(level)).reshape(-1, methods, INSTANCES)
    return Costs(
        tuple("abcd"),
        np.repeat([str(problem) for problem in range(problems)], TARGETS),
        np.tile(np.arange(1.0, TARGETS + 1), problems),
        spent,
        np.full_like(spent, 100.0),
        np.ones(len(spent)),
    )


def row(problems: int, spreads: tuple[float, float], draws: int) -> str:
    """Percentages of the table's columns, and the margin."""
    random = np.random.default_rng(problems)
    suites = (draw(random, problems, *spreads) for _ in range(TRUTH_DRAWS))
    truth = np.mean([area(ratios(typical(suite.spent))) for suite in suites], axis=0)
    gap, upper = truth[:, None] - truth, np.triu_indices(len(truth), 1)
    holds, within, wrong, margins = np.zeros(len(truth)), 0, 0, []
    for seed in range(draws):
        found = scores(draw(random, problems, *spreads), RESAMPLED, seed)
        holds += (found.low <= truth) & (truth <= found.high)
        own = found.area[:, None] - found.area
        within += bool((np.abs(own - gap) <= found.margin)[upper].all())
        # The last two are equally good.
        wrong += bool((found.ahead & (gap <= np.where(np.abs(gap) < 0.01, 0.01, 0))).any())
        margins.append(float(np.median(found.margin[upper])))
    shares = (holds.min(), holds.mean(), within, wrong)
    told = " | ".join(f"{100 * share / draws:.1f}" for share in shares)
    return f"{told} | {np.mean(margins):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=300)
    draws = parser.parse_args().draws
    print("| problems | | worst | mean | differences | wrong | margin |")
    print("|---|---|---|---|---|---|---|")
    for problems in (6, 12, 24):
        for name, spreads in SPREADS.items():
            print(f"| {problems} | {name} | {row(problems, spreads, draws)} |", flush=True)


if __name__ == "__main__":
    main()
