"""Verdicts: every kind of test, each way it can come out, and what the evidence says."""

import json
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.scaling import ScalingTest
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.selection import choices, select
from fedatlas.evaluation.verdicts import Verdict, judge
from fedatlas.schema.claims import Claim, ClaimTest
from fedatlas.schema.selection import Selection
from judging import verdict, verdicts
from trace_factory import auroc_trace, levels_trace, vertical_trace

NAN = np.nan
SPREAD = np.array([0.9, 0.95, 1.0, 1.05, 1.1])  # five seeds, a few per cent apart


def order(relation: str, **more: Any) -> dict[str, Any]:
    return {"kind": "order", "first": "a", "second": "b", "relation": relation, **more}


def to_target(relation: str, **more: Any) -> dict[str, Any]:
    return {"kind": "cost_to_target", "first": "a", "second": "b", "relation": relation, **more}


def auroc(*ends: float, records: int = 21, **options: Any):
    """Runs that rise at once from 0.5 to one AUROC per seed; NaN diverges."""
    values = np.repeat(np.array(ends)[:, None], records, axis=1)
    values[:, 0] = 0.5
    return auroc_trace(values, **options)


def by_auroc(test: dict[str, Any], **runs: Any) -> Verdict:
    (only,) = verdicts({"measurement": "test_auroc", **test}, selected_by="train_auroc", **runs)
    return only


def test_scaling_to_a_target_accuracy():
    def series(parties: int):
        accuracy = np.linspace([0.5, 0.5], [0.9, 0.9], 41).T
        pace = {"parties": parties, "seconds_per_epoch": 8 / parties}
        return vertical_trace(np.linspace([1, 1], [0.1, 0.1], 41).T, test_accuracy=accuracy, **pace)

    test = {
        "kind": "scaling",
        "series": ["a", "b"],
        "measurement": "test_accuracy",
        "target": 0.689,
    }
    # 0.689 is first surpassed by the 19th record after the start: 9.5 epochs of 8 and 4 seconds.
    found = verdict(test, a=series(1), b=series(2))
    assert found.verdict == "reproduced"
    assert found.evidence.startswith(
        "simulated seconds to test_accuracy ≥ 0.689: 1 party 76, 2 parties 38; slope -1 "
    )
    del test["target"]
    with pytest.raises(ValidationError, match="test_accuracy needs a 'target' of its own"):
        ScalingTest.model_validate(test)
    stated = ScalingTest.model_validate({**test, "target": 0.689})
    assert ScalingTest.model_validate(json.loads(stated.model_dump_json())) == stated


# --- selected hyper-parameters ---


def tuned(*best: float | None, grid: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4)) -> list[Any]:
    """A run over the grid in which each seed does best at the given value; None: diverges."""
    return [
        levels_trace(
            [NAN if choice is None else 1e-3 if choice == value else 0.1 for choice in best],
            step=value,
            hyper_parameters={"rate": value, "batch": None},
        )
        for value in grid
    ]


def published(value: float, tolerance: float = 0.1, name: str = "rate") -> dict[str, Any]:
    return {
        "kind": "published_value",
        "run": "a",
        "hyper_parameter": name,
        "value": value,
        "tolerance": tolerance,
    }


@pytest.mark.parametrize(
    ("best", "value", "expected"),
    [
        ((0.3, 0.4, 0.3), 0.4, "reproduced"),  # 0.4 − 0.3 exceeds 0.1 by rounding alone
        ((0.3, 0.4, 0.1), 0.4, "inconclusive"),
        ((0.1, 0.2, 0.1), 0.4, "not reproduced"),
        ((0.4,), 0.4, "inconclusive"),  # one seed tells of no spread
        ((0.4, None), 0.4, "inconclusive"),
        ((None, None), 0.4, "inconclusive"),
    ],
)
def test_published_value(best, value, expected):
    assert verdict(published(value), a=tuned(*best)).verdict == expected


def test_published_value_tells_what_each_seed_chose():
    assert verdict(published(0.4), a=tuned(0.3, 0.4, 0.3, None)).evidence == (
        "a: selected rate = 0.3, by seed {0.3, 0.4, 0.3, none}; published 0.4 ± 0.1"
    )


def test_a_published_value_may_lie_within_a_mapping():
    grid = tuned(0.3, 0.4, 0.3)
    for trace in grid:
        specification = json.loads(trace.attrs["specification"])
        rate = specification["hyper_parameters"].pop("rate")
        specification["hyper_parameters"]["scheme"] = {"rate": rate}
        trace.attrs["specification"] = json.dumps(specification)
    assert verdict(published(0.4, name="scheme.rate"), a=grid).evidence == (
        "a: selected scheme.rate = 0.3, by seed {0.3, 0.4, 0.3}; published 0.4 ± 0.1"
    )


def test_hyper_parameters_that_cannot_be_compared_are_errors():
    with pytest.raises(
        FedatlasError, match="'a' has no hyper-parameter 'speed'; it has batch, rate"
    ):
        verdict(published(0.4, name="speed"), a=tuned(0.3, 0.4))
    with pytest.raises(FedatlasError, match="'batch' of run 'a' is None, not a number"):
        verdict(published(0.4, name="batch"), a=tuned(0.3, 0.4))


SELECTED = {"kind": "selected_order", "larger": "a", "smaller": "b", "hyper_parameter": "rate"}


@pytest.mark.parametrize(
    ("larger", "smaller", "expected"),
    [
        ((0.4, 0.3), (0.3, 0.2), "reproduced"),
        ((0.4, 0.3), (0.3, 0.3), "inconclusive"),
        ((0.3, 0.2), (0.3, 0.3), "not reproduced"),
        ((0.4,), (0.1,), "inconclusive"),
        ((0.4, None), (0.1, 0.1), "inconclusive"),
        ((None, None), (0.1, 0.1), "inconclusive"),
        ((0.4, 0.4), (0.4, 0.4), "inconclusive"),  # at the grid's end: could not be above
        ((0.1, 0.1), (0.4, 0.4), "inconclusive"),
    ],
)
def test_selected_order(larger, smaller, expected):
    found = verdict(SELECTED, a=tuned(*larger), b=tuned(*smaller))
    assert found.verdict == expected
    assert "largest tried 0.4" in found.evidence


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
