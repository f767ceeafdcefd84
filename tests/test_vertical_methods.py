"""VFB² and AFSVRG-VP against the papers' loops over a model of time, and what they cost.

The package draws; tests/reference_vertical.py replays those draws event by event. All seconds are
multiples of UNIT by few powers of two (fractions in the reference), so events that coincide do so
exactly, and so does the work of a pass that up to eight threads share.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse

import fedatlas.federations.vertical.kernels as at
import reference_vertical as reference
from fedatlas.algorithms.afsvrg_vp import AfsvrgVp
from fedatlas.algorithms.vfb2_saga import Vfb2Saga
from fedatlas.algorithms.vfb2_sgd import Vfb2Sgd
from fedatlas.algorithms.vfb2_svrg import Vfb2Svrg
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.errors import FedatlasError
from fedatlas.federations.vertical import VerticalAlgorithm
from fedatlas.federations.vertical.kernels import blocks, draws
from fedatlas.federations.vertical.network import PartyNetwork, PartyState
from fedatlas.federations.vertical.problem import PartyCounters, PartyProblem
from fedatlas.federations.vertical.secure_sum import two_trees
from fedatlas.federations.vertical.shards import PartyRows, PartySamples
from fedatlas.schema.network_model import Masks, NetworkModel, RealMasks, RingMasks
from fedatlas.schema.objectives import LinearObjective
from reference import PARTS, objective_of
from test_ring import added_up

METHODS: dict[str, Callable[..., VerticalAlgorithm]] = {
    "sgd": Vfb2Sgd,
    "svrg": Vfb2Svrg,
    "saga": Vfb2Saga,
    "afsvrg-vp": AfsvrgVp,
}

UNIT = 105.0  # s: 3 · 5 · 7
NO_MASKS, ONES, HUGE_MASKS = (RealMasks(scale=scale) for scale in (0.0, 1.0, 1e10))

every_method = pytest.mark.parametrize("method", METHODS)
every_objective = pytest.mark.parametrize("objective", PARTS)
both_modes = pytest.mark.parametrize("synchronous", [False, True])
both_layouts = pytest.mark.parametrize("layout", ["dense", "sparse"])
many_examples = settings(max_examples=150, deadline=None, derandomize=True)


# --------------------------------------------------------------------------- running a method


@dataclass(frozen=True)
class Case:
    """One configuration; `sizes` are those of the parties' blocks, seconds are in UNITs."""

    method: str = "sgd"
    objective: str = "logistic_l2"
    weight: float = 0.1
    layout: str = "dense"
    sizes: tuple[int, ...] = (4, 2, 3, 1, 2)
    active: int = 3
    samples: int = 16
    synchronous: bool = False
    step_size: float = 0.125
    rounds_per_epoch: int = 3
    inner_passes: int = 1
    seconds_per_feature: float = 0.5
    latency: float = 0.25
    straggler: float = 1.0
    masks: Masks = ONES
    compute: dict[str, Any] = field(default_factory=lambda: {"kind": "constant"})
    drift: dict[str, Any] | None = None
    straggler_party: int | None = None
    threads: int | None = None
    unit: float = UNIT
    seed: int = 0

    @property
    def parties(self) -> int:
        return len(self.sizes)

    @property
    def spec(self) -> LinearObjective:
        return objective_of(self.objective, self.weight)

    @property
    def algorithm(self) -> VerticalAlgorithm:
        rest = {"inner_passes": self.inner_passes} if self.inner else {}
        return METHODS[self.method](
            step_size=self.step_size,
            synchronous=self.synchronous,
            rounds_per_epoch=self.rounds_per_epoch,
            **rest,
        )

    @property
    def inner(self) -> int | None:
        """Dominated updates between two snapshots, where there are any."""
        return self.inner_passes * self.samples if self.method in ("svrg", "afsvrg-vp") else None

    @property
    def network(self) -> NetworkModel:
        return NetworkModel(
            seconds_per_feature=self.unit * self.seconds_per_feature,
            latency=self.unit * self.latency,
            straggler=self.straggler,
            straggler_party=self.straggler_party,
            compute=self.compute,
            drift=self.drift,
            threads=self.threads,
            masks=self.masks,
        )


