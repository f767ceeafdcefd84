"""DASHA and DASHA-PAGE (arXiv:2202.01268, Algorithm 1), from g_i = h_i = ∇f_i(x⁰); from memory.

h_i⁺ = ∇f_i(x) with probability p, else h_i + ∇f_i,B(x) − ∇f_i,B(x⁻)
m_i = C(h_i⁺ − h_i − a (g_i − h_i)),  g_i ← g_i + m_i,  h_i ← h_i⁺,  x ← x − γ/N Σ_i g_i

The authors' public code agrees.
"""

import numpy as np
from _shared import compress, uniforms, variance, whole, zeros


def start(problem, x0, hyper):
    return {
        "x": x0,
        "client_g": zeros(problem, x0),
        "client_h": zeros(problem, x0),
        "_before": None,
    }


def step(state, draws, problem, hyper):
    x, before, p = state["x"], state["_before"], hyper.full_gradient_probability
    g, h = state["client_g"].copy(), state["client_h"].copy()
    a = hyper.memory_step or 1 / (2 * variance(hyper.compressor, len(x)) + 1)
    if draws.round == 0:
        g = h = np.array([problem.gradient(i, x) for i in range(problem.clients)])
    else:
        full = p == 1 or draws.coins[0]
        for (i, (rows,)), u in zip(draws.batches[0], uniforms(draws), strict=True):
            if full:
                new = problem.gradient(i, x)
            else:
                new = h[i] + problem.gradient(i, x, rows) - problem.gradient(i, before, rows)
            m = compress(hyper.compressor, new - h[i] - a * (g[i] - h[i]), u)
            g[i], h[i] = g[i] + m, new
    x_next = x - hyper.step_size * whole(problem, dict(enumerate(g)))
    return {"x": x_next, "client_g": g, "client_h": h, "_before": x}
