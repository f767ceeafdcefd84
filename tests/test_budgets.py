"""Privacy budgets of whole experiments: what is computed, judged and drawn."""

from functools import cache
from math import log10
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import to_hex

from experiment_files import plan_of_all
from fedatlas.algorithms import build_algorithm
from fedatlas.algorithms.dp_gradient_tracking import State
from fedatlas.arithmetic.randomness import Draws, RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.study_value import StudyValueTest
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.tables import read_budgets
from fedatlas.federations.decentralised.graph import GraphCounters, GraphNetwork
from fedatlas.figures.privacy import compose_budgets
from fedatlas.privacy.accountants import lemma_2
from fedatlas.privacy.drift import form_gaps
from fedatlas.privacy.far_horizons import closed_lemma_2, far_epsilon
from fedatlas.privacy.schemes import S1, S2, TrackingSteps
from fedatlas.schema.studies import BudgetStudy
from fedatlas.store.netcdf import write_netcdf
from fedatlas.studies import budgets
from fedatlas.studies.budgets import budgets_of_runs, noise_drift, tabulate_conditions
from figure_factory import caption

STUDY = BudgetStudy(samples=12000, dimension=11_172_810, last_horizon=60)


def runs():
    return plan_of_all().runs_of("dpgt-fig6")


@cache
def of_figure():
    """The budgets of all runs; to be read only."""
    return budgets_of_runs(runs(), STUDY)


def by_hand(iterations, alpha, beta, gamma, samples, noise):
    """Lemmas 2 and 3 with row sums 1 and C = 1, a line for each equation."""
    dx, dy, spent, cumulative = 0.0, 1 / samples, 0.0, []
    for k in range(iterations):
        spent += (dx + dy) / noise(k)
        cumulative.append(spent)
        dx, dy = (1 - alpha) * dx + gamma * dy, (1 - beta) * dy + 2 / samples
    return cumulative


def judged(test, budgets):
    return list(StudyValueTest(**test).judge(Results({}, {}, budgets=budgets)))


def order(smaller, *than):
    return {"kind": "budget_order", "smaller": smaller, "than": than}


def reaches(run, after, tolerance, **more):
    return {"kind": "delta_reaches_one", "run": run, "after": after, "tolerance": tolerance, **more}


def first(run, variable):
    case = int(np.flatnonzero(of_figure()["run"].to_numpy() == run)[0])
    return of_figure()[variable].isel(case=case).to_numpy()


def test_the_published_accounting_of_s2():
    expected = by_hand(2001, 0.1, 0.01, 0.1, 55, lambda k: 0.9996**2000)
    assert first("s2-0.9996", "epsilon") == pytest.approx(expected)
    assert expected[-1] == pytest.approx(30701.2, abs=0.05)


def test_the_published_accounting_of_s1():
    expected = by_hand(
        2001,
        72 / 2001**0.987,
        0.95 / 2001**0.69,
        98 / 2001**0.997,
        53,
        lambda k: (k + 1) ** 0.1,
    )
    assert first("s1-0.1", "epsilon") == pytest.approx(expected)


@pytest.mark.parametrize("horizon", [1, 7, 60])
def test_a_horizon_has_its_own_samples_and_noise(horizon):
    samples, noise = int(1.002**horizon) + 1, 0.9996**horizon
    expected = by_hand(horizon + 1, 0.1, 0.01, 0.1, samples, lambda k: noise)[-1]
    assert first("s2-0.9996", "final_epsilon")[horizon - 1] == pytest.approx(expected)


def test_methods_that_follow_no_horizon_have_no_budget_of_one():
    assert np.isnan(first("chen-wang-zhang-2024", "final_epsilon")).all()
    assert np.isfinite(first("provable", "final_epsilon")).all()


