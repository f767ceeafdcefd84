"""Runs that lose every seed: tuned ones were never tuned, and declared ones are really worse."""

import numpy as np
import pytest

from fedatlas.evaluation.evidence import in_short
from fedatlas.evaluation.selection import select
from fedatlas.evaluation.verdicts import would_decide
from fedatlas.pages.claim_rows import claim_rows
from fedatlas.pages.terminal import format_silent, undecided
from fedatlas.schema.runs import Selection
from judging import outcomes, verdict, verdicts
from trace_factory import ending_trace

SEEDS = 8
SPLIT = {"test": 0.2, "seed": None}  # every seed splits the rows anew
STEPS = (8000.0, 4000.0, 2000.0, 1000.0)


def run(accuracy: float, step: float = 0.1):
    """Seeds that end with about this accuracy."""
    ends = accuracy + 0.001 * np.arange(SEEDS)
    return ending_trace(ends, split=SPLIT, step=step)


def lost(step: float = 0.1):
    return run(np.nan, step)


GRID = [lost(step) for step in STEPS]
PAIR = {"first": "a", "second": "b"}
ACCURACY = {"measurement": "test_accuracy"}
#: About a healthy run a and a lost run b, and the outcome if b was declared.
DECIDED = [
    (PAIR | {"kind": "order", "relation": "faster"}, "reproduced"),
    (PAIR | {"kind": "order", "relation": "similar"}, "contradicted"),
    (PAIR | {"kind": "cost_to_target", "relation": "faster", "target": 0.2}, "reproduced"),
    (PAIR | ACCURACY | {"kind": "better_final"}, "reproduced"),
    (PAIR | ACCURACY | {"kind": "equal_final", "smallest_effect": 0.01}, "contradicted"),
    (ACCURACY | {"kind": "highest", "run": "a", "among": ["b"]}, "reproduced"),
    (ACCURACY | {"kind": "highest", "run": "b", "among": ["a"]}, "contradicted"),
    ({"kind": "falls", "run": "b", "smallest_effect": 1.05}, "contradicted"),
    ({"kind": "diverges", "run": "b", "smallest_effect": 1.05}, "reproduced"),
]
by_kind = pytest.mark.parametrize(("test", "outcome"), DECIDED)


@by_kind
def test_of_a_declared_run_that_loses_every_seed_all_kinds_are_decided(test, outcome):
    """Whether or not splits of rows would widen an interval that there is none of."""
    found = verdicts(test, a=run(0.9), b=lost())
    assert {one.outcome for one in found} == {outcome}
    (row,) = claim_rows(found)
    assert "has no value)" in row.effect and "interval" not in row.effect
    assert found[0].evidence.endswith("not tuned") or test["kind"] == "highest"
    assert "coincide" not in found[0].evidence and would_decide(found[0]) == ""


@by_kind
def test_of_a_tuned_run_whose_configurations_are_all_lost_nothing_is_testable(test, outcome):
    found = verdicts(test, a=run(0.9), b=GRID)
    why = "b not tuned: every configuration diverged on tuning seeds, or ended above its start"
    assert {one.outcome for one in found} == {"not testable"}
    assert why in found[-1].evidence and "chosen among" not in found[-1].evidence
    assert found[-1].effect is None and outcome in ("reproduced", "contradicted")
    assert why in format_silent(found)[0] and not list(undecided(found))


@pytest.mark.parametrize("test", [test for test, _ in DECIDED[:-2]])
def test_of_two_declared_runs_that_lose_every_seed_nothing_is_testable(test):
    assert {one.outcome for one in verdicts(test, a=lost(), b=lost())} == {"not testable"}


def test_one_configuration_that_keeps_its_seeds_is_a_choice():
    kind, _ = DECIDED[0]
    assert verdict(kind, a=run(0.9), b=[*GRID, run(0.8, 1.0)]).outcome != "not testable"


def test_a_rival_that_was_never_tuned_is_left_out():
    test = ACCURACY | {"kind": "highest", "run": "a", "among": ["b", "c"]}
    found = outcomes(test, a=run(0.9), b=GRID, c=run(0.8))
    assert (found["against b"], found["against c"]) == ("not testable", "reproduced")


def test_a_cell_of_a_region_is_not_testable_by_itself():
    cells = {"one": {"second": "b"}, "other": {"second": "c"}}
    shared = {"kind": "order", "first": "a", "relation": "faster"}
    test = {"kind": "region", "test": shared, "cells": cells}
    found = outcomes(test, a=run(0.9), b=GRID, c=lost())
    assert (found["one"], found["other"]) == ("not testable", "reproduced")


def test_the_smallest_of_lost_configurations_stands_in_the_record():
    """Figures show some point; none has a score, so none ties."""
    traces = {"b": {trace.attrs["point"]: trace for trace in GRID}}
    entry = select(traces, Selection())["runs"]["b"]
    assert (entry["selected"], entry["tied"]) == ("step_size-1000", 0)


def test_no_seeds_are_advised_where_the_typical_seed_has_no_value():
    """Five of eight are lost, and the others are ahead."""
    rival = ending_trace([np.nan] * 5 + [0.95] * 3, split=SPLIT)
    found = verdict(PAIR | ACCURACY | {"kind": "better_final"}, a=run(0.9), b=rival)
    assert found.outcome == "undecided" and would_decide(found) == ""
    assert "typical seed has no value" in in_short(found.effect)
