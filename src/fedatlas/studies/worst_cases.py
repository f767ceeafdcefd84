"""Runs beside exact worst cases and theorems of their methods, by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from math import inf, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedatlas.algorithms import build_algorithm
from fedatlas.data.formats.quadratics import Quadratics, make_functions
from fedatlas.errors import error_context
from fedatlas.evaluation.bounds import SQUARED_GRADIENT
from fedatlas.evaluation.tables import parse_rows, row_parser, to_csv
from fedatlas.federations.algorithm import Algorithm
from fedatlas.federations.min_max import MinMaxAlgorithm
from fedatlas.files import write_text
from fedatlas.schema.graphs import in_laplacian
from fedatlas.schema.runs import RunSpec, at_point, flat
from fedatlas.schema.studies import WorstCases
from fedatlas.studies.certificates import Setting, certify
from fedatlas.studies.symbolic import Asked
from fedatlas.theorems import theorems_on
from fedatlas.theory.constants import Constants
from fedatlas.theory.theorems import Course


@dataclass(frozen=True)
class Case:
    """A run with a step.

    own_step: whether the step is the theorem's own, and not of the grid. worst to seconds: see
    `certificates.Certificate`. theorem: which one covers the step; empty where none with constants
    does. promised: by it. measured: the most of so many functions.
    """

    run: str
    title: str
    step: float
    own_step: bool
    measure: str
    clients: int
    rounds: int
    smoothness: float
    convexity: float
    worst: float
    attained: float
    status: str
    tight: bool
    kept: float
    gradients: int
    seconds: float
    measured: float
    functions: int
    dissimilarity: float | None = None
    theorem: str = ""
    promised: float | None = None


COLUMNS = [field.name for field in fields(Case)]


def read_cases(path: Path) -> list[Case]:
    """The table back; FedatlasError names a file with other columns or contents."""
    return parse_rows(path, COLUMNS, row_parser(Case))


def tabulate_worst_cases(
    runs: list[RunSpec],
    titles: dict[str, str],
    worst_cases: WorstCases,
    steps: dict[str, list[str]],
    output: Path,
) -> None:
    """Certify every run with every step of its grid and with the largest that theorems cover.

    titles, steps: by run, of figures, and the hyper-parameters that are the step. Nothing is
    trained.
    """
    cases: list[Case] = []
    for spec in runs:
        keys, first = steps[spec.run], all(case.run != spec.run for case in cases)
        step, *others = (flat(spec.hyper_parameters)[key] for key in keys)
        if any(other != step for other in others):
            continue  # a min–max method has the same steps of θ and of w
        with error_context(f"{spec.name}, worst_cases"):
            setting = setting_of(spec, worst_cases)
            own = [one.own_step for one in promises(build_algorithm(spec), setting)] * first
            for place, each in enumerate([*own, step]):
                method = build_algorithm(_with_step(spec, keys, each))
                case = certified(method, setting, worst_cases.functions, spec.seeds[0])
                about = {"run": spec.run, "title": titles[spec.run], "step": each}
                cases.append(replace(case, **about, own_step=place < len(own)))
    write_text(output, to_csv([asdict(case) for case in cases], COLUMNS))


def setting_of(spec: RunSpec, declared: WorstCases) -> Setting:
    """The class of functions and the size of a run."""
    partition: Any = spec.partition
    return Setting(
        clients=partition.samples if partition.kind == "vertical" else partition.clients,
        rounds=spec.rounds,
        graphs=spec.graph_weights if spec.graphs else (None, None),
        **declared.model_dump(exclude={"functions"}),
    )


def _with_step(spec: RunSpec, keys: list[str], step: float) -> RunSpec:
    values = {name: value for name, value in spec.hyper_parameters.items() if name not in keys}
    for outer, _, inner in (key.partition(".") for key in keys if "." in key):
        values[outer] = {name: own for name, own in values[outer].items() if name != inner}
    point = at_point(values, dict.fromkeys(keys, step), spec.name)
    return spec.model_copy(update={"hyper_parameters": point})


def certified(method: Algorithm, setting: Setting, functions: int, seed: int = 0) -> Case:
    """A method's certificate, the theorem that covers its step, and what functions measure."""
    found = certify(method, setting)
    covering = [one for one in promises(method, setting) if one.value is not None]
    last = covering[-1] if covering else Promise("", 0.0, None)
    measured = [
        measure(method, setting, *function_of(setting, seed + number, _is_operator(method)))
        for number in range(functions)
    ]
    own: Any = {name: getattr(setting, name) for name in COLUMNS if hasattr(setting, name)}
    value = None if last.value is None else last.value / found.kept
    more: Any = {"theorem": last.theorem, "promised": value, "measured": max(measured)}
    return Case(
        run="", title=method.title, step=method.effective_step_size, own_step=False,
        functions=functions, **own, **found._asdict(), **more,
    )  # fmt: skip


