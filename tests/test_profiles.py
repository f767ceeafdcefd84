"""Profiles submit what rules ask for; every way of installing takes the same pinned versions.

The clusters here are stand-ins on PATH that record what they are asked. tests/slurm runs on a real
one. What needs Snakemake's plugins is skipped without them: `make test-cluster` brings them.
"""

import importlib.machinery
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from fedatlas.plan.build import build_plan
from slurm.check_slurm import differences
from trace_factory import make_trace
from workflow_copy import ROOT, WorkflowCopy

CLUSTERS = ("kubernetes", "slurm")
SELECTION = 'experiments=["demo-small"]'
SPLIT = "results/data/breast-cancer/train.parquet"
CONTAINERS = ("workflow/container/fedatlas.def", "workflow/container/Dockerfile")

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
    kind = "Failed" if code else "Complete"
    job["status"] = {{"conditions": [{{"type": kind, "status": "True"}}]}}
    (jobs / job["metadata"]["name"]).write_text(json.dumps(job))
elif sys.argv[1:3] == ["get", "job"]:
    print((jobs / sys.argv[3]).read_text())
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


def read_profile(name):
    return yaml.safe_load((ROOT / "profiles" / name / "config.yaml").read_text(encoding="utf-8"))


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def pinned():
    """Versions of constraints.txt by canonical name."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


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


def kubernetes_program(name):
    """One of the profile's programs as a module."""
    path = ROOT / "profiles" / "kubernetes" / name
    loader = importlib.machinery.SourceFileLoader(f"kubernetes_{name}", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", CLUSTERS)
def test_no_key_is_overruled_by_the_default_profile(name):
    assert set(read_profile(name)) & set(read_profile("default")) == set()


@pytest.mark.parametrize("name", CLUSTERS)
def test_profiles_select_the_papers_and_retry(name):
    profile = read_profile(name)
    assert (ROOT / profile["configfile"]).is_file()
    assert profile["retries"] >= 1


def test_slurm_submits_what_rules_ask_for_and_more_at_each_retry(workflow, programs):
    pytest.importorskip("snakemake_executor_plugin_slurm")
    for name in ("sbatch", "sinfo", "sacct", "sacctmgr", "scontrol", "squeue", "sshare"):
        add_program(programs, name, SLURM)
    resources = ("--default-resources", "slurm_partition='short'", "slurm_account='ours'")
    at_once = ("--slurm-init-seconds-before-status-checks", "1")
    outcome = submit(workflow, "slurm", SPLIT, *resources, *at_once)
    assert outcome.returncode != 0
    assert "this is no cluster" in outcome.stdout + outcome.stderr
    lines = (programs / "submitted").read_text(encoding="utf-8").splitlines()
    asked = [" ".join(json.loads(line)) for line in lines]
    assert len(asked) == 1 + read_profile("slurm")["retries"]
    for attempt, line in enumerate(asked, start=1):
        assert f" --mem {4000 * attempt} " in line
        assert f" -t {60 * attempt} " in line
        assert " -p short " in line
        assert " -A ours " in line
        assert " --cpus-per-task=1 " in line
        assert "--gpus" not in line


@pytest.mark.parametrize(("device", "gpus"), [("cuda", {"1"}), ("cpu", {"0"})])
def test_training_asks_for_a_gpu_where_the_device_is_one(workflow, device, gpus):
    pytest.importorskip("snakemake_executor_plugin_slurm")
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
    pytest.importorskip("snakemake_executor_plugin_slurm")
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
    pytest.importorskip("snakemake_executor_plugin_cluster_generic")
    add_program(programs, "kubectl", KUBECTL)
    outcome = submit(workflow, "kubernetes", SPLIT, "--seconds-between-status-checks", "1")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert (workflow.folder / SPLIT).is_file()
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


@pytest.mark.parametrize(
    ("code", "answer", "error", "status"),
    [
        (0, {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}, "", "success"),
        (0, {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}, "", "failed"),
        (0, {"status": {"conditions": [{"type": "Failed", "status": "False"}]}}, "", "running"),
        (0, {"status": {"active": 1}}, "", "running"),
        (0, {}, "", "running"),
        (1, None, "Error from server (NotFound): jobs.batch", "failed"),
        (1, None, "Unable to connect to the server", "running"),
    ],
)
def test_kubernetes_status(code, answer, error, status):
    outcome = subprocess.CompletedProcess([], code, json.dumps(answer), error)
    assert kubernetes_program("status").status_of(outcome) == status


@pytest.mark.parametrize("gpus", [0, 2])
def test_kubernetes_is_asked_for_gpus_by_jobs_that_want_some(tmp_path, gpus):
    script = tmp_path / "job.sh"
    stated = {
        "type": "single",
        "rule": "train_run",
        "threads": 3,
        "resources": {"mem_mb": 2000, "runtime": 240, "gpu": gpus},
    }
    script.write_text(f"#!/bin/sh\n# properties = {json.dumps(stated)}\ntrue\n", encoding="utf-8")
    template = ROOT / "profiles" / "kubernetes" / "job.yaml"
    job = kubernetes_program("submit").manifest(script, template)
    container = job["spec"]["template"]["spec"]["containers"][0]
    wanted = {"cpu": "3", "memory": "2000M"} | ({"nvidia.com/gpu": "2"} if gpus else {})
    assert container["resources"] == {"requests": wanted, "limits": wanted}
    assert container["command"] == ["/bin/sh", str(script)]
    assert job["metadata"]["name"].startswith("train-run-")


def test_kubernetes_refuses_a_script_that_is_no_job(tmp_path):
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\ntrue\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="is it a job of Snakemake"):
        kubernetes_program("submit").properties(script)


