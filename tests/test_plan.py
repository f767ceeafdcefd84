"""What is refused, and what is made alike, when experiment files are expanded into jobs."""

import json
import sys

import pytest

from experiment_files import config_folder, plan_of_all
from fedatlas import algorithms
from fedatlas.errors import FedatlasError
from fedatlas.plan.build import build_plan, group_of
from fedatlas.plan.selected import plan_command
from workflow_copy import EXPERIMENT


@pytest.fixture
def config(tmp_path):
    return config_folder(tmp_path / "config", small=EXPERIMENT)


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


def test_a_class_of_a_notebook_is_no_method_of_a_file(config):
    change(config, "algorithm: fedavg", "algorithm: 'methods:FedAvg'")
    with pytest.raises(FedatlasError, match=r"runs\.fedavg\.algorithm', value 'methods:FedAvg'"):
        build_plan(config)


def test_only_runs_with_a_choice_train_the_seeds_that_tune(config):
    seeds = {
        key[1]: (spec.seeds, spec.tuning_seeds) for key, spec in build_plan(config).runs.items()
    }
    alone = ((0, 1), ())
    assert seeds == {
        "fedpage": ((0, 1, 100, 101), (100, 101)), "scaffold": alone, "fedavg": alone
    }  # fmt: skip


@pytest.mark.parametrize(
    "test",
    [
        "{kind: order, first: fedpage, second: fedavg, relation: faster, "
        "for_each: effective_step_size}",
        "{kind: monotone, run: fedpage}",
        "{kind: order, first: scaffold, second: fedavg, relation: faster}",
    ],
)
def test_claims_about_no_choice_need_no_seeds_that_tune(config, test):
    change(config, "tuning_seeds: [100, 101]\n", "")
    change(config, "{kind: order, first: fedpage, second: fedavg, relation: faster}", test)
    assert all(not spec.tuning_seeds for spec in build_plan(config).runs.values())


def test_whoever_shows_runs_has_their_seeds_that_tune(config):
    shown = config / "experiments" / "demo" / "shown.yaml"
    claims = EXPERIMENT[EXPERIMENT.index("claims:") :]
    declared = 'paper: fedpage\ntitle: "t"\nsource: "s"\nruns_of: demo-small\n'
    shown.write_text(declared + claims, encoding="utf-8")
    assert build_plan(config).experiments["demo-shown"].tuning_seeds == (100, 101)
    change(config, "tuning_seeds: [100, 101]\n", "")
    change(config, claims, "")
    with pytest.raises(FedatlasError, match=r"shown\.yaml: key 'tuning_seeds', which demo-small"):
        build_plan(config)


def test_a_fault_stops_only_what_selects_it(config, tmp_path, monkeypatch):
    methods = tmp_path / "methods"
    methods.mkdir()
    (methods / "mine.py").write_text("x = 1\ndef round(:\n", encoding="utf-8")
    # Another test of this process may have imported a method of this name.
    monkeypatch.delitem(sys.modules, "fedatlas.algorithms.mine", raising=False)
    monkeypatch.setattr(algorithms, "__path__", [*algorithms.__path__, str(methods)])
    start = EXPERIMENT.partition("claims:")[0]
    faulty = {
        "demo/broken": "paper: [\nruns: 3\n",
        "demo/copied": "like: demo-broken\n",
        "demo/method": start.replace("algorithm: fedavg", "algorithm: mine"),
        "demo/shown": 'paper: ours\ntitle: "t"\nsource: "s"\nruns_of: demo-method\n',
        "family/figure": 'name: "fig-{of}"\nlists: {of: [1, 2]}\nlists: {}\n',
    }
    for name, text in faulty.items():
        file = config / "experiments" / f"{name}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    for names in (["demo-small"], ["demo-s*ll"], ["group-*", "demo-small"]):
        assert [*build_plan(config, names=names).experiments] == ["demo-small"]
    for name, expected in {
        "demo-broken": r"broken\.yaml, line [23]: is not valid YAML: .* from line 1 on: ",
        "demo-copied": r"broken\.yaml, line [23]: is not valid YAML",
        "demo-method": r"mine\.py, line 2: invalid syntax: def round\(:",
        "demo-shown": r"mine\.py, line 2: invalid syntax",
        "family-fig-1": r"figure\.yaml, line 3: .*'lists' stands twice, first in line 2",
    }.items():
        with pytest.raises(FedatlasError, match=expected):
            build_plan(config, names=["demo-small", name])
    for pattern in ("demo-*", "*", "family-*"):
        with pytest.raises(FedatlasError, match=r"\.yaml, line"):
            build_plan(config, names=[pattern])


