"""JSON schemas of what people write, from the typed models: `python -m making.schemas` in docs/.

They are committed, for editors and other programs; a test finds them out of date.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic.json_schema import models_json_schema

from fedatlas.data.formats import formats
from fedatlas.schema.claims import ClaimTest
from fedatlas.schema.config import WorkflowConfig
from fedatlas.schema.described import described, models_in, parted
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.figures import Figure
from fedatlas.schema.foreign import CurvesMapping
from fedatlas.schema.models import Model
from fedatlas.schema.objectives import objective_classes
from fedatlas.schema.papers import Covered, Paper, Sentence
from fedatlas.schema.suite import Suite

FOLDER = Path(__file__).parents[1] / "schemas"


_RANGE = {
    "type": "object",
    "properties": {"from": {"type": "integer"}, "to": {"type": "integer"}},
    "required": ["from", "to"],
    "additionalProperties": False,
}
#: What files may say in place of a key's value, as a validator turns it into that.
_INSTEAD = {
    ("Experiment", "seeds"): _RANGE,
    ("BinaryClasses", "positive"): _RANGE,
    ("OneHot", "values"): {"type": "array", "items": {"type": ["string", "number"]}},
    ("RegionTest", "cells"): {"type": "object", "additionalProperties": {"type": "object"}},
}
#: Keys that files may have besides, as a validator turns them into others.
_BESIDES = {
    "RegionTest": {"test": {"type": "object", "description": "what the tests of all cells share."}},
    "MeasuredTimes": {"file": {"type": "string", "description": "of times, in their place."}},
}


def kinds_of_figures() -> list[type[Figure]]:
    """The model of every kind of figure, by name."""
    return list(Figure.classes().values())


def classes_of_claims() -> list[type[ClaimTest]]:
    """The models of claims, each of one kind or of several."""
    return list(dict.fromkeys(ClaimTest.classes().values()))


def words_of_kind(own: type[ClaimTest], name: str) -> str:
    """The claim of a kind in words, by the docstring of its class."""
    return parted(own.__doc__ or "", [*own.kinds, *own.model_fields])[1][name]


def schemas() -> dict[str, dict[str, Any]]:
    """By name of the file without its ending: each a JSON schema, draft 2020-12."""
    experiment = _whole(
        "An experiment, once its lists are filled in.",
        Experiment,
        [*classes_of_claims(), *kinds_of_figures()],
    )
    experiment["$defs"]["Figure"] = {
        "oneOf": [{"$ref": f"#/$defs/{kind.__name__}"} for kind in kinds_of_figures()]
    }
    _add_kinds_of_claims(experiment["$defs"])
    _name_objectives(experiment["$defs"])
    datasets = _whole("config/datasets.yaml: data sets by name.", None, list(formats().values()))
    normalised = datasets["$defs"]["Normalisation"]
    datasets["$defs"]["Normalisation"] = {"anyOf": [normalised, {"const": "from_train"}]}
    entries = [f"#/$defs/{each.__name__}" for each in formats().values()]
    for each in formats().values():  # an entry's key is its name
        definition = datasets["$defs"][each.__name__]
        del definition["properties"]["name"]
        definition["required"].remove("name")
    return {
        "experiment": experiment,
        "config": _whole("config/config.yaml and --config.", WorkflowConfig),
        "datasets": datasets | _mapping({"oneOf": [{"$ref": entry} for entry in entries]}),
        "suite": _whole("config/suite.yaml: problems and methods of the suite.", Suite),
        "mapping": _whole("What columns of runs made elsewhere are.", CurvesMapping),
        "papers": _whole("config/papers.yaml: papers by key.", None, [Paper])
        | _mapping({"$ref": "#/$defs/Paper"}),
        "sentences": _whole("config/sentences.yaml: sentences by paper.", None, [Sentence])
        | _mapping({"type": "array", "items": {"$ref": "#/$defs/Sentence"}}),
        "coverage": _whole("config/coverage.yaml: figures by paper.", None, [Covered])
        | _mapping({"type": "array", "items": {"$ref": "#/$defs/Covered"}}),
    }


def _add_kinds_of_claims(definitions: dict[str, Any]) -> None:
    """Put a definition of each kind in the place of those of classes that serve several."""
    names = []
    for name, own in ClaimTest.classes().items():
        kind, definition = own.kinds.get(name), definitions[own.__name__]
        names.append(name if kind else own.__name__)
        if kind is None:
            continue
        properties = {
            key: of | ({"default": kind.sets[key]} if key in kind.sets else {})
            for key, of in definition["properties"].items()
            if key in kind.keys
        }
        properties["kind"] = {"const": name, "description": "tells it from its alternatives."}
        definitions[name] = definition | {
            "title": name,
            "description": words_of_kind(own, name),
            "properties": properties,
            "required": ["kind", *kind.requires],
        }
    for own in classes_of_claims():
        if own.kinds:
            del definitions[own.__name__]
    definitions["ClaimTest"] = {"oneOf": [{"$ref": f"#/$defs/{name}"} for name in names]}


def _name_objectives(definitions: dict[str, Any]) -> None:
    """Tell editors the names there are; a file of users' own may be of any of these models."""
    for name, own in objective_classes().items():
        key = definitions[own.__name__]["properties"]["name"]
        if "enum" not in key and "const" not in key:
            key.setdefault("examples", []).append(name)
    for definition in definitions.values():
        for of in definition.get("properties", {}).values():
            for part in (of, *of.get("anyOf", ())):
                if {"$ref": "#/$defs/LinearObjective"} in part.get("oneOf", ()):
                    part["anyOf"] = part.pop("oneOf")


def _whole(
    title: str, model: type[Model] | None, others: Sequence[type[Model]] = ()
) -> dict[str, Any]:
    models = [*([model] if model else []), *others]
    _, whole = models_json_schema([(each, "validation") for each in models])
    for each in {one for listed in models for one in models_in(listed)}:
        _describe(whole["$defs"].get(each.__name__), each)
    found: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "$defs": whole["$defs"],
    }
    return found | ({"$ref": f"#/$defs/{model.__name__}"} if model else {})


def _describe(definition: dict[str, Any] | None, model: type[Model]) -> None:
    if definition is None:  # a part of a union that has no schema of its own
        return
    definition["description"], keys = described(model)
    properties = definition.get("properties", {})
    for key, of in properties.items():
        if instead := _INSTEAD.get((model.__name__, key)):
            properties[key] = of = {"anyOf": [of, instead]}
        if key in keys:
            of["description"] = " ".join(keys[key].split())
    if besides := _BESIDES.get(model.__name__):
        properties |= besides
        definition["required"] = [key for key in definition["required"] if key != "times"]


def _mapping(value: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": dict(value)}


def as_text(schema: Mapping[str, Any]) -> str:
    """A schema as its file has it."""
    return json.dumps(schema, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, schema in schemas().items():
        (FOLDER / f"{name}.json").write_text(as_text(schema), encoding="utf-8")
