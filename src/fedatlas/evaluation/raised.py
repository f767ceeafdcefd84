"""Budgets at which runs were judged before, since raising a budget after a verdict is a choice.

An experiment's folder keeps them beside its verdicts, in a file that no step lists, so that the
file remains when verdicts are made again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedatlas.evaluation.levels import specification
from fedatlas.evaluation.results import Results
from fedatlas.files import canonical_json, write_text
from fedatlas.schema.claims import CaseOutcome, Claim
from fedatlas.schema.models import read_json

#: The file, in an experiment's folder: by run, what was judged.
JUDGED_BEFORE = "judged-budgets.json"
# Of a run's specification: runs that differ in these are other runs under one name.
_SAME = ("algorithm", "dataset", "split", "partition", "objective", "graphs", "network")


def judged_before(file: Path, runs: Iterable[str], results: Results) -> dict[str, str]:
    """The other budgets of runs at which verdicts were made, in words, by run; and note these.

    file: of an earlier verdict, or where it will be.
    """
    kept: dict[str, list[dict[str, Any]]] = read_json(file) if file.is_file() else {}
    told: dict[str, str] = {}
    for run in runs:
        declared = specification(results.selected(run)[0])
        own = {"is": {key: declared.get(key) for key in _SAME}, "budget": _budget(declared)}
        others = [one["budget"] for one in kept.get(run, []) if one["is"] == own["is"]]
        if own["budget"] not in others:
            kept.setdefault(run, []).append(own)
        if others := [other for other in others if other != own["budget"]]:
            told[run] = ", ".join(others)
    if kept:
        write_text(file, canonical_json(kept) + "\n")
    return told


def _budget(declared: Mapping[str, Any]) -> str:
    until = (f"{key}: {value:g}" for key, value in (declared.get("until") or {}).items())
    return " and ".join([f"rounds: {declared['rounds']}", *until])


def with_budgets(
    claim: Claim, cases: Sequence[CaseOutcome], before: Mapping[str, str]
) -> list[CaseOutcome]:
    """A claim's cases, with the budgets at which its runs were judged before."""
    own = [f"{run} was judged at {before[run]} before" for run in claim.test.runs if run in before]
    if not own:
        return list(cases)
    told = "; ".join(own)
    return [replace(case, evidence=f"{case.evidence}; budget changed: {told}") for case in cases]
