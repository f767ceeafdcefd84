"""Problems and networks that record a method's requests, and can replay earlier answers.

A method sees what it always sees. What is not counted, or is the problem's or network's own, it is
refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from fedatlas.arithmetic.client_rows import ChunkedRows
from fedatlas.errors import FedatlasError
from fedatlas.schema.federation import Federation
from fedatlas.training.states import mapped

# What the program asks, and does not count.
_NOT_FOR_METHODS = (
    "client_gradients", "clipped_gradients", "measure", "predicted", "test_quality", "counting"
)  # fmt: skip
# Calls behind which parties have no update under way.
_SETTLING = ("barrier", "distribute", "full_pass")


class ContractViolation(FedatlasError):
    """A broken promise of a method, and how to fix it."""


class NotComparable(Exception):
    """Another rehearsal asked for something else, so that its answers do not fit."""


@dataclass(frozen=True)
class Carried:
    """One call that carried arrays.

    by: the function. given, got: arrays, as numpy. to: whom the latest
    broadcast reached.
    """

    by: str
    given: tuple[np.ndarray, ...]
    got: Any
    to: Sequence[int]


@dataclass
class Observation:
    """The requests of a method in one rehearsal, and the answers.

    kind: the federation. counters: of the run. to_numpy: of the engine. workers: who take part in
    every round, if the problem says so.
    answers: of an earlier rehearsal, given in place of those of the functions `answered`.
    shaken: whether the server gets other numbers than clients send.
    follows_states: whether parties' states are handed on as they are, not read from a file.
    computing: the first clients, two at least, that drew minibatches at once.
    behind: whether clients drew minibatches that the latest broadcast did not reach.
    """

    kind: type[Federation]
    counters: Any
    to_numpy: Any
    workers: np.ndarray | None = None
    answers: Sequence[Carried] = ()
    answered: tuple[str, ...] = ()
    shaken: bool = False
    follows_states: bool = True
    computing: np.ndarray | None = None
    behind: bool = False
    carried: list[Carried] = field(default_factory=list)
    called: Counter[str] = field(default_factory=Counter)
    _counted: dict[str, Any] = field(default_factory=dict)
    _reached: np.ndarray | None = None  # by the latest broadcast
    _blocks: Any = None
    _settled: Any = None

    def __post_init__(self) -> None:
        self.take_counters()

    def of(self, target: Any, name: str) -> Any:
        """What stands for a problem or network in this rehearsal; name: as methods call it."""
        return _Observed(target, name, self)

    def begin_round(self) -> None:
        """Forget what the round before has settled."""
        self._settled = None

    def take_counters(self) -> None:
        """Take the counters as they are."""
        self._counted = dict(vars(self.counters))

    def check_counters(self) -> None:
        """A ContractViolation if counters have changed since the last call ended."""
        for name, value in vars(self.counters).items():
            if value != self._counted[name]:
                raise ContractViolation(
                    f"changes the counter '{name}' itself: remove that; problem and network count"
                )

    def call(self, name: str, function: Any, *given: Any, **options: Any) -> Any:
        """Hand a call on and note it."""
        self.check_counters()
        bare = name.rpartition(".")[2]
        self.called[bare] += 1
        self._check_given(name, bare, function, given, options)
        got = function(
            *(_bare(value) for value in given),
            **{key: _bare(value) for key, value in options.items()},
        )
        self.take_counters()
        if self.follows_states and bare in self.kind.moves and hasattr(got, "queues"):
            self._blocks = got.x
        if bare in _SETTLING:
            self._settled = got
        return (
            self._noted(bare, given, got) if bare in self.kind.inwards + self.kind.outwards else got
        )

    def _noted(self, name: str, given: Sequence[Any], got: Any) -> Any:
        """The answer, by default the call's own."""
        arrays = tuple(self.to_numpy(_whole("", array)).copy() for array in flat(given))
        got = mapped(got, _whole)
        to = [] if self._reached is None else self._reached.tolist()
        self.carried.append(Carried(name, arrays, mapped(got, _copied), to))
        if self.shaken and name in self.kind.inwards:
            return mapped(got, _shaken)
        if name not in self.answered:
            return got
        place = len(self.carried) - 1
        if place >= len(self.answers) or self.answers[place].by != name:
            raise NotComparable
        if self.shaken and to != self.answers[place].to:
            raise NotComparable  # the server chooses clients by what it got
        answer = self.answers[place].got
        if [array.shape for array in flat(answer)] != [array.shape for array in flat(got)]:
            raise NotComparable
        return mapped(answer, _copied)

    def _check_given(
        self, name: str, bare: str, function: Any, given: Sequence[Any], options: dict[str, Any]
    ) -> None:
        if bare == "broadcast":
            self._reached = np.asarray(options["to"])
        if bare == "minibatches":
            self._note_computing(_arguments(function, given, options))
        if bare == "gather":
            self._check_rows(name, given)
        if options.get("bits") is not None:
            _check_bits(name, options["bits"])
        if (
            bare == "secure_margins"
            and _arguments(function, given, options).get("state") is not self._settled
        ):
            raise ContractViolation(
                "network.secure_margins is given a state whose updates may be under way: call "
                "state = network.barrier(state, self.rule) before it, in the same round"
            )
        state: Any = given[0] if bare in self.kind.moves and given else None
        if self._blocks is not None and hasattr(state, "queues") and state.x is not self._blocks:
            raise ContractViolation(
                f"network.{bare} is given a state whose blocks `x` are not those that the network "
                "returned: only parties change their blocks, by the method's `rule`"
            )

    def _note_computing(self, given: dict[str, Any]) -> None:
        """Note who computes, unless all take part."""
        if (clients := given.get("clients")) is None:
            return
        if self.computing is None and len(clients) > 1:
            self.computing = np.array(clients)
        if self._reached is not None:
            self.behind |= not np.isin(clients, self._reached).all()

    def _check_rows(self, name: str, given: Sequence[Any]) -> None:
        """The server is sent rows, as many of every array; of workers, who all take part, all."""
        rows = given[0].shape[:1] if self.workers is None else (len(self.workers),)
        for array in given:
            if len(array.shape) < 2 or array.shape[:1] != rows:
                every = "as many of every array" if self.workers is None else f"{len(self.workers)}"
                raise ContractViolation(
                    f"{name} is given an array of shape {tuple(array.shape)}: give the rows "
                    f"(clients, …) that clients send, {every}, and take sums and means of what it "
                    "returns; one number of each client is a column, losses[:, None]"
                )


