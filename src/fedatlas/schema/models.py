"""The base of every typed configuration model, and errors that name file, key and value."""

import importlib
import json
import pkgutil
import re
from abc import ABC
from collections.abc import Hashable, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Literal, Self, TypeVar, get_args, get_origin

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from fedatlas.errors import FedatlasError, similar
from fedatlas.extensions import import_extension

# A kind of error, or its first word → what people are told in place of pydantic's names of types.
_WORDS = {
    "bool": "must be true or false",
    "float": "must be a number",
    "int": "must be a whole number",
    "path": "must be a path",
    "string_type": "must be text; write it in quotes",
    **dict.fromkeys(("dict", "mapping", "model"), "must be a mapping of keys to values"),
    **dict.fromkeys(("list", "set", "tuple"), "must be a list, such as [1, 2]"),
}
# How a location tells that a union's member of a plain type is meant.
_PLAIN = re.compile(r"(constrained-)?(bool|float|int|str)")


class Model(BaseModel):
    """Frozen and strict about unknown keys: a misspelt key is an error, not a default."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    #: Keys that files may have besides the fields, as they are gone when a model is validated.
    resolved_before: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def what_to_state(cls, key: str, given: Mapping[str, Any]) -> str:
        """What an error of a missing key proposes, for a file's top level; empty if nothing.

        given: the other keys.
        """
        return ""


M = TypeVar("M", bound=Model)
T = TypeVar("T")


K = TypeVar("K", bound="KindModel")


class KindModel(Model, ABC):
    """A model with one class for each `kind`, in the modules of a package; a new class adds kinds.

    The class that names the package validates a mapping into the class of the mapping's kind.

    package: its full name. usual: the kind of a mapping without one.
    kinds: names that a class serves, with their meanings; by default the values that its `kind`
    may have, or the name of its module.
    """

    package: ClassVar[str]
    usual: ClassVar[str] = ""
    kinds: ClassVar[Mapping[str, Any]] = {}

    kind: str

    @classmethod
    def classes(cls) -> dict[str, type[Self]]:
        """The class of each kind, by name; a module whose name begins with `_` has none."""
        return _classes(cls, tuple(importlib.import_module(cls.package).__path__))

    @classmethod
    def kind_of(cls, value: Any) -> Any:
        """The kind that a mapping states."""
        return value.get("kind", cls.usual) if isinstance(value, Mapping) else value

    @classmethod
    def variant(cls, value: Any) -> type[Self]:
        """The class of a mapping's kind, if this one names the package; else this one."""
        kind = cls.kind_of(value)
        own = "package" in vars(cls) and isinstance(kind, str)
        return cls.classes().get(kind, cls) if own else cls

    @model_validator(mode="wrap")
    @classmethod
    def _by_kind(cls, value: Any, build: ModelWrapValidatorHandler[Self]) -> Self:
        if "package" not in vars(cls) or isinstance(value, cls):
            return build(value)
        model = cls.variant(value)
        if model is cls:
            known = ", ".join(cls.classes())
            raise ValueError(f"kind {cls.kind_of(value)!r}: must be one of {known}")
        return model.model_validate(value)


@cache
def _classes(base: type[K], folders: tuple[str, ...]) -> dict[str, type[K]]:
    found: dict[str, type[K]] = {}
    for module in pkgutil.iter_modules(folders):
        if module.name.startswith("_"):
            continue
        for own in subclasses(import_extension(f"{base.package}.{module.name}"), base):
            literal = get_args(own.model_fields["kind"].annotation)
            found |= dict.fromkeys(own.kinds or literal or (module.name,), own)
    return dict(sorted(found.items()))


# libyaml, where installed, reads ten times faster; a plan reads every experiment.
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


# Limits of files written by hand. libyaml composes recursively and has no limits of its own: deep
# nesting would overflow the stack, and a few aliases of aliases can stand for any number of values.
MOST_YAML_BYTES = 1 << 20
MOST_YAML_DEPTH = 100
MOST_YAML_VALUES = 200_000


