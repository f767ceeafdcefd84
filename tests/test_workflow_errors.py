"""What the workflow says of commands, options, experiments and raw files, sound and unsound."""

import gzip
import hashlib
import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from snakemake.cli import get_argument_parser, parse_config
from snakemake.common.configfile import load_configfile
from snakemake.utils import update_config

from experiment_files import plan_of_all
from fedatlas.cli.run import settings_of
from fedatlas.errors import FedatlasError
from fedatlas.plan.places import RESULTS
from fedatlas.plan.results import experiment_files, traces
from fedatlas.plan.selected import Selected, plan_command, targets
from fedatlas.schema.config import load_config
from workflow_copy import ROOT, WorkflowCopy

SMALL = "config/experiments/demo/small.yaml"
CLAIMS = "results/experiments/demo-small/claims.csv"


@pytest.fixture
def workflow(tmp_path):
    return WorkflowCopy.create(tmp_path / "copy")


COMMANDS = [
    line
    for name in ("README.md", "docs/start.md", "docs/running.md", "docs/data.md")
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines()
    # An executor that is not installed, and a report of results that are not there.
    if line.startswith("snakemake ")
    and not any(word in line for word in ("--executor", "--report", "profiles/slurm"))
]


assert len(COMMANDS) >= 5


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_of_the_documentation_are_understood(tmp_path, line):
    arguments = shlex.split(line, comments=True)[1:]
    understood = get_argument_parser().parse_args(
        [word.replace("/data/mirror", str(tmp_path)) for word in arguments]
    )
    declared: dict[str, Any] = {}
    for file in [ROOT / "config" / "config.yaml", *(understood.configfile or ())]:
        update_config(declared, load_configfile(str(ROOT / file)))
    update_config(declared, parse_config(understood.config))
    configured = load_config(declared).experiments
    plan, named = plan_command(arguments, configured, ROOT / "config")
    selected = Selected(plan, list(named) or configured)
    groups = [name for name in understood.targets if name != "paper" and name not in named]
    assert set(groups) <= set(targets(plan))
    assert len(selected.results_of(*(groups or targets(plan)))) > 4


@pytest.mark.parametrize(
    "name", ["2024_06", "007", "no", "1e3", "a: b #c", "{x} 'q'", '"', "ü🙂\n"]
)
def test_a_mirror_may_have_any_name(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / name
    folder.mkdir()
    read = parse_config(settings_of(["demo-*"], Path(name), None))
    assert load_config(read).mirror == folder
    # In a file or behind a = no shell expands it.
    assert load_config({"mirror": f"~/{name}"}).mirror == folder
    monkeypatch.setenv("FEDATLAS_MIRROR", f"~/{name}")
    assert load_config({}).mirror == folder
    monkeypatch.setenv("FEDATLAS_SEEDS", f"~/{name}")
    assert load_config({}).seeds == load_config({"seeds": f"~/{name}"}).seeds == folder


@pytest.mark.parametrize("number", [202406, 1.5, False])
def test_a_mirror_that_yaml_takes_for_a_number_is_to_be_a_path(number):
    with pytest.raises(FedatlasError, match=r"key 'mirror'.* write it as \./NAME"):
        load_config({"mirror": number})


def kinds_of_work(name: str) -> set[tuple[str, ...]]:
    """What rules must make for an experiment: files of its paper, data as it is cut, methods."""
    plan = plan_of_all()
    paper = plan.experiments[name].paper
    files = [file for file in experiment_files(plan, name) if "/traces/" not in file]
    kinds: set[tuple[str, ...]] = {("file", paper, Path(file).name) for file in files}
    for run in plan.runs.values():
        if run.experiment == name:
            data = (run.dataset, run.split, run.partition.kind, run.backend)
            kinds |= {("data", *data), ("method", run.algorithm)}
    return kinds


def test_the_graph_of_all_papers_is_whole(workflow):
    """Of as few runs as have every kind of work: other experiments differ in what they name."""
    shutil.copytree(ROOT / "config", workflow.folder / "config", dirs_exist_ok=True)
    # A summary lists what a dry run would make, and formats no command of thousands of jobs.
    plan = plan_of_all()
    papers: list[str] = []
    had: set[tuple[str, ...]] = set()
    for name in sorted(plan.experiments, key=lambda name: len(list(traces(plan, name)))):
        if not name.startswith("demo-") and (new := kinds_of_work(name) - had):
            papers.append(name)
            had |= new
    assert {plan.experiments[name].paper for name in papers} >= set(plan.papers)
    chosen = f"experiments={json.dumps(papers)}"
    status, summary = workflow.ask("--summary", "paper", "--config", chosen)
    assert status == 0, summary
    planned = {line.split("\t")[0] for line in summary.splitlines() if line.endswith("pending")}
    expected = {f.replace(RESULTS, "results") for name in papers for f in traces(plan, name)}
    # Grids in which their runs are tuned are planned, too.
    assert expected <= {file for file in planned if "/traces/" in file}


def test_a_bad_experiment_ends_the_workflow_before_any_job(workflow):
    workflow.edit(SMALL, "seeds: [0, 1]", "seeds: [0, 0]")
    outcome = workflow.run()
    output = outcome.stdout + outcome.stderr
    assert outcome.returncode != 0
    assert "seed is listed twice" in output and "Traceback" not in output
    assert not workflow.results.exists()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--config", "experiments=['nothing-*']"],
         ["nothing-*", "matches no experiment", "demo-*"]),
        (["--config", "mirorr=/data"], ["unknown key 'mirorr'", "mirror"]),
        (["--config", "device=gpu"], ["device", "gpu"]),
        (["--config", "mirror=/no/such/folder"], ["mirror", "/no/such/folder", "not a folder"]),
    ],
)  # fmt: skip
def test_bad_options_are_refused_before_any_job(workflow, options, expected):
    output = workflow.refusal(*options)
    assert all(part in output for part in expected), output


