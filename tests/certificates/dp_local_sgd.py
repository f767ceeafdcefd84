"""DP-SGD (arXiv:1607.00133, Algorithm 1) as the local steps of FedAvg, or FedProx; from memory.

y ← y − η_l (1/b (Σ_{j∈B} ∇ℓ_j(y)/max(1, ‖∇ℓ_j(y)‖/C) + σ C 𝒩(0, I)) + ∇r(y) + μ (y − x)), K times
from y = x,  x ← x + η_g/S Σ_{i∈S} (y_i − x)
"""

import numpy as np
from _shared import mean, server_step


def start(problem, x0, hyper):
    return {"x": x0}


def step(state, draws, problem, hyper):
    x, moves, bound = state["x"], {}, hyper.clip_bound
    for s, (i, steps) in enumerate(draws.batches[0]):
        y = x
        for k, rows in enumerate(steps):
            total = 0 * x
            for own in problem.sample_gradients(i, y, rows):
                total = total + own / max(1.0, np.sqrt(own @ own) / bound)
            if hyper.noise_multiplier:
                total = total + hyper.noise_multiplier * bound * draws.numbers["normal"][k][s]
            g = total / len(rows) + problem.penalty_gradient(y) + hyper.proximal_weight * (y - x)
            y = y - hyper.local_step_size * g
        moves[i] = y - x
    return {"x": x + server_step(hyper) * mean(problem, moves)}
