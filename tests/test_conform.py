"""`fedatlas conform`: the page's example, iterates in a file, runs of experiments, and mistakes."""

import numpy as np
import pytest
from typer.testing import CliRunner

from certified import CERTIFICATES
from fedatlas.cli import app
from fedatlas.errors import FedatlasError
from outside_project import whole_files
from workflow_copy import ROOT

HYPER = "{clients_per_round: 3, local_steps: 4, local_step_size: 0.1, batch_size: 2}"


def conform(*arguments):
    return CliRunner().invoke(app, ["conform", *map(str, arguments)])


@pytest.fixture(autouse=True)
def at_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def test_the_pages_scaffold_has_a_fault_and_conforms_without_it(tmp_path):
    (mine,) = whole_files("conform").items()
    file = tmp_path / mine[0]
    for old, new, status, told in (
        ("", "", 1, "does not conform within 1e-09: in round 0, c is off by 1.3 of its norm"),
        ("c + np.mean", "c + len(turns) / problem.clients * np.mean", 0, "conforms within 1e-09"),
    ):
        file.write_text(mine[1].replace(old, new) if old else mine[1], encoding="utf-8")
        outcome = conform("scaffold", file, "--hyper", HYPER, "--rounds", 5)
        assert outcome.exit_code == status and outcome.stdout.startswith(told)


def test_iterates_of_another_language_are_compared(tmp_path):
    made, theirs = tmp_path / "problem.npz", tmp_path / "x.npz"
    asked = ("--hyper", HYPER, "--rounds", 4)
    assert conform("scaffold", *asked, "--export", made).exit_code == 0
    with np.load(made) as found:
        x, rows, offsets = found["ours/x"], found["2/batch0/rows"], found["offsets"]
        assert x.shape == (5, 5) and rows.shape == (3, 4, 2)
        assert set(found["2/batch0/clients"]) == set(found["2/clients"])
        assert rows.max() < np.diff(offsets).max() and len(set(np.diff(offsets))) > 2
        np.testing.assert_array_equal(x[0], found["x0"])
    x[3, 1] += 1e-3
    np.savez(theirs, x=x)
    outcome = conform("scaffold", theirs, *asked)
    assert outcome.exit_code == 1
    assert "in round 2, x is off by" in outcome.stdout
    assert "not given, and not compared: c, client_c" in outcome.stdout
    np.savez(theirs, x=x[:3])
    told = "'x' has 3 iterates, but the start and 4 rounds are 5: record all, or ask for --rounds 2"
    assert told in str(conform("scaffold", theirs, *asked).exception)


def test_methods_on_graphs_conform():
    hyper = "{coupling: 0.4, step_size: 0.1, samples: 2, compressor: {kind: top_k, k: 2}}"
    outcome = conform("choco_sgd", CERTIFICATES / "choco_sgd.py", "--hyper", hyper, "--rounds", 3)
    assert outcome.exit_code == 0, outcome.exception


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("scaffold",), "or --export FILE.npz"),
        (("scafold", "x.py"), "unknown algorithm 'scafold'; similar: scaffold"),
        (("scaffold", "x.py", "--hyper", "K: ["), "--hyper: cannot be read as YAML"),
        (("scaffold", "x.py", "--hyper", "4"), "--hyper: '4' is no mapping"),
        (("scaffold", "x.py", "--hyper", "{steps: 4}"), "unknown key 'steps'"),
        (("scaffold", "x.py", "--hyper", HYPER), "x.py: is no Python file"),
        (("scaffold", CERTIFICATES / "_shared.py", "--hyper", HYPER), "defines no 'start'"),
        (("demo-fedpage/scafold", "x.py"), "there is no run 'demo-fedpage/scafold'"),
        (("vfb2_sgd", "x.py", "--hyper", "{step_size: 0.1}"), "around a server and on graphs"),
    ],
)
def test_mistakes_are_clear_errors(arguments, told):
    error = conform(*arguments).exception
    assert isinstance(error, FedatlasError)
    assert told in str(error)