@pytest.mark.parametrize(
    ("run", "published"),
    [
        ("kang-2021", 392.3),
        ("kang-2021-matched", 277.4),
        ("yan-2024", 815.34),
        ("wang-zhang-2024", 80.6),
        ("wang-zhang-2024-growing", 857.9),
        ("chen-wang-zhang-2024", 80.6),
    ],
)
def test_compared_methods_under_the_shared_setting(run, published):
    assert first(run, "epsilon")[-1] == pytest.approx(published, rel=1e-3)


def test_amplification_by_hand():
    one = np.log1p(55 / 12000 * np.expm1(1 / (55 * 0.9996**2000)))
    assert first("provable", "epsilon")[-1] == pytest.approx(2001 * one)


def test_shorter_runs_end_in_nan_not_in_zeros():
    shorter = [
        spec.model_copy(update={"rounds": 100} if spec.run == "kang-2021" else {})
        for spec in runs()
    ]
    budgets = budgets_of_runs(shorter, STUDY)
    of_kang = budgets["epsilon"].isel(case=budgets["run"].to_numpy() == "kang-2021")
    assert np.isnan(of_kang[:, 100:]).all() and np.isfinite(of_kang[:, :100]).all()
    (found,) = judged(order("kang-2021", "s1-0.1"), budgets)
    assert "kang-2021 19.6" in found.evidence


def test_a_form_has_its_own_tighter_bound_only():
    own = {
        run: set(of_figure()["accounting"].to_numpy()[of_figure()["run"].to_numpy() == run])
        for run in ("s2-0.9996", "s2-literal", "provable")
    }
    assert own["s2-0.9996"] == {"Lemmas 2 and 3", "form (7)/(8)"}
    assert own["s2-literal"] == {"Lemmas 2 and 3", "form (4)/(6), by parts"}
    assert own["provable"] == {"fresh samples, amplified", "fresh samples"}


def test_clipped_runs_have_a_bound_without_assumption():
    (spec,) = [spec for spec in runs() if spec.run == "s2-0.9996"]
    clipped = spec.model_copy(
        update={"hyper_parameters": spec.hyper_parameters | {"clipping": "l1"}}
    )
    budgets = budgets_of_runs([clipped], STUDY)
    ends = dict(zip(budgets["accounting"].values, budgets["epsilon"].values[:, -1], strict=True))
    # 55 samples may all move where one did.
    assert ends["form (7)/(8), at any points"] == pytest.approx(55 * ends["form (7)/(8)"])
    assert "assumes that gradients are taken at the same points" in str(
        budgets["statement"].values[0]
    )


@pytest.mark.parametrize(
    ("test", "outcomes", "told"),
    [
        (order("kang-2021", "yan-2024", "s1-0.1"), ["reproduced"] * 2, ["both at δ = 0.02"]),
        (
            order("kang-2021", "wang-basar-2023"),
            ["not testable"],
            ["ε holds for kang-2021 at δ = 0.02, wang-basar-2023 at δ = 1"],
        ),
        # By the first accounting; others are named.
        (order("s1-0.1", "s2-0.9996"), ["reproduced"], ["each assumes C = 1"]),
        (
            order("s1-0.1", "chen-wang-zhang-2024"),
            ["contradicted"],
            ["950.65 (form (7)/(8))", "Lemmas 2 and 3 are proved for (4) and (6); chen-wang"],
        ),
        # Equal budgets are not smaller.
        (order("wang-zhang-2024", "chen-wang-zhang-2024"), ["contradicted"], []),
        # Own value as sent: Σ_k 0.1 k/(55 · 14.5) is 1 at 127; own value exact: at 808.
        (reaches("wang-basar-2023", 127, 0), ["reproduced"], ["after 127", "after 808"]),
        (reaches("wang-basar-2023", 120, 6), ["contradicted"], ["after 127", "after 808"]),
        (reaches("wang-basar-2023", 127, 0, fitted="r was fitted"), ["not testable"], ["r was fi"]),
        (reaches("kang-2021", 800, 10), ["contradicted"], ["never (0.02)"]),
    ],
)
def test_claims_about_budgets(test, outcomes, told):
    found = judged(test, of_figure())
    assert [case.outcome for case in found] == outcomes
    assert [case.case for case in found] == (
        [""] if len(found) == 1 else [f"than {rival}" for rival in test["than"]]
    )
    assert all(words in case.evidence for case in found for words in told)


