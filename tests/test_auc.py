"""AUC as a min–max problem: the formulas, their closed forms, and the engine around them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import roc_auc_score

import reference_min_max as reference
from fedatlas.arithmetic import torch_device
from fedatlas.arithmetic.network_losses import auroc
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.arithmetic.samples import Samples
from fedatlas.errors import FedatlasError
from fedatlas.federations.min_max import PrimalDual
from fedatlas.federations.min_max.engine import AucEngine, AucLoss, Auxiliary, pairwise_squared_loss
from fedatlas.federations.parts import Counters
from fedatlas.federations.shards import ClientSamples, read_shard
from fedatlas.schema.objectives import AucObjective
from fedatlas.schema.partitions import HorizontalPartition
from fedatlas.schema.rows import BinaryClasses
from fedatlas.shards.writing import write_shards
from prepared_files import write_prepared

numbers = st.floats(-3, 3)
shares = st.floats(0.01, 0.99)


pytestmark = pytest.mark.usefixtures("one_thread", "toy_project")


@st.composite
def scored(draw: st.DrawFn, most: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Scores and labels ±1, of both classes."""
    n = draw(st.integers(2, most))
    y = np.array(draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=n, max_size=n)))
    assume(len(set(y)) == 2)
    return np.array(draw(st.lists(numbers, min_size=n, max_size=n))), y


def tensor(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def at(a: float, b: float, w: float) -> Auxiliary:
    return Auxiliary(tensor([a]), tensor([b]), tensor([w]))


class Scores:
    """In the place of the reference's network: its "parameters" are the scores themselves."""

    def scores(self, m: np.ndarray, x: Any) -> np.ndarray:
        return m

    def gradient(self, m: np.ndarray, x: Any, slopes: np.ndarray) -> np.ndarray:
        return slopes


# --------------------------------------------------------------------------------- the formulas


@settings(deadline=None)
@given(scored(), numbers, numbers, numbers, shares)
def test_values_and_derivatives_are_the_references(data, a, b, w, p):
    h, y = data
    loss, point = AucLoss(p), at(a, b, w)
    scores, positive = tensor(h), torch.tensor(y > 0)
    even = torch.full_like(scores, 1 / len(h))
    value = float(loss.value(scores, positive, point).mean())
    expected = reference.auc_value(h, a, b, w, None, y, p, Scores())
    assert value == pytest.approx(expected, rel=1e-11, abs=1e-11)
    of_theta, of_w = reference.auc_gradients(h, a, b, w, h, y, p, Scores())
    slopes = even * loss.score_slopes(scores, positive, point)
    others = loss.auxiliary_gradient(scores, positive, even, point)
    ours = np.concatenate([slopes, others.a, others.b, others.w])
    np.testing.assert_allclose(ours, [*of_theta, of_w], rtol=1e-11, atol=1e-11)


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 6), shares)
def test_derivatives_are_those_of_autograd(seed, workers, n, p):
    """With a row for each worker, a point of its own, and shares that are not even."""
    rng = np.random.default_rng(seed)
    h = tensor(rng.normal(size=(workers, n))).requires_grad_()
    positive = torch.tensor(rng.random((workers, n)) < 0.5)
    share = tensor(rng.dirichlet(np.ones(n), workers))
    point = Auxiliary(*(tensor(of).requires_grad_() for of in rng.normal(size=(3, workers, 1))))
    loss = AucLoss(p)
    values = loss.value(h, positive, point)
    assert values.shape == h.shape
    expected = torch.autograd.grad((share * values).sum(), [h, *point])
    with torch.no_grad():
        slopes = share * loss.score_slopes(h, positive, point)
        others = loss.auxiliary_gradient(h, positive, share, point)
    for ours, theirs in zip((slopes, *others), expected, strict=True):
        assert ours.shape == theirs.shape
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_a_value_by_hand():
    """p = 1/4, h = 1/2, a = 1, b = −1, w = 2: 3/4 (1/4 − 3) − 3/4 and 1/4 (9/4 + 3) − 3/4."""
    values = AucLoss(0.25).value(tensor([0.5, 0.5]), torch.tensor([True, False]), at(1, -1, 2))
    assert values.tolist() == [-2.8125, 0.5625]


