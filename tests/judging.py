"""Judge one claim on synthetic traces."""

from typing import Any

from pydantic import TypeAdapter

from fedatlas.evaluation.results import Results
from fedatlas.evaluation.selection import choices, select
from fedatlas.evaluation.verdicts import Verdict, judge
from fedatlas.schema.claims import Claim, ClaimTest
from fedatlas.schema.runs import Selection


def verdicts(
    test: dict[str, Any],
    *,
    selected_by: str = "gradient_norm",
    seeds_added: bool = False,
    budgets: Any = None,
    theory: Any = None,
    constants: Any = None,
    **runs: Any,
) -> list[Verdict]:
    """Of the claim and its cases; a run is one trace or a list of traces, one per step size.

    constants: by run, whose traces then have its name.
    """
    traces = {
        name: {
            trace.attrs["point"]: trace.assign_attrs(run=name) if constants else trace
            for trace in (given if isinstance(given, list) else [given])
        }
        for name, given in runs.items()
    }
    rule = Selection(measurement=selected_by)
    claim = Claim(
        id="claim",
        source="Figure 1",
        statement="It holds.",
        test=TypeAdapter(ClaimTest).validate_python(test),
    )
    results = Results(
        traces,
        choices(select(traces, rule)),
        seeds_added=seeds_added,
        budgets=budgets,
        theory=theory,
        constants=constants,
    )
    return judge("paper-figure", "paper", [claim], results)


def verdict(test: dict[str, Any], **options: Any) -> Verdict:
    """Of the claim."""
    return verdicts(test, **options)[0]


def outcomes(test: dict[str, Any], **options: Any) -> dict[str, str]:
    """By case; the claim's is that of ''."""
    return {found.case: found.outcome for found in verdicts(test, **options)}
