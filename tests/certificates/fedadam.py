"""FedAdam (arXiv:2003.00295, Algorithm 2), from m = 0 and v = τ²; from memory.

Δ = 1/S Σ_{i∈S} (y_i − x) of FedAvg's local steps
m ← β₁ m + (1 − β₁) Δ,  v ← β₂ v + (1 − β₂) Δ²,  x ← x + η m/(√v + τ)
"""

import numpy as np
from _averaging import mean_move


def start(problem, x0, hyper):
    return {"x": x0, "m": 0 * x0, "v": 0 * x0 + hyper.adaptivity**2}


def step(state, draws, problem, hyper):
    x, m, v = state["x"], state["m"], state["v"]
    delta = mean_move(x, draws, problem, hyper)
    m = hyper.momentum * m + (1 - hyper.momentum) * delta
    v = hyper.second_momentum * v + (1 - hyper.second_momentum) * delta**2
    return {"x": x + hyper.global_step_size * m / (np.sqrt(v) + hyper.adaptivity), "m": m, "v": v}
