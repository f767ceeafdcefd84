"""Profiles of costs over problems and targets, against plain loops and examples by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from hypothesis.extra.numpy import arrays
from typer.testing import CliRunner

import fedatlas
from atlas_factory import noisy_trace, write_atlas
from fedatlas.cli import app
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.profiles import (
    Costs,
    area,
    by_tries,
    costs_to_targets,
    expected_running_time,
    mean_ranks,
    performance_profile,
    ratios,
    resampled,
    runtime_profile,
    scores,
    typical,
)
from fedatlas.plain_text import latex
from fedatlas.store.atlas import atlas_runs, open_atlas
from fedatlas.store.profiling import read_targets
from workflow_copy import ROOT

INF, NAN = np.inf, np.nan
# Whole numbers: halves and doubles of them are exact, and ties are frequent.
COSTS = some.sampled_from([1.0, 2.0, 3.0, 4.0, 6.0, 12.0, INF])
SPENT = arrays(float, some.tuples(*[some.integers(1, 5)] * 3), elements=COSTS)


def made(spent, budget=20.0, problem=None):
    spent = np.asarray(spent, float)
    pairs, methods, _ = spent.shape
    return Costs(
        tuple(f"m{place}" for place in range(methods)),
        np.array(problem or [f"p{place}" for place in range(pairs)]),
        np.ones(pairs),
        spent,
        np.where(np.isnan(spent), np.nan, budget),
        np.full(pairs, 2.0),
    )


def test_a_small_example_comes_out_as_by_hand():
    # Of three problems the third is not solved by the first method.
    times = np.array([[10, 20], [30, 15], [INF, 40], [INF, INF]])
    ratio = ratios(times)
    assert ratio.tolist() == [[1, 2], [2, 1], [INF, 1]]
    assert performance_profile(ratio, np.array([1, 1.9, 2, 100])).T.tolist() == pytest.approx(
        np.array([[1, 2], [1, 2], [2, 3], [2, 3]]) / 3
    )
    # Steps at ratio 2 of a width of 3: 1 + 2/3 + 0, and 2/3 + 1 + 1, of three each.
    assert area(ratio).tolist() == pytest.approx([5 / 9, 8 / 9])
    assert mean_ranks(times).tolist() == pytest.approx([5 / 3, 4 / 3])


def test_expected_running_time_pays_for_what_did_not_arrive():
    # COCO: two of four arrive after 6 and 10, the others spend 20 each in vain.
    costs = made([[[6, INF, 10, INF], [INF, INF, INF, INF], [3, NAN, NAN, NAN]]])
    assert expected_running_time(costs).tolist() == [[28, INF, 3]]
    assert typical(costs.spent).tolist() == [[INF, INF, 3]]


@given(SPENT)
@settings(max_examples=60, deadline=None)
def test_all_agree_with_plain_loops(spent):
    pairs, methods, instances = spent.shape
    costs, at = made(spent), np.array([1.0, 2.5, 4.0])
    ert, middle = expected_running_time(costs), typical(spent)
    for pair, method in itertools.product(range(pairs), range(methods)):
        own = spent[pair, method].tolist()
        paid = sum(cost if cost < INF else 20 for cost in own)
        arrived = sum(cost < INF for cost in own)
        assert ert[pair, method] == (paid / arrived if arrived else INF)
        half = sorted(own)[(instances - 1) // 2], sorted(own)[instances // 2]
        assert middle[pair, method] == (half[0] + half[1]) / 2
    kept = [row for row in middle.tolist() if min(row) < INF]
    for method, limit in itertools.product(range(methods), range(len(at))):
        below = [cost <= at[limit] for row in spent[:, method].tolist() for cost in row]
        assert runtime_profile(spent, at)[method, limit] == sum(below) / len(below)
        if kept:
            near = [row[method] <= at[limit] * min(row) for row in kept]
            found = performance_profile(ratios(middle), at)[method, limit]
            assert found == sum(near) / len(near)
    if kept:
        fine = np.linspace(1, 4, 6001)
        heights = performance_profile(ratios(middle), fine)
        by_steps = np.trapezoid(heights, fine, axis=1) / 3
        assert area(ratios(middle)) == pytest.approx(by_steps, abs=1e-3)
        rank = mean_ranks(middle)
        assert rank.sum() == pytest.approx(methods * (methods + 1) / 2)


@given(SPENT, some.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_profiles_rise_and_no_order_matters(spent, seed):
    random = np.random.default_rng(seed)
    middle, at = typical(spent), np.linspace(1, 12, 40)
    profile = runtime_profile(spent, at)
    assert (np.diff(profile, axis=1) >= 0).all()
    assert (profile >= 0).all() and (profile <= 1).all()
    order = [random.permutation(size) for size in spent.shape]
    moved = spent[np.ix_(*order)]
    assert np.array_equal(runtime_profile(moved, at), profile[order[1]])
    if not np.isfinite(middle).any():
        return
    assert (np.diff(performance_profile(ratios(middle), at), axis=1) >= 0).all()
    assert area(ratios(typical(moved))) == pytest.approx(area(ratios(middle))[order[1]])
    # A pair's unit does not matter, and who gets better does not score worse.
    units = 2.0 ** random.integers(-3, 4, len(middle))
    assert np.array_equal(ratios(middle * units[:, None]), ratios(middle))
    better = middle.copy()
    better[:, 0] /= 2
    assert area(ratios(better[np.isfinite(middle).any(axis=1)]))[0] >= area(ratios(middle))[0]


def test_free_costs_have_ratios_and_instances_may_be_fewer():
    assert ratios(np.array([[0.0, 0.0, 5.0]])).tolist() == [[1, 1, INF]]
    costs = made([[[1, 2, 3], [1, 1, 1]], [[2, NAN, NAN], [8, NAN, NAN]]])
    assert costs.instances.tolist() == [3, 1]
    drawn = resampled(costs, 50)
    assert np.isfinite(drawn).all()
    assert runtime_profile(costs.spent, np.array([2.0])).tolist() == [[0.75], [0.75]]


def test_intervals_hold_the_score_and_equal_methods_are_not_told_apart():
    random = np.random.default_rng(3)
    spent = 10 ** random.normal(0, 0.3, (12, 3, 5))
    spent[:, 1] = spent[:, 0]
    spent[:, 2] *= 20
    found = scores(made(spent), 200)
    assert ((found.low <= found.area) & (found.area <= found.high)).all()
    assert not found.ahead[0, 1] and not found.ahead[1, 0]
    assert found.ahead[0, 2] and found.ahead[1, 2] and not found.ahead[2].any()
    assert found.margin[0, 1] == pytest.approx(0.01) and (found.margin == found.margin.T).all()
    alone = scores(made(spent[:1]))
    assert alone.margin.min() == 1 and (alone.low.max(), alone.high.min()) == (0, 1)
    assert not alone.ahead.any()
    always = scores(made(np.stack([spent[:, 0], spent[:, 0] * 5], axis=1)), 200)
    assert always.low.tolist() == pytest.approx([0.025 ** (1 / 12), 0])
    assert always.high.tolist() == pytest.approx([1, 1 - 0.025 ** (1 / 12)])
    few = scores(made(spent[:5]))
    assert few.margin.min() == 1 and (few.low.max(), few.high.min()) == (0, 1)
    # Targets of one problem are not independent of each other.
    one_problem = scores(made(spent, problem=["p"] * 12))
    assert one_problem.margin.min() == 1


def test_scores_by_tries_are_those_of_all_subsets():
    grids = {
        "p": {
            "tuned": [noisy_trace(rate, seed=9) for rate in (0.5, 0.8, 0.7)],
            "free": [noisy_trace(0.6, seed=8)],
        }
    }
    found = by_tries(grids, "gradient_norm", [0.1], "round")
    middle = [
        typical(costs_to_targets({"p": {"m": trace}}, "gradient_norm", [0.1], "round").spent).item()
        for trace in (*grids["p"]["tuned"], *grids["p"]["free"])
    ]
    best = min(middle[0], middle[3])
    own = [max(0, (4 - max(1, cost / best)) / 3) for cost in middle]
    for tries in (1, 2, 3):
        subsets = list(itertools.combinations(range(3), tries))
        exact = sum(own[min(subset)] for subset in subsets) / len(subsets)
        assert found[tries - 1] == pytest.approx([exact, own[3]], abs=1e-12)


@pytest.fixture(scope="module")
def trial():
    """FedPAGE's six figures of four methods that the trial looks at."""
    names = [f"fedpage-fig{name}" for name in ("2a", "2b", "3a", "3b", "4b", "4c")]
    problems = {name: {} for name in names}
    for run in atlas_runs(open_atlas(ROOT / "published" / "fedpage"), experiments=names):
        problems[run.experiment][run.run] = run.trace.load()
    return problems


