"""Profiles submit what rules ask for, to stand-ins on PATH that record what they are asked.

Needs Snakemake's plugins for clusters, which `make test-cluster` brings. tests/slurm runs on a real
SLURM.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fedatlas.plan.build import build_plan
from workflow_copy import ROOT, WorkflowCopy

pytest.importorskip("snakemake_executor_plugin_slurm")
pytest.importorskip("snakemake_executor_plugin_cluster_generic")
kubernetes_validate = pytest.importorskip("kubernetes_validate")

SELECTION = 'experiments=["demo-small"]'
SPLIT = "results/data/breast-cancer/train.parquet"
PROFILE = yaml.safe_load((ROOT / "profiles" / "slurm" / "config.yaml").read_text(encoding="utf-8"))

# Fails the first job without running it, as one that ran out of memory; runs all others at once.
KUBECTL = f"""#!{sys.executable}
import json, subprocess, sys
from pathlib import Path
jobs = Path(__file__).parent / "jobs"
jobs.mkdir(exist_ok=True)
if sys.argv[1] == "create":
    job = json.load(sys.stdin)
    container = job["spec"]["template"]["spec"]["containers"][0]
    first = not list(jobs.iterdir())
    code = 1 if first else subprocess.run(
        container["command"], cwd=container["workingDir"], stdout=sys.stderr).returncode
    kind = ("Failed", "BackoffLimitExceeded") if code else ("Complete", "")
    job["status"] = {{"conditions": [{{"type": kind[0], "status": "True", "reason": kind[1]}}]}}
    (jobs / job["metadata"]["name"]).write_text(json.dumps(job))
elif sys.argv[1:3] == ["get", "job"]:
    print((jobs / sys.argv[3]).read_text())
elif sys.argv[1:4] == ["get", "pods", "--selector"]:
    state = {{"terminated": {{"reason": "OOMKilled", "exitCode": 137}}}}
    status = {{"phase": "Failed", "containerStatuses": [{{"state": state}}]}}
    print(json.dumps({{"items": [{{"status": status}}]}}))
else:
    raise SystemExit(f"not expected: {{sys.argv}}")
"""
SLURM = f"""#!{sys.executable}
import json, sys
from pathlib import Path
if Path(__file__).name == "sbatch":
    with Path(__file__).with_name("submitted").open("a") as stream:
        print(json.dumps(sys.argv[1:]), file=stream)
    raise SystemExit("sbatch: error: this is no cluster")
"""


@pytest.fixture
def workflow(tmp_path):
    return WorkflowCopy.create(tmp_path / "copy")


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A folder whose programs come first."""
    folder = tmp_path / "programs"
    folder.mkdir()
    path = [str(folder), str(Path(sys.executable).parent), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(path))
    return folder


def add_program(folder, name, text):
    (folder / name).write_text(text, encoding="utf-8")
    (folder / name).chmod(0o755)


