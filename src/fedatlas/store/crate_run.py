"""The step, data and code that made each published file, as RO-Crate metadata.

This makes of an RO-Crate a Provenance Run Crate 0.5 (https://w3id.org/ro/wfrun/provenance).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, NamedTuple

from rocrate.model.contextentity import ContextEntity
from rocrate.model.entity import Entity
from rocrate.rocrate import ROCrate

from fedatlas import __version__
from fedatlas.steps import STEPS
from fedatlas.store.experiment import Experiment

#: Of the RO-Crate that Provenance Run Crates are.
CRATE_VERSION = "1.1"
#: Of the workflow's file, whose steps are told.
WORKFLOW_TYPES = ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"]
_TERMS = "https://w3id.org/ro/terms/workflow-run/context"
_PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/ro/wfrun/provenance/0.5": "Provenance Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
# What the file of a workflow is described by.
_BIOSCHEMAS = "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"


class Made(NamedTuple):
    """What a step did. told: in a line. of: its data and files. files: that it made."""

    step: str
    name: str
    told: str
    of: Sequence[Entity]
    files: Sequence[Entity]


def add_run(
    crate: ROCrate,
    experiments: Mapping[str, Experiment],
    files: Mapping[str, Entity],
    agents: Sequence[Entity],
) -> list[Entity]:
    """Add the run of the workflow that the crate's main entity is, and return its actions.

    experiments, files: by their places in the folder. agents: who ran it, the first of them.
    """

    def add(identifier: str, kind: str, **about: Any) -> Entity:
        alone = {
            key: value[0] if isinstance(value, list) and len(value) == 1 else value
            for key, value in about.items()
        }
        return crate.add(ContextEntity(crate, identifier, {"@type": kind} | alone))

    crate.metadata.extra_contexts.append(_TERMS)
    crate.root_dataset["conformsTo"] = [
        add(address, "CreativeWork", name=name, version=address.rpartition("/")[2])
        for address, name in _PROFILES.items()
    ]
    agent = {"agent": agents[0]} if agents else {}
    made = list(_made(crate, experiments, files))
    tools, steps, actions, controls = {}, {}, [], []
    for position, name in enumerate(dict.fromkeys(one.step for one in made)):
        told = {"name": f"fedatlas step {name}", "description": STEPS[name].about}
        tools[name] = add(f"#{name}", "SoftwareApplication", softwareVersion=__version__, **told)
        steps[name] = add(
            f"#step-{name}", "HowToStep", position=str(position), workExample=tools[name]
        )
    for one in made:
        about = {"name": one.name, "description": one.told, "instrument": tools[one.step], **agent}
        about |= {"object": [*one.of], "result": [*one.files]}
        actions.append(add(f"#made-{one.name}", "CreateAction", **about))
        controls.append(
            add(
                f"#control-{one.name}",
                "ControlAction",
                instrument=steps[one.step],
                object=actions[-1],
            )
        )
    workflow = crate.mainEntity
    workflow["conformsTo"] = {"@id": _BIOSCHEMAS}
    workflow["hasPart"], workflow["step"] = [*tools.values()], [*steps.values()]
    data = list({source.id: source for one in made[:-1] for source in one.of}.values())
    run = add(
        "#run",
        "CreateAction",
        name="the workflow's run",
        description="all experiments of this folder, each as its own action says",
        instrument=workflow,
        object=data,
        result=[file for one in made for file in one.files],
        **agent,
    )
    engine = add(
        "#snakemake",
        "SoftwareApplication",
        name="Snakemake",
        url="https://snakemake.github.io",
        softwareVersion=version("snakemake"),
    )
    add(
        "#organised", "OrganizeAction",
        name="Snakemake's run", instrument=engine, object=controls, result=run, **agent,
    )  # fmt: skip
    return [run, *actions]


def _made(
    crate: ROCrate, experiments: Mapping[str, Experiment], files: Mapping[str, Entity]
) -> Iterator[Made]:
    """An action for each experiment, and that of all verdicts last."""
    sources: dict[str, Entity] = {}
    parts: dict[str, list[str]] = {}
    for place, one in experiments.items():
        parts.setdefault(one.heading.experiment, []).append(place)
    judged: list[Entity] = []
    for name, own in parts.items():
        points = [
            point
            for place in own
            for of_run in experiments[place].points.values()
            for point in of_run.values()
        ]
        if any("foreign" in point.attributes for point in points):
            judged += [files[place] for place in own]  # nothing here made them
            continue
        usual = experiments[own[0]].heading.dataset
        specifications = [
            json.loads(str(point.attributes.get("specification", "{}"))) for point in points
        ]
        datasets = dict.fromkeys(each.get("dataset", usual) for each in specifications)
        for one in datasets:
            about = {"@type": "CreativeWork", "name": one, "description": f"the data set {one}"}
            if one not in sources:
                sources[one] = crate.add(ContextEntity(crate, f"#data-{one}", about))
        data = [sources[one] for one in datasets]
        known = {str(point.attributes.get("source_digest", "unknown")) for point in points}
        code = sorted(digest[:12] for digest in known)
        beside = [
            entity
            for place, entity in files.items()
            if place == f"selections/{name}.json" or place.startswith(f"studies/{name}/")
        ]
        made = [*(files[place] for place in own), *beside]
        judged += made
        told = f"fedatlas run {name}, by code with the digest {', '.join(code)}"
        yield Made("train_run", name, told, data, made)
    told = "claims judged by the traces, tuned configurations and studies of this folder"
    yield Made("judge_claims", "verdicts", told, judged, [files["verdicts.csv"]])
