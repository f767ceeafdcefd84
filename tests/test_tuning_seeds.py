"""Seeds that tune and seeds that are judged: who looks at which, whatever the others did."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from atlas_factory import write_runs
from fedatlas.evaluation.claims.compared import ComparisonTest
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.selection import choices, select
from fedatlas.evaluation.steps import read_runs
from fedatlas.pages.results_table import results_table
from fedatlas.schema.runs import Selection
from fedatlas.store.atlas import atlas_runs, open_atlas
from fedatlas.store.trace import judged, tuning
from trace_factory import levels_trace

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
    results = Results(parts[judged], chosen, RULE.window)
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
    assert (again, same) == (finding, table)


def test_an_experiments_file_keeps_all_seeds_and_steps_read_the_judged_ones(tmp_path):
    runs = {"first": ("t", {"p": tuned([0.1, 0.2, 0.3], [2], point="p")})}
    file = write_runs(tmp_path / "traces.nc", "paper", "paper-figure", runs)
    assert read_runs(file)["first"]["p"]["seed"].values.tolist() == [0, 1]
    with open_atlas(file) as atlas:
        assert atlas.dataset("paper/paper-figure/first/p")["seed"].values.tolist() == [0, 1, 2]
        (shown,) = atlas_runs(atlas)
        assert shown.trace["seed"].values.tolist() == [0, 1]
        assert shown.trace["gradient_norm"].values[:, -1].tolist() == [0.1, 0.2]
