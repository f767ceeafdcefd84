"""SCAFFOLD (arXiv:1910.06378, Algorithm 1).

    y ← y − η_l (∇f_i,B(y) − c_i + c), K times from y = x
    c_i⁺ = ∇f_i(x) (option I), c_i − c + (x − y_i)/(K η_l) (option II)
    x ← x + η_g/S Σ_{i∈S} (y_i − x),  c ← c + 1/N Σ_{i∈S} (c_i⁺ − c_i),  c_i ← c_i⁺

Option I renews a control by all of the client's samples at the received x, option II by the steps
just made. All controls are 0 at first.
"""

from _shared import local_step, mean, server_step, whole, zeros


def start(problem, x0, hyper):
    return {"x": x0, "c": 0 * x0, "client_c": zeros(problem, x0)}


def step(state, draws, problem, hyper):
    x, c, controls = state["x"], state["c"], state["client_c"].copy()
    eta, moves, turns = local_step(hyper, draws.round), {}, {}
    for i, steps in draws.batches[0]:
        y = x
        for rows in steps:  # line 10
            y = y - eta * (problem.gradient(i, y, rows) - controls[i] + c)
        if hyper.option == "I":  # line 12
            new = problem.gradient(i, x)
        else:
            new = controls[i] - c + (x - y) / (len(steps) * eta)
        moves[i], turns[i] = y - x, new - controls[i]  # line 13
        controls[i] = new
    x = x + server_step(hyper) * mean(problem, moves)  # lines 16 and 17
    return {"x": x, "c": c + whole(problem, turns), "client_c": controls}
