"""DP-FedAvg (arXiv:1710.06963, Algorithm 1 with f̃_f), updates clipped once, after all steps.

y ← y − η_l ∇f_i,B(y), K times from y = x,  Δ_i = (y_i − x) min(1, S/‖y_i − x‖)
x ← x + η_g/(q N) (Σ_i Δ_i + z S 𝒩(0, I))
"""

import numpy as np
from _shared import local_step, server_step


def start(problem, x0, hyper):
    return {"x": x0}


def step(state, draws, problem, hyper):
    x, bound, total = state["x"], hyper.clip_bound, 0 * state["x"]
    who, batches = draws.clients, draws.batches
    if hyper.sampling == "poisson":
        q = hyper.clients_per_round / problem.clients
        who = [i for i, coin in enumerate(draws.numbers["uniform"][0]) if coin < q]
    assert [i for i, _ in batches[0]] == list(who) if len(who) else not any(batches)
    for i, steps in batches[0] if batches else []:
        y = x
        for rows in steps:
            y = y - local_step(hyper, draws.round) * problem.gradient(i, y, rows)
        norm = np.linalg.norm(y - x)
        total = total + (y - x) * (bound / norm if norm > bound else 1.0)
    if hyper.noise_multiplier:
        total = total + hyper.noise_multiplier * bound * draws.numbers["normal"][-1]
    return {"x": x + server_step(hyper) * total / hyper.clients_per_round}
