"""Loss surfaces over two parameters: closed forms, toys by hand, what is kept, judged and drawn."""

import json
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from typer.testing import CliRunner

from fedatlas import architectures
from fedatlas.arithmetic.samples import Samples
from fedatlas.cli import app
from fedatlas.data.catalogue import load_catalogue
from fedatlas.data.prepare import prepare
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.claims.study_value import StudyValueTest
from fedatlas.evaluation.results import Results
from fedatlas.evaluation.tables import (
    StationaryPoint,
    Surface,
    read_surface,
    write_surface,
)
from fedatlas.federations.min_max.engine import AucLoss, Auxiliary, pairwise_squared_loss
from fedatlas.federations.shards import ClientSamples
from fedatlas.figures.studies import compose_landscape
from fedatlas.schema.claims import CaseOutcome
from fedatlas.schema.experiments import Experiment
from fedatlas.schema.models import read_yaml, validated
from fedatlas.schema.objectives import AucObjective
from fedatlas.schema.partitions import HorizontalPartition
from fedatlas.schema.studies import Landscape
from fedatlas.shards.writing import write_shards
from fedatlas.studies.landscape import AucSurface, explore
from figure_factory import is_drawn
from workflow_copy import ROOT

FIGURE_1 = ROOT / "config" / "experiments" / "fmgda" / "fig1.yaml"
WIDE = Landscape(first=(-6, 6), second=(-6, 6), points=25)


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def network(tmp_path, monkeypatch):
    """A function that makes a network `toy` of two numbers u and v with the given output."""

    def make(output: str) -> None:
        (tmp_path / "toy.py").write_text(
            "import torch\n\n\n"
            "class Toy(torch.nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.u, self.v = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))\n\n"
            "    def forward(self, x):\n"
            f"        return {output}\n\n\n"
            "def build(shape, outputs):\n"
            "    return Toy()\n"
        )

    monkeypatch.setattr(architectures, "__path__", [*architectures.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "fedatlas.architectures.toy", raising=False)
    return make


def samples(x: Any, y: Any, clients: Any = None, **metadata: Any) -> ClientSamples:
    """Samples with one feature, of one client or of clients of the given sizes."""
    y = np.array(y, dtype=float)
    features = x if sparse.issparse(x) else np.array(x, dtype=float).reshape(len(y), -1)
    offsets = np.concatenate([[0], np.cumsum([len(y)] if clients is None else clients)])
    known = {"dataset": "toy", "shape": [1], "positive_rate": float((y > 0).mean())}
    return ClientSamples(Samples(np.arange(len(y)), y, features), offsets, known | metadata)


def auc_surface(data: ClientSamples, model: str = "sigmoid_unit", scores: str = "linear"):
    return AucSurface(data, AucObjective(name="auc_min_max", model=model, scores=scores))


TWO_POINTS = samples([1, -1], [1, -1])


def tensor(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.fixture(scope="module")
def figure_1() -> Surface:
    return explore(auc_surface(TWO_POINTS), WIDE, starts=6)


def of_class(surface: Surface, classification: str) -> list[StationaryPoint]:
    return [p for p in surface.stationary_points if p.classification == classification]


def gap(m: np.ndarray) -> np.ndarray:
    """Δ = m_1 (σ(m_2) − σ(−m_2)), by which the toy scores its positive sample higher."""
    return m[..., 0] * np.tanh(m[..., 1] / 2)


# --- the paper's toy, against its closed form −Δ/2 + Δ²/4 ---


def test_the_grid_is_the_closed_form(figure_1):
    grid = np.stack(np.meshgrid(figure_1.first, figure_1.second), axis=-1)
    assert grid.shape == (25, 25, 2)
    np.testing.assert_allclose(figure_1.values, gap(grid) ** 2 / 4 - gap(grid) / 2, atol=1e-13)


def test_the_origin_is_a_saddle_and_all_else_one_curve(figure_1):
    (saddle,) = of_class(figure_1, "saddle")
    (curve,) = of_class(figure_1, "degenerate")
    assert len(figure_1.stationary_points) == 2
    assert saddle.starts + curve.starts + figure_1.lost == figure_1.starts == 36
    np.testing.assert_allclose(saddle.m, 0, atol=1e-9)
    np.testing.assert_allclose(saddle.eigenvalues, [-0.25, 0.25], atol=1e-9)
    assert saddle.gradient_norm < 1e-9
    assert saddle.value == pytest.approx(0, abs=1e-12)
    assert saddle.above_lowest == pytest.approx(0.25, abs=1e-12)
    assert figure_1.lowest == pytest.approx(-0.25, abs=1e-12)
    assert curve.value == pytest.approx(-0.25, abs=1e-12)
    assert (len(saddle.points), len(curve.points) > 10) == (1, True)
    np.testing.assert_allclose(gap(np.array(curve.points)), 1, atol=1e-8)
    # There the Hessian is ½ ∇Δ ∇Δᵀ.
    m_1, m_2 = curve.m
    slope = np.array([np.tanh(m_2 / 2), m_1 / 2 / np.cosh(m_2 / 2) ** 2])
    np.testing.assert_allclose(curve.eigenvalues, [0, slope @ slope / 2], atol=1e-8)


def test_in_all_four_variables_the_saddle_has_the_eigenvalue_of_the_errata(figure_1):
    """Φ = ¼(h₊ − a)² + ¼(h₋ − b)² − Δ/2 + Δ²/4, twice differentiated at 0 by hand."""
    by_hand = np.array([[1, -1, -1, -1], [-1, 0, 0, 0], [-1, 0, 2, 0], [-1, 0, 0, 2]]) / 4
    (saddle,) = of_class(figure_1, "saddle")
    np.testing.assert_allclose(saddle.eigenvalues_of_phi, np.linalg.eigvalsh(by_hand), atol=1e-9)
    assert saddle.eigenvalues_of_phi[0] == pytest.approx(-0.2152, abs=1e-4)


def test_hessians_are_those_of_finite_differences(figure_1):
    surface, step = auc_surface(TWO_POINTS), 1e-4
    (curve,) = of_class(figure_1, "degenerate")
    place = np.array([*curve.m, curve.a, curve.b])
    moves = step * np.eye(4)

    def phi(*moved: np.ndarray) -> float:
        return float(surface.phi(tensor(place + sum(moved))))

    matrix = [
        [(phi(p, q) - phi(p, -q) - phi(-p, q) + phi(-p, -q)) / (4 * step**2) for q in moves]
        for p in moves
    ]
    np.testing.assert_allclose(np.linalg.eigvalsh(matrix), curve.eigenvalues_of_phi, atol=1e-6)


# --- the surface against its definition ---


@pytest.mark.parametrize("scores", ["linear", "sigmoid"])
def test_the_surface_is_the_pairwise_loss(scores):
    rng = np.random.default_rng(3)
    data = samples(rng.normal(size=12), np.where(np.arange(12) < 5, 1, -1), clients=[6, 6])
    surface, p = auc_surface(data, scores=scores), 5 / 12
    for m in rng.normal(0, 2, (5, 2)):
        h = m[0] / (1 + np.exp(-m[1] * data.samples.features[:, 0]))
        h = h if scores == "linear" else 1 / (1 + np.exp(-h))
        pairwise = pairwise_squared_loss(tensor(h), torch.tensor(data.samples.label > 0))
        assert float(surface.value(tensor(m))) == pytest.approx(p * (1 - p) * (pairwise - 1))


def test_a_and_b_are_best_and_w_is_worst_for_clients_of_any_size():
    rng = np.random.default_rng(4)
    y = np.where(np.arange(9) % 3 == 0, 1, -1)
    data = samples(rng.normal(size=9), y, clients=[2, 7])
    surface, m = auc_surface(data), tensor([1.3, -0.7])
    a, b = surface.best_auxiliary(m).tolist()
    h = m[0] * torch.sigmoid(m[1] * tensor(data.samples.features[:, 0]))
    share = tensor([1 / 4] * 2 + [1 / 14] * 7)  # F is the mean over clients of their means

    def f(a: float, b: float, w: float) -> float:
        at = Auxiliary(*(tensor([x]) for x in (a, b, w)))
        return float(share @ AucLoss(1 / 3).value(h, torch.tensor(y > 0), at))

    def phi(a: float, b: float) -> float:
        return float(surface.phi(tensor([*m, a, b])))

    ways = np.linspace(-3, 3, 2001)
    assert phi(a, b) == pytest.approx(max(f(a, b, w) for w in ways), abs=1e-5)
    assert phi(a, b) == pytest.approx(float(surface.value(m)), abs=1e-14)
    assert all(phi(a + s, b + t) > phi(a, b) for s in (-0.1, 0.1) for t in (-0.1, 0.1))


# --- other toys by hand ---


def test_a_minimum_is_that_of_the_normal_equations(network):
    """h = u x + v x²: P = (1 − k·d)² + kᵀ C k with means' difference d and covariances' sum C."""
    network("self.u * x + self.v * x**2")
    x = np.array([1.0, 2.0, 0.3, -1.0, 0.5])
    surface = explore(auc_surface(samples(x, [1, 1, -1, -1, -1]), "toy"), WIDE, starts=3)
    features = np.stack([x, x**2], axis=1)
    above, below = features[:2], features[2:]
    d = above.mean(0) - below.mean(0)
    moments = np.outer(d, d) + np.cov(above.T, bias=True) + np.cov(below.T, bias=True)
    (point,) = surface.stationary_points
    assert (point.classification, point.starts, surface.lost) == ("minimum", 9, 0)
    best = np.linalg.solve(moments, d)
    np.testing.assert_allclose(point.m, best, atol=1e-9)
    np.testing.assert_allclose(
        [point.a, point.b], [(part @ best).mean() for part in (above, below)]
    )
    assert point.value == pytest.approx(0.24 * ((1 - best @ d) - 1))
    np.testing.assert_allclose(point.eigenvalues, np.linalg.eigvalsh(0.48 * moments), atol=1e-9)
    assert surface.lowest == pytest.approx(point.value, abs=1e-12)
    assert surface.lowest < np.min(surface.values)


def test_every_other_class_is_told_apart(network):
    """h = x sin u sin v on x = ±1: the surface is s² − s with s = sin u sin v."""
    network("x * torch.sin(self.u) * torch.sin(self.v)")
    limits = (-2.5, 2.5)
    surface = explore(
        auc_surface(TWO_POINTS, "toy"), Landscape(first=limits, second=limits, points=9), starts=6
    )
    (saddle,), (curve,) = of_class(surface, "saddle"), of_class(surface, "degenerate")
    np.testing.assert_allclose(saddle.eigenvalues, [-1, 1], atol=1e-9)
    # a and b are apart from m where all scores are 0.
    np.testing.assert_allclose(saddle.eigenvalues_of_phi, [-1, 0.5, 0.5, 1], atol=1e-9)
    assert curve.value == pytest.approx(-0.25)
    np.testing.assert_allclose(np.prod(np.sin(curve.points), axis=1), 0.5, atol=1e-8)
    maxima = of_class(surface, "maximum")
    places = {(*np.sign(point.m), round(point.value, 9)) for point in maxima}
    assert places == {(1, 1, 0), (-1, -1, 0), (1, -1, 2), (-1, 1, 2)}
    for point in maxima:
        np.testing.assert_allclose(np.abs(point.m), np.pi / 2, atol=1e-9)
        steepness = {0: 1, 2: 3}[round(point.value)]
        np.testing.assert_allclose(point.eigenvalues, [-steepness] * 2, atol=1e-8)
    assert len(surface.stationary_points) == 6
    assert (np.diff([point.value for point in surface.stationary_points]) > -1e-12).all()


def test_where_nothing_is_stationary_nothing_is_found():
    away = Landscape(first=(2, 3), second=(2, 3), points=5)
    surface = explore(auc_surface(TWO_POINTS), away, starts=3)
    assert (surface.stationary_points, surface.lost) == ([], 9)
    assert surface.lowest == np.min(surface.values)


# --- what has no landscape ---


@pytest.mark.parametrize(
    ("data", "model", "message"),
    [
        (samples(np.zeros((2, 64)), [1, -1], shape=[1, 8, 8]), "cnn_8x8", "two parameters.*has 4"),
        (samples([1, 2], [1, 1]), "sigmoid_unit", "have a share of positives of"),
        (samples([1, 2], [3, 1], positive_rate=None), "sigmoid_unit", "labels that are not ±1"),
        (samples(sparse.csr_array([[1.0], [0]]), [1, -1]), "sigmoid_unit", "not of sparse samples"),
        (samples([[1, 2], [3, 4]], [1, -1], shape=[2]), "sigmoid_unit", r"not \(2,\) to 1"),
    ],
)
def test_what_has_no_landscape_is_refused(data, model, message):
    with pytest.raises(FedatlasError, match=message):
        auc_surface(data, model)


def test_a_range_that_overflows_is_refused():
    with pytest.raises(FedatlasError, match=r"not finite at \(-1e\+200, .*smaller range"):
        explore(auc_surface(TWO_POINTS), Landscape(first=(-1e200, 1), second=(1, 2)), starts=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objective": {"name": "robust_regression"}}, "'landscape' belongs to.* auc_min_max"),
        ({"landscape": None}, "claim 'saddle.*': kind stationary_point needs 'landscape'"),
        ({"landscape": {"first": [1, 1], "second": [0, 1]}}, "first: 1 to 1 must ascend"),
        ({"landscape": {"first": [0, 1]}}, "missing key 'landscape.second'"),
    ],
)
def test_wrong_experiments_are_refused(changes, message):
    with pytest.raises(FedatlasError, match=message):
        validated(Experiment, read_yaml(FIGURE_1) | changes, "fig1.yaml")


# --- kept and judged ---


def test_what_is_written_is_read_back(figure_1, tmp_path):
    path = tmp_path / "landscape.json"
    write_surface(figure_1, path)
    assert read_surface(path) == figure_1
    assert len(path.read_text().splitlines()) == 11


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"stationary_points": [{"m": 1}]}'])
def test_another_file_is_no_landscape(tmp_path, text):
    path = tmp_path / "landscape.json"
    path.write_text(text)
    with pytest.raises(FedatlasError, match=r"landscape\.json: is no landscape"):
        read_surface(path)


