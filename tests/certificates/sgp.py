"""Stochastic gradient push (arXiv:1811.10792, Algorithm 1) on one graph; from memory.

x_i ← Σ_j P_ij (x_j − γ ∇f_j,B(x_j/w_j)),  w_i ← Σ_j P_ij w_j;  the model is x_i/w_i,
P = I − κ diag(Σ_i w_ij) + κ (w_ij), w_ij being the graph's
"""

import numpy as np
from _shared import gradients, mixed


def start(problem, x0, hyper):
    return {"x": x0, "w": np.ones((len(x0), 1))}


def step(state, draws, problem, hyper):
    x, w, c, kappa = state["x"], state["w"], problem.states, hyper.coupling
    P = np.eye(len(x)) - kappa * np.diag(c.sum(axis=0)) + kappa * c
    half = x - hyper.step_size * gradients(problem, x / w, draws.batches[0])
    return {"x": mixed(P, half), "w": mixed(P, w)}
