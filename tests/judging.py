"""Claims judged on made traces, without an experiment."""

from typing import Any

from pydantic import TypeAdapter

from fedatlas.evaluation.results import Results
from fedatlas.evaluation.selection import choices, select
from fedatlas.evaluation.verdicts import Verdict, judge
from fedatlas.schema.claims import Claim, ClaimTest
from fedatlas.schema.selection import Selection


def verdicts(
    test: dict[str, Any], *, selected_by: str = "gradient_norm", **runs: Any
) -> list[Verdict]:
    """Judge one claim; a run is one trace or a list of traces, one per grid point."""
    traces = {
        name: {
            trace.attrs["point"]: trace for trace in (given if isinstance(given, list) else [given])
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
    results = Results(traces, choices(select(traces, rule)), rule.window)
    return judge("paper-figure", "paper", [claim], results)


def verdict(test: dict[str, Any], **runs: Any) -> Verdict:
    """The only verdict of a claim without cases."""
    (only,) = verdicts(test, **runs)
    return only
