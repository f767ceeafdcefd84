"""FedBuff (arXiv:2106.06639, Algorithm 1).

y ← y − η_l ∇f_i,B(y), K times from the model of τ_i rounds ago
x ← x + η_g/B Σ s(τ_i) (y_i − x_{t−τ_i}) over B answers

Where clients have weights, N p_i stands before each answer.
"""

from _shared import server_step
from _stale import arrived


def start(problem, x0, hyper):
    return {"x": x0, "_models": [x0]}


def step(state, draws, problem, hyper):
    moves = [
        problem.clients * problem.weights[i] * s * (y - sent)
        for i, s, sent, y in arrived(state, draws, problem, hyper)
    ]
    assert len(moves) == hyper.buffer_size
    x = state["x"] + server_step(hyper) * sum(moves) / hyper.buffer_size
    return {"x": x, "_models": [*state["_models"], x]}
