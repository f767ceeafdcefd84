"""The tables of docs/findings/fedpage.md: `python -m making.findings` makes them of verdicts."""

import csv
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from fedatlas.files import write_text
from fedatlas.markdown import table
from making.regions import filled

ROOT = Path(__file__).parents[2]
VERDICTS, PAGE = ROOT / "published/fedpage/verdicts.csv", ROOT / "docs/findings/fedpage.md"
START, END = "<!-- {}, made by python -m making.findings -->", "<!-- to here -->"

#: Panels with what they show, and the claims whose effects are ratios of ‖∇f‖.
MINIBATCHES = {
    "2a": "2(a) robust, a9a", "2b": "2(b) robust, w8a",
    "3a": "3(a) logistic, a9a", "3b": "3(b) logistic, w8a",
    "4b": "4(b) 325 clients, a9a", "4c": "4(c) 10 clients, a9a",
}  # fmt: skip
RATIOS = {
    "FedPAGE : SCAFFOLD": "fedpage-scaffold-faster",
    "SCAFFOLD : FedAvg": "scaffold-fedavg-faster",
    "FedPAGE : FedAvg": "fedpage-fedavg-faster",
    "FedPAGE : PAGE": "fedpage-page",
}
FULL = {
    "5a": "5(a) robust, a9a", "5b": "5(b) robust, w8a",
    "6a": "6(a) logistic, a9a", "6b": "6(b) logistic, w8a",
}  # fmt: skip
RATIOS_OF_FULL = {
    "FedPAGE : SCAFFOLD": "fedpage-full-scaffold-full",
    "SCAFFOLD : FedAvg": "scaffold-full-fedavg-full-faster",
    "FedPAGE : FedAvg": "fedpage-full-fedavg-full-faster",
    "FedPAGE : FedPAGE-Full": "fedpage-full-similar",
}
#: FedPAGE ≥ SCAFFOLD by what is measured, and its claims.
MEASURES = {
    "along all rounds": "fedpage-scaffold",
    "along the first 300": "fedpage-scaffold-early",
    "rounds to ‖∇f‖ ≤ 0.1": "fedpage-scaffold-tenth",
    "rounds to ‖∇f‖ ≤ 0.01": "fedpage-scaffold-hundredth",
    "by bytes": "fedpage-scaffold-bytes",
    "by gradients": "fedpage-scaffold-gradients",
}
#: Figure 1's clients, and its claims about FedPAGE-K.
CLIENTS = {"1a": {3250: "a9a", 325: "a9a", 10: "a9a"}, "1b": {4800: "w8a", 480: "w8a", 10: "w8a"}}
ENDS = {
    "in the end": "local-steps-k{k}-n{n}-end",
    "along all rounds": "local-steps-k{k}-n{n}",
    "with a larger step": "larger-step-k{k}-n{n}-gains",
}
_SHORT = {
    "reproduced": "", "undecided": " ?", "smaller than claimed": ", small",
    "no difference": ", none", "contradicted": ", behind",
}  # fmt: skip
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

Row = dict[str, str]


def ratios(rows: Sequence[Row], panels: dict[str, str], claims: dict[str, str]) -> str:
    """A row for each panel and step: how many times the second method's ‖∇f‖ the first one has."""
    found = {(row["claim"], row["case"]): row for row in rows}
    lines = []
    for panel, title in panels.items():
        cases = dict.fromkeys(
            case for name, case in found if _figure(name) == panel and case.startswith("effective")
        )
        for place, case in enumerate(cases):
            own = [found.get((f"fedpage-fig{panel}/{claim}", case)) for claim in claims.values()]
            seeds = max(float(row["seeds"]) for row in own if row)
            step = case.removeprefix("effective step ")
            head = title if place == 0 else ""
            lines.append([head, step, f"{seeds:.0f}", *(map(_ratio, own))])
    return table(("figure", "effective step", "seeds", *claims), lines)


