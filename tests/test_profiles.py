"""Profiles agree with each other; every way of installing takes the same pinned versions."""

import importlib.machinery
import importlib.util
import json
import os
import re
import subprocess
import tomllib
from importlib import metadata

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from workflow_copy import ROOT

CLUSTERS = ("kubernetes", "slurm")
CONTAINERS = ("workflow/container/fedatlas.def", "workflow/container/Dockerfile")


def read_profile(name):
    return yaml.safe_load((ROOT / "profiles" / name / "config.yaml").read_text(encoding="utf-8"))


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def pinned():
    """Versions of constraints.txt by canonical name."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


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
    declared = {
        "type": "single",
        "rule": "train_run",
        "threads": 3,
        "resources": {"mem_mb": 2000, "runtime": 240, "gpu": gpus},
    }
    script.write_text(f"#!/bin/sh\n# properties = {json.dumps(declared)}\ntrue\n", encoding="utf-8")
    template = ROOT / "profiles" / "kubernetes" / "job.yaml"
    job = kubernetes_program("submit").manifest(script, template)
    container = job["spec"]["template"]["spec"]["containers"][0]
    wanted = {"cpu": "3", "memory": "2000M"} | ({"nvidia.com/gpu": "2"} if gpus else {})
    assert container["resources"] == {"requests": wanted, "limits": wanted}
    assert container["command"][-1] == str(script)
    assert job["metadata"]["name"].startswith("train-run-")


def test_kubernetes_refuses_a_script_that_is_no_job(tmp_path):
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\ntrue\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="is it a job of Snakemake"):
        kubernetes_program("submit").properties(script)


def test_kubernetes_cancels_all_jobs_at_once(tmp_path):
    kubectl = tmp_path / "kubectl"
    kubectl.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
    kubectl.chmod(0o755)
    said = subprocess.run(
        [ROOT / "profiles" / "kubernetes" / "cancel", "team/one", "team/two"],
        env=os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    ).stdout
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
        if requirement.name == "fedatlas":  # with extras of its own
            continue
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
