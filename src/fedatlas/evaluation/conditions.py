"""Whether runs meet the conditions of the theorem that a claim is about."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.bounds import Row
from fedatlas.evaluation.evidence import plain
from fedatlas.evaluation.results import Results, judged
from fedatlas.schema.claims import CaseOutcome, Claim

_STEPS = ("step", "local_step")


def covered(claim: Claim, results: Results) -> Iterator[CaseOutcome]:
    """Outcomes of a claim's cases: "not covered" where a run misses its theorem's conditions.

    This replaces any other outcome, reproduced or contradicted. The evidence says which condition
    fails, and by how much.
    """
    outside = "" if claim.covered_by is None else _outside(claim.covered_by, claim, results)
    for case in judged(claim.test, results):
        if not outside:
            yield case
            continue
        case = replace(case, fragile="", horizon=None, tries="")
        effect = case.effect and replace(case.effect, p=None, needed=None)
        evidence = f"{outside}; beyond it: {case.evidence}"
        yield replace(case, outcome="not covered", evidence=evidence, effect=effect, why=outside)


def _outside(theorem: str, claim: Claim, results: Results) -> str:
    """Say which of a claim's runs the theorem does not cover, and why; empty if it covers all.

    A run is covered if every point that the claim looks at is covered, by any version of the
    theorem, or by the named one.
    """
    rows = [
        row
        for row in results.study(results.theory, "theory")
        if theorem in (row.theorem, f"{row.theorem} ({row.version})")
    ]
    told, known = [], False
    for run in claim.test.runs:
        own = [row for row in rows if row.run == run]
        if not own:  # a rival, which has theorems of its own
            continue
        known = True
        points = [results.chosen[run].point] if claim.test.of_choice else [*results.traces[run]]
        nearest = [min((row for row in own if row.point == at), key=_excess) for at in points]
        failing = [row for row in nearest if not row.covered]
        if failing:
            at = f" at {len(failing)} of {len(points)} points, nearest" if len(points) > 1 else ""
            row = min(failing, key=_excess)
            told.append(f"{run}{at} ({row.version}): {conditions_failing(row)}")
    if not known:
        runs = claim.test.runs
        names = dict.fromkeys(
            f"{row.theorem} ({row.version})" for row in results.theory or () if row.run in runs
        )
        raise FedatlasError(
            f"covered_by: no theorem '{theorem}' is known of {', '.join(runs)}; the table has "
            f"{', '.join(names) or 'none'}"
        )
    return f"outside the conditions of {theorem}: {', '.join(told)}" if told else ""


def _excess(row: Row) -> tuple[bool, bool, float]:
    """How far a run is from being covered; smaller is nearer."""
    return not row.covered, bool(row.lacks), max(_factors(row), default=0.0)


def _factors(row: Row) -> Sequence[float]:
    return [f for step in _STEPS if (f := getattr(row, f"{step}_factor")) is not None]


def conditions_failing(row: Row) -> str:
    """The conditions that fail, with the factors by which steps are too large."""
    failing = [row.lacks] if row.lacks else []
    for step in _STEPS:
        factor = getattr(row, f"{step}_factor")
        if factor is not None and factor > 1:
            failing.append(
                f"{step.replace('_', ' ')} {plain(getattr(row, step))}, {plain(factor)} times the "
                f"largest that is covered, {plain(getattr(row, f'largest_{step}'))}"
            )
    return " and ".join(failing)
