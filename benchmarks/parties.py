"""Epochs of the methods over parties, one thread, beside scikit-learn's SGD; prints ratios.

Dense rows of D1's shape (24,000 × 90) and sparse rows of news20's (17,996 × 1,355,191, some 455
non-zeros each), made up, so that nothing is downloaded; q = 8, m = 3, logistic regression. The
yardstick, one epoch of scikit-learn's SGDClassifier on the pooled rows with l2, is compiled as
well, but has no parties, no clocks and no queues. All take turns; processor time.

Goals: an epoch of SGD takes at most 2 (dense) or 4 (sparse) times the yardstick, one of SVRG or
SAGA at most 1.5 times that of SGD. SVRG's has two passes over all rows besides.

    python benchmarks/parties.py [--repeats 5] [--only dense|sparse]
"""

import argparse
import os
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import sparse
from sklearn.linear_model import SGDClassifier

from fedatlas.algorithms.vfb2_saga import Vfb2Saga
from fedatlas.algorithms.vfb2_sgd import Vfb2Sgd
from fedatlas.algorithms.vfb2_svrg import Vfb2Svrg
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.data.catalogue import load_catalogue
from fedatlas.data.formats import read_raw
from fedatlas.federations.vertical import VerticalAlgorithm
from fedatlas.federations.vertical.network import PartyNetwork
from fedatlas.federations.vertical.problem import PartyCounters, PartyProblem
from fedatlas.federations.vertical.shards import PartyRows, PartySamples
from fedatlas.schema.network_model import NetworkModel, RealMasks, RingMasks
from fedatlas.schema.objectives import LinearObjective

PARTIES, ACTIVE = 8, 3
OBJECTIVE = LinearObjective(name="logistic_l2", weight=1e-4)
NONCONVEX = LinearObjective(name="logistic_nonconvex", weight=1e-4)
SGD = Vfb2Sgd(step_size=0.01)
METHODS: dict[str, tuple[VerticalAlgorithm, LinearObjective]] = {
    "VFB²-SGD": (SGD, OBJECTIVE),
    "VFB²-SVRG": (Vfb2Svrg(step_size=0.01), OBJECTIVE),
    "VFB²-SAGA": (Vfb2Saga(step_size=0.01), OBJECTIVE),
    "VFB-SGD": (Vfb2Sgd(step_size=0.01, synchronous=True), OBJECTIVE),
    "VFB²-SGD, nonconvex": (SGD, NONCONVEX),
    "VFB²-SGD, ring": (SGD, OBJECTIVE),
}
RING = {"VFB²-SGD, ring": RingMasks(kind="ring", fraction_bits=40)}  # others have real masks
YARDSTICK = "scikit-learn's SGD"
GOALS = {"dense": 2.0, "sparse": 4.0}  # of VFB²-SGD, times the yardstick
REDUCED_VARIANCE, REDUCED_VARIANCE_GOAL = ("VFB²-SVRG", "VFB²-SAGA"), 1.5  # times VFB²-SGD


def dense_rows() -> PartyRows:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(24_000, 90))
    margins = features @ generator.normal(size=90) + generator.normal(size=24_000)
    starts = np.array([0, 12, 24, *(24 + 11 * np.arange(1, 7))])
    return PartyRows(features, np.where(margins > 0, 1.0, -1.0), starts)


def sparse_rows() -> PartyRows:
    catalogue = load_catalogue(Path(__file__).parents[1] / "config/datasets.yaml")
    samples = read_raw(catalogue["standin-news20"], "train", [])
    order = np.random.default_rng(0).permutation(samples.features.shape[1])
    features = sparse.csr_array(sparse.csc_array(samples.features)[:, order])[:17_996]
    starts = np.linspace(0, len(order), PARTIES + 1).astype(int)
    return PartyRows(features, samples.label[:17_996], starts)


def epoch_of(name: str, rows: PartyRows) -> Callable[[], float]:
    """A function that runs the next epoch of a method and returns its seconds."""
    algorithm, objective = METHODS[name]
    problem = PartyProblem(PartySamples(rows, None, {}), objective)
    model = NetworkModel(straggler=1.4, masks=RING.get(name, RealMasks()))
    network = PartyNetwork(rows, objective, ACTIVE, model, PartyCounters(), seed=0)
    random = RoundRandom(0)
    state = algorithm.start(problem, network, np.zeros(problem.dimension))
    done = 0

    def epoch() -> float:
        nonlocal state, done
        began = time.process_time()
        for _ in range(10):
            state = algorithm.round(state, problem, network, random.at(done))
            done += 1
        return time.process_time() - began

    return epoch


def yardstick(rows: PartyRows) -> float:
    """Seconds of one epoch of compiled, centralised SGD with the same objective."""
    model = SGDClassifier(
        loss="log_loss", alpha=OBJECTIVE.regularisation_weight, fit_intercept=False, max_iter=1,
        tol=None, learning_rate="constant", eta0=0.01,
    )  # fmt: skip
    features = rows.features
    if not isinstance(features, np.ndarray):
        # It knows no sparse arrays with other than 32-bit indices.
        features = sparse.csr_matrix(features)
        features.indices, features.indptr = (
            part.astype(np.int32) for part in (features.indices, features.indptr)
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.process_time()
        model.fit(features, rows.label)
        return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=("dense", "sparse"))
    arguments = parser.parse_args()
    for kind, make in (("dense", dense_rows), ("sparse", sparse_rows)):
        if arguments.only not in (None, kind):
            continue
        rows = make()
        epochs = {name: epoch_of(name, rows) for name in METHODS}
        for epoch in epochs.values():
            epoch()  # compile, or load the compiled code
        seconds: dict[str, list[float]] = {name: [] for name in (*METHODS, YARDSTICK)}
        for _ in range(arguments.repeats):
            for name, epoch in epochs.items():
                seconds[name].append(epoch())
            seconds[YARDSTICK].append(yardstick(rows))
        n, d = rows.features.shape
        print(f"{kind}, {n:,} × {d:,}: seconds per epoch, median (range) of {arguments.repeats}")
        middle = {name: statistics.median(values) for name, values in seconds.items()}
        for name, values in seconds.items():
            ratio = f"{middle[name] / middle[YARDSTICK]:.2f} × {YARDSTICK}"
            if name == "VFB²-SGD":
                ratio += f" (goal: {GOALS[kind]:g})"
            if name in REDUCED_VARIANCE:
                own = middle[name] / middle["VFB²-SGD"]
                ratio += f", {own:.2f} × VFB²-SGD (goal: {REDUCED_VARIANCE_GOAL:g})"
            if name in RING:
                ratio += f", {middle[name] / middle['VFB²-SGD']:.2f} × VFB²-SGD"
            span = f"({min(values):.3f} to {max(values):.3f})"
            print(f"  {name:<20}{middle[name]:>8.3f}  {span}   {ratio}")


if __name__ == "__main__":
    main()
