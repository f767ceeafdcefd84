"""The choice of a grid point: by the declared rule, by seed, with ties and divergences."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from atlas_factory import write_runs
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.compared import ComparisonTest
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.selection import Choice, Effort, by_run, choices, format_tuning, select
from fedatlas.pages.results_table import results_table
from fedatlas.schema.runs import Selection, agreeing, best_candidate
from fedatlas.store.atlas import atlas_runs, open_atlas
from fedatlas.store.experiment import read_runs
from fedatlas.store.trace import judged, tuning
from trace_factory import auroc_trace, falling_trace, levels_trace, make_trace

NAN = np.nan


def points(**levels):
    """One run with a point per keyword, each with its seeds' final levels."""
    return {"run": {name: levels_trace(seeds) for name, seeds in levels.items()}}


def chosen(traces, **rule) -> Choice:
    return choices(select(traces, Selection(**rule)))["run"]


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        # The lowest median, not the luckiest seed; each seed has a choice of its own.
        ({"lucky": [0.5, 0.5, 1e-9], "steady": [0.1] * 3}, ("steady", "steady", "steady", "lucky")),
        ({"a": [0.1, 0.3, 0.1], "b": [0.2, 0.2, 0.2]}, ("a", "a", "b", "a")),
        ({"a": [0.1], "b": [0.0]}, ("b", "b")),  # a zero has a score
        # A point with a diverged seed loses to any without; if all have one, the median decides.
        ({"broken": [1e-9, 1e-9, NAN], "slow": [0.9] * 3}, ("slow", "broken", "broken", "slow")),
        (
            {"worse": [0.5, 0.5, NAN], "better": [0.1, NAN, 0.1], "worst": [NAN, NAN, 1e-9]},
            ("better", "better", "worse", "worst"),
        ),
        # A seed that always diverged chooses nothing.
        ({"a": [0.1, NAN], "b": [0.2, NAN]}, ("a", "a", None)),
        ({"a": [NAN, NAN], "b": [NAN, NAN]}, ("a", None, None)),
    ],
)
def test_the_chosen_point_and_the_choice_of_each_seed(levels, expected):
    point, *by_seed = expected
    record = select(points(**levels), Selection())
    assert choices(record)["run"].point == point
    assert record["runs"]["run"]["selected_by_seed"] == by_seed
    assert choices(record)["run"].effort.tried == len(levels)


def test_a_tie_goes_to_the_smallest_hyper_parameters_however_points_are_listed():
    """Scores that differ by rounding tie; 9 is smaller than 10, and "a" comes before "b"."""
    grid = {
        f"a-{a}_b-{b}": levels_trace([level] * 3, hyper_parameters={"b": b, "c": {"a": a}})
        for a, b, level in [
            (1, 10, 0.1), (2, 9, 0.1), (1, 9, 0.1), (0, 9, 0.2), (1, 11, 0.1 - 1e-16)
        ]
    }  # fmt: skip
    for listed in (grid, dict(reversed(grid.items()))):
        record = select({"run": listed}, Selection())
        entry = record["runs"]["run"]
        assert entry["selected"] == "a-1_b-9"
        assert entry["selected_by_seed"] == ["a-1_b-9"] * 3
        effort = choices(record)["run"].effort
        assert (effort.tried, effort.tied) == (5, 4)
        told = "chosen among 5 points, 4 of which tie as the best"
        assert format_tuning({"run": effort}, "gradient_norm") == told


def test_the_score_is_the_mean_over_the_window_at_the_end():
    values = np.ones((1, 11))
    late, early = values.copy(), values.copy()
    late[0, 10] = 1e-3
    early[0, 6:10] = 1e-2
    traces = {"run": {"late": make_trace(late), "early": make_trace(early)}}
    assert chosen(traces, window=0.1).point == "late"
    assert chosen(traces, window=0.5).point == "early"


def test_the_measurement_is_the_rules():
    norm_low = make_trace(np.full((2, 5), 0.1), objective=np.full((2, 5), 3.0))
    objective_low = make_trace(np.full((2, 5), 0.2), objective=np.full((2, 5), 1.0))
    traces = {"run": {"norm": norm_low, "objective": objective_low}}
    assert chosen(traces, measurement="gradient_norm").point == "norm"
    assert chosen(traces, measurement="objective").point == "objective"


