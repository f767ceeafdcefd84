"""Rehearsal: check a method's promises in a few rounds before it trains.

On a tiny federation, so that it costs tenths of a second. No number of a trace depends on it, and
training does not import it: an edit here rehearses methods again and trains nothing anew.

A method is rehearsed again and again under one seed, each time but for one thing:

- with its state read back from a checkpoint after every round. Nothing may change: what a method
  keeps elsewhere, or draws by itself, is lost or differs.
- with other features of all clients, while whatever comes to the server is that of the first time.
  The server's model may not change: it knows only what came over the network. Hubs of silos
  likewise, and on graphs, with other features of every second agent, the models of the others.
- with other features of one half of the clients, then of the other half. A row that clients send
  may change once: it depends on one client's samples.
- with another start of the first agent. Only agents that its messages can have reached may change.
- with a server that gets other numbers than clients send, while clients are sent what they were
  sent the first time. What they send may not change. The start may be known to them from the start.

Over parties only the first: there the network computes all that is sent.

Before all that, the first round must not make a finite start NaN: no seed of such a method could be
judged. Later rounds may: steps of a grid may diverge.
"""

import logging
import math
import time
from collections.abc import Container
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from fedatlas.algorithms import algorithm_class, build_algorithm, place_of
from fedatlas.arithmetic.client_rows import ClientRows
from fedatlas.code import code_digest
from fedatlas.extensions import relative_path
from fedatlas.federations.context import FederationContext
from fedatlas.files import canonical_json, text_digest, write_text
from fedatlas.schema.runs import RunSpec
from fedatlas.training.observation import (
    Carried,
    ContractViolation,
    NotComparable,
    Observation,
)
from fedatlas.training.states import leaves, restore_state, state_arrays
from fedatlas.training.tiny_federation import TinyFederation

#: What is rehearsed besides the state, in words, by name; see `Federation.rehearsal`.
PROMISES = {
    "edges": "an agent depends only on agents from which edges lead to it",
    "inwards": "{model} depends on others' samples by what was sent alone",
    "rows": "a row that a client sends depends on that client's samples alone",
    "outwards": "what clients send depends on the server by what was sent alone",
    "clocks": "whether clients wait for each other is declared",
}

log = logging.getLogger(__name__)

# What was used without being sent shows when something is sent again; not all methods send in every
# round.
_EXCHANGES, _MOST_ROUNDS = 2, 100


def rehearse_once(spec: RunSpec, shards: Path, records: Path) -> None:
    """Rehearse the run's method, unless that was done: once for its code and its options.

    Options are all hyper-parameters but numbers. records: the folder that holds what was done.
    """
    known = [
        [code_digest(*spec.code), code_digest(__name__)],
        [spec.federation.name, spec.objective.name, _options(spec.hyper_parameters)],
    ]
    record = records / f"{spec.algorithm}-{text_digest(canonical_json(known), 16)}.txt"
    if not record.exists():
        write_text(record, f"{rehearse(spec, shards)}\n")


def rehearse_without_data(spec: RunSpec) -> str:
    """Rehearse a run's method on made-up clients: what was checked and found, a line for each.

    FedatlasError names the method's file, a fault and what to do, or why it cannot be rehearsed.
    """
    began, kind = time.perf_counter(), spec.federation
    rounds, skipped = _rehearsed(spec, None)
    seconds = time.perf_counter() - began
    lines = [
        f"{spec.algorithm} does what a method promises, as {spec.name} declares it, in "
        f"{rounds} rounds ({seconds:.1f} s):",
        "  all that lasts is in its state, which a checkpoint keeps, and is not changed in place",
        "  all random numbers are those that it is given, and problem and network count",
    ]
    for name in kind.rehearsal:
        left = "  (not comparable here)" if name in skipped else ""
        lines.append(f"  {PROMISES[name].format(model=kind.model)}{left}")
    return "\n".join(lines)


def rehearse(spec: RunSpec, shards: Path) -> str:
    """What was found, in words; FedatlasError names the method's file, a fault and what to do.

    shards: the folder of the run's partitions. A method that cannot be rehearsed is trained: what
    it raises, training shows.
    """
    began = time.perf_counter()
    try:
        _rehearsed(spec, shards)
    except ContractViolation:
        raise
    except Exception as error:
        told = f"could not be rehearsed: {type(error).__name__}: {error}"
        log.warning("%s: %s %s", spec.name, spec.algorithm, told)
        return told
    told = "does what a method promises"
    log.info("%s: %s %s (%.2f s)", spec.name, spec.algorithm, told, time.perf_counter() - began)
    return told


