"""DP local SGD: gradients of samples are clipped, noise has the stated law; ε by the library."""

from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp
from hypothesis import given
from hypothesis import strategies as some
from scipy import stats

from fedatlas.algorithms import build_algorithm
from fedatlas.algorithms.dp_local_sgd import DpLocalSgd
from fedatlas.arithmetic.minibatches import Minibatches
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.arithmetic.samples import Clipping
from fedatlas.errors import FedatlasError
from fedatlas.federations.context import FederationContext
from small_federations import small, small_shards
from test_client_weights import SIZES, N, engine_of, toy
from test_methods import Run

pytestmark = pytest.mark.usefixtures("one_thread")

STEP: dict[str, Any] = {"clients_per_round": N, "local_steps": 1, "local_step_size": 0.5}


@pytest.mark.parametrize("kind", ["compiled", "torch", "network"])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_gradients_of_samples_are_clipped(kind: str, norm: Any) -> None:
    """Beside gradients of minibatches of one sample; the regulariser's is left as it is."""
    engine = engine_of(kind, "equal")
    points = np.random.default_rng(2).normal(size=(N, engine.dimension))
    drawn = engine.minibatches(RoundRandom(1), np.arange(N), 3)
    penalty = 0.0 if kind == "network" else 0.1 * points
    gradients = []
    for start, point, client in zip(drawn.starts, points, range(N), strict=True):
        taken = drawn.rows[client, 0, : drawn.sizes[client]]
        assert set(taken) <= set(range(start, start + SIZES[client]))
        alone = [Minibatches.of_first_rows(np.array([row]), np.array([1])) for row in taken]
        own = [engine.numpy(engine.client_gradients(engine.array(point), one))[0] for one in alone]
        gradients.append(np.array(own) - (0.0 if kind == "network" else 0.1 * point))
    order = {"l1": 1, "l2": 2}[norm]
    norms = np.concatenate([np.linalg.norm(own, order, axis=1) for own in gradients])
    bound = float(np.median(norms))
    expected = [
        (own / np.maximum(1, np.linalg.norm(own, order, axis=1) / bound)[:, None]).mean(0)
        for own in gradients
    ]
    counted = engine.counting(type(engine._counters)())
    found = counted.gradient(engine.array(points), drawn, Clipping(norm, bound))
    np.testing.assert_allclose(engine.numpy(found) - penalty, expected, rtol=0, atol=1e-14)
    assert counted._counters.gradient_evaluations == drawn.samples


@given(some.integers(0, 2**32 - 1), some.integers(1, 6), some.floats(0.01, 1))
def test_a_step_moves_by_no_more_than_its_sensitivity(seed: int, size: int, bound: float) -> None:
    """Where one sample is replaced: 2C/b of the mean, η times it of the model."""
    ours, other = toy(), toy()
    features, _ = other.clients[2]
    features[seed % SIZES[2]] = 100 * np.random.default_rng(seed).normal(size=features.shape[1])
    method = DpLocalSgd(**STEP, batch_size=size, clip_bound=bound, noise_multiplier=0)
    first, second = (
        Run(method, engine_of("compiled", "equal", each), seed).trajectory(1)[1]
        for each in (ours, other)
    )
    moved = N * np.linalg.norm(first - second)  # of the client's own model
    assert moved <= 0.5 * 2 * bound / min(size, SIZES[2]) * (1 + 1e-9)


def test_noise_is_normal_over_the_size_of_minibatches() -> None:
    """Of a client with three samples, which takes all, and of one with nine, which takes five."""
    private = {"clip_bound": 0.2, "noise_multiplier": 1.5, "batch_size": 5}
    for sizes, size in (((3,), 3), ((9,), 5)):
        engine = engine_of("compiled", "equal", toy(sizes))
        one = STEP | private | {"clients_per_round": 1}
        run, found = Run(DpLocalSgd(**one), engine), []
        without = Run(DpLocalSgd(**one | {"noise_multiplier": 0}), engine)
        for _ in range(300):
            without.state = run.state
            without.round()
            run.round()
            found.append((run.x - without.x) / (-0.5 * 1.5 * 0.2 / size))
        assert stats.kstest(np.ravel(found), stats.norm.cdf).pvalue > 0.01


def by_the_library(samples: int, drawn: int, noise: float, steps: int, delta: float) -> float:
    """A replaced sample moves the sum of clipped gradients by twice the bound."""
    accountant = rdp.RdpAccountant(
        neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE
    )
    event = dp_accounting.SampledWithoutReplacementDpEvent(
        samples, drawn, dp_accounting.GaussianDpEvent(noise / 2)
    )
    return accountant.compose(event, steps).get_epsilon(delta)


def test_traces_tell_the_budget_of_the_smallest_clients_samples(tmp_path: Any) -> None:
    """Ten samples, of which two are drawn at each of three steps in each of seven rounds."""
    spec = small("dp_local_sgd")
    context = FederationContext(spec, small_shards(tmp_path, "dp_local_sgd"), "cpu")
    method = build_algorithm(spec)
    privacy = context.privacy(method, 7)
    epsilon = privacy.spent["epsilon"]
    assert epsilon[0] == 0 and len(epsilon) == 8 and (np.diff(epsilon) > 0).all()
    for rounds in (1, 7):
        expected = by_the_library(10, 2, 0.8, 3 * rounds, 10**-1.1)
        assert epsilon[rounds] == pytest.approx(expected, abs=1e-6)
    np.testing.assert_allclose(privacy.spent["delta"], [0, *[10**-1.1] * 7])
    assert privacy.statement.startswith("protects one sample of a client: ")
    assert privacy.statement.endswith("clipped to C = 0.05 in l2; δ = M^-1.1")
    without: Any = build_algorithm(small("dp_local_sgd", {"noise_multiplier": 0, "delta": 1e-3}))
    assert without.mechanism(10).renyi_budget([1], 1e-3).final[0] == np.inf
    assert without.privacy_statement.endswith("δ = 0.001")
    with pytest.raises(FedatlasError, match="smallest client has M = 1: state δ"):
        method.delta_of(1)
