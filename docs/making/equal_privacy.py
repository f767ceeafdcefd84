"""The numbers of docs/equal-privacy.md: docs/equal-privacy.csv, the page's tables, its picture.

`python -m making.equal_privacy` makes them of results/experiments/equal-*. `noises` are those that
config/experiments/equal declares.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta

import fedatlas
from fedatlas.algorithms import build_algorithm
from fedatlas.evaluation.comparison import CONFIDENCE
from fedatlas.evaluation.levels import mean_interval
from fedatlas.evaluation.tables import parse_rows, read_attacks, row_parser, to_csv
from fedatlas.figures.colours import METHODS as COLOURS
from fedatlas.figures.colours import PALETTE
from fedatlas.figures.style import DASHED, draw, entry, finish, new_panels
from fedatlas.files import write_text
from fedatlas.markdown import table
from fedatlas.plan.build import build_plan
from fedatlas.privacy.accountants import compact_form, single_release, summation_by_parts
from fedatlas.privacy.profiles import (
    Laplace,
    most_detected,
    smallest_noise,
    tight_epsilon,
)
from fedatlas.privacy.schemes import TrackingSteps
from fedatlas.studies.equal_privacy import Mechanism, mechanism_of
from making.regions import filled

ROOT = Path(__file__).parents[2]
STORED, PAGE = ROOT / "docs/equal-privacy.csv", ROOT / "docs/equal-privacy.md"
#: Between each two of these lines the page has a table.
MARKS = ("<!-- made by python -m making.equal_privacy: {} -->", "<!-- to here -->")
EPSILONS, DELTA = (1, 2, 4, 8), 1e-5
#: Run without its ε → what it is called, what it protects, and its method.
METHODS = {
    "gaussian": ("Gaussian gradients [36]", "one sample", "gaussian_gradient_descent"),
    "local-sgd": ("DP local SGD", "one sample", "dp_local_sgd"),
    "binomial": ("Binomial gradients [40]", "one sample", "binomial_gradient_descent"),
    "dp-gt": ("DP-GT, provable form", "one sample", "dp_gradient_tracking"),
    "dp-fedavg": ("DP-FedAvg", "one client", "dp_fedavg"),
}
#: Unit → the experiments that train and that attack.
EXPERIMENTS = {
    "one sample": ("equal-records", "equal-records-grid"),
    "one client": ("equal-clients", "equal-clients"),
}
NOT_PRIVATE = "not-private"
_LINES: dict[str, Any] = {"local-sgd": DASHED}  # as it lies on Gaussian gradients


@dataclass(frozen=True)
class Row:
    """A method at an ε; of an ε of ∞ the control.

    mean, low, high: of the test accuracy, with its 95 % t-interval. accuracies: of all seeds.
    noise: over the sensitivity, standard deviation or Laplace scale. accountant: ε that it spends.
    pair: ε of the pair that is attacked, from below. attacked: the lower bound that the attack
    shows, of runs on either data set. within: the same by the accountant, see `within`.
    """

    unit: str
    run: str
    epsilon: float
    mean: float
    low: float
    high: float
    accuracies: str
    noise: float | None = None
    accountant: float | None = None
    pair: float | None = None
    attacked: float | None = None
    within: float | None = None
    runs: int | None = None


COLUMNS = [field.name for field in fields(Row)]


def read_stored() -> list[Row]:
    """The table back."""
    return parse_rows(STORED, COLUMNS, row_parser(Row))


def within(mechanism: Mechanism, detected: float, mistaken: float, judged: int) -> float:
    """ε of the most noise of the mechanism's kind with which an attack can be as good as it was.

    Both shares are taken at the ends of their Clopper-Pearson intervals, as for the lower bound.
    """
    error = (1 - CONFIDENCE) / 2
    hits, misses = round(detected * judged), round(mistaken * judged)
    low = float(beta.ppf(error, hits, judged - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1 - error, misses + 1, judged - misses))

    def scale(factor: float) -> Mechanism:
        return mechanism._replace(noise=mechanism.noise.scaled(factor))

    def possible(factor: float) -> bool:
        one = scale(factor)
        return most_detected([(one.noise, one.releases)], high, one.share) >= low

    if not possible(1.0):
        raise SystemExit(f"{mechanism}: the attack is better than the accountant allows")
    near, far = 1.0, 4.0
    while far - near > 1e-3:
        middle = (near + far) / 2
        near, far = (middle, far) if possible(middle) else (near, middle)
    return scale(far).epsilon(DELTA)


def mechanisms() -> Mapping[str, Mechanism]:
    """Of every private run."""
    plan = build_plan(ROOT / "config", names=["equal-*"])
    found = {}
    for _, experiment in EXPERIMENTS.values():
        study: Any = plan.experiments[experiment].privacy_audit
        for spec in plan.runs_of(experiment):
            if spec.run not in found and spec.run != NOT_PRIVATE:
                sizes = study.samples or 1, study.dimension or 1
                found[spec.run] = mechanism_of(build_algorithm(spec), spec, *sizes)
    return found


def measured() -> list[Row]:
    """All numbers of the results."""
    atlas, own, rows = fedatlas.open_atlas(ROOT / "results"), mechanisms(), []

    def ended(experiment: str, run: str) -> dict[str, Any]:
        values = np.asarray(atlas.sel(experiment, run).test_accuracy)[:, -1]
        mean, low, high = mean_interval(values)
        every_value = " ".join(f"{value:.4f}" for value in values)
        return {"mean": mean, "low": low, "high": high, "accuracies": every_value}

    for unit, (trained, audited) in EXPERIMENTS.items():
        audits = read_attacks(ROOT / f"results/experiments/{audited}/privacy-audit.csv")
        attacks = {row["run"]: row for row in audits}
        for method, (_, protects, _) in METHODS.items():
            for epsilon in EPSILONS if protects == unit else ():
                run = f"{method}-{epsilon}"
                row, mechanism = attacks[run], own[run]
                judged = int(row["runs"]) - int(row["runs"]) // 2
                shown = float(row["audited_epsilon"])
                rates = float(row["detected"]), float(row["mistaken"])
                rows.append(
                    Row(
                        unit=unit,
                        run=method,
                        epsilon=epsilon,
                        noise=mechanism.noise.size,
                        accountant=float(row["claimed_epsilon"]),
                        pair=float(row["pair_epsilon"]),
                        attacked=shown,
                        within=within(mechanism, *rates, judged),
                        runs=int(row["runs"]),
                        **ended(trained, run),
                    )
                )
        rows.append(Row(unit, NOT_PRIVATE, float("inf"), **ended(trained, NOT_PRIVATE)))
    return rows


def accuracies(rows: Sequence[Row]) -> str:
    """The table of accuracies in Markdown."""
    cells_by_method = []
    for unit in EXPERIMENTS:
        control = next(row for row in rows if row.unit == unit and row.run == NOT_PRIVATE)
        for method, (title, protects, _) in METHODS.items():
            if protects == unit:
                own = {row.epsilon: row for row in rows if row.run == method}
                cells = [_interval(own[epsilon]) for epsilon in EPSILONS]
                cells_by_method.append([title, unit, *cells, f"{control.mean:.3f}"])
    return table(("method", "protects", *(f"ε = {e}" for e in EPSILONS), "ε = ∞"), cells_by_method)


def _interval(row: Row) -> str:
    return f"{row.mean:.3f} ({row.low:.3f} to {row.high:.3f})"


def attacked(rows: Sequence[Row]) -> str:
    """The table of attacks in Markdown."""
    cells = [
        [
            METHODS[row.run][0], f"{row.epsilon:g}", f"{row.noise:.3f}", f"{row.accountant:.3f}",
            f"{row.pair:.2f}", f"{row.within:.2f}", f"{row.attacked:.2f}", f"{row.runs:,}",
        ]
        for row in rows
        if row.run != NOT_PRIVATE
    ]  # fmt: skip
    head = ("method", "ε", "noise / sensitivity", "accountant", "pair, at least",
            "attack, by the accountant", "attack alone", "runs")  # fmt: skip
    return table(head, cells)


def without() -> str:
    """What forms and methods need whose releases depend on samples of earlier ones, at ε = 8.

    At any points: gradients are bounded by C/2, so that those of all samples may move by C once the
    model has. In units of γC, by which a model's step can move; steps as in equal-records.
    """
    rounds, steps = 60, TrackingSteps(1.0, 0.3, 1.0, 1)
    received = 2 / 3  # the weight of two neighbours of a ring, by Metropolis's rule
    compact = compact_form(steps, received, received, rounds - 1)
    literal = summation_by_parts(steps, received, received, rounds - 1)
    exact, own = (
        single_release(1.0, 1.0, 1, rounds - 1, received, own_broadcast=sent)
        for sent in (False, True)
    )
    cases = (
        ("DP-GT, (7)/(8): trackers alone", compact.tracker),
        ("DP-GT, (4)/(6): trackers alone", literal.tracker),
        ("Varying samples [43], quantised models [44]", exact),
        ("Online learning [42]", own),
    )
    provable = smallest_noise(
        lambda scale: tight_epsilon([(Laplace(scale), rounds)], DELTA, 100 / 287), 8
    )
    rows = [["DP-GT, provable form", f"{provable / 100:.3g}", "1"]]
    for title, moved in cases:
        needed = smallest_noise(lambda scale, moved=moved: spent(scale, moved), 8)
        rows.append([title, f"{needed:.3g}", f"{needed / provable * 100:.0f}"])
    rows.append(["Ternary messages [39]", "no ε", "–"])
    return table(("at ε = 8", "Laplace scale / γC", "times that of the provable form"), rows)


def spent(scale: float, moved: np.ndarray) -> float:
    """ε of releases that move so far, with Laplace noise; sensitivities are rounded up."""
    kinds: dict[float, int] = {}
    for each in moved[moved > 0]:
        upper = float(f"{each * 1.005:.2e}")
        kinds[upper] = kinds.get(upper, 0) + 1
    parts = [(Laplace(scale / each), count) for each, count in kinds.items()]
    return tight_epsilon(parts, DELTA) if scale * 30 > moved.max() else float("inf")


def compose(title: str, rows: Sequence[Row]) -> Any:
    """Above accuracy by ε, for one sample and for one client; below attacks by what is claimed."""
    canvas, panels = new_panels(4, 2.5, columns=2, sharex=True)
    places = np.reshape(np.array(panels), (2, 2))
    for column, unit in enumerate(EXPERIMENTS):
        above, below = places[:, column]
        control = next(row for row in rows if row.unit == unit and row.run == NOT_PRIVATE)
        above.axhline(control.mean, color="k", lw=1, ls=":")
        below.plot([0.9, 9], [0.9, 9], color="0.6", lw=0.8)
        for method, (_, protects, algorithm) in METHODS.items():
            colour = PALETTE[COLOURS[algorithm]]
            own = [row for row in rows if row.run == method and protects == unit]
            if not own:
                continue
            at = [row.epsilon for row in own]
            seeds = np.array([row.accuracies.split() for row in own], float)
            above.fill_between(at, seeds.min(1), seeds.max(1), color=colour, alpha=0.15, lw=0)
            look: Any = {"color": colour, "marker": "o", "ms": 3, "ls": _LINES.get(method, "-")}
            above.plot(at, [row.mean for row in own], **look)
            below.plot(at, [row.within for row in own], **look)
            below.plot(at, [row.attacked for row in own], "x--", ms=4, lw=0.8, color=colour)
        above.set(ylim=(0, 1))
        above.set_title(f"{unit} is protected")
        above.set_ylabel("test accuracy" if column == 0 else "")
        below.set(xscale="log", yscale="log", ylim=(0.15, 9), xlabel="ε claimed, δ = 10⁻⁵")
        below.set_ylabel("ε that the attack shows" if column == 0 else "")
        below.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
        below.set_yticks([0.25, 0.5, 1, 2, 4, 8], ["0.25", "0.5", "1", "2", "4", "8"])
        below.minorticks_off()
    handles = [
        *(
            entry(
                name,
                color=PALETTE[COLOURS[algorithm]],
                marker="o",
                ms=3,
                ls=_LINES.get(method, "-"),
            )
            for method, (name, _, algorithm) in METHODS.items()
        ),
        entry("without privacy", color="k", ls=":", lw=1),
        entry("ε claimed", color="0.6", lw=0.8),
        entry("attack, by the accountant", color="0.3", marker="o", ms=3),
        entry("attack alone", color="0.3", marker="x", ls="--", ms=4, lw=0.8),
    ]
    finish(canvas, title, "", handles)
    return canvas


def main() -> None:
    """Store the results' numbers, and write the tables and the picture anew."""
    rows = measured()
    write_text(STORED, to_csv([asdict(row) for row in rows], COLUMNS))
    page = PAGE.read_text(encoding="utf-8")
    tables = {"accuracy": accuracies(rows), "attacks": attacked(rows), "others": without()}
    for name, made in tables.items():
        page = filled(page, MARKS[0].format(name), MARKS[1], made)
    write_text(PAGE, page)
    title = "Accuracy at equal ε, and attacks on what is claimed"
    draw([ROOT / "docs/images/equal-privacy.png"], compose, title, rows)


if __name__ == "__main__":
    sys.exit(main())
