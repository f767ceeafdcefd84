"""Descriptions of the typed configuration, for references, editors and `conform --explain`.

Models describe their keys in their docstrings: a paragraph or sentence that begins with "key: " or
"key, other: " is about these keys. Digests of code do not count docstrings. Nothing that trains
needs this module.
"""

import re
from collections.abc import Collection, Iterator
from inspect import cleandoc
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel

from fedatlas.schema.models import Model


def parted(docstring: str, names: Collection[str]) -> tuple[str, dict[str, str]]:
    """What a docstring says in general, and what it says about each of these names.

    >>> parted("A grid. first, last: its ends. step: between.", ["first", "last", "step"])
    ('A grid.', {'first': 'its ends.', 'last': 'its ends.', 'step': 'between.'})
    """
    text = cleandoc(docstring)
    if not names:
        return text, {}
    name = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    starts = re.compile(rf"(?:(?<=\n)|(?<=[.;] )|^)((?:{name})(?:, (?:{name}))*):(?=\s)")
    general, found = [], {}
    for paragraph in re.split(r"\n\s*\n", text):
        first, *parts = starts.split(paragraph)
        if first.strip():
            general.append(first.strip())
        for named, description in zip(parts[::2], parts[1::2], strict=True):
            for one in named.split(", "):
                found[one] = description.strip().removesuffix(";")
    return "\n\n".join(general), found


def described(model: type[BaseModel]) -> tuple[str, dict[str, str]]:
    """The description of a model, and of each key that has one.

    A field's own description goes first, then the docstring of the nearest class that has one.
    """
    keys = {
        name: "tells it from its alternatives."
        for name, field in model.model_fields.items()
        if get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1
    }
    for cls in reversed(model.__mro__):
        if issubclass(cls, BaseModel) and cls.__dict__.get("__doc__"):
            keys |= parted(cls.__doc__ or "", model.model_fields)[1]
    keys |= {
        name: field.description for name, field in model.model_fields.items() if field.description
    }
    return parted(model.__doc__ or "", model.model_fields)[0], keys


def symbols(method: type[BaseModel]) -> dict[str, str]:
    """The paper's letters of hyper-parameters, where docstrings say "K = local_steps"."""
    names = "|".join(map(re.escape, sorted(method.model_fields, key=len, reverse=True)))
    key = rf"(?:{names})\b(?! [·/])"
    declared = re.compile(rf"((?:[^\s=,]+, )*[^\s=,]+) = ({key}(?:, {key})*)")
    found: dict[str, str] = {}
    for cls in reversed(method.__mro__):
        docstring = " ".join((cls.__dict__.get("__doc__") or "").split())
        for letters, keys in declared.findall(docstring):
            # Words before the last letters belong to the text before.
            pairs = zip(reversed(keys.split(", ")), reversed(letters.split(", ")), strict=False)
            found |= dict(pairs)
    return found


def models_in(annotation: Any) -> Iterator[type[Model]]:
    """The models that a type mentions, each followed by those of its fields."""
    waiting, seen = [annotation], set()
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, type) and issubclass(part, Model) and part not in seen:
            seen.add(part)
            yield part
            waiting = [field.annotation for field in part.model_fields.values()] + waiting
        else:
            waiting = [*get_args(part), *waiting]
