"""Every method beside a plain loop, written from its paper alone: tests/certificates/NAME.py.

The package draws; the loop is given what was drawn, and gradients by a formula written here or by
autograd. Clients have unequally many samples, some take part, all options occur.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import test_network_clients as networks
from certificates._cases import CASES, ELSEWHERE, SOME, WORK
from certified import CERTIFICATES, RECEIVED, ROUNDS, SYMMETRIC, UNBALANCED, beside
from fedatlas import algorithms
from fedatlas.algorithms import algorithm_class
from fedatlas.conform.comparison import load_code
from fedatlas.conform.ours import PlainProblem, plain_problem
from fedatlas.errors import FedatlasError
from fedatlas.federations.decentralised.numpy_engines import LinearAgents
from fedatlas.federations.horizontal.cpu_engine import CompiledEngine
from fedatlas.federations.horizontal.torch_engine import TorchEngine
from fedatlas.schema.objectives import LinearObjective
from reference import objective_of, random_problem, shard_of

pytestmark = pytest.mark.usefixtures("one_thread", "toy_project")

SIZES, DIMENSION = (5, 3, 9, 4, 6, 4, 2), 5
N = len(SIZES)
#: Of methods on directed graphs, states and trackers.
GRAPHS = {"sgp": (UNBALANCED, None), "dp_gradient_tracking": (RECEIVED, UNBALANCED)}


class ByFormula(PlainProblem):
    """The view of a problem, with gradients of log(1 + exp(−b aᵀx)) + λ/2 ‖x‖² written here."""

    def sample_gradients(self, client: int, x: np.ndarray, rows: Any = None) -> np.ndarray:
        a, b = self.samples[client]
        a, b = (a, b) if rows is None else (a[rows], b[rows])
        return (-b / (1 + np.exp(b * (a @ x))))[:, None] * a

    def penalty_gradient(self, x: np.ndarray) -> np.ndarray:
        return 0.1 * x

    def client_value(self, client: int, x: np.ndarray) -> float:
        a, b = self.samples[client]
        return np.log(1 + np.exp(-b * (a @ x))).mean() + 0.05 * x @ x


def sides(name: str, kind: str, weights: str) -> tuple[Any, Any]:
    """An engine, and the plain problem."""
    if kind == "network":
        return networks.engine_of("cross_entropy"), networks.view_of("cross_entropy")
    term = {"name": "l1", "weight": 0.05} if algorithm_class(name).composite else None
    on_graphs = algorithm_class(name).federation.on_graphs
    objective = LinearObjective(
        name="logistic_l2", weight=0.1, client_weights=weights, nonsmooth=term
    )
    sizes = (5, 4, 9, 4, 6) if on_graphs else SIZES
    data = shard_of(random_problem(objective, sizes, DIMENSION, seed=0))
    view = plain_problem(data, objective, GRAPHS.get(name, (SYMMETRIC, None)))
    view = ByFormula(view.samples, objective, view.weights, view.states, view.trackers)
    if on_graphs:
        return LinearAgents(data, objective), view
    if kind == "torch":
        return TorchEngine(data, objective, "cpu"), view
    return CompiledEngine(data, objective), view


def planned() -> list[Any]:
    """Every case, and the last of each method on tensors, on networks and with weights, too."""
    found = []
    for name, cases in CASES.items():
        method = algorithm_class(name)
        for number, hyper in enumerate(cases):
            found.append(pytest.param(name, hyper, "compiled", "equal", id=f"{name}-{number}"))
        others = [] if method.federation.on_graphs else [("compiled", "size")]
        if others and not method.composite:
            others += [("torch", "equal"), ("network", "equal")]
        for kind, weights in others if name != "dp_fedavg" else others[1:]:
            named = f"{name}-{kind}-{weights}"
            found.append(pytest.param(name, cases[-1], kind, weights, id=named))
    return found


@pytest.mark.parametrize(("name", "hyper", "kind", "weights"), planned())
def test_methods_are_their_certificates(
    name: str, hyper: dict[str, Any], kind: str, weights: str
) -> None:
    rounds = 4 if kind == "network" else ROUNDS  # autograd takes a millisecond
    found = beside(name, hyper, *sides(name, kind, weights), rounds)
    assert not found.first, str(found)
    assert found.rounds == rounds and "x" in found.largest


def test_every_method_has_a_certificate_or_is_compared_elsewhere() -> None:
    files = {file.stem for file in CERTIFICATES.glob("*.py") if not file.stem.startswith("_")}
    assert files == set(CASES) and not files & set(ELSEWHERE)
    ours = {file.stem for file in Path(algorithms.__file__).parent.glob("[a-z]*.py")}
    assert ours == files | set(ELSEWHERE), "have tests/certificates/NAME.py written from the paper"
    for name, test in ELSEWHERE.items():
        told = (CERTIFICATES.parent / f"{test}.py").read_text(encoding="utf-8")
        assert name in told or algorithm_class(name).__name__ in told


def test_what_deviates_first_is_named() -> None:
    """SCAFFOLD whose server divides what controls change by by S in place of N."""
    right = load_code(CERTIFICATES / "scaffold.py")

    def step(state: Any, draws: Any, problem: Any, hyper: Any) -> Any:
        after = right.step(state, draws, problem, hyper)
        moved = after["client_c"].sum(0) - state["client_c"].sum(0)
        return after | {"c": state["c"] + moved / len(draws.clients)}

    wrong = SimpleNamespace(start=right.start, step=step)
    found = beside("scaffold", SOME | WORK, *sides("scaffold", "compiled", "equal"), code=wrong)
    (first,) = found.first
    assert (found.rounds, first.round, first.quantity, first.client) == (1, 0, "c", None)
    assert first.size == pytest.approx(N / 3 - 1)
    assert str(found).startswith("does not conform within 1e-12: in round 0, c is off by 1.3 of")

    def late(state: Any, draws: Any, problem: Any, hyper: Any) -> Any:
        after = right.step(state, draws, problem, hyper)
        if draws.round == 4:
            after["client_c"][draws.clients[1]] *= 1.01
        return after

    wrong = SimpleNamespace(start=right.start, step=late)
    found = beside("scaffold", SOME | WORK, *sides("scaffold", "compiled", "equal"), code=wrong)
    (first,) = found.first
    assert (first.round, first.quantity) == (4, "client_c") and 1e-4 < first.size < 0.011
    assert first.client is not None and f"client_c of client {first.client} is off" in str(found)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"x": 0, "ci": 1}, "'ci', which ours does not have: .* x, c, client_c"),
        ({"x": np.zeros(3)}, r"'x' has the shape \(3,\), but ours has \(5,\)"),
        ({"_own": 0}, "gives no 'x'"),
    ],
)
def test_quantities_are_named_as_ours(given: dict[str, Any], told: str) -> None:
    wrong = SimpleNamespace(start=lambda *_: given)
    with pytest.raises(FedatlasError, match=told):
        beside("scaffold", SOME | WORK, *sides("scaffold", "compiled", "equal"), code=wrong)


@pytest.mark.parametrize("name", ["logistic_l2", "logistic_nonconvex", "robust_regression"])
def test_the_plain_problem_is_the_references(name: str) -> None:
    objective = objective_of(name)
    problem = random_problem(objective, SIZES, DIMENSION, seed=1)
    view, x = plain_problem(shard_of(problem), objective), np.linspace(-2, 1, DIMENSION)
    np.testing.assert_allclose(view.gradient(2, x), problem.client_gradient(2, x), rtol=1e-13)
    some = view.gradient(0, x, np.array([3, 1]))
    np.testing.assert_allclose(some, problem.client_gradient(0, x, [3, 1]), rtol=1e-13)
    assert view.value(x) == pytest.approx(problem.value(x), rel=1e-13)
