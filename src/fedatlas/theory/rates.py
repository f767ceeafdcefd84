"""Tables 1 and 3 of FedPAGE's paper as data: rounds and gradients to an ε-solution.

A bound is a sum of terms, each a coefficient of the problem times powers of N (clients), S (sampled
clients), M (samples of a client), K (local steps) and 1/ε. ε bounds E[f − f*] of convex problems
and E‖∇f‖ of others. The smoothness L is left out, as in the tables.
"""

from dataclasses import dataclass
from typing import Literal

Problem = Literal["convex", "nonconvex"]


@dataclass(frozen=True)
class Term:
    """coefficient · N^clients · S^sampled · M^samples · K^steps · (1/ε)^accuracy.

    coefficient: constants of the problem besides L: G, B of bounded dissimilarity, σ² of bounded
    variance.
    """

    accuracy: float
    clients: float = 0
    sampled: float = 0
    samples: float = 0
    steps: float = 0
    coefficient: str = ""


@dataclass(frozen=True)
class Rate:
    """A row of the tables for one kind of problem.

    rounds, gradients: terms of Table 1 and of Table 3, per client; empty where the table has none.
    note: ours: for which case the entry is proved.
    """

    method: str
    source: str
    problem: Problem
    assumptions: str
    rounds: tuple[Term, ...] = ()
    gradients: tuple[Term, ...] = ()
    note: str = ""


_OF_OTHERS = "quoted by the paper; not checked here"

RATES = (
    Rate(
        "FedAvg",
        "Yu et al. 2019",
        "nonconvex",
        "smooth, BV, (G, 0)-BGD",
        (
            Term(2, clients=1, steps=1, coefficient="G²"),
            Term(4, clients=-1, steps=-1, coefficient="σ²"),
        ),
        (Term(2, clients=1, steps=2, coefficient="G²"), Term(4, clients=-1, coefficient="σ²")),
        _OF_OTHERS,
    ),
    Rate(
        "FedAvg",
        "Karimireddy et al. 2020",
        "convex",
        "smooth, BV, (G, B)-BGD",
        (
            Term(2, sampled=-1, coefficient="G²"),
            Term(1.5, coefficient="G"),
            Term(1, coefficient="B²"),
            Term(2, sampled=-1, steps=-1, coefficient="σ²"),
        ),
        (
            Term(2, clients=-1, steps=1, coefficient="G²"),
            Term(1.5, clients=-1, sampled=1, steps=1, coefficient="G"),
            Term(1, clients=-1, sampled=1, steps=1, coefficient="B²"),
            Term(2, clients=-1, coefficient="σ²"),
        ),
        _OF_OTHERS,
    ),
    Rate(
        "FedAvg",
        "Karimireddy et al. 2020",
        "nonconvex",
        "smooth, BV, (G, B)-BGD",
        (
            Term(4, sampled=-1, coefficient="G²"),
            Term(3, coefficient="G"),
            Term(2, coefficient="B²"),
            Term(4, sampled=-1, steps=-1, coefficient="σ²"),
        ),
        (
            Term(4, clients=-1, steps=1, coefficient="G²"),
            Term(3, clients=-1, sampled=1, steps=1, coefficient="G"),
            Term(2, clients=-1, sampled=1, steps=1, coefficient="B²"),
            Term(4, clients=-1, coefficient="σ²"),
        ),
        _OF_OTHERS,
    ),
    Rate(
        "FedProx",
        "Sahu et al. 2018",
        "nonconvex",
        "smooth, S = N, (0, B)-BGD",
        (Term(1, coefficient="B²"),),
        (Term(1, coefficient="B²"),),
        "quoted by the paper; the text at hand has lost the columns of its tables; placed by the "
        "power of ε",
    ),
    Rate(
        "VRL-SGD",
        "Liang et al. 2019",
        "nonconvex",
        "smooth, BV, S = N",
        (Term(2, clients=1), Term(4, clients=1, steps=-1, coefficient="σ²")),
        (Term(2, clients=1, steps=1), Term(4, clients=1, coefficient="σ²")),
        _OF_OTHERS,
    ),
    Rate(
        "S-Local-SVRG",
        "Gorbunov et al. 2020",
        "convex",
        "smooth, (BV), S = N, K ≤ M",
        (Term(1, samples=1 / 3, steps=-1 / 3), Term(1, clients=-0.5, samples=0.5, steps=-1)),
        (
            Term(1, steps=1),
            Term(1, clients=-0.5, samples=0.5),
            Term(1, samples=1 / 3, steps=2 / 3),
        ),
        _OF_OTHERS,
    ),
    Rate(
        "SCAFFOLD",
        "Karimireddy et al. 2020",
        "convex",
        "smooth, BV",
        (Term(1, clients=1, sampled=-1), Term(2, sampled=-1, steps=-1, coefficient="σ²")),
        (Term(1, steps=1), Term(2, clients=-1, coefficient="σ²")),
        _OF_OTHERS,
    ),
    Rate(
        "SCAFFOLD",
        "Karimireddy et al. 2020",
        "nonconvex",
        "smooth, BV",
        (
            Term(2, clients=2 / 3, sampled=-2 / 3),
            Term(4, sampled=-1, steps=-1, coefficient="σ²"),
        ),
        (Term(2, clients=-1 / 3, sampled=1 / 3, steps=1), Term(4, clients=-1, coefficient="σ²")),
        _OF_OTHERS,
    ),
    Rate(
        "FedPAGE",
        "this paper",
        "convex",
        "smooth, (BV)",
        (Term(1, clients=0.75, sampled=-1),),
        (Term(1, clients=-0.25, samples=1), Term(1, clients=-0.25, steps=1)),
        "Theorems 5.1 (K = 1) and 5.2, for S ≤ √N and a mean over rounds; the second has no "
        "constants, and its local step falls with 1/√R; under BV Table 3 has N^(3/2) σ²/(S ε²) "
        "for M",
    ),
    Rate(
        "FedPAGE",
        "this paper",
        "nonconvex",
        "smooth, (BV)",
        (Term(2, clients=0.5, sampled=-1), Term(2)),
        (
            Term(2, clients=-0.5, samples=1),
            Term(2, clients=-0.5, steps=1),
            Term(2, clients=-1, sampled=1, samples=1),
            Term(2, clients=-1, sampled=1, steps=1),
        ),
        "Theorems 4.1 (K = 1) and 4.2, for a mean over rounds; their steps are up to √2 too large "
        "for the proofs; under BV Table 3 has N σ²/(S ε²) for M",
    ),
)