class _UniqueKeyLoader(_SafeLoader):
    """A safe loader that refuses repeated keys: YAML silently ignores all but the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        # `<<` takes over another mapping's keys, which may be declared anew.
        declared = [key for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        seen: dict[Any, int] = {}
        for key_node in declared:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                break  # refused by what builds the mapping
            line = key_node.start_mark.line + 1
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key '{key}' stands twice, first in line {seen[key]}",
                    problem_mark=key_node.start_mark,
                )
            seen[key] = line
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def _plain_integer(loader: Any, node: yaml.ScalarNode) -> int:
    """An integer; YAML reads 010 as octal, and 12:30 as a number of base 60."""
    value: int = loader.construct_yaml_int(node)
    if re.match(r"[+-]?0[0-9_]|.*:", node.value):
        raise yaml.constructor.ConstructorError(
            problem=f'YAML reads {node.value} as {value}: write that, or "{node.value}" in quotes',
            problem_mark=node.start_mark,
        )
    return value


_UniqueKeyLoader.add_constructor("tag:yaml.org,2002:int", _plain_integer)


def read_yaml(path: Path) -> Any:
    """Parse a YAML file without executing tags; FedatlasError names file, line and problem.

    Refused are files of more than `MOST_YAML_BYTES`, values nested more than `MOST_YAML_DEPTH`
    deep, and aliases that stand for more than `MOST_YAML_VALUES` values or for themselves.
    """
    try:
        if path.stat().st_size > MOST_YAML_BYTES:
            raise FedatlasError(f"{path}: is longer than {MOST_YAML_BYTES} bytes; split it")
        text = path.read_text(encoding="utf-8")
        _check_extent(text)
        return yaml.load(text, Loader=_UniqueKeyLoader)
    except OSError as error:
        raise FedatlasError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FedatlasError(f"{path}: is not UTF-8 text: {error}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        told = str(error.problem)
        if error.context and error.context_mark:
            told = f"{error.context} from line {error.context_mark.line + 1} on: {told}"
        raise FedatlasError(f"{path}{line}: is not valid YAML: {told}") from error
    # PyYAML passes on Python's own errors for `!!bool x`, `!!int ''` or the date 2001-99-99.
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise FedatlasError(f"{path}: is not valid YAML: {error}") from error


def as_yaml(value: Any) -> str:
    """Plain data as YAML for people: keys in their order, innermost collections on one line."""
    return yaml.dump(
        value,
        Dumper=_PlainDumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=None,
        width=100,
    )


class _PlainDumper(yaml.SafeDumper):
    """Writes a value that occurs several times in full, without aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _check_extent(text: str) -> None:
    """Raise YAMLError for what would take too much memory or too deep a stack to build."""
    sizes: dict[str | None, int] = {}  # of what has an anchor
    # Of the file and each open sequence and mapping: its anchor, and the values in it so far.
    opened: list[tuple[str | None, int]] = [(None, 0)]
    for event in yaml.parse(text, Loader=_SafeLoader):
        anchor, problem = getattr(event, "anchor", None), ""
        if isinstance(event, yaml.CollectionStartEvent):
            sizes.pop(anchor, None)
            opened.append((anchor, 1))
            size = 0  # until it ends
            if len(opened) > MOST_YAML_DEPTH + 1:
                problem = f"values are nested more than {MOST_YAML_DEPTH} deep"
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, size = opened.pop()
            sizes[anchor] = size
        elif isinstance(event, yaml.ScalarEvent):
            sizes[anchor] = size = 1
        elif isinstance(event, yaml.AliasEvent):
            size = sizes.get(anchor, 0)
            if not size:
                problem = f"the alias '{anchor}' stands for nothing before it, or for itself"
        else:
            continue
        opened[-1] = (opened[-1][0], opened[-1][1] + size)
        if opened[-1][1] > MOST_YAML_VALUES:
            problem = f"aliases stand for more than {MOST_YAML_VALUES} values"
        if problem:
            raise yaml.YAMLError(f"{problem}{event.start_mark}")


def find_repeated(values: Iterable[T]) -> T | None:
    """The first value that has occurred before; None if all differ."""
    seen: set[T] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def in_full(value: Any, what: str) -> Any:
    """The numbers of {from: first, to: last}; anything else as it is.

    ValueError for a bad range.
    """
    if not isinstance(value, dict):
        return value
    if set(value) != {"from", "to"} or not all(isinstance(n, int) for n in value.values()):
        raise ValueError(f"a range of {what} is {{from: first, to: last}}, in whole numbers")
    return tuple(range(value["from"], value["to"] + 1))


def read_json(path: Path) -> Any:
    """Parse a JSON file; FedatlasError names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    # Python's parser is recursive: it raises RecursionError for deeply nested lists.
    except (OSError, ValueError, RecursionError) as error:
        raise FedatlasError(f"{path}: cannot be read as JSON: {error}. Make it again.") from None


def validated(
    model: type[M], value: Any, where: str, context: Mapping[str, Any] | None = None
) -> M:
    """Build `model` from plain data; every error is listed with its key, value and remedy.

    model: a Model, a union of Models that one of their keys tells apart, or any other type.
    context: what its validators are told besides.
    """
    try:
        if isinstance(model, type) and issubclass(model, BaseModel):
            return model.model_validate(value, context=context)
        return TypeAdapter(model).validate_python(value, context=context)
    except ValidationError as error:
        lines = [_explain(model, item, where, value) for item in _meant(error.errors())]
        raise FedatlasError("\n".join(lines)) from None


def only_subclass(module: ModuleType, base: type[T]) -> type[T]:
    """The one subclass of `base` that a module defines; FedatlasError unless there is one."""
    found = subclasses(module, base)
    if len(found) != 1:
        raise FedatlasError(
            f"{module.__file__}: must define one subclass of {base.__name__}, found {len(found)}"
        )
    return found[0]


def subclasses(module: ModuleType, base: type[T]) -> list[type[T]]:
    """The subclasses of `base` that a module defines; FedatlasError if there is none."""
    found = [
        member
        for member in vars(module).values()
        if isinstance(member, type)
        and issubclass(member, base)
        and member.__module__ == module.__name__
    ]
    if not found:
        raise FedatlasError(f"{module.__file__}: must define a subclass of {base.__name__}")
    return found


def fault_of(key: str, value: Any, told: str) -> ValidationError:
    """What a validator of a whole model raises where the fault is one key's."""
    kind = PydanticCustomError("value_error", "{told}", {"told": told})
    return ValidationError.from_exception_data(key, [{"type": kind, "loc": (key,), "input": value}])


