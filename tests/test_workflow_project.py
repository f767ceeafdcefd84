"""A project outside the repository, with the examples of docs/projects.md, as its users run it.

Folders and raw files have names that mean something to a shell.
"""

import gzip
import json
from pathlib import Path

import pytest

from fedatlas.cli.new import Kind, new
from fedatlas.store.trace import read_trace
from outside_project import whole_files, write_project
from workflow_copy import WorkflowCopy

PREFIX, RESULTS, LOGS = "it's (1)", "res & co;1", "logs > $HOME `x`"
RAW = "lib (svm)/Jo's & co; *.gz"
MODULE = f"""    config: config
    prefix: {PREFIX!r}
    pathvars:
        results={RESULTS!r},
        logs={LOGS!r},
"""
TRACES = [
    f"{PREFIX}/{RESULTS}/experiments/project-{run}.nc"
    for run in (
        *("momentum/traces/momentum/only", "momentum/traces/fedavg/only", "ring/traces/ring/only"),
        *("coded/traces/momentum/only", "coded/traces/fedavg/only"),
    )
]
MADE = [
    f"{PREFIX}/{RESULTS}/experiments/project-coded/{name}"
    for name in ("claims.csv", "table.csv", "figure.svg")
]
ROWS = "".join(
    f"{1 + i % 2} 2:{i / 60} 7:{i % 2}\n" if i % 5 else f"{1 + i % 2}\n" for i in range(60)
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The fedatlas that is installed."""
    return WorkflowCopy.create(tmp_path_factory.mktemp("workflow") / "copy")


def with_a_test(catalogue: str) -> str:
    """The data set with a split test, both from `RAW`."""
    head, file = catalogue.replace("libsvm/coded.gz", json.dumps(RAW)).split("    train:\n")
    return f"{head}    train:\n{file}    test:\n{file}"


@pytest.fixture(scope="module")
def project(copy, tmp_path_factory):
    """A project that has run, with a LIBSVM file of codes 1 and 2, gaps and empty rows."""
    folder = tmp_path_factory.mktemp("outside")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        new(Kind.PROJECT, "lab")
    mirror = folder / "it's a (mirror)"
    (mirror / RAW).parent.mkdir(parents=True)
    (mirror / RAW).write_bytes(gzip.compress(ROWS.encode(), mtime=0))
    files = whole_files("projects", "methods")
    files["datasets.yaml"] = with_a_test(files["datasets.yaml"])
    coded = files["experiments/coded.yaml"]
    files["experiments/coded.yaml"] = coded.replace("clients: 10", "clients: 10, test: test")
    whole = (folder / "lab/Snakefile").read_text(encoding="utf-8")
    files["Snakefile"] = whole.replace("    config: config\n", MODULE)
    lab = write_project(folder / "lab", files)
    outcome = copy.run(*TRACES, *MADE, "--config", f"mirror={mirror}", folder=lab)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    return lab


def test_its_methods_train_on_its_data(project):
    traces = {name: read_trace(project / name) for name in TRACES}
    assert {trace.attrs["algorithm"] for trace in traces.values()} == {
        "local_momentum",
        "fedavg",
        "dsgd",
    }
    for trace in traces.values():
        assert (trace["objective"][:, -1] < trace["objective"][:, 0]).all()
    coded = traces[TRACES[-1]]
    assert (coded["train_accuracy"].isel(record=0) == 0.5).all()  # half of the labels are -1
    assert (project / PREFIX / RESULTS / "raw" / RAW.removesuffix(".gz")).read_text() == ROWS
    assert RAW in (project / "config/checksums.lock.json").read_text()
    assert "momentum" in (project / MADE[0]).read_text()


def test_commands_in_its_folder_know_it(copy, project):
    outcome = copy.fork("fedatlas", "verify", f"{PREFIX}/{RESULTS}", folder=project)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    outcome = copy.fork("fedatlas", "spec", "project-ring/ring/only", folder=project)
    assert '"algorithm":"dsgd"' in outcome.stdout
    outcome = copy.fork("fedatlas", "verify", f"lab/{PREFIX}/{RESULTS}", folder=project.parent)
    assert outcome.returncode == 1 and "its experiment is gone" in outcome.stdout


def test_an_edit_of_its_method_reruns_exactly_its_runs(copy, project):
    def planned() -> list[str]:
        return [name for name in copy.planned(*TRACES, *MADE, folder=project) if "/traces/" in name]

    assert planned() == []
    method = Path(project, "methods/local_momentum.py")
    before = method.read_text(encoding="utf-8")
    method.write_text(before + "\n_EDITED = True\n", encoding="utf-8")
    assert planned() == sorted(name for name in TRACES if "traces/momentum" in name)
    method.write_text(before, encoding="utf-8")