def submit(workflow, profile, *arguments, config=()):
    """Snakemake by a profile."""
    return subprocess.run(
        [
            *(sys.executable, "-m", "snakemake", "--profile", f"profiles/{profile}"),
            *(*arguments, "--config", SELECTION, *config),
        ],
        cwd=workflow.folder,
        env=workflow.environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_slurm_submits_what_rules_ask_for_and_more_at_each_retry(workflow, programs):
    for name in ("sbatch", "sinfo", "sacct", "sacctmgr", "scontrol", "squeue", "sshare"):
        add_program(programs, name, SLURM)
    resources = ("--default-resources", "slurm_partition='short'", "slurm_account='ours'")
    at_once = ("--slurm-init-seconds-before-status-checks", "1")
    outcome = submit(workflow, "slurm", SPLIT, *resources, *at_once)
    assert outcome.returncode != 0
    assert "this is no cluster" in outcome.stdout + outcome.stderr
    lines = (programs / "submitted").read_text(encoding="utf-8").splitlines()
    asked = [" ".join(json.loads(line)) for line in lines]
    assert len(asked) == 1 + PROFILE["retries"]
    for attempt, line in enumerate(asked, start=1):
        assert f" --mem {4000 * attempt} " in line
        assert f" -t {60 * attempt} " in line
        assert " -p short " in line
        assert " -A ours " in line
        assert " --cpus-per-task=1 " in line
        assert "--gpus" not in line


@pytest.mark.parametrize(("device", "gpus"), [("cuda", {"1"}), ("cpu", {"0"})])
def test_training_asks_for_a_gpu_where_the_device_is_one(workflow, device, gpus):
    outcome = submit(workflow, "slurm", "all", "--dry-run", config=[f"device={device}"])
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    jobs = (outcome.stdout + outcome.stderr).split("\nrule ")
    training = [job for job in jobs if job.startswith("train_run:")]
    assert len(training) == 4
    assert {value for job in training for value in re.findall(r" gpu=(\d+)", job)} == gpus
    unstated = [job for job in jobs[1:] if not re.search(r"mem_mb=\d+.* runtime=\d+", job)]
    assert unstated == []


def test_slurm_is_asked_for_a_gpu_where_the_device_is_one(workflow, programs):
    """Of the pinned plugin: what sbatch is given for a training job."""
    spec = build_plan(workflow.folder / "config").run("demo-small", "fedavg", "only")
    shards = f"results/shards/{spec.dataset}/{spec.split}/{spec.partition.slug}/silo-0.parquet"
    assert workflow.run(shards).returncode == 0
    for name in ("sbatch", "sinfo", "sacct", "sacctmgr", "scontrol", "squeue", "sshare"):
        add_program(programs, name, SLURM)
    trace = str(workflow.trace("fedavg").relative_to(workflow.folder))
    resources = ("--default-resources", "slurm_partition='short'", "slurm_account='ours'")
    options = (*resources, "--retries", "0", "--slurm-init-seconds-before-status-checks", "1")
    asked = []
    for device in ("cuda", "auto"):
        config = [f"device={device}"]
        outcome = submit(workflow, "slurm", trace, *options, config=config)
        assert "this is no cluster" in outcome.stdout + outcome.stderr
        lines = (programs / "submitted").read_text(encoding="utf-8").splitlines()
        asked.append(json.loads(lines[-1]))
        assert len(lines) == len(asked)
        assert any("train_run" in word for word in asked[-1])
    gpus = [[word for word in words if word.startswith("--gpu")] for words in asked]
    assert gpus == [["--gpus=1"], []]


def test_kubernetes_runs_jobs_on_the_volume_and_retries_with_more_memory(workflow, programs):
    add_program(programs, "kubectl", KUBECTL)
    outcome = submit(workflow, "kubernetes", SPLIT, "--seconds-between-status-checks", "1")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert (workflow.folder / SPLIT).is_file()
    why = r"prepare-split-\w+ failed \(it asked for 4000M of memory and 60 minutes\): OOMKilled"
    assert re.search(why, outcome.stderr)
    files = sorted((programs / "jobs").iterdir(), key=lambda file: file.stat().st_mtime_ns)
    jobs = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    assert len(jobs) == 2
    template = yaml.safe_load((ROOT / "profiles" / "kubernetes" / "job.yaml").read_text())
    for attempt, job in enumerate(jobs, start=1):
        container = job["spec"]["template"]["spec"]["containers"][0]
        wanted = {"cpu": "1", "memory": f"{4000 * attempt}M"}
        assert container["resources"] == {"requests": wanted, "limits": wanted}
        assert container["workingDir"] == str(workflow.folder)
        assert job["spec"]["activeDeadlineSeconds"] == 60 * 60 * attempt
        # Nothing of the template is lost.
        assert container["image"] == template["spec"]["template"]["spec"]["containers"][0]["image"]
        volumes = template["spec"]["template"]["spec"]["volumes"]
        assert job["spec"]["template"]["spec"]["volumes"] == volumes
        assert re.fullmatch(r"prepare-split-[0-9a-f]{12}", job["metadata"]["name"])
        # Kubernetes' own schema, in which no field is unknown.
        del job["status"]
        kubernetes_validate.validate(job, "1.31", strict=True)
        pod = job["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["terminationGracePeriodSeconds"] >= 60


def test_the_image_is_written_as_a_linter_asks_and_runs_as_the_user_of_its_jobs():
    file = ROOT / "workflow" / "container" / "Dockerfile"
    hadolint = Path(sys.executable).with_name("hadolint")
    subprocess.run([hadolint, file], check=True)
    job = yaml.safe_load((ROOT / "profiles" / "kubernetes" / "job.yaml").read_text())
    user = job["spec"]["template"]["spec"]["securityContext"]["runAsUser"]
    text = file.read_text(encoding="utf-8")
    assert text.endswith(f"USER {user}\n") and f"useradd --uid {user} " in text
