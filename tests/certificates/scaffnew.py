"""Scaffnew (arXiv:2202.09357, Algorithm 2), a round from one communication to the next.

y_i ← y_i − γ (∇f_i,B(y_i) − h_i) until a coin shows heads, which it does with probability p
x ← 1/N Σ_i y_i,  h_i ← h_i + p/γ (x − y_i)
"""

import numpy as np
from _shared import whole, zeros


def start(problem, x0, hyper):
    return {"x": x0, "client_h": zeros(problem, x0)}


def step(state, draws, problem, hyper):
    x, h, gamma = state["x"], state["client_h"], hyper.step_size
    y, K = np.array([x] * problem.clients), draws.coins.index(True) + 1
    for i, steps in draws.batches[0]:
        assert len(steps) == K
        for rows in steps:
            y[i] = y[i] - gamma * (problem.gradient(i, y[i], rows) - h[i])
    x = whole(problem, dict(enumerate(y)))
    return {"x": x, "client_h": h + hyper.communication_probability / gamma * (x - y)}
