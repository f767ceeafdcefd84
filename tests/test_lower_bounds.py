"""The chains of docs/lower-bounds.md: constants, numbers that open one by one, runs above bounds.

All is recomputed from the rows that methods see, or from the papers' formulas.
"""

import sys
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize

import fedatlas
from fedatlas.algorithms import algorithm_class
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.data.formats import dataset_of
from fedatlas.objectives import springs_and_wells
from fedatlas.schema.graphs import UndirectedFamily, weight_matrix
from fedatlas.studies import symbolic

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))

from making import lower_bounds

LENGTH = 25


def made(name, features, **numbers):
    """The numbers that a catalogue declares, and the rows that follow from them."""
    entry = {
        "name": name, "title": "t", "homepage": "https://a.org", "licence": "l", "citation": "c",
        "format": name, "task": "regression", "features": features, name: numbers,
        "splits": {"train": {}},
    }  # fmt: skip
    dataset = dataset_of(entry, "here")
    return getattr(dataset, name), dataset.read("train", [])


def chain(clients=8, holders=4, convexity=0.01, length=LENGTH):
    """The chain, A_i and b_i of its clients from the rows alone."""
    own, samples = made(
        "chain", length, clients=clients, holders=holders, smoothness=1.0, convexity=convexity
    )
    rows = samples.features.reshape(clients, length, length)
    labels = samples.label.reshape(clients, length)
    hessians = 2 / length * np.einsum("ija,ijb->iab", rows, rows)
    return own, hessians, 2 / length * np.einsum("ija,ij->ia", rows, labels)


@pytest.mark.parametrize(
    "clients, holders, length", [(8, 4, 24), (8, 1, 25), (2, 1, 7), (10, 3, 6)]
)
def test_constants_and_bound_are_exact(clients, holders, length):
    own, hessians, slopes = chain(clients, holders, length=length)
    values = np.linalg.eigvalsh(hessians)
    np.testing.assert_allclose([values.min(), values.max()], [0.01, 1], rtol=1e-9)
    mean, slope = hessians.mean(0), slopes.mean(0)
    best = np.linalg.solve(mean, slope)
    np.testing.assert_allclose(best, own.start * own.decay ** np.arange(1, length + 1))
    assert slope @ best / 2 == pytest.approx(1)
    for known in range(length):  # the best x of so many numbers, solved for
        inner = np.linalg.solve(mean[:known, :known], slope[:known])
        gap = 1 - slope[:known] @ inner / 2
        assert own.least_gap(known) == pytest.approx(gap, rel=1e-6)
        tail = (best[known:] ** 2).sum() / (best**2).sum()
        ratio = own.decay**2
        assert (ratio**known - ratio**length) / (1 - ratio**length) == pytest.approx(tail)
        assert own.numbers_for(own.least_gap(known)) == known


FIVE = {"clients_per_round": 8, "local_steps": 5, "local_step_size": 0.3}
FULL = {"clients_per_round": 2, "local_steps": 5, "local_batch_size": None}
ONCE = FIVE | {"local_steps": 1}
#: What is done in a round, and how many exchanges with a server it is.
METHODS = {
    "fedavg": (ONCE, 1),
    "fedavgm": (ONCE | {"momentum": 0.6}, 1),
    "scaffold": (FIVE, 1),
    "fedprox": (FIVE | {"proximal_weight": 0.2}, 1),
    "feddyn": (FIVE | {"regularisation": 0.2}, 1),
    "mifa": (ONCE | {"clients_per_round": 2}, 1),
    "scaffnew": ({"step_size": 0.5, "communication_probability": 0.3}, 1),
    "fedpage": (
        {
            "clients_per_round": 2,
            "local_steps": 5,
            "global_step_size": 0.5,
            "local_batch_size": None,
        },
        1,
    ),
    "feddane": (FIVE | {"proximal_weight": 0.2}, 2),
    "fedlin": (FIVE, 2),
    "mime": (FIVE | {"momentum": 0.6}, 2),
}


def opened(points):
    """How many numbers differ from 0 up to the last that does; points: (R + 1, …, d)."""
    last = np.arange(1, points.shape[-1] + 1) * (points != 0)
    return last.reshape(len(points), -1).max(1)


def played(algorithm, hyper_parameters, hessians, slopes, rounds, graphs=(None, None)):
    def gradient(client, x):
        # Sums of products by 0 are exactly 0; those of other numbers never cancel here.
        return hessians[client] @ x - slopes[client]

    asked = symbolic.Asked(len(hessians), False, gradient, LENGTH, of_function=True)
    method = algorithm_class(algorithm)(**hyper_parameters)
    return symbolic.play(asked, method, rounds, RoundRandom(3), graphs)


@pytest.mark.parametrize("algorithm", METHODS)
def test_an_exchange_with_a_server_opens_one_number(algorithm, monkeypatch):
    _, hessians, slopes = chain()
    hyper_parameters, exchanges = METHODS[algorithm]
    counted = symbolic.Counters()
    monkeypatch.setattr(symbolic, "Counters", lambda: counted)
    points = played(algorithm, hyper_parameters, hessians, slopes, rounds=5)
    most = exchanges * np.arange(6)
    assert counted.sequential_messages == 2 * most[-1]  # down and up
    assert (opened(points) <= most).all()
    if algorithm in ("fedavg", "fedavgm", "scaffold", "feddane"):
        assert (opened(points) == most).all()  # no slower: the bound is met


