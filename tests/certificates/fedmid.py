"""FedMiD (arXiv:2011.08474, Algorithm 2) in Euclid's geometry, with an l1 term.

y ← prox_{η_l ψ}(y − η_l ∇f_i,B(y)), K times from y = x
x ← prox_{η_g η_l K ψ}(x + η_g/S Σ_{i∈S} (y_i − x))
"""

from _shared import mean, server_step, soft


def start(problem, x0, hyper):
    return {"x": x0}


def step(state, draws, problem, hyper):
    x, weight, moves = state["x"], problem.objective.nonsmooth.weight, {}
    eta, eta_g = hyper.local_step_size, server_step(hyper)
    for i, steps in draws.batches[0]:
        y = x
        for rows in steps:
            y = soft(y - eta * problem.gradient(i, y, rows), eta * weight)
        moves[i] = y - x
    length = eta_g * eta * hyper.local_steps
    return {"x": soft(x + eta_g * mean(problem, moves), length * weight)}
