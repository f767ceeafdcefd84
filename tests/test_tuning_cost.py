"""Comparisons by how many configurations were tried, against all subsets counted one by one."""

import json
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter

from fedatlas.evaluation.results import Results
from fedatlas.evaluation.selection import TunedRun, choices, select
from fedatlas.evaluation.tuning import (
    band_of_best,
    by_tries,
    chances,
    ends,
    expected_best,
    format_tries,
    grids_of,
    ranked,
)
from fedatlas.evaluation.verdicts import judge
from fedatlas.schema.claims import Claim, ClaimTest
from fedatlas.schema.runs import Selection
from fedatlas.store.experiment import (
    ExperimentHeading,
    StoredPoint,
    join_traces,
    write_experiment,
)
from judging import verdict
from trace_factory import auroc_trace, make_trace

SPREAD = np.linspace(-0.003, 0.003, 6)


@pytest.mark.parametrize("size", [1, 2, 5, 7])
def test_chances_expectation_and_band_are_those_of_all_subsets(size: int):
    """Values are in the order of ranks, and need not fall with them."""
    values = np.random.default_rng(size).normal(size=size).round(3)
    lows, highs = band_of_best(values, 0.8)
    for tries in range(1, size + 1):
        kept = [values[min(subset)] for subset in combinations(range(size), tries)]
        assert expected_best(values)[tries - 1] == pytest.approx(np.mean(kept), rel=1e-12)
        by_rank = Counter(min(subset) for subset in combinations(range(size), tries))
        counted = [by_rank[rank] / len(kept) for rank in range(size)]
        np.testing.assert_allclose(chances(size)[tries - 1], counted, rtol=1e-12)
        kept.sort()
        for quantile, found in ((0.1, lows), (0.9, highs)):
            enough = next(
                value for place, value in enumerate(kept, 1) if place >= quantile * len(kept) - 1e-9
            )
            assert found[tries - 1] == enough


def test_what_was_lost_is_infinite_until_it_cannot_be_all_that_was_drawn():
    values = np.array([1.0, 3.0, np.inf, np.inf])
    found = expected_best(values)
    # Three tries of four hold one of the first two: 1 in three of four subsets, else 3.
    np.testing.assert_allclose(found, [np.inf, np.inf, 1.5, 1.0])


def a_run(name: str, ends: dict[str, tuple[float, float]]) -> dict[str, object]:
    """Point → trace that ends so on training rows, by which points are chosen, and on test rows."""
    found = {}
    for point, (train, test) in ends.items():
        rise = np.linspace(0.5, 1.0, 11)[None, :]
        trace = auroc_trace(0.5 + (test - 0.5 + SPREAD[:, None]) * (2 * rise - 1), run=name)
        trace["train_auroc"] = trace["test_auroc"] * 0 + 0.5 + (train - 0.5) * (2 * rise - 1)
        found[point] = trace.assign_attrs(point=point)
    return found


def judged(first: dict[str, object], second: dict[str, object], **shared: str):
    traces = {"a": first, "b": second}
    record = select(traces, Selection(measurement="train_auroc", window=0.1, shared=shared))
    claim = {"kind": "better_final", "first": "a", "second": "b", "measurement": "test_auroc"}
    results = Results(
        traces,
        choices(record),
        selected_by="train_auroc",
        grids=grids_of(record, traces, "here", {}, []),
    )
    stated = {"id": "c", "source": "Table 1", "statement": "a is better", "test": claim}
    return judge("here", "paper", [Claim.model_validate(stated)], results)[0], claim


FIRST = {"p": (0.9, 0.9), "q": (0.8, 0.62), "r": (0.7, 0.6)}
SECOND = {"s": (0.9, 0.8), "t": (0.6, 0.65)}


def test_outcomes_by_tries_are_those_of_all_pairs_of_draws():
    first, second = a_run("a", FIRST), a_run("b", SECOND)
    found, claim = judged(first, second)

    def outcome(own: str, other: str) -> str:
        return verdict(claim, selected_by="train_auroc", a=first[own], b=second[other]).outcome

    counted = []
    for tries in (1, 2, 3):
        draws = [
            outcome(own[0], other[0])  # points stand in the order of their scores
            for own in combinations(FIRST, tries)
            for other in combinations(SECOND, min(tries, 2))
        ]
        counted.append({one: draws.count(one) / len(draws) for one in draws})
    assert counted[0]["contradicted"] == pytest.approx(2 / 3)
    assert counted[1] == {"reproduced": pytest.approx(2 / 3), "contradicted": pytest.approx(1 / 3)}
    assert found.outcome == "reproduced" and counted[2] == {"reproduced": 1.0}
    assert found.tries == (
        "1 try: contradicted in 0.67 of draws; 2 to 3 tries: reproduced in 0.67 to 1 of draws"
    )
    assert ends(found.tries) == ("contradicted", "reproduced", 3)


