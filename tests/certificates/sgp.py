"""Stochastic gradient push (arXiv:1811.10792, Algorithm 1) on one graph; from memory."""

import numpy as np
from _shared import gradients, mixed


def start(problem, x0, hyper):
    return {"x": x0, "_pushed": x0, "_w": np.ones(len(x0))}


def step(state, draws, problem, hyper):
    z, c, kappa = state["x"], problem.states, hyper.coupling
    P = np.eye(len(z)) - kappa * np.diag(c.sum(axis=0)) + kappa * c
    half = state["_pushed"] - hyper.step_size * gradients(problem, z, draws.batches[0])
    x, w = mixed(P, half), mixed(P, state["_w"])
    return {"x": x / w[:, None], "_pushed": x, "_w": w}
