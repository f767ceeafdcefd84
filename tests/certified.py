"""A method beside its certificate, tests/certificates/NAME.py, on an engine of a test's."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from fedatlas.algorithms import algorithm_class
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.conform import Comparison, Theirs, compare, load_code, play
from fedatlas.federations.context import SeedRun

CERTIFICATES = Path(__file__).parent / "certificates"
#: Of an iterate's norm.
WITHIN, ROUNDS = 1e-12, 25


def beside(
    name: str, hyper: dict[str, Any], engine: Any, view: Any, *, graph: Any = None, code: Any = None
) -> Comparison:
    """Both sides under one seed; view: the problem with gradients of the test's own."""
    method, federation = algorithm_class(name)(**hyper), algorithm_class(name).federation
    counters, sizes = federation.counters(), np.array(view.sizes)
    spec: Any = SimpleNamespace(network=None, graph_weights=(graph, None))
    network = federation.network(spec, engine, counters, 0)
    shape = (len(sizes), engine.dimension) if federation.on_graphs else (engine.dimension,)
    x0 = np.random.default_rng(99).normal(size=shape)
    run = SeedRun(engine.counting(counters), network, counters, engine.array(x0.copy()))
    played = play(method, run, engine, RoundRandom(3), sizes, ROUNDS)
    theirs = Theirs(code or load_code(CERTIFICATES / f"{name}.py"), view, x0, method)
    return compare(played, theirs, WITHIN)