def test_a_single_rise_refutes_a_fall():
    test = {"kind": "budget_falls", "run": "s1-0.1", "from_horizon": 30}
    falling = of_figure().copy(deep=True)
    case = int(np.flatnonzero(falling["run"].to_numpy() == "s1-0.1")[0])
    falling["final_epsilon"][case] = np.linspace(9, 1, 60)
    (finding,) = judged(test, falling)
    assert finding.outcome == "reproduced" and "rises at 0 of 30" in finding.evidence
    falling["final_epsilon"][case, 10] = 0.5  # before the horizon that the claim begins at
    assert [f.outcome for f in judged(test, falling)] == ["reproduced"]
    falling["final_epsilon"][case, 45] = 0.5  # so that the next one is a rise
    (finding,) = judged(test, falling)
    assert finding.outcome == "contradicted" and "last at K = 47" in finding.evidence
    falling["final_epsilon"][case, 40:] = np.nan  # horizons that cannot be run
    (finding,) = judged(test, falling)
    assert finding.outcome == "reproduced" and "horizons 30 to 40" in finding.evidence


def test_without_the_floor_only_the_law_is_left():
    """Remark 22's samples, a4 K^p + 1, and p^K + 1."""
    for run, samples in (
        ("s1-0.1", lambda horizon: 7e-5 * horizon**1.78 + 1),
        ("s2-0.9996", lambda horizon: 1.002**horizon + 1),
    ):
        floored, whole = first(run, "final_epsilon"), first(run, "unfloored_epsilon")
        horizons = np.arange(1, 61)
        drawn = np.floor(samples(horizons) - 1) + 1
        assert whole == pytest.approx(floored * drawn / samples(horizons))
    assert np.isnan(first("provable", "unfloored_epsilon")).all()
    test = {"kind": "budget_falls", "run": "s2-0.9996", "from_horizon": 30, "floor": False}
    (finding,) = judged(test, of_figure())
    assert "samples not rounded down" in finding.evidence


def test_a_study_may_leave_accountings_out():
    study = STUDY.model_copy(update={"without": ("Lemmas 2 and 3",)})
    literal = [spec for spec in runs() if spec.run in ("s2-literal", "yan-2024")]
    budgets = budgets_of_runs(literal, study)
    assert budgets["accounting"].values[0] == "form (4)/(6), by parts" and budgets["first"].all()
    (finding,) = judged(order("s2-literal", "yan-2024"), budgets)
    assert finding.outcome == "reproduced" and "315.0" in finding.evidence


def test_a_run_without_a_budget_is_refused():
    with pytest.raises(FedatlasError, match="'nobody' accounts for no privacy"):
        judged(order("nobody", "s1-0.1"), of_figure())


def test_more_samples_than_there_are_have_no_amplified_budget():
    study = BudgetStudy(samples=100, dimension=10, last_horizon=2400)
    budgets = budgets_of_runs([spec for spec in runs() if spec.run == "provable"], study)
    final = budgets["final_epsilon"].to_numpy()
    # m_K = 100 up to K = 2304, beyond which 1.002^K passes 100.
    assert np.isfinite(final[:, :2304]).all() and np.isnan(final[:, 2304:]).all()


def test_budgets_survive_a_file_and_foreign_files_are_refused(tmp_path):
    path = tmp_path / "budgets.nc"
    write_netcdf(of_figure(), path)
    assert read_budgets(path).identical(of_figure())
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(FedatlasError, match=r"budgets\.nc: is not a readable"):
        read_budgets(path)
    write_netcdf(of_figure().drop_attrs(), path)
    with pytest.raises(FedatlasError, match="is not a file of budgets"):
        read_budgets(path)


