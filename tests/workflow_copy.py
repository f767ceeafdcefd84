"""A small copy of the whole workflow in a folder of its own, to run, edit and break."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from forking import forks

ROOT = Path(__file__).parent.parent
COPIED = ("Snakefile", "rules", "config", "workflow", "profiles", "src", "pyproject.toml")

#: What is made of every experiment, besides traces of points.
EVALUATION = {"claims.csv", "figure.png", "figure.svg", "selection.json", "table.csv", "traces.nc"}

EXPERIMENT = """
paper: fedpage
title: "A small experiment"
source: "a test"
dataset: breast-cancer
partition: {kind: horizontal, assignment: consecutive, clients: 56, samples: 560}
objective: {name: robust_regression}
rounds: 40
record_every: 10
seeds: [0, 1]
tuning_seeds: [100, 101]
figure: {measurement: gradient_norm, costs: [round]}
runs:
  fedpage:
    algorithm: fedpage
    hyper_parameters: {clients_per_round: 4, local_steps: 5}
    grid: {global_step_size: [0.1, 0.03]}
  scaffold:
    algorithm: scaffold
    hyper_parameters: {clients_per_round: 8, local_steps: 5, batch_size: 4, local_step_size: 0.02}
  fedavg:
    algorithm: fedavg
    hyper_parameters: {clients_per_round: 8, local_steps: 5, batch_size: 4, local_step_size: 0.02}
claims:
  - id: order
    source: "a test"
    statement: "FedPAGE beats FedAvg"
    test: {kind: order, first: fedpage, second: fedavg, relation: faster}
"""


def copy_workflow(folder: Path) -> None:
    """Copy what a run needs of this checkout, with its compiled code; files keep their times."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=_not_needed)
        else:
            shutil.copy2(source, folder / name)


def _not_needed(folder: str, names: list[str]) -> list[str]:
    """Records of the installation, and temporary files of a process that is compiling."""
    compiled = (".pyc", ".nbc", ".json")
    if Path(folder).name == "__pycache__":
        return [name for name in names if not name.endswith(compiled)]
    return [name for name in names if name.endswith(".egg-info")]


def _environment(**variables: str) -> dict[str, str]:
    """This process's environment without a mirror of raw files."""
    return {
        name: text for name, text in os.environ.items() if name != "FEDATLAS_MIRROR"
    } | variables


def _keep_compiled(source: Path) -> None:
    """Give this checkout what a copy has compiled, or every copy would compile it again."""
    for file in source.rglob("*.nbc"):
        kept = ROOT / "src" / file.relative_to(source)
        if not kept.exists():
            kept.parent.mkdir(exist_ok=True)
            copied = kept.with_name(f"{file.name}.{os.getpid()}")
            shutil.copy2(file, copied)
            copied.replace(kept)


def runs_in(planned: list[str]) -> list[str]:
    """Training runs among planned outputs, as run/point."""
    return sorted(
        "/".join(file.removesuffix(".nc").split("/")[-2:]) for file in planned if "/traces/" in file
    )


def targets(**experiments: str) -> tuple[str, ...]:
    """Files of the demo's experiments, as `small="claims.csv figure.svg"`."""
    return tuple(
        f"results/experiments/demo-{experiment}/{name}"
        for experiment, names in experiments.items()
        for name in names.split()
    )


def files_of(experiment: str, planned: list[str]) -> set[str]:
    """Names of one experiment's files among planned outputs, traces left out."""
    prefix = f"results/experiments/{experiment}/"
    found = {file.removeprefix(prefix) for file in planned if file.startswith(prefix)}
    return {name for name in found if "/" not in name}


