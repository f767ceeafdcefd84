"""Blocks that move by a method's own function, against the event-by-event reference."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from fedatlas.algorithms.vfb2_sgd import Vfb2Sgd
from fedatlas.errors import FedatlasError
from fedatlas.federations.vertical.problem import BlockStep, UpdateRule
from test_vertical_methods import Case, Run, assert_replayed


def heavy_ball(w, v, memory, applied, numbers):
    for j in range(len(w)):
        memory[0, j] = numbers[1] * memory[0, j] + v[j]
        w[j] -= numbers[0] * memory[0, j]


def clipped(w, v, memory, applied, numbers):
    norm = 0.0
    for j in range(len(v)):
        norm += v[j] * v[j]
    norm = math.sqrt(norm)
    for j in range(len(w)):
        w[j] -= numbers[0] * v[j] * min(1.0, numbers[1] / max(norm, 1e-300))


def adam(w, v, memory, applied, numbers):
    t = applied + 1
    for j in range(len(w)):
        memory[0, j] = 0.9 * memory[0, j] + 0.1 * v[j]
        memory[1, j] = 0.99 * memory[1, j] + 0.01 * v[j] * v[j]
        up = memory[0, j] / (1 - 0.9**t)
        w[j] -= numbers[0] * up / (math.sqrt(memory[1, j] / (1 - 0.99**t)) + 1e-8)


class Reference:
    """The same, with arrays, for the reference: block after v of a party."""

    def __init__(self, kind, step):
        self.kind, self.step = kind, step
        self.m, self.s, self.t = {}, {}, {}

    def __call__(self, party, block, v):
        if self.kind == "clipped":
            return block - self.step * v * min(1.0, 0.05 / np.linalg.norm(v))
        m = self.m.get(party, 0.0)
        if self.kind == "heavy ball":
            self.m[party] = 0.7 * m + v
            return block - self.step * self.m[party]
        t = self.t[party] = self.t.get(party, 0) + 1
        self.m[party] = 0.9 * m + 0.1 * v
        self.s[party] = 0.99 * self.s.get(party, 0.0) + 0.01 * v**2
        spread = np.sqrt(self.s[party] / (1 - 0.99**t)) + 1e-8
        return block - self.step * (self.m[party] / (1 - 0.9**t)) / spread


STEPS = {
    "heavy ball": (heavy_ball, 1, 0.7),
    "clipped": (clipped, 0, 0.05),
    "adam": (adam, 2, 0.0),
}


@dataclass(frozen=True)
class Stepping(Case):
    """A case whose blocks move by a function."""

    step: str = "heavy ball"

    @property
    def algorithm(self):
        base = super().algorithm
        move, rows, number = STEPS[self.step]
        step = BlockStep(move, rows, (self.step_size, number))

        class Method(type(base)):
            @property
            def rule(self):
                usual = super().rule
                return UpdateRule(
                    usual.step_size, usual.reference, usual.backward, usual.synchronous, step
                )

        return Method.model_construct(**dict(base))


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("method", ["sgd", "svrg", "saga", "afsvrg-vp"])
@pytest.mark.parametrize("objective", ["logistic_l2", "logistic_nonconvex", "robust_regression"])
def test_momentum_is_simulated_event_by_event(method, objective, layout):
    case = Stepping(method, objective, layout=layout, straggler=1.5, step_size=0.0625)
    run = Run(case).round(7)
    result = assert_replayed(run, move=Reference("heavy ball", 0.0625))
    assert run.state.memory.shape == (1, sum(case.sizes))
    assert np.abs(result.w - run.data.x0).max() > 1e-2


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("synchronous", [False, True])
@pytest.mark.parametrize("step", ["clipped", "adam"])
def test_clipping_and_adam_are_simulated_event_by_event(step, synchronous, layout):
    case = Stepping(layout=layout, synchronous=synchronous, step=step, step_size=0.03, latency=4.0)
    assert_replayed(Run(case).round(7), move=Reference(step, 0.03))


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("method", ["sgd", "saga"])
def test_one_party_moves_as_several_do(method, layout):
    case = Stepping(method, "logistic_nonconvex", layout=layout, sizes=(7,), active=1)
    assert_replayed(Run(case).round(5), move=Reference("heavy ball", case.step_size))


def test_without_memory_of_the_past_momentum_is_plain():
    plain = Run(Case(layout="sparse")).round(5)
    case = Stepping(layout="sparse")
    move, rows, _ = STEPS["heavy ball"]
    run = Run(case)
    rule = UpdateRule(case.step_size, step=BlockStep(move, rows, (case.step_size, 0.0)))
    object.__setattr__(run, "algorithm", _of(rule, run.algorithm))
    np.testing.assert_allclose(run.round(5).barrier(), plain.barrier(), rtol=0, atol=1e-14)


def _of(declared, base):
    class Method(Vfb2Sgd):
        @property
        def rule(self):
            return declared

    return Method.model_construct(**dict(base))


def wrong(w, v, memory, applied, numbers):
    w[0] = "text"


def test_what_numba_cannot_compile_is_named():
    run = Run(Case())
    rule = UpdateRule(0.1, step=BlockStep(wrong))
    with pytest.raises(
        FedatlasError, match=r"test_block_steps\.py, line \d+: numba cannot compile"
    ):
        run.network.dominated_updates(run.state, rule, np.array([0, 1]))
