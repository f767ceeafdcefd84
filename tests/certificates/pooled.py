"""SGD (Robbins, Monro 1951) on the samples of all clients together.

x ← x − η_l ∇f_B(x), K times, B of the samples of all clients
"""

import numpy as np


def start(problem, x0, hyper):
    return {"x": x0}


def step(state, draws, problem, hyper):
    x, ((_, steps),) = state["x"], draws.batches[0]
    ends = np.cumsum(problem.sizes)
    for rows in steps:
        total = 0 * x
        for row in rows:
            i = int(np.searchsorted(ends, row, "right"))
            own = row - ends[i] + problem.sizes[i]
            total = total + problem.gradient(i, x, np.array([own]))
        x = x - hyper.local_step_size * total / len(rows)
    return {"x": x}
