"""What a trace would be computed from now, beside what it says it was computed from."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import shorten
from typing import Any

from fedatlas.errors import FedatlasError
from fedatlas.plan.build import Plan
from fedatlas.plan.code import code_digest
from fedatlas.provenance.findings import (
    LEFTOVER,
    MAKE_AGAIN,
    RUN_AGAIN,
    CheckResult,
    State,
    short,
    stale,
    unchecked,
)
from fedatlas.schema.models import read_json
from fedatlas.schema.runs import RunSpec

_MOST_LETTERS = 200
#: Experiment, run and point.
TracePlace = tuple[str, str, str]


def expected(
    place: TracePlace, attributes: Mapping[str, Any], plan: Plan, results: Path
) -> tuple[RunSpec | None, list[CheckResult]]:
    """The run that would be computed now, None if there is none, and what differs.

    attributes: of the trace, its objects parsed. results: the folder, with records of selections.
    """
    planned = plan.runs.get(place)
    if planned is None:
        return None, [_unplanned(*place, plan)]
    found: list[CheckResult] = []
    declared = attributes.get("specification", {})
    if planned.tuned_in is not None:
        selection = results / "experiments" / planned.tuned_in / "selection.json"
        if selection.exists():
            planned = planned.tuned(read_json(selection))
        else:
            detail = f"{selection}: is not here, by which hyper-parameters were chosen"
            found.append(unchecked("hyper_parameters", detail))
            chosen = {"hyper_parameters": declared.get("hyper_parameters"), "tuned_in": None}
            planned = planned.model_copy(update=chosen)
    now = planned.model_dump(mode="json")
    found += compared("configuration", declared, now, RUN_AGAIN)
    return planned, [*found, *_code_drift(planned, attributes)]


def _unplanned(experiment: str, run: str, point: str, plan: Plan) -> CheckResult:
    """Why the plan has no such run."""
    if experiment in plan.experiments:
        detail = f"the experiment {experiment} has no run '{run}' at the point '{point}' now"
    else:
        detail = f"its experiment is gone: the configuration has no {experiment}"
    return stale("configuration", detail, LEFTOVER)


def _code_drift(run: RunSpec, attributes: Mapping[str, Any]) -> Iterator[CheckResult]:
    made_by, code = attributes.get("source_digest"), code_digest(*run.code)
    if made_by != code:
        yield stale("source", f"{short(made_by)} → {short(code)}", RUN_AGAIN)


def why_stale(
    place: TracePlace, attributes: Mapping[str, Any], plan: Plan | None, results: Path
) -> str:
    """What has changed since a trace was computed; empty if nothing has.

    plan: None where no configuration speaks for the results; then the code alone is compared, as
    far as it is here. attributes: as the trace's file holds them.
    """
    own = {**attributes, "specification": json.loads(attributes["specification"])}
    try:
        if plan is not None:
            findings = expected(place, own, plan, results)[1]
        else:
            findings = list(_code_drift(RunSpec.model_validate(own["specification"]), own))
    except (FedatlasError, ValueError):
        return ""  # of another version, or of a method that is not here: nothing tells
    told = (f"{one.check}: {one.detail}" for one in findings if one.state is State.STALE)
    return shorten("; ".join(told), _MOST_LETTERS, placeholder=" …")


def differing(first: Any, second: Any, key: str = "") -> list[tuple[str, Any, Any]]:
    """Dotted keys at which nested objects differ, with both values; "–" for a missing one."""
    if first == second and type(first) is type(second):
        return []
    if not (isinstance(first, dict) and isinstance(second, dict)):
        return [(key, first, second)]
    keys = sorted({*first, *second})
    return [
        found
        for name in keys
        for found in differing(
            first.get(name, "–"), second.get(name, "–"), f"{key}.{name}" if key else name
        )
    ]


def compared(
    check: str, recorded: dict[str, Any], now: dict[str, Any], remedy: str = MAKE_AGAIN
) -> Iterator[CheckResult]:
    """One finding with all keys that differ, or none."""
    changes = [f"{key}: {old} → {new}" for key, old, new in differing(recorded, now)]
    if changes:
        yield stale(check, "; ".join(changes), remedy)
