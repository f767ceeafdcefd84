"""The base of every typed configuration model, and errors that name file, key and value."""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from fedatlas.errors import FedatlasError


class Model(BaseModel):
    """Frozen and strict about unknown keys: a misspelt key is an error, not a default."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


M = TypeVar("M", bound=BaseModel)


# libyaml, where it is, reads ten times faster; a plan reads every experiment.
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _UniqueKeyLoader(_SafeLoader):
    """Safe, and strict: of a key that stands twice YAML would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        # `<<` takes over another mapping's keys, which may be stated anew.
        stated = [key for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        keys = [self.construct_object(key, deep=True) for key in stated]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key '{key}' stands twice", node.start_mark
                )
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def read_yaml(path: Path) -> Any:
    """Parse a YAML file without executing tags; FedatlasError names file, line and problem."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeyLoader)
    except OSError as error:
        raise FedatlasError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FedatlasError(f"{path}: is not UTF-8 text: {error}") from error
    except yaml.YAMLError as error:
        raise FedatlasError(f"{path}: is not valid YAML: {error}") from error


def validated(model: type[M], value: Any, where: str) -> M:
    """Build `model` from plain data; every error is listed with its key, value and remedy.

    model: a Model, or a union of Models that one of their keys tells apart.
    """
    try:
        return TypeAdapter(model).validate_python(value)
    except ValidationError as error:
        lines = [_explain(model, item, where) for item in error.errors()]
        raise FedatlasError("\n".join(lines)) from None


def _explain(model: Any, item: Any, where: str) -> str:
    path, parent = _keys(model, item["loc"])
    key = ".".join(path) or "(top level)"
    if item["type"] == "extra_forbidden":
        hint = f"; allowed keys: {', '.join(parent)}" if parent else ""
        return f"{where}: unknown key '{key}'{hint}"
    if item["type"] == "missing":
        return f"{where}: missing key '{key}'"
    if item["type"] == "union_tag_not_found":
        key = item["ctx"]["discriminator"].strip("'")
        return f"{where}: missing key '{'.'.join([*path, key])}'"
    if item["type"] == "union_tag_invalid":
        tag, known = item["ctx"]["tag"], item["ctx"]["expected_tags"]
        key = ".".join([*path, item["ctx"]["discriminator"].strip("'")])
        return f"{where}: key '{key}', value '{tag}': must be one of {known}"
    message = item["msg"].removeprefix("Value error, ")
    if isinstance(item["input"], dict | list):
        return f"{where}: {f'key {key!r}: ' if path else ''}{message}"
    return f"{where}: key '{key}', value {item['input']!r}: {message}"


def _keys(model: Any, location: tuple[Any, ...]) -> tuple[list[str], list[str]]:
    """The keys of a location, without the tags of unions, and the allowed ones of the last."""
    path: list[str] = []
    siblings: list[str] = []
    for part in location:
        tagged = [
            option
            for option in get_args(get_args(model)[0] if get_args(model) else model)
            if any(
                get_origin(field.annotation) is Literal and part in get_args(field.annotation)
                for field in getattr(option, "model_fields", {}).values()
            )
        ]
        if tagged:
            (model,) = tagged
            continue
        path.append(str(part))
        fields = getattr(model, "model_fields", {})
        siblings = sorted(fields)
        field = fields.get(part)
        model = Annotated[field.annotation, None] if field is not None else None
        options = (field.annotation, *get_args(field.annotation)) if field is not None else ()
        models = [option for option in options if hasattr(option, "model_fields")]
        if len(models) == 1:  # itself, or optional
            (model,) = models
    return path, siblings
