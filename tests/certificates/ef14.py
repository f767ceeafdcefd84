"""Error feedback (arXiv:1901.09847, Algorithm 2) at every client; from memory.

p_i = γ ∇f_i,B(x) + e_i,  Δ_i = C(p_i),  e_i ← p_i − Δ_i,  x ← x − 1/S Σ_{i∈S} Δ_i
"""

from _shared import contract, mean, uniforms, zeros


def start(problem, x0, hyper):
    return {"x": x0, "client_e": zeros(problem, x0)}


def step(state, draws, problem, hyper):
    x, e, sent = state["x"], state["client_e"].copy(), {}
    for (i, (rows,)), u in zip(draws.batches[0], uniforms(draws), strict=True):
        p = hyper.step_size * problem.gradient(i, x, rows) + e[i]
        sent[i] = contract(hyper.compressor, p, u)
        e[i] = p - sent[i]
    return {"x": x - mean(problem, sent), "client_e": e}
