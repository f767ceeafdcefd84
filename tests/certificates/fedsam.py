"""FedSAM (arXiv:2206.02618, Algorithm 1); from memory.

g = ∇f_i,B(y),  y ← y − η_l ∇f_i,B(y + ρ g/‖g‖), K times from y = x, B being the same twice
x ← x + η_g/S Σ_{i∈S} (y_i − x)
"""

import numpy as np
from _shared import local_step, mean, server_step


def start(problem, x0, hyper):
    return {"x": x0}


def step(state, draws, problem, hyper):
    x, moves = state["x"], {}
    for i, steps in draws.batches[0]:
        y = x
        for rows in steps:
            g = problem.gradient(i, y, rows)
            above = y + hyper.radius * g / np.sqrt(g @ g)
            y = y - local_step(hyper, draws.round) * problem.gradient(i, above, rows)
        moves[i] = y - x
    return {"x": x + server_step(hyper) * mean(problem, moves)}