# ---- What theorems promise -----------------------------------------------------------------------


class Promise(NamedTuple):
    """own_step: the largest step that a theorem covers, or the one that it is best at.

    value: what it promises of the method's step; None if it does not cover it.
    """

    theorem: str
    own_step: float
    value: float | None


def promises(method: Any, setting: Setting) -> list[Promise]:
    """The theorems with constants that are about a method in a setting, corrected ones last.

    Those of `fedatlas.theorems` and of the methods' own sources. Contractions are elementary: with
    ρ of a local step, K of them from x* end at most η ζ ρ (1 − ρ^(K−1))/(1 − ρ) from it on average.
    """
    if setting.measure == "gradients":
        return [*_registered(method, setting), *_descent(method, setting)]
    known = _DISTANCES.get(type(method).__name__) if _takes_all(method, setting) else None
    found = known(method, setting, setting.dissimilarity or 0.0) if known else None
    return [] if found is None else [found]


def _takes_all(method: Any, setting: Setting) -> bool:
    """Whether all clients take part, and the server's step is 1, where a method states these."""
    clients, server = (
        getattr(method, key, None) for key in ("clients_per_round", "server_step_size")
    )
    return clients in (None, setting.clients) and server in (None, 1.0)


def _registered(method: Any, setting: Setting) -> list[Promise]:
    smoothness = setting.smoothness
    constants = Constants(setting.clients, 1, smoothness, smoothness, 1.0, None, None)
    found = [
        (one, one.bound, f"{one.name}, {one.version}")
        for one in theorems_on(method, constants, Course(setting.rounds))
        if one.bound is not None and one.bound.of == SQUARED_GRADIENT and not one.lacks
    ]
    return [
        Promise(name, one.steps[0].bound, bound.after(one.epochs) if one.covers else None)
        for one, bound, name in found
    ]


def _descent(method: Any, setting: Setting) -> list[Promise]:
    """Of gradient descent, by the descent lemma; of EF21 Theorem 1, where G⁰ ≤ (1 − δ) ζ²."""
    name, rounds, high = type(method).__name__, setting.rounds, setting.smoothness
    if not _takes_all(method, setting):
        return []
    if name == "FedAvg" and method.local_steps == 1:
        step = method.local_step_size
        value = 2 / (step * (2 - step * high) * rounds) if step < 2 / high else None
        return [Promise("descent lemma", 1 / high, value)]
    if name != "EF21" or setting.dissimilarity is None:
        return []
    left, step = 1 - method.compressor.contraction(setting.dimension), method.step_size
    largest = 1 / (high * (1 + sqrt(left) / (1 - sqrt(left))))
    value = (2 / step + left * setting.dissimilarity**2 / (1 - sqrt(left))) / rounds
    covers = step <= largest * (1 + 1e-9)
    return [Promise("Theorem 1 (quoted from memory)", largest, value if covers else None)]


def _of_local_steps(method: Any, setting: Setting, spread: float) -> Promise:
    """FedAvg, FedProx and local SGDA."""
    low, high, operator = setting.convexity, setting.smoothness, _is_operator(method)
    step = method.primal_step_size if operator else method.local_step_size
    pull, k = getattr(method, "proximal_weight", 0.0), method.local_steps
    rho = max(abs(1 - step * (low + pull)), abs(1 - step * (high + pull)))
    if operator:
        rho = sqrt(max(1 - 2 * step * low + (step * high) ** 2, 0.0))
    own = low / high**2 if operator else 2 / (low + high + 2 * pull)
    if rho >= 1:
        return Promise("contraction", own, None)
    factor = rho**k + step * pull * (1 - rho**k) / (1 - rho)
    drift = step * spread * rho * (1 - rho ** (k - 1)) / (1 - rho)
    return Promise("contraction", own, _contracted(factor, drift, setting.rounds))


