"""Families: what an experiment file states once over named lists, expanded into plain YAML data.

    name: "fig3-{data}"                     # one experiment for every item of `data`
    lists:
      data: {d1: {dataset: a9a, rounds: 40}, d2: {dataset: w8a, rounds: 60}}
      method: {sgd: {title: SGD}, saga: {title: SAGA}}
      q: [1, 2, 4]
    dataset: "{data.dataset}"
    runs:
      "{method}-q{q}": {algorithm: "vfb2_{method}", title: "{method.title}, q = {q}"}

`config/experiments/README.md` explains the form to those who write such files. Expansion knows
nothing of experiments but that claims have an `id`. What comes out is validated as if it had been
typed by hand.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from fedatlas.errors import FedatlasError

#: How many values one file may become. Lists multiply: few lines could stand for any number.
MOST_EXPANDED_VALUES = 200_000

_BRACES = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_REFERENCE = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*|\[[a-z][a-z0-9_]*\])*")
_PARTS = re.compile(r"(\.|\[)?([a-z0-9_]+)")
_NAME = re.compile(r"[a-z][a-z0-9_]*")

# What a placeholder gives where the item leaves the field out that others of its list have.
_LEFT_OUT = object()

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
    stated = _lists(content["lists"], where)
    _check_all_used(content, stated, where)
    rest = {key: value for key, value in content.items() if key not in ("lists", "name")}
    top = _Expansion(stated, where)
    experiments: dict[str, dict[str, Any]] = {}
    name = content.get("name", stem)
    if not isinstance(name, str):
        raise FedatlasError(f"{where}: key 'name': must be text, such as 'fig3-{{data}}'")
    for bound in top.repeats([name], {}, "name"):
        expanded = top.text(name, bound, "name")
        if expanded in experiments:
            raise FedatlasError(f"{where}: key 'name': two experiments are named '{expanded}'")
        place = f"{where} ({expanded})"
        # Lists may differ between the experiments of a file.
        filled = top.values(content["lists"], bound, "lists")
        own = _lists({list_name: filled.get(list_name, []) for list_name in stated}, place)
        experiments[expanded] = _Expansion(own, place).values(rest, bound, "")
    return experiments


def _lists(value: Any, where: str) -> Lists:
    if not isinstance(value, Mapping):
        raise FedatlasError(f"{where}: key 'lists': must be a mapping of names to lists")
    lists: Lists = {}
    for name, items in value.items():
        key = f"{where}: key 'lists.{name}'"
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise FedatlasError(f"{key}: names have small letters, digits and '_'")
        if isinstance(items, str) and _BRACES.fullmatch(items):
            items = []  # as the file's experiments fill it in
        if isinstance(items, Mapping) and all(isinstance(of, Mapping) for of in items.values()):
            lists[name] = dict(items)
        elif isinstance(items, list):
            lists[name] = {item: {} for item in items if _is_item(item)}
            if len(lists[name]) != len(items):
                raise FedatlasError(f"{key}: must list different texts or numbers, not {items}")
        else:
            raise FedatlasError(f"{key}: must be a list, or a mapping of names to their fields")
    return lists


def _is_item(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _check_all_used(content: Mapping[str, Any], lists: Lists, where: str) -> None:
    """Refuse lists and fields that nothing mentions: they are misspelt, or forgotten."""
    mentioned = set(_mentions(content))
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


def _mentions(value: Any) -> Iterator[str]:
    """Every list and field, `list` and `list.field`, that a placeholder or an `over` mentions."""
    if isinstance(value, str):
        for match in _BRACES.finditer(value):
            name, *parts = _PARTS.findall(match[1] or "")[:2] or [("", "")]
            yield name[1]
            yield from (f"{name[1]}.{part}" for mark, part in parts if mark == ".")
            yield from re.findall(r"\[([a-z0-9_]+)\]", match[1] or "")
    elif isinstance(value, Mapping):
        for key, of in value.items():
            yield from _mentions(key)
            yield from _mentions(of)
            if key == "over":
                yield from [of] if isinstance(of, str) else filter(_is_item, of or ())
    elif isinstance(value, list):
        for element in value:
            yield from _mentions(element)


class _Expansion:
    """One pass over a file, for one experiment of it."""

    def __init__(self, lists: Lists, where: str) -> None:
        self.lists = lists
        self.where = where
        self._extent = 0

    def values(self, value: Any, bound: Bound, key: str) -> Any:
        """The value with every family in it expanded."""
        self._count(value, key)
        if isinstance(value, str):
            return self._value(value, bound, key)
        if isinstance(value, Mapping):
            return self._mapping(value, bound, key)
        if isinstance(value, list):
            return list(self._elements(value, bound, key))
        return value

    def _mapping(self, value: Mapping[Any, Any], bound: Bound, key: str) -> dict[Any, Any]:
        if len(value) == 1 and next(iter(value.values())) is None and {*value} <= {*self.lists}:
            (name,) = value
            raise self._error(key, f'{{{name}}} without quotes is a mapping; write "{{{name}}}"')
        found: dict[Any, Any] = {}
        for stated, of in value.items():
            for inner in self.repeats([stated], bound, key):
                name = self.text(stated, inner, key) if isinstance(stated, str) else stated
                within = f"{key}.{name}" if key else str(name)
                if name in found:
                    raise self._error(within, "stands twice once its name is filled in")
                filled = self.values(of, inner, within)
                if filled is not _LEFT_OUT:
                    found[name] = filled
        return found

    def _elements(self, value: list[Any], bound: Bound, key: str) -> Iterator[Any]:
        for element in value:
            if isinstance(element, Mapping) and {*element} == {"over", "claims"}:
                yield from self._block(element, bound, key)
                continue
            name = element.get("id") if isinstance(element, Mapping) else element
            for inner in self.repeats([name], bound, key):
                named = isinstance(element, Mapping) and name is not None
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
        for inner in self.repeats(mentions, bound, f"{key}.over"):
            yield from self._elements(claims, inner, key)

    def repeats(self, names: Iterable[Any], bound: Bound, key: str) -> Iterator[Bound]:
        """What the lists stand for that these names mention and that stand for nothing yet.

        The list that is stated first varies slowest.
        """
        mentioned = set[str]()
        for name in names:
            for reference in self._references(name, key) if isinstance(name, str) else ():
                mentioned |= {part for dot, part in _PARTS.findall(reference) if dot != "."}
        free = [name for name in self.lists if name in mentioned and name not in bound]
        if not free:
            yield bound
            return
        for items in product(*(self.lists[name] for name in free)):
            yield bound | dict(zip(free, items, strict=True))

    def text(self, template: str, bound: Bound, key: str) -> str:
        """The template with every placeholder filled in."""

        def filled(match: re.Match[str]) -> str:
            if match[1] is None:
                return match[0][0]
            value = self._looked_up(match[1], bound, key)
            if value is _LEFT_OUT or isinstance(value, Mapping | list):
                what = "leaves it out here" if value is _LEFT_OUT else "is no text or number"
                raise self._error(key, f"'{match[0]}' {what}, but stands within text")
            return str(value)

        self._references(template, key)
        return _BRACES.sub(filled, template)

    def _value(self, template: str, bound: Bound, key: str) -> Any:
        """A lone placeholder gives the value itself, number, list or mapping; others make text."""
        references = self._references(template, key)
        if references == [template[1:-1]]:
            value = self._looked_up(references[0], bound, key)
            self._count_all(value, key)
            return value
        return self.text(template, bound, key) if _BRACES.search(template) else template

    def _references(self, template: str, key: str) -> list[str]:
        """What stands in braces; those that are doubled stand for themselves."""
        found: list[str] = []
        if "{" not in template and "}" not in template:
            return found
        for match in _BRACES.finditer(template):
            if match[1] is not None:
                found.append(match[1])
            if match[0] in ("{", "}") or (match[1] is not None and not self._known(match[1])):
                raise self._error(
                    key,
                    f"'{match[0]}' in '{template}' mentions no list; write {{list}}, "
                    f"{{list.field}} or {{list.field[other]}} of {', '.join(self.lists)}, "
                    "or '{{' for a brace",
                )
        return found

    def _known(self, reference: str) -> bool:
        if not _REFERENCE.fullmatch(reference):
            return False
        return all(part in self.lists for dot, part in _PARTS.findall(reference) if dot != ".")

    def _looked_up(self, reference: str, bound: Bound, key: str) -> Any:
        """What a placeholder stands for: an item, a field of it, or an entry of a field."""
        (_, name), *parts = _PARTS.findall(reference)
        self._check_bound(name, bound, key)
        if not parts:
            return bound[name]
        value: Any = self.lists[name][bound[name]]
        for depth, (mark, part) in enumerate(parts):
            if mark == "[":
                self._check_bound(part, bound, key)
            entry = bound[part] if mark == "[" else part
            if isinstance(value, Mapping) and entry in value:
                value = value[entry]
                continue
            if depth == 0 and any(entry in fields for fields in self.lists[name].values()):
                return _LEFT_OUT
            known = ", ".join(str(known) for known in value) if isinstance(value, Mapping) else ""
            raise self._error(key, f"'{{{reference}}}': no '{entry}'; there are: {known or 'none'}")
        return value

    def _check_bound(self, name: str, bound: Bound, key: str) -> None:
        if name not in bound:
            raise self._error(
                key,
                f"mentions '{name}', but nothing here is repeated over it: a run's or figure's "
                "name, a claim's 'id', 'over', or the file's 'name' must mention it",
            )

    def _count(self, value: Any, key: str) -> None:
        """Raise FedatlasError where a file becomes too large."""
        self._extent += 1 + (len(value) // 10 if isinstance(value, str) else 0)
        if self._extent > MOST_EXPANDED_VALUES:
            raise self._error(key, f"becomes more than {MOST_EXPANDED_VALUES} values; split it")

    def _count_all(self, value: Any, key: str) -> None:
        self._count(value, key)
        within = value.values() if isinstance(value, Mapping) else value
        for inner in within if isinstance(value, Mapping | list) else ():
            self._count_all(inner, key)

    def _error(self, key: str, message: str) -> FedatlasError:
        return FedatlasError(f"{self.where}: key '{key or '(top level)'}': {message}")
