"""Families: experiment files that declare something once over lists, expanded into plain YAML.

    name: "fig3-{data}"                     # one experiment for every item of `data`
    lists:
      data: {d1: {dataset: a9a, rounds: 40}, d2: {dataset: w8a, rounds: 60}}
      method: {sgd: {title: SGD}, saga: {title: SAGA}}
      q: [1, 2, 4]
    dataset: "{data.dataset}"
    runs:
      "{method}-q{q}": {algorithm: "vfb2_{method}", title: "{method.title}, q = {q}"}

`config/experiments/README.md` explains the form. The result is validated as if typed by hand.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

from fedatlas.errors import FedatlasError

#: How many values a file may become: lists multiply.
MOST_EXPANDED_VALUES = 200_000

_TOKEN = re.compile(r"\{\{|\}\}|\{[^{}]*\}|[{}]|[^{}]+")
_REFERENCE = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*|\[[a-z][a-z0-9_]*\])*")
_PARTS = re.compile(r"(\.|\[)?([a-z0-9_]+)")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
# Stands for a field that an item lacks but other items of its list have.
_LEFT_OUT = object()


class _Placeholder(NamedTuple):
    """What stands in braces: `{list.field[other]}` has the lists `list` and `other`."""

    text: str
    parts: tuple[tuple[str, str], ...]  # ".", "[" or "" before a name
    lists: tuple[str, ...]


Item = str | int | float
#: Items by name, each with its fields; those of a plain list have none.
Lists = dict[str, dict[Item, Mapping[str, Any]]]
#: The item that each list stands for at some place in a file.
Bound = dict[str, Item]


def expand(content: Mapping[str, Any], stem: str, where: str) -> dict[str, dict[str, Any]]:
    """The experiments that a file states, by name, each without families.

    content: the file as parsed; without the key `lists` it is one experiment and stays as it is.
    stem: the file's name without its ending, which is the experiment's unless `name` says another.
    where: the file, as errors name it; FedatlasError names file, key and what is wrong.
    """
    if "lists" not in content:
        return {stem: dict(content)}
    declared = _lists(content["lists"], where)
    _check_all_used(content, declared, where)
    rest = {key: value for key, value in content.items() if key not in ("lists", "name")}
    top = _Expansion(declared, where)
    experiments: dict[str, dict[str, Any]] = {}
    name = content.get("name", stem)
    if not isinstance(name, str):
        raise FedatlasError(f"{where}: key 'name': must be text, such as 'fig3-{{data}}'")
    for bound in top.repeats(name, {}, "name"):
        expanded = top.text(name, bound, "name")
        if expanded in experiments:
            raise FedatlasError(f"{where}: key 'name': two experiments are named '{expanded}'")
        place = f"{where} ({expanded})"
        # Lists may differ between a file's experiments.
        own = {
            of: {bound[of]: declared[of][bound[of]]} if of in bound else items
            for of, items in content["lists"].items()
        }
        filled = top.values(own, bound, "lists")
        lists = _lists({of: filled.get(of, []) for of in own}, place)
        experiments[expanded] = _Expansion(lists, place, declared).values(rest, bound, "")
    return experiments


@lru_cache(maxsize=10_000)
def _pieces(template: str) -> tuple[str | _Placeholder, ...]:
    """Text and placeholders; a placeholder without parts marks a mistake."""
    found: list[str | _Placeholder] = []
    for token in _TOKEN.findall(template):
        if token[0] not in "{}":
            found.append(token)
        elif token in ("{{", "}}"):
            found.append(token[0])
        else:
            reference = token[1:-1]
            parts = _PARTS.findall(reference) if _REFERENCE.fullmatch(reference) else []
            lists = tuple(part for mark, part in parts if mark != ".")
            found.append(_Placeholder(token, tuple(parts), lists))
    return tuple(found)


def _lists(value: Any, where: str) -> Lists:
    if not isinstance(value, dict):
        raise FedatlasError(f"{where}: key 'lists': must be a mapping of names to lists")
    lists: Lists = {}
    for name, items in value.items():
        key = f"{where}: key 'lists.{name}'"
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise FedatlasError(f"{key}: names have small letters, digits and '_'")
        if isinstance(items, str) and len(_pieces(items)) == 1 and not _is_plain(items):
            items = []  # as the file's experiments fill it in
        if isinstance(items, dict) and all(isinstance(of, dict) for of in items.values()):
            lists[name] = {item: of for item, of in items.items() if _is_item(item)}
        elif isinstance(items, list):
            lists[name] = {item: {} for item in items if _is_item(item)}
        else:
            raise FedatlasError(f"{key}: must be a list, or a mapping of names to their fields")
        if len(lists[name]) != len(items):
            raise FedatlasError(f"{key}: must list different texts or numbers, not {[*items]}")
    return lists


def _size(value: Any) -> int:
    """How many values a value holds; long texts count as several."""
    if isinstance(value, str):
        return 1 + len(value) // 10
    if isinstance(value, dict):
        return 1 + sum(map(_size, value.values()))
    return 1 + sum(map(_size, value)) if isinstance(value, list) else 1


def _is_plain(value: Any) -> bool:
    return not isinstance(value, str) or ("{" not in value and "}" not in value)


def _is_item(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _check_all_used(content: Mapping[str, Any], lists: Lists, where: str) -> None:
    """Refuse lists and fields that nothing mentions: they are misspelt, or forgotten."""
    mentioned = {of for of in _mentions(content) if isinstance(of, str)}
    for name, items in lists.items():
        if name not in mentioned:
            raise FedatlasError(f"{where}: key 'lists.{name}': nothing mentions it; remove it")
        for item, fields in items.items():
            for field in fields:
                if f"{name}.{field}" not in mentioned:
                    raise FedatlasError(
                        f"{where}: key 'lists.{name}.{item}.{field}': nothing mentions "
                        f"'{{{name}.{field}}}'; remove it"
                    )


def _mentions(value: Any) -> Iterator[Any]:
    """Every list and field, `list` and `list.field`, that a placeholder or an `over` mentions."""
    if isinstance(value, str):
        for piece in _pieces(value):
            if isinstance(piece, _Placeholder) and piece.parts:
                yield from piece.lists
                (_, name), *parts = piece.parts
                yield from (f"{name}.{field}" for mark, field in parts[:1] if mark == ".")
    elif isinstance(value, dict):
        for key, of in value.items():
            yield from _mentions(key)
            yield from _mentions(of)
            if key == "over":
                yield from of if isinstance(of, list) else [of]
    elif isinstance(value, list):
        for element in value:
            yield from _mentions(element)


class _Expansion:
    """One pass over a file, for one of its experiments.

    declared: the lists as the file states them; `lists` may hold only some of their items.
    """

    def __init__(self, lists: Lists, where: str, declared: Lists | None = None) -> None:
        self.lists = lists
        self.where = where
        self._fields = {
            name: {
                field
                for fields in (*items.values(), *(declared or lists)[name].values())
                for field in fields
            }
            for name, items in lists.items()
        }
        self._extent = 0

    def values(self, value: Any, bound: Bound, key: str) -> Any:
        """The value with every family in it expanded."""
        self._count(1, key)
        if isinstance(value, str):
            return value if _is_plain(value) else self._value(value, bound, key)
        if isinstance(value, dict):
            return self._mapping(value, bound, key)
        if isinstance(value, list):
            return list(self._elements(value, bound, key))
        return value

    def _mapping(self, value: Mapping[Any, Any], bound: Bound, key: str) -> dict[Any, Any]:
        if len(value) == 1 and next(iter(value.values())) is None and {*value} <= {*self.lists}:
            (name,) = value
            raise self._error(key, f'{{{name}}} without quotes is a mapping; write "{{{name}}}"')
        found: dict[Any, Any] = {}
        for declared, of in value.items():
            for inner in self.repeats(declared, bound, key):
                name = declared if _is_plain(declared) else self.text(declared, inner, key)
                within = f"{key}.{name}" if key else str(name)
                if name in found:
                    raise self._error(within, "stands twice once its name is filled in")
                filled = self.values(of, inner, within)
                if filled is not _LEFT_OUT:
                    found[name] = filled
        return found

    def _elements(self, value: list[Any], bound: Bound, key: str) -> Iterator[Any]:
        for element in value:
            if isinstance(element, dict) and {*element} == {"over", "claims"}:
                yield from self._block(element, bound, key)
                continue
            name = element.get("id") if isinstance(element, dict) else element
            for inner in self.repeats(name, bound, key):
                named = isinstance(element, dict) and name is not None
                within = f"{key}.{self.text(str(name), inner, key)}" if named else key
                filled = self.values(element, inner, within)
                if filled is not _LEFT_OUT:
                    yield filled

    def _block(self, block: Mapping[str, Any], bound: Bound, key: str) -> Iterator[Any]:
        """Claims that are repeated together: all of them for the first item, then the second."""
        names, claims = block["over"], block["claims"]
        names = [names] if isinstance(names, str) else names
        if not isinstance(names, list) or not isinstance(claims, list):
            raise self._error(key, "'over' and 'claims' are lists: over: [method], claims: [- id]")
        mentions = [f"{{{name}}}" for name in names]
        for inner in self.repeats(" ".join(mentions), bound, f"{key}.over"):
            yield from self._elements(claims, inner, key)

    def repeats(self, name: Any, bound: Bound, key: str) -> Iterable[Bound]:
        """One binding for each combination of the unbound lists that a name mentions.

        The list that is declared first varies slowest.
        """
        if _is_plain(name):
            return (bound,)
        mentioned = {of for part in self._parsed(name, key) for of in getattr(part, "lists", ())}
        free = [of for of in self.lists if of in mentioned and of not in bound]
        self._count(math.prod(len(self.lists[of]) for of in free), key)
        repeats = product(*(self.lists[of] for of in free))
        return (bound | dict(zip(free, items, strict=True)) for items in repeats)

    def text(self, template: str, bound: Bound, key: str) -> str:
        """The template with every placeholder filled in."""
        filled = []
        for piece in self._parsed(template, key):
            value = piece
            if isinstance(piece, _Placeholder):
                value = self._looked_up(piece, bound, key)
                if value is _LEFT_OUT or isinstance(value, dict | list):
                    what = "leaves it out here" if value is _LEFT_OUT else "is no text or number"
                    raise self._error(key, f"'{piece.text}' {what}, but stands within text")
            filled.append(str(value))
        return "".join(filled)

    def _value(self, template: str, bound: Bound, key: str) -> Any:
        """A lone placeholder gives the value itself, number, list or mapping; others make text."""
        first, *others = self._parsed(template, key)
        if isinstance(first, _Placeholder) and not others:
            value = self._looked_up(first, bound, key)
        else:
            value = self.text(template, bound, key)
        self._count(_size(value), key)
        return value

    def _parsed(self, template: str, key: str) -> tuple[str | _Placeholder, ...]:
        """Text and placeholders, whose lists are known."""
        parsed = _pieces(template)
        for piece in parsed:
            if isinstance(piece, _Placeholder) and (
                not piece.parts or any(name not in self.lists for name in piece.lists)
            ):
                raise self._error(
                    key,
                    f"'{piece.text}' in '{template}' mentions no list; write {{list}}, "
                    f"{{list.field}} or {{list.field[other]}} of {', '.join(self.lists)}, "
                    "or '{{' for a brace",
                )
        return parsed

    def _looked_up(self, placeholder: _Placeholder, bound: Bound, key: str) -> Any:
        """What a placeholder stands for: an item, a field of it, or an entry of a field."""
        for name in placeholder.lists:
            if name not in bound:
                raise self._error(
                    key,
                    f"mentions '{name}', but nothing here is repeated over it: a run's or figure's "
                    "name, a claim's 'id', 'over', or the file's 'name' must mention it",
                )
        (_, name), *parts = placeholder.parts
        if not parts:
            return bound[name]
        value: Any = self.lists[name][bound[name]]
        for depth, (mark, part) in enumerate(parts):
            entry = bound[part] if mark == "[" else part
            if isinstance(value, dict) and entry in value:
                value = value[entry]
                continue
            if depth == 0 and entry in self._fields[name]:
                return _LEFT_OUT
            known = ", ".join(map(str, value)) if isinstance(value, dict) else ""
            raise self._error(
                key, f"'{placeholder.text}': no '{entry}'; there are: {known or 'none'}"
            )
        return value

    def _count(self, values: int, key: str) -> None:
        """Raise FedatlasError where a file becomes too large."""
        self._extent += values
        if self._extent > MOST_EXPANDED_VALUES:
            raise self._error(key, f"becomes more than {MOST_EXPANDED_VALUES} values; split it")

    def _error(self, key: str, message: str) -> FedatlasError:
        return FedatlasError(f"{self.where}: key '{key or '(top level)'}': {message}")
