"""Mime and MimeLite (arXiv:2008.03606, Algorithm 1) with SGDm; from memory.

c = 1/S Σ_{i∈S} ∇f_i(x)
g = ∇f_i,B(y) − ∇f_i,B(x) + c (MimeLite: ∇f_i,B(y)),  y ← y − η_l ((1 − β) g + β m), K times
x ← x + η_g/S Σ_{i∈S} (y_i − x),  m ← (1 − β) c + β m
"""

from _shared import local_step, mean, server_step


def start(problem, x0, hyper):
    return {"x": x0, "m": 0 * x0}


def step(state, draws, problem, hyper):
    x, m, beta = state["x"], state["m"], hyper.momentum
    eta, moves = local_step(hyper, draws.round), {}
    c = mean(problem, {int(i): problem.gradient(int(i), x) for i in draws.clients})
    for i, steps in draws.batches[0]:
        y = x
        for rows in steps:
            g = problem.gradient(i, y, rows)
            if not hyper.lite:
                g = g - problem.gradient(i, x, rows) + c
            y = y - eta * ((1 - beta) * g + beta * m)
        moves[i] = y - x
    return {"x": x + server_step(hyper) * mean(problem, moves), "m": (1 - beta) * c + beta * m}
