"""Run methods on vectors of coefficients, over every outcome of their coins.

A method that only adds up gradients does the same whatever they are. So ours is run on unit
vectors: x⁰ − x* is the first, and every gradient that the problem is asked for the next. What was
asked where, and where the iterates lie, is all that a certificate needs to know of the method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

from fedatlas.arithmetic.randomness import Draws, RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.algorithm import Algorithm
from fedatlas.federations.decentralised import DecentralisedAlgorithm
from fedatlas.federations.decentralised.graph import GraphCounters, GraphNetwork, GraphProblem
from fedatlas.federations.horizontal import ServerAlgorithm
from fedatlas.federations.horizontal.problem import HorizontalProblem
from fedatlas.federations.min_max import MinMaxAlgorithm
from fedatlas.federations.min_max.problem import MinMaxProblem, PrimalDual
from fedatlas.federations.parts import Counters, StarNetwork
from fedatlas.federations.vertical import VerticalAlgorithm

MOST = 512  # vectors: x⁰ and gradients
_SAME = 1e-9
_MOST_OUTCOMES = 500


@dataclass
class Asked:
    """The gradients that a method requested, in order: (whose, point, gradient).

    optimum: whether x* = 0 is known; then the log begins with the gradients there, which sum to 0,
    and x⁰ is a vector of its own. answer: gives (whose, point) a gradient, by default the next unit
    vector. width: of vectors. of_function: whether answers are a function's, so that compressors
    are what they are. compressed: (row, what was sent of it, the largest share of ‖row‖² lost).
    """

    clients: int
    optimum: bool = True
    answer: Callable[[int, np.ndarray], np.ndarray] | None = None
    width: int = MOST
    of_function: bool = False
    log: list[tuple[int, np.ndarray, np.ndarray]] = field(default_factory=list)
    compressed: list[tuple[np.ndarray, np.ndarray, float]] = field(default_factory=list)
    used: int = 0

    def __post_init__(self) -> None:
        nothing = np.zeros(self.width)
        self.x0 = self.fresh(-1, nothing) if self.optimum else nothing
        if self.optimum:
            own = [self.fresh(i, nothing) for i in range(self.clients - 1)]
            self.log = [(i, nothing, each) for i, each in enumerate([*own, -sum(own, nothing)])]

    def fresh(self, client: int, point: np.ndarray) -> np.ndarray:
        """A new vector."""
        self.used += 1
        if self.answer is not None:
            return self.answer(client, point)
        if self.used > self.width:
            raise FedatlasError(
                f"a certificate has at most {self.width} gradients, and this one needs more: take "
                "fewer clients, local steps or rounds"
            )
        unit = np.zeros(self.width)
        unit[self.used - 1] = 1
        return unit

    def place(self, client: int, point: np.ndarray) -> int:
        """Where in the log this client's gradient at this point is, which is asked for if new."""
        for place, (whose, where, _) in enumerate(self.log):
            if whose == client and np.abs(where - point).max() <= _SAME:
                return place
        self.log.append((client, point.copy(), self.fresh(client, point)))
        return len(self.log) - 1

    def gradients(self, points: Any, clients: Any) -> np.ndarray:
        """Those of clients at one point, or at a point of each, (S, width)."""
        points = np.broadcast_to(points, (len(clients), self.width))
        places = [self.place(int(i), x) for i, x in zip(clients, points, strict=True)]
        return np.stack([self.log[place][2] for place in places])

    def contracted(self, rows: np.ndarray, lost: float) -> np.ndarray:
        """What any compressor may make of rows that loses at most this share of each."""
        sent = np.stack([self.fresh(-1, row) for row in rows])
        self.compressed += [(row, own, lost) for row, own in zip(rows, sent, strict=True)]
        return sent


# ---- What methods are run on ---------------------------------------------------------------------

_ROWS = 2**20  # of each client: more than a minibatch has, which is thus refused


def _rows(clients: int) -> Any:
    offsets = _ROWS * np.arange(clients + 1)
    return SimpleNamespace(clients=clients, samples=range(clients * _ROWS), offsets=offsets)