def test_conditions_are_listed_for_tracking_only():
    rows = tabulate_conditions(runs(), STUDY)
    sources = {
        run: {str(row["source"]) for row in rows if row["run"] == run}
        for run in ("s1-0.1", "s2-0.9996", "s2-literal", "provable")
    }
    others = {row["run"] for row in rows if row["source"] != "ours"}
    assert others == {*sources, "s1-literal"}
    assert sources["s1-0.1"] == {"Lemma 1", "Assumption 4", "Theorem 4", "ours"}
    assert sources["s2-literal"] == {"Lemma 1", "Theorem 5", "ours"}
    assert sources["provable"] == {"Lemma 1", "ours"}
    drift = {row["run"]: row["value"] for row in rows if row["source"] == "ours"}
    assert set(drift) == {spec.run for spec in runs()}
    assert drift["s2-0.9996"] == pytest.approx(1.02, abs=5e-3) and drift["chen-wang-2025"] == 0
    unmet = {(row["run"], row["name"]) for row in rows if row["holds"] is False}
    assert ("s1-0.1", "a1 < min_i 1/Σ_j R_ij") in unmet
    assert any(run == "s2-0.9996" and name.startswith("α < √(330n)") for run, name in unmet)


def test_figure_has_a_line_for_every_budget_that_is_spent():
    titles = plan_of_all().run_titles("dpgt-fig6")
    canvas = compose_budgets("title", titles, of_figure())
    by_iteration, by_horizon, delta, drift = (
        sum(len(place.lines) for place in row) for row in np.reshape(np.array(canvas.axes), (4, 2))
    )
    cases = of_figure().sizes["case"]
    spends_none = {"wang-basar-2023"}  # of ε
    of_none = sum(run in spends_none for run in of_figure()["run"].to_numpy())
    assert by_iteration == cases - of_none
    assert by_horizon == np.isfinite(of_figure()["final_epsilon"]).any("horizon").sum()
    with_delta = (of_figure()["delta"].fillna(0) > 0).any("iteration").sum()
    assert delta == with_delta
    still = {"chen-wang-2025", "chen-wang-2025-one", "wang-basar-2023"}
    assert drift == len(titles) - len(still)
    assert "none with Ternary messages [39], Online" in caption(canvas)
    # No two runs look alike.
    first_cases = np.flatnonzero(of_figure()["first"].to_numpy())
    legend = canvas.legends[0].get_lines()[: len(first_cases)]
    assert len({(to_hex(line.get_color()), line.get_linestyle()) for line in legend}) == len(
        first_cases
    )


NUMBERS = 4000  # of a model, each of which is a run of its own


def drift_runs() -> dict[str, Any]:
    return {spec.run: spec for spec in plan_of_all().runs_of("dpgt-mnist-cpu")}


def simulated(algorithm, graphs, iterations):
    """Standard deviation of x̄'s numbers, of rounds of the method with gradients of 0."""
    counters = GraphCounters()
    network = GraphNetwork(*graphs, np.asarray, Draws(), counters)
    agents = len(graphs[0])
    problem: Any = SimpleNamespace(
        agents=agents,
        dimension=NUMBERS,
        minibatches=lambda random, size: None,
        first_samples=lambda size: None,
        gradients=lambda points, batch, clipping: np.zeros((agents, NUMBERS)),
    )
    state = algorithm.start(problem, network, np.zeros((agents, NUMBERS)))
    random = RoundRandom(11)
    for k in range(iterations):
        state = algorithm.round(state, problem, network, random.at(k))
    return float(state.x.mean(axis=0).std())


