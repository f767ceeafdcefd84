"""Theorems of VFB² beside runs: constants of parties' problems, delays, bounds."""

import random
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import log, sqrt
from types import SimpleNamespace

import numpy as np
import pytest

import reference_vertical as reference
from fedatlas.algorithms.vfb2_saga import Vfb2Saga
from fedatlas.algorithms.vfb2_sgd import Vfb2Sgd
from fedatlas.algorithms.vfb2_svrg import Vfb2Svrg
from fedatlas.evaluation.bounds import (
    COLUMNS,
    GRADIENT,
    LAST_SUBOPTIMALITY,
    SQUARED_GRADIENT,
    Bound,
    read_theory,
)
from fedatlas.evaluation.tables import to_csv
from fedatlas.federations.vertical import Vertical
from fedatlas.federations.vertical.shards import PartyRows
from fedatlas.figures.theory import compose_theory
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.runs import RunSpec
from fedatlas.studies import theory as study
from fedatlas.theorems import theorems_on
from fedatlas.theory.constants import PartyConstants, constants_of
from fedatlas.theory.theorems import Course, Delays, delays_of, largest_step
from reference import PARTS
from trace_factory import vertical_trace

STARTS = np.array([0, 2, 3, 6])
OBJECTIVES = {
    "logistic_l2": LinearObjective(name="logistic_l2", weight=0.1),
    "logistic_nonconvex": LinearObjective(name="logistic_nonconvex", weight=0.05),
    "ridge_regression": LinearObjective(name="ridge_regression", weight=0.1),
    "robust_regression": LinearObjective(name="robust_regression"),
}


def party_rows(seed: int = 0) -> PartyRows:
    draw = np.random.default_rng(seed)
    label = np.where(draw.random(12) < 0.5, 1.0, -1.0)
    return PartyRows(draw.normal(size=(12, 6)), label, STARTS)


def sample_gradient(name: str, rows: PartyRows, sample: int, w: np.ndarray) -> np.ndarray:
    """∇f_i(w), from the formulas of the paper."""
    X, y = rows.features[[sample]], rows.label[[sample]]
    return reference.gradient(X, y, w, *PARTS[name], OBJECTIVES[name].regularisation_weight)


def value(name: str, rows: PartyRows, w: np.ndarray) -> float:
    weight = OBJECTIVES[name].regularisation_weight
    return reference.objective(rows.features, rows.label, w, *PARTS[name], weight)


# ------------------------------------------------------------------------------------- constants


@pytest.mark.parametrize("name", OBJECTIVES)
def test_constants_hold_at_random_points(name):
    rows = party_rows()
    constants = constants_of(rows, OBJECTIVES[name])
    draw, start = np.random.default_rng(1), value(name, rows, np.zeros(6))
    steepest, largest, changes = np.zeros(3), 0.0, 0.0
    for _ in range(200):
        w = draw.normal(size=6) * 10 ** draw.uniform(-3, 1)
        sample = int(draw.integers(12))
        gradient = sample_gradient(name, rows, sample, w)
        v = w + draw.normal(size=6) * 10 ** draw.uniform(-3, 0)
        moved = sample_gradient(name, rows, sample, v) - gradient
        changes = max(changes, np.linalg.norm(moved) / np.linalg.norm(v - w))
        if constants.convexity is not None:
            assert moved @ (v - w) >= constants.convexity * (v - w) @ (v - w) - 1e-9
        inside = constants.convexity is None or value(name, rows, w) <= start
        for party, (first, end) in enumerate(pairwise(STARTS)):
            u = w.copy()
            u[first:end] += draw.normal(size=end - first) * 10 ** draw.uniform(-3, 0)
            turned = (sample_gradient(name, rows, sample, u) - gradient)[first:end]
            steepest[party] = max(steepest[party], np.linalg.norm(turned) / np.linalg.norm(u - w))
            if inside:
                largest = max(largest, float(gradient[first:end] @ gradient[first:end]))
    assert changes <= constants.smoothness * (1 + 1e-6)
    # Reached exactly, up to rounding, where a party has one column.
    assert (steepest <= np.array(constants.block_smoothness) * (1 + 1e-6)).all()
    assert largest <= constants.gradient_bound
    # Not far above what there is.
    assert constants.smoothness < 3 * changes
    assert constants.largest_smoothness == max(
        constants.smoothness, float(name != "robust_regression")
    )


