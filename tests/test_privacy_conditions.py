"""Conditions of DP-GT's theorems, and the numbers of graphs that they are declared in."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedatlas.errors import FedatlasError
from fedatlas.privacy.conditions import (
    Condition,
    GraphQuantities,
    assumption_4,
    assumption_5,
    conditions,
    lemma_1,
    theorem_4,
    theorem_5,
)
from fedatlas.privacy.schemes import S1, S2, Constant, TrackingSteps

QUICK = settings(max_examples=40, deadline=None)

K = 2000
DIRECTED_RING = np.roll(np.eye(5), 1, axis=0)
UNDIRECTED_RING = (DIRECTED_RING + DIRECTED_RING.T) / 2
RINGS = pytest.mark.parametrize("ring", [UNDIRECTED_RING, DIRECTED_RING], ids=["undir.", "dir."])


def s1(**changes) -> S1:
    """Section 4.1, with p_zeta = p_eta = 0.1."""
    values = {
        "alpha_factor": 72,
        "beta_factor": 0.95,
        "gamma_factor": 98,
        "samples_factor": 7e-5,
        "p_alpha": 0.987,
        "p_beta": 0.69,
        "p_gamma": 0.997,
        "p_m": 1.78,
        "p_zeta": 0.1,
        "p_eta": 0.1,
    }
    return S1(**values | changes)


def s2(**changes) -> S2:
    """Section 4.1, with p_zeta = p_eta = 0.9996."""
    values = {"alpha": 0.1, "beta": 0.01, "gamma": 0.1, "samples_base": 1.002}
    return S2(**values | {"p_zeta": 0.9996, "p_eta": 0.9996} | changes)


def named(found: tuple[Condition, ...], name: str) -> Condition:
    (condition,) = (each for each in found if each.name == name)
    return condition


def matching(found: tuple[Condition, ...], part: str) -> list[Condition]:
    return [each for each in found if part in each.name]


@st.composite
def graphs(draw, unit_received=False):
    """Weights (n, n) over a directed ring and more; strongly connected, so Assumption 1 holds."""
    n = draw(st.integers(2, 6))
    more = draw(st.lists(st.booleans(), min_size=n * n, max_size=n * n))
    weight = st.floats(0.2, 3)
    weights = np.array(draw(st.lists(weight, min_size=n * n, max_size=n * n))).reshape(n, n)
    edges = np.array(more).reshape(n, n) & ~np.eye(n, dtype=bool)
    weights = np.where(edges | (np.roll(np.eye(n), 1, axis=0) > 0), weights, 0.0)
    return weights / weights.sum(axis=1, keepdims=True) if unit_received else weights


@st.composite
def pairs_of_graphs(draw, unit_received=False):
    states = draw(graphs(unit_received))
    trackers = draw(graphs(unit_received).filter(lambda weights: len(weights) == len(states)))
    return states, trackers


# --- graph quantities ---


def radius(matrix: np.ndarray) -> float:
    return np.abs(np.linalg.eigvals(matrix)).max()


@QUICK
@given(pairs_of_graphs(), st.floats(0.01, 2), st.floats(0.01, 2))
def test_graph_quantities_are_as_defined(pair, alpha, beta):
    states, trackers = pair
    n = len(states)
    one = np.ones(n)
    found = GraphQuantities.of(states, trackers, alpha, beta)
    of_states = np.array(
        [[states[i].sum() if i == j else -states[i, j] for j in range(n)] for i in range(n)]
    )
    of_trackers = np.array(
        [[trackers[:, j].sum() if i == j else -trackers[i, j] for j in range(n)] for i in range(n)]
    )
    assert found.state_laplacian == pytest.approx(of_states)
    assert found.tracker_laplacian == pytest.approx(of_trackers)
    assert found.states_received == pytest.approx(states @ one)
    assert found.trackers_received == pytest.approx(trackers @ one)
    v1, v2 = found.left_vector, found.right_vector
    assert v1 @ of_states == pytest.approx(0 * one, abs=1e-9)
    assert of_trackers @ v2 == pytest.approx(0 * one, abs=1e-9)
    assert (v1 >= 0).all() and (v2 >= 0).all()
    assert v1.sum() == pytest.approx(n)
    assert v2.sum() == pytest.approx(n)
    assert found.state_radius == pytest.approx(radius(of_states))
    # Lemma 1(ii); eigenvalues of a matrix that cannot be diagonalised are known to half the digits.
    of_lemma = np.eye(n) - alpha * of_states - np.outer(one, v1) / n
    assert 1 - alpha * found.state_rate == pytest.approx(radius(of_lemma), abs=1e-5)
    of_lemma = np.eye(n) - beta * of_trackers - np.outer(v2, one) / n
    assert 1 - beta * found.tracker_rate == pytest.approx(radius(of_lemma), abs=1e-5)
    for projection in (np.eye(n) - np.outer(one, v1) / n, np.eye(n) - np.outer(v2, one) / n):
        assert projection @ projection == pytest.approx(projection)
        assert radius(projection) == pytest.approx(1)


def test_on_paths_only_roots_count():
    """0 → 1 → 2 for states, 2 → 1 → 0 for trackers: agent 0 is the common root."""
    path = np.diag([2.0, 3.0], -1)
    found = GraphQuantities.of(path, path.T, 0.1, 0.1)
    assert found.left_vector == pytest.approx([3, 0, 0])
    assert found.right_vector == pytest.approx([3, 0, 0])
    assert found.state_rate == pytest.approx(2)
    assert found.tracker_rate == pytest.approx(2)
    assert found.state_radius == pytest.approx(3)


def test_rates_of_directed_rings_depend_on_the_coupling():
    """|1 − α + α e^{iθ}| with θ = 72°."""
    for alpha in (0.01, 0.1, 0.5):
        found = GraphQuantities.of(DIRECTED_RING, DIRECTED_RING, alpha, 0.01)
        modulus = abs(1 - alpha + alpha * np.exp(2j * np.pi / 5))
        assert found.state_rate == pytest.approx((1 - modulus) / alpha)
        assert found.state_radius == pytest.approx(2 * np.sin(2 * np.pi / 5))


@pytest.mark.parametrize(
    ("states", "trackers", "message"),
    [
        (np.zeros((3, 3)), np.ones((3, 3)) - np.eye(3), "graphs.states: no agent"),
        (np.diag([1.0, 1.0], -1), np.diag([1.0, 1.0], -1), "Assumption 1"),
    ],
)
def test_graphs_that_have_no_such_numbers(states, trackers, message):
    with pytest.raises(FedatlasError, match=message):
        GraphQuantities.of(states, trackers, 0.1, 0.1)


# --- exponents: DP-4 and DP-7 ---


OF_NOISE = {
    "2p_α − 2p_ζ − p_β ≥ 1": (1.484, 1.084, 0.884),
    "2p_β − 2p_η ≥ 1": (1.58, 1.18, 0.98),
    "p_m − p_β − max(0, 1 − p_η) > 0": (-0.01, 0.19, 0.29),
    "p_m + min(0, p_γ − p_α − p_β) − max(0, 1 − p_ζ) > 0": (0.00, 0.20, 0.30),
}
HOLDS = {-0.1: (True, True, False, False), 0.1: (True,) * 4, 0.2: (False, False, True, True)}


@pytest.mark.parametrize(("place", "p"), list(enumerate([-0.1, 0.1, 0.2])))
def test_noise_of_s1(place, p):
    scheme = s1(p_zeta=p, p_eta=p)
    found = assumption_4(scheme, K, DIRECTED_RING, DIRECTED_RING)
    found += theorem_4(scheme, DIRECTED_RING, DIRECTED_RING)
    for (name, values), holds in zip(OF_NOISE.items(), HOLDS[p], strict=True):
        condition = named(found, name)
        assert condition.value == pytest.approx(values[place], abs=1e-9)
        assert condition.holds is holds
    others = [each for each in found if "p_" in each.name and each.name not in OF_NOISE]
    assert [each.holds for each in others] == [True] * 7


@pytest.mark.parametrize(
    ("changes", "zeta", "eta"),
    [
        ({}, 0.142, 0.19),  # Remark 18 prints 0.15 for both
        ({"p_alpha": 0.96, "p_beta": 0.7, "p_gamma": 0.98}, 0.11, 0.2),  # Remark 10 prints 0.6
    ],
)
def test_how_fast_noise_may_grow(changes, zeta, eta):
    def holds(p_zeta, p_eta):
        scheme = s1(**changes, p_zeta=p_zeta, p_eta=p_eta)
        found = assumption_4(scheme, K, DIRECTED_RING, DIRECTED_RING)
        return [each.holds for each in matching(found, "p_ζ") + matching(found, "p_η")]

    assert holds(zeta, eta) == [True, True]
    assert holds(zeta + 1e-6, eta + 1e-6) == [False, False]


def test_how_fast_noise_may_decay():
    """Remark 18, p_m = 2: above −0.3 is enough, and what it prints is nearly sharp."""
    for p, holds in ((-0.3, True), (-0.33, False)):
        found = theorem_4(s1(p_m=2, p_zeta=p, p_eta=p), DIRECTED_RING, DIRECTED_RING)
        assert [each.holds for each in matching(found, "p_m")] == [holds, holds]


def test_the_sampling_of_theorem_2_is_not_that_of_assumption_4():
    """p_m = φ < 1/3 against p_m − p_β ≥ 1 with p_β ≥ 2/3."""
    scheme = s1(p_m=0.33, p_beta=2 / 3)
    found = named(assumption_4(scheme, K, DIRECTED_RING, DIRECTED_RING), "p_m − p_β ≥ 1")
    assert found.holds is False
    assert found.value == pytest.approx(-0.337, abs=1e-3)


def test_noise_of_states_and_of_trackers_are_told_apart():
    scheme = s1(p_zeta=0.05, p_eta=0.15)
    found = assumption_4(scheme, K, DIRECTED_RING, DIRECTED_RING)
    found += theorem_4(scheme, DIRECTED_RING, DIRECTED_RING)
    values = [named(found, name).value for name in OF_NOISE]
    assert values == pytest.approx([1.184, 1.08, 0.24, 0.15])
    found = assumption_5(s2(p_zeta=0.7, p_eta=0.8), DIRECTED_RING, DIRECTED_RING)
    assert [named(found, name).value for name in ("0 < p_ζ", "p_ζ < 1")] == [0.7, 0.7]
    assert [named(found, name).value for name in ("0 < p_η", "p_η < 1")] == [0.8, 0.8]


@pytest.mark.parametrize(
    ("changes", "violated"),
    [
        ({"p_beta": 0.5}, "1/2 < p_β"),
        ({"p_beta": 0.987}, "p_β < p_α"),
        ({"p_alpha": 0.997}, "p_α < p_γ"),
        ({"p_gamma": 1.0}, "p_γ < 1"),
        ({"p_gamma": 0.99}, "2p_γ − p_α ≥ 1"),
        ({"p_alpha": 0.8}, "2p_α − p_β ≥ 1"),
        ({"p_m": 1.6899}, "p_m − p_β ≥ 1"),
    ],
)
def test_exponents_that_are_not_allowed(changes, violated):
    found = assumption_4(s1(**changes), K, DIRECTED_RING, DIRECTED_RING)
    assert named(found, violated).holds is False
    assert named(assumption_4(s1(), K, DIRECTED_RING, DIRECTED_RING), violated).holds is True


# --- constants: DP-5 and DP-6 ---


@RINGS
def test_constants_of_s1(ring):
    found = assumption_4(s1(), K, ring, ring)
    received = named(found, "a1 < min_i 1/Σ_j R_ij")
    assert (received.value, received.bound, received.holds) == (72, 1, False)
    assert named(found, "a1 < 1/r_L1").holds is False
    assert named(found, "a2 < min_i 1/Σ_j C_ij").holds is True
    assert named(found, "a2 < 1/r_L2").holds is True
    smoothness = named(found, "L for a3 < n/(4 v1ᵀv2 L)")
    assert smoothness.bound == pytest.approx(2.6e-3, rel=0.02)
    assert smoothness.holds is None
    budget = theorem_4(s1(), ring, ring)
    assert named(budget, "a1 max_i Σ_j R_ij < 1").holds is False
    assert named(budget, "a2 max_i Σ_j C_ij < 1").holds is True


COUPLING = "α < √(330n) v1ᵀv2 r_L2 β/(66n ‖v1‖ ρ_W2 ρ_L1)"


@pytest.mark.parametrize(
    ("ring", "largest", "ratio", "second_term", "smallest"),
    [(UNDIRECTED_RING, 0.00105, 95, 1.1e-3, 8.8e-4), (DIRECTED_RING, 0.00099, 101, 9.7e-4, 7.8e-4)],
    ids=["undirected", "directed"],
)
def test_steps_of_s2(ring, largest, ratio, second_term, smallest):
    found = assumption_5(s2(), ring, ring)
    coupling = named(found, COUPLING)
    assert coupling.holds is False
    assert coupling.bound == pytest.approx(largest, rel=5e-3)
    assert coupling.value / coupling.bound == pytest.approx(ratio, abs=0.5)
    # The smoothness that γ = 0.1 allows: the second of Q2's terms is 1.1e-3 and 9.7e-4, the fourth
    # is smaller still.
    of_smoothness = {each.name: each.bound for each in found if each.name.startswith("L for γ")}
    assert len(of_smoothness) == 1 + 3 + 6
    name = "L for γ < Q2 β, term 2 of 6"
    assert of_smoothness.pop("L for γ < Q2 β, term 4 of 6") == pytest.approx(smallest, rel=5e-3)
    assert min(of_smoothness, key=of_smoothness.get) == name
    assert of_smoothness[name] == pytest.approx(second_term, rel=5e-3)


@RINGS
def test_the_steps_of_remark_18(ring):
    """β = 0.1 and γ = 0.01: α = 0.1 is ten times too large on rings."""
    coupling = named(assumption_5(s2(beta=0.1, gamma=0.01), ring, ring), COUPLING)
    assert coupling.value / coupling.bound == pytest.approx(10, abs=1)


@QUICK
@given(pairs_of_graphs(unit_received=True))
def test_no_graph_with_unit_weights_allows_the_coupling_of_s2(pair):
    """√(330n)/(66n) n ‖v1‖ r_L2/(‖v1‖ ρ_L1) with r_L2 ≤ n/(n − 1) ≤ ρ_L1, at n = 5: 0.0062."""
    n = len(pair[0])
    bound = named(assumption_5(s2(), *pair), COUPLING).bound
    assert bound <= np.sqrt(330 * n) / 66 * 0.01 * (1 + 1e-9)
    assert pytest.approx(0.0062, abs=5e-5) == np.sqrt(330 * 5) / 66 * 0.01


def test_bases_of_noise():
    """1/1.002 = 0.998 < p < 1; Remark 18: 1/1.1 = 0.91."""
    for base, lowest in ((1.002, 0.99801), (1.1, 0.9091)):
        for p, holds in ((lowest - 1e-4, False), (lowest + 1e-4, True)):
            scheme = s2(samples_base=base, p_zeta=p, p_eta=p)
            found = theorem_5(scheme, DIRECTED_RING, DIRECTED_RING)
            assert named(found, "1/p_m < p_ζ").holds is holds
            assert named(found, "1/p_m < p_η").holds is holds
    found = assumption_5(s2(samples_base=1.0), DIRECTED_RING, DIRECTED_RING)
    assert named(found, "p_m > 1").holds is False
    assert theorem_5(s2(samples_base=0.0), DIRECTED_RING, DIRECTED_RING)[-1].value == inf


def test_an_agent_that_receives_nothing_has_no_finite_budget():
    path = np.diag(np.ones(4), -1)
    found = theorem_5(s2(), path, path.T)
    assert named(found, "0 < α min_i Σ_j R_ij").holds is False
    assert named(found, "0 < β min_i Σ_j C_ij").holds is False
    assert named(found, "α max_i Σ_j R_ij < 1").holds is True


def test_lemma_1_asks_for_what_trackers_send():
    trackers = DIRECTED_RING + np.outer(np.ones(5), np.eye(5)[0]) * (1 - np.eye(5))
    trackers /= trackers.sum(axis=1, keepdims=True)
    sent = trackers.sum(axis=0).max()
    assert sent > 1.4
    steps = TrackingSteps(0.5, 0.99 / sent, 0.1, 1)
    assert [each.holds for each in lemma_1(steps, DIRECTED_RING, trackers)] == [True] * 4
    steps = replace(steps, tracker_coupling=0.99)
    first, second, *_ = lemma_1(steps, DIRECTED_RING, trackers)
    assert (first.holds, second.holds) == (True, False)
    assert second.value == pytest.approx(0.99 * sent)


def test_couplings_that_do_not_contract():
    *_, state_rate, tracker_rate = lemma_1(
        TrackingSteps(3.0, 3.0, 0.1, 1), DIRECTED_RING, DIRECTED_RING
    )
    assert (state_rate.holds, tracker_rate.holds) == (False, False)
    for found in (
        assumption_4(s1(alpha_factor=3000, beta_factor=600), K, DIRECTED_RING, DIRECTED_RING),
        assumption_5(s2(alpha=3.0, beta=3.0), DIRECTED_RING, DIRECTED_RING),
    ):
        of_rates = matching(found, "1/r_L")
        assert [(each.bound, each.holds) for each in of_rates] == [(0, False)] * 2


def test_couplings_are_bounded_by_the_agent_that_receives_most():
    path = np.diag([2.0, 4.0, 1.0], -1)
    for found in (assumption_4(s1(), K, path, path.T / 2), assumption_5(s2(), path, path.T / 2)):
        assert [each.bound for each in matching(found, "min_i 1/Σ_j")] == [1 / 4, 1 / 2]
        # Of triangular matrices eigenvalues are on the diagonal; the smallest decides.
        assert [each.bound for each in matching(found, "1/r_L")] == pytest.approx([1, 2])


# --- constants of the objective that are not known ---


def by_hand(scheme, states, trackers, smoothness, mu):
    """Right-hand sides of Assumption 5's bounds on γ, from the equations as printed."""
    n = len(states)
    q = GraphQuantities.of(states, trackers, scheme.alpha, scheme.beta)
    r1, r2, rho = q.state_rate, q.tracker_rate, q.state_radius
    rho_w1 = rho_w2 = 1
    v1, v2 = q.left_vector, q.right_vector
    norm1, norm2, inner, lipschitz = (v1 @ v1) ** 0.5, (v2 @ v2) ** 0.5, v1 @ v2, smoothness
    root = norm1**2 * norm2**2 * (16 * lipschitz**2 + 3 * mu)
    q1 = [
        n**0.5 * r1 / (8 * rho_w1 * norm2 * lipschitz),
        (6 * n) ** 0.5 * r1 / (24 * rho_w1 * norm2 * lipschitz),
        norm1 * r1 / (2 * rho_w1 * lipschitz) * (n * mu / root) ** 0.5,
    ]
    q2 = [
        2**0.5 * r2 / (6 * rho_w2 * lipschitz),
        r1 * r2 / (24 * rho_w1 * rho_w2 * rho * lipschitz),
        (2 * n * inner**3) ** 0.5 * r2 / (6 * rho_w2 * norm1 * norm2 * lipschitz),
        inner
        * r1
        * r2
        / (36 * norm1 * norm2 * rho_w2 * lipschitz)
        * (6 / (4 * rho_w1**2 * rho**2 + r1**2)) ** 0.5,
        r2 / (rho_w2 * lipschitz) * (inner / (6 * n)) ** 0.5,
        inner * r2 / (66 * rho_w2 * lipschitz) * (660 * mu / root) ** 0.5,
    ]
    return [
        n / (15 * inner * lipschitz),
        *(term * scheme.alpha for term in q1),
        *(term * scheme.beta for term in q2),
    ]


