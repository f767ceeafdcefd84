"""A small copy of the whole workflow in a folder of its own, to run, edit and break."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
COPIED = ("Snakefile", "rules", "config", "workflow", "profiles", "src", "pyproject.toml")

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
    """What a run needs of this checkout, with what was compiled of it; files keep their times."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=_of_no_use)
        else:
            shutil.copy2(source, folder / name)


def _of_no_use(folder: str, names: list[str]) -> list[str]:
    """Records of the installation, and what another process is just compiling."""
    compiled = (".pyc", ".nbi", ".nbc")
    if Path(folder).name == "__pycache__":
        return [name for name in names if not name.endswith(compiled)]
    return [name for name in names if name.endswith(".egg-info")]


class WorkflowCopy:
    """A folder that holds the workflow with one small experiment, `demo-small`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

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
        cls, factory: pytest.TempPathFactory, experiments: dict[str, str] | None = None
    ) -> "WorkflowCopy":
        """One that has run, with these experiments in place of its own or beside it."""
        copy = cls.create(factory.mktemp("workflow") / "copy")
        for name, text in (experiments or {}).items():
            copy.experiment.with_name(f"{name}.yaml").write_text(text, encoding="utf-8")
        outcome = copy.run()
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
        return copy

    def clone(self, folder: Path) -> "WorkflowCopy":
        """The same with all results and Snakemake's records, times preserved."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return WorkflowCopy(folder)

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
        variables = {**os.environ, "PYTHONPATH": str(self.folder / "src")}
        variables.pop("FEDATLAS_MIRROR", None)
        return variables

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "snakemake", "--cores", "2", *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=300,
        )

    def planned(self, *arguments: str) -> list[str]:
        """Outputs that a dry-run would make."""
        outcome = self.run("--dry-run", *arguments)
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
        lines = re.findall(r"^    output: (.*)$", outcome.stdout + outcome.stderr, re.MULTILINE)
        return sorted(file for line in lines for file in line.split(", "))

    def edit(self, path: str, old: str, new: str) -> None:
        file = self.folder / path
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")

    def touch_code(self, path: str) -> None:
        """Change the meaning of a source file, but no result."""
        with (self.folder / path).open("a", encoding="utf-8") as stream:
            stream.write("\n_EDITED = True\n")
