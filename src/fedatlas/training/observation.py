"""Problems and networks that note what a method asks of them, and may answer as another time.

A method sees what it always sees. What is not counted, or is the problem's or network's own, it is
refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fedatlas.arithmetic.client_rows import ChunkedRows
from fedatlas.errors import FedatlasError

#: What carries arrays. To where they are needed for the first time: to the server, to neighbours or
#: to hubs; and from there back.
INWARDS = ("gather", "send", "release", "exchange", "collect_models")
OUTWARDS = ("broadcast", "send_models")
#: What moves parties; a network of theirs carries whatever these need.
OF_PARTIES = ("dominated_updates", "barrier", "full_pass", "distribute", "settled", "start")
# What the program asks, and does not count.
_NOT_FOR_METHODS = ("client_gradients", "measure", "test_quality", "counting")


class Finding(FedatlasError):
    """What a method does that it must not, and what to do."""


class NotComparable(Exception):
    """Another rehearsal asked for something else, so that its answers do not fit."""


@dataclass(frozen=True)
class Carried:
    """One call that carried arrays.

    by: the function. given, got: arrays, as numpy. clients: whose rows they are, if the network has
    a server and says so.
    """

    by: str
    given: tuple[np.ndarray, ...]
    got: Any
    clients: np.ndarray | None


@dataclass
class Observation:
    """What one rehearsal asked, and what it is answered.

    counters: of the trial. to_numpy: of the engine. workers: who take part in every round, if the
    federation says so.
    answers: of an earlier rehearsal, given in place of those of the functions `answered`.
    follows_states: whether parties' states are handed on as they are, not read from a file.
    """

    counters: Any
    to_numpy: Any
    workers: np.ndarray | None = None
    answers: Sequence[Carried] = ()
    answered: tuple[str, ...] = ()
    follows_states: bool = True
    carried: list[Carried] = field(default_factory=list)
    called: set[str] = field(default_factory=set)
    _counted: dict[str, Any] = field(default_factory=dict)
    _reached: np.ndarray | None = None
    _blocks: Any = None

    def __post_init__(self) -> None:
        self.take_counters()

    def of(self, target: Any, name: str) -> Any:
        """What stands for a problem or network in this rehearsal; name: as methods call it."""
        return _Observed(target, name, self)

    def take_counters(self) -> None:
        """Take the counters as they are."""
        self._counted = dict(vars(self.counters))

    def check_counters(self) -> None:
        """A Finding if counters have changed since the last call ended."""
        for name, value in vars(self.counters).items():
            if value != self._counted[name]:
                raise Finding(
                    f"changes the counter '{name}' itself: remove that; problem and network count"
                )

    def call(self, name: str, function: Any, *given: Any, **options: Any) -> Any:
        """Hand a call on and note it."""
        self.check_counters()
        bare = name.rpartition(".")[2]
        self.called.add(bare)
        self._check_given(name, bare, given, options)
        got = function(
            *(_bare(value) for value in given),
            **{key: _bare(value) for key, value in options.items()},
        )
        self.take_counters()
        if self.follows_states and bare in OF_PARTIES and hasattr(got, "queues"):
            self._blocks = got.x
        return self._noted(bare, given, got) if bare in INWARDS + OUTWARDS else got

    def _noted(self, name: str, given: Sequence[Any], got: Any) -> Any:
        """The answer, by default the call's own."""
        arrays = tuple(self.to_numpy(_whole(array)).copy() for array in flat(given))
        got = _map(got, _whole)
        clients = self.workers if self._reached is None else self._reached
        kept = Carried(name, arrays, _map(got, _copied), clients if name == "gather" else None)
        self.carried.append(kept)
        if name not in self.answered:
            return got
        place = len(self.carried) - 1
        if place >= len(self.answers) or self.answers[place].by != name:
            raise NotComparable
        answer = self.answers[place].got
        if [array.shape for array in flat(answer)] != [array.shape for array in flat(got)]:
            raise NotComparable
        return _map(answer, _copied)

    def _check_given(
        self, name: str, bare: str, given: Sequence[Any], options: dict[str, Any]
    ) -> None:
        if bare == "broadcast":
            self._reached = np.asarray(options["to"])
        if bare == "gather":
            self._check_rows(name, given)
        if bare == "send" and options.get("message_bytes", 1) <= 0:
            raise Finding(
                f"{name} is told that a row takes {options['message_bytes']} bytes: state what its "
                "numbers take, or leave it out"
            )
        state: Any = given[0] if bare in OF_PARTIES and given else None
        if self._blocks is not None and hasattr(state, "queues") and state.x is not self._blocks:
            raise Finding(
                f"network.{bare} is given a state whose blocks `x` are not those that the network "
                "returned: only parties change their blocks, by the method's `rule`"
            )

    def _check_rows(self, name: str, given: Sequence[Any]) -> None:
        """The server is sent a row from every client that takes part."""
        reached = self.workers if self._reached is None else self._reached
        for array in given:
            shape = tuple(array.shape)
            if len(shape) < 2 or (reached is not None and shape[0] != len(reached)):
                taking = "the clients" if reached is None else f"{len(reached)} clients"
                raise Finding(
                    f"{name} is given an array of shape {shape}, where {taking} take part: give "
                    "the rows (clients, …) that they send, and take sums and means of what it "
                    "returns"
                )


class _Observed:
    """Stands for a problem or a network."""

    def __init__(self, target: Any, name: str, observation: Observation) -> None:
        vars(self).update(_target=target, _name=name, _observation=observation)

    def __getattr__(self, name: str) -> Any:
        called = f"{self._name}.{name}"
        if name.startswith("_"):
            raise Finding(f"uses {called}, which is private: ask what docs/adding.md lists")
        if name in _NOT_FOR_METHODS:
            raise Finding(f"uses {called}, which is not counted: ask what docs/adding.md lists")
        value = getattr(self._target, name)
        if name in ("states", "trackers") and value is not None:
            return self._observation.of(value, called)
        if not callable(value):
            return value
        return partial(self._observation.call, called, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise Finding(f"sets {self._name}.{name}: keep what lasts in the state, which is returned")


def _bare(value: Any) -> Any:
    return value._target if isinstance(value, _Observed) else value


def _whole(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, ChunkedRows) else value


def _copied(array: Any) -> Any:
    return array.copy() if isinstance(array, np.ndarray) else array.clone()


def _map(value: Any, function: Any) -> Any:
    if isinstance(value, tuple):
        parts = (_map(part, function) for part in value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return function(value)


def flat(value: Any) -> list[Any]:
    """The arrays in tuples and lists of them; single numbers and what is no array are left out."""
    if isinstance(value, tuple | list):
        return [array for part in value for array in flat(part)]
    return [value] if getattr(value, "ndim", 0) else []