def test_the_highest_auroc_is_chosen_by_its_distance_to_one():
    def ending(*ends: float):
        return auroc_trace([[0.5, end, end] for end in ends], schedule=[0, 90, 100])

    traces = {"run": {"good": ending(0.9, 0.96), "better": ending(0.99, 0.9)}}
    record = select(traces, Selection(measurement="test_auroc"))
    scores = [tried["scores_by_seed"] for tried in record["runs"]["run"]["candidates"]]
    # log10 of 0.1, 0.04, 0.01 and 0.1
    assert scores == [pytest.approx([-1, -1.39794]), pytest.approx([-2, -1])]
    scores = {"good": pytest.approx(-1.19897), "better": pytest.approx(-1.5)}
    by_seed = {
        "good": pytest.approx([-1, -1.39794], rel=1e-5), "better": pytest.approx([-2, -1])
    }  # fmt: skip
    expected = Choice("better", scores, Effort(tried=2), by_seed=by_seed)
    assert choices(record) == {"run": expected}
    with pytest.raises(FedatlasError, match="has no 'gradient_norm'"):
        select(traces, Selection())


def test_the_record_is_json_and_holds_every_candidates_score():
    traces = {
        "run": {
            "a": levels_trace([0.1, NAN], step=0.5, hyper_parameters={"rate": 0.5, "batch": None}),
            "b": levels_trace([0.01, 0.001], step=0.1, hyper_parameters={"rate": 0.1}),
        }
    }
    record = json.loads(json.dumps(select(traces, Selection()), allow_nan=False))
    assert record["rule"] == {"measurement": "gradient_norm", "window": 0.1, "shared": {}}
    first, second = record["runs"]["run"]["candidates"]
    assert first == {
        "point": "a",
        "hyper_parameters": {"rate": 0.5, "batch": None},
        "effective_step_size": 0.5,
        "score": None,
        "scores_by_seed": [pytest.approx(-1), None],
        "diverged_seeds": 1,
    }
    assert second["score"] == pytest.approx(-2.5)
    assert choices(record) == {
        "run": Choice(
            *("b", {"a": np.inf, "b": pytest.approx(-2.5)}, Effort(("rate",), 2)),
            by_seed={"a": pytest.approx([-1, np.inf]), "b": pytest.approx([-2, -3])},
        )
    }


def test_traces_are_grouped_by_their_attributes_in_the_order_given():
    traces = [
        falling_trace([0.5], run="second", point="p"),
        falling_trace([0.5], run="first", point="q"),
        falling_trace([0.5], run="second", point="a"),
    ]
    grouped = by_run(traces)
    assert {run: list(found) for run, found in grouped.items()} == {
        "second": ["p", "a"],
        "first": ["q"],
    }
    assert grouped["first"]["q"] is traces[1]


def test_choices_at_the_edge_of_a_grid_are_marked():
    levels = {(1, 0.1): 0.5, (2, 0.1): 0.1, (3, 0.1): 0.5, (1, 1): 0.6, (2, 1): 0.7, (3, 1): 0.8}
    points = {
        f"{a}-{b}": levels_trace([level] * 2, hyper_parameters={"a": a, "b": b, "c": "x"})
        for (a, b), level in levels.items()
    }
    chosen = select({"run": points}, Selection())["runs"]["run"]
    assert chosen["selected"] == "2-0.1"
    assert chosen["at_edge"] == ["b"]  # 2 lies within 1 … 3; of b nothing below 0.1 was tried


def test_a_point_that_left_its_start_is_not_chosen_for_its_small_gradient():
    far = levels_trace([1e-9] * 3, objective=np.linspace([1, 1, 1], [9, 9, 9], 21).T)
    near = levels_trace([1e-2] * 3, objective=np.linspace([1, 1, 1], [0.1, 0.1, 0.1], 21).T)
    assert select({"run": {"far": far, "near": near}}, Selection())["runs"]["run"]["selected"] == (
        "near"
    )


def test_a_run_that_shares_takes_the_point_of_the_other_and_keeps_its_own_scores():
    own = points(a=[0.1, 0.3, 0.1], b=[0.2, 0.2, 0.2])["run"]
    other = points(a=[0.3, 0.3, 0.3], b=[0.2, 0.2, 0.2])["run"]
    rule = Selection(shared={"run": "other"})
    record = json.loads(json.dumps(select({"run": own, "other": other}, rule)))
    assert {run: choice.point for run, choice in choices(record).items()} == {
        "run": "b",
        "other": "b",
    }
    assert choices(record)["run"].scores["a"] == pytest.approx(-1)
    assert choices(record)["other"].effort.tried == 2
    entry = record["runs"]["run"]
    assert entry["shared_with"] == "other"
    assert [tried["score"] for tried in entry["candidates"]] == pytest.approx([-1, np.log10(0.2)])
    assert record["rule"]["shared"] == {"run": "other"}
    assert "shared_with" not in record["runs"]["other"]