def _of_dgd(method: Any, setting: Setting, spread: float) -> Promise | None:
    """DSGD's map W (x − α∇f(x)) moves x* by α λ₂ ζ at most."""
    if method.local_steps > 1:
        return None
    low, high, step = setting.convexity, setting.smoothness, method.step_size
    rho = max(abs(1 - step * low), abs(1 - step * high))
    weights = setting.graphs[0]
    assert weights is not None
    second = np.sort(np.abs(1 - method.coupling * np.linalg.eigvalsh(in_laplacian(weights))))[-2]
    value = _contracted(rho, step * second * spread, setting.rounds) if rho < 1 else None
    return Promise("contraction", 2 / (low + high), value)


def _contracted(factor: float, drift: float, rounds: int) -> float | None:
    if factor >= 1:
        return None
    return (factor**rounds + drift * (1 - factor**rounds) / (1 - factor)) ** 2


def _of_scaffnew(method: Any, setting: Setting, spread: float) -> Promise:
    """Theorem 3.6: Ψ falls by 1 − min(γμ, p²) in an iteration; a round has one at least."""
    p, step = method.communication_probability, method.step_size
    rate, start = 1 - min(step * setting.convexity, p**2), 1 + (step * spread / p) ** 2
    value = rate**setting.rounds * start if step <= 1 / setting.smoothness else None
    return Promise("Theorem 3.6 (quoted from memory)", 1 / setting.smoothness, value)


_DISTANCES: Mapping[str, Any] = {
    "FedAvg": _of_local_steps,
    "FedProx": _of_local_steps,
    "LocalSgda": _of_local_steps,
    "LocalDsgd": _of_dgd,
    "Scaffnew": _of_scaffnew,
}


# ---- Functions of the class that are run ---------------------------------------------------------


def _is_operator(method: Algorithm) -> bool:
    return isinstance(method, MinMaxAlgorithm)


def function_of(setting: Setting, seed: int, operator: bool) -> tuple[np.ndarray, ...]:
    """A of ∇f_i(x) = A_i x + c_i, (N, d, d), c, (N, d), of sum 0, so that x* = 0, and x⁰, (d,).

    As the suite makes them (`data.formats.quadratics`), with all constants of the setting, and
    scaled to what certificates divide by. operator: min–max problems, with rotations besides.
    """
    several, high = setting.clients > 1, setting.smoothness
    low = max(setting.convexity, 0.05 * high)
    spread = 1.0 if setting.dissimilarity is None else setting.dissimilarity
    made = make_functions(
        Quadratics(
            seed=seed, clients=setting.clients, smoothness=high, convexity=low,
            hessian_dissimilarity=0.45 * (high - low) * several,
            gradient_dissimilarity=spread * several,
        ),
        max(4, setting.dimension),
    )  # fmt: skip
    hessians, slopes, x0 = made.hessians, made.gradients, -made.optimum
    if operator:  # μ/2 ‖θ‖² + θᵀM_i w − μ/2 ‖w‖²
        turn = sqrt(high**2 - low**2) * np.linalg.qr(hessians)[0]
        level = np.broadcast_to(low * np.eye(len(x0)), hessians.shape)
        hessians = np.block([[level, turn], [-turn.transpose(0, 2, 1), level]])
        slopes, x0 = np.tile(slopes, 2) / sqrt(2), np.tile(x0, 2) / sqrt(2)
    if setting.measure == "gradients":  # c_i = −s (A_i − A) x⁰, with s as small as ζ lets it be
        mean = hessians.mean(0)
        x0 = x0 / sqrt(x0 @ mean @ x0 / 2)
        apart, slope = (hessians - mean) @ x0, mean @ x0
        square = (apart**2).sum(1).mean()
        spread = inf if setting.dissimilarity is None else setting.dissimilarity
        room = (spread**2 - slope @ slope) / max(square, 1e-300)
        slopes = -(1 - sqrt(min(max(room, 0.0), 1.0))) * apart
    return hessians, slopes, x0


def measure(
    method: Algorithm, setting: Setting, hessians: np.ndarray, slopes: np.ndarray, x0: np.ndarray
) -> float:
    """What a certificate bounds, of the method run on a function, expected over its coins."""

    def gradient(client: int, x: np.ndarray) -> np.ndarray:
        return np.asarray(hessians[client] @ x + slopes[client])

    def of(points: np.ndarray) -> float:
        if setting.measure == "gradients":
            return float(((points[:-1] @ hessians.mean(0)) ** 2).sum(-1).mean())
        return float((np.atleast_2d(points[-1]) ** 2).sum(-1).mean())

    asked = Asked(len(slopes), False, gradient, len(x0), of_function=True)
    asked.x0 = x0
    paths = setting.paths(asked, method)
    return sum(likely * of(points) for likely, points in paths) / sum(one for one, _ in paths)
