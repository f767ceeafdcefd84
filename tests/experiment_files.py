"""An experiment file to be varied, and a folder of such files as the workflow reads it."""

import shutil
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from fedatlas.plan.build import Plan, build_plan
from fedatlas.schema.experiment_files import load_experiments
from fedatlas.schema.experiments import Experiment

CONFIG = Path(__file__).parents[1] / "config"
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
    return build_plan(CONFIG)


def load(folder: Path, **contents) -> dict[str, Experiment]:
    """The experiments of these files and of those that are there already."""
    group = folder / "paper"
    group.mkdir(exist_ok=True)
    for name, content in contents.items():
        (group / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return load_experiments(folder)


def config_folder(folder: Path, catalogue: Any = None, /, **experiments: Any) -> Path:
    """A configuration with these experiments of the group demo, as texts or what they say.

    catalogue: of data sets; by default the repository's own.
    """
    demo = folder / "experiments" / "demo"
    demo.mkdir(parents=True)
    for name in ("papers.yaml", "datasets.yaml"):
        shutil.copy2(CONFIG / name, folder)
    if catalogue is not None:
        (folder / "datasets.yaml").write_text(yaml.safe_dump(catalogue), encoding="utf-8")
    for name, content in experiments.items():
        text = content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
        (demo / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder
