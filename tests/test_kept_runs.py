"""Which runs the atlas keeps from earlier selections, and which of them are stale."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from fedatlas.errors import FedatlasError
from fedatlas.plan.code import code_digest
from fedatlas.plan.kept import kept_runs
from fedatlas.schema.experiment_files import Head

PLAN = SimpleNamespace(
    experiments={"demo-a": SimpleNamespace(runs={"avg": 1, "page": 2})},
    heads=[Head(Path(f"{name}.yaml"), "demo", f"demo-{name}") for name in "ab"],
)
FRESH = {"code": "fedatlas.errors+fedatlas.files"}
FRESH["digest"] = code_digest(*FRESH["code"].split("+"))


@pytest.fixture
def kept(tmp_path):
    """What is kept of an atlas with these contents, all of which have traces."""

    def of(contents, selected=(), *, traces=True, atlas=True):
        (tmp_path / "atlas").mkdir(parents=True, exist_ok=True)
        (tmp_path / "atlas/contents.json").write_text(json.dumps(contents))
        if atlas:
            (tmp_path / "atlas/atlas.nc").touch()
        for name in contents if traces else ():
            experiment, run = name.split("/")
            folder = tmp_path / "experiments" / experiment / "traces" / run
            folder.mkdir(parents=True, exist_ok=True)
        return kept_runs(PLAN, dict(selected), tmp_path)

    return of


def test_other_runs_are_kept_and_those_of_changed_code_are_stale(kept):
    contents = {
        "demo-a/avg": FRESH,
        "demo-b/avg": FRESH,
        "demo-b/page": FRESH | {"digest": "that of other code"},
        "demo-b/gone": FRESH,
        "demo-c/avg": FRESH,
        "demo-a/gone": FRESH,
        "demo-a/page": {"code": "fedatlas.algorithms.no_such", "digest": "of a method"},
    }
    assert kept(contents, {"demo-a": {"avg": "demo-a"}}) == {
        "demo-a/gone": True,
        "demo-a/page": True,
        "demo-b/avg": False,
        "demo-b/gone": False,
        "demo-b/page": True,
        "demo-c/avg": True,
    }


def test_nothing_is_kept_without_traces_or_without_an_atlas(kept):
    assert kept({"demo-b/avg": FRESH}, atlas=False) == {}
    assert kept({"demo-a/avg": FRESH}, traces=False) == {}


def test_a_list_that_is_none_is_named(kept):
    for wrong in ([], {"demo-a/avg": 3}):
        with pytest.raises(FedatlasError, match=r"contents\.json: holds no contents"):
            kept(wrong, traces=False)
