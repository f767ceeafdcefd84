"""EXTRA (arXiv:1404.6264, Algorithm 1) with W̃ = (I + W)/2; from memory.

x¹ = W x⁰ − α ∇f(x⁰)
xᵏ⁺² = (I + W) xᵏ⁺¹ − (I + W)/2 xᵏ − α (∇f(xᵏ⁺¹) − ∇f(xᵏ)),  W = I − κ diag(Σ_j w_ij) + κ (w_ij)
"""

import numpy as np
from _shared import gradients, mixed, mixing


def start(problem, x0, hyper):
    return {"x": x0, "_before": None, "_g": None}


def step(state, draws, problem, hyper):
    x, before, alpha, W = (
        state["x"],
        state["_before"],
        hyper.step_size,
        mixing(problem, hyper.coupling),
    )
    g = gradients(problem, x, draws.batches[0])
    if draws.round == 0:
        new = mixed(W, x) - alpha * g
    else:
        half = (np.eye(len(x)) + W) / 2
        new = x + mixed(W, x) - mixed(half, before) - alpha * (g - state["_g"])
    return {"x": new, "_before": x, "_g": g}