def _arguments(function: Any, given: Sequence[Any], options: dict[str, Any]) -> dict[str, Any]:
    """What a call gives, by name."""
    return signature(function).bind(*given, **options).arguments


def _check_bits(name: str, bits: Any) -> None:
    """What messages take is known, and something is sent; silos' are listed."""
    told = np.concatenate(
        [np.ravel(own) for own in (bits if isinstance(bits, list | tuple) else [bits])]
    )
    if not (np.isfinite(told).all() and (told >= 0).all() and told.any()):
        raise ContractViolation(
            f"{name} is told that its messages take {told.min():g} bits: state what a row takes, "
            "or leave it out"
        )


class _Observed:
    """Stands for a problem or a network."""

    def __init__(self, target: Any, name: str, observation: Observation) -> None:
        vars(self).update(_target=target, _name=name, _observation=observation)

    def __getattr__(self, name: str) -> Any:
        called = f"{self._name}.{name}"
        if name.startswith("_"):
            raise ContractViolation(
                f"uses {called}, which is private: ask what docs/adding/method.md lists"
            )
        if name in _NOT_FOR_METHODS:
            raise ContractViolation(
                f"uses {called}, which is not counted: ask what docs/adding/method.md lists"
            )
        value = getattr(self._target, name)
        if name in ("states", "trackers") and value is not None:
            return self._observation.of(value, called)
        if not callable(value):
            return value
        return partial(self._observation.call, called, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise ContractViolation(
            f"sets {self._name}.{name}: keep what lasts in the state, which is returned"
        )


def _bare(value: Any) -> Any:
    return value._target if isinstance(value, _Observed) else value


def _whole(_: str, value: Any) -> Any:
    return np.asarray(value) if isinstance(value, ChunkedRows) else value


def _shaken(_: str, array: Any) -> Any:
    """Other numbers of the same signs; those that may be indices change places in their rows."""
    values = np.asarray(array)
    if values.dtype.kind == "f":
        factors = np.random.default_rng(0).uniform(0.5, 2.0, values.shape)
        shaken = ((values + 0.1) * factors).astype(values.dtype)  # also where the start is 0
    else:
        shaken = values[..., ::-1].copy()
    return shaken if isinstance(array, np.ndarray) else array.new_tensor(shaken)


def _copied(_: str, array: Any) -> Any:
    return array.copy() if isinstance(array, np.ndarray) else array.clone()


def flat(value: Any) -> list[Any]:
    """The arrays in tuples and lists of them; single numbers and what is no array are left out."""
    if isinstance(value, tuple | list):
        return [array for part in value for array in flat(part)]
    return [value] if getattr(value, "ndim", 0) else []
