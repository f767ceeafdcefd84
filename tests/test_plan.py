"""What is refused, and what is made alike, when experiment files are expanded into jobs."""

import json
import shutil

import pytest

from fedatlas.errors import FedatlasError
from fedatlas.plan import build_plan, group_of
from workflow_copy import EXPERIMENT, ROOT


@pytest.fixture
def config(tmp_path):
    folder = tmp_path / "config"
    (folder / "experiments" / "demo").mkdir(parents=True)
    shutil.copy2(ROOT / "config" / "datasets.yaml", folder)
    (folder / "experiments" / "demo" / "small.yaml").write_text(EXPERIMENT, encoding="utf-8")
    return folder


def change(config, old, new):
    file = config / "experiments" / "demo" / "small.yaml"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_grids_expand_in_the_order_of_the_file(config):
    plan = build_plan(config)
    assert [key[1:] for key in plan.runs] == [
        ("fedpage", "global_step_size-0.1"),
        ("fedpage", "global_step_size-0.03"),
        ("scaffold", "only"),
        ("fedavg", "only"),
    ]
    assert plan.select(["demo-*"]) == ["demo-small"]
    assert group_of("demo-small") == "demo"


def test_equal_numbers_are_one_value_however_they_are_written(config):
    before = build_plan(config).runs["demo-small", "fedpage", "global_step_size-0.1"]
    change(config, "[0.1, 0.03]", "[1e-1, 0.03]")  # YAML reads 1e-1 as text
    after = build_plan(config).runs["demo-small", "fedpage", "global_step_size-0.1"]
    assert after == before
    assert json.loads(after.model_dump_json())["hyper_parameters"]["global_step_size"] == 0.1


def test_a_grid_that_repeats_a_value_is_refused(config):
    change(config, "[0.1, 0.03]", "[0.1, 1e-1]")
    with pytest.raises(FedatlasError, match=r"small\.yaml: runs\.fedpage\.grid.*twice"):
        build_plan(config)


@pytest.mark.parametrize("name", ["demo/My_Exp.yaml", "fm-gda/a.yaml", "demo/small2.yml"])
def test_files_that_would_not_be_found_are_refused(config, name):
    path = config / "experiments" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(EXPERIMENT, encoding="utf-8")
    with pytest.raises(FedatlasError, match=r"rename it"):
        build_plan(config)


def test_a_data_set_without_a_reader_is_refused(config):
    change(config, "breast-cancer", "mnist")
    with pytest.raises(FedatlasError, match=r"format 'idx', which cannot be read yet.*libsvm"):
        build_plan(config)


def test_readable_formats_have_a_reader():
    from fedatlas.data.catalogue import READABLE_FORMATS
    from fedatlas.data.formats import READERS

    assert set(READERS) == READABLE_FORMATS


def test_every_experiment_of_the_project_is_sound():
    plan = build_plan(ROOT / "config")
    assert {"demo-fedpage", "fedpage-fig1a", "fedpage-fig6b"} <= set(plan.experiments)
    for experiment in plan.experiments.values():
        assert len(experiment.seeds) == 5