def verdict(surface: Surface | None, classification: str, above: float) -> CaseOutcome:
    test = {"classification": classification, "above_optimum_by": above}
    (only,) = StudyValueTest(kind="stationary_point", **test).judge(
        Results({}, {}, landscape=surface)
    )
    return only


@pytest.mark.parametrize(
    ("classification", "above", "expected"),
    [
        ("saddle", 0.1, "reproduced"),
        ("saddle", 0.25, "reproduced"),  # its border, whatever rounding does
        ("saddle", 0.26, "contradicted"),
        ("degenerate", 0.1, "contradicted"),
        ("minimum", 0.0, "contradicted"),
    ],
)
def test_a_claim_is_judged_by_class_and_height(figure_1, classification, above, expected):
    assert verdict(figure_1, classification, above).outcome == expected


def test_evidence_tells_the_point_and_the_search(figure_1):
    evidence = verdict(figure_1, "saddle", 0.1).evidence
    assert "saddle at (0, 0): 0.25 above the lowest value" in evidence
    assert "eigenvalues -0.25, 0.25 (of Φ in (m, a, b): -0.215, 0.186, 0.5, 0.779)" in evidence
    assert "claimed a saddle at least 0.1 above" in evidence
    assert "lowest value found -0.25; 36 searches in [-6, 6] × [-6, 6]" in evidence
    assert verdict(figure_1, "maximum", 0).evidence.startswith("no maximum found; claimed")
    assert " others: 0 above" in verdict(figure_1, "degenerate", 0.1).evidence


