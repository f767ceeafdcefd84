"""A plan that is read instead of built is never another than would be built now."""

import shutil

import pytest

from fedatlas.plan import stored
from fedatlas.plan.build import build_plan
from fedatlas.plan.stored import load_plan
from fedatlas.plan.training import told
from workflow_copy import EXPERIMENT, ROOT


@pytest.fixture
def folders(tmp_path):
    """A configuration and a package, whose code is not looked at but for its bytes."""
    config, package = tmp_path / "config", tmp_path / "package"
    (config / "experiments/demo").mkdir(parents=True)
    for name in ("datasets.yaml", "papers.yaml"):
        shutil.copy2(ROOT / "config" / name, config)
    (config / "experiments/demo/small.yaml").write_text(EXPERIMENT, encoding="utf-8")
    (package / "inner").mkdir(parents=True)
    for file in ("__init__.py", "inner/code.py"):
        (package / file).write_text("", encoding="utf-8")
    return config, package


@pytest.fixture
def built(monkeypatch):
    """The folders of which plans were built, one after the other."""
    folders = []

    def counted(config):
        folders.append(config)
        return build_plan(config)

    monkeypatch.setattr(stored, "build_valid_plan", counted)
    return folders


def test_what_is_read_is_what_was_built(folders, built):
    _, package = folders
    config = ROOT / "config"
    first, second = load_plan(config, package), load_plan(config, package)
    assert built == [config]
    assert first == second
    assert [told(spec) for spec in first.runs.values()] == [
        told(spec) for spec in second.runs.values()
    ]


@pytest.mark.parametrize(
    "edited",
    [
        "config/experiments/demo/small.yaml",
        "config/experiments/demo/more.yaml",
        "config/papers.yaml",
        "config/datasets.yaml",
        "package/inner/code.py",
        "package/inner/new.py",
    ],
)
def test_any_edit_counts(folders, built, tmp_path, edited):
    load_plan(*folders)
    text = (tmp_path / "config/experiments/demo/small.yaml").read_text(encoding="utf-8")
    with (tmp_path / edited).open("a", encoding="utf-8") as file:
        file.write(text if edited.endswith("more.yaml") else "# a comment\n")
    load_plan(*folders)
    load_plan(*folders)
    assert len(built) == 2


def test_a_file_that_is_refused_is_seen(folders):
    load_plan(*folders)
    (folders[0] / "experiments/demo/more.yml").touch()
    assert [fault.name for fault in load_plan(*folders).faults] == ["demo-more"]
    (folders[0] / "experiments/demo/more.yml").unlink()
    assert not load_plan(*folders).faults


def test_an_edit_while_it_is_built_is_seen_later(folders, monkeypatch):
    config, package = folders
    file = config / "experiments/demo/small.yaml"
    before = file.read_text(encoding="utf-8")

    def interrupted(config):
        file.write_text(before.replace("[0.1, 0.03]", "[0.1, 0.05]"), encoding="utf-8")
        return build_plan(config)

    monkeypatch.setattr(stored, "build_valid_plan", interrupted)
    load_plan(config, package)
    file.write_text(before, encoding="utf-8")
    monkeypatch.setattr(stored, "build_valid_plan", build_plan)
    assert load_plan(config, package) == build_plan(config)


@pytest.mark.parametrize("damage", ["nothing", "the end", "a byte"])
def test_damaged_files_are_not_read(folders, built, damage):
    load_plan(*folders)
    (file,) = folders[1].rglob("plan.pickle")
    content = bytearray(file.read_bytes())
    content[-100] ^= 1
    kept = {"nothing": b"", "the end": file.read_bytes()[:-9], "a byte": bytes(content)}
    file.write_bytes(kept[damage])
    assert load_plan(*folders) == build_plan(folders[0])
    assert len(built) == 2


def test_a_package_that_cannot_be_written_is_no_harm(folders, built):
    config, package = folders
    (package / "__pycache__").write_text("no folder", encoding="utf-8")
    assert load_plan(config, package) == load_plan(config, package)
    assert len(built) == 2
