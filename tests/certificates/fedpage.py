"""FedPAGE (arXiv:2108.04755, Algorithm 1); its line numbers.

with probability p, or in round 0: g = 1/N Σ_i ∇f_i,B₁(x)
otherwise, on each of S clients: g_i = ∇f_i,B₂(x) − ∇f_i,B₂(x⁻) + g⁻,  y = x − η_l g_i,
    K − 1 times g_i ← ∇f_i,B₃(y) − ∇f_i,B₃(y⁻) + g_i,  y ← y − η_l g_i;
    g = 1/(S K η_l) Σ_{i∈S} (x − y_i)
x ← x − η_g g
"""

from _shared import mean


def start(problem, x0, hyper):
    return {"x": x0}


def step(state, draws, problem, hyper):
    x, before, g_before = state["x"], state.get("x_previous"), state.get("g")
    first = {i: steps[0] for i, steps in draws.batches[0]}
    if draws.round == 0 or draws.coins[0]:  # lines 6 to 11
        g = mean(problem, {i: problem.gradient(i, x, rows) for i, rows in first.items()})
    else:  # lines 13 to 26
        eta = hyper.local_step_size or hyper.global_step_size / hyper.local_steps
        later = dict(draws.batches[1]) if hyper.local_steps > 1 else {}
        moves = {}
        for i, rows in first.items():
            last, own = x, problem.gradient(i, x, rows) - problem.gradient(i, before, rows)
            own = own + g_before  # line 17
            y = last - eta * own
            for rows_k in later.get(i, []):  # lines 19 to 23
                own = problem.gradient(i, y, rows_k) - problem.gradient(i, last, rows_k) + own
                last, y = y, y - eta * own
            moves[i] = x - y  # line 24: x − y_K, not the running text's y_K − x
        g = mean(problem, moves) / (hyper.local_steps * eta)
    return {"x": x - hyper.global_step_size * g, "x_previous": x, "g": g}
