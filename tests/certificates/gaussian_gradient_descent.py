"""Kang, Liu, Wang 2021 (arXiv:1910.10308), on a graph.

x_i ← x_i + κ Σ_j w_ij (x_j − x_i) − γ (g_i + b_i),  b_i ~ 𝒩(0, s² I)
"""

import numpy as np
from _shared import clipped, pulled


def start(problem, x0, hyper):
    return {"x": x0}


def step(state, draws, problem, hyper):
    x = sent = state["x"]
    g = np.array([clipped(problem, hyper, i, x[i], rows) for i, (rows,) in draws.batches[0]])
    g = g + hyper.noise * draws.numbers["normal"][0]
    x = x + hyper.coupling * pulled(problem.states, x, x) - hyper.step_size * g
    return {"x": x, "_sent": sent, "_g": g}
