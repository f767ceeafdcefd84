"""Strips of outcomes along budgets and targets."""

import re

import numpy as np
import pytest

from fedatlas.evaluation.horizon import from_text, in_words
from fedatlas.pages.claims_page import verdicts_to_html
from fedatlas.schema.claims import OUTCOMES
from judging import verdict, verdicts
from trace_factory import falling_trace, make_trace

SEEDS = 8  # that one of two cases is contradicted takes seven


def outcomes(horizon: str) -> dict[float, str]:
    """Outcome by scale."""
    _, parts = from_text(horizon)
    return {float(scale): outcome for outcome, scales in parts for scale in scales}


def order(**keys: object) -> dict[str, object]:
    return {"kind": "order", "first": "a", "second": "b", "relation": "faster", **keys}


def crossing(rounds: int, at: float) -> dict[str, object]:
    """a is behind b by half a decade before a round and ahead by as much from it on."""
    spread = 10.0 ** np.linspace(0, 0.1, SEEDS)[:, None]
    places = np.arange(rounds + 1)
    sides = np.where(places < at, 0.5, -0.5)
    level = 10.0 ** (-places / rounds)
    return {
        name: make_trace(level * 10.0 ** np.where(places, sign * sides, 1) * spread, run=name)
        for name, sign in (("a", 1), ("b", 0))
    }


@pytest.mark.parametrize("at", [20, 45, 60, 80])
def test_a_lead_that_changes_sides_changes_the_strip_there(at: int):
    """By windows of a hundredth of the budget, whose means hold no other side but at the border."""
    found = verdict(order(window=0.01), **crossing(100, at))
    cells = outcomes(found.horizon)
    assert found.horizon.startswith("budget: ") and len(cells) == 10 and max(cells) == 1
    assert list(cells) == sorted(cells)
    for share, outcome in cells.items():
        if abs(100 * share - at) > 2:
            assert outcome == ("contradicted" if 100 * share < at else "reproduced"), share
    assert found.outcome == cells[1] == "reproduced"
    near = [share for share in (0.5, 0.707) if 100 * share < at]
    assert found.fragile.count("contradicted at") == len(near)


def test_budgets_before_the_first_record_cannot_speak():
    a, b = (falling_trace([rate] * SEEDS, run=name) for name, rate in (("a", 0.5), ("b", 0.8)))
    records = a["round"].to_numpy()[0]
    first = records[1] / records[-1]
    for test in (order(), {"kind": "falls", "run": "a", "smallest_effect": 1.05}):
        cells = outcomes(verdict(test, a=a, b=b).horizon)
        silent = [share for share, outcome in cells.items() if outcome == "not testable"]
        assert silent == [share for share in cells if share < first * 0.999]
        assert silent and {cells[share] for share in cells if share not in silent} == {"reproduced"}


def test_a_strip_along_targets_goes_from_easy_to_hard():
    """a is ahead down to a level of 0.01, below which it no longer falls.

    Above 0.75, which both pass before their first records, none can tell.
    """
    a = make_trace([10.0 ** -np.minimum(np.arange(81) / 8, 2)] * SEEDS)
    b = make_trace([10.0 ** -(np.arange(81) / 16)] * SEEDS)
    test = {"kind": "cost_to_target", "first": "a", "second": "b", "relation": "faster"}
    found = verdict(test | {"target": 0.03}, a=a, b=b)
    cells = outcomes(found.horizon)
    assert found.horizon.startswith("target: ") and list(cells) == sorted(cells, reverse=True)
    for scale, outcome in cells.items():
        level = 0.03 * scale
        expected = "reproduced" if level > 0.0099 else "contradicted"
        assert outcome == ("not testable" if level > 0.75 else expected), scale
    assert in_words(found.horizon) == (
        "not testable down to 27 times the target, "
        "reproduced down to a third of the target, then contradicted"
    )


def test_a_claim_of_several_cases_has_the_strip_of_its_worst():
    early, late = crossing(100, 20), crossing(100, 60)
    names = {"a": early["a"], "b": early["b"], "c": late["a"], "d": late["b"]}
    cell = {"first": "c", "second": "d"}
    test = {"kind": "region", "test": order(window=0.01), "cells": {"early": {}, "late": cell}}
    whole, *cases = (outcomes(found.horizon) for found in verdicts(test, **names))
    assert len(cases) == 2 and cases[0] != cases[1]
    for share in whole:
        worst = {"contradicted", "undecided"} & {case[share] for case in cases}
        assert whole[share] == (min(worst) if worst else "reproduced")


def leading(start: float, end: float) -> dict[str, object]:
    """a is ahead of b by a factor that goes evenly from one to another, in decades."""
    places = np.linspace(0, 1, 101)
    level = 10.0**-places * 10.0 ** np.linspace(0, 0.02, SEEDS)[:, None]
    lead = 10.0 ** -(np.log10(start) + places * np.log10(end / start))
    return {"a": make_trace(level * lead), "b": make_trace(level)}


@pytest.mark.parametrize(
    ("start", "end", "outcome", "told"),
    [
        (3.0, 4.0, "reproduced", ""),
        (1.5, 1.5, "smaller than claimed", ""),
        (1.5, 1.4, "smaller than claimed", ""),
        (1.2, 1.9, "not testable", "from half of it on what is compared surely moves towards the"),
        (1.5, 2.4, "not testable", "smaller than claimed at half the budget"),
        (2.9, 1.5, "not testable", "reproduced at half the budget"),
    ],
)
def test_a_claim_that_names_no_budget_is_not_decided_by_ours(start, end, outcome, told):
    test = order(relation="much_faster", settled=True, window=0.01)
    found = verdict(test, **leading(start, end))
    assert found.outcome == outcome
    assert (f"the budget decides: {told}" in found.evidence) == bool(told)
    assert (outcome == "not testable") <= (not found.fragile)


def test_pages_show_a_cell_for_each_budget_in_words_as_well():
    found = verdict(order(window=0.01), **crossing(100, 45))
    page = verdicts_to_html([found])
    (strip,) = re.findall(r'<svg class="strip".*?</svg>', page, re.S)
    shown = re.findall(r"<title>([\d.]+) times the budget: ([a-z ]+)</title>", strip)
    assert {float(share): outcome for share, outcome in shown} == outcomes(found.horizon)
    assert {outcome for _, outcome in shown} <= set(OUTCOMES)
    words = "contradicted up to 0.35 of the budget, then reproduced"
    assert f'aria-label="Along the budget: {words}"' in strip