def test_strong_convexity_is_the_weight_of_the_l2_regulariser():
    rows = party_rows()
    assert constants_of(rows, OBJECTIVES["ridge_regression"]).convexity == 0.1
    assert constants_of(rows, OBJECTIVES["robust_regression"]).convexity is None
    nonconvex = constants_of(rows, OBJECTIVES["logistic_nonconvex"])
    assert nonconvex.gap == pytest.approx(log(2)) and nonconvex.optimum is None
    convex = constants_of(rows, OBJECTIVES["logistic_l2"])
    assert convex.gap == pytest.approx(log(2) - convex.optimum) and convex.samples == 12


# ---------------------------------------------------------------------------------------- delays


def measured_delays(result: reference.Result, parties: int) -> tuple[int, int, int, int, int]:
    """τ1, τ2, η1, η2 and v(t), from the definitions: labels "after read", then sets by search."""
    iterations = result.iterations
    events = [(it.summed, 3, it.number, it.dominator) for it in iterations]
    events += [
        (done.time, 0, done.iteration, done.party)
        for done in result.applications
        if done.party != iterations[done.iteration].dominator
    ]
    events.sort()
    label = {(number, party): t for t, (_, _, number, party) in enumerate(events)}
    applied: list[list[int]] = [[] for _ in range(parties)]
    for done in result.applications:
        applied[done.party].append(label[done.iteration, done.party])
    reads = 0
    for it in iterations:
        now = label[it.number, it.dominator]
        for party in range(parties):
            missing = applied[party][it.applied_at_read[party] :]
            reads = max([reads, *(now - u for u in missing if u < now)])
    for order in applied:  # collaborators read their own block where they apply
        for place, now in enumerate(order):
            reads = max([reads, *(now - u for u in order[place + 1 :] if u < now)])
    since = [label[n, party] - label[n, iterations[n].dominator] for _, _, n, party in events]
    blocks = [party for *_, party in events]
    windows, ends = [], {}
    for t in range(len(blocks) - 1, -1, -1):
        ends[blocks[t]] = t
        if len(ends) == parties:
            windows.append(max(ends.values()) - t + 1)
    epochs, visited = 0, set()
    for party in blocks:
        visited.add(party)
        if len(visited) == parties:
            epochs, visited = epochs + 1, set()
    return reads, max(since), max(windows), max(since), epochs


def test_delays_bound_those_of_simulated_networks():
    random.seed(4)
    for trial in range(12):
        q = random.randint(1, 5)
        widths = [random.randint(1, 5) for _ in range(q)]
        columns = [list(part) for part in np.split(np.arange(sum(widths)), np.cumsum(widths)[:-1])]
        draw = np.random.default_rng(trial)
        result = reference.simulate(
            "sgd",
            draw.normal(size=(5, sum(widths))),
            np.ones(5),
            columns,
            [0] * 60,
            60,
            1e-3,
            "logistic",
            dominators=random.randint(1, q),
            seconds_per_feature=Fraction(1),
            latency=Fraction(random.choice([0, 1, 7, 40])),
            slowdown=[1] * (q - 1) + [Fraction(random.choice([1, 3, 10]))],
        )
        reads, communication, window, spread, epochs = measured_delays(result, q)
        assert (result.tau_1, result.tau_2) == (reads, communication)
        exact = Delays(reads, communication)
        assert spread == communication  # η2 is τ2
        assert window <= exact.window
        assert epochs + 1 >= exact.epochs(len(result.applications)) - window


def test_delays_are_those_of_the_seed_with_the_longest():
    rising = {"tau_1": 3.0, "tau_2": 4.0, "eta_1": 5.0}
    seeds = {name: np.array([[0, n], [0, n + 1], [0, 99]]) for name, n in rising.items()}
    trace = vertical_trace([[1.0, 0.5], [1.0, 0.5], [1.0, np.nan]], parties=3, **seeds)
    assert delays_of(trace) == Delays(4, 5, 6)
    assert delays_of(trace.drop_vars("eta_1")).window == 2 * 5 + 1


