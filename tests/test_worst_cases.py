"""Certificates of our methods: what is certified is what they do, and no run lies above it."""

import re
import sys
from math import sqrt
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from fedatlas.algorithms import build_algorithm
from fedatlas.algorithms.dp_fedavg import DpFedAvg
from fedatlas.algorithms.fedadam import FedAdam
from fedatlas.algorithms.fedavg import FedAvg
from fedatlas.algorithms.fedpage import FedPage
from fedatlas.algorithms.fedsam import FedSam
from fedatlas.algorithms.local_sgda import LocalSgda
from fedatlas.algorithms.scaffnew import Scaffnew
from fedatlas.algorithms.scaffold import Scaffold
from fedatlas.arithmetic.samples import Samples
from fedatlas.errors import FedatlasError
from fedatlas.federations.context import FederationContext
from fedatlas.schema.partitions import HorizontalPartition, VerticalPartition
from fedatlas.studies.certificates import Setting, certify
from fedatlas.studies.symbolic import Asked, Coins, outcomes, play
from fedatlas.studies.worst_cases import certified, function_of, measure, read_cases
from small_federations import share_out, specification

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))

from making import worst_cases

N, D, ROUNDS = 3, 4, 3
RING = {"kind": "ring", "weights": "metropolis"}
STAR = {"objective": {"name": "least_squares"}}
LOCAL = {"clients_per_round": N, "local_steps": 2, "local_step_size": 0.3}
TRACKING = {
    "clipping": "none",
    "horizon": ROUNDS,
    "scheme": {
        "name": "constant", "alpha": 0.7, "beta": 0.6, "gamma": 0.2, "samples": D,
        "state_noise_scale": 0, "tracker_noise_scale": 0,
    },
}  # fmt: skip
METHODS = {
    "fedavg": LOCAL,
    "fedprox": LOCAL | {"proximal_weight": 0.5},
    "scaffold": LOCAL | {"clients_per_round": 2},
    "fedlin": LOCAL,
    "feddyn": LOCAL | {"regularisation": 0.4},
    "fedpage": {
        "clients_per_round": 1, "local_steps": 2, "global_step_size": 0.4, "local_batch_size": None,
    },
    "scaffnew": {"step_size": 0.4, "communication_probability": 0.5},
    "ef21": {"clients_per_round": N, "step_size": 0.2, "compressor": {"kind": "top_k", "k": 2}},
    "local_dsgd": {"local_steps": 2, "step_size": 0.2},
    "extra": {"step_size": 0.3},
    "nids": {"step_size": 0.3},
    "dp_gradient_tracking": TRACKING,
}  # fmt: skip


def rows(seed: int, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=(n, d)) / 2, random.normal(size=n)


def played(spec, folder: Path, script: tuple[int, ...]) -> list[np.ndarray]:
    """Our method's points on its real engine, by the coins of a script."""
    method, context = build_algorithm(spec), FederationContext(spec, folder, "cpu")
    run, coins = context.seed_run(3), Coins(script, 3)
    state = method.start(run.problem, run.network, run.x0)
    found = [method.point(state, run.network)]
    for number in range(spec.rounds):
        state = method.round(state, run.problem, run.network, coins.at(number))
        found.append(method.point(state, run.network))
    return [np.array(run.x0), *(np.array(point) for point in found)]


