"""An experiment file to be varied, and a folder of such files as the workflow reads it."""

from functools import cache
from pathlib import Path

import yaml

from fedatlas.plan.build import Plan, build_plan
from fedatlas.schema.experiment_files import load_experiments
from fedatlas.schema.experiments import Experiment

RUN = {"algorithm": "fedavg", "hyper_parameters": {}}
BASE = {
    "paper": "ours",
    "title": "base",
    "source": "Figure 1",
    "dataset": "a9a",
    "partition": {"kind": "horizontal", "clients": 10},
    "objective": {"name": "logistic_nonconvex", "weight": 0.1},
    "rounds": 20,
    "record_every": 5,
    "seeds": [0, 1],
    "runs": dict.fromkeys(("one", "two", "three"), RUN),
}


@cache
def plan_of_all() -> Plan:
    """Of the repository's own experiments; to be read only."""
    return build_plan(Path(__file__).parents[1] / "config")


def load(folder: Path, **contents) -> dict[str, Experiment]:
    """The experiments of these files and of those that are there already."""
    group = folder / "paper"
    group.mkdir(exist_ok=True)
    for name, content in contents.items():
        (group / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return load_experiments(folder)
