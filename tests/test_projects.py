"""Projects: what is found where, clashes of names, code that counts, and starts that pass."""

import re
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from experiment_files import config_folder
from fedatlas import extensions
from fedatlas.algorithms import algorithm_class, algorithm_names
from fedatlas.architectures import architecture, architecture_names
from fedatlas.cli import app
from fedatlas.code import SourceTree, code_digest, import_closure
from fedatlas.errors import FedatlasError
from fedatlas.extensions import VARIABLE, added_sources, projects
from fedatlas.plan.build import build_plan
from fedatlas.plan.places import catalogue_files, find_projects
from fedatlas.schema.experiment_files import read_experiments
from fedatlas.training.rehearsal import rehearse, rehearse_without_data
from outside_project import DOCS, open_project, whole_files, write_project
from small_federations import CLIENTS, LINEAR, LOCAL, small_shards, specification
from workflow_copy import EXPERIMENT, ROOT

METHODS = whole_files("methods")
MOMENTUM = METHODS["methods/local_momentum.py"]
SHIPPED = ROOT / "config"


@pytest.fixture
def config(tmp_path):
    """A configuration folder with one experiment, which is planned quickly."""
    config = config_folder(tmp_path / "config")
    return write_project(config, {"experiments/demo/fedpage.yaml": EXPERIMENT})


@pytest.fixture(autouse=True)
def no_project(monkeypatch):
    """None but those that a test opens."""
    monkeypatch.setenv(VARIABLE, "")


def test_its_methods_and_networks_are_found_by_name(tmp_path, monkeypatch):
    files = METHODS | {
        "architectures/mlp.py": "def build(shape, outputs):\n    return shape, outputs\n",
        "methods/_shared.py": "",
    }
    folder = open_project(tmp_path, files, monkeypatch)
    assert {"local_momentum", "dsgd", "vfb2_momentum", "fedavg"} <= set(algorithm_names())
    assert "_shared" not in algorithm_names() and "mlp" in architecture_names()
    module = sys.modules[algorithm_class("local_momentum").__module__]
    assert Path(str(module.__file__)) == folder / "methods/local_momentum.py"
    assert architecture("mlp")(1, 2) == (1, 2)


@pytest.mark.parametrize(
    ("files", "other"),
    [
        ({"methods/fedavg.py": MOMENTUM}, "fedatlas/algorithms/fedavg.py"),
        ({"architectures/linear.py": ""}, "fedatlas/architectures/linear.py"),
    ],
)
def test_a_name_that_is_taken_is_an_error_with_both_files(tmp_path, monkeypatch, files, other):
    (name,) = files
    with pytest.raises(FedatlasError, match=rf"{tmp_path}/{name}: .*{other}.*rename the file"):
        open_project(tmp_path, files, monkeypatch)


def test_so_is_that_of_a_network_within_a_file(tmp_path, monkeypatch):
    network = (
        "def mlp(shape, outputs):\n    return shape\n\n\ndef {}(shape, outputs):\n    return 1\n"
    )
    open_project(tmp_path, {"architectures/own.py": network.format("other")}, monkeypatch)
    assert {"mlp", "other"} <= set(architecture_names()) and "own" not in architecture_names()
    assert architecture("mlp")(1, 2) == 1
    files = {"architectures/two.py": network.format("cnn_8x8")}
    open_project(tmp_path / "second", files, monkeypatch)
    with pytest.raises(
        FedatlasError, match=r"two\.py: .*convolutional\.py has a network 'cnn_8x8'"
    ):
        architecture_names()


CLASHES = {
    "datasets.yaml": ("a9a: {}", "datasets.yaml: a9a: .*config/datasets.yaml describes"),
    "papers.yaml": ("vfb2: {}", "papers.yaml: key 'vfb2': .*config/papers.yaml describes"),
    "experiments/demo/fedpage.yaml": (EXPERIMENT, "fedpage.yaml: 'demo-fedpage' is declared in "),
}