def evaluated(asked: Asked, points: np.ndarray, gradient, compressed, x0: np.ndarray) -> np.ndarray:
    """What a record says of the method's points: vectors take their values one after the other."""
    values = np.zeros((asked.width, x0.shape[-1]))
    entries = [(int(np.argmax(own)), "gradient", i, at) for i, at, own in asked.log]
    entries += [(int(np.argmax(own)), "sent", -1, row) for row, own, _ in asked.compressed]
    for place, kind, client, at in sorted(entries, key=lambda entry: entry[0]):
        value = at @ values
        values[place] = compressed(value) if kind == "sent" else gradient(client, x0 + value)
    return x0 + points @ values


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("script", [(), (1, 0, 2, 1)])
def test_the_record_of_a_method_is_what_it_does(name, script, tmp_path):
    features, labels = rows(5, N * D, D)
    partition = HorizontalPartition(clients=N, assignment="consecutive")
    share_out(tmp_path, partition, Samples.numbered(labels, features), seeds=(3,))
    on_graph = name in ("local_dsgd", "extra", "nids", "dp_gradient_tracking")
    graphs = {"states": RING} | ({"trackers": RING} if name == "dp_gradient_tracking" else {})
    more = {"graphs": graphs} if on_graph else {}
    spec = specification(
        name, partition=partition, hyper_parameters=METHODS[name], rounds=ROUNDS, record_every=1,
        seeds=(3,), **STAR, **more,
    )  # fmt: skip
    x0, *wanted = played(spec, tmp_path, script)
    weights = spec.graph_weights if on_graph else (None, None)
    asked = Asked(N, optimum=False)
    method = build_algorithm(spec)
    points = play(asked, method, ROUNDS, Coins(script, 3), weights, D)

    def gradient(i: int, x: np.ndarray) -> np.ndarray:
        own = slice(i * D, (i + 1) * D)
        return 2 / D * features[own].T @ (features[own] @ x - labels[own])

    def largest(row: np.ndarray) -> np.ndarray:
        return np.where(np.abs(row) >= np.sort(np.abs(row))[-2], row, 0.0)

    start = np.zeros(D) if x0.ndim == 1 else x0[0]
    found = evaluated(asked, points, gradient, largest, start)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    assert np.abs(wanted[-1] - wanted[0]).max() > 0.01


@pytest.mark.parametrize("name", ["vfb2_sgd", "vfb2_svrg", "vfb2_saga"])
def test_parties_without_delays_do_what_is_recorded(name, tmp_path):
    features, labels = rows(6, N, D)
    partition = VerticalPartition(parties=1, active=1, assignment="consecutive")
    share_out(tmp_path, partition, Samples.numbered(labels, features), seeds=(3,))
    spec = specification(
        name, partition=partition, rounds=6, record_every=1, seeds=(3,), **STAR,
        hyper_parameters={"step_size": 0.2, "rounds_per_epoch": N, "synchronous": True},
    )  # fmt: skip
    script = (2, 0, 2, 1, 1, 0)
    _, *wanted = played(spec, tmp_path, script)
    asked = Asked(N, optimum=False)
    points = play(asked, build_algorithm(spec), 6, Coins(script, 3))
    found = evaluated(
        asked, points, lambda i, x: 2 * (features[i] @ x - labels[i]) * features[i], None,
        np.zeros(D),
    )  # fmt: skip
    # On the clock of parties the last update of a round ends when the next one begins.
    np.testing.assert_allclose(found[:-1], wanted[1:], rtol=1e-9, atol=1e-12)


def test_all_outcomes_are_found_with_their_probabilities():
    found = list(outcomes(lambda coins: (coins.bernoulli(0.3), *coins.sample(4, 2)), 3))
    assert len({result for _, result in found}) == len(found) == 12
    assert sum(likely for likely, _ in found) == pytest.approx(1)
    tosses = outcomes(lambda coins: next(n for n in range(9) if coins.bernoulli(0.5)), 3)
    assert {result: likely for likely, result in tosses} == {0: 0.5, 1: 0.25, 2: 0.125}
    with pytest.raises(FedatlasError, match="more than 500 outcomes"):
        list(outcomes(lambda coins: coins.indices(9, 9), 3))


@pytest.mark.parametrize(
    ("method", "says"),
    [
        (FedAdam(**LOCAL, global_step_size=0.1), "does more than add up gradients"),
        (FedSam(**LOCAL, radius=0.1), "does more than add up gradients"),
        (DpFedAvg(**LOCAL, clip_bound=0.1, noise_multiplier=1), "does more than add up gradients"),
        (LocalSgda(local_steps=2, primal_step_size=0.1, dual_step_size=0.2), "equal steps"),
        (FedAvg(**LOCAL | {"local_steps": 200}), "at most 512 gradients"),
    ],
)
def test_what_cannot_be_certified_is_refused(method, says):
    with pytest.raises(FedatlasError, match=says):
        certify(method, Setting(N, 2, 1, 0.1))


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "PEPit", None)
    with pytest.raises(FedatlasError, match=r"pip install fedatlas\[theory\]"):
        certify(FedAvg(**LOCAL), Setting(N, 1, 1, 0.1))