# ------------------------------------------------------------------------------ closed forms


@settings(deadline=None)
@given(scored())
def test_the_saddle_point_is_where_all_derivatives_vanish(data):
    h, y = data
    p = float((y > 0).mean())
    scores, positive = tensor(h), torch.tensor(y > 0)
    a, b = h[y > 0].mean(), h[y < 0].mean()
    even = torch.full_like(scores, 1 / len(h))
    gradient = AucLoss(p).auxiliary_gradient(scores, positive, even, at(a, b, b - a))
    np.testing.assert_allclose([float(part) for part in gradient], 0, atol=1e-12)


@settings(deadline=None)
@given(scored(), numbers, numbers, numbers)
def test_the_value_at_the_saddle_point_is_the_loss_over_pairs(data, da, db, dw):
    """max_w min_{a,b} F = p(1−p)(P − 1), with P by a loop over pairs."""
    h, y = data
    p = float((y > 0).mean())
    pairs = [(1 - plus + minus) ** 2 for plus in h[y > 0] for minus in h[y < 0]]
    loss, scores, positive = AucLoss(p), tensor(h), torch.tensor(y > 0)
    a, b = h[y > 0].mean(), h[y < 0].mean()

    def value(a: float, b: float, w: float) -> float:
        return float(loss.value(scores, positive, at(a, b, w)).mean())

    saddle = value(a, b, b - a)
    assert saddle == pytest.approx(p * (1 - p) * (np.mean(pairs) - 1), rel=1e-10, abs=1e-10)
    # Least in a and b, greatest in w: F has no products of w with them.
    assert value(a + da, b + db, b - a) >= saddle - 1e-12
    assert value(a, b, b - a + dw) <= saddle + 1e-12
    assert float(pairwise_squared_loss(scores, positive)) == pytest.approx(
        np.mean(pairs), rel=1e-10, abs=1e-12
    )
    assert np.mean(pairs) == pytest.approx(reference.pairwise_squared_loss(h, y))


@settings(deadline=None)
@given(scored(), numbers, numbers, shares)
def test_the_objective_is_strongly_concave_in_w(data, one, other, p):
    """∂F/∂w falls by exactly 2p(1−p) a unit, whatever the samples' own share of positives."""
    assume(abs(one - other) > 1e-2)
    h, y = data
    scores, positive = tensor(h), torch.tensor(y > 0)
    even = torch.full_like(scores, 1 / len(h))
    slopes = [
        float(AucLoss(p).auxiliary_gradient(scores, positive, even, at(0.1, 0.2, w)).w)
        for w in (one, other)
    ]
    concavity = (slopes[0] - slopes[1]) / (one - other)
    assert concavity == pytest.approx(-2 * p * (1 - p), rel=1e-9, abs=1e-9)


# ------------------------------------------------------------------------------ the engine


def one_number_each(
    *workers: list[tuple[float, float]], test: list[tuple[float, float]] | None = None
) -> ClientSamples:
    """Workers' samples as pairs of a feature and a label."""
    rows = np.array([pair for worker in workers for pair in worker])
    offsets = np.cumsum([0, *(len(worker) for worker in workers)])
    metadata = {
        "dataset": "made-up",
        "shape": [1],
        "positive_rate": float((rows[:, 1] > 0).mean()),
    }
    kept = None
    if test is not None:
        of_test = np.array(test)
        kept = Samples(np.arange(len(test)), of_test[:, 1].copy(), of_test[:, :1].copy())
    samples = Samples(np.arange(len(rows)), rows[:, 1].copy(), rows[:, :1].copy())
    return ClientSamples(samples, offsets, metadata, kept)


def engine_of(data: ClientSamples, scores: str = "linear", **more: bool) -> AucEngine:
    objective = AucObjective(name="auc_min_max", model="identity", scores=scores, **more)
    return AucEngine(data, objective, "cpu", torch.float64)