def _rehearsed(spec: RunSpec, shards: Path | None) -> tuple[int, list[str]]:
    """How many rounds were played, and which promises could not be compared."""
    try:
        with np.errstate(all="ignore"), TemporaryDirectory() as folder:
            rehearsal = _Rehearsal(TinyFederation(spec, shards), Path(folder), spec)
            skipped = rehearsal.check()
    except ContractViolation as finding:
        place = relative_path(place_of(algorithm_class(spec.algorithm)))
        raise ContractViolation(f"{place}: {finding}") from None
    return rehearsal.rounds, skipped


@dataclass(frozen=True)
class _Played:
    """What one rehearsal showed. points: after each round, as numpy arrays."""

    points: list[list[np.ndarray]]
    seen: Observation
    carried: list[Carried]
    counted: dict[str, Any]


class _Rehearsal:
    """A method on a tiny federation."""

    def __init__(self, federation: TinyFederation, folder: Path, declared: RunSpec) -> None:
        """declared: the run that is rehearsed on this federation."""
        self._federation, self._folder, self._declared = federation, folder, declared
        self._spec = federation.spec
        self._method = build_algorithm(self._spec)
        self._opened: dict[bytes, FederationContext] = {}
        self._kind = self._spec.federation
        #: How many rounds are played.
        self.rounds = min(self._kind.rounds, self._spec.rounds)

    def check(self) -> list[str]:
        """Raise a ContractViolation for the first promise that is broken.

        Returns those that could not be compared: the method asked for something else.
        """
        first = self._played(watched=True)
        if self._declared.backend == "processes":
            _check_processes(first.seen.called)
        again = self._played(resumed=True)
        same = all(map(_alike, first.points, again.points)) and first.counted == again.counted
        if not same:
            raise ContractViolation(
                "two rehearsals under one seed differ, the second of which went on from a "
                "checkpoint after each round: keep all that lasts in the state that `round` "
                "returns, and draw by `random` alone"
            )
        if not self._method.federated:
            return list(self._kind.rehearsal)
        skipped = []
        for name in self._kind.rehearsal:
            try:
                getattr(self, f"_check_{name}")(first)
            except NotComparable:
                skipped.append(name)
        return skipped

    def _check_inwards(self, first: _Played) -> None:
        on_graphs = self._kind.on_graphs
        others = np.arange(self._federation.clients) % 2 == 1
        other = self._played(
            others if on_graphs else others | True,
            answers=first.carried,
            answered=self._kind.inwards,
        )
        for number, (mine, now) in enumerate(zip(first.points, other.points, strict=True)):
            if on_graphs:  # an agent's model depends on its own samples, and those did not change
                mine, now = ([array[::2] for array in part] for part in (mine, now))
            if not _alike(mine, now):
                raise ContractViolation(
                    f"after round {number} {self._kind.model} depends on samples of others in a "
                    f"way that the network did not carry: compute it from what "
                    f"{self._kind.inward_call} returns, not from what was given to it"
                )

    def _check_edges(self, first: _Played) -> None:
        other = self._played(moved=1.0)
        states, trackers = self._spec.graph_weights
        linked = (states > 0) if trackers is None else (states > 0) | (trackers > 0)
        reached = np.arange(len(linked)) == 0
        for number, (mine, now) in enumerate(zip(first.points, other.points, strict=True)):
            reached = reached | (linked @ reached > 0)
            if not _alike([of[~reached] for of in mine], [of[~reached] for of in now]):
                raise ContractViolation(
                    f"after round {number} an agent's model depends on an agent from which no edge "
                    "leads to it: weigh what was sent by network.states.weights, .in_laplacian or "
                    ".out_laplacian"
                )

    def _check_rows(self, first: _Played) -> None:
        half = np.arange(self._federation.clients) % 2 == 1
        if (some := first.seen.computing) is not None:  # so that a mean of theirs is of both halves
            half[some] = np.arange(len(some)) % 2 == 1
        changed = []
        for others in (half, ~half):
            other = self._played(others, answers=first.carried, answered=self._kind.inwards)
            both = zip(first.carried, other.carried, strict=True)
            changed.append([_changed(mine, now) for mine, now in both if mine.by == "gather"])
        if any((one & two).any() for one, two in zip(*changed, strict=True)):
            raise ContractViolation(
                "a row that a client sends depends on other clients' samples: compute means and "
                "sums from what network.gather returns, and use `rows[clients]` of these clients "
                "alone"
            )

    def _check_outwards(self, first: _Played) -> None:
        other = self._played(answers=first.carried, answered=self._kind.outwards, shaken=True)
        for mine, now in zip(first.carried, other.carried, strict=True):
            if mine.by == "gather" and not _alike(mine.given, now.given):
                raise ContractViolation(
                    "what clients send depends on the server's state in a way that the network "
                    "did not carry: compute from what network.broadcast returns"
                )

    def _check_clocks(self, first: _Played) -> None:
        if first.seen.behind and self._method.asynchronous is None:
            raise ContractViolation(
                "clients compute that the latest broadcast did not reach: write `asynchronous: "
                "ClassVar[bool] = True` if clients do not wait for each other, whose time "
                "network(…) does not know, or `= False` if a round waits for all its clients"
            )

    def _played(
        self,
        others: np.ndarray | None = None,
        *,
        watched: bool = False,
        resumed: bool = False,
        moved: float = 0.0,
        answers: list[Carried] | None = None,
        answered: tuple[str, ...] = (),
        shaken: bool = False,
    ) -> _Played:
        """A rehearsal; see `TinyFederation.opened` and `Observation`.

        watched: look after states and calls, and find out how many rounds it takes until something
        is sent twice. resumed: read the state back after every round.
        moved: added to the start, on graphs to that of the first agent.
        """
        if others is None:
            others = np.zeros(self._federation.clients, bool)
        key = others.tobytes()
        if key not in self._opened:
            folder = self._folder / str(len(self._opened))
            self._opened[key] = self._federation.opened(folder, others)
        context, method = self._opened[key], self._method
        run, engine = context.seed_run(0), context.engine
        workers = getattr(run.problem, "workers", None)
        seen = Observation(
            self._kind, run.counters, engine.numpy, workers, answers or (), answered, shaken,
            not resumed,
        )  # fmt: skip
        problem, network = seen.of(run.problem, "problem"), seen.of(run.network, "network")
        random = context.random(0)
        x0 = run.x0
        if moved:
            start = engine.numpy(x0).copy()
            start[: 1 if self._kind.on_graphs else None] += moved
            x0 = engine.array(start)
        state = _given(method.start(problem, network, x0), "start")
        points: list[list[np.ndarray]] = []
        needed = self._kind.needed if method.federated else ()
        while len(points) < self.rounds:
            number = len(points)
            if watched:
                _check_kinds(state)
            seen.begin_round()
            before = _arrays(state)
            copies = {name: engine.numpy(array).copy() for name, array in before.items()}
            following = _given(method.round(state, problem, network, random.at(number)), "round")
            seen.check_counters()
            if watched:
                _check_untouched(before, copies, engine.numpy)
            state = following
            if resumed:
                arrays = state_arrays(state, engine.numpy)
                copied = {name: np.array(array) for name, array in arrays.items()}
                counted = dict(vars(run.counters))
                template = method.start(run.problem, run.network, x0)
                vars(run.counters).update(counted)  # the start has counted, too
                state = restore_state(template, copied, engine.array)
            point = method.point(state, run.network)
            seen.take_counters()  # parties report what they did until they settled
            points.append([engine.numpy(array).copy() for _, array in leaves(point)])
            if watched and number == 0:
                after = {name: engine.numpy(array) for name, array in _arrays(state).items()}
                _check_numbers(copies, after, points[0], seen.carried)
            if watched and needed and sum(seen.called[name] for name in needed) < _EXCHANGES:
                self.rounds = min(max(self.rounds, number + 2), _MOST_ROUNDS)
        if answers is not None and len(seen.carried) != len(answers):
            raise NotComparable
        if watched:
            if needed and not any(seen.called[name] for name in needed):
                raise ContractViolation(f"in {len(points)} rounds {self._kind.silent}")
            if run.counters.gradient_evaluations and not run.counters.iteration:
                raise ContractViolation(
                    "gradients are counted, and no step: call problem.step_done() after each "
                    "sequential step"
                )
        return _Played(points, seen, seen.carried, dict(vars(run.counters)))


