"""FedAsync (arXiv:1903.03934, Algorithm 1).

y ← y − η_l (∇f_i,B(y) + ρ (y − x_{t−τ})), K times from the model of τ rounds ago
x ← (1 − α s(τ)) x + α s(τ) y
"""

from _stale import arrived


def start(problem, x0, hyper):
    return {"x": x0, "_models": [x0]}


def step(state, draws, problem, hyper):
    ((_, s, _, y),) = arrived(state, draws, problem, hyper, hyper.proximal_weight)
    x = (1 - hyper.mixing * s) * state["x"] + hyper.mixing * s * y
    return {"x": x, "_models": [*state["_models"], x]}
