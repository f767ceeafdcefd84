"""The suite: constants are the declared ones, trials have instances of their own, tries follow."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy import sparse
from typer.testing import CliRunner

import fedatlas
from catalogue_entry import PUBLISHED
from fedatlas.cli import app
from fedatlas.cli.suite import scores_of, train_problem
from fedatlas.data.formats import read_raw
from fedatlas.errors import FedatlasError
from fedatlas.plan.build import build_plan, plan_of
from fedatlas.schema.experiment_files import find_heads
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.models import validated
from fedatlas.schema.suite import Suite, load_suite
from fedatlas.store.trace import read_trace

CONFIG = Path(__file__).parents[1] / "config"
SUITE = load_suite(CONFIG / "suite.yaml")
QUADRATIC = [name for name, own in SUITE.problems.items() if "quad" in own.dataset]
LINEAR = [
    name for name, own in SUITE.problems.items() if "rows" in own.dataset and "auc" not in name
]


@cache
def made(dataset):
    return read_raw(PUBLISHED[dataset], "train", [])


def rows_of(dataset, instance):
    samples = made(dataset)
    own = np.flatnonzero(np.array(samples.kept["instance"]) == instance)
    return samples.features[own], samples.label[own]


@pytest.mark.parametrize("name", QUADRATIC)
def test_constants_of_quadratics_are_those_of_the_rows(name):
    problem = SUITE.problems[name]
    clients = problem.partition["clients"]
    for instance in (0, 5):
        rows, labels = rows_of(problem.dataset, instance)
        d = rows.shape[1]
        hessians = 2 / d * np.einsum("ija,ijb->iab", *[rows.reshape(clients, d, d)] * 2)
        targets = (
            2 / d * np.einsum("ija,ij->ia", rows.reshape(clients, d, d), labels.reshape(clients, d))
        )
        mean = hessians.mean(0)
        spectrum = np.linalg.eigvalsh(mean)
        steep = spectrum[spectrum > 1e-9]
        slopes = hessians @ np.linalg.pinv(mean, rcond=1e-9) @ targets.mean(0) - targets
        found = {
            "smoothness": np.linalg.eigvalsh(hessians).max(),
            "convexity": steep.min(),
            "hessian_dissimilarity": np.linalg.norm(hessians - mean, 2, axis=(1, 2)).max(),
            "gradient_dissimilarity": np.sqrt((slopes**2).sum(1).mean()),
        }
        declared = {"smoothness": problem.smoothness, **problem.constants}
        for key, value in found.items():
            np.testing.assert_allclose(value, declared.get(key, 0), atol=1e-8, err_msg=key)
        flat = 10 if "polyak_lojasiewicz" in problem.groups else 0
        assert len(steep) == d - flat


# Losses of a margin z and regularisers of a number, from the papers; second differences bound L.
LOSSES = {
    "logistic": lambda z: np.log1p(np.exp(-z)),
    "robust_regression": lambda z: np.log1p((z - 1) ** 2 / 2),
}


@pytest.mark.parametrize("name", LINEAR)
def test_smoothness_of_linear_models_is_the_largest_of_a_row(name):
    problem = SUITE.problems[name]
    kind, weight = problem.objective["name"], problem.objective.get("weight", 0)
    loss = LOSSES.get(kind, LOSSES["logistic"])
    regulariser = {
        "logistic_l2": lambda x: x**2 / 2,
        "logistic_nonconvex": lambda x: x**2 / (1 + x**2),
    }
    at, step = np.linspace(-5, 5, 2001), 1e-3

    def curvature(f):
        return np.max(np.abs(f(at + step) - 2 * f(at) + f(at - step)) / step**2)

    rows, _ = rows_of(problem.dataset, 3)
    norms = (
        sparse.linalg.norm(rows, axis=1) if sparse.issparse(rows) else np.linalg.norm(rows, axis=1)
    )
    found = curvature(loss) * norms.max() ** 2
    found += weight * curvature(regulariser[kind]) if kind in regulariser else 0
    np.testing.assert_allclose(found, problem.smoothness, rtol=1e-4)
    assert problem.constants.get("convexity", 0) in (0, weight)


def test_there_are_problems_of_every_kind():
    assert len(SUITE.problems) >= 24 and len(SUITE.instances) == 5
    groups = {group for problem in SUITE.problems.values() for group in problem.groups}
    assert groups >= {
        *("strongly_convex", "nonconvex", "polyak_lojasiewicz", "composite", "network", "sparse"),
        *("dense", "many_clients", "few_clients", "few_bits", "slow_links", "stragglers", "graph"),
        *("skewed_labels", "unequal_sizes", "ill_conditioned", "private", "vertical", "min_max"),
    }
    assert max(method.tries for method in SUITE.every_method.values()) <= 8


def first_tries(problem):
    """The experiment of a problem with the first try of every method."""
    content = SUITE.experiment(problem)
    for run in content["runs"].values():
        run["grid"] = {key: values[:1] for key, values in run["grid"].items()}
    del content["tuning_seeds"]
    return validated(Experiment, content, problem, {"where": problem, "inherited": {}})


def test_every_method_runs_on_every_problem_that_takes_it():
    plan = plan_of({f"suite-{name}": first_tries(name) for name in SUITE.problems}, PUBLISHED)
    methods = {name: SUITE.methods_of(name) for name in SUITE.problems}
    assert len(plan.runs) == sum(map(len, methods.values()))
    for name, problem in SUITE.problems.items():
        specs = plan.runs_of(f"suite-{name}")
        assert [spec.run for spec in specs] == [*methods[name]]
        assert len({spec.partition.of_seed(seed).slug for spec in specs for seed in (0, 1)}) == 2
        assert all(
            spec.rounds == problem.rounds * methods[name][spec.run].rounds_factor for spec in specs
        )


def test_the_plan_has_a_problem_as_an_ordinary_experiment():
    plan = build_plan(CONFIG, names=["suite-quad-flat"])
    assert list(plan.experiments) == ["suite-quad-flat"]
    steps = [0.004, 0.01, 0.03, 0.06, 0.12, 0.25, 0.5, 1]
    points = [spec.point for spec in plan.runs_of("suite-quad-flat") if spec.run == "fedavg"]
    assert points == [f"local_step_size-{float(step)}" for step in steps]
    # Who asks for all experiments has not asked for these.
    (head,) = [head for head in find_heads(CONFIG / "experiments") if head.suite]
    assert head.may_be("suite-*") and head.may_be("suite-quad") and not head.may_be("*")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A suite of one small problem, and a folder with two methods that ran one after the other."""
    tmp_path = tmp_path_factory.mktemp("suite")
    small = tmp_path / "suite.yaml"
    declared = yaml.safe_load((CONFIG / "suite.yaml").read_text(encoding="utf-8"))
    declared["problems"] = {"quad": declared["problems"]["quad-skewed"] | {"rounds": 30}}
    declared["methods"]["clients"]["fedavg"]["grid"] = {"local_step_size": ["0.2*L", "0.02/L"]}
    declared["methods"]["clients"]["ef21"]["grid"] = {"step_size": ["0.3/L"]}
    small.write_text(
        yaml.safe_dump(declared | {"smoke": [], "instances": [1, 4]}), encoding="utf-8"
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("fedatlas.cli.suite._files", lambda: [small])
        patched.chdir(tmp_path)
        train_problem("quad", ["fedavg"], tmp_path / "results")
        trace = tmp_path / "results/experiments/suite-quad/traces/fedavg/local_step_size-0.2.nc"
        before = trace.stat().st_mtime_ns
        train_problem("quad", ["ef21"], tmp_path / "results")
        assert trace.stat().st_mtime_ns == before  # not trained again
    return load_suite(small), tmp_path / "results"


def test_a_trial_trains_on_its_own_instance(trained):
    _, results = trained
    runs = fedatlas.open_atlas(results).runs()
    points = runs.point[runs.run == "fedavg"]
    assert list(points) == ["local_step_size-0.2", "local_step_size-0.02"]
    assert set(runs.run) == {"fedavg", "ef21"}
    traces = results / "experiments" / "suite-quad" / "traces"
    trace = read_trace(traces / "fedavg" / "local_step_size-0.2.nc")
    assert trace.seed.to_numpy().tolist() == [1, 4, 5]
    alone = PUBLISHED["suite-quad-skewed"].each_instance()[4].read("train", [])
    expected = fedatlas.train(
        "fedavg", (alone.features, alone.label), rounds=30, record_every={0: 1, 20: 5, 100: 10},
        seeds=[4], optimum=True, objective={"name": "least_squares"},
        partition={"kind": "horizontal", "clients": 20},
        clients_per_round=10, local_steps=5, batch_size=4, local_step_size=0.2,
    )  # fmt: skip
    for measured in ("objective", "gradient_norm", "suboptimality"):
        np.testing.assert_allclose(trace[measured][1], expected[measured][0], rtol=1e-9)


def test_methods_are_scored_by_cost_where_two_have_run(trained, tmp_path):
    suite, results = trained
    (table, numbers) = scores_of(suite, ["quad"], [results], ["bytes"], tmp_path / "scores")
    assert table == "clients and composite, by suboptimality:"
    assert "FedAvg" in numbers and "EF21" in numbers and numbers.startswith("bytes: ")
    kinds = {file.suffix for file in (tmp_path / "scores").iterdir()}
    assert kinds == {".svg", ".tex", ".csv"}
    start = fedatlas.open_atlas(results).sel("suite-quad", "ef21").suboptimality[:, 0].median()
    csv = (tmp_path / "scores" / "clients-composite-suboptimality.csv").read_text("utf-8")
    assert f",{float(f'{0.3 * float(start):.3g}')}," in csv
    assert "No problem has two methods" in "".join(scores_of(suite, [], [results], None))


def test_the_command_names_what_there_is():
    told = CliRunner().invoke(app, ["suite", "list", "--problems", "polyak_lojasiewicz"]).output
    assert "quad-flat: Quadratics with flat directions" in told and "tries: fedavg 8" in told
    for words, why in (
        (["run", "fedavgg"], "no method 'fedavgg'; similar: fedavg"),
        (["run", "tdcd", "--problems", "auc"], "none of the problems takes one of the methods"),
        (
            ["list", "--problems", "quadd"],
            "'quadd' is no problem and no group of the suite; similar",
        ),
    ):
        error = CliRunner().invoke(app, ["suite", *words]).exception
        assert isinstance(error, FedatlasError) and why in str(error)


def test_a_project_adds_problems_and_methods(tmp_path):
    mine = tmp_path / "suite.yaml"

    def both(content):
        mine.write_text(yaml.safe_dump(content), encoding="utf-8")
        return load_suite(CONFIG / "suite.yaml", mine)

    problem = yaml.safe_load((CONFIG / "suite.yaml").read_text(encoding="utf-8"))["problems"][
        "quad"
    ]
    suite = both(
        {
            "methods": {"clients": {"mine": {"grid": {"step_size": ["1/L", "$batch"]}}}},
            "problems": {"own": problem | {"smoothness": 8}},
        }
    )
    assert list(suite.problems)[-1] == "own" and list(suite.methods["clients"])[-1] == "mine"
    run = suite.experiment("own", ["mine"])["runs"]["mine"]
    assert run == {"algorithm": "mine", "hyper_parameters": {}, "grid": {"step_size": [0.125, 4]}}
    with pytest.raises(
        FedatlasError, match=r"suite\.yaml: problems\.quad: there is one of that name"
    ):
        both({"problems": {"quad": problem}})
    with pytest.raises(FedatlasError, match=r"methods\.clients\.fedavg: there is one of that name"):
        both({"methods": {"clients": {"fedavg": {}}}})
    with pytest.raises(FedatlasError, match="key 'targets': a project adds problems and methods"):
        both({"targets": [0.1]})
    with pytest.raises(
        FedatlasError, match=r"problems\.own\.takes: 'client' is no table of methods"
    ):
        both({"problems": {"own": problem | {"takes": ["client"]}}})
    with pytest.raises(
        FedatlasError, match=r"'\$bach': the problem states no 'bach' under 'values'"
    ):
        both({"methods": {"clients": {"mine": {"grid": {"step_size": ["$bach"]}}}}}).experiment(
            "quad"
        )


def test_instances_need_a_seed_and_a_data_set_that_has_them(tmp_path):
    with pytest.raises(FedatlasError, match="'format: bundled' has none"):
        validated(
            type(PUBLISHED["digits"]), PUBLISHED["digits"].model_dump() | {"instances": 2}, "here"
        )
    with pytest.raises(
        FedatlasError, match=r"partition: instances: data set .* is declared with none"
    ):
        fedatlas.train(
            "fedavg", "quadratics-20", rounds=1, objective={"name": "least_squares"},
            partition={"kind": "horizontal", "clients": 20, "instances": True},
            clients_per_round=1, local_steps=1, local_step_size=0.1,
        )  # fmt: skip


def test_a_suite_without_the_smoke_problems_is_refused():
    declared = yaml.safe_load((CONFIG / "suite.yaml").read_text(encoding="utf-8"))
    with pytest.raises(FedatlasError, match="smoke: there is no problem 'nothing'"):
        validated(Suite, declared | {"smoke": ["nothing"]}, "here")