def _given(state: Any, function: str) -> Any:
    """The state that a function of the method has returned."""
    if state is None:
        raise ContractViolation(
            f"{function} returned None in place of a state: end it with `return` and the state"
        )
    return state


def _check_processes(called: Container[str]) -> None:
    """Parties that are processes know every call, which the rehearsal simulates."""
    from fedatlas.federations.parties.network import ProcessNetwork
    from fedatlas.federations.vertical.network import PartyNetwork

    simulated = sorted(vars(PartyNetwork).keys() - vars(ProcessNetwork).keys())
    if lacking := [name for name in simulated if name in called]:
        raise ContractViolation(
            f"calls network.{lacking[0]}, which parties that are processes do not have: remove "
            "'backend: processes'"
        )


def _check_kinds(state: Any) -> None:
    """A state is immutable, and a checkpoint can keep it."""
    kind: Any = type(state)
    if is_dataclass(state) and not kind.__dataclass_params__.frozen:
        raise ContractViolation(f"{kind.__name__} can be changed: write @dataclass(frozen=True)")
    for name, value in leaves(state):
        known = value is None or isinstance(value, int | float | ClientRows)
        if not known and not _is_array(value):
            raise ContractViolation(
                f"the state's {name} is a {type(value).__name__}, which no checkpoint keeps: use "
                "arrays, problem.client_zeros(), numbers, None, and tuples or frozen dataclasses "
                "of these"
            )