def _meant(items: list[Any]) -> list[Any]:
    """Errors without those of a union's other member, where it has a plain type and a model.

    A mapping is meant as the model, anything else as the plain type.
    """
    return [item for item in items if not (_is_unmeant(item) and _has_beside(item, items))]


def _is_unmeant(item: Any) -> bool:
    *_, last = item["loc"] or ("",)
    if isinstance(item["input"], Mapping):
        return _PLAIN.fullmatch(str(last)) is not None
    return item["type"] == "model_type" and _class_name(last)[:1].isupper()


def _has_beside(item: Any, items: list[Any]) -> bool:
    """Whether another member of the union has errors, too."""
    *before, last = item["loc"]
    depth = len(before)
    others = (other["loc"] for other in items if len(other["loc"]) > depth)
    return any(list(loc[:depth]) == before and loc[depth] != last for loc in others)


def _explain(model: Any, item: Any, where: str, value: Any) -> str:
    path, parent, values = keys_of(model, item["loc"], value)
    key = ".".join(path) or "(top level)"
    if item["type"] == "extra_forbidden":
        parent = sorted(item.get("ctx", {}).get("allowed", parent))
        alike = similar(path[-1], parent)
        hint = f"{alike}; allowed keys: {', '.join(parent)}" if parent else ""
        return f"{where}: unknown key '{key}'{hint}"
    if item["type"] == "missing":
        told = f"one of {', '.join(map(str, values))}" if values else ""
        if len(path) == 1 and isinstance(model, type) and issubclass(model, Model):
            told = model.what_to_state(key, item["input"])
        return f"{where}: missing key '{key}'{told and f': {told}'}"
    if item["type"] == "union_tag_not_found":
        key = item["ctx"]["discriminator"].strip("'")
        return f"{where}: missing key '{'.'.join([*path, key])}'"
    if item["type"] == "union_tag_invalid":
        tag, known = item["ctx"]["tag"], item["ctx"]["expected_tags"]
        key = ".".join([*path, item["ctx"]["discriminator"].strip("'")])
        return f"{where}: key '{key}', value '{tag}': must be one of {known}"
    kind = item["type"]
    message = _WORDS.get(kind) or _WORDS.get(kind.partition("_")[0]) or item["msg"]
    message = re.sub(r"^(Value error|Assertion failed), ", "", message)
    message = re.sub(r"^\w+ should (?=be|have|match)", "must ", message)
    if isinstance(item["input"], dict | list):
        return f"{where}: {f'key {key!r}: ' if path else ''}{message}"
    return f"{where}: key '{key}', value {item['input']!r}: {message}"


def keys_of(
    model: Any, location: tuple[Any, ...], value: Any
) -> tuple[list[str], list[str], list[Any]]:
    """The keys of a location, without the tags of unions.

    Then the keys that may stand in place of the last, and its values, if it has only some.
    """
    values: list[Any] = []
    path: list[str] = []
    allowed: list[str] = []
    models = _models(model)
    for part in location:
        models = [one.variant(value) if issubclass(one, KindModel) else one for one in models]
        named = [one for one in models if one.__name__ == _class_name(part)]
        tagged = named or [one for one in models if part in _tags(one)]
        if named or (tagged and len(models) > 1):
            models = tagged
            continue
        if _PLAIN.fullmatch(str(part)) and not isinstance(value, Mapping):
            continue
        path.append(_name_of(value, part))
        allowed = [key for one in models for key in (*one.model_fields, *one.resolved_before)]
        within = [one.model_fields[part].annotation for one in models if part in one.model_fields]
        values = [one for own in within if get_origin(own) is Literal for one in get_args(own)]
        if within:  # other parts are items of lists and mappings, whose models these are
            models = [inner for annotation in within for inner in _models(annotation)]
        try:
            value = value[part]
        except (LookupError, TypeError):
            value = None
    return path, allowed, [*dict.fromkeys(values)]


def _class_name(part: Any) -> str:
    """That of a model in a location: `Name`, or `function-after[check(), Name]`."""
    text = str(part)
    return text.rstrip("]").rpartition(" ")[2] if text.startswith("function-") else text


def _name_of(value: Any, part: Any) -> str:
    """How people find a part: that of a list by its own id, such as a claim's, if it has one."""
    try:
        own = value[part].get("id") if isinstance(part, int) else None
    except (AttributeError, LookupError, TypeError):
        own = None
    return str(part if own is None else own)


def _models(annotation: Any) -> list[type[Model]]:
    """All models that a type mentions."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models(argument)]


def _tags(model: type[Model]) -> set[Any]:
    """What may stand in the model's place in a location, if it is one of a union."""
    literals = (field.annotation for field in model.model_fields.values())
    return {tag for one in literals if get_origin(one) is Literal for tag in get_args(one)}
