"""Secrets that the history of a training reveals: a small problem, its history, and a linear system.

VFB² (arXiv:2103.00958), Definition 3, Lemma 1 and Theorem 7. Lemma 1 speaks of one share
o = w_ℓ·x_{i,ℓ}, which has infinitely many solutions. A history of shares has few. Every party is
sent all ϑ and their samples, so it knows the numbers c_s of w_ℓ^s = X_ℓᵀ c_s from the start w = 0
on, though neither X_ℓ nor w_ℓ. Shares at S snapshots of SVRG are then O = G C with known C (n, S)
and the unknown Gram matrix G = X_ℓ X_ℓᵀ of rank r ≤ d_ℓ: nS equations, nr − r(r − 1)/2 unknowns.
As soon as S ≥ r, O spans what the columns of X_ℓ span; with a basis B of it G = B M Bᵀ, and M
follows from Bᵀ O = M Bᵀ C, a linear system.

G gives the features up to an orthogonal matrix, the very ambiguity in the proof of Lemma 1. No more
can follow, as w = 0 and l2 single out no axes. So G tells distances and angles of all samples, a
single feature up to its sign, and all features once as many rows as they span are known.

The attacker knows γ and λ, and takes a nonconvex regulariser for its quadratic part. Where the
order in which a party applies updates is not known, as with delays, C is off by γλ of each update
that came early or late.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedatlas.federations.vertical.shards import PartyRows
from fedatlas.schema.objectives import LinearObjective, Regulariser
from fedatlas.studies.leaks import derivatives

_SAMPLES, _MOST_FEATURES = 128, 64
_PRECISION = 1e-13  # of float64, in singular values over the largest


@dataclass(frozen=True)
class SmallProblem:
    """Some rows, and of every party the columns that vary most: features (n, d), labels (n,).

    starts: (q + 1,) first column of every party, and d.
    """

    features: np.ndarray
    labels: np.ndarray
    starts: np.ndarray
    objective: LinearObjective

    @classmethod
    def of(cls, rows: PartyRows, objective: LinearObjective, seed: int = 0) -> "SmallProblem":
        """Rows drawn at random, by a seed."""
        drawn = np.sort(np.random.default_rng(seed).permutation(len(rows))[:_SAMPLES])
        chosen = rows.features[drawn]
        blocks = []
        for start, stop in zip(rows.starts[:-1], rows.starts[1:], strict=True):
            block = chosen[:, start:stop]
            dense = block if isinstance(block, np.ndarray) else block.toarray()
            varied = np.argsort(-dense.std(axis=0), kind="stable")[:_MOST_FEATURES]
            blocks.append(dense[:, varied])
        starts = np.cumsum([0, *(block.shape[1] for block in blocks)])
        return cls(np.hstack(blocks), rows.label[drawn], starts, objective)

    @property
    def parties(self) -> int:
        """q."""
        return len(self.starts) - 1

    @property
    def step_size(self) -> float:
        """1/L of the sample with the steepest gradient."""
        steepest = float((self.features**2).sum(axis=1).max())
        return 1.0 / (self.objective.loss.value * steepest)

    @property
    def shrinkage(self) -> float:
        """By how much of itself an update makes w smaller, near 0."""
        objective = self.objective
        return self.step_size * objective.regularisation_weight * objective.regulariser.value

    def block(self, party: int) -> slice:
        """The columns of a party, those that vary most first."""
        return slice(int(self.starts[party]), int(self.starts[party + 1]))

    def slope(self, w: np.ndarray, i: int) -> float:
        """ϑ of a sample at w."""
        margin, label = self.features[i] @ w, self.labels[i : i + 1]
        return float(derivatives(self.objective.loss, np.array([margin]), label)[0])

    def penalty(self, w: np.ndarray) -> np.ndarray:
        """λ∇g(w)."""
        weight = self.objective.regularisation_weight
        if self.objective.regulariser is Regulariser.NONCONVEX:
            return np.asarray(2.0 * weight * w / (1.0 + w**2) ** 2)
        return weight * self.objective.regulariser.value * w


class History(NamedTuple):
    """Snapshots of SVRG after the one at w = 0: w (d, S), coefficients C (n, S), ϑ (n, S)."""

    w: np.ndarray
    coefficients: np.ndarray
    slopes: np.ndarray


def train(
    problem: SmallProblem, snapshots: int, *, reordered: bool = False, seed: int = 0
) -> History:
    """VFB²-SVRG with one dominator from w = 0, n updates between two snapshots.

    reordered: parties apply every second update after the next one, and the attacker does not know.
    """
    features, n = problem.features, len(problem.labels)
    random = np.random.default_rng([seed, 1])
    w, c = np.zeros(features.shape[1]), np.zeros(n)
    found: list[tuple[np.ndarray, ...]] = []
    for _ in range(snapshots + 1):
        margins = features @ w
        reference = derivatives(problem.objective.loss, margins, problem.labels)
        found.append((w, c, reference))
        mean, late = features.T @ reference / n, 0.0 * w
        for number, i in enumerate(random.integers(n, size=n)):
            change = problem.slope(w, i) - reference[i]
            step = problem.step_size * (change * features[i] + mean)
            waits = reordered and number % 2 == 0 and number < n - 1
            w = w - problem.step_size * problem.penalty(w) - (0.0 if waits else step + late)
            late = step if waits else 0.0 * w
            # What every party knows, from the ϑ and the samples that it was sent.
            c = (1 - problem.shrinkage) * c - problem.step_size * reference / n
            c[i] -= problem.step_size * change
    w_s, coefficients, slopes = (np.array(parts[1:]).T for parts in zip(*found, strict=True))
    return History(w_s, coefficients, slopes)


def first_slopes(problem: SmallProblem, seed: int = 0) -> np.ndarray:
    """(n,) ϑ of every sample when VFB²-SGD first draws it in an epoch from w = 0; or NaN."""
    n = len(problem.labels)
    w, found = np.zeros(problem.features.shape[1]), np.full(n, np.nan)
    for i in np.random.default_rng([seed, 2]).integers(n, size=n):
        slope = problem.slope(w, i)
        found[i] = slope if np.isnan(found[i]) else found[i]
        w = w - problem.step_size * (slope * problem.features[i] + problem.penalty(w))
    return found


class Recovered(NamedTuple):
    """points: P (n, r), with P Pᵀ the Gram matrix. constant: (n,) what `kept` multiplies."""

    points: np.ndarray
    constant: np.ndarray


def recover(
    shares: np.ndarray,
    coefficients: np.ndarray,
    noise: float = 0.0,
    kept: np.ndarray | None = None,
) -> Recovered:
    """Solve O = G C, or O = G C + v kᵀ, for G = X Xᵀ and v in the span of X.

    shares: O (n, S). coefficients: C (n, S). noise: size of errors of the shares; directions that
    stand no higher than noise are left out, r = 0 if all are. kept: k (S,).
    """
    n, observed = shares.shape
    basis, sizes, _ = np.linalg.svd(shares, full_matrices=False)
    floor = max(noise * (np.sqrt(n) + np.sqrt(observed)), _PRECISION * sizes[0])
    basis = basis[:, sizes > floor]
    known = coefficients.T @ basis
    if kept is not None:
        known = np.hstack([known, kept[:, np.newaxis]])
    solved = np.linalg.lstsq(known, shares.T @ basis, rcond=None)[0]
    rank = basis.shape[1]
    middle, constant = solved[:rank], basis @ solved[rank:].sum(axis=0)
    values, vectors = np.linalg.eigh((middle + middle.T) / 2)
    return Recovered(basis @ (vectors * np.sqrt(np.maximum(values, 0.0))), constant)