@pytest.mark.parametrize("name", CLASHES)
def test_so_is_that_of_data_papers_and_experiments(config, tmp_path, name):
    text, told = CLASHES[name]
    with pytest.raises(FedatlasError, match=told):
        build_plan(config, write_project(tmp_path / "lab", {name: text}))


def test_its_experiments_need_no_folder(config, tmp_path):
    files = {"experiments/mine.yaml": EXPERIMENT, "experiments/group/other.yaml": EXPERIMENT}
    lab = write_project(tmp_path / "lab", files)
    # What editors and systems leave there.
    for left in (".mine.yaml.swp.yml", "group/._other.yaml", ".backup/mine.yaml"):
        write_project(lab / "experiments", {left: "\0\5\26\7"})
    (lab / "experiments/group/.#other.yaml").symlink_to("me@host.4711:1700000000")
    plan = build_plan(config, lab)
    assert {"project-mine", "group-other"} <= set(plan.experiments)


def test_tables_of_times_lie_beside_the_experiment(tmp_path):
    network = "\nnetwork: {compute: {kind: measured, file: times.csv}}\n"
    folder = write_project(tmp_path, {"mine.yaml": EXPERIMENT + network})
    (declared,) = read_experiments(folder).values()
    assert declared.content["network"]["compute"]["file"] == str(tmp_path / "times.csv")


# Which folders are projects.


def test_folders_that_have_a_part_of_one_are_projects(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE)
    lab = write_project(tmp_path / "lab", {"datasets.yaml": ""})
    (tmp_path / "empty").mkdir()
    assert find_projects([tmp_path / "empty", lab, lab, SHIPPED, ROOT]) == [lab]
    monkeypatch.setenv(VARIABLE, str(tmp_path / "empty"))
    assert find_projects([lab]) == [tmp_path / "empty"]
    monkeypatch.setenv(VARIABLE, str(tmp_path / "gone"))
    with pytest.raises(FedatlasError, match=f"{VARIABLE}=.*gone is no folder"):
        find_projects([])


def test_installed_packages_offer_projects(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE)
    files = METHODS | {
        "__init__.py": "",
        "methods/__init__.py": "",
        "methods/mine.py": "from somelab.losses import pull\n",
    }
    folder = write_project(tmp_path / "somelab" / "fed", files)
    for name in ("__init__", "losses"):
        (folder.parent / f"{name}.py").write_text("pull = 1\n", encoding="utf-8")
    points = "[fedatlas.projects]\nsomelab = somelab.fed\n"
    about = {"METADATA": "Name: somelab\nVersion: 1\n", "entry_points.txt": points}
    write_project(tmp_path / "somelab-1.dist-info", about)
    monkeypatch.syspath_prepend(tmp_path)
    assert find_projects([]) == [folder]
    open_project(folder, {}, monkeypatch)
    closure = import_closure("fedatlas.algorithms.mine")
    assert {"algorithms/mine.py", "somelab/losses.py", "somelab/__init__.py"} <= set(closure)
    before = code_digest("fedatlas.algorithms.mine"), code_digest("fedatlas.algorithms.dsgd")
    (folder.parent / "losses.py").write_text("pull = 2\n", encoding="utf-8")
    tree = SourceTree(ROOT / "src/fedatlas", added_sources(projects()))
    after = [tree.digest(f"fedatlas.algorithms.{name}") for name in ("mine", "dsgd")]
    assert before[0] != after[0] and before[1] == after[1]
    about["entry_points.txt"] = "[fedatlas.projects]\nlab = somelab.gone\n"
    write_project(tmp_path / "somelab-1.dist-info", about)
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(FedatlasError, match=r"entry point 'lab' .*'somelab\.gone' is no package"):
        find_projects([])


# Its code.


