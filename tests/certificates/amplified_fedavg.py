"""FedAvg with amplified updates (arXiv:2205.13648, Algorithm 1); from memory.

y ← y − η_l (∇f_i,B(y) + μ (y − x)), K times from y = x,  Δ = η_g/S Σ_{i∈S} (y_i − x)
x ← x + Δ,  u ← u + Δ;  every P rounds x ← x + (γ − 1) u, then u = 0

A fork of the authors' code agrees; μ is FedProx's.
"""

from _shared import local_step, mean, server_step


def start(problem, x0, hyper):
    return {"x": x0, "anchor": x0, "_u": 0 * x0}


def step(state, draws, problem, hyper):
    x, moves = state["x"], {}
    for i, steps in draws.batches[0]:
        y = x
        for rows in steps:
            g = problem.gradient(i, y, rows) + hyper.proximal_weight * (y - x)
            y = y - local_step(hyper, draws.round) * g
        moves[i] = y - x
    delta = server_step(hyper) * mean(problem, moves)
    x, u, anchor = x + delta, state["_u"] + delta, state["anchor"]
    if (draws.round + 1) % hyper.period == 0:
        x = anchor = x + (hyper.amplification - 1) * u
        u = 0 * u
    return {"x": x, "anchor": anchor, "_u": u}
