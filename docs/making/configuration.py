"""The reference of the configuration: every key, from the typed models and their docstrings."""

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic_core import PydanticUndefined

from fedatlas.data.formats import formats
from fedatlas.markdown import code, counted, table
from fedatlas.schema.claims import ClaimTest, Kind
from fedatlas.schema.config import WorkflowConfig
from fedatlas.schema.described import described, models_in
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.foreign import CurvesMapping
from fedatlas.schema.models import Model
from fedatlas.schema.papers import Covered, Paper, Sentence
from fedatlas.schema.suite import Suite
from making import folded
from making.schemas import classes_of_claims, kinds_of_figures, words_of_kind

# Page, heading, the files that it is about, and their models.
_PARTS = (
    ("workflow", "The workflow", "`config/config.yaml` and `--config`", [WorkflowConfig]),
    ("experiments", "Experiments", "`config/experiments/<group>/<name>.yaml`", [Experiment]),
    (
        "claims",
        "Claims",
        "`claims` of an experiment; the key `kind` decides the others",
        classes_of_claims(),
    ),
    (
        "figures",
        "Figures",
        "`figure` of an experiment; the key `kind` decides the others",
        kinds_of_figures(),
    ),
    (
        "data",
        "Data sets",
        "`config/datasets.yaml`; the key `format` decides the others",
        formats().values(),
    ),
    ("suite", "The suite", "`config/suite.yaml`, and `suite.yaml` of a project", [Suite]),
    (
        "curves",
        "Runs made elsewhere",
        "a mapping file, `fedatlas import --mapping`",
        [CurvesMapping],
    ),
    (
        "papers",
        "Papers, claims, coverage",
        "`config/papers.yaml`, `config/sentences.yaml`, `config/coverage.yaml`",
        [Paper, Sentence, Covered],
    ),
)
_FEW = 4  # keys that stand open
_OPENING = """
Every key of the files in `config/`, and of mappings, made from the models that validate them. JSON
schemas for editors and other programs lie in `docs/schemas/`:
[experiment](../schemas/experiment.json), [config](../schemas/config.json),
[datasets](../schemas/datasets.json), [suite](../schemas/suite.json),
[mapping](../schemas/mapping.json), [papers](../schemas/papers.json),
[sentences](../schemas/sentences.json), [coverage](../schemas/coverage.json). An experiment's is
of the experiment once its lists are filled in, as `fedatlas spec <experiment>` prints it.
[Adding an experiment](../adding/experiment.md) shows how the keys are used.
"""


def pages() -> Iterator[tuple[str, str]]:
    """Name and Markdown of each page, the overview first, for the folder docs/reference."""
    rows = [[f"[{title}](configuration-{name}.md)", files] for name, title, files, _ in _PARTS]
    names = "\n".join(f"configuration-{name}" for name, *_ in _PARTS)
    contents = f"```{{toctree}}\n:hidden:\n\n{names}\n```"
    overview = ["# Configuration", _OPENING.strip(), table(("page", "of"), rows), contents]
    yield "configuration.md", "\n\n".join(overview) + "\n"
    seen: set[type[Model]] = set()
    for name, title, files, models in _PARTS:
        yield f"configuration-{name}.md", "\n\n".join(_part(title, files, models, seen)) + "\n"


def _part(
    title: str, files: str, models: Iterable[type[Model]], seen: set[type[Model]]
) -> Iterator[str]:
    yield f"# {title}"
    yield f"{files[0].upper()}{files[1:]}."
    for model in once(models, seen):
        kinds = model.kinds if issubclass(model, ClaimTest) else {}
        if not kinds:
            yield from section(model)
        for kind_name, kind in kinds.items():
            yield from section_of_kind(model, kind_name, kind)


def once(models: Iterable[type[Model]], seen: set[type[Model]]) -> Iterator[type[Model]]:
    """These models and those within them, as far as they were not seen yet."""
    for listed in models:
        for model in models_in(listed):
            if model not in seen and model.model_fields:
                seen.add(model)
                yield model


def anchor(model: type[Model]) -> str:
    """Where a model stands on the page."""
    return f"config-{model.__name__.lower()}"