@dataclass
class Data:
    """Rows, labels and where the parties' columns are; x0 in the order of the columns."""

    X: np.ndarray
    y: np.ndarray
    blocks: list[np.ndarray]
    x0: np.ndarray

    @property
    def columns(self) -> np.ndarray:
        return np.concatenate(self.blocks)

    def rows(self, layout: str) -> PartyRows:
        features = self.X[:, self.columns]
        starts = np.cumsum([0, *map(len, self.blocks)])
        if layout == "sparse":
            return PartyRows(sparse.csr_array(features), self.y, starts)
        return PartyRows(features, self.y, starts)


def make_data(case: Case) -> Data:
    """Rows of norm about 1; some are empty if sparse, but no party is without any non-zero."""
    random = np.random.default_rng(case.seed)
    n, d = case.samples, sum(case.sizes)
    X = random.normal(size=(n, d)) / math.sqrt(d)
    if case.layout == "sparse":
        X = np.where(random.random((n, d)) < 0.4, X, 0.0)
        X[1] = 0.0
        X[2] = random.normal(size=d) / math.sqrt(d)
    y = np.where(random.random(n) < 0.5, 1.0, -1.0)
    if case.objective in ("ridge_regression", "robust_regression"):
        y = random.normal(size=n)
    cuts = np.cumsum(case.sizes)[:-1]
    blocks = [np.sort(block) for block in np.split(random.permutation(d), cuts)]
    return Data(X, y, blocks, random.normal(size=d))


