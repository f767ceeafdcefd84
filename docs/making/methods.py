"""The reference of methods: source, algorithm, hyper-parameters, what is ours; from docstrings."""

from collections.abc import Iterator

from fedatlas.algorithms import algorithm_class, algorithm_names
from fedatlas.atlas.markdown import code, table, text
from fedatlas.schema.described import described, models_in
from fedatlas.schema.models import Model
from making.configuration import as_markdown, default_of, in_line, once, section, shown

_SETTINGS = {
    "horizontal": "Clients around a server",
    "min_max": "Clients around a server, min–max problems",
    "decentralised": "Agents on graphs",
    "vertical": "Parties with columns",
    "tiered": "Silos with clients",
}
_OPENING = """
Each method is one file, in the letters of its paper. *Source* says what was followed, and what a
paper leaves open as our choice. [Adding a method](../adding.md#a-method) shows how to write one,
[three methods](../methods.md) go through whole files.
"""


def page() -> str:
    """The page in Markdown, for the folder docs/reference."""
    parts: list[str] = ["# Methods", _OPENING.strip()]
    seen: set[type[Model]] = set()
    for setting, heading in _SETTINGS.items():
        parts.append(f"## {heading}")
        for name in algorithm_names():
            if _setting(name) == setting:
                parts += _method(name)
                parts += _values(name, seen)
    return "\n\n".join(parts) + "\n"


def _setting(name: str) -> str:
    """The federation in which the method's base class lies."""
    method = algorithm_class(name)
    for cls in method.__mro__:
        _, _, below = cls.__module__.partition("fedatlas.federations.")
        if "." in below:
            return below.split(".")[0]
    return method.partition_kind


def _values(name: str, seen: set[type[Model]]) -> Iterator[str]:
    """Sections of the models that hyper-parameters of a method may be, once each."""
    for field in algorithm_class(name).model_fields.values():
        for model in once(models_in(field.annotation), seen):
            yield from section(model)


def _method(name: str) -> Iterator[str]:
    method = algorithm_class(name)
    told, keys = described(method)
    yield f"(method-{name.replace('_', '-')})=\n\n### {text(method.title)}"
    yield f"`algorithm: {name}`"
    yield as_markdown(told)
    yield f"*Source*: {in_line(method.source)}."
    rows = [
        [code(key), shown(field.annotation), default_of(field), in_line(keys.get(key, ""))]
        for key, field in method.model_fields.items()
    ]
    if rows:
        yield table(("hyper-parameter", "value", "default", "what it is"), rows)