def ordered(h: np.ndarray, y: np.ndarray) -> float:
    """The fraction of pairs whose positive scores higher; ties count half."""
    pairs = [
        1.0 if plus > minus else 0.5 if plus == minus else 0.0
        for plus in h[y > 0]
        for minus in h[y < 0]
    ]
    return float(np.mean(pairs))


@st.composite
def grouped(draw: st.DrawFn) -> list[list[tuple[float, float]]]:
    """Workers with a few samples each, both classes among them all, scores with ties."""
    sample = st.tuples(st.integers(-2, 2).map(float), st.sampled_from([-1.0, 1.0]))
    worker = st.lists(sample, min_size=1, max_size=5)
    workers = draw(st.lists(worker, min_size=1, max_size=4))
    assume(len({label for worker in workers for _, label in worker}) == 2)
    return workers


POINT = PrimalDual(tensor([1.0, 0.0, 0.3, -0.4]), tensor([0.7]))  # weight, bias, a, b; w


@settings(deadline=None)
@given(grouped())
def test_measurements(workers):
    """Workers weigh the same in the min–max objective, samples in all else.

    Positive is predicted above (0.3 − 0.4)/2: of scores that are whole numbers from 0 on.
    """
    rows = np.array([pair for worker in workers for pair in worker])
    h, y = rows.T
    measured = engine_of(one_number_each(*workers, test=[(2, 1), (1, 1), (1, -1)])).measure(POINT)
    qualities = {"train_auroc", "test_auroc", "train_accuracy", "test_accuracy"}
    dual = {"dual_variable", "dual_optimum", "dual_distance"}
    assert set(measured) == {"objective", "min_max_objective", *dual, *qualities}
    right = [(x >= 0) == (label > 0) for x, label in rows.tolist()]
    assert measured["train_accuracy"] == pytest.approx(sum(right) / len(right))
    assert measured["test_accuracy"] == pytest.approx(2 / 3)
    assert measured["train_auroc"] == pytest.approx(ordered(h, y), abs=1e-12)
    assert measured["test_auroc"] == pytest.approx(0.75)
    assert measured["objective"] == pytest.approx(reference.pairwise_squared_loss(h, y))
    p = (y > 0).mean()

    def value(w: float) -> float:
        """F by the reference; workers weigh the same."""
        split = [np.array(worker).T for worker in workers]
        each = [reference.auc_value_of_scores(x, 0.3, -0.4, w, label, p) for x, label in split]
        return float(np.mean(each))

    assert measured["min_max_objective"] == pytest.approx(value(0.7), abs=1e-12)
    # F is a parabola in w: its vertex from three points.
    low, middle, high = value(-1.0), value(0.0), value(1.0)
    vertex = (high - low) / (2 * (2 * middle - low - high))
    assert measured["dual_variable"] == pytest.approx(0.7)
    assert measured["dual_optimum"] == pytest.approx(vertex, abs=1e-9)
    assert measured["dual_distance"] == pytest.approx(abs(0.7 - vertex), abs=1e-9)