def section(model: type[Model], level: str = "##") -> Iterator[str]:
    """What a model is, and a table of its keys. level: of the heading."""
    general, keys = described(model)
    tag = model.model_fields.get("kind") or model.model_fields.get("format")
    values = get_args(tag.annotation) if tag and get_origin(tag.annotation) is Literal else ()
    named = values[0] if len(values) == 1 else ""
    yield f"({anchor(model)})=\n\n{level} {model.__name__}" + (f": `{named}`" if named else "")
    yield as_markdown(general)
    defaults = {name: default_of(field) for name, field in model.model_fields.items()}
    yield _keys(model, defaults, keys)


def section_of_kind(model: type[ClaimTest], name: str, kind: Kind) -> Iterator[str]:
    """What a kind of claim says, and a table of its keys."""
    yield f"(config-kind-{name})=\n\n## `{name}`"
    yield as_markdown(words_of_kind(model, name))
    defaults = {
        key: "required" if key in kind.requires else default_of(field)
        for key, field in model.model_fields.items()
        if key in kind.keys and key != "kind"
    }
    set_here = {key: format_value(of) for key, of in kind.sets.items() if key in defaults}
    yield _keys(model, defaults | set_here, described(model)[1])


def _keys(model: type[Model], defaults: Mapping[str, str], descriptions: Mapping[str, str]) -> str:
    rows = [
        [
            code(name),
            shown(model.model_fields[name].annotation),
            default,
            in_line(descriptions.get(name, "")),
        ]
        for name, default in defaults.items()
    ]
    keys = table(("key", "value", "default", "what it is"), rows)
    return keys if len(rows) < _FEW else folded(counted(len(rows), "key"), keys)


def default_of(field: Any) -> str:
    """What a key is by default, in the words of YAML."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined or isinstance(value, Model):
        return (
            f"[{type(value).__name__}](#{anchor(type(value))})" if isinstance(value, Model) else ""
        )
    if value is None:
        return "–"
    return format_value(value)


def format_value(value: Any) -> str:
    """A value in the words of YAML, as code."""
    plain = list(value) if isinstance(value, tuple) else value
    return code(
        {True: "true", False: "false"}.get(plain, str(plain))
        if isinstance(plain, bool)
        else str(plain).replace("'", "")
    )


def shown(annotation: Any) -> str:
    """A type in the words of YAML, with links to models."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return f"[{annotation.__name__}](#{anchor(annotation)})"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return shown(arguments[0])
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin in (Union, UnionType):
        parts = [shown(each) for each in arguments if each is not NoneType]
        return " or ".join(dict.fromkeys(parts))
    if origin in (tuple, list):
        inner = [each for each in arguments if each is not Ellipsis]
        return f"list of {' and '.join(dict.fromkeys(map(shown, inner)))}"
    if origin is dict:
        return f"{shown(arguments[0])} → {shown(arguments[1])}"
    names = {
        "Path": "path",
        "str": "text",
        "int": "whole number",
        "float": "number",
        "bool": "true or false",
    }
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " or ".join(f"`{each.value}`" for each in annotation)
    return names.get(getattr(annotation, "__name__", ""), "any value")


def as_markdown(docstring: str) -> str:
    """A docstring's paragraphs as Markdown."""
    return "\n\n".join(filter(None, map(in_line, docstring.split("\n\n"))))


def in_line(description: str) -> str:
    """A description on one line: what is not code is escaped."""
    line = " ".join(description.split())
    parts = re.split(r"(`[^`]+`)", line)
    return "".join(part if place % 2 else escaped(part) for place, part in enumerate(parts))


def escaped(words: str) -> str:
    """Markdown that shows the words as they are."""
    return re.sub(r"([\\*_$<>\[\]{}|~])", r"\\\1", words)


def undescribed() -> Iterable[str]:
    """Keys that no docstring describes, as Model.key."""
    seen: set[type[Model]] = set()
    for *_, models in _PARTS:
        for model in once(models, seen):
            yield from undescribed_of(model)


def undescribed_of(model: type[Model]) -> Iterator[str]:
    """Keys of one model that no docstring describes, as Model.key."""
    keys = described(model)[1]
    yield from (f"{model.__name__}.{name}" for name in model.model_fields if name not in keys)