@pytest.mark.parametrize(
    "run",
    ["s1-0.1", "s2-0.9996", "unbalanced", "rings", "literal", "kang-2021-matched", "yan-2024",
     "chen-wang-2025", "wang-basar-2023", "wang-zhang-2024", "chen-wang-zhang-2024"],
)  # fmt: skip
def test_it_is_what_runs_of_the_method_gather(run):
    spec, iterations = drift_runs()[run], 25
    algorithm, graphs = build_algorithm(spec), spec.graph_weights
    expected = noise_drift(spec, iterations)[-1]
    # The spread of a standard deviation over 4000 numbers, four times.
    assert simulated(algorithm, graphs, iterations) == pytest.approx(
        expected, rel=4 / np.sqrt(2 * NUMBERS), abs=1e-12
    )


@pytest.mark.parametrize("form", ["literal", "compact", "provable"])
def test_every_form_gathers_as_it_updates(form):
    scheme = {"name": "constant", "alpha": 0.3, "beta": 0.2, "gamma": 0.4, "samples": 1}
    scheme |= {"state_noise_scale": 0.7, "tracker_noise_scale": 1.3}
    values = {"scheme": scheme, "horizon": 2000, "form": form, "clipping": "l1"}
    spec = drift_runs()["s2-0.9996"].model_copy(update={"hyper_parameters": values})
    algorithm, graphs = build_algorithm(spec), spec.graph_weights
    found = noise_drift(spec, 12)[-1]
    # Steps along trackers as sent are noisy by themselves; so is the mean of weights that differ.
    assert simulated(algorithm, graphs, 12) == pytest.approx(found, rel=4 / np.sqrt(2 * NUMBERS))


def one_round(form, graphs, noise, x, y):
    """(x, y) of agents with one number each after a round of the method, gradients being 0."""
    scheme = {"name": "constant", "alpha": 0.3, "beta": 0.2, "gamma": 0.4, "samples": 1}
    scheme |= {"state_noise_scale": noise[0], "tracker_noise_scale": noise[1]}
    values = {"scheme": scheme, "horizon": 2000, "form": form, "clipping": "none"}
    spec = drift_runs()["s2-0.9996"].model_copy(update={"hyper_parameters": values})
    network = GraphNetwork(*graphs, np.asarray, Draws(), GraphCounters())
    zeros = np.zeros((len(x), 1))
    problem: Any = SimpleNamespace(
        minibatches=lambda random, size: None, gradients=lambda points, batch, clipping: zeros
    )
    state = State(1, x[:, None], y[:, None], zeros)
    after = build_algorithm(spec).round(state, problem, network, RoundRandom(11).at(1))
    return after.x[:, 0], after.y[:, 0]


@pytest.mark.parametrize("graph", ["s2-0.9996", "rings"])
def test_forms_of_the_update_differ_by_what_is_told(graph):
    """By rounds of the method: of unit trackers without noise, and of noise alone."""
    graphs = drift_runs()[graph].graph_weights
    gaps = form_gaps(TrackingSteps(0.3, 0.2, 0.4, 1), *graphs)
    agents, of_trackers, of_noise = len(graphs[0]), [], []
    for unit in np.eye(agents):
        quiet = [one_round(form, graphs, (0, 0), unit, unit) for form in ("literal", "compact")]
        assert quiet[0][0] == pytest.approx(quiet[1][0])  # states enter alike
        of_trackers.append(np.abs(quiet[0][1] - quiet[1][1]).max())
    assert gaps[0] == pytest.approx(max(of_trackers), abs=1e-15)
    for noise, place in (((1e-3, 0), 0), ((0, 1e-3), 1)):
        none = np.zeros(agents)
        pair = [one_round(form, graphs, noise, none, none) for form in ("literal", "compact")]
        of_noise.append(bool(np.abs(pair[0][place] - pair[1][place]).max() > 1e-6))
    assert of_noise == [True, True] and (gaps[1:] > 0.1).all()
    assert (gaps[0] == 0) == (graph == "rings")  # where what is sent and received is equal


