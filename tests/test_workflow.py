"""The workflow as users run it: complete, incremental, and resumed after a kill."""

import csv
import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile

import pytest

import fedatlas
from fedatlas.provenance.difference import Tolerance, compare
from fedatlas.schema.claims import OUTCOMES
from fedatlas.store.trace import read_trace
from workflow_copy import EVALUATION, EXPERIMENT, ROOT, WorkflowCopy, files_of, runs_in

# HTML, reStructuredText that shows a file, a formula that is none, and words for a terminal.
HOSTILE = (
    "</script><img/src=x/onerror=alert(1)> \x1b]0;t\x07 costs $5 and \\frac{ or $6 {x} {{7*7}}\n\n"
    f".. include:: {ROOT}/pyproject.toml\n   :literal:\n\n.. raw:: html\n\n   <b>b</b>\n"
)
SMALL = "config/experiments/demo/small.yaml"
CLAIMS = "results/experiments/demo-small/claims.csv"
ALL_RUNS = [
    "fedavg/only",
    "fedpage/global_step_size-0.03",
    "fedpage/global_step_size-0.1",
    "scaffold/only",
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    text = EXPERIMENT.replace('"A small experiment"', json.dumps(HOSTILE))
    return WorkflowCopy.finished(
        tmp_path_factory, {"small": f"{text}notes: {json.dumps(HOSTILE)}\n"}
    )


def test_everything_is_made(finished):
    folder = finished.results / "experiments" / "demo-small"
    for name in EVALUATION:
        assert (folder / name).stat().st_size > 0
    with (finished.results / "claims.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["claim"] for row in rows] == ["demo-small/order"]
    assert rows[0]["outcome"] in OUTCOMES
    trace = read_trace(finished.trace("scaffold"))
    assert dict(trace.sizes) == {"seed": 2, "record": 5}
    assert list(finished.results.glob("**/.*.nc")) == []  # no temporary file is left


def test_training_in_a_notebook_gives_the_same_numbers(finished):
    found = fedatlas.train(
        "scaffold", "breast-cancer",
        partition={"kind": "horizontal", "clients": 56, "samples": 560},
        objective={"name": "robust_regression"}, rounds=40, record_every=10, seeds=2,
        clients_per_round=8, local_steps=5, batch_size=4, local_step_size=0.02,
    )  # fmt: skip
    expected = read_trace(finished.trace("scaffold"))
    assert found.attrs["values_digest"] == expected.attrs["values_digest"]


def test_second_run_does_nothing(finished):
    outcome = finished.run()
    assert outcome.returncode == 0
    assert "Nothing to be done" in outcome.stdout + outcome.stderr


def test_an_experiment_is_a_target_by_its_name_or_by_a_glob(workflow):
    (workflow.folder / CLAIMS).unlink()
    assert workflow.planned("demo-sm*") == [CLAIMS]
    assert "did you mean demo-small" in workflow.refusal("demo-smal")
    outcome = subprocess.run(
        [sys.executable, "-m", "fedatlas", "run", "demo-sm*", "--cores", "1"],
        cwd=workflow.folder, env=workflow.environment(), capture_output=True, text=True,
        timeout=180,
    )  # fmt: skip
    told = outcome.stdout.splitlines()
    assert outcome.returncode == 0 and (workflow.folder / CLAIMS).exists(), outcome
    command = """snakemake --logger fedatlas --cores 1 --config 'experiments=["demo-sm*"]'"""
    assert told[0] == command
    assert re.match(r"\d+ of \d+ steps, \d:\d\d so far, about \d:\d\d left", told[2])
    assert not [line for line in told if "Select jobs" in line or not line.strip()]


@pytest.fixture(scope="module")
def report(finished, tmp_path_factory):
    """The folder in the zip file that `fedatlas run` makes of finished results."""
    folder = tmp_path_factory.mktemp("report")
    subprocess.run(
        [sys.executable, "-m", "fedatlas", "run", "demo-small", "--report", folder / "report.zip"],
        cwd=finished.folder, env=finished.environment(), check=True, timeout=180,
    )  # fmt: skip
    with zipfile.ZipFile(folder / "report.zip") as packed:
        packed.extractall(folder)
    return folder / "report"


def test_the_report_holds_the_figure_and_the_verdicts(report):
    assert {"report.html", "figure.svg", "claims.html"} <= {file.name for file in report.rglob("*")}
    shown = (report / "report.html").read_text("utf-8")
    assert html.escape(HOSTILE.split()[0], quote=False) in shown
    assert "build-backend" not in shown and not re.search("(?i)</script><img", shown)


def test_the_report_opens_on_the_claims(report):
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on the path: install it to test the report's page")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000"]
    page = subprocess.run(
        [chromium, *options, "--dump-dom", (report / "report.html").as_uri()],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert re.search(r'<iframe[^>]+src="[^"]*claims\.html"', page.stdout)


def test_device_and_mirror_are_not_part_of_a_runs_identity(finished, tmp_path):
    assert finished.planned("--config", f"mirror={tmp_path}", "device=cpu") == []


TIMERS = """import threading

class Noted(threading.Timer):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        open("timers.txt", "a").close()

threading.Timer = Noted

"""


@pytest.mark.parametrize(
    ("options", "timers"), [([], False), (["--max-jobs-per-timespan", "50/1s"], True)]
)
def test_only_a_limit_of_the_user_makes_snakemake_look_again_and_again(workflow, options, timers):
    """Snakemake's default limit adds a look at all jobs for every job that ends: see Snakefile."""
    workflow.edit("Snakefile", "from snakemake.utils", f"{TIMERS}from snakemake.utils")
    (workflow.folder / CLAIMS).unlink()
    assert workflow.run(*options, CLAIMS).returncode == 0
    assert (workflow.folder / CLAIMS).exists()
    assert (workflow.folder / "timers.txt").exists() == timers


@pytest.mark.parametrize(
    ("old", "new", "runs", "files"),
    [
        ("size: 4, local_step_size: 0.02}\n  fedavg", "size: 5, local_step_size: 0.02}\n  fedavg",
         ["scaffold/only"], EVALUATION),
        ("rounds: 40\nrecord_every: 10", "record_every: 10  # a comment\nrounds: 40", [], set()),
        ("[0.1, 0.03]", "[0.1, 0.05, 0.03]", ["fedpage/global_step_size-0.05"], EVALUATION),
        ("beats", "is faster than", [], {"claims.csv"}),
    ],
    ids=["run", "order of keys", "grid point", "claim"],
)  # fmt: skip
def test_an_edited_experiment_reruns_what_it_changes(workflow, old, new, runs, files):
    workflow.edit(SMALL, old, new)
    planned = workflow.planned()
    assert (runs_in(planned), files_of("demo-small", planned)) == (runs, files)


@pytest.mark.parametrize(
    ("module", "runs", "files"),
    [
        ("algorithms/scaffold", ["scaffold/only"], EVALUATION),
        ("training/loop", ALL_RUNS, EVALUATION),
        ("figures/kinds/convergence", [], {"figure.svg", "figure.png"}),
    ],
)
def test_edited_code_reruns_what_imports_it(workflow, module, runs, files):
    workflow.edit_code(module)
    planned = workflow.planned()
    assert (runs_in(planned), files_of("demo-small", planned)) == (runs, files)
    assert not [file for file in planned if "/data/" in file or "/shards/" in file]


def test_after_an_edit_its_run_is_trained_once_and_alone(workflow):
    untouched = workflow.trace("fedavg").stat().st_mtime_ns
    before = workflow.trace("scaffold").stat().st_mtime_ns
    workflow.edit_code("algorithms/scaffold")
    assert workflow.run(CLAIMS).returncode == 0
    assert workflow.trace("scaffold").stat().st_mtime_ns > before
    assert workflow.trace("fedavg").stat().st_mtime_ns == untouched
    assert runs_in(workflow.planned()) == []


def test_a_lost_trace_is_made_again(workflow):
    workflow.trace("fedpage", "global_step_size-0.1").unlink()
    assert runs_in(workflow.planned()) == ["fedpage/global_step_size-0.1"]


def test_the_method_of_the_first_page_works_as_it_stands(workflow):
    """A new method is one file: it is found, validated and trained, and reruns nothing else."""
    page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    name = re.search(r"src/fedatlas/algorithms/(\w+)\.py", page).group(1)
    (workflow.folder / "src/fedatlas/algorithms" / f"{name}.py").write_text(code, encoding="utf-8")
    run = f"""  mine:
    algorithm: {name}
    hyper_parameters: {{clients_per_round: 8, local_steps: 5, step_size: 0.02}}
claims:"""
    workflow.edit(SMALL, "claims:", run)
    assert runs_in(workflow.planned()) == ["mine/only"]
    outcome = workflow.run(str(workflow.trace("mine").relative_to(workflow.folder)))
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    trace = read_trace(workflow.trace("mine"))
    assert (trace["gradient_norm"][:, -1] < trace["gradient_norm"][:, 0]).all()


def as_a_module(folder):
    """The Snakefile and the configuration of docs/projects.md, of the small experiment."""
    page = (ROOT / "docs" / "projects.md").read_text(encoding="utf-8")
    files = re.findall(r"<!-- module: (\S+) -->\n```\w+\n(.*?)```", page, re.DOTALL)
    assert [name for name, _ in files] == ["Snakefile", "config/config.yaml"]
    for name, text in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text.replace("demo-fedpage", "demo-small"), encoding="utf-8")
    return folder


@pytest.mark.parametrize("way", ["in an empty folder", "as a module"])
def test_traces_are_the_same_wherever_the_workflow_runs(finished, tmp_path, way):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    results, options = folder / "results", ()
    if way == "as a module":
        results = as_a_module(folder) / "fed" / "out"
    else:
        options = ("--snakefile", f"{finished.folder}/Snakefile", "--directory", str(folder))
    runs = ("scaffold/only", "fedavg/only")
    traces = [f"{results}/experiments/demo-small/traces/{run}.nc" for run in runs]
    planned = finished.planned(*options, folder=folder)
    below = [str((folder / file).relative_to(results)) for file in planned]
    whole = finished.planned("--forceall")
    assert sorted(below) == [file.removeprefix("results/") for file in whole]
    asked = [os.path.relpath(trace, folder) for trace in traces]
    outcome = finished.run(*asked, *options, folder=folder)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    found = compare(finished.results, results, Tolerance())
    assert not found.differences and not found.only_second and not found.attributes
    assert found.compared == [f"fedpage/demo-small/{run}" for run in sorted(runs)]
    top = {path.name for path in folder.iterdir()} - {".snakemake", "Snakefile", "config"}
    assert top == ({"fed"} if way == "as a module" else {"results", "logs"})


def test_a_module_has_its_selected_experiments_by_name(workflow, tmp_path):
    folder = as_a_module(tmp_path / "elsewhere")
    status, planned = workflow.ask(
        "--dry-run", "--cores", "1", "fedatlas_demo-small", folder=folder
    )
    assert status == 0 and "fed/out/experiments/demo-small/claims.csv" in planned, planned
    status, told = workflow.ask("--dry-run", "--cores", "1", "fedatlas_vfb2", folder=folder)
    assert status != 0 and "write them into what the module's `config` names" in told
    assert "in place of the target" not in told


def test_a_module_says_why_a_job_fails(workflow, tmp_path):
    folder = as_a_module(tmp_path / "elsewhere")
    with (workflow.folder / "src/fedatlas/data/prepare.py").open("a") as stream:
        stream.write("\nraise ValueError('broken on purpose')\n")
    outcome = workflow.run("fedatlas_demo-small", folder=folder)
    assert outcome.returncode != 0
    told = outcome.stdout + outcome.stderr
    assert "Failed: rule fedatlas_prepare_split" in told and "  | ValueError: broken on" in told


def test_kill_during_training_then_rerun(finished, tmp_path, monkeypatch):
    """SIGKILL to the whole workflow mid-training; a rerun resumes and ends with the same trace."""
    workflow = finished.clone(tmp_path / "copy")
    # Long enough to be caught in the middle, short enough to finish.
    workflow.edit(SMALL, "rounds: 40", "rounds: 2000")
    for folder in ("experiments", "seeds"):
        shutil.rmtree(workflow.results / folder)
    target = str(workflow.trace("scaffold").relative_to(workflow.folder))
    log = workflow.folder / "logs" / "train" / "demo-small" / "scaffold" / "only.log"
    monkeypatch.setenv("FEDATLAS_CHECKPOINT_EVERY", "0.05")
    process = subprocess.Popen(
        workflow.command(target),
        cwd=workflow.folder,
        env=workflow.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not list(workflow.results.glob("seeds/*/[!.]*.npz")):
        assert process.poll() is None, "training ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not workflow.trace("scaffold").exists()
    assert workflow.ask("--unlock")[0] == 0
    again = workflow.run(target)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "resuming seed" in log.read_text(encoding="utf-8")
    interrupted = read_trace(workflow.trace("scaffold"))

    workflow.trace("scaffold").unlink()
    shutil.rmtree(workflow.results / "seeds")
    assert workflow.run(target).returncode == 0
    uninterrupted = read_trace(workflow.trace("scaffold"))
    assert interrupted.drop_vars("wall_time").identical(uninterrupted.drop_vars("wall_time"))


def test_all_verdicts_follow_from_what_is_published(finished, tmp_path):
    assert "verdicts follow from what is published" in finished.verified(tmp_path / "published")
