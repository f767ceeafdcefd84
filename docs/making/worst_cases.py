"""The numbers of docs/worst-cases.md: docs/worst-cases.csv, the page's table and its picture.

`python -m making.worst_cases` makes them of results/experiments/worst-*/worst-cases.csv.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from fedatlas.evaluation.tables import to_csv
from fedatlas.figures.style import draw
from fedatlas.figures.theory import compose_worst_cases
from fedatlas.files import write_text
from fedatlas.markdown import table, text
from fedatlas.studies.worst_cases import COLUMNS, Case, read_cases
from making.regions import filled

ROOT = Path(__file__).parents[2]
STORED, PAGE = ROOT / "docs/worst-cases.csv", ROOT / "docs/worst-cases.md"
#: Between these lines the page has the table.
MARKS = ("<!-- made by python -m making.worst_cases -->", "<!-- to here -->")
_RECALLED = " (quoted from memory)"  # which the page says
EXPERIMENTS = ("worst-convex", "worst-min-max", "worst-nonconvex")
_HEAD = (
    "method", "N, R", "best step", "exact", "runs", "contracts up to",
    "theorem (its step)", "over exact",
)  # fmt: skip


def worst_cases(cases: Sequence[Case]) -> str:
    """The table in Markdown: a row for each run, and for each further theorem on it."""
    rows: list[list[str]] = []
    for name in dict.fromkeys((case.measure, case.run) for case in cases):
        own = [case for case in cases if (case.measure, case.run) == name]
        tried = sorted((case for case in own if not case.own_step), key=lambda case: case.step)
        best = min(tried, key=lambda case: case.worst)
        grows = next((place for place, case in enumerate(tried) if case.worst >= 1), len(tried))
        contracts = f"{tried[grows - 1].step:g}" if grows else "none"
        first = [
            text(best.title), f"{best.clients}, {best.rounds}", f"{best.step:g}",
            f"{best.worst:.4f}", f"{best.measured:.4f}",
            contracts if best.measure == "distance" else "–",
        ]  # fmt: skip
        theorems = [case for case in own if case.own_step and case.promised]
        for place, case in enumerate(theorems):
            about = [
                f"{text(case.theorem.removesuffix(_RECALLED))} ({case.step:.3g})",
                f"{case.promised / case.worst:.2f}",
            ]
            rows.append([*(first if not place else [""] * len(first)), *about])
        if not theorems:
            rows.append([*first, "not covered", "–"])
    return table(_HEAD, rows)


def main() -> None:
    """Store the results' numbers, and write the table and the picture anew."""
    files = [ROOT / f"results/experiments/{name}/worst-cases.csv" for name in EXPERIMENTS]
    cases = [case for file in files for case in read_cases(file)]
    write_text(STORED, to_csv([asdict(case) for case in cases], COLUMNS))
    write_text(PAGE, filled(PAGE.read_text(encoding="utf-8"), *MARKS, worst_cases(cases)))
    shown = [case for case in cases if case.measure == "distance"]
    title = "Exact worst cases of twelve methods over strongly convex functions, L = 1, μ = 0.1"
    draw([ROOT / "docs/images/worst-cases.png"], compose_worst_cases, title, shown)


if __name__ == "__main__":
    sys.exit(main())