def test_a_claim_that_forms_agree():
    (spec,) = [spec for spec in runs() if spec.run == "s2-literal"]
    budgets = budgets_of_runs([spec], STUDY)
    test = {"kind": "forms_agree", "run": "s2-literal"}
    (found,) = judged(test, budgets)
    assert found.outcome == "contradicted"
    # α = 0.1 and β = 0.01: all receive 1 in sum, and send 0.5 to 1.5 of their trackers.
    told = "0.005 of trackers, 0.1 of noise on states, 0.015 of noise on trackers"
    assert told in found.evidence
    (agreeing,) = judged(test, budgets.assign(form_gap=0 * budgets["form_gap"]))
    assert agreeing.outcome == "reproduced"
    with pytest.raises(FedatlasError, match="has no form gaps: they are of DP-GT's runs"):
        judged(test, budgets.drop_vars("form_gap"))


def test_drift_of_the_runs_of_figures_4_and_5():
    """After 2000 iterations; of [36] γ s √(K/n), of [43] κ σ √(2K/n)."""
    found = {
        name: noise_drift(spec, spec.rounds)[-1]
        for name, spec in drift_runs().items()
        if name in ("s1-0.1", "s1-0.1-unbalanced", "s1-0.1-rings", "s2-0.9996", "unbalanced",
                    "rings", "kang-2021", "kang-2021-matched", "chen-wang-2025", "wang-zhang-2024")
    }  # fmt: skip
    assert found == pytest.approx(
        {
            "s1-0.1": 2.15,
            "s1-0.1-unbalanced": 1.07,
            "s1-0.1-rings": 0,
            "s2-0.9996": 1.02,
            "unbalanced": 0.522,
            "rings": 0,
            "kang-2021": 0.1 * 0.4493 * 20,
            "kang-2021-matched": 0.1 * 0.6354 * 20,
            "chen-wang-2025": 0,
            "wang-zhang-2024": 0.1 * 0.4493 * np.sqrt(2) * 20,
        },
        rel=5e-3,
    )


def test_other_methods_are_not_known():
    specs = plan_of_all().runs_of("dpgt-mnist-cpu")
    assert not any(np.isnan(noise_drift(spec, 3)).any() for spec in specs)
    unlisted = drift_runs()["kang-2021"].model_copy()
    with pytest.MonkeyPatch.context() as patched:
        patched.delitem(budgets._SINGLE, unlisted.algorithm)
        assert np.isnan(noise_drift(unlisted, 3)).all()


def brute(scheme, horizon, state_weight, tracker_weight):
    """Lemma 3's ε of k = 0 … K by Lemma 2's recursion, a release at a time, C = 1."""
    steps, noise = scheme.steps(horizon), scheme.noise(horizon)
    moved = lemma_2(steps, state_weight, tracker_weight, horizon)
    parts = zip(moved.state, moved.tracker, *noise, strict=True)
    return sum(state / zeta + tracker / eta for state, tracker, zeta, eta in parts)


FAR_SCHEMES = {
    "powers": S1(
        **{"alpha_factor": 0.6, "beta_factor": 0.9, "gamma_factor": 2.0, "samples_factor": 0.01},
        **{"p_alpha": 0.76, "p_beta": 0.51, "p_gamma": 0.885, "p_m": 1.6},
        **{"p_zeta": 0.1, "p_eta": -0.2},
    ),
    "exponentials": S2(
        **{"alpha": 0.075, "beta": 0.5, "gamma": 0.009, "samples_base": 1.011},
        **{"p_zeta": 0.994, "p_eta": 0.99},
    ),
    "couplings that coincide": S2(
        **{
            "alpha": 0.2,
            "beta": 0.2,
            "gamma": 0.1,
            "samples_base": 1.0,
            "p_zeta": 0.9,
            "p_eta": 0.9,
        }
    ),
}


