"""FedDANE (arXiv:2001.01920, Algorithm 2), the subproblem by SGD.

g = 1/S Σ_{i∈S} ∇f_i(x), S drawn;  of another S, drawn anew,
y ← y − η_l (∇f_i,B(y) + g − ∇f_i(x) + μ (y − x)), K times from y = x;  x ← 1/S Σ y_i

The authors' public code agrees.
"""

from _shared import local_step, mean


def start(problem, x0, hyper):
    return {"x": x0}


def step(state, draws, problem, hyper):
    x, mu, moves = state["x"], hyper.proximal_weight, {}
    g = mean(problem, {i: problem.gradient(i, x) for i, _ in draws.batches[0]})
    for i, steps in draws.batches[1]:
        y, own = x, problem.gradient(i, x)
        for rows in steps:
            gradient = problem.gradient(i, y, rows) + g - own + mu * (y - x)
            y = y - local_step(hyper, draws.round) * gradient
        moves[i] = y - x
    return {"x": x + mean(problem, moves)}
