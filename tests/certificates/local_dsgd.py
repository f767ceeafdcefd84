"""DSGD with local steps (arXiv:2003.10422, Algorithm 1, whose W is I in K − 1 of K iterations).

x_i ← x_i − η ∇f_i,B(x_i), K times,  then x_i ← Σ_j W_ij x_j,  W = I − κ diag(Σ_j w_ij) + κ (w_ij)
"""

from _shared import mixed, mixing


def start(problem, x0, hyper):
    return {"x": x0}


def step(state, draws, problem, hyper):
    x = state["x"].copy()
    for k in range(hyper.local_steps):
        batch = draws.batches[k] if len(draws.batches) > 1 else draws.batches[0]
        for i, steps in batch:
            rows = steps[k if len(draws.batches) == 1 else 0]
            x[i] = x[i] - hyper.step_size * problem.gradient(i, x[i], rows)
    return {"x": mixed(mixing(problem, hyper.coupling), x)}
