"""The papers' listings, word for word: plain float64 loops, one client and one step at a time.

Nothing here is vectorised over clients, and no method here is random: the sampled clients, the
coin and the rows of every minibatch are arguments, so that these loops can replay the draws of
another implementation. The only purpose is to be compared with. `shard_of` hands the same samples
to the package; nothing else here touches it.

Sources: FedPAGE, arXiv:2108.04755, Algorithm 1 and section 6; FedAvg with two step sizes and
SCAFFOLD, arXiv:1910.06378, Algorithm 1; logistic regression with an l2 term, arXiv:2103.00958
(13).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse

from fedatlas.arithmetic.samples import Samples
from fedatlas.federations.shards import ClientSamples
from fedatlas.schema.objectives import LinearObjective
from reference_vertical import loss_derivative, loss_value, regulariser_gradient, regulariser_value

Vector = np.ndarray
"""A float64 vector of d entries."""

Rows = Sequence[int]
"""A minibatch: indices of samples j within [M], of one client."""


# ----------------------------------------------------------------------------- objectives


@dataclass(frozen=True)
class Problem:
    """f(x) = 1/N Σ_i f_i(x), f_i(x) = 1/M_i Σ_j f_ij(x): client i holds clients[i] = (A_i, b_i).

    loss: ``robust`` or ``logistic``, the first terms of FedPAGE section 6, or ``square``,
    arXiv:2103.00958 (17); regulariser: none,
    ``nonconvex`` (FedPAGE section 6) or ``l2`` (arXiv:2103.00958 (13)), with its constant.
    """

    clients: list[tuple[np.ndarray, np.ndarray]]
    loss: str = "robust"
    regulariser: str = "none"
    constant: float = 0.0

    def sample_value(self, i: int, j: int, x: Vector) -> float:
        """f_ij(x)."""
        a, b = self.clients[i][0][j], float(self.clients[i][1][j])
        value = loss_value(self.loss, float(np.dot(a, x)), b)
        return value + regulariser_value(self.regulariser, self.constant, x)

    def sample_gradient(self, i: int, j: int, x: Vector) -> Vector:
        """∇f_ij(x)."""
        a, b = self.clients[i][0][j], float(self.clients[i][1][j])
        slope = loss_derivative(self.loss, float(np.dot(a, x)), b)
        return slope * a + regulariser_gradient(self.regulariser, self.constant, x)

    def rows(self, i: int) -> Rows:
        """[M_i]: every sample of client i."""
        return range(len(self.clients[i][1]))

    def client_gradient(self, i: int, x: Vector, rows: Rows | None = None) -> Vector:
        """∇_I f_i(x), the mean of ∇f_ij(x) over j in I; over every sample without rows."""
        rows = self.rows(i) if rows is None else rows
        total = np.zeros_like(x)
        for j in rows:
            total = total + self.sample_gradient(i, int(j), x)
        return total / len(rows)

    def value(self, x: Vector) -> float:
        """f(x)."""
        total = 0.0
        for i in range(len(self.clients)):
            total += sum(self.sample_value(i, j, x) for j in self.rows(i)) / len(self.rows(i))
        return total / len(self.clients)

    def gradient(self, x: Vector) -> Vector:
        """∇f(x)."""
        total = np.zeros_like(x)
        for i in range(len(self.clients)):
            total = total + self.client_gradient(i, x)
        return total / len(self.clients)


# ----------------------------------------------------------------- the package's containers

#: Loss and regulariser of each objective.
PARTS = {
    "robust_regression": ("robust", "none"),
    "logistic_nonconvex": ("logistic", "nonconvex"),
    "logistic_l2": ("logistic", "l2"),
    "ridge_regression": ("square", "l2"),
}
OBJECTIVES = tuple(PARTS)


def objective_of(name: str, weight: float = 0.1) -> LinearObjective:
    """The package's name for each of the objectives."""
    return LinearObjective(name=name, weight=None if name == "robust_regression" else weight)


def by_autograd(
    name: str,
    weight: float,
    X: np.ndarray,
    y: np.ndarray,
    w: torch.Tensor,
    others: np.ndarray | float = 0.0,
) -> torch.Tensor:
    """The mean loss of margins X w + others and the regulariser, for automatic differentiation."""
    loss, regulariser = PARTS[name]
    y = torch.as_tensor(y)
    z = torch.as_tensor(X) @ w + torch.as_tensor(others)
    if loss == "robust":
        losses = torch.log(1 + (z - y) ** 2 / 2)
    elif loss == "square":
        losses = (z - y) ** 2
    else:
        losses = torch.log(1 + torch.exp(-y * z))
    penalty = {
        "none": 0 * w.sum(),
        "l2": (w**2).sum() / 2,
        "nonconvex": (w**2 / (1 + w**2)).sum(),
    }[regulariser]
    return losses.mean() + weight * penalty