def test_a_claim_without_its_landscape_is_an_error():
    with pytest.raises(FedatlasError, match="needs the study 'landscape'"):
        verdict(None, "saddle", 0.1)


# --- drawn ---


@pytest.mark.filterwarnings("error")
def test_it_draws(figure_1, tmp_path):
    outputs = [tmp_path / name for name in ("a.svg", "a.png")]
    is_drawn(outputs, compose_landscape, "A title", figure_1)
    is_drawn([tmp_path / "b.svg"], compose_landscape, "A title", figure_1)
    assert outputs[0].read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_axes_classes_and_values_are_named(figure_1):
    canvas = compose_landscape("A title", figure_1)
    contours, bar = canvas.axes
    assert (contours.get_xlabel(), contours.get_ylabel()) == ("m₁", "m₂")
    assert "Φ" in bar.get_ylabel()
    assert [text.get_text() for text in canvas.legends[0].get_texts()] == [
        "degenerate: at the lowest value found",
        "saddle: 0.25 above the lowest value found",
        "as high as a saddle",
    ]
    ticks = bar.get_yticks()
    assert ticks[0] == -0.25 and (np.diff(ticks) > 0).all() and len(ticks) > 4


@pytest.mark.filterwarnings("error")
def test_a_flat_surface_without_points_draws(tmp_path):
    flat = Surface(0.5, 1, 1, 1e-9, 1e-5, [], [0, 1], [0, 1], [[0.5, 0.5], [0.5, 0.5]])
    is_drawn([tmp_path / "flat.png"], compose_landscape, "A title", flat)
    assert not compose_landscape("A title", flat).legends


