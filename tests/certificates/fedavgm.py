"""FedAvgM (arXiv:1909.06335, section 3.3); from memory.

m ← β m + 1/S Σ_{i∈S} (y_i − x) of FedAvg's local steps,  x ← x + η_g m
"""

from _averaging import mean_move
from _shared import server_step


def start(problem, x0, hyper):
    return {"x": x0, "m": 0 * x0}


def step(state, draws, problem, hyper):
    m = hyper.momentum * state["m"] + mean_move(state["x"], draws, problem, hyper)
    return {"x": state["x"] + server_step(hyper) * m, "m": m}
