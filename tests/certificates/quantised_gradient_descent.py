"""[44] of DP-GT: own values exact, Q has no limit.

x_i ← x_i + κ Σ_j w_ij (Q(x_j + ζ_j) − x_i) − γ g_i
"""

import numpy as np
from _shared import clipped, pulled, step_rounded


def start(problem, x0, hyper):
    return {"x": x0}


def step(state, draws, problem, hyper):
    x, u = state["x"], draws.numbers["uniform"][0]
    g = np.array([clipped(problem, hyper, i, x[i], rows) for i, (rows,) in draws.batches[0]])
    noisy = x + hyper.noise * draws.numbers["laplace"][0]
    sent = np.array([step_rounded(noisy[i], hyper.spacing, u[i]) for i in range(len(x))])
    x = x + hyper.coupling * pulled(problem.states, x, sent) - hyper.step_size * g
    return {"x": x, "_sent": sent, "_g": g}
