"""FedDyn (arXiv:2111.04263, Algorithm 1), clients by SGD; from memory.

y ← y − η_l (∇f_i,B(y) − g_i + α (y − x)), K times from y = x,  g_i ← g_i − α (y_i − x)
h ← h − α/N Σ_{i∈S} (y_i − x),  x ← 1/S Σ_{i∈S} y_i − h/α

The authors' public code agrees.
"""

from _shared import local_step, mean, whole, zeros


def start(problem, x0, hyper):
    return {"x": x0, "h": 0 * x0, "client_g": zeros(problem, x0)}


def step(state, draws, problem, hyper):
    x, g, alpha = state["x"], state["client_g"].copy(), hyper.regularisation
    eta, moves = local_step(hyper, draws.round), {}
    for i, steps in draws.batches[0]:
        y = x
        for rows in steps:
            y = y - eta * (problem.gradient(i, y, rows) - g[i] + alpha * (y - x))
        g[i] = g[i] - alpha * (y - x)
        moves[i] = y - x
    h = state["h"] - alpha * whole(problem, moves)
    return {"x": x + mean(problem, moves) - h / alpha, "h": h, "client_g": g}
