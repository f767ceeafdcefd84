"""The quantisers of certificates, and the table that erratum DP-1 prints."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certificates._shared import lattice_rounded, step_rounded, ternary

LEVELS, QUANTUM = 6, 0.25

ring = np.roll(np.eye(5), 1, axis=0)
"""Directed: i receives from i − 1 alone, with weight 1."""

undirected_ring = (ring + ring.T) / 2


def off_diagonal(weights):
    return weights - np.diag(np.diag(weights))


def in_laplacian(weights):
    return np.diag(off_diagonal(weights).sum(axis=1)) - off_diagonal(weights)


def assert_close(one, other):
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-11)


# --- Quantisers -----------------------------------------------------------------------------------


def averaged(quantiser, x, count=2000):
    """The mean over numbers spread evenly in [0, 1), each coordinate in an order of its own."""
    even = (np.arange(count) + 0.5) / count
    random = np.random.default_rng(0)
    uniforms = np.stack([random.permutation(even) for _ in x], axis=1)
    return np.mean([quantiser(x, u) for u in uniforms], axis=0)


entries = st.lists(st.floats(-4, 4), min_size=1, max_size=4).map(np.array)


@settings(deadline=None, max_examples=15)
@given(x=entries)
def test_quantisers_are_unbiased(x):
    """An even spread of 2000 numbers misses a probability by 1/2000 at most."""
    for quantiser, gap in (
        (lambda x, u: ternary(x, 4.5, u), 4.5),
        (lambda x, u: lattice_rounded(x, 4.0, LEVELS, u), 8 / (LEVELS - 1)),
        (lambda x, u: step_rounded(x, QUANTUM, u), QUANTUM),
    ):
        np.testing.assert_allclose(averaged(quantiser, x), x, rtol=0, atol=gap / 2000 + 1e-12)


def test_quantisers_go_up_or_away_from_zero_below_the_probability():
    x = np.array([-0.3, 0.3, 0.0])
    low, high = np.full(3, 0.1), np.full(3, 0.9)
    assert_close(ternary(x, 1.0, low), [-1.0, 1.0, 0.0])
    assert_close(ternary(x, 1.0, high), [0.0, 0.0, 0.0])
    assert_close(step_rounded(x, 0.2, low), [-0.2, 0.4, 0.0])
    assert_close(step_rounded(x, 0.2, high), [-0.4, 0.2, 0.0])
    # four levels: −0.6, −0.2, 0.2, 0.6
    assert_close(lattice_rounded(x, 0.6, 4, low), [-0.2, 0.6, 0.2])
    assert_close(lattice_rounded(x, 0.6, 4, high), [-0.6, 0.2, -0.2])
    # at the ends, and clipped to them
    ends = np.array([-0.6, 0.6, 7.0])
    for u in (np.zeros(3), high):
        assert_close(lattice_rounded(ends, 0.6, 4, u), [-0.6, 0.6, 0.6])
    assert_close(ternary(np.array([-7.0, 1.0, 2.0]), 1.0, np.full(3, 0.999)), [-1.0, 1.0, 1.0])


# --- DP-1 -----------------------------------------------------------------------------------------


ITERATIONS = 2000
GRAPHS = {"undirected": undirected_ring, "directed": ring}
SETTINGS = {
    "S1": (0.04, 0.005, 0.05, lambda k: (k + 1) ** 0.1),
    "S2": (0.1, 0.01, 0.1, lambda k: 0.9996**2000),
}
# of errata DP-1: the mean state, the distance to it and the sum of trackers
PRINTED = {
    ("undirected", "S1", "literal"): (14.7, 0.205, 1.38),
    ("undirected", "S1", "compact"): (0.0, 0.466, 0.0),
    ("directed", "S1", "literal"): (14.5, 0.407, 1.36),
    ("directed", "S1", "compact"): (0.0, 0.574, 0.0),
    ("undirected", "S2", "literal"): (14.6, 0.068, 0.62),
    ("undirected", "S2", "compact"): (0.0, 0.152, 0.0),
    ("directed", "S2", "literal"): (14.7, 0.137, 0.63),
    ("directed", "S2", "compact"): (0.0, 0.195, 0.0),
}


def exact_deviations(weights, setting, literal, iterations):
    """The three standard deviations from the covariance of (x, y), without a draw."""
    alpha, beta, gamma, sigma = SETTINGS[setting]
    L, unit, none = in_laplacian(weights), np.eye(5), np.zeros((5, 5))  # a ring: L1 = L2
    noise = weights if literal else -L
    step = np.block([[unit - alpha * L, -gamma * unit], [none, unit - beta * L]])
    drive = np.block([[alpha * noise, none], [none, beta * noise]])
    covariance = np.zeros((10, 10))
    for k in range(iterations):
        covariance = step @ covariance @ step.T + 2 * sigma(k) ** 2 * drive @ drive.T
    mean = np.full(5, 0.2)
    states, trackers = covariance[:5, :5], covariance[5:, 5:]
    around = unit - np.outer(np.ones(5), mean)
    variances = (
        mean @ states @ mean,
        np.trace(around @ states @ around.T) / 5,
        trackers.sum(),
    )
    return np.sqrt(np.maximum(variances, 0.0))


@pytest.mark.parametrize(("graph", "setting", "form"), PRINTED)
def test_noise_alone_moves_the_states_as_printed(graph, setting, form):
    """DP-1's table for the two rings follows from the covariances."""
    found = exact_deviations(GRAPHS[graph], setting, form == "literal", ITERATIONS)
    np.testing.assert_allclose(found, PRINTED[graph, setting, form], rtol=0.03, atol=1e-6)
