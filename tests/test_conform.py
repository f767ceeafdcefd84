"""`fedatlas conform`: the page's examples, iterates in a file, experiments' runs, and mistakes."""

import re
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from certified import CERTIFICATES
from fedatlas.algorithms import algorithm_class
from fedatlas.cli import app
from fedatlas.conform.ours import hyper_parameters
from fedatlas.errors import FedatlasError
from fedatlas.notebook import share_out
from fedatlas.plan.build import build_plan
from fedatlas.plan.places import shipped_configuration
from outside_project import DOCS, whole_files
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
        assert status == 0 or shown("does not conform") in outcome.stdout.splitlines()[0]


def shown(*begin):
    """The page's block of text that begins so, line by line, without what it leaves out."""
    blocks = re.findall(r"```text\n(.*?)\n```", (DOCS / "conform.md").read_text("utf-8"), re.DOTALL)
    (block,) = (each for each in blocks if each.startswith(begin))
    lines = [line.removesuffix("…") for line in block.splitlines() if line != "…"]
    return lines[0] if begin == ("does not conform",) else lines


def test_the_page_shows_what_is_explained():
    outcome = conform("marina", "--explain")
    assert outcome.exit_code == 0
    for line in shown("State"):
        assert line in outcome.stdout.splitlines()
    told = ("c_i = C(", "x ← x − γ g", "certificates/marina.py", "k largest", "be stated:\n    cl")
    assert all(each in outcome.stdout for each in told)
    (hyper,) = re.findall(r"here --hyper '(.*)'", outcome.stdout)
    again = conform("marina", CERTIFICATES / "marina.py", "--hyper", hyper, "--rounds", 6)
    assert again.exit_code == 0 and "not compared: known" in again.stdout


def test_what_ours_lacks_at_the_start_is_not_compared_there(tmp_path):
    """MARINA's g, None before round 0: a file may start with anything, iterates with NaN."""
    made, theirs, file = tmp_path / "p.npz", tmp_path / "g.npz", tmp_path / "marina_from_zero.py"
    assert conform("marina", "--export", made, "--rounds", 4).exit_code == 0
    with np.load(made) as found:
        x, g = found["ours/x"], found["ours/g"]
    assert g.shape == (5, 5) and np.isnan(g[0]).all() and np.isfinite(g[1:]).all()
    np.savez(theirs, x=x, g=g)
    assert "conforms within" in conform("marina", theirs, "--rounds", 4).stdout
    g[2] += 1
    np.savez(theirs, x=x, g=g)
    assert "in round 1, g is off" in conform("marina", theirs, "--rounds", 4).stdout
    text = (CERTIFICATES / "marina.py").read_text("utf-8")
    begun = text.replace('return {"x": x0}', 'return {"x": x0, "g": 7 * x0, "x_previous": None}')
    file.write_text(begun.replace("from _shared", f"{BESIDE}from _shared"), encoding="utf-8")
    outcome = conform("marina", file, "--rounds", 4)
    assert outcome.exit_code == 0 and "x_previous (" in outcome.stdout


BESIDE = f"import sys\n\nsys.path.append({str(CERTIFICATES)!r})\n"
WORK = {"clients_per_round": 3, "local_steps": 2, "local_step_size": 0.5}
PAGE = {"clients_per_round": 3, "local_steps": 2, "global_step_size": 0.3}
SHORT = {"clients_per_round": 3, "step_size": 0.1}


@pytest.mark.parametrize(
    ("method", "stated", "told"),
    [
        ("fedavg", WORK, {"global_step_size": 1.0, "batch_size": None}),
        ("fedavg", WORK | {"effective_step": 0.3}, {"global_step_size": 0.3}),
        ("fedpage", PAGE, {"local_step_size": 0.15, "full_round_probability": 3 / 7}),
        ("diana", SHORT | {"compressor": {"kind": "rand_k", "k": 2}}, {"memory_step": 0.4}),
        ("dasha", SHORT | {"compressor": {"kind": "natural"}}, {"memory_step": 0.8}),
        (
            "dasha",
            SHORT | {"compressor": {"kind": "natural"}, "memory_step": 1},
            {"memory_step": 1},
        ),
    ],
)
def test_the_other_side_is_given_numbers_that_are_used(method, stated, told):
    own, sizes = algorithm_class(method)(**stated), SimpleNamespace(clients=7, dimension=5)
    found = vars(hyper_parameters(own, sizes))
    assert {key: found[key] for key in told} == told