def _check_untouched(before: dict[str, Any], copies: dict[str, np.ndarray], to_numpy: Any) -> None:
    """A round has left the arrays of its state as they were."""
    for name, array in before.items():
        if not np.array_equal(to_numpy(array), copies[name], equal_nan=True):
            raise ContractViolation(
                f"round changes the state's {name} in place: return a new array, as by "
                f"{name} + …, in a new state"
            )


def _check_numbers(
    before: dict[str, np.ndarray],
    after: dict[str, np.ndarray],
    point: list[np.ndarray],
    carried: list[Carried],
) -> None:
    """The first round has made nothing NaN of the state, nor of the point that is measured.

    A message may be NaN, as CODA's of a client without samples of a class; it is named as the
    likely cause. So may be what was NaN at the start.
    """
    marked = {name for name, array in before.items() if _has_nan(array)}
    bad = [f"the state's {name}" for name in after if _has_nan(after[name]) and name not in marked]
    bad += ["the model that is measured"] if any(map(_has_nan, point)) else []
    if bad:
        sent = next((call.by for call in carried if any(map(_has_nan, call.given))), None)
        already = f"what is given to {sent} is NaN already" if sent else "what was sent is not NaN"
        raise ContractViolation(
            f"the first round makes {' and '.join(bad)} NaN, from a finite start on small samples, "
            f"and {already}: look for a division by zero, the root or logarithm of a negative "
            "number, or far too large a step"
        )


def _has_nan(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def _arrays(state: Any) -> dict[str, Any]:
    """Arrays of a state by name; rows of clients are handed on, and say so themselves."""
    return {name: value for name, value in leaves(state) if _is_array(value)}


def _is_array(value: Any) -> bool:
    return hasattr(value, "nbytes") and hasattr(value, "dtype")


def _alike(first: Any, second: Any) -> bool:
    """Whether arrays are equal, up to what other orders of summation may do."""
    return all(
        one.shape == other.shape
        and np.allclose(one, other, rtol=0, atol=_rounding(one), equal_nan=True)
        for one, other in zip(first, second, strict=True)
    )


def _changed(first: Carried, second: Carried) -> np.ndarray:
    """Which rows differ, (clients,)."""
    same = [
        np.isclose(one, other, rtol=0, atol=_rounding(one), equal_nan=True)
        for one, other in zip(first.given, second.given, strict=True)
    ]
    return ~np.all([one.all(axis=tuple(range(1, one.ndim))) for one in same], axis=0)


def _rounding(array: np.ndarray) -> float:
    finite = np.abs(array[np.isfinite(array)])
    smallest = np.finfo(array.dtype).eps if array.dtype.kind == "f" else 0.0
    return float(4 * smallest * finite.max(initial=0.0)) if math.isfinite(smallest) else 0.0


def _options(value: Any) -> Any:
    """Hyper-parameters without their numbers, which decide no way through a method."""
    if isinstance(value, dict):
        return {str(key): _options(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [_options(of) for of in value]
    return 0 if isinstance(value, int | float) and not isinstance(value, bool) else value