def test_one_party_has_no_delays():
    delays = delays_of(vertical_trace([[1.0, 0.5]], parties=1))
    assert (delays.reads, delays.communication, delays.window) == (0, 0, 1)
    assert (delays.convex, delays.nonconvex, delays.epochs(7)) == (1, 0, 7)


# -------------------------------------------------------------------------------------- theorems


def constants(**more) -> PartyConstants:
    declared = {
        "parties": 4,
        "samples": 100,
        "smoothness": 1.0,
        "block_smoothness": (0.5,) * 4,
        "regulariser_smoothness": 0.0,
        "gradient_bound": 1.0,
        "convexity": None,
        "gap": 0.5,
        "optimum": None,
    }
    return PartyConstants(**declared | more)


def course(reached: float = 1e-3, updates: int = 1000, delay: float = 2.0, q: int = 4) -> Course:
    levels = dict.fromkeys((LAST_SUBOPTIMALITY, GRADIENT, SQUARED_GRADIENT), reached)
    return Course(10, levels.__getitem__, updates, q * updates, Delays(delay, delay))


def test_theorem_1_as_printed_at_the_papers_values():
    """Errata VF-5: μ = 1e-4, L = 0.25, G = 1, ε = 1e-3: γ ≤ 2.6e-5, 3.8e9 · 7.2 epochs."""
    problem = constants(smoothness=0.25, block_smoothness=(0.2,), convexity=1e-4, gap=0.693)
    printed, _ = theorems_on(Vfb2Sgd(step_size=0.5), problem, course())
    (step,) = printed.steps
    assert step.bound == pytest.approx(1e-3 * 1e-4 ** (1 / 3) / (96 * 0.0625) ** (1 / 3))
    assert step.bound == pytest.approx(2.6e-5, rel=0.03)
    assert "gradients bounded at all w" in printed.lacks and "v(t) ≥ 2.7e+10" in printed.lacks
    # Steps promise ε = γ (96 G L²)^(1/3)/μ^(1/3), epochs far less.
    by_step = 0.5 * (96 * 0.0625) ** (1 / 3) / 1e-4 ** (1 / 3)
    assert printed.bound.after(printed.epochs) >= by_step
    assert not printed.covers


def test_the_epochs_of_theorem_1_are_those_of_its_formula():
    problem = constants(convexity=0.5)
    (printed, _), v = theorems_on(Vfb2Sgd(step_size=1e-9), problem, course(updates=10**6)), None
    level, v = printed.bound.floor, printed.epochs
    assert v == 4 * 10**6 / 5  # η1 ≤ 2 · 2 + 1
    assert 44 / (0.5 ** (4 / 3) * level) * log(2 * 0.5 / level) == pytest.approx(v)


def test_theorem_1_by_its_proof():
    """(34) with L = G = 1, μ = 0.5, τ = 25, γ = 0.01."""
    problem = constants(convexity=0.5)
    _, proved = theorems_on(Vfb2Sgd(step_size=0.01), problem, course())
    gamma, tau, mu = 0.01, 25.0, 0.5
    c = gamma**3 * tau**1.5 / 2 + gamma**2 * tau**0.5 / 2 + 5 * gamma**3 * tau**1.5
    floor = c * 2 / (1 - 2 * gamma**2 * tau) * 2 / (gamma * mu)
    assert proved.bound.floor == pytest.approx(floor)
    assert proved.bound.contraction == 1 - gamma * mu / 2 and proved.bound.start == 0.5
    assert proved.steps[0].bound == pytest.approx(1 / sqrt(2 * tau))
    assert proved.covers and proved.epochs == 4000 / 5
    # A step that is too large is promised what the best covered one gives.
    _, large = theorems_on(Vfb2Sgd(step_size=1.0), problem, course())
    assert not large.covers
    assert large.bound.after(large.epochs) <= proved.bound.after(proved.epochs)


