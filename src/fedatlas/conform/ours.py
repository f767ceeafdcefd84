"""The fedatlas side of a comparison: a method's draws, and its problem in numpy."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fedatlas.algorithms import build_algorithm
from fedatlas.arithmetic.kernels.formulas import (
    torch_loss,
    torch_penalty,
    torch_penalty_gradient,
    torch_slope,
)
from fedatlas.arithmetic.minibatches import Minibatches
from fedatlas.errors import FedatlasError, similar
from fedatlas.federations.algorithm import Algorithm
from fedatlas.federations.context import FederationContext, SeedRun, shard_files
from fedatlas.federations.horizontal import ServerStep
from fedatlas.federations.shards import ClientSamples, client_shares
from fedatlas.files import canonical_json, write_atomically
from fedatlas.schema.losses import Loss
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.runs import RunSpec
from fedatlas.training.states import leaves, state_arrays

#: Numbers of numpy's generator, as draws name them; others keep their names.
_LAWS = {"random": "uniform", "standard_normal": "normal"}

#: What the arrays of an exported file are, beside the objective's formula.
_README = """Rows offsets[i] to offsets[i + 1] − 1 of features and labels are client i's, from 0.
r/… was drawn in round r: r/clients, who takes part; r/batchJ/clients (S,) and r/batchJ/rows
(S, K, b), rows of each client's each step, numbered within the client, from 0, −1 where there is
none: row n of client i is features[offsets[i] + n]. ours/… are our quantities, the start first.
Iterates that hold `problem`, the number of this file, are compared with this problem alone."""


def _unknown(what: str, name: object, known: Iterable[str]) -> str:
    there = [*known]
    told = similar(str(name), there)
    return f"there is no {what} '{name}'{told}; there are {', '.join(there) or 'none'}"


class _Named:
    """What the other side is given; asked for an attribute that it lacks, it names those it has."""

    _what: ClassVar[str]

    def __getattr__(self, name: str) -> Any:
        known = (own for own in dir(self) if not own.startswith("_"))
        raise AttributeError(_unknown(f"{self._what} attribute", name, known))


class UnknownKeyError(KeyError):
    """A KeyError that says what there is."""

    __str__ = Exception.__str__


class _Known(dict[str, Any]):
    """A mapping with a name; asked for a key that it lacks, it names those it has."""

    def __init__(self, name: str, given: Any = ()) -> None:
        super().__init__(given)
        self.name = name

    def __missing__(self, key: str) -> Any:
        raise UnknownKeyError(_unknown(f"entry of {self.name},", key, self))


class _Listed(list[Any]):
    """A list with a name; asked for a place that it lacks, it says how long it is."""

    def __init__(self, name: str, given: Iterable[Any] = ()) -> None:
        super().__init__(given)
        self.name = name

    def __getitem__(self, place: Any) -> Any:
        try:
            return super().__getitem__(place)
        except IndexError:
            told = f"there is no {self.name}[{place}]: its length is {len(self)}"
            raise IndexError(told) from None


@dataclass
class Draws(_Named):
    """The random numbers that a method of fedatlas drew in one round, in order.

    round: from 0. clients: who take part, (S,), ascending; all where the method chooses nobody.
    staleness: where answers are taken as they arrive, in that order, (S,) rounds since each client
        was sent its model.
    batches: for each time that samples were drawn, (client, its rows at each of its steps) of every
        client that computes; rows are numbered within the client's own samples, from 0.
    coins: of tosses that all share, such as MARINA's of a full round. chances: with what
        probability each was True.
    numbers: by law (uniform in [0, 1), normal, laplace, …), arrays as they were drawn: also what
        compressors round by.
    """

    _what: ClassVar[str] = "draws"

    round: int
    clients: np.ndarray
    staleness: np.ndarray = field(default_factory=lambda: np.empty(0, int))
    batches: list[list[tuple[int, list[np.ndarray]]]] = field(
        default_factory=lambda: _Listed("draws.batches")
    )
    coins: list[bool] = field(default_factory=lambda: _Listed("draws.coins"))
    chances: list[float] = field(default_factory=list)
    numbers: dict[str, list[np.ndarray]] = field(default_factory=lambda: _Known("draws.numbers"))

    def arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        """The same as arrays: rows (S, K, b) of a batch, −1 where there is none."""
        yield "clients", self.clients
        yield "staleness", self.staleness
        yield "coins", np.array(self.coins, bool)
        for place, batch in enumerate(self.batches):
            steps = max((len(rows) for _, rows in batch), default=0)
            most = max((len(one) for _, rows in batch for one in rows), default=0)
            padded = np.full((len(batch), steps, most), -1)
            for s, (_, rows) in enumerate(batch):
                for k, one in enumerate(rows):
                    padded[s, k, : len(one)] = one
            yield f"batch{place}/clients", np.array([client for client, _ in batch], int)
            yield f"batch{place}/rows", padded
        for law, drawn in self.numbers.items():
            yield from ((f"{law}{place}", own) for place, own in enumerate(drawn))

    def add(self, law: str, drawn: Any) -> Any:
        """Write numbers down, and hand them on."""
        place = _Listed(f"draws.numbers['{law}']")
        self.numbers.setdefault(law, place).append(np.array(drawn))
        return drawn


@dataclass(frozen=True)
class PlainProblem(_Named):
    """f(x) = Σ_i p_i f_i(x) for the other side, in numpy.

    samples: of each client, features (M_i, d) and labels (M_i,). weights: p, (N,). f_i is the mean
    loss of its margins A_i x, and the regulariser. states, trackers: of agents, the weights of
    their graphs, (N, N): entry [i, j] > 0 says that i receives what j sends.
    """

    _what: ClassVar[str] = "problem"

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

    @property
    def formula(self) -> str:
        """f, in words: loss, regulariser and weights."""
        own, loss = self.objective, self.objective.loss
        shares = {"equal": "p_i = 1/N", "size": "p_i = M_i/M"}
        p = shares.get(str(own.client_weights), "p as the objective's client_weights")
        penalty = f" + λ · {own.regulariser.formula}, λ = {own.weight:g}" if own.weight else ""
        curve = getattr(loss, "formula", own.name)  # a loss of a user's has none
        told = (
            f"f(x) = Σ_i p_i f_i(x), {p}; f_i(x) = 1/M_i Σ_j ℓ(a_ijᵀx, b_ij){penalty}, ℓ(z, y) = "
            f"{curve}{', labels ±1' * (loss.labels == 'signs')}; of a batch the mean over its rows"
        )
        if (beside := own.nonsmooth) is not None:
            values = beside.model_dump(exclude={"name"}).items()
            told += f"; beside f {beside.formula}, {', '.join(f'{k} {v:g}' for k, v in values)}"
        return told

    def gradient(self, client: int, x: np.ndarray, rows: Any = None) -> np.ndarray:
        """∇f_i over these of the client's rows, over all by default, (d,)."""
        found: np.ndarray = self.sample_gradients(client, x, rows).mean(0)
        return found + self.penalty_gradient(x)

    def sample_gradients(self, client: int, x: np.ndarray, rows: Any = None) -> np.ndarray:
        """The gradient of each of these samples' loss, without the regulariser, (rows, d)."""
        (features, labels), x = self._of(client, rows), self._point(x)
        margins = features @ x
        return _by_torch(torch_slope, self.objective.loss, margins, labels)[:, None] * features

    def penalty_gradient(self, x: np.ndarray) -> np.ndarray:
        """The gradient of the regulariser, (d,)."""
        kind, x = self.objective.regulariser, self._point(x)
        return self.objective.regularisation_weight * _by_torch(torch_penalty_gradient, kind, x)

    def client_value(self, client: int, x: np.ndarray) -> float:
        """f_i(x)."""
        (features, labels), x = self._of(client, None), self._point(x)
        loss = _by_torch(torch_loss, self.objective.loss, features @ x, labels).mean()
        penalty = _by_torch(torch_penalty, self.objective.regulariser, x)
        return float(loss + self.objective.regularisation_weight * penalty)

    def value(self, x: np.ndarray) -> float:
        """f(x)."""
        return float(self.weights @ [self.client_value(own, x) for own in range(self.clients)])

    def _of(self, client: int, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        if client not in range(self.clients):
            raise IndexError(f"there is no client {client}: they are 0 to {self.clients - 1}")
        features, labels = self.samples[client]
        try:
            return (features, labels) if rows is None else (features[rows], labels[rows])
        except IndexError as error:
            told = f"client {client} has the rows 0 to {len(labels) - 1}: {error}"
            raise IndexError(told) from None

    def _point(self, x: Any) -> np.ndarray:
        found = np.asarray(x)
        if found.shape != (self.dimension,) or np.iscomplexobj(found):
            kind = "complex" if np.iscomplexobj(found) else f"of the shape {found.shape}"
            raise ValueError(
                f"x is {kind}: give {self.dimension} real numbers, ({self.dimension},)"
            )
        return found.astype(np.float64, copy=False)


def _by_torch(function: Callable[..., Any], kind: Any, *arrays: np.ndarray) -> np.ndarray:
    import torch

    return np.asarray(function(kind, *map(torch.tensor, arrays)))  # of copies


def plain_problem(
    data: ClientSamples, objective: LinearObjective, graphs: tuple[Any, Any] = (None, None)
) -> PlainProblem:
    """The problem of a run's rows, for the other side."""
    features, sizes = data.samples.features, np.diff(data.offsets)
    dense = features if isinstance(features, np.ndarray) else features.toarray()
    both = np.array(dense), np.array(data.samples.label)  # ours stay as they are
    parts = zip(*(np.split(each, data.offsets[1:-1]) for each in both), strict=True)
    samples = _Listed("problem.samples", parts)
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
        self.draws.chances.append(probability)
        return coin

    def sample(self, population: int, size: int) -> np.ndarray:
        self.draws.clients = np.array(self._random.sample(population, size))
        return self.draws.clients

    def uniform(self, *shape: int) -> Any:
        return self.draws.add("uniform", self._random.uniform(*shape))

    def laplace(self, *shape: int) -> Any:
        return self.draws.add("laplace", self._random.laplace(*shape))

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


class Hyper(SimpleNamespace):
    """Hyper-parameters as attributes; nested ones are mappings."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_unknown("hyper-parameter", name, vars(self)))


#: By method, what stands in a round for a hyper-parameter that is None.
_FOUND: dict[str, dict[str, Callable[[Any, PlainProblem], float]]] = {
    "diana": {"memory_step": lambda own, of: 1 / (1 + own.compressor.variance(of.dimension))},
    "dasha": {"memory_step": lambda own, of: 1 / (1 + 2 * own.compressor.variance(of.dimension))},
    "fedpage": {
        "local_step_size": lambda own, of: own.global_step_size / own.local_steps,
        "full_round_probability": lambda own, of: own.clients_per_round / of.clients,
    },
}


def declared(method: Algorithm) -> Hyper:
    """Its hyper-parameters as they are declared or by default."""
    told = method.model_dump()  # without options that a run leaves as they are
    return Hyper(**{key: told.get(key, getattr(method, key)) for key in type(method).model_fields})


def hyper_parameters(method: Algorithm, problem: PlainProblem) -> Hyper:
    """The same with the numbers that rounds take: η_g, and k of a share of d, among them."""
    hyper = declared(method)
    found = _FOUND.get(type(method).__module__.rpartition(".")[2], {})
    for key, number in found.items():
        if getattr(method, key) is None:
            setattr(hyper, key, number(method, problem))
    if isinstance(method, ServerStep):
        hyper.global_step_size = method.server_step_size
    if (compressor := getattr(method, "compressor", None)) is not None:
        kept = {"k": compressor.kept(problem.dimension)} if hasattr(compressor, "kept") else {}
        hyper.compressor = _Known("hyper.compressor", {**hyper.compressor, **kept})
    return hyper


class Played(NamedTuple):
    """One round of ours: what was drawn, None before round 0, and the state.

    quantities: its fields by dotted name, None where the method has nothing there yet.
    """

    draws: Draws | None
    state: Any
    quantities: dict[str, np.ndarray | None]


@dataclass(frozen=True)
class Ours:
    """A method, ready to run, and its problem as the other side sees it.

    engine: has the array type. x0: as numpy. hyper: hyper-parameters as the other side sees them.
    """

    method: Algorithm
    run: SeedRun
    engine: Any
    random: Any
    problem: PlainProblem
    x0: np.ndarray
    hyper: SimpleNamespace

    @classmethod
    def of_run(cls, spec: RunSpec, shards: Path, seed: int, *, drawn_start: bool = False) -> Ours:
        """One seed of a run over the shards in this folder, on the CPU.

        drawn_start: whether x0 is drawn, and not the run's, which is often zero.
        """
        files = shard_files(shards / spec.partition.of_seed(seed).slug, spec.partition.silos)
        objective: Any = spec.objective
        if not spec.federation.mean_of_clients or not isinstance(objective, LinearObjective):
            raise FedatlasError(
                f"{spec.name}: `conform` compares methods around a server and on graphs, on linear "
                f"objectives such as logistic_l2; this run has {spec.federation.holders} and the "
                f"objective {objective.name}"
            )
        if not isinstance(objective.loss, Loss):
            raise FedatlasError(
                f"{spec.name}: key 'objective', value '{objective.name}': `conform` knows losses "
                "of fedatlas alone: take one of these, such as logistic_l2"
            )
        if seed not in spec.seeds:
            seeds = ", ".join(map(str, spec.seeds))
            raise FedatlasError(f"{spec.name}: has no seed {seed}, but {seeds}: name one of these")
        method, context = build_algorithm(spec), FederationContext(spec, shards, "cpu")
        run, graphs = context.seed_run(seed), spec.graph_weights if spec.graphs else (None, None)
        x0 = np.array(context.engine.numpy(run.x0))
        if drawn_start:
            x0 = np.random.default_rng(seed).normal(size=x0.shape)
            run = replace(run, x0=context.engine.array(x0.copy()))
        problem = plain_problem(spec.federation.read(files), objective, graphs)
        hyper = hyper_parameters(method, problem)
        return cls(method, run, context.engine, context.random(seed), problem, x0, hyper)

    def play(self, rounds: int) -> Iterator[Played]:
        """The start, and so many rounds."""
        sizes = np.asarray(self.problem.sizes)
        offsets = np.append(0, np.cumsum(sizes))
        watched: Any = _Random(self.random)

        def note(name: str, result: Any) -> None:
            if isinstance(result, Minibatches):
                watched.draws.batches.append(_by_client(result, offsets))
            elif name in ("participants", "arriving"):
                watched.draws.clients = np.array(result)
            elif name == "next":  # of answers that are taken as they arrive
                watched.draws.clients, _, watched.draws.staleness = result[-1]

        def played(draws: Draws | None, state: Any) -> Played:
            arrays = state_arrays(state, self.engine.numpy)
            own = {
                name: np.array(arrays[name]) if name in arrays else None
                for name, _ in leaves(state)
            }
            return Played(draws, state, own)

        problem, network = _Noted(self.run.problem, note), _Noted(self.run.network, note)
        state = self.method.start(problem, network, self.run.x0)
        yield played(None, state)
        for number in range(rounds):
            watched.draws = Draws(number, np.arange(len(sizes)))
            state = self.method.round(state, problem, network, watched.at(number))
            yield played(watched.draws, state)

    @property
    def number(self) -> int:
        """Names the problem: its arrays, the method, hyper-parameters, and what it draws by."""
        arrays = self._arrays() | {"seed": self.random.at(0).uniform(4)}
        digest = hashlib.sha256(type(self.method).__name__.encode())
        for name in sorted(arrays):
            digest.update(arrays[name].tobytes())
        return int(digest.hexdigest()[:12], 16)  # a double holds it

    def _arrays(self) -> dict[str, np.ndarray]:
        rows, labels = zip(*self.problem.samples, strict=True)
        arrays = {
            "features": np.concatenate(rows), "labels": np.concatenate(labels), "x0": self.x0,
            "offsets": np.append(0, np.cumsum(self.problem.sizes)), "p": self.problem.weights,
            "objective": np.array(canonical_json(self.problem.objective.model_dump(mode="json"))),
            "hyper": np.array(canonical_json(vars(self.hyper))),
        }  # fmt: skip
        for name in ("states", "trackers"):
            if (weights := getattr(self.problem, name)) is not None:
                arrays[name] = weights
        return arrays

    def export(self, rounds: int, file: Path) -> None:
        """Write the problem, all draws, and our quantities: docs/conform.md names the arrays."""
        arrays = self._arrays() | {"problem": np.array(self.number)}
        arrays["readme"] = np.array(f"{self.problem.formula}.\n{_README}")
        found: dict[str, dict[int, np.ndarray]] = {}
        for place, (draws, _, ours) in enumerate(self.play(rounds)):
            for name, own in ours.items():
                if own is not None:
                    found.setdefault(name, {})[place] = own
            if draws is not None:
                arrays |= {f"{draws.round}/{name}": own for name, own in draws.arrays()}
        for name, by_place in found.items():
            lacking = np.full_like(next(iter(by_place.values())), np.nan, dtype=float)
            rows = [by_place.get(place, lacking) for place in range(rounds + 1)]
            arrays[f"ours/{name}"] = np.array(rows)
        with write_atomically(file) as part, part.open("wb") as stream:
            np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]


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