def test_what_an_experiment_needs_is_read_with_it(config):
    more = {
        "tuned": EXPERIMENT.partition("tuning_seeds")[0].replace("seeds: [0, 1]", "seeds: [7]")
        + EXPERIMENT[EXPERIMENT.index("runs:") : EXPERIMENT.index("claims:")],
        "shown": 'paper: ours\ntitle: "t"\nsource: "s"\nruns_of: demo-small\n',
        "copied": "extends: demo-shown\n",
        "older": "like: demo-shown\n",
        "other": EXPERIMENT,
    }
    for name, text in more.items():
        (config / f"experiments/demo/{name}.yaml").write_text(text, encoding="utf-8")
    change(config, "algorithm: fedpage", "algorithm: fedpage\n    tuned_in: demo-tuned")
    change(config, "    grid: {global_step_size: [0.1, 0.03]}\n", "")
    change(config, "tuning_seeds: [100, 101]\n", "")
    plan = build_plan(config, names=["demo-copied", "demo-older"])
    assert [*plan.experiments] == ["demo-copied", "demo-older", "demo-small", "demo-tuned"]
    assert plan.select(["demo-copied"]) == ["demo-copied"]


def test_a_misspelt_experiment_gets_similar_names_first(config):
    with pytest.raises(FedatlasError, match=r"'demo-smal' matches no experiment; did you mean d"):
        build_plan(config).select(["demo-smal"])


def test_the_end_of_a_name_or_its_file_is_no_experiment_but_says_which_is_meant(config):
    plan = build_plan(config)
    file = config / "experiments" / "demo" / "small.yaml"
    for word in ("small", str(file), "small.yaml"):
        with pytest.raises(FedatlasError, match=r"did you mean demo-small\? ") as error:
            plan.select([word])
        assert ("name an experiment, not a file" in str(error.value)) == word.endswith(".yaml")
    with pytest.raises(FedatlasError, match=r"not a file\. Experiments are"):
        plan.select(["experiments/xyz.yaml"])


def test_words_of_a_command_name_experiments(config):
    words = ["demo", "--cores", "2", "demo-small", "demo-*", "x=demo-small", "results/demo-small"]
    one = ["demo-small"]
    plan, named = plan_command(words, (), config)
    assert named == {"demo-small": one, "demo-*": one} and [*plan.experiments] == one
    for word in ("results/experiments/demo-small/figure.svg", "train_run:experiment=demo-small,x"):
        plan, named = plan_command([word], (), config)
        assert not named and [*plan.experiments] == one
    with pytest.raises(FedatlasError, match="did you mean demo-small"):
        plan_command(["demo-smal"], (), config)


def test_a_folder_that_is_not_here_is_named(tmp_path):
    with pytest.raises(FedatlasError, match="no such folder: name that of the workflow"):
        build_plan(tmp_path / "config")


def test_runs_may_have_rounds_of_their_own(config):
    change(config, "algorithm: scaffold", "algorithm: scaffold\n    rounds: 7\n    record_every: 3")
    rounds = {
        key[1]: (spec.rounds, spec.record_every) for key, spec in build_plan(config).runs.items()
    }
    assert rounds == {"fedpage": (40, 10), "scaffold": (7, 3), "fedavg": (40, 10)}


@pytest.mark.parametrize("name", ["demo/My_Exp.yaml", "fm-gda/a.yaml", "demo/small2.yml"])
def test_files_that_would_not_be_found_are_refused(config, name):
    path = config / "experiments" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(EXPERIMENT, encoding="utf-8")
    with pytest.raises(FedatlasError, match=r"rename it"):
        build_plan(config)


def test_a_data_set_without_a_reader_is_refused(config):
    catalogue = config / "datasets.yaml"
    # The first data set is a9a.
    text = catalogue.read_text(encoding="utf-8").replace("format: libsvm", "format: scrolls", 1)
    catalogue.write_text(text, encoding="utf-8")
    change(config, "breast-cancer", "a9a")
    with pytest.raises(FedatlasError, match=r"a9a: key 'format', value 'scrolls': must be one of"):
        build_plan(config)


