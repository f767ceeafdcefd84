"""Another implementation of a method beside ours: where do the two part first?

What our method draws in a round is written down and given to the other side, which computes the
same round in numbers of its own. Compared are quantities by name, as the fields of our state are
called. A certificate (tests/certificates) is such an other side, written from a paper alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from fedatlas.arithmetic.kernels.formulas import (
    torch_loss,
    torch_penalty,
    torch_penalty_gradient,
    torch_slope,
)
from fedatlas.arithmetic.minibatches import Minibatches
from fedatlas.errors import FedatlasError
from fedatlas.federations.algorithm import Algorithm
from fedatlas.federations.context import SeedRun
from fedatlas.schema.losses import Loss
from fedatlas.schema.objectives import LinearObjective
from fedatlas.training.states import state_arrays

#: Numbers of numpy's generator, as draws name them; others keep their names.
_LAWS = {"random": "uniform", "standard_normal": "normal"}
_SHOWN = 4


@dataclass
class Draws:
    """What our method drew in one round, in the order in which it drew.

    round: from 0. clients: who take part, (S,), ascending; all where the method chooses nobody.
    batches: for each time that samples were drawn, (client, its rows at each of its steps) of every
        client that computes; rows are numbered within the client's own samples, from 0.
    coins: of tosses that all share. numbers: by law (uniform in [0, 1), normal, laplace, …), arrays
        as they were drawn: also what compressors round by.
    """

    round: int
    clients: np.ndarray
    batches: list[list[tuple[int, list[np.ndarray]]]] = field(default_factory=list)
    coins: list[bool] = field(default_factory=list)
    numbers: dict[str, list[np.ndarray]] = field(default_factory=dict)

    def add(self, law: str, drawn: Any) -> Any:
        """Write numbers down, and hand them on."""
        self.numbers.setdefault(law, []).append(np.array(drawn))
        return drawn


@dataclass(frozen=True)
class PlainProblem:
    """f(x) = Σ_i p_i f_i(x) for the other side, in numpy.

    samples: of each client, features (M_i, d) and labels (M_i,). weights: p, (N,). f_i is the mean
    loss of its margins A_i x, and the regulariser. states, trackers: of agents, the weights of
    their graphs, (N, N): entry [i, j] > 0 says that i receives what j sends.
    """

    samples: list[tuple[np.ndarray, np.ndarray]]
    objective: LinearObjective
    weights: np.ndarray
    states: np.ndarray | None = None
    trackers: np.ndarray | None = None

    @property
    def clients(self) -> int:
        """N."""
        return len(self.samples)

    @property
    def sizes(self) -> np.ndarray:
        """M, (N,)."""
        return np.array([len(labels) for _, labels in self.samples])

    @property
    def dimension(self) -> int:
        """d."""
        return int(self.samples[0][0].shape[1])

    def gradient(self, client: int, x: np.ndarray, rows: Any = None) -> np.ndarray:
        """∇f_i over these of the client's rows, over all by default, (d,)."""
        features, labels, weight = *self._of(client, rows), self.objective.regularisation_weight
        x = np.asarray(x, dtype=np.float64)
        slopes = _by_torch(torch_slope, self.objective.loss, features @ x, labels)
        penalty = _by_torch(torch_penalty_gradient, self.objective.regulariser, x)
        found: np.ndarray = slopes @ features / len(labels) + weight * penalty
        return found

    def value(self, x: np.ndarray) -> float:
        """f(x)."""
        losses = []
        for client in range(self.clients):
            features, labels = self._of(client, None)
            losses.append(_by_torch(torch_loss, self.objective.loss, features @ x, labels).mean())
        penalty = _by_torch(torch_penalty, self.objective.regulariser, np.asarray(x))
        return float(self.weights @ losses + self.objective.regularisation_weight * penalty)

    def _of(self, client: int, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        features, labels = self.samples[client]
        return (features, labels) if rows is None else (features[rows], labels[rows])


def _by_torch(function: Callable[..., Any], kind: Any, *arrays: np.ndarray) -> np.ndarray:
    import torch

    found: np.ndarray = function(kind, *map(torch.as_tensor, arrays)).numpy()
    return found


def plain_problem(data: Any, objective: Any, graphs: tuple[Any, Any] = (None, None)) -> Any:
    """The problem of a run's ClientSamples, for the other side.

    FedatlasError where the objective is not a linear one of ours.
    """
    from fedatlas.federations.shards import client_shares

    if not isinstance(objective, LinearObjective) or not isinstance(objective.loss, Loss):
        raise FedatlasError(
            f"key 'objective', value '{objective.name}': `conform` hands over linear models with a "
            "loss of fedatlas, such as logistic_l2: take one of these"
        )
    features, sizes = data.samples.features, np.diff(data.offsets)
    dense = features if isinstance(features, np.ndarray) else features.toarray()
    cuts = data.offsets[1:-1]
    samples = list(zip(np.split(dense, cuts), np.split(data.samples.label, cuts), strict=True))
    weights = client_shares(sizes, objective.client_weights)
    return PlainProblem(samples, objective, weights, *graphs)


# ------------------------------------------------------------------------------ what ours draws


class _Random:
    """A run's random numbers, written down where a method asks for them."""

    draws: Draws

    def __init__(self, random: Any) -> None:
        self._random = random

    def __getattr__(self, name: str) -> Any:
        return getattr(self._random, name)

    def at(self, number: int) -> _Random:
        self._random.at(number)
        return self

    def bernoulli(self, probability: float) -> bool:
        coin = bool(self._random.bernoulli(probability))
        self.draws.coins.append(coin)
        return coin

    def sample(self, population: int, size: int) -> np.ndarray:
        self.draws.clients = np.array(self._random.sample(population, size))
        return self.draws.clients

    def uniform(self, *shape: int) -> Any:
        return self.draws.add("uniform", self._random.uniform(*shape))

    def indices(self, population: int, size: int) -> Any:
        return self.draws.add("indices", self._random.indices(population, size))

    @property
    def generator(self) -> Any:
        return _Noted(self._random.generator, self._note)

    def _note(self, name: str, drawn: Any) -> None:
        self.draws.add(_LAWS.get(name, name), drawn)


class _Noted:
    """An object; what its calls return is noted."""

    def __init__(self, target: Any, note: Callable[[str, Any], None]) -> None:
        self._target, self._note = target, note

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not callable(found):
            return found

        def call(*given: Any, **options: Any) -> Any:
            result = found(*given, **options)
            self._note(name, result)
            return result

        return call


class Played(NamedTuple):
    """One round of ours: what was drawn, None before round 0, and the state's numbers by name."""

    draws: Draws | None
    quantities: dict[str, np.ndarray]


def play(
    method: Algorithm, run: SeedRun, engine: Any, random: Any, sizes: np.ndarray, rounds: int
) -> Iterator[Played]:
    """Our start and rounds; sizes: samples of each client, (N,)."""
    offsets = np.append(0, np.cumsum(sizes))
    watched: Any = _Random(random)

    def note(name: str, result: Any) -> None:
        if isinstance(result, Minibatches):
            watched.draws.batches.append(_by_client(result, offsets))
        elif name in ("participants", "arriving"):
            watched.draws.clients = np.array(result)

    def quantities(state: Any) -> dict[str, np.ndarray]:
        return {name: np.array(own) for name, own in state_arrays(state, engine.numpy).items()}

    problem, network = _Noted(run.problem, note), _Noted(run.network, note)
    state = method.start(problem, network, run.x0)
    yield Played(None, quantities(state))
    for number in range(rounds):
        watched.draws = Draws(number, np.arange(len(sizes)))
        state = method.round(state, problem, network, watched.at(number))
        yield Played(watched.draws, quantities(state))


def _by_client(batch: Minibatches, offsets: np.ndarray) -> list[tuple[int, list[np.ndarray]]]:
    found = []
    for s, start in enumerate(batch.starts):
        counts = [batch.sizes[s]] * batch.steps if batch.counts is None else batch.counts[s]
        rows = [
            batch.rows[s, k, :count] - start if batch.rows.size else np.arange(count)
            for k, count in enumerate(counts)
            if count
        ]
        found.append((int(np.searchsorted(offsets, start, "right")) - 1, rows))
    return found


# ----------------------------------------------------------------------------- the other side


class Theirs:
    """Another implementation: `start(problem, x0, hyper)` and `step(state, draws, problem, hyper)`.

    Both return a state, a mapping of names to arrays; those that begin with `_` are its own, and
    may be anything. hyper: our hyper-parameters, as attributes.
    """

    def __init__(self, code: Any, problem: Any, x0: np.ndarray, method: Algorithm) -> None:
        """code: a module, or anything with the two functions."""
        self._code, self._problem = code, problem
        told = method.model_dump()  # without options that a run leaves as they are
        self._hyper = SimpleNamespace(
            **{key: told.get(key, getattr(method, key)) for key in type(method).model_fields}
        )
        self._state = code.start(problem, np.array(x0), self._hyper)

    def after(self, draws: Draws | None) -> Mapping[str, Any]:
        """Its quantities after a round; before round 0 there are no draws."""
        if draws is not None:
            self._state = self._code.step(self._state, draws, self._problem, self._hyper)
        return {name: own for name, own in self._state.items() if not name.startswith("_")}


class Recorded:
    """Iterates of another implementation: arrays by name, (rounds + 1, …), the start first."""

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays = arrays

    def after(self, draws: Draws | None) -> Mapping[str, Any]:
        """The next of them."""
        place = 0 if draws is None else draws.round + 1
        short = min(self._arrays, key=lambda name: len(self._arrays[name]))
        if (given := len(self._arrays[short])) <= place:
            raise FedatlasError(
                f"'{short}' has {given} iterates, but {place + 1} and more are compared: record "
                f"the start and every round, or ask for --rounds {given - 1}"
            )
        return {name: own[place] for name, own in self._arrays.items()}


def load_code(file: Path) -> Any:
    """A Python file with `start` and `step`, as a module; FedatlasError names what it lacks."""
    spec = spec_from_file_location(f"theirs_{file.stem}", file)
    if spec is None or spec.loader is None or not file.is_file():
        raise FedatlasError(f"{file}: is no Python file; give one that defines start and step")
    module = module_from_spec(spec)
    sys.path.insert(0, str(file.parent.absolute()))  # it may import what lies beside it
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    for name in ("start", "step"):
        if not callable(getattr(module, name, None)):
            raise FedatlasError(
                f"{file}: defines no '{name}': write start(problem, x0, hyper) and "
                "step(state, draws, problem, hyper), which return a mapping of names to arrays"
            )
    return module


# -------------------------------------------------------------------------------- comparison


class Deviation(NamedTuple):
    """How far a quantity is off: ‖theirs − ours‖ over the largest norm that ours has had so far.

    round: from 0, −1 before it. client: None of what the server has.
    """

    round: int
    quantity: str
    client: int | None
    size: float
    ours: np.ndarray
    theirs: np.ndarray

    def __str__(self) -> str:
        when = "before round 0" if self.round < 0 else f"in round {self.round}"
        whose = "" if self.client is None else f" of client {self.client}"
        first = [", ".join(f"{one:.6g}" for one in np.ravel(own)[:_SHOWN])
                 for own in (self.ours, self.theirs)]  # fmt: skip
        more = ", …" if np.size(self.ours) > _SHOWN else ""
        return (
            f"{when}, {self.quantity}{whose} is off by {self.size:.2g} of its norm: ours is "
            f"({first[0]}{more}), theirs ({first[1]}{more})"
        )


@dataclass
class Comparison:
    """What was found.

    rounds: how many were played. first: what deviates in the first round in which anything does,
        those of single clients first, then by size; empty where all conforms.
    largest: by quantity, the largest deviation. missing: quantities of ours that they do not give.
    """

    tolerance: float
    rounds: int = 0
    first: list[Deviation] = field(default_factory=list)
    largest: dict[str, float] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    def __str__(self) -> str:
        compared = ", ".join(f"{name} ({size:.1g})" for name, size in self.largest.items())
        lines = [f"compared in {self.rounds} rounds, with the largest deviations: {compared}"]
        if self.missing:
            lines.append(f"not given, and not compared: {', '.join(self.missing)}")
        if not self.first:
            return "\n".join([f"conforms within {self.tolerance:g}", *lines])
        return "\n".join([
            f"does not conform within {self.tolerance:g}: {self.first[0]}",
            *(f"  also {each}" for each in self.first[1:]), *lines,
        ])  # fmt: skip


def compare(played: Iterator[Played], theirs: Theirs | Recorded, tolerance: float) -> Comparison:
    """Play both sides until the first round in which a quantity deviates by more than this."""
    found, scales = Comparison(tolerance), dict[str, float]()
    for number, (draws, ours) in enumerate(played):
        given, off = theirs.after(draws), []
        _check_names(given, ours)
        found.missing = tuple(name for name in ours if name not in given)
        for name, value in given.items():
            mine, other = ours[name], np.asarray(value, dtype=np.float64)
            if mine.shape != other.shape:
                raise FedatlasError(
                    f"'{name}' has the shape {other.shape}, but ours has {mine.shape}"
                )
            each = _deviations(number - 1, name, mine, other, scales)
            worst = max(each, key=lambda one: (np.isnan(one.size), one.size))
            found.largest[name] = max(worst.size, found.largest.get(name, 0.0))
            off += [one for one in each if not one.size <= tolerance]
        found.rounds = number
        if off:
            found.first = sorted(off, key=lambda one: (one.client is None, -one.size))
            return found
    return found


def _check_names(given: Mapping[str, Any], ours: Mapping[str, Any]) -> None:
    unknown = [name for name in given if name not in ours]
    if unknown or not given:
        told = f"'{unknown[0]}', which ours does not have" if unknown else "no quantity"
        raise FedatlasError(
            f"the other side gives {told}: name quantities as the fields of our state, "
            f"{', '.join(ours)}; begin the names of others with _"
        )


def _deviations(
    number: int, name: str, ours: np.ndarray, theirs: np.ndarray, scales: dict[str, float]
) -> list[Deviation]:
    """Of every row, or of the whole of what is no table of rows."""
    rows = ours.ndim == 2
    pairs = zip(ours, theirs, strict=True) if rows else [(ours, theirs)]
    norms = np.linalg.norm(ours, axis=1) if rows else np.linalg.norm(np.ravel(ours))
    scales[name] = max(scales.get(name, 0.0), float(np.max(norms, initial=0.0)))
    scale = scales[name] or 1.0
    return [
        Deviation(
            number, name, client if rows else None,
            float(np.linalg.norm(np.ravel(other - mine))) / scale, mine, other,
        )
        for client, (mine, other) in enumerate(pairs)
    ]  # fmt: skip
