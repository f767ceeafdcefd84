"""The reference of methods: source, algorithm, hyper-parameters, what is ours; from docstrings."""

import sys
from collections.abc import Iterator

from fedatlas.algorithms import algorithm_class, algorithm_names
from fedatlas.markdown import code, counted, table, text
from fedatlas.schema.described import described, models_in, symbols
from fedatlas.schema.federation import Federation, federations
from fedatlas.schema.models import Model
from making import certificates, folded
from making.configuration import (
    as_markdown,
    default_of,
    in_line,
    once,
    section,
    shown,
    undescribed_of,
)

_OPENING = """
Each method is one file, in the letters of its paper. *Source* says what was followed, and what a
paper leaves open as our choice. [Adding a method](../adding/method.md) shows how to write one,
[three methods](../methods.md) go through whole files. Update equations are those of the method's
[certificate](#certificates): x is the model, i a client, a superscript − what a letter was before.
"""


def page() -> str:
    """The page in Markdown, for the folder docs/reference."""
    parts: list[str] = ["# Methods", _OPENING.strip()]
    seen: set[type[Model]] = set()
    every = {name: algorithm_class(name).federation for name in algorithm_names()}
    for federation in federations():
        named = [name for name, own in every.items() if own is federation]
        if named:
            parts.append(f"## {_heading(federation)}")
        for name in named:
            parts += _method(name)
            parts += _values(name, seen)
    parts.append(certificates.section())
    return "\n\n".join(parts) + "\n"


def _heading(federation: type[Federation]) -> str:
    """Who holds what: the first line of the folder's docstring."""
    docstring = sys.modules[federation.__module__].__doc__ or federation.name
    return docstring.splitlines()[0].removesuffix(".")


def _values(name: str, seen: set[type[Model]]) -> Iterator[str]:
    """Sections of the models that hyper-parameters of a method may be, once each."""
    for field in algorithm_class(name).model_fields.values():
        for model in once(models_in(field.annotation), seen):
            yield from section(model, "###")


def _method(name: str) -> Iterator[str]:
    method = algorithm_class(name)
    general, keys = described(method)
    descriptions = symbols(method) | keys
    yield f"(method-{name.replace('_', '-')})=\n\n### {text(method.title)}"
    yield f"`algorithm: {name}`"
    yield as_markdown(general)
    yield certificates.as_text(name)
    yield f"*Source*: {in_line(method.source)}."
    rows = [
        [code(key), shown(field.annotation), default_of(field), in_line(descriptions.get(key, ""))]
        for key, field in method.model_fields.items()
    ]
    if rows:
        keys = table(("hyper-parameter", "value", "default", "what it is"), rows)
        yield folded(counted(len(rows), "hyper-parameter"), keys)


def undescribed() -> Iterator[str]:
    """Hyper-parameters of which docstrings say nothing, as method.key."""
    for name in algorithm_names():
        method = algorithm_class(name)
        descriptions = symbols(method) | described(method)[1]
        yield from (f"{name}.{key}" for key in method.model_fields if key not in descriptions)
        for field in method.model_fields.values():
            for model in models_in(field.annotation):
                yield from undescribed_of(model)