def test_where_a_method_lies_is_no_part_of_its_meaning(tmp_path, monkeypatch):
    package = tmp_path / "fedatlas"
    for folder in ("", "algorithms"):
        write_project(package / folder, {"__init__.py": ""})
    own = SourceTree(package, [("fedatlas.algorithms", tmp_path / "methods")])
    write_project(tmp_path, {"methods/mine.py": "x = 1\n"})
    outside = SourceTree(package, [("fedatlas.algorithms", tmp_path / "methods")])
    with pytest.raises(ValueError, match="no module"):
        own.digest("fedatlas.algorithms.mine")
    write_project(package, {"algorithms/mine.py": "x = 1  # the same\n"})
    inside = SourceTree(package)
    assert inside.digest("fedatlas.algorithms.mine") == outside.digest("fedatlas.algorithms.mine")


def test_a_rehearsal_names_the_projects_file(tmp_path, monkeypatch):
    wrong = MOMENTUM.replace("network.gather(y - x)", "network.gather(y - state.x)")
    folder = open_project(tmp_path / "lab", {"methods/local_momentum.py": wrong}, monkeypatch)
    monkeypatch.chdir(tmp_path)
    spec = specification(
        "local_momentum",
        partition=CLIENTS,
        objective=LINEAR,
        hyper_parameters=LOCAL | {"momentum": 0.5},
    )
    with pytest.raises(
        FedatlasError, match=r"^lab/methods/local_momentum\.py: what clients send depends"
    ):
        rehearse(spec, small_shards(folder, "fedavg"))


# Starts.


