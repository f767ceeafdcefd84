"""MIFA (arXiv:2106.04159, Algorithm 1); from memory.

y ← y − η_l ∇f_i,B(y), K times from y = x,  G_i ← (x − y_i)/η_l of those who answer
g = 1/N Σ_i G_i over all clients,  x ← x − η_g η_l g
"""

from _shared import local_step, server_step, whole, zeros


def start(problem, x0, hyper):
    return {"x": x0, "g": 0 * x0, "client_g": zeros(problem, x0)}


def step(state, draws, problem, hyper):
    x, memory, eta = state["x"], state["client_g"].copy(), local_step(hyper, draws.round)
    for i, steps in draws.batches[0]:
        y = x
        for rows in steps:
            y = y - eta * problem.gradient(i, y, rows)
        memory[i] = (x - y) / eta
    g = whole(problem, dict(enumerate(memory)))
    return {"x": x - server_step(hyper) * eta * g, "g": g, "client_g": memory}