@pytest.mark.parametrize(
    ("cost", "printed"),
    [
        ("gradient_evaluations", {"page": 0.96, "fedpage": 0.88}),
        ("round", {"fedpage": 0.95, "scaffold": 0.57}),
        ("bytes", {"fedavg": 0.73, "fedpage": 0.70}),
    ],
)
def test_the_published_trial_of_fedpage(trial, cost, printed):
    """docs/profiles.md prints these; a plain loop over the records gives the same."""
    targets = np.logspace(-0.5, -3, 11)
    pairs = [
        {method: np.median([*first_times(trace, cost, target)]) for method, trace in own.items()}
        for own in trial.values()
        for target in targets
    ]
    kept = [row for row in pairs if min(row.values()) < INF]
    assert len(kept) == 64
    score = {
        method: sum(max(0, (4 - row[method] / min(row.values())) / 3) for row in kept) / len(kept)
        for method in ("page", "fedpage", "scaffold", "fedavg")
    }
    assert {method: round(score[method], 2) for method in printed} == printed
    costs = costs_to_targets(trial, "gradient_norm", targets, cost)
    found = dict(zip(costs.methods, area(ratios(typical(costs.spent))), strict=True))
    assert found == pytest.approx(score, abs=1e-9)


def first_times(trace, cost, target):
    """By seed, where straight lines of the logarithm meet the target first."""
    parts = ("bytes_up", "bytes_down") if cost == "bytes" else (cost,)
    spent = sum(trace[part].to_numpy() for part in parts)
    for own, values in zip(spent, trace["gradient_norm"].to_numpy(), strict=True):
        found = INF
        for left in reversed(range(len(own) - 1)):
            if values[left + 1] <= target < values[left]:
                drop = np.log10(values[left] / target) / np.log10(values[left] / values[left + 1])
                found = own[left] + drop * (own[left + 1] - own[left])
        yield found


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Six problems with two methods, and a third that one of them lacks."""
    experiments = {}
    for place in range(6):
        runs = {
            "fast": ("Fast_1", {"only": noisy_trace(0.6, seed=place)}),
            "slow": ("Slow", {"only": noisy_trace(0.8, seed=place + 10)}),
        }
        if place:
            runs["extra"] = ("Extra", {"only": noisy_trace(0.7, seed=place)})
        experiments[f"problem-{place}"] = ({}, runs)
    return write_atlas(tmp_path_factory.mktemp("profiles") / "atlas", {"paper": experiments})


def test_the_command_prints_what_is_resolved_first_and_writes_files(path, tmp_path):
    files = [tmp_path / name for name in ("f.svg", "t.tex", "p.csv")]
    options = zip(("--figure", "--table", "--csv"), map(str, files), strict=True)
    asked = ["--metric", "gradient_norm", "--targets", "0.3:0.03:4", "--cost", "bytes"]
    found = CliRunner().invoke(
        app, ["profile", str(path), *asked, *itertools.chain(*options)], catch_exceptions=False
    )
    assert found.exit_code == 0
    first, second, *rest = found.output.splitlines()
    assert first.startswith("bytes: smallest difference of scores that is resolved: 0.")
    assert second.startswith("6 problems with 3 instances each, targets gradient_norm ≤ 0.3 to ≤ 0")
    assert "note: left out, as not all experiments have them: extra" in rest
    assert all(file.stat().st_size for file in files)
    assert r"Fast\_1 & " in files[1].read_text(encoding="utf-8")
    assert len(files[2].read_text(encoding="utf-8").splitlines()) == 1 + 6 * 4 * 2


def test_a_method_of_another_folder_may_have_some_of_the_problems(path, tmp_path):
    run = {"mine": ("Mine", {"only": noisy_trace(0.9, seed=3)})}
    other = write_atlas(tmp_path / "mine", {"paper": {"problem-1": ({}, run)}})
    asked = {"experiments": ["problem-1"], "of_start": True}
    found = fedatlas.profile([path, other], "gradient_norm", "bytes", [0.5], **asked)
    assert set(found.titles.values()) == {"Fast_1", "Slow", "Extra", "Mine"}
    with pytest.raises(FedatlasError, match="'problem-9' matches none"):
        fedatlas.profile([path, other], "gradient_norm", "bytes", [0.5], experiments=["problem-9"])


def test_targets_may_be_shares_of_the_start_and_measurements_those_of_each_problem(path):
    mixed = {
        "problem-0": "gradient_norm",
        "problem-1": "test_accuracy",
        "problem-2": "test_accuracy",
    }
    found = fedatlas.profile(path, mixed, "round", "0.5:0.05:2", of_start=True)
    assert found.targets == "targets 0.5 to 0.05 of the start"
    costs, atlas = found.rows["round"].costs, open_atlas(path)
    for place, problem in enumerate(mixed):
        trace = atlas.sel(problem, "fast").load()
        start = np.median(trace.gradient_norm[:, 0]) if place == 0 else 0.4
        best, sign = (0, 1) if place == 0 else (1, -1)
        own = costs.target[costs.problem == problem]
        assert own == pytest.approx([best + sign * share * start for share in (0.5, 0.05)])
    alone = fedatlas.compare(path, "test_accuracy", "round", 0.8, experiments=["problem-1"])
    spent = costs.spent[(costs.problem == "problem-1") & np.isclose(costs.target, 0.8), 0]
    assert spent == pytest.approx(alone.dataset.cost_to_target[:1, :, 0].to_numpy())


def test_refusals_say_what_to_do(path):
    def ask(**changed):
        options = {"metric": "gradient_norm", "cost": "bytes", "targets": [0.1]} | changed
        return fedatlas.profile(path, **options)

    with pytest.raises(FedatlasError, match="need at least two methods"):
        ask(runs=["fast"])
    with pytest.raises(FedatlasError, match="neither values"):
        ask(targets="0.3:0.1")
    with pytest.raises(FedatlasError, match="reaches any of them"):
        ask(targets=[1e-12])
    with pytest.raises(FedatlasError, match="does not count 'epsilon'"):
        ask(cost="epsilon")
    with pytest.raises(FedatlasError, match="no best value"):
        ask(metric="dual_variable")
    with pytest.raises(FedatlasError, match=r"is in .* and in "):
        fedatlas.profile([path, path], "gradient_norm", "bytes", [0.1])
    trace = noisy_trace(0.5)
    with pytest.raises(FedatlasError, match="every problem needs"):
        costs_to_targets({"a": {"m": trace}, "b": {"n": trace}}, "gradient_norm", [0.1], "bytes")
    later = trace.assign_coords(seed=trace.seed + 100)
    with pytest.raises(FedatlasError, match="no seed in common"):
        costs_to_targets({"a": {"m": trace, "n": later}}, "gradient_norm", [0.1], "bytes")


def test_targets_are_even_in_the_distance_to_the_best_value():
    assert read_targets("0.1:0.001:3", "gradient_norm") == pytest.approx([0.1, 0.01, 0.001])
    assert read_targets("0.9:0.99:2", "test_accuracy") == pytest.approx([0.9, 0.99])
    assert read_targets("0.5,0.2", "gradient_norm") == [0.5, 0.2]
    assert latex("50 % of a_b ≤ ^") == r"50 \% of a\_b $\le$ \^{}"
