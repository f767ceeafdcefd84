"""CHOCO-SGD (arXiv:1902.00340, Algorithm 2).

x_i ← x_i − η ∇f_i,B(x_i),  x̂_i ← x̂_i + C(x_i − x̂_i),  x_i ← x_i + γ Σ_j w_ij (x̂_j − x̂_i)
"""

from _shared import contract, uniforms


def start(problem, x0, hyper):
    return {"x": x0, "x_hat": 0 * x0}


def step(state, draws, problem, hyper):
    x, hat, W = state["x"], state["x_hat"].copy(), problem.states
    half = 0 * x
    for (i, (rows,)), u in zip(draws.batches[0], uniforms(draws), strict=True):
        half[i] = x[i] - hyper.step_size * problem.gradient(i, x[i], rows)
        hat[i] = hat[i] + contract(hyper.compressor, half[i] - hat[i], u)
    x = 0 * x
    for i in range(len(x)):
        pull = sum(W[i, j] * (hat[j] - hat[i]) for j in range(len(x)))
        x[i] = half[i] + hyper.coupling * pull
    return {"x": x, "x_hat": hat}
