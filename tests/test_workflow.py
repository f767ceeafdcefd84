"""The workflow as users run it: complete, incremental, and clear about what is wrong."""

import csv
import gzip
import hashlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import time

import pytest

from fedatlas.traces.trace import read_trace
from workflow_copy import ROOT, WorkflowCopy

EVALUATION = {"claims.csv", "figure.png", "figure.svg", "selection.json", "table.csv"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return WorkflowCopy.finished(tmp_path_factory)


@pytest.fixture
def workflow(finished, tmp_path):
    return finished.clone(tmp_path / "copy")


def runs_in(planned):
    """Training runs among planned outputs, as run/point."""
    return sorted(
        "/".join(file.removesuffix(".nc").split("/")[-2:]) for file in planned if "/traces/" in file
    )


def files_in(planned):
    """The experiment's own evaluation files among planned outputs."""
    prefix = "results/experiments/demo-small/"
    return {file.removeprefix(prefix) for file in planned if file.startswith(prefix)} & EVALUATION


def test_everything_is_made(finished):
    folder = finished.results / "experiments" / "demo-small"
    for name in EVALUATION:
        assert (folder / name).stat().st_size > 0
    with (finished.results / "claims.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["claim"] for row in rows] == ["demo-small/order"]
    assert rows[0]["verdict"] in ("reproduced", "not reproduced", "inconclusive")
    trace = read_trace(finished.trace("scaffold"))
    assert dict(trace.sizes) == {"seed": 2, "record": 5}
    assert list(finished.results.glob("**/.*.nc")) == []  # no temporary file is left


def test_second_run_does_nothing(finished):
    outcome = finished.run()
    assert outcome.returncode == 0
    assert "Nothing to be done" in outcome.stdout + outcome.stderr


def test_device_and_mirror_are_not_part_of_a_runs_identity(finished, tmp_path):
    options = ("--config", f"mirror={tmp_path}", "device=cpu")
    assert finished.planned(*options) == []


TIMERS = """
import threading

class Noted(threading.Timer):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        open("timers.txt", "a").close()

threading.Timer = Noted
"""


@pytest.mark.parametrize(
    ("options", "timers"), [([], False), (["--max-jobs-per-timespan", "50/1s"], True)]
)
def test_only_a_limit_of_ones_own_makes_snakemake_look_again_and_again(workflow, options, timers):
    """See the Snakefile: its own limit would have every look cause another, a second later."""
    (workflow.folder / "src" / "sitecustomize.py").write_text(TIMERS, encoding="utf-8")
    claims = "results/experiments/demo-small/claims.csv"
    (workflow.folder / claims).unlink()
    assert workflow.run(*options, claims).returncode == 0
    assert (workflow.folder / claims).exists()
    assert (workflow.folder / "timers.txt").exists() == timers


def test_an_edited_run_reruns_alone(workflow):
    old = "scaffold\n    hyper_parameters: {clients_per_round: 8, local_steps: 5"
    workflow.edit("config/experiments/demo/small.yaml", old, old.replace("5", "6"))
    planned = workflow.planned()
    assert runs_in(planned) == ["scaffold/only"]
    assert files_in(planned) == EVALUATION


def test_reordered_keys_and_an_added_comment_rerun_nothing(workflow):
    workflow.edit(
        "config/experiments/demo/small.yaml",
        "rounds: 40\nrecord_every: 10",
        "record_every: 10  # a comment\nrounds: 40",
    )
    assert workflow.planned() == []


def test_a_new_grid_point_runs_alone(workflow):
    workflow.edit("config/experiments/demo/small.yaml", "[0.1, 0.03]", "[0.1, 0.05, 0.03]")
    assert runs_in(workflow.planned()) == ["fedpage/global_step_size-0.05"]


def test_an_edited_claim_is_only_judged_again(workflow):
    workflow.edit("config/experiments/demo/small.yaml", "beats", "is faster than")
    planned = workflow.planned()
    assert runs_in(planned) == []
    assert files_in(planned) == {"claims.csv"}


def test_an_edited_method_reruns_its_runs_alone(workflow):
    untouched = workflow.trace("fedavg").stat().st_mtime_ns
    workflow.touch_code("src/fedatlas/algorithms/scaffold.py")
    assert runs_in(workflow.planned()) == ["scaffold/only"]
    assert workflow.run().returncode == 0
    assert workflow.trace("fedavg").stat().st_mtime_ns == untouched
    assert workflow.planned() == []


def test_an_edited_core_file_reruns_all_runs(workflow):
    workflow.touch_code("src/fedatlas/training/loop.py")
    planned = workflow.planned()
    assert runs_in(planned) == [
        "fedavg/only",
        "fedpage/global_step_size-0.03",
        "fedpage/global_step_size-0.1",
        "scaffold/only",
    ]
    assert not [file for file in planned if "/data/" in file or "/shards/" in file]


def test_an_edited_figure_module_redraws_only(workflow):
    workflow.touch_code("src/fedatlas/figures/convergence.py")
    planned = workflow.planned()
    assert runs_in(planned) == []
    assert files_in(planned) == {"figure.svg", "figure.png"}


def test_the_method_of_the_readme_works_as_it_stands(workflow):
    """One file is a method: it is found, validated, trained, and reruns nothing else."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    name = re.search(r"src/fedatlas/algorithms/(\w+)\.py", readme).group(1)
    (workflow.folder / "src/fedatlas/algorithms" / f"{name}.py").write_text(code, encoding="utf-8")
    run = f"""  mine:
    algorithm: {name}
    hyper_parameters: {{clients_per_round: 8, local_steps: 5, step_size: 0.02}}
claims:"""
    workflow.edit("config/experiments/demo/small.yaml", "claims:", run)
    assert runs_in(workflow.planned()) == ["mine/only"]
    outcome = workflow.run()
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    trace = read_trace(workflow.trace("mine"))
    assert (trace["gradient_norm"][:, -1] < trace["gradient_norm"][:, 0]).all()


COMMANDS = [
    line
    for name in ("README.md", "docs/adding.md")
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines()
    # An executor that is not installed, and a report of results that are not there.
    if line.startswith("snakemake ")
    and not any(word in line for word in ("--executor", "--report", "profiles/slurm"))
]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_of_the_documentation_are_understood(tmp_path, line):
    workflow = WorkflowCopy.create(tmp_path / "copy")
    shutil.copytree(ROOT / "config", workflow.folder / "config", dirs_exist_ok=True)
    arguments = shlex.split(line, comments=True)[1:]
    arguments = [word.replace("/data/mirror", str(tmp_path)) for word in arguments]
    assert len(workflow.planned(*arguments)) > 10


def test_the_documentation_has_commands():
    assert len(COMMANDS) >= 5


def test_a_lost_trace_is_made_again_equal(workflow):
    before = read_trace(workflow.trace("fedpage", "global_step_size-0.1"))
    workflow.trace("fedpage", "global_step_size-0.1").unlink()
    assert workflow.run().returncode == 0
    after = read_trace(workflow.trace("fedpage", "global_step_size-0.1"))
    assert after.drop_vars("wall_time").identical(before.drop_vars("wall_time"))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("rounds: 40", "rounds: 40\nround: 3", ["unknown key 'round'", "rounds", "small.yaml"]),
        ("algorithm: fedavg", "algorithm: fedagv", ["fedagv", "there are:", "fedavg", "scaffold"]),
        ("dataset: breast-cancer", "dataset: breast", ["'breast'", "breast-cancer", "small.yaml"]),
        (
            "batch_size: 4, local_step_size: 0.02}\n  fedavg",
            "batch_size: 4}\n  fedavg",
            ["missing key 'local_step_size'", "runs.scaffold", "small.yaml"],
        ),
        ("batch_size: 4", "batchsize: 4", ["unknown key 'batchsize'", "batch_size"]),
        ("local_steps: 5", "local_steps: 0", ["local_steps", "value 0", "greater than 0"]),
        ("clients: 56", "clients: 5", ["clients_per_round", "only 5 clients"]),
        ("second: fedavg", "second: fedavgg", ["fedavgg", "fedpage, scaffold, fedavg"]),
        ("seeds: [0, 1]", "seeds: [0, 0]", ["seed is listed twice"]),
        ("relation: faster", "relation: faster, at: 41", ["'order'", "at", "40 rounds"]),
    ],
)
def test_bad_experiments_are_refused_before_any_job(finished, tmp_path, old, new, expected):
    workflow = WorkflowCopy.create(tmp_path / "copy")
    workflow.edit("config/experiments/demo/small.yaml", old, new)
    outcome = workflow.run()
    text = outcome.stdout + outcome.stderr
    assert outcome.returncode != 0
    for part in expected:
        assert part in text
    assert "Traceback" not in text
    assert not workflow.results.exists()


def test_a_logistic_loss_needs_two_classes(tmp_path):
    workflow = WorkflowCopy.create(tmp_path / "copy")
    file = "config/experiments/demo/small.yaml"
    workflow.edit(file, "breast-cancer", "digits")
    workflow.edit(file, "robust_regression", "logistic_l2, weight: 0.1")
    outcome = workflow.run()
    assert outcome.returncode != 0
    assert "needs labels ±1, but digits is a multiclass data set" in outcome.stdout + outcome.stderr


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("experiments=['nothing-*']",), ["nothing-*", "matches no experiment", "demo-small"]),
        (("mirorr=/data",), ["unknown key 'mirorr'", "mirror"]),
        (("device=gpu",), ["device", "gpu"]),
        (("mirror=/no/such/folder",), ["mirror", "/no/such/folder", "not a folder"]),
    ],
)
def test_bad_options_are_refused_before_any_job(finished, options, expected):
    outcome = finished.run("--config", *options)
    text = outcome.stdout + outcome.stderr
    assert outcome.returncode != 0
    for part in expected:
        assert part in text
    assert "Traceback" not in text


def test_a_paper_target_says_how_to_select_its_experiments(finished):
    outcome = finished.run("fedpage")
    assert outcome.returncode != 0
    assert "config/paper.yaml" in outcome.stdout + outcome.stderr


def test_unwritable_results_are_one_clear_error(tmp_path):
    workflow = WorkflowCopy.create(tmp_path / "copy")
    workflow.results.write_text("a file where a folder belongs")
    outcome = workflow.run()
    text = outcome.stdout + outcome.stderr
    assert outcome.returncode != 0
    assert "results is a file" in text
    assert "Traceback" not in text
    assert workflow.results.read_text() == "a file where a folder belongs"


def test_kill_during_training_then_rerun(finished, tmp_path, monkeypatch):
    """SIGKILL to the whole workflow mid-training; a rerun resumes and ends with the same trace."""
    workflow = finished.clone(tmp_path / "copy")
    # Long enough to be caught in the middle, short enough to finish.
    workflow.edit("config/experiments/demo/small.yaml", "rounds: 40", "rounds: 60000")
    shutil.rmtree(workflow.results / "experiments")
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
    checkpoint = workflow.results / "checkpoints" / "demo-small" / "scaffold" / "only.npz"
    while not checkpoint.exists():
        assert process.poll() is None, "training ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not workflow.trace("scaffold").exists()
    unlocked = workflow.run("--unlock")
    assert unlocked.returncode == 0, unlocked.stderr
    again = workflow.run(target)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "resuming seed" in log.read_text(encoding="utf-8")
    interrupted = read_trace(workflow.trace("scaffold"))

    workflow.trace("scaffold").unlink()
    assert workflow.run(target).returncode == 0
    uninterrupted = read_trace(workflow.trace("scaffold"))
    assert interrupted.drop_vars("wall_time").identical(uninterrupted.drop_vars("wall_time"))
    assert list(workflow.results.glob("checkpoints/**/*.npz")) == []


LIBSVM_CATALOGUE = """
coded:
  title: A LIBSVM file with other label codes
  homepage: https://example.org/
  licence: none
  citation: none
  format: libsvm
  task: binary
  features: 9
  labels: {1: -1, 2: 1}
  splits:
    train:
      files:
        - path: libsvm/coded.gz
          urls: ["http://127.0.0.1:9/coded.gz"]
          decompress: gz
          checksum: CHECKSUM
"""


def libsvm_workflow(tmp_path, text):
    """A workflow on a compressed LIBSVM file in a mirror: codes 1 and 2, gaps and empty rows."""
    mirror = tmp_path / "mirror"
    (mirror / "libsvm").mkdir(parents=True)
    raw = mirror / "libsvm" / "coded.gz"
    raw.write_bytes(gzip.compress(text.encode(), mtime=0))
    workflow = WorkflowCopy.create(tmp_path / "copy")
    checksum = f"md5:{hashlib.md5(raw.read_bytes()).hexdigest()}"
    catalogue = LIBSVM_CATALOGUE.replace("CHECKSUM", checksum)
    (workflow.folder / "config" / "datasets.yaml").write_text(catalogue, encoding="utf-8")
    workflow.edit("config/experiments/demo/small.yaml", "breast-cancer", "coded")
    workflow.edit("config/experiments/demo/small.yaml", "clients: 56, samples: 560", "clients: 10")
    workflow.edit("config/experiments/demo/small.yaml", "per_round: 8", "per_round: 5")
    return workflow, mirror


ROWS = "".join(f"{1 + i % 2} 2:{i / 60} 7:1\n" if i % 5 else f"{1 + i % 2}\n" for i in range(60))


def test_libsvm_from_a_mirror_to_verdicts(tmp_path):
    workflow, mirror = libsvm_workflow(tmp_path, ROWS)
    outcome = workflow.run("--config", f"mirror={mirror}")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert (workflow.results / "claims.csv").exists()
    assert (workflow.results / "raw" / "libsvm" / "coded").read_text() == ROWS
    trace = read_trace(workflow.trace("fedavg"))
    assert (trace["train_accuracy"].isel(record=0) == 0.5).all()  # half of the labels are -1


def test_more_clients_than_samples_is_one_clear_error(tmp_path):
    """The catalogue states no number of rows here, so it shows only when the file is read."""
    workflow, mirror = libsvm_workflow(tmp_path, ROWS)
    workflow.edit("config/experiments/demo/small.yaml", "clients: 10", "clients: 61")
    outcome = workflow.run("--config", f"mirror={mirror}")
    assert outcome.returncode != 0
    assert "clients 61 exceeds the 60 samples" in outcome.stdout + outcome.stderr
    assert list(workflow.results.glob("shards/**/*.parquet")) == []


def test_without_mirror_and_network_the_error_says_what_to_do(tmp_path):
    workflow, _ = libsvm_workflow(tmp_path, ROWS)
    outcome = workflow.run()
    text = outcome.stdout + outcome.stderr
    assert outcome.returncode != 0
    for part in ("http://127.0.0.1:9/coded.gz", "libsvm/coded.gz", "--config mirror=DIR"):
        assert part in text
    assert not (workflow.results / "raw" / "libsvm" / "coded").exists()


def test_a_corrupted_mirror_file_prints_both_sums_and_keeps_nothing(tmp_path):
    workflow, mirror = libsvm_workflow(tmp_path, ROWS)
    raw = mirror / "libsvm" / "coded.gz"
    expected = hashlib.md5(raw.read_bytes()).hexdigest()
    raw.write_bytes(raw.read_bytes()[:-9] + b"corrupted")
    outcome = workflow.run("--config", f"mirror={mirror}")
    text = outcome.stdout + outcome.stderr
    assert outcome.returncode != 0
    assert expected in text
    assert hashlib.md5(raw.read_bytes()).hexdigest() in text
    assert not list((workflow.results / "raw").glob("**/coded*"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ROWS + "1 3:", "libsvm/coded:61:"),
        (ROWS + "2 0:1\n", "libsvm/coded:61:"),
        (ROWS + "2 10:1\n", "libsvm/coded:61:"),
        (ROWS + "3 1:1\n", "label"),
        ("", "no sample"),
    ],
)
def test_a_bad_libsvm_file_stops_before_training(tmp_path, text, expected):
    workflow, mirror = libsvm_workflow(tmp_path, text)
    outcome = workflow.run("--config", f"mirror={mirror}")
    output = outcome.stdout + outcome.stderr
    assert outcome.returncode != 0
    assert expected in output
    assert "coded" in output
    assert "Traceback" not in output
    assert not list(workflow.results.glob("data/**/*.parquet"))