def test_a_share_of_entries_is_given_as_a_number_of_them():
    ef21 = algorithm_class("ef21")(**SHORT, compressor={"kind": "top_k", "share": 0.4})
    assert hyper_parameters(ef21, SimpleNamespace(dimension=5)).compressor["k"] == 2


TOO_MANY = "{clients_per_round: 7, step_size: 0.1, compressor: {kind: top_k, k: 6}}"
STEP = "def start(problem, x0, hyper):\n    return {'x': x0}\n\n\n"
STEP += "def step(state, draws, problem, hyper):\n    "


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("return {'x': draws.round / (2 - draws.round) * state['x']}", r"round 2: ZeroDivision"),
        ("return {'x': hyper.step}", r"no hyper-parameter 'step'.* are clients_per_round, "),
        (
            "return problem.gradient(9, state['x'])",
            r"line 6, .* round 0: IndexError: .*\n    return",
        ),
        ("return state['x']", "step of round 0 returns ndarray: return a mapping"),
        ("return {'x': 'one'}", "in round 0, 'x' holds no real numbers, but str"),
        ("raise SystemExit(0)", "line 6, in step of round 0: SystemExit: 0"),
        ("return {'x': problem.grad}", "no problem attribute 'grad'; similar: gradient.* value"),
        ("return {'x': draws.batch}", "no draws attribute 'batch'; similar: batches"),
        ("return {'x': draws.batches[7]}", r"no draws.batches\[7\]: its length is 1"),
        ("return {'x': draws.coins[0]}", r"no draws.coins\[0\]: its length is 0"),
        (
            "return {'x': draws.numbers['uniform']}",
            "entry of draws.numbers, 'uniform'; there are none",
        ),
        ("return {'x': problem.samples[9]}", r"no problem.samples\[9\]: its length is 7"),
        ("return {'x': problem.gradient(-1, state['x'])}", "no client -1: they are 0 to 6"),
        ("return {'x': problem.gradient(0, state['x'], 99)}", "client 0 has the rows 0 to "),
        ("return {'x': problem.gradient(0, 1j * state['x'])}", "x is complex: give 5 real numbers"),
        (
            "return {'x': 1j * state['x']}",
            "'x' holds no real numbers, but ndarray: they are complex",
        ),
        ("return {'x_': state['x']}", "'x_', which ours does not have"),
        ("return {}", "in round 0, the other side gives no 'x'"),
        ("return {'x': None}", "in round 0, the other side gives no 'x'"),
        ("return {'x': 3.0}", r"in round 0, 'x' has the shape \(\), but ours has \(5,\)"),
        ("return {", "mine.py, line 6, as it is imported: SyntaxError"),
    ],
)
def test_what_the_file_raises_is_told_with_its_line_and_round(tmp_path, text, told):
    file = tmp_path / "mine.py"
    file.write_text(STEP + text, encoding="utf-8")
    error = conform("fedavg", file, "--tolerance", 1e9).exception
    assert isinstance(error, FedatlasError)
    assert re.search(told, str(error))