def slope(name: str, margin: float, label: float) -> float:
    """ℓ′ of one sample, from the formulas of the papers."""
    return loss_derivative(PARTS[name][0], margin, label)


def random_problem(
    objective: LinearObjective,
    sizes: Sequence[int],
    dimension: int,
    seed: int,
    density: float = 0.6,
    scale: float = 1.0,
) -> Problem:
    """Random samples with labels ±1; client i holds sizes[i], some of them without any feature."""
    random = np.random.default_rng(seed)
    clients = []
    for size in sizes:
        present = random.random((size, dimension)) < density
        rows = np.where(present, scale * random.normal(size=(size, dimension)), 0.0)
        if size > 2:
            rows[1] = 0.0
        clients.append((rows, np.where(random.random(size) < 0.5, 1.0, -1.0)))
    return Problem(clients, *PARTS[objective.name], objective.weight or 0.0)


def shard_of(problem: Problem, layout: str = "sparse") -> ClientSamples:
    """The problem's samples as the package reads them from a shard."""
    dense = np.concatenate([rows for rows, _ in problem.clients])
    label = np.concatenate([label for _, label in problem.clients])
    offsets = np.cumsum([0, *(len(label) for _, label in problem.clients)])
    features = sparse.csr_array(dense) if layout == "sparse" else dense
    return ClientSamples(Samples(np.arange(len(label)), label, features), offsets, {})


# --------------------------------------------------------------------------------- FedAvg


def fedavg_round(
    problem: Problem,
    x: Vector,
    clients: Sequence[int],
    batches: Sequence[Sequence[Rows]],
    local_step: float,
    global_step: float,
) -> Vector:
    """One round of FedAvg with two step sizes; batches[s][k] is client s's minibatch of step k."""
    changes = []
    for s, i in enumerate(clients):
        y = x.copy()
        for rows in batches[s]:
            y = y - local_step * problem.client_gradient(i, y, rows)
        changes.append(y - x)
    total = np.zeros_like(x)
    for change in changes:
        total = total + change
    return x + global_step / len(clients) * total


# -------------------------------------------------------------------------------- FedPAGE


@dataclass
class PageState:
    """x^r, and what the previous round left: x^{r−1} and g^{r−1} (none before round 0)."""

    x: Vector
    previous_x: Vector | None = None
    previous_g: Vector | None = None


def page_step(
    problem: Problem, state: PageState, full: bool, clients: Sequence[int], step: float
) -> PageState:
    """PAGE (Li et al. 2021, Algorithm 1) on f = 1/N Σ f_i, written apart from FedPAGE.

    g ← ∇f(x) when the coin is 1, else g + 1/S Σ_{i in batch} (∇f_i(x) − ∇f_i(x_before)).
    """
    if full or state.previous_x is None or state.previous_g is None:
        g = problem.gradient(state.x)
    else:
        g = state.previous_g.copy()
        for i in clients:
            difference = problem.client_gradient(i, state.x) - problem.client_gradient(
                i, state.previous_x
            )
            g = g + difference / len(clients)
    return PageState(state.x - step * g, state.x, g)


# ------------------------------------------------------------------------- theory's steps


def page_step_bound(smoothness: float, p: float, sampled: int) -> float:
    """Theorem 4.1 (K = 1) with PAGE's own constant, √((1−p)/(pS)); the print has 2pS."""
    return 1.0 / (smoothness * (1.0 + math.sqrt((1.0 - p) / (p * sampled))))


def fedpage_step_bound(smoothness: float, p: float, sampled: int) -> float:
    """Theorem 4.2's global step with √(3(1−p/3)/(pS)); the print has 2pS and is too large."""
    return 1.0 / (smoothness * (1.0 + math.sqrt(3.0 * (1.0 - p / 3.0) / (p * sampled))))


def fedpage_local_bound(smoothness: float, p: float, sampled: int, steps: int) -> float:
    """Theorem 4.2's local step √2 p / (24 √S K L)."""
    return math.sqrt(2.0) * p / (24.0 * math.sqrt(sampled) * steps * smoothness)


def scaffold_local_bound(
    smoothness: float, clients: int, sampled: int, steps: int, global_step: float
) -> float:
    """SCAFFOLD, nonconvex (arXiv:1910.06378 Th. III): (S/N)^{2/3} / (24 K η_g L)."""
    return (sampled / clients) ** (2.0 / 3.0) / (24.0 * steps * global_step * smoothness)
