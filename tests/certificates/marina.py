"""MARINA (arXiv:2102.07845, Algorithm 1), VR-MARINA (2) and PP-MARINA (4); from memory.

with probability p, or in round 0: g = 1/N Σ_i ∇f_i(x)
otherwise: g = g⁻ + 1/S Σ_{i∈S} C(∇f_i,B(x) − ∇f_i,B(x⁻))
x ← x − γ g

The authors' public code agrees.
"""

from _shared import compress, mean, uniforms


def start(problem, x0, hyper):
    return {"x": x0}


def step(state, draws, problem, hyper):
    x, before = state["x"], state.get("x_previous")
    if draws.round == 0 or draws.coins[0]:
        g = mean(problem, {i: problem.gradient(i, x) for i in range(problem.clients)})
    else:
        sent = {}
        for (i, (rows,)), u in zip(draws.batches[0], uniforms(draws), strict=True):
            change = problem.gradient(i, x, rows) - problem.gradient(i, before, rows)
            sent[i] = compress(hyper.compressor, change, u)
        g = state["g"] + mean(problem, sent)
    return {"x": x - hyper.step_size * g, "x_previous": x, "g": g}
