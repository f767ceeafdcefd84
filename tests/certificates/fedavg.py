"""FedAvg (McMahan et al. 2017) with the two steps of arXiv:1910.06378.

y ← y − η_l ∇f_i,B(y), K times from y = x, on each of S clients
x ← x + η_g/S Σ_{i∈S} (y_i − x)
"""

from _shared import local_step, mean, server_step


def start(problem, x0, hyper):
    return {"x": x0}


def step(state, draws, problem, hyper):
    x, changes = state["x"], {}
    for i, steps in draws.batches[0]:
        y = x
        for rows in steps:
            y = y - local_step(hyper, draws.round) * problem.gradient(i, y, rows)
        changes[i] = y - x
    return {"x": x + server_step(hyper) * mean(problem, changes)}