def test_certificates_are_the_closed_forms():
    pytest.importorskip("PEPit")  # CI has it, where a test that skips fails
    once = {"clients_per_round": 1, "local_steps": 1}
    distance = certify(FedAvg(**once, local_step_size=1.5), Setting(1, 3, 1, 0.1))
    assert distance.worst == pytest.approx(0.85**6, rel=1e-6)  # max(|1 − ημ|, |1 − ηL|)^2R
    assert (distance.status, distance.tight) == ("optimal", True)
    setting = Setting(2, 2, 1, 0.1, dissimilarity=1)
    case = certified(FedAvg(**LOCAL | {"clients_per_round": 2}), setting, functions=3)
    assert case.measured < case.attained <= case.worst + 1e-6 < case.promised
    descent = certify(FedAvg(**once, local_step_size=1), Setting(1, 3, 1, -1, "gradients"))
    assert descent.worst == pytest.approx(2 / 3, rel=1e-6)  # 2/(ηR(2 − ηL)) of the descent lemma


@pytest.mark.parametrize("measured", ["distance", "gradients"])
def test_functions_are_of_the_class(measured):
    setting = Setting(N, 2, 2, 0.2, measured, dissimilarity=3)
    hessians, slopes, x0 = function_of(setting, 4, False)
    eigenvalues = np.linalg.eigvalsh(hessians)
    assert eigenvalues.min() > 0.2 - 1e-9 and eigenvalues.max() < 2 + 1e-9
    np.testing.assert_allclose(slopes.sum(0), 0, atol=1e-12)
    at = np.zeros_like(x0) if measured == "distance" else x0
    assert ((hessians @ at + slopes) ** 2).sum(1).mean() <= 9 + 1e-9
    scale = x0 @ x0 if measured == "distance" else x0 @ hessians.mean(0) @ x0 / 2
    assert scale == pytest.approx(1)


def test_a_coins_expectation_is_that_of_sampled_runs():
    setting = Setting(N, 2, 1, 0.1, dissimilarity=1, longest=3)
    function = function_of(setting, 1, False)
    method = Scaffnew(step_size=0.5, communication_probability=0.5)
    hessians, slopes, x0 = function
    random, total = np.random.default_rng(0), []
    for _ in range(2000):
        x, h = x0, np.zeros_like(slopes)
        for _ in range(2):
            steps = random.choice([1, 2, 3], p=np.array([4, 2, 1]) / 7)
            y = np.tile(x, (N, 1))
            for _ in range(steps):
                y = y - 0.5 * (np.einsum("nij,nj->ni", hessians, y) + slopes - h)
            x = y.mean(0)
            h = h + (x - y)
        total.append(x @ x)
    spread = np.std(total) / sqrt(len(total))
    assert abs(measure(method, setting, *function) - np.mean(total)) < 4 * spread


# ---- FP-2: the step of FedPAGE's Theorem 4.1 -----------------------------------------------------


def squares(n: int, s: int, step: float, c: float, rounds: int) -> np.ndarray:
    """E‖∇f(xʳ)‖² of PAGE on f_i(x) = a_i x²/2, half of them a = 1 and half 2c − 1, exactly.

    From f(x⁰) − f* = 1. The second moments of (x, g) follow a linear recursion.
    """
    p, variance = s / n, (1 - c) ** 2 / s * (n - s) / (n - 1)
    x = np.array([1, -2 * step, step**2])
    xg = p * c * x + (1 - p) * (1 - step * c) * np.array([0, 1, -step])
    g = p * c**2 * x + (1 - p) * np.array([0, 0, 1 - 2 * step * c + step**2 * (c**2 + variance)])
    turn, moments, found = np.array([x, xg, g]), np.array([2 / c, 2, 2 * c]), []
    for _ in range(rounds):
        found.append(c**2 * moments[0])
        moments = turn @ moments
    return np.array(found)


