"""A project outside the repository, with the examples of docs/projects.md, as its users run it."""

import gzip
from pathlib import Path

import pytest

from fedatlas.cli.new import Kind, new
from fedatlas.traces.trace import read_trace
from outside_project import whole_files, write_project
from workflow_copy import WorkflowCopy

TRACES = [
    f"results/experiments/project-{run}.nc"
    for run in (
        *("fedprox/traces/fedprox/only", "fedprox/traces/fedavg/only", "ring/traces/ring/only"),
        *("coded/traces/fedprox/only", "coded/traces/fedavg/only"),
    )
]
CLAIMS = "results/experiments/project-coded/claims.csv"
ROWS = "".join(
    f"{1 + i % 2} 2:{i / 60} 7:{i % 2}\n" if i % 5 else f"{1 + i % 2}\n" for i in range(60)
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The fedatlas that is installed."""
    return WorkflowCopy.create(tmp_path_factory.mktemp("workflow") / "copy")


@pytest.fixture(scope="module")
def project(copy, tmp_path_factory):
    """A project that has run, with a LIBSVM file of codes 1 and 2, gaps and empty rows."""
    folder = tmp_path_factory.mktemp("outside")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        new(Kind.PROJECT, "lab")
    mirror = folder / "mirror" / "libsvm"
    mirror.mkdir(parents=True)
    (mirror / "coded.gz").write_bytes(gzip.compress(ROWS.encode(), mtime=0))
    lab = write_project(folder / "lab", whole_files("projects", "methods"))
    outcome = copy.run(*TRACES, CLAIMS, "--config", f"mirror={mirror.parent}", folder=lab)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return lab


def test_its_methods_train_on_its_data(project):
    traces = {name: read_trace(project / name) for name in TRACES}
    assert {trace.attrs["algorithm"] for trace in traces.values()} == {"fedprox", "fedavg", "dsgd"}
    for trace in traces.values():
        assert (trace["objective"][:, -1] < trace["objective"][:, 0]).all()
    coded = traces["results/experiments/project-coded/traces/fedavg/only.nc"]
    assert (coded["train_accuracy"].isel(record=0) == 0.5).all()  # half of the labels are -1
    assert (project / "results/raw/libsvm/coded").read_text() == ROWS
    assert "libsvm/coded.gz" in (project / "config/checksums.lock.json").read_text()
    assert "fedprox" in (project / CLAIMS).read_text()


def test_commands_in_its_folder_know_it(copy, project):
    outcome = copy.fork("fedatlas", "verify", folder=project)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    outcome = copy.fork("fedatlas", "spec", "project-ring/ring/only", folder=project)
    assert '"algorithm":"dsgd"' in outcome.stdout
    outcome = copy.fork("fedatlas", "verify", "lab/results", folder=project.parent)
    assert outcome.returncode == 1 and "its experiment is gone" in outcome.stdout


def test_an_edit_of_its_method_reruns_exactly_its_runs(copy, project):
    def planned() -> list[str]:
        return [name for name in copy.planned(*TRACES, CLAIMS, folder=project) if "trace" in name]

    assert planned() == []
    method = Path(project, "methods/fedprox.py")
    before = method.read_text(encoding="utf-8")
    method.write_text(before + "\n_EDITED = True\n", encoding="utf-8")
    assert planned() == sorted(name for name in TRACES if "traces/fedprox" in name)
    method.write_text(before, encoding="utf-8")
