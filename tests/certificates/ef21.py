"""EF21 (arXiv:2106.05203, Algorithm 2), from g_i = C(∇f_i(x⁰)).

m_i = C(∇f_i(x) − g_i),  g_i ← g_i + m_i,  x ← x − γ/N Σ_i g_i
"""

from _shared import contract, uniforms, whole, zeros


def start(problem, x0, hyper):
    return {"x": x0, "g": 0 * x0, "client_g": zeros(problem, x0)}


def step(state, draws, problem, hyper):
    x, own = state["x"], state["client_g"].copy()
    for (i, (rows,)), u in zip(draws.batches[0], uniforms(draws), strict=True):
        own[i] = own[i] + contract(hyper.compressor, problem.gradient(i, x, rows) - own[i], u)
    g = whole(problem, dict(enumerate(own)))
    return {"x": x - hyper.step_size * g, "g": g, "client_g": own}
