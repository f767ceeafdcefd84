"""FedPAQ (arXiv:1909.13014, Algorithm 1); from memory.

y ← y − η_l ∇f_i,B(y), K times from y = x
x ← x + η_g/S Σ_{i∈S} Q(y_i − x)
"""

from _shared import compress, local_step, mean, server_step, uniforms


def start(problem, x0, hyper):
    return {"x": x0}


def step(state, draws, problem, hyper):
    x, sent = state["x"], {}
    for (i, steps), u in zip(draws.batches[0], uniforms(draws), strict=True):
        y = x
        for rows in steps:
            y = y - local_step(hyper, draws.round) * problem.gradient(i, y, rows)
        sent[i] = compress(hyper.compressor, y - x, u)
    return {"x": x + server_step(hyper) * mean(problem, sent)}
