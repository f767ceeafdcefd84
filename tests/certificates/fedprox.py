"""FedProx (arXiv:1812.06127, Algorithm 2), solved by SGD on f_i(y) + μ/2 ‖y − x‖².

y ← y − η_l (∇f_i,B(y) + μ (y − x)), K times from y = x
x ← x + η_g/S Σ_{i∈S} (y_i − x)
"""

from _shared import local_step, mean, server_step


def start(problem, x0, hyper):
    return {"x": x0}


def step(state, draws, problem, hyper):
    x, eta, mu, changes = state["x"], local_step(hyper, draws.round), hyper.proximal_weight, {}
    for i, steps in draws.batches[0]:
        y = x
        for rows in steps:
            y = y - eta * (problem.gradient(i, y, rows) + mu * (y - x))
        changes[i] = y - x
    return {"x": x + server_step(hyper) * mean(problem, changes)}
