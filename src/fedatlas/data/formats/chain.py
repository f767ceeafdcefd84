"""Hard chains: rows of linear models that no method solves quickly.

`chain`: its links lie with two kinds of clients in turn, and an exchange opens one number.
`wells`: each client has a chain of its own, and each of its gradients opens one number.
"""

from math import sqrt
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from fedatlas.arithmetic.samples import Samples
from fedatlas.data.formats.quadratics import MadeFunctions
from fedatlas.data.formats.synthetic_clients import COLUMN
from fedatlas.schema.models import Model


class Chain(Model):
    """Nesterov's quadratic chain, its links dealt out to clients.

    Arjevani, Shamir 2015 (arXiv:1506.01900); over graphs Scaman et al. 2017 (arXiv:1702.08704). The
    ends are ours: they make all below exact in d numbers.

    Client i of N has f_i(x) = c/2 Σ_k w_k (x_k − x_{k+1})² + μ/2 ‖x‖² over its links, 0 ≤ k ≤ d,
    with x_0 = s given and x_{d+1} = 0. Even links lie with clients 0 … m−1, odd ones with
    N/2 … N/2+m−1, the others have none. w_k is 1, but w_d is 1 − q. c is (L − μ)/2; no two links
    of a client touch, so that every f_i is L-smooth and μ-strongly convex.

    The optimum of f, the mean, is x*_k = s qᵏ with q = (√Q − 1)/(√Q + 1), Q = 1 + 4cm/(Nμ): Q is
    L/μ if m = N/2. s is such that f(0) − f* = 1.

    The bound: from an x that ends with x_k a gradient makes x_{k+1} differ from 0 only with those
    who hold link k. They lack link k + 1, so that no further gradient of theirs goes on. A method
    whose vectors are combinations of what it has thus knows none with x_k ≠ 0 for k > t after t
    exchanges with a server; over a graph, for k > 1 + ⌊t/Δ⌋, the kinds being Δ links apart. Of all
    x with R < d numbers the best has

        f(x) − f* = q²ᴿ (1 − q²)/(1 − q²ᴿ⁺²),

    and the nearest ‖x − x*‖² = (q²ᴿ − q²ᵈ)/(1 − q²ᵈ) ‖x*‖².

    clients: N, even. holders: m, of either kind. smoothness, convexity: L and μ.
    """

    clients: int = Field(ge=2, multiple_of=2)
    holders: int = Field(ge=1)
    smoothness: PositiveFloat
    convexity: PositiveFloat

    @model_validator(mode="after")
    def _holders_and_constants_are_possible(self) -> Self:
        if self.holders > self.clients // 2:
            raise ValueError(f"'holders' must be at most {self.clients // 2}, half of the clients")
        if self.convexity >= self.smoothness:
            raise ValueError("'convexity' must be below 'smoothness': links are what is between")
        return self

    @property
    def stiffness(self) -> float:
        """c, of a link of a client."""
        return (self.smoothness - self.convexity) / 2

    @property
    def decay(self) -> float:
        """q, by which the optimum falls from number to number."""
        root = sqrt(1 + 4 * self.stiffness * self.holders / self.clients / self.convexity)
        return (root - 1) / (root + 1)

    @property
    def start(self) -> float:
        """s."""
        return sqrt(2 * self.clients / (self.stiffness * self.holders * self.decay))

    @property
    def apart(self) -> int:
        """Δ on a ring."""
        return self.clients // 2 - self.holders + 1

    def least_gap(self, known: Any) -> Any:
        """The least f(x) − f* of an x with so many numbers that are not 0, fewer than d."""
        ratio = self.decay**2
        return ratio**known * (1 - ratio) / (1 - ratio ** (known + 1))

    def numbers_for(self, gap: float) -> int:
        """How many numbers an x needs at least for f(x) − f* to be at most `gap`."""
        known = 0
        while self.least_gap(known) > gap:
            known += 1
        return known