def test_sharing_needs_a_run_that_chooses():
    for shared in ({"x": "x"}, {"x": "y", "y": "z"}):
        with pytest.raises(ValidationError, match="chooses none itself"):
            Selection(shared=shared)


STEPS = (0.1, 0.3, 1.0)


def tuned_elsewhere(best: float, **declared):
    """The record of a grid whose best step is given, and what a run that takes it over records."""
    grid = {
        f"step-{step:g}": levels_trace(
            [0.01 if step == best else 0.5], hyper_parameters={"step": step, "batch": 4}
        )
        for step in STEPS
    }
    record = json.loads(json.dumps(select({"run": grid}, Selection())))
    values = {"step": best, "batch": 4} | declared
    own = {"run": {"tuned": levels_trace([0.2, 0.3], hyper_parameters=values)}}
    return record, json.loads(json.dumps(select(own, Selection(), {"run": record})))


@pytest.mark.parametrize(
    ("best", "declared", "edges"),
    [
        (1.0, {}, ("step",)),
        (0.1, {"batch": 8}, ("step",)),
        (0.3, {}, ()),
    ],
)
def test_a_run_that_is_tuned_elsewhere_records_that_effort_and_its_edges(best, declared, edges):
    record, own = tuned_elsewhere(best, **declared)
    choice = choices(own)["run"]
    assert (choice.point, choice.effort) == ("tuned", Effort(edges, 3))
    (candidate,) = own["runs"]["run"]["candidates"]
    assert candidate["point"] == "tuned"
    assert choices(record)["run"].effort.tried == 3


def test_a_value_that_was_not_tried_cannot_be_tuned():
    with pytest.raises(FedatlasError, match="tunes 'run' chooses no point"):
        tuned_elsewhere(1.0, step=0.7)


def test_for_each_stated_step_the_rest_is_tuned_elsewhere():
    """Of every step the best momentum is taken; which step is best is decided there, too."""
    levels = {(1, 0.0): 0.5, (1, 0.5): 0.1, (1, 0.9): 0.3, (2, 0.0): 0.2, (2, 0.5): 0.4}
    grid = {
        f"{step}-{momentum}": levels_trace(
            [level] * 3, hyper_parameters={"step": step, "momentum": momentum}
        )
        for (step, momentum), level in levels.items()
    }
    record = json.loads(json.dumps(select({"run": grid}, Selection())))
    taken = {1: 0.5, 2: 0.0}
    assert {
        step: best_candidate(agreeing(record["runs"]["run"]["candidates"], {"step": step}))[
            "hyper_parameters"
        ]["momentum"]
        for step in (1, 2)
    } == taken
    own = {
        f"step-{step}": levels_trace(  # by the judged seeds the other step would be the best
            [0.9 if step == 1 else 0.01] * 6,
            hyper_parameters={"step": step, "momentum": momentum},
        )
        for step, momentum in taken.items()
    }
    chosen = select({"run": own}, Selection(), {"run": record}, {"run": ["step"]})
    choice = choices(json.loads(json.dumps(chosen)))
    assert choice["run"] == Choice(
        "step-1",
        {"step-1": pytest.approx(-1), "step-2": pytest.approx(np.log10(0.2))},
        Effort(("step",), 5),
        {"step-1": Effort((), 3), "step-2": Effort(("momentum",), 2)},
        choice["run"].by_seed,
    )


@pytest.mark.parametrize("damage", [{}, {"runs": {}}, {"runs": {"run": {"tried": 3}}}])
def test_a_record_that_chooses_nothing_for_the_tuned_run_is_refused(damage):
    own = {"run": {"tuned": levels_trace([0.2])}}
    with pytest.raises(FedatlasError, match="tunes 'run' chooses no point"):
        select(own, Selection(), {"run": damage})


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        ("a", "chosen among 8 points; a at the edge of its grid in step"),
        ("b", "not tuned"),
        ("bb", "not tuned"),
        ("ca", "chosen among 8 points; a at the edge of its grid in step"),
        (
            "abcd",
            "a, c chosen among 8 points; b, d not tuned; a at the edge of its grid in step",
        ),
        ("eb", "e chosen among 2 points; b not tuned; e at the edge of its grid in x, y"),
    ],
)
def test_effort_and_edges_are_told_together(runs, told):
    efforts = {
        "a": Effort(("step",), 8),
        "b": Effort(),
        "c": Effort((), 8),
        "d": Effort(),
        "e": Effort(("x", "y"), 2),
    }
    asked = {run: efforts[run] for run in runs}
    assert format_tuning(asked, "train_accuracy") == told
    seen = "points by test_auroc on test rows"
    assert format_tuning(asked, "test_auroc") == re.sub(r"\bpoints\b", seen, told)


