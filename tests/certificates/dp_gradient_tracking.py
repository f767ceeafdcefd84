"""DP-GT (arXiv:2501.06793): (4) and (6) as printed, (7) and (8), and released trackers.

    literal:
      x_i ← (1 − α Σ_j R_ij) x_i + α Σ_j R_ij (x_j + ζ_j) − γ y_i
      y_i ← (1 − β Σ_j C_ij) y_i + β Σ_j C_ij (y_j + η_j) + g_i⁺ − g_i
    compact:
      x_i ← x_i + α Σ_j R_ij (x_j + ζ_j − x_i − ζ_i) − γ y_i
      y_i ← y_i + β Σ_j (C_ij (y_j + η_j) − C_ji (y_i + η_i)) + g_i⁺ − g_i
    provable:
      x_i ← x_i + α Σ_j R_ij (x_j − x_i) − γ (y_i + η_i),  y_i as compact

y = g at first; gradients are at x, never at what was sent. Erratum DP-1: C has column sums in (8).
"""

from math import floor

import numpy as np
from _shared import clipped, pulled


def start(problem, x0, hyper):
    return {"x": x0}


def constants(hyper, k):
    """α, β, γ, m, and the scales of ζ and η at k."""
    own, K = hyper.scheme, hyper.horizon
    if own["name"] == "s1":
        steps = [own[f"{n}_factor"] / (K + 1) ** own[f"p_{n}"] for n in ("alpha", "beta", "gamma")]
        m = floor(own["samples_factor"] * K ** own["p_m"]) + 1
        return *steps, m, (k + 1) ** own["p_zeta"], (k + 1) ** own["p_eta"]
    steps = [own[n] for n in ("alpha", "beta", "gamma")]
    if own["name"] == "s2":
        m = floor(own["samples_base"] ** K) + 1
        return *steps, m, own["p_zeta"] ** K, own["p_eta"] ** K
    return *steps, own["samples"], own["state_noise_scale"], own["tracker_noise_scale"]


def step(state, draws, problem, hyper):
    def gradients(x, batch):
        assert all(len(rows) == m for _, (rows,) in batch)
        return np.array([clipped(problem, hyper, i, x[i], rows) for i, (rows,) in batch])

    R, C, x, drawn = (
        problem.states,
        problem.trackers,
        state["x"],
        iter(draws.numbers.get("laplace", [])),
    )
    alpha, beta, gamma, m, zeta, eta = constants(hyper, draws.round)
    g = gradients(x, draws.batches[0]) if draws.round == 0 else state["g"]
    y = g if draws.round == 0 else state["y"]
    sent_y = y + eta * next(drawn) if eta else y  # trackers draw first
    sent_x = x if hyper.form == "provable" or not zeta else x + zeta * next(drawn)
    if hyper.form == "literal":
        x = x + alpha * pulled(R, x, sent_x) - gamma * y
        mixed = y + beta * pulled(C, y, sent_y)
    else:
        along = sent_y if hyper.form == "provable" else y
        x = x + alpha * pulled(R, sent_x, sent_x) - gamma * along
        mixed = y.copy()
        for i in range(len(y)):
            for j in range(len(y)):
                if j != i:
                    mixed[i] = mixed[i] + beta * (C[i, j] * sent_y[j] - C[j, i] * sent_y[i])
    new = gradients(x, draws.batches[-1])
    return {"x": x, "y": mixed + new - g, "g": new, "_sent": sent_x, "_sent_y": sent_y}