@settings(deadline=None, max_examples=30)
@given(grouped(), st.sampled_from(["linear", "sigmoid"]), st.integers(1, 9))
def test_the_gradient_of_the_maximum_over_w_is_autograds(workers, scores, rows):
    """By autograd through w*(θ) itself, where the engine takes ∇_θ F at w* (Danskin)."""
    theta = POINT.theta.clone().requires_grad_()

    def outer(w: torch.Tensor) -> torch.Tensor:
        p = np.mean([label > 0 for worker in workers for _, label in worker])
        total = torch.zeros((), dtype=torch.float64)
        for worker in workers:
            for x, label in worker:
                h = theta[0] * x + theta[1]
                h = torch.sigmoid(h) if scores == "sigmoid" else h
                if label > 0:
                    f = (1 - p) * ((h - theta[2]) ** 2 - 2 * (1 + w) * h)
                else:
                    f = p * ((h - theta[3]) ** 2 + 2 * (1 + w) * h)
                total = total + (f - p * (1 - p) * w**2) / (len(worker) * len(workers))
        return total

    low, middle, high = (outer(tensor(w)) for w in (-1.0, 0.0, 1.0))
    best = (high - low) / (2 * (2 * middle - low - high))
    (expected,) = torch.autograd.grad(outer(best), theta)
    engine = engine_of(one_number_each(*workers), scores, stationarity=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedatlas.federations.min_max.engine._ROWS", rows)
        measured = engine.measure(POINT)
        found = engine.primal_gradient(POINT.theta, best.detach()[None])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
    assert measured["primal_gradient_norm"] == pytest.approx(float(expected.norm()), abs=1e-9)


def test_without_test_rows_there_is_no_test_auroc():
    measured = engine_of(one_number_each([(1, 1), (0, -1)])).measure(POINT)
    assert not any(name.startswith("test_") for name in measured)
    assert measured["train_auroc"] == 1.0


def test_auroc_ranks_what_a_sigmoid_would_make_alike():
    engine = engine_of(one_number_each([(100, 1), (99, -1), (98, -1)], test=[(70, 1), (71, -1)]),
                       "sigmoid")  # fmt: skip
    measured = engine.measure(POINT)
    assert measured["train_auroc"] == 1.0
    assert measured["test_auroc"] == 0.0
    assert measured["objective"] == 1.0  # all scores are 1
    assert measured["train_accuracy"] == pytest.approx(1 / 3)  # and above the threshold


@settings(deadline=None)
@given(scored(), numbers, numbers, st.sampled_from(["linear", "sigmoid"]))
def test_accuracies_are_of_scores_against_the_midpoint_of_class_means(data, a, b, scores):
    h, y = data
    engine = engine_of(one_number_each(list(zip(h, y, strict=True))), scores)
    point = PrimalDual(tensor([1.0, 0.0, a, b]), tensor([0.7]))
    shown = h if scores == "linear" else 1 / (1 + np.exp(-h))
    assume(np.abs(2 * shown - a - b).min() > 1e-9)
    right = sum((2 * score > a + b) == (label > 0) for score, label in zip(shown, y, strict=True))
    assert engine.measure(point)["train_accuracy"] == pytest.approx(right / len(y))


def test_a_score_at_the_threshold_counts_as_negative():
    engine = engine_of(one_number_each([(1, 1), (1, -1), (1, -1), (2, 1)]))
    at_the_scores = PrimalDual(tensor([1.0, 0.0, 2.0, 0.0]), tensor([0.0]))
    assert engine.measure(at_the_scores)["train_accuracy"] == 0.75


def test_scores_that_are_no_numbers_have_no_auroc():
    measured = engine_of(one_number_each([(1, 1), (0, -1)])).measure(
        PrimalDual(tensor([np.inf, 0.0, 0.0, 0.0]), tensor([0.0]))
    )
    assert np.isnan(measured["train_auroc"])
    assert np.isnan(measured["objective"])


@settings(deadline=None)
@given(grouped(), st.integers(1, 6), st.sampled_from(["sigmoid", "linear"]))
def test_padded_rows_change_nothing(workers, size, scores):
    """Each worker's gradient is the one that it has alone, under the p of all of them."""
    data = one_number_each(*workers)
    engine = engine_of(data, scores)
    batch = engine.minibatches(RoundRandom(0), size, 1)
    together = engine.gradients(POINT.theta, POINT.w, batch)
    assert together.theta.shape == (len(workers), 4)
    assert together.w.shape == (len(workers), 1)
    for number in range(len(workers)):
        if batch.rows.size:
            rows = batch.rows[number, 0, : batch.sizes[number]]
        else:
            rows = np.arange(data.offsets[number], data.offsets[number + 1])
        x, y = data.samples.features[rows, 0], data.samples.label[rows]
        h = x if scores == "linear" else 1 / (1 + np.exp(-x))
        p = data.metadata["positive_rate"]
        of_h, of_w = reference.auc_gradients(h, 0.3, -0.4, 0.7, h, y, p, Scores())
        slopes = of_h[:-2] * (1 if scores == "linear" else h * (1 - h))
        expected = [(slopes * x).sum(), slopes.sum(), *of_h[-2:]]
        np.testing.assert_allclose(together.theta[number], expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(together.w[number], [of_w], rtol=1e-10, atol=1e-12)


def test_a_minibatch_at_two_points_and_two_minibatches_at_one():
    """Inputs are kept for as long as the minibatch is the same, and no longer."""
    engine = engine_of(one_number_each([(0.5, 1), (1.5, -1)], [(2, 1), (-1, -1)]))
    whole = engine.minibatches(RoundRandom(0), None, 1)
    parts = engine.minibatches(RoundRandom(0), 1, 2)
    elsewhere = PrimalDual(2 * POINT.theta, POINT.w)
    asked = [(POINT, parts.at(0)), (elsewhere, parts.at(0)), (POINT, parts.at(1)), (POINT, whole)]
    asked[1] = (elsewhere, asked[0][1])
    kept = [engine.gradients(point.theta, point.w, batch) for point, batch in asked]
    for (point, batch), gradient in zip(asked, kept, strict=True):
        fresh = engine_of(one_number_each([(0.5, 1), (1.5, -1)], [(2, 1), (-1, -1)]))
        expected = fresh.gradients(point.theta, point.w, batch)
        assert torch.equal(gradient.theta, expected.theta)
        assert torch.equal(gradient.w, expected.w)


def test_start_has_zeros_beside_the_network():
    engine = engine_of(one_number_each([(1, 1), (0, -1)]))
    theta, w = engine.start(3)
    assert theta.shape == (4,)
    assert torch.equal(theta[:2], engine.network.initial(3))
    assert torch.equal(theta[2:], tensor([0.0, 0.0]))
    assert torch.equal(w, tensor([0.0]))
    assert not torch.equal(engine.start(4).theta, theta)


def test_p_is_the_share_among_all_samples_though_workers_have_one_class_each():
    workers = [[(0.5, 1.0)] * 3, [(0.2, -1.0)], [(0.1, 1.0), (0.7, 1.0)]]
    engine = engine_of(one_number_each(*workers))
    p = 5 / 6
    problem = engine.counting(Counters())
    gradient = problem.gradients(*POINT, problem.minibatches(RoundRandom(0), None))
    for number, worker in enumerate(workers):
        h, y = np.array(worker).T
        of_h, of_w = reference.auc_gradients(h, 0.3, -0.4, 0.7, h, y, p, Scores())
        np.testing.assert_allclose(gradient.theta[number, 2:], of_h[-2:], rtol=1e-12)
        np.testing.assert_allclose(gradient.w[number], of_w, rtol=1e-12)
    assert np.isfinite(list(problem.measure(POINT).values())).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_images_are_normalised_by_channel(dtype):
    """Stored channels first; two channels of 2 × 3 cells."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (4, 12)).astype(dtype)
    metadata = {
        "dataset": "made-up",
        "shape": [2, 2, 3],
        "positive_rate": 0.5,
        "normalisation": {"mean": [10.0, 100.0], "deviation": [2.0, 50.0]},
    }
    y = np.array([1.0, -1.0, 1.0, -1.0])
    samples = Samples(np.arange(4), y, pixels)
    engine = engine_of(ClientSamples(samples, np.array([0, 3, 4]), metadata))
    normal = pixels.reshape(4, 2, 6).astype(float)
    normal = (normal - [[10.0], [100.0]]) / [[2.0], [50.0]]
    theta, w = engine.start(1)
    h = normal.reshape(4, 12) @ theta[:12].numpy() + float(theta[12])
    measured = engine.measure(PrimalDual(theta, w))
    assert measured["objective"] == pytest.approx(reference.pairwise_squared_loss(h, y))
    batch = engine.minibatches(RoundRandom(0), None, 1)
    gradient = engine.gradients(theta, w, batch).theta
    of_h, _ = reference.auc_gradients(h[:3], 0, 0, 0, h[:3], y[:3], 0.5, Scores())
    expected = of_h[:3] @ normal.reshape(4, 12)[:3]
    np.testing.assert_allclose(gradient[0, :12], expected, rtol=1e-10)


# --------------------------------------------------------------------- what cannot be ranked


def sharded(
    folder: Path,
    label: np.ndarray,
    test: np.ndarray | None = None,
    *,
    sparse_rows: bool = False,
    clients: int = 2,
    binary: BinaryClasses | None = None,
) -> ClientSamples:
    """Samples of 8 × 8 cells as they come out of the workflow."""

    def prepared(name: str, label: np.ndarray) -> Path:
        features: Any = np.random.default_rng(0).random((len(label), 64))
        features = sparse.csr_array(features) if sparse_rows else features
        samples = Samples(np.arange(len(label)), label, features)

        return write_prepared(
            folder / f"{name}.parquet", samples, (1, 8, 8), dataset="made-up", split=name
        )

    spec = HorizontalPartition(
        clients=clients, test="test" if test is not None else None, binary=binary
    )
    silo = folder / "silo-0.parquet"
    held_out = prepared("test", test) if test is not None else None
    write_shards(prepared("train", label), spec, [silo], folder / "manifest.json", held_out)
    return read_shard(silo)


def cnn(data: ClientSamples) -> AucEngine:
    return AucEngine(data, AucObjective(name="auc_min_max", model="cnn_8x8"), "cpu")


@pytest.mark.parametrize(("sign", "rate"), [(1.0, 1), (-1.0, 0)])
def test_samples_of_one_class_cannot_be_ranked(tmp_path, sign, rate):
    data = sharded(tmp_path, np.full(6, sign))
    assert data.metadata["positive_rate"] == rate
    with pytest.raises(
        FedatlasError, match=rf"data set 'made-up' have a share of positives of {rate};.*'binary'"
    ):
        cnn(data)


def test_labels_must_be_signs(tmp_path):
    data = sharded(tmp_path, np.arange(6) % 3.0)
    assert data.metadata["positive_rate"] is None
    with pytest.raises(
        FedatlasError, match=r"data set 'made-up' have labels that are not ±1;.*'binary' says"
    ):
        cnn(data)
    binary = BinaryClasses(positive=(2,))
    assert cnn(sharded(tmp_path, np.arange(6) % 3.0, binary=binary)).samples == 6


def test_test_rows_of_one_class_cannot_be_ranked(tmp_path):
    signs = np.array([1.0, -1.0, 1.0, -1.0])
    data = sharded(tmp_path, signs, np.ones(3))
    with pytest.raises(FedatlasError, match=r"test samples of data set 'made-up' are all of one"):
        cnn(data)
    engine = cnn(sharded(tmp_path, signs, signs))
    assert "test_auroc" in engine.measure(engine.start(0))


def test_sparse_rows_are_made_dense_for_networks(tmp_path, monkeypatch):
    label = np.array([1.0, -1.0, 1.0, -1.0])
    (tmp_path / "dense").mkdir()
    dense, rows = (
        cnn(sharded(tmp_path / "dense", label)),
        sharded(tmp_path, label, sparse_rows=True),
    )
    start = dense.start(0)
    assert cnn(rows).measure(start) == dense.measure(start)
    monkeypatch.setattr(torch_device, "_MOST_NUMBERS", 4 * 64 - 1)
    with pytest.raises(FedatlasError, match=r"'made-up': .* its 4 sparse rows of 64 features are"):
        cnn(rows)


def test_a_worker_may_have_one_class_only(tmp_path):
    data = sharded(tmp_path, np.array([1.0, 1.0, 1.0, -1.0, -1.0, 1.0]))
    assert data.metadata["positive_rate"] == pytest.approx(4 / 6)
    engine = cnn(data)
    theta, w = engine.start(0)
    gradient = engine.gradients(theta, w, engine.minibatches(RoundRandom(0), None, 1))
    assert torch.isfinite(gradient.theta).all()
    assert gradient.theta[0, -1] == 0  # ∂/∂b where there are no negatives
    assert np.isfinite(list(engine.measure(PrimalDual(theta, w)).values())).all()


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=40))
def test_auroc_is_the_area_under_the_curve_with_ties_too(drawn):
    scores, positive = (np.array(part) for part in zip(*drawn, strict=True))
    assume(0 < positive.sum() < len(positive))
    ours = auroc(torch.tensor(scores / 2), torch.tensor(positive))
    assert ours == pytest.approx(roc_auc_score(positive, scores), abs=1e-14)