# --- seeds that tune and seeds that are judged ---

RULE = Selection()
LEVELS = st.lists(st.floats(1e-6, 10), min_size=6, max_size=6)


def tuned(levels: Sequence[float], seeds: Sequence[int], **options):
    """A trace of these final levels by seed, of which some tuned."""
    return levels_trace(levels, tuning_seeds=seeds, **options)


@given(LEVELS, st.sets(st.integers(0, 5), min_size=1, max_size=5))
def test_every_seed_is_judged_or_tunes(levels, seeds):
    trace = tuned(levels, sorted(seeds))
    apart = [part["seed"].values.tolist() for part in (judged(trace), tuning(trace))]
    assert apart == [[seed for seed in range(6) if seed not in seeds], sorted(seeds)]
    for part in (judged(trace), tuning(trace)):
        np.testing.assert_array_equal(part["gradient_norm"], trace["gradient_norm"][part["seed"]])
        assert part.attrs == trace.attrs
        assert part["status"].sizes == {"seed": len(part["seed"])}


def test_without_seeds_that_tune_all_are_judged_and_choose():
    trace = levels_trace([0.1, 0.2])
    assert judged(trace) is trace and tuning(trace) is trace
    del trace.attrs["specification"]  # of a version that knew no seeds that tune
    assert judged(trace) is trace


def verdict_and_choice(of_points, other):
    """As the commands see them: points chosen, tables made and claims judged."""
    parts = {
        which: {
            "first": {name: which(trace) for name, trace in of_points.items()},
            "second": {"only": which(other)},
        }
        for which in (judged, tuning)
    }
    chosen = choices(select(parts[tuning], RULE))
    results = Results(parts[judged], chosen)
    test = ComparisonTest(kind="order", first="first", second="second", relation="faster")
    (finding,) = test.judge(results)
    return chosen, finding, results_table(parts[judged], chosen)


@given(LEVELS, LEVELS, LEVELS)
def test_verdicts_do_not_see_what_chose_nor_choices_what_is_judged(one, two, other):
    """Judged seeds 0 to 2, tuning seeds 3 to 5: changing either leaves the other's part."""
    rival = levels_trace(other[:3], run="second")

    def found(judged_levels, tuning_levels):
        points = {
            name: tuned([*judged_levels[name], *tuning_levels[name]], [3, 4, 5], point=name)
            for name in ("one", "two")
        }
        return verdict_and_choice(points, rival)

    seen = {"one": one[:3], "two": two[:3]}
    tuning_levels = {"one": one[3:], "two": two[3:]}
    chosen, finding, table = found(seen, tuning_levels)
    # The choice depends on the seeds that tune alone.
    elsewhere = {name: [1.0] * 3 for name in seen}
    assert found(elsewhere, tuning_levels)[0] == chosen
    # With the same choice, verdict and table depend on the judged seeds alone.
    steered = {name: [1e-6 if chosen["first"].point == name else 10.0] * 3 for name in seen}
    _, again, same = found(seen, steered)
    told = [each.evidence.partition("; first")[0] for each in (again, finding)]
    assert told[0] == told[1] and same == table
    assert replace(again, evidence="") == replace(finding, evidence="")


def test_an_experiments_file_keeps_all_seeds_and_steps_read_the_judged_ones(tmp_path):
    runs = {"first": ("t", {"p": tuned([0.1, 0.2, 0.3], [2], point="p")})}
    file = write_runs(tmp_path / "traces.nc", "paper", "paper-figure", runs)
    assert read_runs(file)["first"]["p"]["seed"].values.tolist() == [0, 1]
    atlas = open_atlas(file)
    assert atlas.dataset("paper/paper-figure/first/p")["seed"].values.tolist() == [0, 1, 2]
    (shown,) = atlas_runs(atlas)
    assert shown.trace["seed"].values.tolist() == [0, 1]
    assert shown.trace["gradient_norm"].values[:, -1].tolist() == [0.1, 0.2]
