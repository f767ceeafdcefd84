"""Published numbers and figures made anew, on published runs whose data are made here."""

import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedatlas import rederiving
from fedatlas.cli import app
from fedatlas.errors import FedatlasError

ROOT = Path(__file__).parent.parent
PUBLISHED = ROOT / "published"
EXPERIMENT = "dpgt-theory-sine"


def find(what: str):
    return rederiving.find(what, PUBLISHED, ROOT / "config")


class Changed:
    """An atlas in which one measurement is by a share larger than it was."""

    def __init__(self, atlas, name: str, share: float) -> None:
        self._atlas, self._name, self._share = atlas, name, share

    def dataset(self, place: str):
        found = self._atlas.dataset(place).copy()
        found[self._name] = found[self._name] * (1 + self._share)
        return found


def test_a_number_is_judged_again_and_its_quickest_seed_is_trained_again(tmp_path):
    claim = f"{EXPERIMENT}/tuned-is-ahead"
    figure = tmp_path / "figure.svg"
    arguments = ["rederive", claim, "--published", str(PUBLISHED), "--figure", str(figure)]
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code == 0, found.output
    *judged, origin, _, course, trained = found.stdout.splitlines()
    assert judged and all(line.endswith("the same when judged again") for line in judged)
    assert f"all of it anew: fedatlas run {EXPERIMENT}" in origin
    assert course.startswith("training seed ")
    assert trained.endswith("are equal to the published digits")
    assert figure.read_text("utf-8").startswith("<?xml")
    long = CliRunner().invoke(app, [*arguments[:4], "--seconds", "0"])
    assert "so it is not trained; --seconds allows more" in long.stdout


@pytest.mark.parametrize(
    ("share", "said", "equal"),
    [(1e-8, "equal to", True), (2e-3, "differ, such as objective", False)],
)
def test_a_seed_that_comes_out_otherwise_is_named(share, said, equal):
    found = find(EXPERIMENT)
    course = rederiving.quickest(found, seed=0)
    assert course.seed == 0
    changed = replace(found, atlas=Changed(found.atlas, "objective", share))
    plan = rederiving.plan_again(found, course, ROOT / "results")
    told, same = rederiving.trained_again(changed, course, plan, ROOT / "results", "cpu")
    assert said in told and same == equal


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (f"{EXPERIMENT}/unheard-of", "has no claim 'unheard-of'; similar: "),
        ("fedpage-fig2", "only published results are derived again; did you mean fedpage-fig2"),
        ("project-prox/faster", "'project-prox' is not published there, and only published"),
        ("vfb2-fig3-d1", "needs the data set 'uci-credit-card': prepare it by snakemake"),
        ("fedpage-fig2a", "a9a/train.parquet --cores 1 (raw files that you have: --config mirror"),
    ],
)
def test_errors_say_what_there_is(what, said, tmp_path):
    with pytest.raises(FedatlasError) as error:
        found = find(what)
        rederiving.plan_again(found, rederiving.quickest(found), tmp_path)
    assert said in str(error.value)


def test_data_that_are_lacking_are_said_before_the_training_with_a_command_that_works_here(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    outcome = CliRunner().invoke(app, ["rederive", "fedpage-fig2a"])
    assert "training" not in outcome.stdout
    command = re.search(r"prepare it by (snakemake .*) \(raw", str(outcome.exception))[1]
    words = [sys.executable, "-m", *shlex.split(command), "--dry-run"]
    planned = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert planned.returncode == 0 and "prepare_split" in planned.stdout + planned.stderr


def test_a_folder_without_published_ones_is_an_error(tmp_path):
    with pytest.raises(FedatlasError, match="holds no published folder: name one"):
        rederiving.find(EXPERIMENT, tmp_path, ROOT / "config")


def test_a_run_that_is_not_there_is_an_error():
    with pytest.raises(FedatlasError, match=r"no run of .* has what was asked for \(run none, see"):
        rederiving.quickest(find(EXPERIMENT), run="none")
