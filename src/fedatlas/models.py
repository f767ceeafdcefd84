"""The base of every typed configuration model, and errors that name file, key and value."""

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from fedatlas.errors import FedatlasError


class Model(BaseModel):
    """Frozen and strict about unknown keys: a misspelt key is an error, not a default."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


M = TypeVar("M", bound=BaseModel)


class _UniqueKeyLoader(yaml.SafeLoader):
    """Safe, and strict: of a key that stands twice YAML would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key '{key}' stands twice", node.start_mark
                )
        return super().construct_mapping(node, deep)


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
    """Build `model` from plain data; every error is listed with its key, value and remedy."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        lines = [_explain(model, item, where) for item in error.errors()]
        raise FedatlasError("\n".join(lines)) from None


def _explain(model: type[BaseModel], item: Any, where: str) -> str:
    key = ".".join(str(part) for part in item["loc"]) or "(top level)"
    if item["type"] == "extra_forbidden":
        allowed = _allowed_keys(model, item["loc"][:-1])
        hint = f"; allowed keys: {', '.join(allowed)}" if allowed else ""
        return f"{where}: unknown key '{key}'{hint}"
    if item["type"] == "missing":
        return f"{where}: missing key '{key}'"
    message = item["msg"].removeprefix("Value error, ")
    if isinstance(item["input"], dict | list):
        return f"{where}: {f'key {key!r}: ' if item['loc'] else ''}{message}"
    return f"{where}: key '{key}', value {item['input']!r}: {message}"


def _allowed_keys(model: Any, location: tuple[Any, ...]) -> list[str]:
    """Keys of the model at `location`, where it can be told statically."""
    for part in location:
        field = getattr(model, "model_fields", {}).get(part)
        model = getattr(field, "annotation", None)
    return sorted(getattr(model, "model_fields", {}))