class RecordingRandom(RoundRandom):
    """The same draws, written down."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._drawn: dict[int, list[int]] = {}
        self._round = 0

    def at(self, round_number: int) -> "RecordingRandom":
        self._round = round_number
        super().at(round_number)
        return self

    def indices(self, population: int, size: int) -> np.ndarray:
        drawn = super().indices(population, size)
        known, new = self._drawn.get(self._round, []), drawn.tolist()
        assert known[:size] == new[: len(known)]  # those that dominators knew before
        self._drawn[self._round] = max(known, new, key=len)
        return drawn

    @property
    def order(self) -> list[int]:
        """Those of all rounds so far, and those ahead."""
        return [sample for number in sorted(self._drawn) for sample in self._drawn[number]]


class Run:
    """A method on its parties, a round at a time."""

    def __init__(self, case: Case, data: Data | None = None, seed: int = 7) -> None:
        self.case, self.data = case, data or make_data(case)
        self.algorithm, self.counters = case.algorithm, PartyCounters()
        rows = self.data.rows(case.layout)
        self.problem = PartyProblem(PartySamples(rows, None, {}), case.spec)
        self.network = PartyNetwork(rows, case.spec, case.active, case.network, self.counters, seed)
        self.random = RecordingRandom(seed)
        x0 = self.data.x0[self.data.columns]
        self.state: PartyState = self.algorithm.start(self.problem, self.network, x0)
        self.round_number = 0

    def round(self, rounds: int = 1) -> "Run":
        for _ in range(rounds):
            self.state = self.algorithm.round(
                self.state, self.problem, self.network, self.random.at(self.round_number)
            )
            self.round_number += 1
        return self

    @property
    def x(self) -> np.ndarray:
        return self.algorithm.point(self.state, self.network)

    def barrier(self) -> np.ndarray:
        """All blocks once nothing is under way; the run goes on from there."""
        self.state = self.network.barrier(self.state, self.algorithm.rule)
        return self.state.x

    def split(self, x: np.ndarray) -> list[np.ndarray]:
        return np.split(x, np.cumsum(self.case.sizes)[:-1])


def replayed(
    run: Run, factor: reference.Factor = None, ticks: int = 1, move: reference.Move = None
) -> reference.Result:
    """The reference on the samples that a run has drawn so far.

    ticks: of its clock in a second.
    """
    case, data = run.case, run.data
    loss, regulariser = PARTS[case.objective]
    slowdown = [Fraction(1)] * case.parties
    if case.layout == "sparse":
        slowdown = [
            Fraction(np.count_nonzero(data.X[:, block]), case.samples * len(block))
            for block in data.blocks
        ]
    if case.straggler_party is not None:
        slowdown[case.straggler_party] *= Fraction(case.straggler)
    elif case.parties > 1:
        slowdown[-1] *= Fraction(case.straggler)
    decided = run.state.dominated_updates
    return reference.simulate(
        case.method,
        data.X,
        data.y,
        data.blocks,
        run.random.order[: decided + run.state.iterations_under_way],
        decided,
        case.step_size,
        loss,
        regulariser,
        case.weight,
        dominators=case.active,
        synchronous=case.synchronous,
        inner=case.inner,
        seconds_per_feature=Fraction(case.unit * case.seconds_per_feature) * ticks,
        latency=Fraction(case.unit * case.latency) * ticks,
        slowdown=slowdown,
        w0=data.x0,
        threads=case.threads,
        factor=factor,
        move=move,
    )


def assert_close(actual: np.ndarray, expected: np.ndarray, tolerance: float = 1e-12) -> None:
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * scale)


def assert_replayed(
    run: Run, factor: reference.Factor = None, ticks: int = 1, move: reference.Move = None
) -> reference.Result:
    """Blocks, times and delays of both sides agree, at the last sum and when nothing waits."""
    result, counters = replayed(run, factor, ticks, move), run.counters
    if factor is None and run.case.threads is None:
        assert result.longest_wait == 0  # as many threads as dominators suffice
    assert_close(run.x, np.concatenate(result.blocks))  # settles, and tells of what is due
    assert counters.block_updates == result.applied
    assert counters.update_delay_mean == pytest.approx(result.update_delay_mean, rel=1e-12)
    assert counters.simulated_time == float(result.seconds) / ticks
    assert counters.read_delay_max == result.read_delay_max
    assert counters.read_delay_mean == pytest.approx(result.read_delay_mean, rel=1e-12)
    assert_close(run.barrier(), np.concatenate(result.drained_blocks))
    assert counters.simulated_time == float(result.drained_seconds) / ticks
    delays = [application.delay for application in result.applications]
    assert counters.block_updates == len(delays)
    assert counters.tau_1 == result.tau_1
    assert counters.tau_2 == result.tau_2
    assert counters.eta_1 == result.eta_1
    assert counters.update_delay_max == max(delays)
    assert counters.update_delay_mean == pytest.approx(np.mean(delays), rel=1e-12)
    return result


# ----------------------------------------------------------------------- against the reference


@every_method
@every_objective
@both_modes
@both_layouts
def test_methods_are_those_of_the_papers(method, objective, synchronous, layout):
    case = Case(method, objective, 0.1, layout, synchronous=synchronous, straggler=1.5)
    assert_replayed(Run(case).round(4))
    run = Run(case).round(10)
    result = assert_replayed(run)
    moved = np.abs(result.w - run.data.x0)
    passive = np.concatenate(run.data.blocks[case.active :])
    if method == "afsvrg-vp":
        assert not moved[passive].any()
        moved[passive] = 1.0
    assert moved.min() > 1e-4  # every block went somewhere


@pytest.mark.parametrize("method", ["svrg", "afsvrg-vp"])
@both_modes
@pytest.mark.parametrize("inner_passes", [1, 2, 3])
def test_several_outer_loops(method, synchronous, inner_passes):
    case = Case(
        method, "ridge_regression", samples=13, active=2, inner_passes=inner_passes,
        synchronous=synchronous, rounds_per_epoch=4, step_size=0.0625,
    )  # fmt: skip
    run = Run(case).round(4 * inner_passes * 2 + 3)
    assert run.counters.full_passes == 3
    assert run.state.reference.shape == (1, 13)
    result = assert_replayed(run)
    assert len(result.starts) == 3


@st.composite
def cases(draw: st.DrawFn) -> tuple[Case, int]:
    parties = draw(st.integers(1, 8), "parties")
    layout = draw(st.sampled_from(["dense", "sparse"]))
    # Powers of two as well where seconds depend on the average of non-zeros per row.
    samples = draw(st.sampled_from([8, 16, 32]) if layout == "sparse" else st.integers(10, 30))
    case = Case(
        method=draw(st.sampled_from(sorted(METHODS))),
        objective=draw(st.sampled_from(sorted(PARTS))),
        weight=draw(st.sampled_from([1e-4, 0.1, 1.0])),
        layout=layout,
        sizes=tuple(draw(st.lists(st.integers(1, 4), min_size=parties, max_size=parties))),
        active=draw(st.integers(1, parties), "active"),
        samples=samples,
        synchronous=draw(st.booleans()),
        step_size=draw(st.sampled_from([0.01, 0.05, 0.1])),
        rounds_per_epoch=draw(st.integers(1, 8)),
        inner_passes=draw(st.integers(1, 2)),
        seconds_per_feature=draw(st.sampled_from([0.125, 0.5, 2.0])),
        latency=draw(st.sampled_from([0.0, 0.25, 0.5, 3.0, 64.0])),
        straggler=draw(st.sampled_from([1.0, 1.5, 8.0])),
        seed=draw(st.integers(0, 1000)),
    )
    return case, draw(st.integers(1, 3 * case.rounds_per_epoch), "rounds")


@many_examples
@given(cases())
def test_any_configuration_is_replayed(drawn):
    case, rounds = drawn
    assert_replayed(Run(case).round(rounds))


@pytest.mark.parametrize(("sizes", "active"), [((3, 3, 2, 2, 2, 2), 3), ((4, 3, 3, 3), 2)])
def test_events_that_coincide_do_so_under_the_default_seconds(sizes, active):
    # An update due at the time of a read is seen by it: with a latency of one feature's time and
    # near-equal blocks that is what happens all the time.
    case = Case(sizes=sizes, active=active, samples=30, seconds_per_feature=1.0, latency=1.0)
    result = replayed(Run(case).round(9))
    data = make_data(case)
    usual, counters = NetworkModel(), PartyCounters()
    assert usual.seconds_per_feature == usual.latency
    network = PartyNetwork(data.rows("dense"), case.spec, case.active, usual, counters, 7)
    state = network.start(data.x0[data.columns])
    order = np.array([iteration.sample for iteration in result.iterations])
    network.dominated_updates(state, case.algorithm.rule, order)
    assert counters.read_delay_mean == pytest.approx(result.read_delay_mean, rel=1e-12)


def test_updates_are_stale_and_reads_inconsistent():
    # What the comparison above is about does happen.
    run = Run(Case(latency=4.0, straggler=1.5, active=5)).round(9)
    result = assert_replayed(run)
    assert result.read_delay_max == result.update_delay_max == 4
    assert (result.read_delays.max(axis=1) > result.read_delays.min(axis=1)).any()


# --------------------------------------------------------------------------------- reductions


def pooled(run: Run) -> np.ndarray:
    """The method that VFB² distributes, on all columns."""
    case, data, order = run.case, run.data, run.random.order
    loss, regulariser = PARTS[case.objective]
    rest = (loss, regulariser, case.weight)
    if case.method == "sgd":
        return reference.sgd(data.X, data.y, data.x0, case.step_size, order, *rest)
    if case.method == "saga":
        return reference.saga(data.X, data.y, data.x0, case.step_size, order, *rest)
    assert case.inner is not None
    orders = [order[start : start + case.inner] for start in range(0, len(order), case.inner)]
    return reference.svrg(data.X, data.y, data.x0, case.step_size, orders, *rest)


@every_objective
@both_layouts
@both_modes
@pytest.mark.parametrize("method", ["sgd", "svrg", "saga"])
@pytest.mark.parametrize("sizes", [(7,), (4, 2, 3, 1, 2)])
def test_one_dominator_runs_the_method_on_pooled_data(
    objective, layout, synchronous, method, sizes
):
    # 17 samples: the seconds of sparse parties are no round numbers here.
    case = Case(
        method, objective, 0.1, layout, sizes, 1, 17, synchronous, rounds_per_epoch=4,
        straggler=1.4, latency=0.3,
    )  # fmt: skip
    run = Run(case).round(11)
    assert run.counters.read_delay_max == run.counters.update_delay_max == 0
    assert_close(run.barrier(), pooled(run)[run.data.columns])


def test_afsvrg_of_active_parties_only_has_the_optimum_on_their_columns():
    case = Case(
        "afsvrg-vp", weight=0.1, sizes=(3, 2, 4, 3), active=2, samples=40, step_size=0.25,
        rounds_per_epoch=1,
    )  # fmt: skip
    data = make_data(case)
    data.X *= 2.0
    data.x0[:] = 0.0
    run = Run(case, data).round(150)
    own = np.concatenate(data.blocks[:2])

    def value(w: np.ndarray) -> float:
        return reference.objective(data.X[:, own], data.y, w, "logistic", "l2", 0.1)

    def gradient(w: np.ndarray) -> np.ndarray:
        return reference.gradient(data.X[:, own], data.y, w, "logistic", "l2", 0.1)

    found = optimize.minimize(value, np.zeros(5), jac=gradient, method="BFGS", tol=1e-12).x
    np.testing.assert_allclose(run.x[:5], found, rtol=0, atol=1e-6)
    assert not run.x[5:].any()
    whole = Run(replace(case, method="svrg"), data).round(150)
    assert np.abs(whole.x[5:]).min() > 1e-3
    x = reference.assemble(whole.split(whole.x), data.blocks)
    assert np.abs(reference.gradient(data.X, data.y, x, "logistic", "l2", 0.1)).max() < 1e-6


@pytest.mark.parametrize("method", ["svrg", "saga"])
@both_layouts
@both_modes
def test_reduced_variance_reaches_the_optimum(method, layout, synchronous):
    case = Case(
        method, layout=layout, samples=32, synchronous=synchronous, step_size=0.25,
        rounds_per_epoch=1,
    )  # fmt: skip
    run = Run(case).round(120)
    assert run.problem.measure(run.x)["gradient_norm"] < 1e-7


# ------------------------------------------------------------------------- sparse rows are lazy


def half_full(case: Case) -> Data:
    """Every column has half its entries: sparse parties are half as wide as dense ones."""
    data, random = make_data(replace(case, layout="dense")), np.random.default_rng(5)
    for j in range(data.X.shape[1]):
        data.X[random.permutation(case.samples)[case.samples // 2 :], j] = 0.0
    return data


@every_method
@every_objective
@pytest.mark.parametrize(
    "rest",
    [
        {"straggler": 1.5},
        {"straggler": 1.5, "synchronous": True},
        {"weight": 1e-12, "step_size": 0.1, "active": 2},
        {"weight": 1e-4, "step_size": 0.1, "active": 2},
        {"weight": 3.9, "step_size": 0.25, "active": 2},
        {"weight": 1.0, "step_size": 1 - 1e-9, "active": 2},
    ],
)
def test_sparse_rows_are_dense_rows_with_zeros(method, objective, rest):
    case = Case(method, objective, samples=32, **rest)
    data = half_full(case)
    dense = Run(case, data)
    lazy = Run(replace(case, layout="sparse", seconds_per_feature=1.0), data)
    for _ in range(40 if case.straggler > 1 else 20):
        assert_close(lazy.round().x, dense.round().x, 1e-12)
    assert dense.random.order == lazy.random.order
    assert_close(lazy.barrier(), dense.barrier(), 1e-12)
    counted, expected = asdict(lazy.counters), asdict(dense.counters)
    for side in (counted, expected):
        del side["mask_error"]
    assert counted == expected


@pytest.mark.parametrize("missed", [63, 64, 65, 700, 4000])
@pytest.mark.parametrize("weight", [1e-6, 1e-4, 1e-2])
def test_missed_nonconvex_updates_are_made_at_once(missed, weight):
    random = np.random.default_rng(missed)
    for step_size, scale, slope in itertools.product(
        (1e-3, 0.1, 1.0), (1e-6, 0.5, 2.0), (0, 1e-5, 1e-2)
    ):
        w, mean = scale * random.normal(), slope * random.normal()
        found = blocks.caught_up(weight, step_size, missed, w, mean)
        expected = np.longdouble(w)
        for _ in range(missed):
            expected -= step_size * (mean + 2 * weight * expected / (1 + expected**2) ** 2)
        assert abs(found - expected) < 1e-13 * (abs(w) + missed * step_size * abs(mean))


def test_features_that_no_row_has_are_regularised_too():
    case = Case("sgd", layout="sparse", sizes=(2, 3), active=1)
    data = make_data(case)
    data.X[:, data.blocks[1][:2]] = 0.0
    run = Run(case, data).round(5)
    updates = run.state.dominated_updates
    assert_close(
        run.barrier()[2:4], data.x0[data.blocks[1][:2]] * (1 - case.step_size * 0.1) ** updates
    )


@pytest.mark.parametrize("step_size", [1.0, 1.5])
@every_method
def test_steps_too_large_for_lazy_updates_are_refused(method, step_size):
    # the product is what counts, and only where updates are lazy and the regulariser is l2
    case = Case(method, weight=1.0, step_size=step_size, layout="sparse")
    message = f"step_size {step_size:g} times the regularisation weight 1 is 1 or more"
    with pytest.raises(FedatlasError, match=message):
        Run(case).round()
    Run(replace(case, objective="logistic_nonconvex")).round()
    run = Run(replace(case, layout="dense")).round(3)
    assert_close(run.x, np.concatenate(replayed(run).blocks))


# ------------------------------------------------------------------------------- SAGA's tables


@both_layouts
@both_modes
@every_objective
def test_every_partys_mean_is_that_of_its_table(layout, synchronous, objective):
    case = Case("saga", objective, layout=layout, synchronous=synchronous, straggler=1.5)
    run = Run(case)
    for _ in range(9):
        run.round()
        drained = run.network.barrier(run.state, run.algorithm.rule)
        means = run.split(drained.mean)
        for party, block in enumerate(run.data.blocks):
            expected = drained.reference[party] @ run.data.X[:, block] / case.samples
            np.testing.assert_allclose(means[party], expected, rtol=0, atol=1e-14)


def test_parties_have_tables_of_their_own_and_agree_at_a_barrier_of_one_dominator():
    run = Run(Case("saga", latency=4.0, active=5)).round(6)
    assert run.state.reference.shape == (5, 16)
    assert len({row.tobytes() for row in run.state.reference}) > 1
    alone = Run(Case("saga", latency=4.0, active=1)).round(6)
    alone.barrier()
    assert len({row.tobytes() for row in alone.state.reference}) == 1


# ---------------------------------------------------------------------------------------- masks


@every_method
@both_layouts
@both_modes
def test_masks_leave_rounding_errors_only(method, layout, synchronous):
    case = Case(method, layout=layout, synchronous=synchronous)
    runs = {
        scale: Run(replace(case, masks=RealMasks(scale=scale))).round(9)
        for scale in (0.0, 1.0, 1e3, 1e8)
    }
    unit, depth, q = 2.0**-53, 3, case.parties
    shares = 20.0  # more than the sum of any row's |shares|
    for scale, run in runs.items():
        # Algorithm 1's bound, and what the plain sum that it is held against rounds itself
        bound = (depth + 3) * unit * (shares + 2 * q * scale) + q * unit * shares
        assert run.counters.mask_error <= bound
        if scale:
            assert run.counters.mask_error > 0.1 * unit * scale
        assert_close(run.x, runs[0.0].x, 20 * bound)
    assert 100 < runs[1e3].counters.mask_error / runs[1.0].counters.mask_error < 1e4


def ring_masks(fraction_bits: int) -> RingMasks:
    return RingMasks(kind="ring", fraction_bits=fraction_bits)


@every_method
@both_layouts
@both_modes
@pytest.mark.parametrize("fraction_bits", [32, 40])
def test_masks_in_a_ring_leave_the_rounding_of_shares_only(
    method, layout, synchronous, fraction_bits
):
    case = Case(method, layout=layout, synchronous=synchronous, masks=ring_masks(fraction_bits))
    run, plain = Run(case).round(9), Run(replace(case, masks=NO_MASKS)).round(9)
    rounding = case.parties * 2.0 ** -(fraction_bits + 1)
    assert 0.01 * rounding < run.counters.mask_error <= rounding + 1e-14
    assert_close(run.x, plain.x, 20 * rounding)
    assert asdict(run.counters) | {"mask_error": 0} == asdict(plain.counters) | {"mask_error": 0}


@pytest.mark.parametrize("method", ["sgd", "svrg"])
def test_shares_that_do_not_fit_into_the_ring_end_in_no_number_and_a_warning(method, caplog):
    # Below 2^(63 - 52) / 5 = 409.6.
    for size, fits in ((100.0, True), (500.0, False)):
        case = Case(method, sizes=(1,) * 5, masks=ring_masks(52), step_size=1e-6)
        data = make_data(case)
        data.x0[:], data.X[:] = 1.0, size
        run = Run(case, data)
        margins = run.network.secure_margins(run.state)
        assert np.isfinite(run.problem.derivatives(margins)).all() == fits
        run.round(2)
        assert np.isfinite(run.counters.mask_error) == np.isfinite(run.x).all() == fits
        assert bool(caplog.messages) != fits
    assert caplog.messages == [
        "masks: a share does not fit: it must stay below 409.6 in size, and the sum counts as not "
        "a number; lower fraction_bits, or the step size if the run diverges"
    ]


def test_one_party_alone_encodes_nothing():
    case = Case(masks=ring_masks(1), sizes=(5,), active=1)
    alone, plain = Run(case).round(3), Run(replace(case, masks=NO_MASKS)).round(3)
    assert (alone.x == plain.x).all()


def test_without_masks_only_the_order_of_the_sum_differs():
    alone = Run(Case(masks=NO_MASKS, sizes=(5,), active=1)).round(3)
    assert alone.counters.mask_error == 0.0
    pair = Run(Case(masks=NO_MASKS, sizes=(5, 2), active=1)).round(3)
    assert pair.counters.mask_error == 0.0  # a + b either way


def test_sums_go_up_the_trees_of_the_dominator_that_asked():
    # At 0, with labels 0, a derivative is twice what the masks' rounding leaves of a sum of zeros.
    case = Case(
        "sgd", "ridge_regression", sizes=(1,) * 5, active=3, samples=15, rounds_per_epoch=5,
        masks=HUGE_MASKS,
    )  # fmt: skip
    data = make_data(case)
    data.x0[:] = data.y[:] = 0.0
    run = Run(case, data).round()
    masks = np.array([1e10 * draws.mask(run.network._maskings[0].key, k) for k in range(15)])
    for dominator, theta in enumerate(run.state.queues.own[:, at.SLOPE]):
        own = masks[5 * dominator : 5 * dominator + 5]
        climbs = {root: [added_up(tree, own) for tree in two_trees(5, root)] for root in range(3)}
        expected = {root: 2 * (masked - mask) for root, (masked, mask) in climbs.items()}
        assert theta == expected[dominator]
    assert len(set(expected.values())) > 1  # the trees make a difference


def test_every_seed_has_masks_of_its_own():
    # Masks so large that their rounding is seen; the samples are the same.
    data = make_data(case := Case(masks=HUGE_MASKS))
    errors, points = set(), set()
    for seed in range(5):
        run = Run(case, data, seed)
        run.random = RecordingRandom(0)
        run.round(3)
        errors.add(run.counters.mask_error)
        points.add(run.x.tobytes())
    assert len(errors) == len(points) == 5


def test_no_two_sums_share_their_masks():
    # At 0 every share is 0: a sum is what its masks' rounding leaves, and would repeat with them.
    case = Case("svrg", sizes=(2,) * 8, active=1, samples=32)
    data = make_data(case)
    data.x0[:] = 0.0
    run = Run(case, data)
    passes = [run.network.secure_margins(run.state)]
    run.network.distribute(run.state, run.algorithm.rule, np.zeros(32), np.zeros(16))
    passes.append(run.network.secure_margins(run.state))
    first, second = passes
    assert (first != second).any()
    assert len(np.unique(first)) > 1
    assert np.abs(passes).max() < 1e-13


# --------------------------------------------------------------------------------------- costs


@every_method
@both_modes
@both_layouts
@pytest.mark.parametrize(("parties", "active"), [(1, 1), (2, 1), (5, 3), (8, 8)])
def test_costs_are_those_of_the_papers(method, synchronous, layout, parties, active):
    n, others = 16, parties - 1
    case = Case(
        method, layout=layout, sizes=(2,) * parties, active=active, samples=n,
        synchronous=synchronous,
    )  # fmt: skip
    run = Run(case)
    for number in range(1, 8):
        run.round()
        updates = n * number // 3
        passes = {"sgd": 0, "saga": 1}.get(method, -(-number // 3))
        backward = method != "afsvrg-vp"
        counters = run.counters
        assert counters.iteration == updates == run.state.dominated_updates
        assert counters.update_epoch == updates / n
        assert counters.full_passes == passes
        assert counters.gradient_evaluations == updates + passes * n
        assert counters.bytes_up == 8 * 2 * others * (updates + passes * n)
        # ϑ of a pass goes to all who update their blocks.
        spread = (others if backward else active - 1) * passes
        assert counters.bytes_down == 16 * others * updates * backward + 8 * n * spread
        assert counters.messages == others * ((2 + backward) * updates + 2 * passes) + spread
    updates += run.state.iterations_under_way
    run.barrier()
    assert run.counters.iteration == updates
    assert run.counters.block_updates == (parties if backward else 1) * updates


@pytest.mark.parametrize("rounds_per_epoch", [1, 2, 3, 7, 13, 16])
def test_rounds_share_an_epoch_as_evenly_as_can_be(rounds_per_epoch):
    n, run = 16, Run(Case(rounds_per_epoch=min(rounds_per_epoch, 16)))
    for number in range(1, 3 * rounds_per_epoch + 1):
        before = run.state.dominated_updates
        run.round()
        assert run.state.dominated_updates - before in {
            n // rounds_per_epoch,
            -(-n // rounds_per_epoch),
        }
        if number % rounds_per_epoch == 0:
            assert run.counters.update_epoch == number // rounds_per_epoch


def test_more_rounds_than_samples_are_refused():
    message = "'rounds_per_epoch' is 17, but there are only 16 training samples; lower it"
    with pytest.raises(FedatlasError, match=message):
        Run(Case(rounds_per_epoch=17)).round()


@pytest.mark.parametrize("method", ["sgd", "saga"])
def test_a_straggler_slows_synchronous_methods_more(method):
    # q = 4 of three features each, 1/2 a unit, no latency: r = 1.5, the straggler's r' = s r.
    # Dominators repeat after max r + r; behind a barrier after 2 max r. Both end with a sum.
    r, samples, m = 1.5 * UNIT, 16, 2
    epoch = {}
    for synchronous in (False, True):
        for straggler in (1.0, 1.5):
            case = Case(
                method, sizes=(3, 3, 3, 3), active=m, samples=samples, latency=0.0,
                straggler=straggler, synchronous=synchronous, rounds_per_epoch=1,
            )  # fmt: skip
            run = Run(case)
            start = run.counters.simulated_time
            assert start == (2 * samples * straggler * r / m if method == "saga" else 0.0)
            seconds = run.round().counters.simulated_time - start
            period = 2 * straggler * r if synchronous else (straggler + 1) * r
            assert seconds == (samples // m - 1) * period + straggler * r
            epoch[synchronous, straggler] = seconds
    # The asynchronous methods are the faster ones with a straggler, and lose less by it.
    assert epoch[False, 1.0] == epoch[True, 1.0]
    assert epoch[False, 1.5] < epoch[True, 1.5] == 1.5 * epoch[True, 1.0]


@pytest.mark.parametrize("active", [1, 3, 5])
def test_a_full_pass_takes_its_time(active):
    # n max r / k + Λ + ⌈log2 q⌉ Λ for the sums, Λ + n max r / k for the rest
    case = Case("saga", sizes=(4, 2, 3, 1, 2), active=active, latency=0.25, straggler=1.5)
    messages = (1 + 3) * 0.25 + 0.25
    assert seconds_of_start(case) == 2 * 16 * 2.0 / active + messages
    assert seconds_of_start(replace(case, straggler=8.0)) == 2 * 16 * 8.0 / active + messages
    single = replace(case, sizes=(4,), active=1, straggler=8.0)  # neither messages nor others
    assert seconds_of_start(single) == 2 * 16 * 2.0


def seconds_of_start(case: Case) -> Any:
    return pytest.approx(Run(case).counters.simulated_time / UNIT, rel=1e-15)


# ------------------------------------------------------------------------------- pure and alike


@every_method
@both_layouts
@both_modes
def test_asking_for_the_point_changes_nothing(method, layout, synchronous):
    case = Case(method, layout=layout, synchronous=synchronous)
    asked, silent = Run(case), Run(case)
    for _ in range(7):
        asked.round()
        for _ in range(2):
            asked.problem.measure(asked.x)
        silent.round()
    # Lazy coordinates are brought up to date in one go or in two: rounding may differ, no more.
    assert_close(asked.x, silent.x, 1e-15 if layout == "sparse" else 0.0)
    assert asked.counters == silent.counters


@both_modes
def test_methods_draw_the_same_samples_under_one_seed(synchronous):
    orders = {
        tuple(Run(Case(method, synchronous=synchronous)).round(5).random.order)
        for method in METHODS
    }
    assert len(orders) == 1


@pytest.mark.parametrize("objective", ["logistic_l2", "logistic_nonconvex"])
def test_every_derivative_tells_its_label(objective):
    # Of a decreasing loss of yz the sign of ϑ is −y, whatever the model: labels are not protected.
    run = Run(Case("saga", objective)).round(4)
    np.testing.assert_array_equal(np.sign(run.state.reference), np.tile(-run.data.y, (5, 1)))