class ChainDataset(MadeFunctions):
    """chain: the numbers of the model; `features` is d. Each client has d rows."""

    unscaled: ClassVar[str] = "a chain is"

    format: Literal["chain"]
    chain: Chain

    def read(self, split: str, raw: list[Path]) -> Samples:
        made, half, links = self.chain, self.chain.clients // 2, [0, 1]
        kinds = [links[i // half] if i % half < made.holders else None for i in range(2 * half)]
        read = [_rows(made, self.features, kind) for kind in kinds]
        owners = np.repeat(np.arange(made.clients), self.features).tolist()
        rows, labels = (np.concatenate(parts) for parts in zip(*read, strict=True))
        return Samples.numbered(labels, rows, {COLUMN: owners})


def _rows(made: Chain, d: int, first: int | None) -> tuple[np.ndarray, np.ndarray]:
    """A client's rows (d, d) and labels (d,), whose mean of (aᵀx − y)² is f_i up to a constant.

    first: its first link, of which it has every other one; None if it has none.
    """
    stiffness, low = made.stiffness, made.convexity
    rows, labels = np.sqrt(d * low / 2) * np.eye(d), np.zeros(d)
    for link in () if first is None else range(first, d + 1, 2):
        if link == 0:  # c/2 (x_1 − s)²
            rows[0, 0] = sqrt(d * (stiffness + low) / 2)
            labels[0] = d * stiffness * made.start / (2 * rows[0, 0])
        elif link == d:
            rows[-1, -1] = sqrt(d * (stiffness * (1 - made.decay) + low) / 2)
        else:
            one, other = link - 1, link  # counted from 0
            rows[one, [one, other]] = sqrt(d * (2 * stiffness + low)) / 2 * np.array([1, -1])
            rows[other, [one, other]] = sqrt(d * low) / 2 * np.array([1, 1])
    return rows, labels


class Wells(Model):
    """A nonconvex chain for each client.

    Carmon, Duchi, Hinder, Sidford 2017, II (arXiv:1711.00841), with their r = 1; one for each of N
    functions as in Zhou, Gu 2019 (arXiv:1901.11224). So is PAGE's Theorem 2, quoted from memory.

    Client i of N has T + 1 numbers x of its own, and f_i is

        g(x) = √α/2 (x_1 − 1)² + ½ Σ_{k ≤ T} (x_{k+1} − x_k)² + α Σ_{k ≤ T} Γ(x_k),
        Γ(t) = 120 ∫_1^t s² (s − 1)/(1 + s²) ds,

    which is 0, its least, where all numbers are 1. It is ℓ-smooth with ℓ = 4 + 180α. So the f_i are
    L-smooth on average with L = ℓ/√N, and f, their mean, is smooth with ℓ/N.

    The bound: as Γ′(0) = 0, a gradient of f_i makes one number of client i differ from 0 at most,
    the next of its chain. While x_T = x_{T+1} = 0, ‖∇g(x)‖ > α^¾/4 (Lemma 3 of II for α ≤ 1, quoted
    from memory). So while more than a share u of the clients took fewer than T gradients each,
    ‖∇f(x)‖ > α^¾/4 · √(u/N), whatever a method draws, sends or computes besides: to get there takes
    (1 − u) N T gradients of clients. By f(0) − f* ≤ √α/2 + 10αT that is of the order
    √N L (f(0) − f*)/ε².

    clients: N. length: T. depth: α.
    """

    clients: int = Field(ge=1)
    length: int = Field(ge=2)
    depth: float = Field(gt=0, le=1)

    @property
    def smoothness(self) -> float:
        """ℓ."""
        return 4 + 180 * self.depth

    def level(self, unfinished: float) -> float:
        """What ‖∇f(x)‖ exceeds while more than this share u of the clients is not done."""
        return self.depth**0.75 / 4 * sqrt(unfinished / self.clients)

    def gradients_for(self, unfinished: float) -> float:
        """How many gradients of clients it takes at least to get to that level."""
        return (1 - unfinished) * self.clients * self.length


class WellsDataset(MadeFunctions):
    """wells: the numbers of the model; `features` is N (T + 1). Each client has 2T + 1 rows.

    The objective is `springs_and_wells`, which reads from a label what a row is.
    """

    unscaled: ClassVar[str] = "wells are"

    format: Literal["wells"]
    wells: Wells

    @model_validator(mode="after")
    def _is_of_its_size(self) -> Self:
        if self.features != (needed := self.wells.clients * (self.wells.length + 1)):
            raise ValueError(f"'features' must be {needed}, clients times length + 1")
        return self

    def read(self, split: str, raw: list[Path]) -> Samples:
        made = self.wells
        one, size = np.eye(made.length + 1), 2 * made.length + 1
        root = sqrt(size)  # a client's function is the mean of its rows
        first, springs = root * made.depth**0.25, root * np.diff(one, axis=0)
        rows = np.concatenate([first * one[:1], springs, one[:-1]])
        labels = [first, *[0.0] * made.length, *[-size * made.depth] * made.length]
        owners = np.repeat(np.arange(made.clients), size).tolist()
        every = np.kron(np.eye(made.clients), rows)
        return Samples.numbered(np.tile(labels, made.clients), every, {COLUMN: owners})
