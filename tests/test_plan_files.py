"""Targets, files, dependencies and specifications that rules take from the plan."""

import json
from pathlib import Path

import pytest

from experiment_files import config_folder, plan_of_all
from fedatlas.plan import jobs, results
from fedatlas.plan.build import build_plan
from fedatlas.plan.places import RESULTS
from fedatlas.plan.selected import Selected, targets
from workflow_copy import EXPERIMENT

PAPER = """
newpaper:
  name: New
  title: "A new paper"
  authors: [Somebody]
  venue: Preprint
  year: 2026
  identifier: "arXiv:2601.00001"
"""


@pytest.fixture(scope="module")
def plan():
    return plan_of_all()


def test_a_new_paper_needs_the_configuration_folder_only(tmp_path):
    folder = config_folder(tmp_path) / "experiments" / "newpaper"
    folder.mkdir()
    with (tmp_path / "papers.yaml").open("a", encoding="utf-8") as stream:
        stream.write(PAPER)
    text = EXPERIMENT.replace("paper: fedpage", "paper: newpaper")
    (folder / "fig1.yaml").write_text(text, encoding="utf-8")
    plan = build_plan(tmp_path)
    assert targets(plan)[-1] == "newpaper"
    made = Selected(plan, ("newpaper-*",)).results_of("newpaper")
    assert f"{RESULTS}/experiments/newpaper-fig1/traces/scaffold/only.nc" in made
    assert {f"{RESULTS}/claims/newpaper.csv", f"{RESULTS}/claims/newpaper.html"} <= set(made)


def test_targets_are_papers_and_what_is_ours_but_not_the_demo(plan):
    assert sorted(targets(plan)) == sorted(
        ["crosspaper", "equal", "lower", "suite", "worst", *plan.papers]
    )


@pytest.mark.parametrize(
    ("experiment", "made"),
    [
        ("demo-fedpage", {"figure.svg", "figure.png", "table.csv"}),
        ("demo-vfb2", {"leaks.csv", "recovery.png", "collusion.csv", "trees.svg", "table.csv"}),
        ("dpgt-audit", {"privacy-audit.csv"}),
        ("fmgda-fig1", {"landscape.json", "landscape.svg", "landscape.png"}),
    ],
)
def test_files_of_an_experiment_follow_from_its_keys(plan, experiment, made):
    folder = f"{RESULTS}/experiments/{experiment}"
    files = results.experiment_files(plan, experiment)
    always = {"selection.json", "claims.csv"}
    assert {f"{folder}/{name}" for name in made | always} <= set(files)
    assert set(results.traces(plan, experiment)) <= set(files)
    surface = results.judged_file(plan, experiment, "landscape.json")
    assert bool(surface) == ("landscape.json" in made)


def test_a_training_job_waits_for_what_vouches_for_every_trial(plan):
    for spec in plan.runs.values():
        found = jobs.inputs(spec)
        assert all(len(files) == len(set(files)) for files in found.values())
        slugs = {spec.partition.of_seed(seed).slug for seed in spec.seeds}
        assert {Path(file).parent.name for file in found["manifests"]} == slugs
        assert bool(found["optima"]) == bool(spec.optimum)
        assert bool(found["tuning"]) == (spec.tuned_in is not None)


def test_splits_are_scaled_by_the_training_split_only_where_the_catalogue_says(plan):
    for name, dataset in plan.catalogue.items():
        for split in dataset.splits:
            train = [f"{RESULTS}/data/{name}/train.parquet"]
            expected = train if dataset.scaled_by_train and split != "train" else []
            assert jobs.scaled_by(plan.catalogue, name, split) == expected


def test_prose_does_not_decide_how_data_are_read(plan):
    told = json.loads(jobs.reading(plan.catalogue, "a9a", "train"))
    assert told["rows"] == 32561 and not {"title", "licence", "citation"} & set(told)