def test_theorem_2_as_printed():
    problem = constants(convexity=0.5)
    printed, proved = theorems_on(Vfb2Svrg(step_size=1e-6), problem, course())
    gamma, mu, tau, eta = printed.steps[0].bound, 0.5, 25.0, 5.0
    c = (gamma + 1) * gamma**2 / 2
    rho = gamma * mu / 2 - 16 * eta * c / mu
    assert rho > 0 and 8 * tau**0.5 * c / (rho * mu) == pytest.approx(0.05)  # condition 3 is tight
    assert proved.steps[0].bound < gamma  # its C has a τ that the printed one lacks
    # 4000/5 epochs in ten outer loops are too few for log 0.25/log(1 − ρ) at this step.
    assert "v(t) ≥ 5.5e+06 in a loop" in printed.lacks and printed.bound is None
    long = course(updates=10**10)
    printed, _ = theorems_on(Vfb2Svrg(step_size=1e-6, inner_passes=10**7), problem, long)
    assert printed.lacks == "gradients bounded at all w (Assumption 1.3)" and printed.epochs == 10
    gamma = 1e-6
    c = (gamma + 1) * gamma**2 / 2
    rho = gamma * mu / 2 - 16 * eta * c / mu
    fourth = gamma**2 * tau**1.5 * (28 * c + 5 * gamma) * 2 * 18 / (1 - 2 * gamma**2 * tau) / rho
    # ε is eight times the left side of condition 4; (3/4)^S e⁰ + ε/2.
    assert printed.bound.after(10) == pytest.approx(0.75**10 * 0.5 + 4 * fourth)


def test_theorem_2_leaves_an_error_that_falls_with_the_step_squared():
    """So γ ∝ √ε, and epochs grow like ε^(-1/2) log 1/ε: not linear convergence to any ε."""
    problem, long = constants(convexity=0.5), course(updates=10**14)
    floors = [
        theorems_on(Vfb2Svrg(step_size=step, inner_passes=10**11), problem, long)[0].bound.floor
        for step in (1e-7, 1e-8)
    ]
    assert floors[0] / floors[1] == pytest.approx(100, rel=1e-3)


def test_theorem_3_promises_no_level_below_the_start():
    draw = np.random.default_rng(0)
    for _ in range(30):
        mu = 10 ** draw.uniform(-4, 0)
        smoothness, gradient = mu * 10 ** draw.uniform(0, 4), 10 ** draw.uniform(-3, 2)
        # By strong convexity f(w⁰) − f* ≤ ‖∇f(w⁰)‖²/(2 μ) ≤ q G/(2 μ).
        gap = 4 * gradient / (2 * mu)
        problem = constants(
            convexity=mu, smoothness=smoothness, gradient_bound=gradient, gap=gap,
            samples=int(10 ** draw.uniform(0.5, 4)),
        )  # fmt: skip
        step = 10 ** draw.uniform(-12, 0)
        for found in theorems_on(Vfb2Saga(step_size=step), problem, course(updates=10**12)):
            assert found.bound is None or found.bound.after(found.epochs) > gap


def test_theorem_4():
    """(116) with L = G = 1, q = 4, τ = 4, γ = 0.01 after 1000 dominated updates."""
    printed, proved = theorems_on(Vfb2Sgd(step_size=0.01), constants(), course(reached=0.1))
    spread = (22 * 1e-4 * 4 + 0.02) * 4 / (1 - 6 * 1e-4 * 4) * 4
    assert proved.bound.after(1000) == pytest.approx(4 * 0.5 / (1000 * 0.01) + spread)
    assert proved.steps[0].bound == pytest.approx(1 / sqrt(24)) and proved.covers
    assert printed.steps[0].bound == pytest.approx(0.1 / 4)  # ε/(L q G)
    assert printed.lacks == "" and printed.covers  # 0.5 · 4/0.01 = 200 updates suffice
    assert printed.bound.floor == pytest.approx(max(0.01 * 4, sqrt(0.5 * 4 / 1000)))
    few, _ = theorems_on(Vfb2Sgd(step_size=0.01), constants(), course(reached=0.1, updates=100))
    assert few.lacks == "T ≥ 2e+02"


def test_theorem_5():
    """N = n = 100: γ L ≤ 1/(2 N) binds; Γ_* by its formula."""
    printed, proved = theorems_on(Vfb2Svrg(step_size=0.004), constants(), course())
    assert printed.steps[0].bound == pytest.approx(1 / 200) and printed.bound is None
    x, tau = 0.004, 4.0
    c0 = x / 2 * ((1 + 2 * x) ** 100 - 1) / (2 * x)  # over L
    rest = 1 - 20 * x**2 * tau
    gamma = 0.004 * (0.5 - 2 / rest * (10 * x**2 * tau + x + 2 * c0 * x))
    gamma /= 2 + 4 * 2 / rest * x**2 * tau
    assert proved.covers and proved.bound.constant == pytest.approx(0.5 / gamma)
    assert proved.bound.after(1000) == pytest.approx(0.5 / (1000 * gamma))


