"""A method beside its certificate, tests/certificates/NAME.py, on an engine of a test's."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from certificates._cases import NETWORK, WITHIN
from fedatlas.algorithms import algorithm_class
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.conform.comparison import Comparison, compare
from fedatlas.conform.ours import Ours, declared
from fedatlas.federations.context import SeedRun
from fedatlas.schema.network_model import StarNetworkModel

CERTIFICATES = Path(__file__).parent / "certificates"
ROUNDS = 15
# [i, j]: i receives from j.
SYMMETRIC = np.array(
    [
        [0.0, 0.3, 0.0, 0.2, 0.4],
        [0.3, 0.0, 0.5, 0.0, 0.0],
        [0.0, 0.5, 0.0, 0.1, 0.0],
        [0.2, 0.0, 0.1, 0.0, 0.6],
        [0.4, 0.0, 0.0, 0.6, 0.0],
    ]
)
RECEIVED = np.array(
    [
        [0.0, 0.3, 0.0, 0.0, 0.8],
        [0.6, 0.0, 0.0, 0.9, 0.0],
        [0.0, 0.7, 0.0, 0.0, 0.0],
        [0.2, 0.0, 0.4, 0.0, 0.0],
        [0.0, 0.0, 0.0, 1.1, 0.0],
    ]
)
# A directed ring with two shortcuts to agent 0; DP-1's row sums, and column sums of 1.
UNBALANCED = np.array(
    [
        [0.0, 0.0, 0.5, 0.5, 1.0],
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 1.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.5, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.5, 0.0],
    ]
)


def beside(
    name: str, hyper: dict[str, Any], engine: Any, view: Any, rounds: int = ROUNDS,
    code: Any = None,
) -> Comparison:  # fmt: skip
    """Both sides under one seed; view: the problem with gradients of the test's own."""
    method, federation = algorithm_class(name)(**hyper), algorithm_class(name).federation
    stated = StarNetworkModel.model_validate(NETWORK) if method.asynchronous else None
    counters, n = federation.counters_of(stated)(), len(view.sizes)
    spec: Any = SimpleNamespace(network=stated, graph_weights=(view.states, view.trackers))
    network = federation.network(spec, engine, counters, 0)
    shape = (n, engine.dimension) if federation.on_graphs else (engine.dimension,)
    x0 = np.random.default_rng(99).normal(size=shape)
    run = SeedRun(engine.counting(counters), network, counters, engine.array(x0.copy()))
    # Hyper-parameters as they are declared: what stands for None is the certificate's, too.
    ours = Ours(method, run, engine, RoundRandom(3), view, x0, declared(method))
    return compare(ours, code or CERTIFICATES / f"{name}.py", rounds, WITHIN)