def fedatlas(*arguments):
    outcome = CliRunner().invoke(app, [*map(str, arguments)])
    if isinstance(outcome.exception, FedatlasError):
        raise outcome.exception
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A new project, the working directory."""
    monkeypatch.chdir(tmp_path)
    assert "Next: cd lab" in fedatlas("new", "project", "lab")
    open_project(tmp_path / "lab", {}, monkeypatch)
    monkeypatch.chdir(tmp_path / "lab")
    return tmp_path / "lab"


def test_a_project_runs_as_the_repository_does(lab):
    settings = (lab / "profiles/default/config.yaml").read_text("utf-8")
    assert settings == (ROOT / "profiles/default/config.yaml").read_text("utf-8")
    assert "keep-going: true" in settings and "rerun-incomplete: true" in settings


@pytest.mark.parametrize("part", ["experiments", "methods"])
def test_nothing_begins_in_a_part_of_a_project(lab, monkeypatch, part):
    fedatlas("new", "method", "mine")
    monkeypatch.chdir(lab / part)
    with pytest.raises(FedatlasError, match=f"is a part of the project {lab}: go to {lab}"):
        fedatlas("new", "method", "other")
    assert not (lab / part / "methods").exists()


def test_starts_pass_their_checks(config, lab, monkeypatch):
    for kind, name in (("method", "my_own"), ("dataset", "letters"), ("experiment", "second")):
        assert "Next: " in fedatlas("new", kind, name)
    unquoted = ("1e3", "0x1F", "off", "2024-11-05", "1.50", "Null")
    for name in ("digits.2", *unquoted):
        fedatlas("new", "dataset", name)
    fedatlas("new", "experiment", "2025")
    open_project(lab, {}, monkeypatch)
    plan = build_plan(config, lab)
    assert {"project-first", "project-second", "project-2025"} <= set(plan.experiments)
    assert {"letters", "digits.2", *unquoted} <= set(plan.catalogue)
    assert all(plan.catalogue[name].title == name for name in unquoted)
    assert catalogue_files()[1:] == [lab / "datasets.yaml"]
    entries = (lab / "datasets.yaml").read_text("utf-8")
    assert entries.count("docs/adding/dataset.md") == 1 and '\n\n"digits.2":\n' in entries
    assert "fedatlas run --mirror DIR" in entries
    # What is judged is what the claim says.
    tests = {claim.id: claim.test for claim in plan.experiments["project-first"].claims}
    assert tests["fewer-rounds"].kind == "cost_to_target"
    assert tests["fewer-rounds"].cost == "round"
    assert tests["lower-at-the-end"].kind == "order"


def test_methods_of_every_kind_begin_with_runs_that_are_rehearsed(config, lab, monkeypatch):
    kinds = ("horizontal", "decentralised", "vertical", "min_max", "tiered")
    for kind in kinds:
        told = fedatlas("new", "method", f"own_{kind}", "--kind", kind)
        slug = f"own-{kind}".replace("_", "-")
        assert f"rehearse own_{kind}" in told and f"run project-{slug}" in told
    extensions._names.cache_clear()  # each command is a process of its own
    files = [f"methods/own_{kind}.py" for kind in kinds]
    open_project(lab, {file: (lab / file).read_text("utf-8") for file in files}, monkeypatch)
    plan = build_plan(config, lab)
    for kind in kinds:
        own, *others = plan.runs_of(f"project-own-{kind}".replace("_", "-"))
        assert (own.algorithm, own.federation.name) == (f"own_{kind}", kind)
        assert len({run.algorithm for run in others} - {own.algorithm}) == 1
        assert "does what a method promises" in rehearse_without_data(own)
        # Enough seeds to decide what it asks: how the method compares with the other one.
        begun = plan.experiments[own.experiment]
        assert len(begun.seeds) == 6 and begun.tuning_seeds
        assert {claim.test.runs[0] for claim in begun.claims} == {own.run}


def test_short_examples_of_the_documentation_are_sound(config, lab, monkeypatch):
    page = (DOCS / "adding.md").read_text("utf-8")
    loans, experiment = re.findall(r"```yaml\n((?:loans|paper):.*?)```", page, re.DOTALL)
    page = (DOCS / "adding" / "dataset.md").read_text("utf-8")
    mushrooms, table, parquet = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    described = "title: x, homepage: 'https://example.org', licence: x, citation: x"
    with (lab / "datasets.yaml").open("w", encoding="utf-8") as entries:
        entries.write(f"{loans}  <<: {{{described}}}\n{mushrooms.replace('mushrooms', 'fungi', 1)}")
        entries.write(
            f"grades:\n{table}  <<: {{{described}, labels: {{0: -1, 1: 1}}, task: binary}}\n"
        )
        entries.write("  splits: {train: {files: [{path: grades.csv}]}}\n")
        entries.write(
            f"years:\n{parquet}  <<: {{{described}, labels: {{0: -1, 1: 1}}, task: binary}}\n"
        )
    (lab / "experiments/short.yaml").write_text(experiment, encoding="utf-8")
    open_project(lab, {}, monkeypatch)
    plan = build_plan(config, lab)
    assert plan.experiments["project-short"].dataset == "breast-cancer"
    assert plan.catalogue["loans"].standardise and plan.catalogue["grades"].features == 4
    assert plan.catalogue["fungi"].features == 112
    assert len(plan.catalogue["years"].split("train").files) == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("method", "fedavg"), "methods/fedavg.py: there is a method 'fedavg' elsewhere"),
        (("method", "Mine"), "lower-case letters, digits and underscores"),
        (("method", "first"), "experiments/first.yaml: exists; it is left as it is"),
        (("method", "mine", "--kind", "ring"), "'--kind', value 'ring': must be one of decentral"),
        (("dataset", "mine", "--kind", "tiered"), "'--kind', value 'tiered': is for methods"),
        (("dataset", "a9a"), "datasets.yaml: describes a data set 'a9a'"),
        (("experiment", "first"), "experiments/first.yaml: exists; it is left as it is"),
        (("experiment", "my_own"), "lower-case letters, digits and hyphens"),
    ],
)
def test_names_that_are_taken_or_bad_are_refused(lab, arguments, told):
    with pytest.raises(FedatlasError, match=told):
        fedatlas("new", *arguments)


def test_nothing_begins_in_the_repository_itself(monkeypatch):
    monkeypatch.chdir(ROOT)
    with pytest.raises(FedatlasError, match="is the repository of fedatlas: begin a project"):
        fedatlas("new", "method", "mine")
