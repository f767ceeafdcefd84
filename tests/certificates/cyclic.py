"""Cyclical weight transfer (Chang et al. 2018): one client after the other; from memory.

y ← y − η_l ∇f_i,B(y), K times from y = x, on client i = r mod N;  x ← y
"""

from _shared import local_step


def start(problem, x0, hyper):
    return {"x": x0}


def step(state, draws, problem, hyper):
    y, ((i, steps),) = state["x"], draws.batches[0]
    assert i == draws.round % problem.clients
    for rows in steps:
        y = y - local_step(hyper, draws.round) * problem.gradient(i, y, rows)
    return {"x": y}
