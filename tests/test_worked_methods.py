"""The worked examples of docs/methods.md, run as they stand there, in an outside project."""

import numpy as np
import pytest

from fedatlas.algorithms import build_algorithm
from fedatlas.errors import FedatlasError
from fedatlas.federations.context import FederationContext
from fedatlas.training.loop import train
from fedatlas.training.rehearsal import rehearse
from outside_project import open_project, whole_files
from resuming import killed_and_resumed, without_times
from small_federations import AGENTS, CLIENTS, LINEAR, LOCAL, PARTIES, RING, small, small_shards
from small_federations import specification as declared

FILES = whole_files("methods")


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    """A project with the page's methods."""
    open_project(tmp_path / "project", FILES, monkeypatch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("small")


def local_momentum(**hyper):
    values = {"partition": CLIENTS, "objective": LINEAR, "graphs": None}
    return declared("local_momentum", **values, hyper_parameters=LOCAL | {"momentum": 0.0} | hyper)


def dsgd(**hyper):
    values = {"partition": AGENTS, "objective": LINEAR, "graphs": RING}
    steps = {"coupling": 0.3, "step_size": 0.15, "samples": 3}
    return declared("dsgd", **values, hyper_parameters=steps | hyper)


def momentum(hyper=None, **changes):
    values = {"partition": PARTIES, "objective": LINEAR, "graphs": None}
    steps = {"step_size": 0.02, "momentum": 0.6}
    return declared("vfb2_momentum", **values, hyper_parameters=steps | (hyper or {}), **changes)


def test_the_page_has_the_methods():
    assert set(FILES) == {
        f"methods/{name}.py" for name in ("local_momentum", "dsgd", "vfb2_momentum")
    }


@pytest.mark.parametrize(
    ("spec", "like"),
    [
        (local_momentum(momentum=0.5), "fedavg"),
        (dsgd(), "gaussian_gradient_descent"),
        (momentum(), "vfb2_sgd"),
    ],
)
def test_they_keep_what_a_method_promises(spec, like, folder):
    assert rehearse(spec, small_shards(folder, like)) == "does what a method promises"


def test_local_momentum_of_nothing_is_fedavg(folder, tmp_path):
    """To rounding: the loops are others, the samples are the same."""
    shards = small_shards(folder, "fedavg")
    fedavg = train(small("fedavg"), shards, tmp_path / "a.nc")
    without = train(local_momentum(), shards, tmp_path / "b.nc")
    for name in ("epoch", "bytes_up", "bytes_down", "messages", "iteration"):
        np.testing.assert_array_equal(without[name], fedavg[name])
    for name in ("objective", "gradient_norm"):
        np.testing.assert_allclose(without[name], fedavg[name], rtol=0, atol=1e-16 * 4)
    heavy = train(local_momentum(momentum=0.8), shards, tmp_path / "c.nc")
    assert (np.abs(heavy["objective"] - fedavg["objective"])[:, -1] > 1e-4).all()


def test_local_momentum_is_its_formula(folder):
    """One client's steps of one round, written out."""
    spec = local_momentum(momentum=0.7, clients_per_round=1, batch_size=None)
    setting = FederationContext(spec, small_shards(folder, "fedavg"), "cpu")
    trial, random = setting.seed_run(3), setting.random(3)
    method, problem = build_algorithm(spec), trial.problem
    x = np.linspace(-1, 1, problem.dimension)
    state = method.start(problem, trial.network, x)
    after = method.round(state, problem, trial.network, random.at(0)).x
    client = random.at(0).sample(problem.clients, 1)
    whole, y, m = problem.minibatches(random, client, None), x, 0 * x
    for _ in range(LOCAL["local_steps"]):
        m = 0.7 * m + problem.gradient(y, whole)[0]
        y = y - LOCAL["local_step_size"] * m
    np.testing.assert_allclose(after, y, rtol=1e-14)


def test_dsgd_is_its_formula_and_clips_only_where_asked(folder, tmp_path):
    shards = small_shards(folder, "gaussian_gradient_descent")
    spec = dsgd(step_size=0.5)
    assert build_algorithm(spec).clipping_rule is None
    assert build_algorithm(dsgd(clipping="l2")).clipping_rule is not None
    setting = FederationContext(spec, shards, "cpu")
    trial, random = setting.seed_run(3), setting.random(3)
    method, problem, links = build_algorithm(spec), trial.problem, trial.network.states
    x = np.random.default_rng(0).normal(size=(5, problem.dimension))
    state = method.start(problem, trial.network, x)
    after = method.round(state, problem, trial.network, random.at(0)).x
    g = problem.gradients(x, problem.minibatches(random.at(0), 3), None)
    for i in range(5):
        pull = sum(links.weights[i, j] * (x[j] - x[i]) for j in range(5))
        np.testing.assert_allclose(after[i], x[i] + 0.3 * pull - 0.5 * g[i], rtol=1e-12)
    trace = train(spec, shards, tmp_path / "trace.nc")
    assert trace.attrs["privacy_statement"] == ""
    assert (trace["objective"][:, -1] < trace["objective"][:, 0]).all()


def test_gradients_refuse_the_samples_of_several_steps(folder):
    """They would be taken over the first step's, and counted for all."""
    setting = FederationContext(small("fedavg"), small_shards(folder, "fedavg"), "cpu")
    trial, random = setting.seed_run(3), setting.random(3)
    problem, clients = trial.problem, np.arange(3)
    for size in (2, None):
        batch = problem.minibatches(random.at(0), clients, size, 4)
        x, told = problem.zeros(), r"those of 4: give it batch\.at\(step\), step = 0 … 3, or"
        with pytest.raises(FedatlasError, match=rf"problem\.gradient is taken .*{told}"):
            problem.gradient(x, batch)
        with pytest.raises(FedatlasError, match=rf"problem\.gradient_difference .*{told}"):
            problem.gradient_difference(x, x, batch)
        assert trial.counters.gradient_evaluations == 0
        for step in (4, -1):
            with pytest.raises(FedatlasError, match=f"a batch of 4 steps has no step {step}"):
                batch.at(step)


def test_min_max_gradients_refuse_them_too(folder):
    setting = FederationContext(small("fmgda"), small_shards(folder, "fmgda"), "cpu")
    trial = setting.seed_run(3)
    batch = trial.problem.minibatches(setting.random(3).at(0), 4, 2)
    for asked in (
        lambda: trial.problem.gradients(*trial.x0, batch),
        lambda: trial.problem.class_means(trial.x0.theta, batch),
    ):
        with pytest.raises(FedatlasError, match=r"those of 2: give it batch\.at\(step\)"):
            asked()


def test_clipping_must_be_stated_where_privacy_rests_on_it():
    spec = small("gaussian_gradient_descent")
    hyper = {key: value for key, value in spec.hyper_parameters.items() if key != "clipping"}
    told = (
        r"\(gaussian_gradient_descent\).*'clipping' is not declared, on which every ε .*rests: say"
    )
    with pytest.raises(FedatlasError, match=told):
        build_algorithm(spec.model_copy(update={"hyper_parameters": hyper}))


def test_a_run_that_ends_above_its_start_says_so(folder, tmp_path, caplog):
    shards = small_shards(folder, "gaussian_gradient_descent")
    noisy = small("gaussian_gradient_descent", {"noise": 60.0})
    trace = train(noisy, shards, tmp_path / "trace.nc")
    assert (trace["objective"][:, -1] > trace["objective"][:, 0]).all()
    told = "the objective ends above its start, at "
    assert told in trace.attrs["warnings"] and "of the seeds 3, 8: " in trace.attrs["warnings"]
    assert f"{noisy.name}: {told}" in caplog.text
    calm = train(small("gaussian_gradient_descent", {"noise": 0.01}), shards, tmp_path / "calm.nc")
    assert told not in calm.attrs["warnings"]


def test_momentum_at_every_block(folder, tmp_path):
    """test_block_steps.py has it against the reference."""
    shards = small_shards(folder, "vfb2_sgd")
    plain = train(small("vfb2_sgd"), shards, tmp_path / "plain.nc")
    without = train(momentum({"momentum": 0.0}), shards, tmp_path / "without.nc")
    for name in ("objective", "gradient_norm"):
        np.testing.assert_allclose(without[name], plain[name], rtol=0, atol=1e-15)
    for name in ("simulated_time", "bytes_up", "update_delay_mean", "tau_1"):
        np.testing.assert_array_equal(without[name], plain[name])
    faster = train(momentum(), shards, tmp_path / "faster.nc")
    assert (faster["objective"][:, -1] < plain["objective"][:, -1]).all()
    (one,) = [train(momentum(seeds=(8,)), shards, tmp_path / "8.nc")]
    np.testing.assert_array_equal(one["objective"][0], faster["objective"][1])


def test_a_momentum_run_goes_on_where_it_was_killed(folder, tmp_path):
    shards = small_shards(folder, "vfb2_sgd")
    whole = train(momentum(), shards, tmp_path / "whole.nc")
    resumed = killed_and_resumed((3, 12), momentum(), shards, tmp_path)
    assert without_times(resumed).identical(without_times(whole))


def test_parties_as_processes_refuse_a_step_of_ones_own():
    with pytest.raises(
        FedatlasError, match=r"moves blocks by 'heavy_ball', .*remove 'backend: pro"
    ):
        build_algorithm(momentum(backend="processes"))
