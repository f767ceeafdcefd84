"""[43] of DP-GT: own values exact, so that noise moves the mean.

x_i ← x_i + κ Σ_j w_ij (x_j + ζ_j − x_i) − γ g_i,  g_i over ⌊(m − 1) growth^k⌋ + 1 samples
"""

from math import floor

import numpy as np
from _shared import clipped, pulled


def start(problem, x0, hyper):
    return {"x": x0}


def step(state, draws, problem, hyper):
    x, m = state["x"], floor((hyper.samples - 1) * hyper.growth**draws.round) + 1
    assert all(len(rows) == m for _, (rows,) in draws.batches[0])
    g = np.array([clipped(problem, hyper, i, x[i], rows) for i, (rows,) in draws.batches[0]])
    sent = x + hyper.noise * draws.numbers["laplace"][0]
    x = x + hyper.coupling * pulled(problem.states, x, sent) - hyper.step_size * g
    return {"x": x, "_sent": sent, "_g": g}