# --- as commands ---


def test_commands_lead_from_a_shard_to_a_figure(tmp_path, monkeypatch):
    # From fewer places, which find the same.
    monkeypatch.setattr("fedatlas.studies.landscape.explore", partial(explore, starts=6))
    entry = load_catalogue(ROOT / "config" / "datasets.yaml")["two-points"]
    prepared, shard = tmp_path / "train.parquet", tmp_path / "silo-0.parquet"
    prepare(entry, "train", [], prepared)
    partition = HorizontalPartition(kind="horizontal", assignment="consecutive", clients=1)
    write_shards(prepared, partition, [shard], tmp_path / "manifest.json")
    experiment = read_yaml(FIGURE_1)
    spec = {key: experiment[key] for key in ("objective", "landscape")}
    spec["landscape"]["points"] = 13
    file, figure = tmp_path / "landscape.json", tmp_path / "landscape.svg"
    for name, given in (
        ("compute_landscape", spec | {"rows": str(shard), "output": str(file)}),
        ("draw_landscape", {"title": "A", "landscape": str(file), "output": str(figure)}),
    ):
        done = CliRunner().invoke(app, ["step", name, json.dumps(given)])
        assert done.exit_code == 0, done.exception
    classes = {point.classification for point in read_surface(file).stationary_points}
    assert classes == {"saddle", "degenerate"}
    assert figure.read_text(encoding="utf-8").rstrip().endswith("</svg>")