#: What it returns is apart from what it goes on with.
OUTSIDE = """

def start(problem, x0, hyper):
    return {"x": x0, "c": 0 * x0, "_own": begin(problem, x0, hyper)}


def step(state, draws, problem, hyper):
    own = move(state["_own"], draws, problem, hyper)
    after = own | {"_own": own}
    CHANGE
    return after
"""


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ('if draws.round > 1: after.pop("c")', "in round 2, 'c' is no longer given: return it in"),
        ('if draws.round > 1: after["c"] = None', "in round 2, 'c' is no longer given"),
        ('after = {"x": after["x"], "_own": own}', "in round 0, 'c' is no longer given"),
        (
            'after["x"] = after["x"] * (1 + 2e-8)',
            "float32 may be off by as much: `--tolerance 1e-4`",
        ),
        ('after["x"] = np.nan * after["x"]', "in round 0, x is not finite: ours is"),
        ('after["c"] = 1 + after["c"]', "x agrees so far: c may mean something else"),
        ('after.pop("client_c") if draws.round < 2 else 0', r"client_c \(\S+; in 1 of them\)"),
    ],
)
def test_what_is_returned_now_and_then_or_is_off_for_a_reason(tmp_path, change, told):
    ((_, text),) = whole_files("conform").items()
    text = text.replace("c + np.mean", "c + len(turns) / problem.clients * np.mean")
    text = text.replace("def start", "def begin").replace("def step", "def move")
    (tmp_path / "mine.py").write_text(text + OUTSIDE.replace("CHANGE", change), encoding="utf-8")
    outcome = conform("scaffold", tmp_path / "mine.py", "--hyper", HYPER, "--rounds", 3)
    assert re.search(told, f"{outcome.stdout}{outcome.exception}")
    assert (outcome.exit_code == 0) == ("in 1 of" in told)


def test_a_start_without_effect_is_no_deviation(tmp_path):
    """DASHA from h_i = g_i = ∇f_i(x⁰), as the paper has it; ours is 0 until round 0."""
    text = (CERTIFICATES / "dasha.py").read_text("utf-8")
    slopes = "np.array([problem.gradient(i, x0) for i in range(problem.clients)])"
    begun = text.replace("zeros(problem, x0)", slopes).replace(
        "from _shared", f"{BESIDE}from _shared"
    )
    (tmp_path / "dasha.py").write_text(begun, encoding="utf-8")
    outcome = conform("dasha", tmp_path / "dasha.py", "--rounds", 3)
    assert outcome.exit_code == 0, outcome.stdout
    assert "at the start, without effect: client_g, client_h" in outcome.stdout
    wrong = begun.replace("g = h = np", "g = np")  # h_i of the start is read
    wrong = wrong.replace(f'"client_h": {slopes}', '"client_h": 1 + zeros(problem, x0)')
    (tmp_path / "dasha.py").write_text(wrong, encoding="utf-8")
    outcome = conform("dasha", tmp_path / "dasha.py", "--rounds", 3)
    assert outcome.exit_code == 1 and "before round 0, client_" in outcome.stdout


def test_runs_of_experiments_conform(tmp_path):
    plan = build_plan(shipped_configuration(), names=["demo-fedpage"])
    share_out(plan, tmp_path / "shards" / "breast-cancer" / "train", tmp_path)
    run, file = "demo-fedpage/scaffold/local_step_size-0.01", CERTIFICATES / "scaffold.py"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of torch, where rows that it is given are read-only
        outcome = conform(run, file, "--results", tmp_path, "--rounds", 3, "--seed", 2)
    assert outcome.exit_code == 0, outcome.exception
    for option, told in (
        (("--seed", 77), "has no seed 77, but 0, 1, 2, 3, 4, 5"),
        (("--rounds", 1001), f"--rounds 1001: {run} has 1000"),
        (("--clients", 7), f"--clients: {run} is a run that declares its own"),
    ):
        assert told in str(conform(run, file, "--results", tmp_path, *option).exception)


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
    assert "of another problem: repeat all options of its --export" in outcome.stdout
    with np.load(made) as found:
        number, readme = found["problem"], str(found["readme"])
        good = {"x": found["ours/x"], "problem": float(number)}
    assert "λ · ½ ‖x‖², λ = 0.1" in readme and "p_i = 1/N" in readme and "labels ±1" in readme
    np.savez(theirs, **good)
    assert conform("scaffold", theirs, *asked).exit_code == 0
    for other in ((), (*asked, "--seed", 1)):
        told = f"'problem' is {float(number)}, but these options make problem "
        assert told in str(conform("scaffold", theirs, *other, "--rounds", 4).exception)
    np.savez(theirs, c=x)
    assert "gives no 'x'" in str(conform("scaffold", theirs, *asked).exception)
    theirs.write_text("x, 1", encoding="utf-8")
    assert "x.npz: is no .npz, a zip" in str(conform("scaffold", theirs, *asked).exception)
    np.savez(theirs, x=x[:3])
    told = "'x' has 3 iterates, but the start and 4 rounds are 5: record them all, the start first"
    assert told in str(conform("scaffold", theirs, *asked).exception)


