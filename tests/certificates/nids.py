"""NIDS (arXiv:1704.07807, Algorithm 1, no nonsmooth term), its first step mixed; from memory.

x¹ = W̃ (x⁰ − α ∇f(x⁰))
xᵏ⁺² = W̃ (2xᵏ⁺¹ − xᵏ − α ∇f(xᵏ⁺¹) + α ∇f(xᵏ)),  W̃ = (I + W)/2,
W = I − κ diag(Σ_j w_ij) + κ (w_ij)
"""

from _shared import gradients, mixed, mixing


def start(problem, x0, hyper):
    return {"x": x0, "_before": None, "_g": None}


def step(state, draws, problem, hyper):
    x, before, alpha = state["x"], state["_before"], hyper.step_size
    g = gradients(problem, x, draws.batches[0])
    sent = x - alpha * g if before is None else 2 * x - before - alpha * g + alpha * state["_g"]
    return {"x": mixed(mixing(problem, hyper.coupling), sent), "_before": x, "_g": g}
