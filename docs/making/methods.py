"""The reference of methods: source, algorithm, hyper-parameters, what is ours; from docstrings."""

import re
import sys
from collections.abc import Iterator

from fedatlas.algorithms import algorithm_class, algorithm_names
from fedatlas.federations.algorithm import Algorithm
from fedatlas.markdown import code, table, text
from fedatlas.schema.federation import Federation, federations
from fedatlas.schema.models import Model
from making import certificates
from making.configuration import (
    as_markdown,
    default_of,
    in_line,
    once,
    section,
    shown,
    undescribed_of,
)
from making.described import described, models_in

_OPENING = """
Each method is one file, in the letters of its paper. *Source* says what was followed, and what a
paper leaves open as our choice. [Adding a method](../adding/method.md) shows how to write one,
[three methods](../methods.md) go through whole files. Update equations are those of the method's
[certificate](#certificates).
"""


def page() -> str:
    """The page in Markdown, for the folder docs/reference."""
    parts: list[str] = ["# Methods", _OPENING.strip(), certificates.section()]
    seen: set[type[Model]] = set()
    every = {name: algorithm_class(name).federation for name in algorithm_names()}
    for federation in federations():
        named = [name for name, own in every.items() if own is federation]
        if named:
            parts.append(f"## {_heading(federation)}")
        for name in named:
            parts += _method(name)
            parts += _values(name, seen)
    return "\n\n".join(parts) + "\n"


def _heading(federation: type[Federation]) -> str:
    """Who holds what: the first line of the folder's docstring."""
    told = sys.modules[federation.__module__].__doc__ or federation.name
    return told.splitlines()[0].removesuffix(".")


def _values(name: str, seen: set[type[Model]]) -> Iterator[str]:
    """Sections of the models that hyper-parameters of a method may be, once each."""
    for field in algorithm_class(name).model_fields.values():
        for model in once(models_in(field.annotation), seen):
            yield from section(model)


def _symbols(method: type[Algorithm]) -> dict[str, str]:
    """The paper's letters of hyper-parameters, where docstrings say "K = local_steps"."""
    names = "|".join(map(re.escape, sorted(method.model_fields, key=len, reverse=True)))
    key = rf"(?:{names})\b(?! [·/])"
    declared = re.compile(rf"((?:[^\s=,]+, )*[^\s=,]+) = ({key}(?:, {key})*)")
    found: dict[str, str] = {}
    for cls in reversed(method.__mro__):
        told = " ".join((cls.__dict__.get("__doc__") or "").split())
        for letters, keys in declared.findall(told):
            # Words before the last letters belong to what was said before.
            pairs = zip(reversed(keys.split(", ")), reversed(letters.split(", ")), strict=False)
            found |= dict(pairs)
    return found


def _method(name: str) -> Iterator[str]:
    method = algorithm_class(name)
    general, keys = described(method)
    told = _symbols(method) | keys
    yield f"(method-{name.replace('_', '-')})=\n\n### {text(method.title)}"
    yield f"`algorithm: {name}`"
    yield as_markdown(general)
    yield certificates.told(name)
    yield f"*Source*: {in_line(method.source)}."
    rows = [
        [code(key), shown(field.annotation), default_of(field), in_line(told.get(key, ""))]
        for key, field in method.model_fields.items()
    ]
    if rows:
        yield table(("hyper-parameter", "value", "default", "what it is"), rows)


def undescribed() -> Iterator[str]:
    """Hyper-parameters of which docstrings say nothing, as method.key."""
    for name in algorithm_names():
        method = algorithm_class(name)
        told = _symbols(method) | described(method)[1]
        yield from (f"{name}.{key}" for key in method.model_fields if key not in told)
        for field in method.model_fields.values():
            for model in models_in(field.annotation):
                yield from undescribed_of(model)