class WorkflowCopy:
    """A folder that holds the workflow with one small experiment, `demo-small`."""

    def __init__(self, folder: Path, targets: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.targets = targets  # what is made where nothing else is asked for; empty: everything

    @classmethod
    def create(cls, folder: Path) -> "WorkflowCopy":
        folder.mkdir()
        copy_workflow(folder)
        shutil.rmtree(folder / "config" / "experiments")
        copy = cls(folder)
        copy.experiment.parent.mkdir(parents=True)
        copy.experiment.write_text(EXPERIMENT, encoding="utf-8")
        return copy

    @classmethod
    def finished(
        cls,
        factory: pytest.TempPathFactory,
        experiments: dict[str, str] | None = None,
        targets: tuple[str, ...] = (),
    ) -> "WorkflowCopy":
        """A workflow that has run, up to its targets, with further experiments by name."""
        copy = cls.create(factory.mktemp("workflow") / "copy")
        copy.targets = targets
        for name, text in (experiments or {}).items():
            copy.experiment.with_name(f"{name}.yaml").write_text(text, encoding="utf-8")
        # One job at a time: two would compile the same loops at once.
        outcome = copy.run("--cores", "1", *copy.targets)
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
        _keep_compiled(copy.folder / "src")
        return copy

    def clone(self, folder: Path) -> "WorkflowCopy":
        """The same with all results and Snakemake's records, times preserved."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return WorkflowCopy(folder, self.targets)

    @property
    def experiment(self) -> Path:
        return self.folder / "config" / "experiments" / "demo" / "small.yaml"

    @property
    def results(self) -> Path:
        return self.folder / "results"

    def trace(self, run: str, point: str = "only") -> Path:
        return self.results / "experiments" / "demo-small" / "traces" / run / f"{point}.nc"

    def environment(self) -> dict[str, str]:
        # The copy's own sources win over the installed package.
        return _environment(PYTHONPATH=str(self.folder / "src"))

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "snakemake", "--cores", "2", *(arguments or self.targets)]

    def run(self, *arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run Snakemake, here or in another folder; it and its jobs start as forks."""
        return self.fork("snakemake", "--cores", "2", *(arguments or self.targets), folder=folder)

    def ask(self, *arguments: str, folder: Path | None = None) -> tuple[int, str]:
        """Exit status and output of Snakemake where it starts no job, such as in a dry run."""
        outcome = self.fork("snakemake", *arguments, folder=folder)
        return outcome.returncode, outcome.stdout + outcome.stderr

    def fork(
        self, program: str, *arguments: str, folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command with the copy's own sources."""
        command, environment = forks().command(program, *arguments), self.environment()
        return subprocess.run(
            command,
            cwd=folder or self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def verified(self, folder: Path) -> str:
        """What `verify` says of all verdicts, published in a folder with two records of a trace."""
        for arguments in (
            ["publish", "results", str(folder), "--records", "2"],
            ["verify", str(folder)],
        ):
            outcome = self.fork("fedatlas", *arguments, "--config", "config")
            assert outcome.returncode == 0, outcome.stdout + outcome.stderr
        return outcome.stdout

    def planned(self, *arguments: str, folder: Path | None = None) -> list[str]:
        """Outputs that a dry run of the workflow's targets would make."""
        asked = ("--cores", "2", "--dry-run", *self.targets, *arguments)
        status, output = self.ask(*asked, folder=folder)
        assert status == 0, output
        lines = re.findall(r"^    output: (.*)$", output, re.MULTILINE)
        # Outputs that their job may keep are marked.
        return sorted(file.removesuffix(" (update)") for line in lines for file in line.split(", "))

    def refusal(self, *arguments: str) -> str:
        """The error with which Snakemake ends before any job: no traceback, nothing is made."""
        status, output = self.ask("--cores", "2", *arguments)
        assert status != 0 and "Traceback" not in output, output
        return output

    def edit(self, path: str, old: str, new: str) -> None:
        file = self.folder / path
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")

    def edit_code(self, *modules: str) -> None:
        """Change the meaning of modules, named as `folder/module`, but no result."""
        for module in modules:
            file = self.folder / "src" / "fedatlas" / f"{module}.py"
            file.write_text(file.read_text(encoding="utf-8") + "\n_EDITED = True\n", "utf-8")