def test_a_paper_target_says_how_to_select_its_experiments(workflow):
    status, output = workflow.ask("--cores", "2", "fedpage")
    assert status != 0 and "config/paper.yaml" in output


def test_unwritable_results_are_one_clear_error(workflow):
    workflow.results.write_text("a file where a folder belongs")
    assert "results is a file" in workflow.refusal()
    assert workflow.results.read_text() == "a file where a folder belongs"


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
ROWS = "".join(f"{1 + i % 2} 2:{i / 60} 7:1\n" if i % 5 else f"{1 + i % 2}\n" for i in range(60))


def libsvm_workflow(workflow, text):
    """Turn to a compressed LIBSVM file with codes 1 and 2, gaps and empty rows; its mirror."""
    mirror = workflow.folder.with_name("mirror")
    (mirror / "libsvm").mkdir(parents=True)
    raw = mirror / "libsvm" / "coded.gz"
    raw.write_bytes(gzip.compress(text.encode(), mtime=0))
    checksum = f"md5:{hashlib.md5(raw.read_bytes()).hexdigest()}"
    catalogue = LIBSVM_CATALOGUE.replace("CHECKSUM", checksum)
    (workflow.folder / "config" / "datasets.yaml").write_text(catalogue, encoding="utf-8")
    workflow.edit(SMALL, "breast-cancer", "coded")
    workflow.edit(SMALL, "clients: 56, samples: 560", "clients: 10")
    workflow.edit(SMALL, "per_round: 8", "per_round: 5")
    return mirror


def failure(workflow, *options):
    """Output of a run that fails without a traceback."""
    outcome = workflow.run(CLAIMS, *options)
    output = outcome.stdout + outcome.stderr
    assert outcome.returncode != 0 and "Traceback" not in output
    return output


def files_to_make(workflow, *arguments):
    """Outputs that a dry run for these arguments would make."""
    status, output = workflow.ask("--cores", "2", "--dry-run", *arguments)
    assert status == 0, output
    return re.findall(r"^    output: (.*)$", output, re.MULTILINE)


def test_without_mirror_and_network_the_error_says_what_to_do(workflow):
    libsvm_workflow(workflow, ROWS)
    workflow.edit("src/fedatlas/data/download.py", "pause: float = 2.0", "pause: float = 0.01")
    output = failure(workflow)
    for part in ("http://127.0.0.1:9/coded.gz", "libsvm/coded.gz", "--config mirror=DIR"):
        assert part in output
    assert not (workflow.results / "raw" / "libsvm" / "coded").exists()


def test_a_corrupted_mirror_file_prints_both_sums_and_keeps_nothing(workflow):
    mirror = libsvm_workflow(workflow, ROWS)
    raw = mirror / "libsvm" / "coded.gz"
    expected = hashlib.md5(raw.read_bytes()).hexdigest()
    raw.write_bytes(raw.read_bytes()[:-9] + b"corrupted")
    output = failure(workflow, "--config", f"mirror={mirror}")
    assert expected in output
    assert hashlib.md5(raw.read_bytes()).hexdigest() in output
    assert not list((workflow.results / "raw").glob("**/coded*"))


def test_an_own_file_is_mended_in_the_mirror_alone(workflow):
    mirror = libsvm_workflow(workflow, ROWS)
    catalogue = workflow.folder / "config" / "datasets.yaml"
    declared = catalogue.read_text(encoding="utf-8")
    entry = declared[: declared.index("        - path:")] + "        - path: libsvm/own\n"
    catalogue.write_text(entry, encoding="utf-8")
    own, prepared = mirror / "libsvm" / "own", "results/data/coded/train.parquet"
    own.write_text(f"{ROWS}2 10:1\n", encoding="utf-8")
    given = (prepared, "--config", f"mirror={mirror}")
    outcome = workflow.run(*given)
    assert outcome.returncode != 0
    assert f"Where the file is at fault, mend {own}" in outcome.stdout + outcome.stderr

    own.write_text(ROWS, encoding="utf-8")
    outcome = workflow.run(*given)
    output = outcome.stdout + outcome.stderr
    assert outcome.returncode == 0, output
    assert f"{own}: has changed, from sha256:" in output
    assert not files_to_make(workflow, *given) and not files_to_make(workflow, prepared)
    # So is a sound file that changes later, and the copy stays without a mirror.
    own.write_text(f"{ROWS}2 9:1\n", encoding="utf-8")
    assert files_to_make(workflow, *given) == ["results/raw/libsvm/own", prepared]
    assert not files_to_make(workflow, prepared)


def test_a_bad_libsvm_file_stops_before_training(workflow):
    mirror = libsvm_workflow(workflow, ROWS + "2 10:1\n")
    assert "libsvm/coded:61:" in failure(workflow, "--config", f"mirror={mirror}")
    assert not list(workflow.results.glob("data/**/*.parquet"))