SMALL_STEPS = st.builds(
    s2, alpha=st.floats(0.001, 0.1), beta=st.floats(0.001, 0.1), gamma=st.floats(1e-6, 0.9)
)


@QUICK
@given(pairs_of_graphs(), SMALL_STEPS)
def test_bounds_on_steps_are_as_printed(pair, scheme):
    """At the smoothness that is named, and the largest μ, the step is the printed bound on it."""
    found = assumption_5(scheme, *pair)
    of_step = matching(found, "L for γ")
    assert len(of_step) == 1 + 3 + 6
    for place, condition in enumerate(of_step):
        assert condition.value is None and condition.relation == "<"
        assert condition.holds is (None if condition.bound > 0 else False)
        if condition.bound > 1e-9:
            bounds = by_hand(scheme, *pair, condition.bound, condition.bound)
            assert bounds[place] == pytest.approx(scheme.gamma)
    graphs, n = GraphQuantities.of(*pair, scheme.alpha, scheme.beta), len(pair[0])
    v1, v2 = graphs.left_vector, graphs.right_vector
    largest = (330 * n) ** 0.5 * (v1 @ v2) * graphs.tracker_rate * scheme.beta
    largest /= 66 * n * (v1 @ v1) ** 0.5 * graphs.state_radius
    assert named(found, COUPLING).bound == pytest.approx(largest)


