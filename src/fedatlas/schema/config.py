"""The workflow's own configuration: what to run, where, and from which files."""

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import Field, NonNegativeInt, field_validator

from fedatlas.errors import FedatlasError
from fedatlas.schema.models import Model, validated

MIRROR_VARIABLE = "FEDATLAS_MIRROR"
DEVICE_VARIABLE = "FEDATLAS_DEVICE"
SEEDS_VARIABLE = "FEDATLAS_SEEDS"
#: Names the configuration folder of the workflow that runs: its jobs may run another installation.
CONFIG_VARIABLE = "FEDATLAS_CONFIG"

#: How people name experiments: one name or glob or several, or None for all.
Names: TypeAlias = str | Sequence[str] | None


def listed(names: Names) -> list[str] | None:
    """The names as a list; a text is one name. FedatlasError for what holds no texts."""
    if names is None or isinstance(names, str):
        return None if names is None else [names]
    if not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
        raise FedatlasError(f"{names!r} is no name or list of names")
    return list(names)


def is_named(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns, a name or a glob, means this experiment."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


class WorkflowConfig(Model):
    """Keys of config/config.yaml and of `--config KEY=VALUE`.

    experiments: names or globs. device: where to train: auto, cpu, cuda or cuda:N; /M behind it
    trains M runs at a time on a GPU. mirror: a folder of raw files; a file found there is not
    downloaded. seeds: a folder of finished seeds, which projects and machines may share; by default
    <results>/seeds. added_seeds: experiment → how many seeds were added to the declared ones after
    verdicts were seen; 0 if seeds may still be added.
    """

    experiments: tuple[str, ...] = ("demo-*",)
    device: str = Field(default="auto", pattern=r"^(auto|cpu|cuda(:\d+)?(/[1-9]\d*)?)$")
    mirror: Path | None = None
    seeds: Path | None = None
    added_seeds: dict[str, NonNegativeInt] = Field(default={})

    @field_validator("mirror", "seeds", mode="before")
    @classmethod
    def _is_a_path(cls, folder: Any) -> Any:
        if isinstance(folder, str):
            return home_expanded(folder)
        if isinstance(folder, int | float):
            raise ValueError("is no name of a folder in YAML: write it as ./NAME")
        return folder


def home_expanded(name: str) -> Path:
    """The path with ~ for the home folder, as no shell expands it in a file or behind a =."""
    return Path(os.path.expanduser(name))  # noqa: PTH111 as it leaves users that there are not


def check_command(arguments: Sequence[str]) -> None:
    """Refuse a command of Snakemake with two options --config: it heeds the last one only."""
    declared = [each for each in arguments if re.match(r"(--config$|--config=|-C)", each)]
    if len(declared) > 1:
        raise FedatlasError(
            "--config stands twice, and Snakemake heeds only the last: put all values behind one, "
            "such as --config device=cpu mirror=/data/raw"
        )


def load_config(config: Mapping[str, Any]) -> WorkflowConfig:
    """Validate the configuration that Snakemake merged.

    FEDATLAS_MIRROR and FEDATLAS_SEEDS stand in for `mirror` and `seeds`.
    """
    # Path variables are Snakemake's own.
    values = {key: value for key, value in config.items() if key != "pathvars"}
    for key, variable in (("mirror", MIRROR_VARIABLE), ("seeds", SEEDS_VARIABLE)):
        if values.get(key) in (None, ""):
            values[key] = os.environ.get(variable) or None
    if isinstance(values.get("experiments"), str):
        values["experiments"] = [values["experiments"]]
    loaded = validated(WorkflowConfig, values, "configuration (config/*.yaml, --config)")
    if loaded.mirror is not None and not loaded.mirror.is_dir():
        raise FedatlasError(
            f"configuration key 'mirror': {loaded.mirror} is not a folder. Give the folder that "
            "holds the raw files, laid out as the paths in config/datasets.yaml."
        )
    return loaded


def export_to_jobs(config: WorkflowConfig, folder: Path) -> None:
    """Put the configuration, its folder and that of `fedatlas` into the environment of jobs.

    folder: of the workflow's configuration. None of these is part of the identity of a file or a
    run, so they must not be params.
    Jobs call `fedatlas` by name, which also works in a container. Here it lies beside the
    interpreter that runs the workflow, even if its environment is not activated.
    One seed of hashes is for all: methods may go through sets of names.
    """
    os.environ["PYTHONHASHSEED"] = "0"
    os.environ[DEVICE_VARIABLE] = config.device
    os.environ[CONFIG_VARIABLE] = str(folder.absolute())
    if config.mirror is not None:
        os.environ[MIRROR_VARIABLE] = str(config.mirror.absolute())
    if config.seeds is not None:
        os.environ[SEEDS_VARIABLE] = str(config.seeds.absolute())
    beside = str(Path(sys.executable).parent)
    os.environ["PATH"] = os.pathsep.join([beside, os.environ.get("PATH", os.defpath)])
