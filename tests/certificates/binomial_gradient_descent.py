"""Yan, Li, Wu, Song 2024 (arXiv:2304.13545), on a graph: the mean gradient is rounded and noised.

g̃_i = round(clip(g_i)) + s (Bin(n_b, ½) − n_b/2),  s = 2C_∞/(L − 1),  n_b = ⌈4 (noise/s)²⌉
x_i ← x_i + κ Σ_j w_ij (x_j − x_i) − γ g̃_i
"""

from math import ceil

import numpy as np
from _shared import clipped, lattice_rounded, pulled


def start(problem, x0, hyper):
    return {"x": x0}


def step(state, draws, problem, hyper):
    x = sent = state["x"]
    u, heads = draws.numbers["uniform"][0], draws.numbers["binomial"][0]
    spacing = 2 * hyper.coordinate_bound / (hyper.levels - 1)
    trials = ceil(4 * (hyper.noise / spacing) ** 2)  # no less noise than is asked for
    g = np.array([clipped(problem, hyper, i, x[i], rows) for i, (rows,) in draws.batches[0]])
    g = np.array([
        lattice_rounded(g[i], hyper.coordinate_bound, hyper.levels, u[i])
        + spacing * (heads[i] - trials / 2)
        for i in range(len(x))
    ])  # fmt: skip
    x = x + hyper.coupling * pulled(problem.states, x, x) - hyper.step_size * g
    return {"x": x, "_sent": sent, "_g": g}
