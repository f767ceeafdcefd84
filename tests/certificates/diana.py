"""DIANA (arXiv:1901.09269, Algorithm 1); of some clients, PP2 of arXiv:2006.14591.

Δ_i = C(∇f_i,B(x) − h_i),  x ← x − γ (1/N Σ_i h_i + 1/S Σ_{i∈S} Δ_i),  h_i ← h_i + α Δ_i
"""

from _shared import compress, mean, uniforms, variance, whole, zeros


def start(problem, x0, hyper):
    return {"x": x0, "h": 0 * x0, "client_h": zeros(problem, x0)}


def step(state, draws, problem, hyper):
    x, own = state["x"], state["client_h"].copy()
    alpha = hyper.memory_step or 1 / (1 + variance(hyper.compressor, len(x)))
    known, sent = whole(problem, dict(enumerate(own))), {}
    for (i, (rows,)), u in zip(draws.batches[0], uniforms(draws), strict=True):
        sent[i] = compress(hyper.compressor, problem.gradient(i, x, rows) - own[i], u)
        own[i] = own[i] + alpha * sent[i]
    x = x - hyper.step_size * (known + mean(problem, sent))
    return {"x": x, "h": whole(problem, dict(enumerate(own))), "client_h": own}
