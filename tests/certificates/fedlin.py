"""FedLin (arXiv:2102.07053, Algorithm 1) without sparsification; from memory.

g = 1/S Σ_{i∈S} ∇f_i(x)
y ← y − η̄/τ_i (∇f_i,B(y) − ∇f_i(x) + g), τ_i times from y = x;  x ← 1/S Σ_{i∈S} y_i
"""

from _shared import local_step, mean


def start(problem, x0, hyper):
    return {"x": x0}


def step(state, draws, problem, hyper):
    x, moves = state["x"], {}
    g = mean(problem, {int(i): problem.gradient(int(i), x) for i in draws.clients})
    for i, steps in draws.batches[0]:
        y, eta, own = x, local_step(hyper, draws.round) / len(steps), problem.gradient(i, x)
        for rows in steps:
            y = y - eta * (problem.gradient(i, y, rows) - own + g)
        moves[i] = y - x
    return {"x": x + mean(problem, moves)}
