"""Power-of-Choice (arXiv:2010.01243, π_pow-d) with FedAvg's local steps; from memory.

A: d candidates, drawn;  S: the m of them with the largest f_i(x)
y ← y − η_l ∇f_i,B(y), K times from y = x,  x ← x + η_g/m Σ_{i∈S} (y_i − x)
"""

from _averaging import mean_move
from _shared import server_step


def start(problem, x0, hyper):
    return {"x": x0}


def step(state, draws, problem, hyper):
    x, candidates = state["x"], [int(i) for i in draws.clients]
    worst = sorted(candidates, key=lambda i: -problem.client_value(i, x))
    chosen = sorted(worst[: hyper.clients_per_round])
    assert len(candidates) == hyper.candidates and chosen == [i for i, _ in draws.batches[0]]
    return {"x": x + server_step(hyper) * mean_move(x, draws, problem, hyper)}
