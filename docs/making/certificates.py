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

_LOCAL = "q times from θ_i = θ and w_i = w"
#: Of methods without a certificate, whose docstring would have them.
_EQUATIONS = {
    "vfb2_sgd": """
again and again, at every active party:  i drawn,  ϑ = ℓ′(ŵᵀx_i, y_i)
w_ℓ ← w_ℓ − γ (ϑ x_{i,ℓ} + λ ∇g(w_ℓ)),  where party ℓ = 1, …, q gets ϑ""",
    "vfb2_svrg": """
wˢ ← w and ϑ_j⁰ = ℓ′((wˢ)ᵀx_j, y_j) for all j, every n updates;  i drawn,  ϑ = ℓ′(ŵᵀx_i, y_i)
w_ℓ ← w_ℓ − γ ((ϑ − ϑ_i⁰) x_{i,ℓ} + 1/n Σ_j ϑ_j⁰ x_{j,ℓ} + λ ∇g(w_ℓ))""",
    "vfb2_saga": """
i drawn,  ϑ = ℓ′(ŵᵀx_i, y_i)
w_ℓ ← w_ℓ − γ ((ϑ − α_i) x_{i,ℓ} + 1/n Σ_j α_j x_{j,ℓ} + λ ∇g(w_ℓ)),  α_i ← ϑ""",
    "afsvrg_vp": """
wˢ ← w and ϑ_j⁰ = ℓ′((wˢ)ᵀx_j, y_j) for all j, every n updates;  i drawn,  ϑ = ℓ′(ŵᵀx_i, y_i)
w_ℓ ← w_ℓ − γ ((ϑ − ϑ_i⁰) x_{i,ℓ} + 1/n Σ_j ϑ_j⁰ x_{j,ℓ} + λ ∇g(w_ℓ)),  ℓ the dominator only""",
    "local_sgda": f"""
θ_i ← θ_i − η_θ ∇_θ F_{{i,B}}(θ_i, w_i),  w_i ← w_i + η_w ∇_w F_{{i,B}}(θ_i, w_i),  {_LOCAL}
θ ← 1/N Σ_i θ_i,  w ← 1/N Σ_i w_i""",
    "momentum_local_sgda": f"""
θ_i ← θ_i − η_θ u_i,  w_i ← w_i + η_w v_i,  {_LOCAL}
u_i ← (1 − ρ) u_i + ρ ∇_θ F_{{i,B}}(θ_i, w_i),  v_i ← (1 − ρ) v_i + ρ ∇_w F_{{i,B}}(θ_i, w_i)
θ ← 1/N Σ_i θ_i,  w, u and v likewise""",
    "fmgda": f"""
θ_i ← θ_i − ĉη u_i,  w_i ← w_i + cη v_i,  {_LOCAL}
u_i ← ∇_θ F_{{i,B}}(θ_i, w_i) + (1 − α) (u_i − ∇_θ F_{{i,B}}(θ_i⁻, w_i⁻))
v_i ← ∇_w F_{{i,B}}(θ_i, w_i) + (1 − β) (v_i − ∇_w F_{{i,B}}(θ_i⁻, w_i⁻))
in the last of q iterations u and v are averaged before the step,  θ and w after it""",
    "coda": f"""
θ_i ← θ_i − η_θ (∇_θ F_{{i,B}}(θ_i, w_i) + 1/γ (θ_i − θ_ref))
w_i ← w_i + η_w ∇_w F_{{i,B}}(θ_i, w_i),  {_LOCAL},  then θ ← 1/N Σ_i θ_i,  w ← 1/N Σ_i w_i
when the stage ends θ and θ_ref are the average of all its θ_i,  w ← b* − a*""",
    "coda_plus": f"""
θ_i ← θ_i − η_θ (∇_θ F_{{i,B}}(θ_i, w_i) + 1/γ (θ_i − θ_ref))
w_i ← w_i + η_w ∇_w F_{{i,B}}(θ_i, w_i),  {_LOCAL},  then θ ← 1/N Σ_i θ_i,  w ← 1/N Σ_i w_i
when the stage ends θ, θ_ref and w are the averages over all its steps""",
    "codasca": f"""
θ_i ← θ_i − η_θ (∇_θ F_{{i,B}}(θ_i, w_i) + 1/γ (θ_i − θ_ref) − c_i + c),  {_LOCAL}
c_i ← c_i − c + 1/(q η_θ) (θ − θ_i),  θ ← θ + η_g/N Σ_i (θ_i − θ),  c ← 1/N Σ_i c_i
w ascends likewise,  without θ_ref""",
    "tdcd": """
Φ_{−j} = Σ_{l≠j} h_l(θ_l, ζ) in every round,  client k of silo j has the rows ζ_{k,j} of minibatch ζ
θ_{k,j} ← θ_{k,j} − η ∇_j L_{ζ_{k,j}}(h_j(θ_{k,j}) + Φ_{−j}),  Q times from θ_{k,j} = θ_j
θ_j ← 1/K_j Σ_k θ_{k,j}""",
}

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


def as_text(name: str) -> str:
    """What a method's certificate says: its equations, and where the loop lies."""
    if name in ELSEWHERE:
        loop = f"*Compared* with its paper's loop in `tests/{ELSEWHERE[name]}.py`."
        return f"{_formulas(_EQUATIONS[name].strip())}\n\n{loop}"
    if name not in CASES:
        return ""
    place = f"`tests/certificates/{name}.py`, within {WITHIN:g}, in {len(CASES[name])} cases"
    return f"{_formulas(certificate(name)[1])}\n\n*Certificate*: {place}."


def _formulas(equations: str) -> str:
    return f"```{{math}}\n{equations}\n```"


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