def test_runs_that_share_a_choice_are_drawn_together():
    """b follows a's choice: p with s, q with t, never p with t."""
    first = a_run("a", {"s": (0.9, 0.9), "t": (0.6, 0.7)})
    found, _ = judged(first, a_run("b", SECOND), b="a")
    assert found.tries == "1 to 2 tries: reproduced in all draws"
    assert ends(found.tries) == ("reproduced", "reproduced", 2)
    crossed = a_run("a", {"s": (0.9, 0.9), "t": (0.6, 0.7)})
    apart, _ = judged(crossed, a_run("b", SECOND))
    assert apart.tries == "1 to 2 tries: reproduced in 0.75 to 1 of draws"


def test_a_run_without_a_grid_has_no_cost_of_tuning():
    one = {"p": (0.9, 0.9)}
    found, _ = judged(a_run("a", one), a_run("b", {"s": (0.9, 0.8)}))
    assert found.tries == ""


def test_ranks_follow_the_choice_of_points():
    def candidate(step: int, score: float | None, *scores: float | None) -> dict[str, object]:
        own = {"step": step}
        return {"hyper_parameters": own, "score": score, "scores_by_seed": list(scores)}

    tried = [
        candidate(4, 0.1, 0.1, None),
        candidate(3, 0.3 - 1e-12, 0.3, 0.3),
        candidate(1, 0.2, 0.2, 0.2),
        candidate(5, None, None, None),
        candidate(2, 0.3, 0.3, 0.3),
    ]
    for listed in (tried, tried[::-1]):
        order = [one["hyper_parameters"]["step"] for one in ranked(listed)]
        assert order == [1, 2, 3, 4, 5]


def test_the_summary_counts_what_another_number_of_tries_turns():
    turned = "1 try: contradicted in 0.67 of draws; 2 to 3 tries: reproduced in 0.67 to 1 of draws"
    same = "1 to 16 tries: undecided in 0.5 to 1 of draws (by the typical one of 3 seeds)"
    assert format_tries(["", turned, same]) == (
        "1 of 2 comparisons of tuned runs come out otherwise after one try of each grid than after "
        "all 3 to 16 tries"
    )
    assert format_tries([""]) == ""


def test_a_run_that_is_tuned_elsewhere_is_compared_on_the_seeds_of_that_grid(tmp_path: Path):
    """Steps of 0.1 and 1 with momentum 0 or 0.9, which the comparing experiment declares."""
    levels = {(0.1, 0.0): 0.02, (1.0, 0.0): 0.01, (0.1, 0.9): 0.001, (1.0, 0.9): 0.05}
    traces = {
        f"{step:g}-{momentum:g}": make_trace(
            [[1.0, level * spread, level * spread] for spread in (0.9, 1.0, 1.1)],
            run="a",
            point=f"{step:g}-{momentum:g}",
            hyper_parameters={"step_size": step, "momentum": momentum},
        )
        for (step, momentum), level in levels.items()
    }
    folder = tmp_path / "grid"
    about = {"paper": "p", "title": "t", "source": "s", "notes": "", "dataset": "d"}
    stored = [StoredPoint(trace, "A", False) for trace in traces.values()]
    heading = ExperimentHeading(experiment="grid", **about)
    write_experiment(join_traces(heading, stored), folder / "traces.nc")
    record = select({"a": traces}, Selection())
    (folder / "selection.json").write_text(json.dumps(record))
    own = make_trace(
        [[1.0, 0.01, 0.01]] * 6,
        run="a",
        point="own",
        hyper_parameters={"step_size": 1, "momentum": 0},
    )
    here = select({"a": {"own": own}}, Selection())
    tuned = {"a": TunedRun(experiment="grid", declared=frozenset({"momentum"}))}
    found = grids_of(here, {"a": {"own": own}}, "here", tuned, [folder / "selection.json"])["a"]
    assert found.source == ("grid", "a")
    assert [trace.attrs["point"] for trace in found.traces] == ["1-0", "0.1-0"]
    # Three seeds decide nothing; their typical one says how each draw comes out.
    rival = make_trace([[1.0, 0.015, 0.015]] * 3, run="b")
    test = TypeAdapter(ClaimTest).validate_python(
        {"kind": "order", "first": "a", "second": "b", "relation": "faster"}
    )
    results = Results({}, {})
    asked = (
        [found, None],
        [own, rival],
        lambda traces: next(test.duels(results)[""].judge(traces)),
        test.criterion,
    )
    told = by_tries(*asked, test.measured)
    assert told == ("1 to 2 tries: reproduced in 0.5 to 1 of draws (by the typical one of 3 seeds)")
    assert by_tries(*asked, ["suboptimality"]) == ""  # which the grid did not record