def in_symbols(terms: tuple[Term, ...]) -> str:
    """The bound as it is written, `N^(1/2)/(S ε²) + 1/ε²`."""
    return " + ".join(map(_term, terms)) or "—"


def _term(term: Term) -> str:
    powers = {
        "N": term.clients,
        "S": term.sampled,
        "M": term.samples,
        "K": term.steps,
        "ε": -term.accuracy,
    }
    above = [_power(symbol, power) for symbol, power in powers.items() if power > 0]
    below = [_power(symbol, -power) for symbol, power in powers.items() if power < 0]
    top = " ".join(filter(None, [term.coefficient, *above])) or "1"
    return f"{top}/{below[0]}" if len(below) == 1 else f"{top}/({' '.join(below)})"


def _power(symbol: str, power: float) -> str:
    named = {1.0: "", 2.0: "²", 3.0: "³", 4.0: "⁴"}
    if power in named:
        return symbol + named[power]
    fractions = {1 / 3: "1/3", 2 / 3: "2/3", 0.5: "1/2", 0.25: "1/4", 0.75: "3/4", 1.5: "3/2"}
    return f"{symbol}^({fractions[power]})"


def markdown() -> str:
    """Both tables in one, as the documentation shows them."""
    heads = (
        "method",
        "source",
        "problem",
        "assumptions",
        "rounds (Table 1)",
        "gradients per client (Table 3)",
        "note",
    )
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    lines += [
        f"| {rate.method} | {rate.source} | {rate.problem} | {rate.assumptions} | "
        f"{in_symbols(rate.rounds)} | {in_symbols(rate.gradients)} | {rate.note} |"
        for rate in RATES
    ]
    return "\n".join(lines) + "\n"