def test_theorem_6_never_promises_less_than_holds_at_the_start():
    for updates in (10, 1000, 10**6):
        printed, proved = theorems_on(
            Vfb2Saga(step_size=1e-9), constants(), course(updates=updates)
        )
        assert printed.steps[0].bound == pytest.approx(1 / (4 * updates), rel=1e-6)
        assert proved.bound.after(updates) > 16 * 0.5 > 2 * 0.5  # ‖∇f(w⁰)‖² ≤ 2 L (f(w⁰) − f*)


def test_conditions_of_small_smoothness_are_named():
    small = constants(smoothness=0.5, block_smoothness=(0.5,))
    assert theorems_on(Vfb2Saga(step_size=1e-9), small, course())[1].lacks == "L_* ≥ 1"


def test_methods_without_theorems_have_none():
    assert theorems_on(SimpleNamespace(), constants(), course()) == []


def test_the_largest_step_is_found():
    assert largest_step(lambda step: step**2 < 4) == pytest.approx(2)
    assert largest_step(lambda step: True) == np.inf and largest_step(lambda step: False) == 0


# ------------------------------------------------------------------------------ table and figure


def test_the_table_and_the_figure_of_parties(tmp_path, monkeypatch):
    rows = party_rows()
    monkeypatch.setattr(Vertical, "read", lambda files: rows)
    falling = np.geomspace(0.3, 0.01, 11) * np.array([[1.0], [1.1]])
    trace = vertical_trace(falling, parties=3, run="a")
    spec = RunSpec(
        paper="ours",
        experiment="e",
        run="a",
        point="p",
        dataset="d",
        split="train",
        partition={"kind": "vertical", "parties": 3, "active": 3, "seed": 0},
        objective={"name": "logistic_nonconvex", "weight": 0.05},
        algorithm="vfb2_sgd",
        hyper_parameters={"step_size": 1e-5},
        rounds=100,
        record_every=10,
        seeds=(0, 1),
    )
    trace.attrs["specification"] = spec.model_dump_json()
    trace.attrs["point"] = spec.point
    table = study.theorems_of_runs({"a": {"p": trace}}, tmp_path)
    path = tmp_path / "theory.csv"
    path.write_text(to_csv(table, COLUMNS))
    printed, proved = read_theory(path)
    assert (proved.theorem, proved.cost, proved.counted) == (
        "Theorem 4",
        "update_epoch",
        "dominated updates",
    )
    assert proved.covered and proved.slack == pytest.approx(proved.promised / proved.measured)
    assert proved.bound(np.array([proved.spent])) == pytest.approx(proved.promised)
    assert proved.at_start == pytest.approx(falling[:, 0].mean())  # of ‖∇f‖²
    canvas = compose_theory("title", {"a": "A"}, {"a": {"p": trace}}, [printed, proved])
    *_, place = canvas.axes
    assert place.get_xlabel() == "dominated updates per training sample"
    assert len(place.lines) == 2  # what was measured, and the bound
    np.testing.assert_allclose(place.lines[1].get_ydata()[-1], proved.promised)
    # Of a run that no theorem covers, the smallest step is shown.
    larger = replace(proved, point="larger", step=1e-2, covered=False)
    rows = [larger, replace(proved, covered=False)]
    steeper = trace.copy(deep=True)
    steeper["gradient_norm"] *= 0.5
    canvas = compose_theory("title", {"a": "A"}, {"a": {"larger": steeper, "p": trace}}, rows)
    *_, uncovered = canvas.axes
    assert "no theorem covers" in uncovered.get_title()
    np.testing.assert_array_equal(uncovered.lines[0].get_ydata(), place.lines[0].get_ydata())


def test_bounds_are_sums_of_their_parts():
    bound = Bound("x", "y", constant=6, start=8, contraction=0.5, floor=1)
    assert bound.after(3) == 2 + 1 + 1