def test_every_experiment_of_the_project_is_sound():
    plan = plan_of_all()
    assert {"demo-fedpage", "fedpage-fig1a", "fedpage-fig6b", "vfb2-table2-d1"} <= set(
        plan.experiments
    )
    for experiment in plan.experiments.values():
        # One that only chooses steps for others may have one seed; budgets need none.
        if experiment.claims and experiment.trained:
            fewest = 3 if experiment.paper in ("dpgt", "ours", "tdcd", "vfb2") else 5
            assert len(experiment.seeds) >= fewest


def test_a_method_that_lacks_something_is_named(config, tmp_path, monkeypatch):
    from fedatlas import algorithms

    (tmp_path / "half.py").write_text(
        "from fedatlas.federations.algorithm import Algorithm\n\n"
        "class Half(Algorithm):\n    def start(self, problem, x0):\n        return x0\n"
    )
    monkeypatch.setattr(algorithms, "__path__", [*algorithms.__path__, str(tmp_path)])
    change(config, "algorithm: fedavg", "algorithm: half")
    with pytest.raises(FedatlasError, match=r"half\.py: Half must define .*round, title, source"):
        build_plan(config)


TIERED = """
paper: ours
title: "Columns of rows without a shape"
source: "a test"
dataset: breast-cancer
partition: {kind: tiered, cut: {columns: 3}, clients: 5, test: 0.25}
objective: {name: binary_cross_entropy, model: linear}
rounds: 4
record_every: 2
seeds: [0]
runs:
  tdcd: {algorithm: tdcd, hyper_parameters: {step_size: 0.1, local_steps: 2, batch_size: 427}}
selection: {measurement: objective}
figure: {measurement: test_f1, costs: ["latency(10)"]}
"""


AGENTS = """
paper: ours
title: "Agents on a ring"
source: "a test"
dataset: breast-cancer
partition: {kind: horizontal, clients: 5, test: 60}
objective: {name: logistic_l2, weight: 0.01}
graphs: {states: {kind: ring, weights: metropolis}}
rounds: 4
record_every: 2
seeds: [0]
runs:
  agents:
    algorithm: gaussian_gradient_descent
    hyper_parameters:
      {coupling: 0.3, step_size: 0.1, samples: 3, gradient_bound: 0.6, noise: 0.4, clipping: l1}
selection: {measurement: objective}
figure: {measurement: disagreement, also: [test_accuracy_of_worst_agent], costs: [bytes_sent]}
"""


def test_agents_of_linear_models_disagree(config):
    change(config, EXPERIMENT, AGENTS)
    assert build_plan(config).run("demo-small", "agents", "only").graphs is not None
    change(config, "costs: [bytes_sent]", "costs: [bytes_up]")
    with pytest.raises(FedatlasError, match=r"at bytes_up, .*'agents' does not count: it counts "):
        build_plan(config)


def test_what_only_others_record_is_refused_of_a_star(config):
    declared = "figure: {measurement: gradient_norm, costs: [round]}"
    change(config, declared, "figure: {measurement: gradient_norm, costs: [bytes_up, messages]}")
    build_plan(config)
    for measurement in ("disagreement", "read_delay_mean"):
        change(config, "{measurement: gradient_norm,", f"{{measurement: {measurement},")
        with pytest.raises(FedatlasError, match=f"at {measurement}, which run 'fedpage' does not"):
            build_plan(config)
        change(config, f"{{measurement: {measurement},", "{measurement: gradient_norm,")


def test_silos_take_rows_without_a_shape(config):
    change(config, EXPERIMENT, TIERED)
    assert build_plan(config).run("demo-small", "tdcd", "only").partition.silos == 3


def test_runs_that_share_a_methods_title_are_told_apart_by_their_names(config):
    other = "{algorithm: tdcd, hyper_parameters: {step_size: 0.1, local_steps: 2, batch_size: 9}}"
    change(config, EXPERIMENT, TIERED.replace("selection:", f"  other: {other}\nselection:"))
    titles = build_plan(config).run_titles("demo-small")
    assert titles == {"tdcd": "TDCD (tdcd)", "other": "TDCD (other)"}
