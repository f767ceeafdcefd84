"""FedNova (arXiv:2007.07481, section 4), a_i = (1, …, 1); from memory.

y ← y − η_l ∇f_i,B(y), τ_i times from y = x
x ← x + η_g τ_eff/S Σ_{i∈S} (y_i − x)/τ_i,  τ_eff = 1/S Σ_{i∈S} τ_i

The authors' public code agrees.
"""

from _shared import local_step, mean, server_step


def start(problem, x0, hyper):
    return {"x": x0}


def step(state, draws, problem, hyper):
    x, d, taken = state["x"], {}, {}
    for i, steps in draws.batches[0]:
        y = x
        for rows in steps:
            y = y - local_step(hyper, draws.round) * problem.gradient(i, y, rows)
        d[i], taken[i] = (y - x) / len(steps), len(steps)
    share = sum(problem.weights[i] for i in taken)
    tau = sum(problem.weights[i] / share * own for i, own in taken.items())
    return {"x": x + server_step(hyper) * tau * mean(problem, d)}
