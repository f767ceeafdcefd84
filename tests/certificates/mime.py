"""Mime and MimeLite (arXiv:2008.03606, Algorithm 1) with SGDm; from memory."""

from _shared import local_step, mean, server_step


def start(problem, x0, hyper):
    return {"x": x0, "m": 0 * x0}


def step(state, draws, problem, hyper):
    x, m, beta = state["x"], state["m"], hyper.momentum
    eta, moves = local_step(hyper, draws.round), {}
    c = mean(problem, {int(i): problem.gradient(int(i), x) for i in draws.clients})
    for i, steps in draws.batches[0]:
        y = x
        for rows in steps:
            g = problem.gradient(i, y, rows)
            if not hyper.lite:
                g = g - problem.gradient(i, x, rows) + c
            y = y - eta * ((1 - beta) * g + beta * m)
        moves[i] = y - x
    return {"x": x + server_step(hyper) * mean(problem, moves), "m": (1 - beta) * c + beta * m}
