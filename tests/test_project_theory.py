"""Theorems of a project, as the page on them shows: drawn, tabulated, and refused where wrong."""

import json
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
import xarray as xr

import fedatlas
from experiment_files import config_folder
from fedatlas.algorithms import algorithm_class
from fedatlas.code import SourceTree
from fedatlas.data.prepare import prepare
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.bounds import LAST_SUBOPTIMALITY, SQUARED_GRADIENT, Row
from fedatlas.extensions import added_sources, projects
from fedatlas.federations.context import shard_files
from fedatlas.figures.theory import compose_theory
from fedatlas.plan.build import build_plan
from fedatlas.plan.results import theory_code
from fedatlas.shards.writing import write_shards
from fedatlas.studies import theory
from fedatlas.studies.theory import theorems_of_runs
from fedatlas.theorems import theorems_on
from fedatlas.theory.constants import Constants
from fedatlas.theory.theorems import Course
from fedatlas.training.loop import train
from figure_factory import is_drawn, legend
from outside_project import open_project, whole_files
from small_federations import small

FILES = MappingProxyType(whole_files("methods", "adding/theorem"))
THEOREM = "theorems/local_momentum.py"
NAME = "project-theorem"


@pytest.fixture
def lab(tmp_path, monkeypatch):
    return open_project(tmp_path / "lab", FILES, monkeypatch)


@pytest.fixture
def plan(lab, tmp_path):
    """Of the page's experiment."""
    return build_plan(config_folder(tmp_path / "config"), lab)


def test_a_projects_theorem_is_tabulated_and_drawn(plan, tmp_path):
    traces, shards = {}, tmp_path / "shards"
    experiment = plan.experiments[NAME]
    prepared = tmp_path / "train.parquet"
    prepare(plan.catalogue["breast-cancer"], "train", [], prepared)
    for spec in plan.runs_of(NAME):
        for seed in spec.seeds:
            folder = shards / spec.dataset / spec.split / spec.partition.of_seed(seed).slug
            if not folder.exists():
                folder.mkdir(parents=True)
                files = shard_files(folder, 1)
                write_shards(
                    prepared, spec.partition.of_seed(seed), files, folder / "manifest.json", None
                )
        trace = train(spec, shards / spec.dataset / spec.split, tmp_path / f"{spec.run}.nc")
        traces[spec.run] = {spec.point: trace}
    rows = theorems_of_runs(traces, shards)
    assert [(row["run"], row["bounds"], row["covered"]) for row in rows] == [
        ("one-step", SQUARED_GRADIENT, True),
        ("one-step", LAST_SUBOPTIMALITY, True),
        ("sampled", SQUARED_GRADIENT, False),
        ("sampled", LAST_SUBOPTIMALITY, False),
    ]
    assert {row["lacks"] for row in rows} == {"", "K = 1, S = N"}
    # What gradient descent with f* known promises, at every record.
    found = theorems_of_runs({"one-step": traces["one-step"]}, shards)
    trace, row = traces["one-step"]["only"], found[1]
    gaps = trace.objective.to_numpy() - row["optimum"]
    bound = gaps[0, 0] * (1 - 0.25 * 0.1) ** trace["round"].to_numpy()
    assert (gaps <= bound * (1 + 1e-9)).all() and row["promised"] == pytest.approx(bound[0, -1])
    titles = {run: declared.title or run for run, declared in experiment.runs.items()}
    drawn = [Row(**each) for each in rows]
    canvas = compose_theory("title", titles, traces, drawn)
    assert "Gradient descent, strongly convex, as printed" in " ".join(
        legend(canvas.axes[1])
    ).replace("\n", " ")
    is_drawn([tmp_path / "theory.png"], compose_theory, "A title", titles, traces, drawn)


def momentum_run(**hyper):
    """The page's method as a run has it, where only its class counts."""
    values = {"clients_per_round": 4, "local_steps": 1, "local_step_size": 0.1, "momentum": 0.5}
    return algorithm_class("local_momentum").model_validate(values | hyper)


CONSTANTS = Constants(4, 10, 2.0, 2.0, 0.4, 1.0, 0.1, 0.5)
COURSE = Course(rounds=50)


def test_a_step_that_is_too_large_is_told_with_the_bound_of_a_covered_one(lab):
    first, second = theorems_on(momentum_run(local_step_size=1.0), CONSTANTS, COURSE)
    assert not first.covers and first.steps[0].factor == pytest.approx(2.0)
    assert first.bound.after(50) == pytest.approx(2 * 0.4 / (0.5 * 50))
    assert second.bound.after(50) == pytest.approx(0.4 * 0.75**50)
    assert theorems_on(momentum_run(), object(), COURSE) == []  # other problems


HEAD = "from fedatlas.theory.constants import Constants\n\n\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\n", r"local_momentum\.py: must define theorems\(method, constants, course\)"),
        ("def theorems(m, c, k):\n    return []\n", r"line 1: annotate 'c' with the constants"),
        ("def theorems(m, c: 'C', k):\n    return []\n", r"line 1: name 'C' is not defined"),
        (HEAD + "def theorems(m, c: Constants):\n    return []\n", r"line 4: must be theorems"),
        (HEAD + "def theorems(m, c: Constants, k):\n    return 1\n", "return a list of Theorem: 1"),
        ("import torchh\n", r"lab/theorems/local_momentum\.py, line 1, in <module>: ModuleNot"),
        ("def theorems(:\n", r"lab/theorems/local_momentum\.py, line 1: invalid syntax"),
    ],
)
def test_a_file_that_is_not_as_it_must_be_is_named(tmp_path, monkeypatch, text, told):
    open_project(tmp_path / "lab", FILES | {THEOREM: text}, monkeypatch)
    with pytest.raises(FedatlasError, match=told):
        theorems_on(momentum_run(), CONSTANTS, COURSE)


def test_theorems_on_agents_know_their_graphs():
    trace = xr.Dataset(attrs={"specification": json.dumps({"rounds": 3})})
    (states,) = theory._course(trace, small("gaussian_gradient_descent"), None).graphs
    ring = np.roll(np.eye(5), 1, axis=0) + np.roll(np.eye(5), -1, axis=0)
    np.testing.assert_allclose(states, ring / 3)
    assert theory._course(trace, small("fedavg"), None).graphs == ()


def test_an_edit_makes_the_tables_again_and_trains_nothing(lab, plan):
    (spec, *_), codes = plan.runs_of(NAME), theory_code(plan, NAME)
    assert codes == ["fedatlas.algorithms.local_momentum", "fedatlas.theorems.local_momentum"]

    def digests():
        tree = SourceTree(Path(fedatlas.__path__[0]), added_sources(projects()))
        return tree.digest(*spec.code), tree.digest(*codes)

    before = digests()
    file = lab / THEOREM
    file.write_text(FILES[THEOREM] + "# A comment.\n", encoding="utf-8")
    assert digests() == before
    file.write_text(FILES[THEOREM].replace("2 * constants.gap", "constants.gap"), encoding="utf-8")
    after = digests()
    assert after[0] == before[0] and after[1] != before[1]
