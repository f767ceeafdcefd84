"""Noise that gathers in x̄: the exact covariance against runs of the methods themselves."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from experiment_files import plan_of_all
from fedatlas.algorithms import build_algorithm
from fedatlas.arithmetic.randomness import Draws, RoundRandom
from fedatlas.federations.decentralised.graph import GraphCounters, GraphNetwork
from fedatlas.studies import budgets
from fedatlas.studies.budgets import noise_model

NUMBERS = 4000  # of a model, each of which is a run of its own


def runs() -> dict[str, Any]:
    return {spec.run: spec for spec in plan_of_all().runs_of("dpgt-mnist-cpu")}


def simulated(algorithm, graphs, iterations):
    """Standard deviation of x̄'s numbers, of rounds of the method with gradients of 0."""
    counters = GraphCounters()
    network = GraphNetwork(*graphs, np.asarray, Draws(), counters)
    agents = len(graphs[0])
    problem: Any = SimpleNamespace(
        agents=agents,
        dimension=NUMBERS,
        minibatches=lambda random, size: None,
        first_samples=lambda size: None,
        gradients=lambda points, batch, clipping: np.zeros((agents, NUMBERS)),
    )
    state = algorithm.start(problem, network, np.zeros((agents, NUMBERS)))
    random = RoundRandom(11)
    for k in range(iterations):
        state = algorithm.round(state, problem, network, random.at(k))
    return float(state.x.mean(axis=0).std())


@pytest.mark.parametrize(
    "run",
    ["s1-0.1", "s2-0.9996", "unbalanced", "rings", "literal", "kang-2021-matched", "yan-2024",
     "chen-wang-2025", "wang-basar-2023", "wang-zhang-2024", "chen-wang-zhang-2024"],
)  # fmt: skip
def test_it_is_what_runs_of_the_method_gather(run):
    spec, iterations = runs()[run], 25
    algorithm, graphs = build_algorithm(spec), spec.graph_weights
    expected = noise_model(spec, iterations).drift()[-1]
    # The spread of a standard deviation over 4000 numbers, four times.
    assert simulated(algorithm, graphs, iterations) == pytest.approx(
        expected, rel=4 / np.sqrt(2 * NUMBERS), abs=1e-12
    )


@pytest.mark.parametrize("form", ["literal", "compact", "provable"])
def test_every_form_gathers_as_it_updates(form):
    scheme = {"name": "constant", "alpha": 0.3, "beta": 0.2, "gamma": 0.4, "samples": 1}
    scheme |= {"state_noise_scale": 0.7, "tracker_noise_scale": 1.3}
    values = {"scheme": scheme, "horizon": 2000, "form": form, "clipping": "l1"}
    spec = runs()["s2-0.9996"].model_copy(update={"hyper_parameters": values})
    algorithm, graphs = build_algorithm(spec), spec.graph_weights
    found = noise_model(spec, 12).drift()[-1]
    # Steps along trackers as sent are noisy by themselves; so is the mean of weights that differ.
    assert simulated(algorithm, graphs, 12) == pytest.approx(found, rel=4 / np.sqrt(2 * NUMBERS))


def test_drift_of_the_runs_of_figures_4_and_5():
    """After 2000 iterations; of [36] γ s √(K/n), of [43] κ σ √(2K/n)."""
    found = {
        name: noise_model(spec, spec.rounds).drift()[-1]
        for name, spec in runs().items()
        if name in ("s1-0.1", "s1-0.1-unbalanced", "s1-0.1-rings", "s2-0.9996", "unbalanced",
                    "rings", "kang-2021", "kang-2021-matched", "chen-wang-2025", "wang-zhang-2024")
    }  # fmt: skip
    assert found == pytest.approx(
        {
            "s1-0.1": 2.15,
            "s1-0.1-unbalanced": 1.07,
            "s1-0.1-rings": 0,
            "s2-0.9996": 1.02,
            "unbalanced": 0.522,
            "rings": 0,
            "kang-2021": 0.1 * 0.4493 * 20,
            "kang-2021-matched": 0.1 * 0.6354 * 20,
            "chen-wang-2025": 0,
            "wang-zhang-2024": 0.1 * 0.4493 * np.sqrt(2) * 20,
        },
        rel=5e-3,
    )


def test_other_methods_are_not_known():
    specs = plan_of_all().runs_of("dpgt-mnist-cpu")
    assert all(noise_model(spec, 3) is not None for spec in specs)
    unlisted = runs()["kang-2021"].model_copy()
    with pytest.MonkeyPatch.context() as patched:
        patched.delitem(budgets._SINGLE, unlisted.algorithm)
        assert noise_model(unlisted, 3) is None