# --- all of a run, as text ---


def test_steps_that_satisfy_everything():
    scheme = s1(alpha_factor=0.9, beta_factor=0.9, gamma_factor=0.2)
    of_s1 = conditions(scheme, K, DIRECTED_RING, DIRECTED_RING)
    assert len(of_s1) == 4 + 14 + 6
    scheme = s2(alpha=1e-4, beta=0.01, gamma=1e-6)
    of_s2 = conditions(scheme, K, DIRECTED_RING, DIRECTED_RING)
    assert len(of_s2) == 4 + 21 + 6
    assert all(each.bound > 1 if each.value is None else each.holds for each in of_s1 + of_s2)


def test_constants_have_no_theorem_but_lemma_1():
    scheme = Constant(
        alpha=0.1, beta=0.1, gamma=0.1, samples=1, state_noise_scale=1, tracker_noise_scale=1
    )
    found = conditions(scheme, K, DIRECTED_RING, DIRECTED_RING)
    assert found == lemma_1(scheme.steps(K), DIRECTED_RING, DIRECTED_RING)


def test_a_condition_is_a_line():
    found = assumption_5(s2(), DIRECTED_RING, DIRECTED_RING)
    lines = [str(each) for each in found]
    assert not any("\n" in line for line in lines)
    assert "Assumption 5: p_m > 1: 1.002 > 1 holds" in lines
    assert f"Assumption 5: {COUPLING}: 0.1 < 0.0009933 does not hold" in lines
    assert "Assumption 5: L for γ < n/(15 v1ᵀv2 L): must be < 0.667, is not known" in lines
    impossible = assumption_5(s2(alpha=3.0), DIRECTED_RING, DIRECTED_RING)
    line = str(named(impossible, "L for γ < Q1 α, term 1 of 3"))
    assert line.endswith("must be < 0, cannot hold")