@pytest.mark.parametrize(
    ("method", "graph"),
    [
        ("choco_sgd", "star"),
        ("sgp", "exponential"),
        ("sgp", "{kind: exponential, weights: sent}"),
        (
            "dp_gradient_tracking",
            "{states: &ring {kind: ring, weights: metropolis}, trackers: *ring}",
        ),
    ],
)
def test_methods_on_graphs_conform(method, graph):
    outcome = conform(method, CERTIFICATES / f"{method}.py", "--graph", graph, "--rounds", 3)
    assert outcome.exit_code == 0, outcome.exception


def test_composite_methods_have_an_l1_term():
    assert conform("fedmid", CERTIFICATES / "fedmid.py", "--rounds", 3).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("scaffold",), "or --export FILE.npz"),
        (("scafold", "x.py"), "unknown method 'scafold'; similar: scaffold"),
        (("SCAFFOLD", "x.py"), "unknown method 'SCAFFOLD'; similar: scaffold"),
        (("gradient_tracking", "x.py"), "described so: dp_gradient_tracking, gt_sarah; `conform`"),
        (("scaffold", "x.npz"), "x.npz: there is no such file"),
        (("scaffold", "x.py", "--graph", "star"), "--graph star: scaffold has a server"),
        (("sgp", "x.py", "--graph", "{states: {kind: star}}"), "one of received, sent, metropolis"),
        (
            ("scaffold", "x.py", "--objective", "{name: cross_entropy, model: linear}"),
            "--objective: key 'name', value 'cross_entropy'",
        ),
        (("ef21", "x.py", "--hyper", TOO_MANY), "'k', value 6: rows have 5 entries"),
        (("demo-nosuch/x/y", "x.py"), "'demo-nosuch'; did you mean demo-"),
        (("scaffold", "x.py", "--hyper", "K: ["), "--hyper: cannot be read as YAML"),
        (("scaffold", "x.py", "--hyper", "4"), "--hyper: '4' is not a mapping"),
        (("scaffold", "x.py", "--hyper", "{steps: 4}"), "unknown key 'steps'"),
        (("scaffold", "x.py", "--hyper", HYPER), "x.py: there is no such file"),
        (("scaffold", CERTIFICATES / "_shared.py", "--hyper", HYPER), "defines no 'start'"),
        (("demo-fedpage/scafold", "x.py"), "there is no run 'demo-fedpage/scafold'"),
        (("demo-fedpage", "x.py"), "no run 'demo-fedpage'; there are demo-fedpage/fedpage/global_"),
        (("scaffold", "x.py", "--clients", 70), "--rows 60: 70 clients need a row each"),
        (
            ("pooled", "--explain"),
            "'pooled' to take as a default: give local_steps, local_step_size",
        ),
        (("extra", "x.py", "--graph", "{states: 3"), "--graph: cannot be read as YAML"),
        (("vfb2_sgd", "x.py", "--hyper", "{step_size: 0.1}"), "around a server and on graphs"),
    ],
)
def test_mistakes_are_clear_errors(arguments, told):
    error = conform(*arguments).exception
    assert isinstance(error, FedatlasError)
    assert told in str(error) and "-*" not in str(error)