def bounds(n: int, s: int) -> list[float]:
    """Theorem 4.1's largest step, L = 1, as printed and corrected."""
    method = FedPage(clients_per_round=s, local_steps=1, global_step_size=1)
    problem = SimpleNamespace(clients=n, average_smoothness=1.0)
    return [method.step_bounds(problem, printed=printed)[0].bound for printed in (True, False)]


def test_the_moments_are_those_of_our_page():
    n, c, rounds = 4, 0.2, 4
    hessians = np.array([1, 2 * c - 1, 1, 2 * c - 1])[:, None, None]
    function = hessians, np.zeros((n, 1)), np.array([sqrt(2 / c)])
    method = FedPage(clients_per_round=1, local_steps=1, global_step_size=0.6)
    found = measure(method, Setting(n, rounds, 1, -1, "gradients"), *function)
    assert found == pytest.approx(squares(n, 1, 0.6, c, rounds).mean())


PAGE_TABLE = re.findall(
    r"^\| (\d+), (\d+) +\| ([\d.]+) +\| ([\d.]+) +\| ([\d.]+) +\| ([\d,]+) rounds",
    worst_cases.PAGE.read_text("utf-8"), re.MULTILINE,
)  # fmt: skip


@pytest.mark.parametrize(("n", "s", "printed", "unstable", "corrected", "rounds"), PAGE_TABLE)
def test_the_printed_step_breaks_theorem_4_1(n, s, printed, unstable, corrected, rounds):
    n, s, p, last = int(n), int(s), int(s) / int(n), int(rounds.replace(",", ""))
    steps = bounds(n, s)
    from_there = sqrt(p * s / (1 - p) * (n - 1) / (n - s))
    told = [f"{one:.4f}" for one in (steps[0], from_there, steps[1])]
    assert [printed, unstable, corrected] == told
    sums = squares(n, s, steps[0], 1e-3, last + 1).cumsum()
    assert sums[-2] <= 2 / steps[0] < sums[-1]
    assert squares(n, s, steps[1], 1e-3, 10_000).sum() < 0.6 * 2 / steps[1]


def test_with_few_functions_no_such_quadratic_breaks_the_printed_step():
    for n in (2, 5, 9, 12):
        printed, _ = bounds(n, 1)
        for c in np.geomspace(1e-3, 0.9, 8):
            assert squares(n, 1, printed, c, 1500).sum() < 2 / printed


# ---- The page ------------------------------------------------------------------------------------


def test_no_run_lies_above_its_certificate_and_the_page_has_the_numbers():
    cases = read_cases(worst_cases.STORED)
    assert len(PAGE_TABLE) == 4 and len({case.run for case in cases}) >= 15
    for case in cases:
        assert case.measured <= case.worst, case
        assert case.promised is None or case.worst <= case.promised * (1 + 1e-6), case
        assert abs(case.worst - case.attained) <= 1e-5 * max(case.worst, 1), case
    inexact = sum(case.status != "optimal" for case in cases)
    assert f"{inexact} of {len(cases)} certificates" in worst_cases.PAGE.read_text("utf-8")
    assert worst_cases.worst_cases(cases) in worst_cases.PAGE.read_text("utf-8")


def test_stored_runs_are_those_of_the_code():
    setting = Setting(N, 3, 1, 0.1, dissimilarity=1)
    stored = {(case.run, case.step): case for case in read_cases(worst_cases.STORED)}
    method = Scaffold(clients_per_round=N, local_steps=5, local_step_size=0.2)
    values = [measure(method, setting, *function_of(setting, n, False)) for n in range(20)]
    assert stored["scaffold", 0.2].measured == pytest.approx(max(values), rel=1e-9)
