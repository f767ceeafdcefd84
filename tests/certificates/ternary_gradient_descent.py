"""Wang, Başar 2023, [39] of DP-GT: one outcome of Q(x_i) for i and its neighbours.

x_i ← x_i + κ Σ_j w_ij (Q(x_j) − Q(x_i)) − γ g_i,  Q(x)_l = r sign(x_l) with probability |x_l|/r
"""

import numpy as np
from _shared import clipped, pulled, ternary


def start(problem, x0, hyper):
    return {"x": x0}


def step(state, draws, problem, hyper):
    x, u = state["x"], draws.numbers["uniform"][0]
    g = np.array([clipped(problem, hyper, i, x[i], rows) for i, (rows,) in draws.batches[0]])
    sent = np.array([ternary(x[i], hyper.quantiser_range, u[i]) for i in range(len(x))])
    x = x + hyper.coupling * pulled(problem.states, sent, sent) - hyper.step_size * g
    return {"x": x, "_sent": sent, "_g": g}