@pytest.mark.parametrize("algorithm", ["local_dsgd", "extra", "nids", "dp_gradient_tracking"])
def test_over_a_ring_a_number_is_opened_in_as_many_exchanges_as_links(algorithm):
    own, hessians, slopes = chain(holders=1)
    assert own.apart == 4
    ring = weight_matrix(UndirectedFamily(kind="ring", weights="metropolis"), 8, "graph")
    scheme = {
        "name": "constant", "alpha": 1, "beta": 1, "gamma": 0.2, "samples": 5,
        "state_noise_scale": 0, "tracker_noise_scale": 0,
    }  # fmt: skip
    hyper_parameters = {"step_size": 0.2} | ({"local_steps": 5} if "dsgd" in algorithm else {})
    tracks = algorithm == "dp_gradient_tracking"
    if tracks:
        hyper_parameters = {"clipping": "none", "horizon": 20, "scheme": scheme}
    rounds, graphs = 14, (ring, ring if tracks else None)
    points = played(algorithm, hyper_parameters, hessians, slopes, rounds, graphs)
    assert (opened(points) <= 1 + np.arange(rounds + 1) // 4).all()
    assert opened(points)[-1] >= 3


def test_runs_stay_above_the_chain_s_bound():
    own, samples = made("chain", LENGTH, clients=8, holders=4, smoothness=1.0, convexity=0.01)
    polyak = {"local_step_size": 4 / 1.1**2, "momentum": own.decay**2}
    trace = fedatlas.train(
        "fedavgm", (samples.features, samples.label), rounds=LENGTH - 1, optimum=True,
        partition={"kind": "horizontal", "clients": 8}, objective={"name": "least_squares"},
        **ONCE | polyak,
    )  # fmt: skip
    gaps = trace["suboptimality"].values[0]
    bound = own.least_gap(trace["round"].values[0])
    assert gaps[0] == pytest.approx(1)
    assert (gaps >= bound * (1 - 1e-6)).all()
    assert gaps[-1] < 10 * bound[-1]


# ---- Wells ---------------------------------------------------------------------------------------

DEPTH, WELLS = 0.02, 10


def slope_of(x):
    """∇g, written from the paper's formula."""
    found = np.zeros(len(x))
    found[0] = sqrt(DEPTH) * (x[0] - 1)
    found[1:] += np.diff(x)
    found[:-1] -= np.diff(x)
    found[:-1] += DEPTH * 120 * x[:-1] ** 2 * (x[:-1] - 1) / (1 + x[:-1] ** 2)
    return found


def test_rows_are_the_papers_function():
    own, samples = made("wells", 3 * (WELLS + 1), clients=3, length=WELLS, depth=DEPTH)
    size, random = 2 * WELLS + 1, np.random.default_rng(0)
    x = random.normal(0.5, 0.7, (3, WELLS + 1))
    slope = np.zeros(x.size)
    for client in range(3):
        rows = slice(client * size, (client + 1) * size)
        pairs = [*zip(samples.features[rows] @ x.ravel(), samples.label[rows], strict=True)]
        wells = [quad(lambda s: 120 * s**2 * (s - 1) / (1 + s**2), 1, t)[0] for t in x[client, :-1]]
        expected = sqrt(DEPTH) / 2 * (x[client, 0] - 1) ** 2 + (np.diff(x[client]) ** 2).sum() / 2
        expected += DEPTH * sum(wells)
        found = np.mean([springs_and_wells.value(*pair) for pair in pairs])
        assert found == pytest.approx(expected)
        weights = [springs_and_wells.derivative(*pair) for pair in pairs]
        slope += weights @ samples.features[rows] / size
    np.testing.assert_allclose(slope, np.concatenate([slope_of(own) for own in x]), atol=1e-12)
    assert own.level(0.25) == pytest.approx(DEPTH**0.75 / 4 * sqrt(0.25 / 3))
    assert own.gradients_for(0.25) == 0.75 * 3 * WELLS


def test_a_gradient_opens_one_number_of_a_chain_and_unfinished_chains_are_steep():
    random = np.random.default_rng(1)
    for known in range(WELLS + 1):
        x = np.zeros(WELLS + 1)
        x[:known] = random.normal(0.5, 1, known)
        assert np.flatnonzero(slope_of(x)).max() <= known
    least = np.inf
    for start in random.normal(0.5, 0.5, (20, WELLS - 1)):
        tried = minimize(lambda z: (slope_of(np.r_[z, 0, 0]) ** 2).sum(), start, method="BFGS")
        least = min(least, sqrt(tried.fun))
    assert DEPTH**0.75 / 4 < least < 10 * DEPTH**0.75 / 4  # 0.0133; found 0.0856


def test_page_stays_above_the_bound_of_wells():
    own, samples = made("wells", 4 * (WELLS + 1), clients=4, length=WELLS, depth=DEPTH)
    assert own.smoothness == pytest.approx(4 + 180 * DEPTH)
    trace = fedatlas.train(
        "fedpage", (samples.features, samples.label), rounds=600,
        partition={"kind": "horizontal", "clients": 4}, objective={"name": "springs_and_wells"},
        clients_per_round=1, local_steps=1, global_step_size=0.5,
    )  # fmt: skip
    asked = trace["gradient_evaluations"].values[0] / (2 * WELLS + 1)
    norms = trace["gradient_norm"].values[0]
    assert norms[-1] < own.level(0.25)
    assert (norms[asked < own.gradients_for(0.25)] > own.level(0.25)).all()


def test_the_page_has_the_catalogues_bounds():
    page = lower_bounds.PAGE.read_text("utf-8")
    of_none = [line.split("|")[2:-1] for line in page.splitlines() if "*no method*" in line]
    expected = [[one.least for one in columns] for columns in lower_bounds.tables().values()]
    assert [[float(cell) for cell in row] for row in of_none] == expected
