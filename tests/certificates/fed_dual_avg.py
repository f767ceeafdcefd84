"""FedDualAvg (arXiv:2011.08474, Algorithm 3) in Euclid's geometry, with an l1 term.

z_i ← z_i − η_l ∇f_i,B(prox_{η ψ}(z_i)), K times from z_i = z, η the length of all steps so far
z ← z + η_g/S Σ_{i∈S} (z_i − z),  x = prox_{η_g η_l K (r + 1) ψ}(z)
"""

from _shared import mean, server_step, soft


def start(problem, x0, hyper):
    return {"x": x0, "z": x0}


def step(state, draws, problem, hyper):
    z, weight, moves = state["z"], problem.objective.nonsmooth.weight, {}
    eta, eta_g, K = hyper.local_step_size, server_step(hyper), hyper.local_steps
    for i, steps in draws.batches[0]:
        own = z
        for k, rows in enumerate(steps):
            length = eta_g * eta * draws.round * K + eta * k  # of all steps so far
            own = own - eta * problem.gradient(i, soft(own, length * weight), rows)
        moves[i] = own - z
    z = z + eta_g * mean(problem, moves)
    return {"x": soft(z, eta_g * eta * (draws.round + 1) * K * weight), "z": z}
