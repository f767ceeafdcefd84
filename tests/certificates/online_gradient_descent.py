"""[42] of DP-GT without a projection: gradients over all samples that arrived so far.

x_i ← x_i + κ Σ_j w_ij (x_j + ζ_j − x_i − ζ_i) − γ ∇f_{i,t}(x_i)
"""

import numpy as np
from _shared import clipped, pulled


def start(problem, x0, hyper):
    return {"x": x0}


def step(state, draws, problem, hyper):
    x, m = state["x"], hyper.samples * (draws.round + 1)
    seen = [np.arange(min(m, size)) for size in problem.sizes]
    g = np.array([clipped(problem, hyper, i, x[i], seen[i]) for i in range(len(x))])
    sent = x + hyper.noise * draws.numbers["laplace"][0]
    x = x + hyper.coupling * pulled(problem.states, sent, sent) - hyper.step_size * g
    return {"x": x, "_sent": sent, "_g": g}
