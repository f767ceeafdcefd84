"""Explain one method for `conform --explain`: what a file gets, computes and returns."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from inspect import cleandoc
from pathlib import Path
from textwrap import dedent, fill, indent
from typing import Any

import numpy as np
import yaml

from fedatlas.conform.ours import Draws, Ours, Played
from fedatlas.plan.places import repository
from fedatlas.schema.described import described, symbols
from fedatlas.schema.models import Model

_WIDTH, _LISTED = 100, 10
_LAWS = {"uniform": "uniform in [0, 1)", "normal": "standard normal", "laplace": "Laplace, scale 1"}


def certificate(name: str) -> tuple[Path, str]:
    """The place of a method's certificate, and its update equations; "" without one."""
    file = repository() / "tests" / "certificates" / f"{name}.py"
    if not file.is_file():
        return file, ""
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return file, dedent(docstring.split("\n\n")[1])


def explained(ours: Ours, name: str, rounds: int) -> str:
    """Equations, source, state, hyper-parameters, and the draws of rounds that differ in kind.

    name: of the method. rounds: how many are played to see.
    """
    method, (file, equations) = type(ours.method), certificate(name)
    parts = [described(method)[0], _filled(f"Source: {method.source}.", "")]
    if equations:
        parts.append(f"Equations, and a plain loop: {file}\n\n{indent(equations, '    ')}")
    if ours.problem.states is not None:
        parts.append("\n".join(_graph(ours)))
    start, *played = ours.play(rounds)
    parts.append(_filled(f"Objective, as problem has it: {ours.problem.formula}.", ""))
    parts.append("\n".join(_state(ours, start, played)))
    parts.append("\n".join(_hyper_parameters(ours)))
    seen: set[Any] = set()
    for draws in (each.draws for each in played):
        if draws is not None and (kind := _kind(draws)) not in seen:
            seen.add(kind)
            parts.append("\n".join(_drawn(draws, ours)))
    return "\n\n".join(parts)


def _filled(text: str, before: str = "  ") -> str:
    """On lines of some width, those after the first further in."""
    plain = " ".join(text.split())
    return fill(
        plain,
        _WIDTH,
        initial_indent=before,
        subsequent_indent=before and before + "    ",
        break_on_hyphens=False,
    )


def _graph(ours: Ours) -> Iterator[str]:
    yield "Graph, --graph:"
    for name in ("states", "trackers"):
        if (weights := getattr(ours.problem, name)) is not None:
            yield f"  problem.{name}: {weights.shape}, w_ij of what i receives from j, w_ii = 0"


def _state(ours: Ours, start: Played, played: list[Played]) -> Iterator[str]:
    """Fields with their shapes, and what the docstrings of its classes say."""
    who = type(ours.method).federation.holders
    sizes = f"here of {ours.problem.clients} {who} and d = {ours.problem.dimension}"
    yield f"State, {sizes}; start and step return x, and what you like of the rest:"
    for name, first in start.quantities.items():
        shapes = [own.shape for each in played if (own := each.quantities[name]) is not None]
        shape = (shapes[0] or "a number") if shapes else "none in these rounds"
        yield f"  {name}: {shape}{f', {_begun(first, ours.x0)} at the start' * bool(shapes)}"
    for cls in _classes(start.state):
        yield indent(cleandoc(cls.__doc__ or ""), "    ")


def _begun(first: np.ndarray | None, x0: np.ndarray) -> str:
    """The value of a quantity before round 0, in a word."""
    if first is None:
        return "none"
    if first.shape[-x0.ndim :] == x0.shape and (first == x0).all():
        return "x0" if first.shape == x0.shape else "x0 in every row"
    return f"{first.flat[0]:g}" if (first == first.flat[0]).all() else "drawn, or of the data,"


def _classes(state: Any) -> Iterator[type]:
    """The dataclasses of a state: those that it is, and those of its fields."""
    yield from (cls for cls in reversed(type(state).__mro__) if "__dataclass_fields__" in vars(cls))
    for value in vars(state).values():
        if is_dataclass(value):
            yield from _classes(value)


def _hyper_parameters(ours: Ours) -> Iterator[str]:
    method = type(ours.method)
    told = symbols(method) | described(method)[1]
    yield f"Hyper-parameters, here --hyper '{_yaml(ours.method.model_dump(exclude_unset=True))}'"
    for required in (True, False):
        keys = [key for key, own in method.model_fields.items() if own.is_required() == required]
        if keys:
            yield "  to be stated:" if required else "  others:"
        for key in keys:
            yield _filled(f"{key}: {_yaml(getattr(ours.hyper, key))}; {told.get(key, '')}", "    ")
            if isinstance(nested := getattr(ours.method, key), Model):
                yield indent(cleandoc(type(nested).__doc__ or ""), " " * 8)


def _yaml(value: Any) -> str:
    if value is None:
        return "None"
    value = dict(value) if isinstance(value, dict) else value  # of subclasses yaml knows nothing
    plain: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
    return plain.removesuffix("\n").removesuffix("\n...")


def _kind(draws: Draws) -> tuple[Any, ...]:
    """What tells rounds apart: how often they draw what, not of whom."""
    return bool(draws.coins), len(draws.batches), tuple(draws.numbers)


def _drawn(draws: Draws, ours: Ours) -> Iterator[str]:
    numbered = "; rows are numbered within a client, from 0" if draws.batches else ""
    yield f"Draws of round {draws.round}{numbered}:"
    arrive = draws.staleness.size > 0
    who = "whose answers are taken, in this order" if arrive else "who takes part, ascending"
    yield f"  draws.clients: {_listed(draws.clients)}; {who}"
    if arrive:
        aged = _listed(draws.staleness)
        yield f"  draws.staleness: {aged}; rounds since each was sent its model"
    if draws.coins:
        coins, chance = _listed(draws.coins), draws.chances[0]
        yield f"  draws.coins: {coins}; tosses that all share, True with probability {chance:g}"
    for place, batch in enumerate(draws.batches):
        held, steps = ours.problem.sizes, _span(len(rows) for _, rows in batch)
        every = all(len(one) == held[i] for i, rows in batch for one in rows)
        rows = "all" if every else _span(len(one) for _, rows in batch for one in rows)
        of = _listed(client for client, _ in batch)
        yield f"  draws.batches[{place}]: of clients {of}; steps: {steps}, rows of each: {rows}"
    for law, drawn in draws.numbers.items():
        shapes = _listed(np.shape(own) for own in drawn)
        told = _LAWS.get(law, f"numpy's {law}")
        yield f"  draws.numbers['{law}']: {told}, of the shapes {shapes}"


def _listed(values: Iterable[Any]) -> str:
    """All of them, or the first of many."""
    found = [str(value) for value in values]
    more = [f"… ({len(found)} in all)"] if len(found) > _LISTED else []
    return ", ".join(found[: _LISTED - 2] + more if more else found)


def _span(numbers: Iterable[int]) -> str:
    found = sorted(set(numbers)) or [0]
    return f"{found[0]}" if len(found) == 1 else f"{found[0]} to {found[-1]}"
