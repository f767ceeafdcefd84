"""FedAvgM (arXiv:1909.06335, section 3.3); from memory."""

from _averaging import mean_move
from _shared import server_step


def start(problem, x0, hyper):
    return {"x": x0, "m": 0 * x0}


def step(state, draws, problem, hyper):
    m = hyper.momentum * state["m"] + mean_move(state["x"], draws, problem, hyper)
    return {"x": state["x"] + server_step(hyper) * m, "m": m}
