"""GT-SARAH (arXiv:2008.07428, Algorithm 1); from memory.

v_i⁺ = ∇f_i(x_i) every q + 1 rounds, else ∇f_i,B(x_i) − ∇f_i,B(x_i⁻) + v_i
y_i ← Σ_j W_ij y_j + v_i⁺ − v_i,  x_i ← Σ_j W_ij x_j − α y_i,  W = I − κ diag(Σ_j w_ij) + κ (w_ij)
"""

import numpy as np
from _shared import gradients, mixed, mixing


def start(problem, x0, hyper):
    return {"x": x0, "y": 0 * x0, "v": 0 * x0, "_before": x0}


def step(state, draws, problem, hyper):
    x, y, v, before = (state[name] for name in ("x", "y", "v", "_before"))
    if draws.round % (hyper.inner_steps + 1) == 0:
        new = np.array([problem.gradient(i, x[i]) for i in range(len(x))])
    else:
        batch = draws.batches[0]
        new = gradients(problem, x, batch) - gradients(problem, before, batch) + v
    W = mixing(problem, hyper.coupling)
    y = mixed(W, y) + new - v
    return {"x": mixed(W, x) - hyper.step_size * y, "y": y, "v": new, "_before": x}