@pytest.mark.parametrize("scheme", FAR_SCHEMES.values(), ids=FAR_SCHEMES)
@pytest.mark.parametrize("horizon", [1, 100, 3000])
def test_closed_sums_are_those_of_lemma_3(scheme, horizon):
    agents = [(1.0, 1.0), (0.5, 1.5), (1.0, 1.0)]
    steps = scheme.steps(horizon)
    for weights in agents:
        by_recursion = lemma_2(steps, *weights, horizon)
        closed = closed_lemma_2(steps, *weights, horizon)
        np.testing.assert_allclose(closed.state, by_recursion.state, rtol=1e-8)
        np.testing.assert_allclose(closed.tracker, by_recursion.tracker, rtol=1e-8)
    expected = log10(max(brute(scheme, horizon, *weights) for weights in agents))
    assert far_epsilon(scheme, horizon, agents) == pytest.approx(expected, abs=1e-8)


def test_far_sums_of_exponentials_are_beyond_all_numbers_but_their_logarithms():
    scheme = FAR_SCHEMES["exponentials"]
    far, further = (far_epsilon(scheme, horizon, [(1.0, 1.0)]) for horizon in (10**5, 10**6))
    # The tracker's noise falls faster: ε goes as K (1.011 · 0.99)^−K, 1/(1.011 · 0.99) = 0.9991.
    assert further - far == pytest.approx(-9e5 * log10(1.011 * 0.99) + 1, rel=1e-6)


def far_budgets(levels, missed=""):
    horizons = np.geomspace(100, 1e6, len(levels)).round().astype(int)
    return xr.Dataset(
        {"log_far_epsilon": (("case", "far_horizon"), [levels])},
        {"run": ("case", ["a"]), "far_horizon": horizons, "finite_without": ("case", [missed])},
    )


@pytest.mark.parametrize(
    ("levels", "missed", "outcome"),
    [
        ([1, 3, 2, 1, 0, -1, -2], "", "reproduced"),
        ([0, 1, 2, 3, 4, 5, 6], "", "contradicted"),
        ([0, 1, 2, 3, 4, 5, 4.9], "", "not testable"),  # too late to be called falling
        ([3, 2, 1, 0, -1, 0, -1], "", "not testable"),
        ([0, 1, 2, 3, 4, 5, 6], "Theorem 4: a1 < 1", "not covered"),
    ],
)
def test_a_budget_is_finite_if_it_falls_at_far_horizons(levels, missed, outcome):
    test = {"kind": "budget_bounded", "run": "a"}
    (found,) = judged(test, far_budgets([float(level) for level in levels], missed))
    assert found.outcome == outcome and missed in found.evidence


def test_the_study_has_far_horizons_of_gradient_tracking_if_asked():
    asked = STUDY.model_copy(update={"last_horizon": 1, "far_horizon": 10_000})
    own = [spec for spec in runs() if spec.run in ("s1-0.1", "s2-literal", "kang-2021")]
    found = budgets_of_runs(own, asked)
    assert found.sizes["far_horizon"] == 21
    of_lemma = found["accounting"] == "Lemmas 2 and 3"
    assert np.isfinite(found["log_far_epsilon"]).all("far_horizon").equals(of_lemma)
    at_100 = found["log_far_epsilon"].isel(far_horizon=0)
    for spec, case in zip(own[:2], np.flatnonzero(of_lemma), strict=True):
        scheme = build_algorithm(spec).scheme
        agents = zip(*(each.sum(axis=1) for each in spec.graph_weights), strict=True)
        expected = max(brute(scheme, 100, *agent) for agent in agents)
        assert at_100[case] == pytest.approx(log10(expected))
    (s1,) = {*found["finite_without"].to_numpy()[found["run"] == "s1-0.1"]}
    assert s1.startswith("Theorem 4: a1 max_i Σ_j R_ij < 1: 72 < 1")
    with pytest.raises(FedatlasError, match="run 'kang-2021' has no budgets of far horizons"):
        judged({"kind": "budget_bounded", "run": "kang-2021"}, found)