def test_kubernetes_cancels_all_jobs_at_once(programs):
    add_program(programs, "kubectl", '#!/bin/sh\necho "$@"\n')
    program = ROOT / "profiles" / "kubernetes" / "cancel"
    said = subprocess.run([program, "team/one", "team/two"], capture_output=True, text=True).stdout
    assert said.split()[:2] == ["delete", "job"]
    assert said.split()[-4:] == ["--namespace", "team", "one", "two"]


def test_constraints_pin_one_version_of_everything():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", pin) for pin in pins)
    assert len(pins) == len(pinned())


def test_constraints_pin_what_the_project_asks_for_within_its_bounds():
    extras = [each for extra in project()["optional-dependencies"].values() for each in extra]
    for text in project()["dependencies"] + extras:
        requirement = Requirement(text)
        version = pinned()[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), f"{requirement} is pinned to {version}"


def test_constraints_pin_what_dependencies_need_in_turn():
    known = {canonicalize_name(each.metadata["Name"]): each for each in metadata.distributions()}
    pending = [canonicalize_name(Requirement(each).name) for each in project()["dependencies"]]
    # Brought by the GPU builds of torch only, each of which has a set of its own.
    seen, builds = set(), re.compile(r"nvidia-|cuda-|triton")
    while pending:
        name = pending.pop()
        if name in seen or name not in known:
            continue
        seen.add(name)
        for text in known[name].requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                pending.append(canonicalize_name(requirement.name))
    unpinned = {name for name in seen - {"setuptools"} if not builds.match(name)} - set(pinned())
    assert "snakemake" in seen
    assert unpinned == set()


def test_conda_and_containers_install_the_pinned_set():
    environment = yaml.safe_load((ROOT / "environment.yaml").read_text(encoding="utf-8"))
    *conda, pip = environment["dependencies"]
    # conda brings the interpreter alone, whose versions nothing pins.
    assert {re.split("[=<>]", each)[0] for each in conda} == {"python", "pip"}
    assert "--constraint constraints.txt" in pip["pip"]
    pythons = [each.split("=")[1] for each in conda if each.startswith("python=")]
    for path in CONTAINERS:
        recipe = (ROOT / path).read_text(encoding="utf-8")
        commands = re.findall(r"pip install.*", recipe)
        assert commands, path
        for command in commands:
            assert "--constraint /opt/fedatlas/constraints.txt" in command, path
            for name, version in re.findall(r"([a-z0-9-]+)==([0-9.]+)", command):
                assert pinned()[name] == version, path
        pythons += re.findall(r"python:(\d+\.\d+)-", recipe)
    assert len(pythons) == 1 + len(CONTAINERS)
    assert len(set(pythons)) == 1
    assert all(version in SpecifierSet(project()["requires-python"]) for version in pythons)


def test_containers_copy_what_they_install():
    for path in CONTAINERS:
        recipe = (ROOT / path).read_text(encoding="utf-8")
        for name in ("pyproject.toml", "constraints.txt", "README.md", "LICENSE", "src"):
            assert re.search(rf"(?m)^(COPY|   ) ?.*\b{re.escape(name)}\b.* /opt/", recipe), path


def test_traces_are_compared_to_the_last_bit_but_for_time_and_host(tmp_path):
    first, second = tmp_path / "first.nc", tmp_path / "second.nc"
    trace = make_trace([[1.0, 0.5, np.nan], [1.0, 0.25, 0.125]])
    trace.to_netcdf(first)
    trace.attrs |= {"device": "cuda:1", "versions": "{}"}
    moved = trace.assign_coords(wall_time=trace.wall_time + 1)
    moved.to_netcdf(second)
    assert differences(first, second) == []
    changed = moved.copy(deep=True)
    changed.gradient_norm[1, 1] = np.nextafter(0.25, 1)
    changed.attrs["source_digest"] = "another"
    second.unlink()
    changed.drop_vars("objective").to_netcdf(second)
    assert differences(first, second) == ["gradient_norm", "objective", "attribute source_digest"]
