"""Certificates of methods for the reference: equations, what is compared, costs and small curves.

Equations stand in the docstrings of tests/certificates, cases in its `_cases.py`. Costs and curves
are those of each method's first case on one made problem, trained when the site is built.
"""

import logging
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fedatlas import train
from fedatlas.algorithms import algorithm_class
from fedatlas.conform.explained import certificate
from fedatlas.markdown import code, table, text

_ROOT = Path(__file__).parents[2]
_TESTS = _ROOT / "tests"
sys.path.append(str(_TESTS))
logging.getLogger("fedatlas").addHandler(logging.NullHandler())  # of steps that no theorem covers

from certificates._cases import CASES, CLIENTS, ELSEWHERE, NETWORK, WITHIN  # noqa: E402

_ROWS, _FEATURES, _ROUNDS = 70, 5, 50
_WIDE, _HIGH, _DECADES = 96, 28, 6

_OPENING = f"""
## Certificates

A certificate is a plain loop in float64, a client and a step at a time, written from the paper by
someone who had not seen the method's file. The package draws; the loop is given what was drawn.
Both sides agree in every round within {WITHIN:g} of the iterate's norm: on clients with unequally
many samples, with all or some of them, with minibatches and every option, on compiled loops, on
tensors and on networks. [An implementation of your own](../conform.md) is checked likewise.
Certificates lie in `tests/certificates`.

Costs and curves are of one small problem, logistic regression with {CLIENTS} clients of
{_ROWS // CLIENTS} samples and d = {_FEATURES}, at the hyper-parameters of the first case, which are
not tuned: floats that all clients together are sent and send in a round, in units of d (on graphs
what agents send along edges); gradients of single samples; f − f\\* over {_ROUNDS} rounds, or the
method's horizon, in a frame {_DECADES} decades high. Most first cases have all clients and all
samples; those of Power-of-Choice, Cyclic, FedAsync, FedBuff, CHOCO-SGD, and private methods on
graphs have fewer.
"""


def section() -> str:
    """The tables of methods and their certificates, and where others are compared."""
    around, on_graphs = [], []
    for name, cases in CASES.items():
        row = [_link(name), code(name), str(len(cases)), *_trained(name)]
        (on_graphs if algorithm_class(name).federation.on_graphs else around).append(row)
    heads = ("method", "certificate", "cases", "up, d", "down, d", "gradients", "f − f\\*")
    graphs = (*heads[:3], "sent, d", *heads[5:])
    others = [
        f"- {', '.join(_link(name) for name, own in ELSEWHERE.items() if own == test)}: "
        f"`tests/{test}.py`"
        for test in dict.fromkeys(ELSEWHERE.values())
    ]
    return "\n\n".join(
        [
            _OPENING.strip(),
            "Around a server:",
            table(heads, around, numbers=range(2, 6)),
            "On graphs, where numbers in brackets are those of references in the paper of DP-GT:",
            table(graphs, on_graphs, numbers=range(2, 5)),
            "Rounds of the others go by parties, silos or stages. These tests have their loops:",
            "\n".join(others),
        ]
    )


def _link(name: str) -> str:
    return f"[{text(algorithm_class(name).title)}](#method-{name.replace('_', '-')})"


def told(name: str) -> str:
    """What a method's certificate says: its equations, and where the loop lies."""
    if name in ELSEWHERE:
        return f"*Compared* with its paper's loop in `tests/{ELSEWHERE[name]}.py`."
    if name not in CASES:
        return ""
    file_told = f"`tests/certificates/{name}.py`, within {WITHIN:g}, in {len(CASES[name])} cases"
    return f"```text\n{certificate(name)[1]}\n```\n\n*Certificate*: {file_told}."


@cache
def _problem() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    features = random.normal(size=(_ROWS, _FEATURES))
    features += np.repeat(random.normal(size=(CLIENTS, _FEATURES)), _ROWS // CLIENTS, axis=0)
    return features, random.choice([-1.0, 1.0], _ROWS)


def _trained(name: str) -> tuple[str, ...]:
    """Floats up and down (or along edges) in a round, its gradients, and the curve."""
    kind = algorithm_class(name).federation
    objective: dict[str, Any] = {"name": "logistic_l2", "weight": 0.1}
    if name == "pooled":  # which knows of no clients
        objective["client_weights"] = "size"
    hyper, ring = CASES[name][0], {"kind": "ring", "weights": "metropolis"}
    graphs = {"states": ring} if kind.on_graphs else None
    rounds = _ROUNDS
    if "horizon" in hyper:  # of DP-GT, which has a second graph
        graphs, rounds = {"states": ring, "trackers": ring}, hyper["horizon"] + 1
    trace = train(
        name, _problem(), partition={"kind": "horizontal", "clients": CLIENTS}, rounds=rounds,
        graphs=graphs, network=NETWORK if algorithm_class(name).asynchronous else None,
        objective=objective, optimum=True, **hyper,
    )  # fmt: skip
    per_round = {
        cost: float(trace[cost][0, -1]) / rounds
        for cost in ("bytes_up", "bytes_down", "bytes_sent", "gradient_evaluations")
        if cost in trace.coords
    }
    gradients = per_round.pop("gradient_evaluations")
    floats = [f"{own / (8 * _FEATURES):.3g}" for own in per_round.values()]
    return *floats, f"{gradients:.3g}", _curve(trace.suboptimality[0].values)


def _curve(values: np.ndarray) -> str:
    """A line in a frame, as SVG within a cell."""
    gap = np.log10(np.maximum(values / values[0], 10.0**-_DECADES))
    down = np.clip(-gap / _DECADES, 0, 1) * (_HIGH - 2) + 1
    across = np.linspace(1, _WIDE - 1, len(values))
    points = " ".join(f"{x:.0f},{y:.1f}" for x, y in zip(across, down, strict=True))
    return (
        f'<svg width="{_WIDE}" height="{_HIGH}" role="img" aria-label="f − f* by rounds">'
        f'<rect width="{_WIDE}" height="{_HIGH}" fill="none" stroke="#8888"/>'
        f'<polyline points="{points}" fill="none" stroke="#2a78b5" stroke-width="1.5"/></svg>'
    )