def _refused(self: Any, *given: Any, **options: Any) -> Any:
    raise FedatlasError(
        "certificates are of methods that ask for full local gradients alone: no minibatches, "
        "clipping, losses, or messages that are compressed at random"
    )


class _Clients(HorizontalProblem):
    """Of clients around a server; what it does not define is as in training."""

    clipped_gradients = predicted = _client_losses = measure = start = _refused

    def __init__(self, asked: Asked) -> None:
        super().__init__(_rows(asked.clients), "equal")
        self._asked, self.dimension = asked, asked.width

    def client_gradients(self, x: Any, batch: Any) -> Any:
        return self._asked.gradients(x, batch.starts // _ROWS)

    def zeros(self, *shape: int) -> Any:
        return np.zeros(shape or self.dimension)


class _Agents(GraphProblem):
    """Of agents on a graph."""

    measure = start = _refused
    draws = Draws()

    def __init__(self, asked: Asked) -> None:
        super().__init__(_rows(asked.clients), None)  # type: ignore[arg-type]
        self._asked, self.dimension = asked, asked.width

    def minibatches(self, random: RoundRandom, size: int) -> Any:
        return self.first_samples(size)  # of DP-GT, which always states a size

    def _gradients(self, points: Any, batch: Any, clipping: Any) -> Any:
        return _refused(self) if clipping else self._asked.gradients(points, self._everyone)


class _Workers(MinMaxProblem):
    """Of min–max problems, whose (∇_θ F_i, −∇_w F_i) are operators of z = (θ, w).

    With equal steps θ and w have the same coefficients, and one of them stands for z.
    """

    class_means = measure = start = _refused

    def __init__(self, asked: Asked) -> None:
        super().__init__(_rows(asked.clients), 1)
        self._asked = asked

    def worker_zeros(self, like: Any) -> Any:
        return np.zeros((self.clients, *like.shape))

    def _gradients(self, theta: Any, w: Any, batch: Any) -> PrimalDual:
        if not np.allclose(theta, w):
            raise FedatlasError("certificates of min–max methods need equal steps of θ and w")
        found = self._asked.gradients(theta, self.workers)
        return PrimalDual(found, -found)


class _Parties:
    """Parties' network without delays, over functions of samples, by `UpdateRule`'s words.

    Of SAGA without a regulariser, which its table does not keep.
    """

    looks_ahead = 0

    def __init__(self, asked: Asked) -> None:
        self._asked, self._samples = asked, np.arange(asked.clients)

    def start(self, x0: Any, done: int = 0, table: Any = None) -> Any:
        return SimpleNamespace(w=x0, dominated_updates=done, table=table)

    def full_pass(self, state: Any, rule: Any, problem: Any) -> Any:
        table = self._asked.gradients(state.w, self._samples)
        return self.start(state.w, state.dominated_updates, table)

    def dominated_updates(self, state: Any, rule: Any, samples: np.ndarray, ahead: Any) -> Any:
        if rule.step is not None or not rule.backward:
            _refused(self)
        w, table = state.w, state.table
        for i in samples:
            (now,) = self._asked.gradients(w, [i])
            w = w - rule.step_size * (now if table is None else now - table[i] + table.mean(0))
            if rule.reference == "table":
                table = np.where(self._samples[:, None] == i, now, table)
        return self.start(w, state.dominated_updates + len(samples), table)

    def settled(self, state: Any, rule: Any) -> Any:
        return state.w


# ---- Coins ---------------------------------------------------------------------------------------


class Coins(RoundRandom):
    """Coins, indices and samples of clients follow a script, and then have their first outcome.

    longest: how often a coin is tossed in a round until it shows heads; longer ones are left out.
    taken: which outcome, and how likely all are, in order.
    """

    def __init__(self, script: tuple[int, ...], longest: int) -> None:
        super().__init__(0)
        self._script, self._longest, self._tails = script, longest, 0
        self.taken: list[tuple[int, list[float]]] = []

    def at(self, round_number: int) -> Coins:
        self._tails = 0
        super().at(round_number)
        return self

    def _choose(self, likely: list[float]) -> int:
        told = self._script[len(self.taken)] if len(self.taken) < len(self._script) else 0
        self.taken.append((told % len(likely), likely))
        return told % len(likely)

    def bernoulli(self, probability: float) -> bool:
        if not 0 < probability < 1:
            return probability >= 1
        both = [probability, 1 - probability]
        heads = self._choose(both[: self._longest - self._tails]) == 0
        self._tails += not heads
        return heads

    def sample(self, population: int, size: int) -> np.ndarray:
        chosen = list(combinations(range(population), size))
        return np.array(chosen[self._choose([1 / len(chosen)] * len(chosen))])

    def indices(self, population: int, size: int) -> np.ndarray:
        return np.array([self._choose([1 / population] * population) for _ in range(size)])

    def distinct_rows(self, *given: Any) -> Any:
        return _refused(self)


def outcomes(play: Callable[[Coins], Any], longest: int) -> Iterator[tuple[float, Any]]:
    """The result of a run for every outcome of its coins, with its probability."""
    waiting: list[tuple[int, ...]] = [()]
    found = 0
    while waiting:
        script = waiting.pop()
        coins = Coins(script, longest)
        result = play(coins)
        taken = tuple(place for place, _ in coins.taken)
        for depth in range(len(script), len(taken)):
            others = range(1, len(coins.taken[depth][1]))
            waiting += [(*taken[:depth], other) for other in others]
        found += 1
        if found + len(waiting) > _MOST_OUTCOMES:
            raise FedatlasError(
                f"more than {_MOST_OUTCOMES} outcomes of coins or of clients that are drawn: take "
                "fewer rounds or clients"
            )
        yield prod(likely[place] for place, likely in coins.taken), result


def play(
    asked: Asked,
    method: Algorithm,
    rounds: int,
    coins: RoundRandom,
    graphs: tuple[np.ndarray | None, np.ndarray | None] = (None, None),
    dimension: int = 1,
) -> np.ndarray:
    """The method's points before and after so many rounds, (R + 1, width), of agents (…, N, width).

    graphs: of agents, the weights of states and trackers. dimension: in which compressors contract.
    """
    problem: Any
    network: Any
    x0: Any = asked.x0
    states, trackers = graphs
    if isinstance(method, ServerAlgorithm):
        problem, network = _Clients(asked), StarNetwork(asked.clients, Counters())
        method = method if asked.of_function else _with_any_compressor(method, asked, dimension)
    elif isinstance(method, DecentralisedAlgorithm):
        if states is None:
            raise FedatlasError(f"{method.title} works on graphs: give the setting 'states'")
        method.check_graphs(states, trackers)
        problem, x0 = _Agents(asked), np.tile(x0, (asked.clients, 1))
        network = GraphNetwork(states, trackers, np.asarray, problem.draws, GraphCounters())
    elif isinstance(method, MinMaxAlgorithm):
        problem, network = _Workers(asked), StarNetwork(asked.clients, Counters())
        x0 = PrimalDual(x0, x0)
    elif isinstance(method, VerticalAlgorithm):
        problem, network = SimpleNamespace(samples=asked.clients), _Parties(asked)
    else:
        raise FedatlasError(f"{method.title}: no certificates of {method.federation.holders}")
    state = method.start(problem, network, x0)
    points = [method.point(state, network)]
    for number in range(rounds):
        state = method.round(state, problem, network, coins.at(number))
        points.append(method.point(state, network))
    return np.array([point[0] if isinstance(point, tuple) else point for point in points])


@dataclass
class _AnyCompressor:
    """What loses at most a share of a row, whatever it is; no other calls of compressors."""

    asked: Asked
    lost: float

    part_sent, __call__ = (lambda self, *sizes: 1.0), _refused

    def contracted(self, rows: Any, random: RoundRandom) -> tuple[Any, float]:
        return self.asked.contracted(rows, self.lost), 64.0


def _with_any_compressor(method: Algorithm, asked: Asked, dimension: int) -> Algorithm:
    own: Any = getattr(method, "compressor", None)
    if own is None:
        return method
    stands = _AnyCompressor(asked, 1 - own.contraction(dimension))
    return method.model_copy(update={"compressor": stands})