def leads(rows: Sequence[Row]) -> str:
    """How "much faster than FedAvg" came out, and at which steps."""
    lines = []
    for panel in ("2a", "2b", "3a", "3b", "5a", "5b", "6a", "6b"):
        full = "-full" if panel[0] in "56" else ""
        cells = [f"{panel[0]}({panel[1]})"]
        for claim in (f"scaffold{full}-fedavg{full}", f"fedpage{full}-fedavg{full}"):
            own = [row for row in rows if row["claim"] == f"fedpage-fig{panel}/{claim}"]
            whole, *cases = own
            tested = [case for case in cases if case["outcome"] != "not testable"]
            cells += [_outcome(whole), "; ".join(_steps(tested))]
        lines.append(cells)
    return table(("figure", "SCAFFOLD ≫ FedAvg", "at steps", "FedPAGE ≫ FedAvg", "at steps"), lines)


def measures(rows: Sequence[Row]) -> str:
    """How FedPAGE ≥ SCAFFOLD came out by each measure, and at which steps if they differ."""
    lines = []
    for measure, claim in MEASURES.items():
        cells = [measure]
        for panel in ("2a", "2b", "3a", "3b"):
            whole, *cases = (row for row in rows if row["claim"] == f"fedpage-fig{panel}/{claim}")
            same = len({case["outcome"] for case in cases}) == 1
            cells.append(_outcome(whole) + ("" if same else f": {'; '.join(_steps(cases))}"))
        lines.append(cells)
    return table(("FedPAGE ≥ SCAFFOLD", "2(a)", "2(b)", "3(a)", "3(b)"), lines)


def local_steps(rows: Sequence[Row]) -> str:
    """How many times FedPAGE-1's ‖∇f‖ FedPAGE-10 and -20 have, and what a larger step gains."""
    found = {row["claim"]: row for row in rows}
    lines = []
    for panel, numbers in CLIENTS.items():
        for n, data in numbers.items():
            names = (claim.format(k=k, n=n) for claim in ENDS.values() for k in (10, 20))
            cells = [_ratio(found[f"fedpage-fig{panel}/{name}"]) for name in names]
            lines.append([f"{data}, {n}", *cells])
    heads = (f"FedPAGE-{k} {what}" for what in ENDS for k in (10, 20))
    return table(("clients", *heads), lines)


def _steps(cases: Sequence[Row]) -> Iterator[str]:
    for outcome, own in groupby(cases, lambda case: case["outcome"]):
        yield f"{', '.join(case['case'].removeprefix('effective step ') for case in own)} {outcome}"


def _outcome(row: Row) -> str:
    return row["outcome"] + (" (fragile)" if row["fragile"] else "")


def _figure(claim: str) -> str:
    return claim.partition("/")[0].removeprefix("fedpage-fig")


def _ratio(row: Row | None) -> str:
    if row is None:
        return ""
    middle, low, high = (10 ** -float(row[key]) for key in ("estimate", "high", "low"))
    shown = _number(middle)
    if _number(low) != shown or _number(high) != shown:
        shown += f" ({_number(low)} to {_number(high)})"
    return shown + _SHORT[row["outcome"]]


def _number(value: float) -> str:
    if value < 1e-3:
        digit, _, power = f"{value:.0e}".partition("e")
        return f"{digit}·10{str(int(power)).translate(_SUPERSCRIPTS)}"
    return f"{value:.0f}" if value >= 10 else f"{value:#.2g}"


def with_tables(page: str) -> str:
    """The page with its tables made anew."""
    with VERDICTS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for name, made in {
        "ratios": ratios(rows, MINIBATCHES, RATIOS),
        "ratios with full local gradients": ratios(rows, FULL, RATIOS_OF_FULL),
        "measures": measures(rows),
        "leads": leads(rows),
        "local steps": local_steps(rows),
    }.items():
        page = filled(page, START.format(name), END, made)
    return page


if __name__ == "__main__":
    write_text(PAGE, with_tables(PAGE.read_text(encoding="utf-8")))
