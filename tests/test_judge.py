"""Verdicts of several claims."""

from typing import Any

import numpy as np
from pydantic import TypeAdapter

from fedatlas.evaluation.results import Results
from fedatlas.evaluation.selection import choices, select
from fedatlas.evaluation.verdicts import judge
from fedatlas.schema.claims import Claim, ClaimTest
from fedatlas.schema.runs import Selection
from trace_factory import levels_trace

SPREAD = np.array([0.9, 0.95, 1.0, 1.05, 1.1])  # five seeds, a few per cent apart


def order(relation: str, **more: Any) -> dict[str, Any]:
    return {"kind": "order", "first": "a", "second": "b", "relation": relation, **more}


def to_target(relation: str, **more: Any) -> dict[str, Any]:
    return {"kind": "cost_to_target", "first": "a", "second": "b", "relation": relation, **more}


def test_several_claims_are_judged_in_order():
    traces = {"a": {"p": levels_trace(0.01 * SPREAD)}, "b": {"p": levels_trace(0.1 * SPREAD)}}
    rule = Selection()
    claims = [
        Claim(id=name, source="s", statement="t", test=TypeAdapter(ClaimTest).validate_python(test))
        for name, test in (("one", order("faster")), ("two", to_target("faster", target=0.5)))
    ]
    results = Results(traces, choices(select(traces, rule)), rule.window)
    found = judge("e", "p", claims, results)
    assert [v.claim for v in found] == ["e/one", "e/two"]
    assert judge("e", "p", [], results) == []
