"""The repository's published folders: small, and every verdict follows from them."""

import re
import shlex
from pathlib import Path

import pytest

from fedatlas.evaluation.sentences import joined
from fedatlas.evaluation.verdicts import read_verdicts, verdict_summary
from fedatlas.pages.repository import read_kept
from fedatlas.plan.build import build_plan
from fedatlas.schema.config import is_named
from fedatlas.store.rejudging import format_rejudged, judged_in, published_folders, rejudge
from workflow_copy import ROOT

FOLDERS = published_folders(ROOT / "published")
# The suite has runs, and no claims.
JUDGED = [folder for folder in FOLDERS if judged_in(folder)]


@pytest.mark.parametrize("folder", JUDGED, ids=lambda folder: folder.name)
def test_verdicts_follow_from_what_is_published(folder: Path):
    """Judged again by today's rule."""
    plan = build_plan(ROOT / "config", names=judged_in(folder))
    found = list(rejudge(folder, plan.experiments))
    (first, *reasons) = format_rejudged(found)
    assert not reasons, "\n".join(["publish it anew, see docs/published.md", first, *reasons])
    assert found and f"{len(found)} of {len(found)} " in first


@pytest.mark.parametrize("folder", JUDGED, ids=lambda folder: folder.name)
def test_a_folder_s_readme_counts_its_verdicts(folder: Path):
    verdicts = read_verdicts(folder / "verdicts.csv")
    readme = " ".join((folder / "README.md").read_text(encoding="utf-8").split())
    assert f"came out ({verdict_summary(joined(verdicts))});" in readme


def test_all_folders_together_are_smaller_than_a_repository_minds():
    files = [file for folder in FOLDERS for file in folder.rglob("*") if file.is_file()]
    assert 0 < sum(file.stat().st_size for file in files) < 18_000_000


def test_every_experiment_that_was_judged_has_its_folder():
    """By the commands of the guide, which name what goes where."""
    guide = (ROOT / "docs" / "published.md").read_text(encoding="utf-8")
    lines = map(shlex.split, re.findall(r"^publish (?!\()(.+)$", guide, re.MULTILINE))
    patterns = {folder: own for folder, *own in lines}
    assert patterns.keys() == {folder.name for folder in JUDGED}
    judged = {one.experiment for one in read_kept(ROOT / "config" / "verdicts.csv")}
    judged |= {name for folder in FOLDERS for name in judged_in(folder)}
    for name in judged:
        assert sum(is_named(name, own) for own in patterns.values()) == 1, name
