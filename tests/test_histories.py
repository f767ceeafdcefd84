"""Attacks on histories: linear systems whose answers are known, and the training they speak of."""

from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fedatlas.algorithms.vfb2_svrg import Vfb2Svrg
from fedatlas.errors import FedatlasError
from fedatlas.evaluation.tables import (
    FIRST,
    KNOWN,
    LATE,
    MASKED,
    REPEATS,
    SHARES,
    SUMS,
    UNKNOWN,
    read_recovery,
    to_csv,
)
from fedatlas.federations.vertical.network import PartyNetwork
from fedatlas.federations.vertical.problem import PartyCounters, PartyProblem
from fedatlas.federations.vertical.shards import PartyRows, PartySamples
from fedatlas.figures.privacy import compose_recovery
from fedatlas.figures.style import STYLE, draw
from fedatlas.schema.network_model import NetworkModel, RealMasks
from fedatlas.schema.objectives import LinearObjective
from fedatlas.studies.recovery import (
    LAWS,
    SmallProblem,
    first_slopes,
    recover,
    summarised,
    tabulate_recovery,
    train,
)

REAL, RING, FINE = LAWS
LOGISTIC = LinearObjective(name="logistic_l2", weight=1e-3)
RIDGE = LinearObjective(name="ridge_regression", weight=1e-3)


def made_rows(objective: LinearObjective, n: int = 40) -> PartyRows:
    """Three parties with 4, 3 and 5 features."""
    random = np.random.default_rng(0)
    features = random.normal(size=(n, 12))
    labels = features @ random.normal(size=12) + random.normal(size=n)
    if objective is LOGISTIC:
        labels = np.where(labels > 0, 1.0, -1.0)
    return PartyRows(features, labels, np.array([0, 4, 7, 12]))


def small(objective: LinearObjective) -> SmallProblem:
    return SmallProblem.of(made_rows(objective), objective)


# ---------------------------------------------------------------------------------- the history


class SameDraws:
    """The samples that `train` draws, an epoch at a time."""

    def __init__(self) -> None:
        self.random = np.random.default_rng([0, 1])

    def indices(self, population: int, size: int) -> np.ndarray:
        return self.random.integers(population, size=size)


@pytest.mark.parametrize("name", ["logistic_l2", "ridge_regression", "logistic_nonconvex"])
def test_the_history_is_that_of_the_method_on_its_parties(name):
    objective = LinearObjective(name=name, weight=1e-3)
    problem = small(RIDGE if name == "ridge_regression" else LOGISTIC)
    problem = replace(problem, objective=objective)
    history = train(problem, 3)
    rows = PartyRows(problem.features, problem.labels, problem.starts)
    oracle = PartyProblem(PartySamples(rows, None, {}), objective)
    model = NetworkModel(masks=RealMasks(scale=0.0))
    network = PartyNetwork(rows, objective, 1, model, PartyCounters(), 0)
    method = Vfb2Svrg(step_size=problem.step_size, synchronous=True, rounds_per_epoch=1)
    state, draws = method.start(oracle, network, np.zeros(12)), SameDraws()
    for snapshot in range(3):
        state = method.round(state, oracle, network, draws)
        state = network.barrier(state, method.rule)
        np.testing.assert_allclose(state.x, history.w[:, snapshot], rtol=0, atol=1e-13)
        slopes = oracle.derivatives(problem.features @ state.x)
        np.testing.assert_allclose(slopes, history.slopes[:, snapshot], rtol=0, atol=1e-12)


@pytest.mark.parametrize("objective", [LOGISTIC, RIDGE])
def test_every_party_knows_the_coefficients(objective):
    problem = small(objective)
    history = train(problem, 5)
    told = problem.features.T @ history.coefficients
    np.testing.assert_allclose(told, history.w, rtol=0, atol=1e-13)
    # Unknown order: off by γλ of updates, and no more.
    reordered = train(problem, 5, reordered=True)
    off = np.linalg.norm(problem.features.T @ reordered.coefficients - reordered.w)
    assert 0 < off < 10 * problem.shrinkage * np.linalg.norm(reordered.w)


def test_first_slopes_begin_with_those_at_zero():
    problem = small(RIDGE)
    told = first_slopes(problem)
    assert np.isnan(told).any()
    first = np.random.default_rng([0, 2]).integers(40, size=40)[0]
    assert told[first] == -2 * problem.labels[first]


def test_small_problems_are_rows_and_columns_that_vary():
    rows = made_rows(LOGISTIC, n=500)
    rows.features[:, 8] = 7.0
    problem = SmallProblem.of(rows, LOGISTIC)
    assert problem.features.shape == (128, 12)
    assert problem.parties == 3
    assert problem.block(2) == slice(7, 12)
    spreads = problem.features[:, 7:].std(axis=0)
    assert (np.diff(spreads) <= 0).all()
    assert spreads[-1] == 0.0  # the constant column comes last
    assert {tuple(sorted(row)) for row in problem.features} <= {
        tuple(sorted(row)) for row in rows.features
    }


# ----------------------------------------------------------------------------------- the system


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 5), st.integers(0, 5), st.integers(0, 2**32))
def test_as_many_snapshots_as_dimensions_tell_the_gram_matrix(rank, more, seed):
    random = np.random.default_rng(seed)
    features = random.normal(size=(20, rank)) @ random.normal(size=(rank, rank + 2))
    coefficients = random.normal(size=(20, rank + more))
    gram = features @ features.T
    points = recover(gram @ coefficients, coefficients).points
    assert points.shape == (20, rank)
    np.testing.assert_allclose(points @ points.T, gram, atol=1e-6 * np.abs(gram).max())


def test_one_snapshot_fewer_does_not():
    random = np.random.default_rng(0)
    features, coefficients = random.normal(size=(20, 4)), random.normal(size=(20, 3))
    gram = features @ features.T
    points = recover(gram @ coefficients, coefficients).points
    assert points.shape == (20, 3)
    assert np.linalg.norm(points @ points.T - gram) > 0.05 * np.linalg.norm(gram)


def test_what_no_history_tells_is_a_rotation():
    """Lemma 1's ambiguity: turned features with turned weights have the same history."""
    problem = small(LOGISTIC)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0]
    features = problem.features.copy()
    features[:, 7:] = features[:, 7:] @ turn
    one, other = train(problem, 8), train(replace(problem, features=features), 8)
    np.testing.assert_allclose(other.slopes, one.slopes, atol=1e-12)
    np.testing.assert_allclose(
        features[:, 7:] @ other.w[7:], problem.features[:, 7:] @ one.w[7:], atol=1e-12
    )


def test_a_constant_beside_the_system_is_found():
    random = np.random.default_rng(0)
    features, coefficients = random.normal(size=(20, 3)), random.normal(size=(20, 6))
    margins, kept = features @ [1.0, -2.0, 0.5], random.normal(size=6)
    shares = features @ features.T @ coefficients + np.outer(margins, kept)
    found = recover(shares, coefficients, kept=kept)
    np.testing.assert_allclose(found.constant, margins, atol=1e-10)
    np.testing.assert_allclose(found.points @ found.points.T, features @ features.T, atol=1e-10)


def test_noise_alone_tells_nothing():
    random = np.random.default_rng(0)
    noise = random.uniform(-1, 1, (40, 12))
    assert recover(noise, random.normal(size=(40, 12)), 1 / 3**0.5).points.shape == (40, 0)


# ------------------------------------------------------------------------------------ the table


@pytest.fixture(scope="module", params=[LOGISTIC, RIDGE], ids=["logistic", "ridge"])
def table(request):
    return tabulate_recovery(small(request.param))


def of(table, sees, masks, order=KNOWN, features=None):
    """Rows by how much was observed."""
    found = {
        row.observed: row
        for row in table
        if (row.sees, row.masks, row.order) == (sees, masks, order)
        and features in (None, row.features)
    }
    assert found
    return found


@pytest.mark.parametrize(("features", "enough"), [(1, 1), (2, 2), (4, 4), (5, 6)])
def test_unmasked_shares_tell_features_once_there_are_as_many_snapshots(table, features, enough):
    exact = of(table, SHARES, REAL, features=features)
    for observed, row in exact.items():
        assert row.equations == 40 * observed
        assert row.unknowns == 40 * features - features * (features - 1) // 2
        assert row.found_rank == min(observed, features)
        assert row.known_rows == row.rank == features
        assert row.weight_error < 1e-10
        assert (row.error < 1e-8) == (row.feature_error < 1e-8) == (observed >= enough)
    for masks, error in ((RING, 1e-4), (FINE, 1e-6)):
        rounded = of(table, SHARES, masks, features=features)
        assert exact[64].error < rounded[64].error < error
    assert 1e-9 < of(table, SHARES, REAL, UNKNOWN, features)[64].error < 1e-2


def test_sums_tell_all_others_features_without_collusion(table):
    exact = of(table, SUMS, REAL)
    assert {row.features for row in exact.values()} == {8}
    assert {row.who for row in exact.values()} == {"one party"}
    assert exact[6].error > 1e-3
    assert max(exact[64].error, exact[64].feature_error) < 1e-7


def test_masked_shares_tell_nothing_in_the_ring_only(table):
    for masks in (RING, FINE):
        for row in of(table, MASKED, masks).values():
            assert (row.found_rank, row.error, row.feature_error, row.weight_error) == (0, 1, 1, 1)
    at_rest = of(table, REPEATS, REAL)
    # The middle of extremes is off by about scale / sums.
    ratio = at_rest[100].error / at_rest[10_000].error
    assert 50 < ratio < 200
    assert all(row.error == 1 for row in of(table, REPEATS, RING).values())


def test_labels_of_the_square_loss_follow_from_changes_of_derivatives(table):
    late = [row for row in table if row.sees == LATE]
    first = [row for row in table if row.sees == FIRST]
    if not late:  # the sign of the logistic loss's derivative tells labels at once
        assert not first
        return
    told = of(table, LATE, "any")
    assert told[12].error > 0.1  # twelve differ in eleven changes, of rank twelve
    assert told[48].error < 1e-4
    assert told[48].error < of(table, LATE, "any", UNKNOWN)[48].error
    assert 0.05 < first[0].error < 1


def test_the_audit_sums_the_table_up(table):
    found = list(summarised(table))
    assert len(found) == 5 + any(row.sees == LATE for row in table)
    (sums,) = (finding for finding in found if finding.attack.startswith("the history of sums"))
    assert (sums.who, sums.verdict) == ("one party", "does not stand")
    assert sums.learns == "all 8 features of all other parties"
    (ring,) = (finding for finding in found if finding.attack.endswith("masks in a ring"))
    assert ring.verdict == "stands"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["logistic_nonconvex", "robust_regression"])
@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_other_objectives_and_layouts_are_attacked_too(name, layout):
    """Two parties, of which the victim has one feature; some rows are empty."""
    random = np.random.default_rng(0)
    features = np.where(random.random((30, 4)) < 0.6, random.normal(size=(30, 4)), 0.0)
    labels = np.where(random.random(30) < 0.5, 1.0, -1.0)
    given = sparse.csr_array(features) if layout == "sparse" else features
    weight = None if name == "robust_regression" else 1e-4
    objective = LinearObjective(name=name, weight=weight)
    problem = SmallProblem.of(PartyRows(given, labels, np.array([0, 3, 4])), objective)
    rows = tabulate_recovery(problem)
    # The nonconvex regulariser is taken for its quadratic part, which long histories feel.
    assert of(rows, SHARES, REAL)[64].error < (1e-10 if weight is None else 0.1)
    found = {finding.attack.split(",")[0]: finding for finding in summarised(rows)}
    assert found["the history of unmasked shares"].verdict == "does not stand"  # some rows known
    assert found["the history of sums"].learns == "all 1 features of all other parties"


def test_the_table_is_read_back(table, tmp_path):
    path = tmp_path / "recovery.csv"
    path.write_text(to_csv([row._asdict() for row in table]), encoding="utf-8")
    assert read_recovery(path) == table
    path.write_text(path.read_text(encoding="utf-8").replace('real, scale 1",known,1,', "x,y,"))
    with pytest.raises(FedatlasError, match="move it away"):
        read_recovery(path)


@pytest.mark.filterwarnings("error")
def test_it_is_drawn(table, tmp_path):
    draw([output := tmp_path / "recovery.png"], compose_recovery, "A title", table)
    assert output.stat().st_size > 10_000
    with matplotlib.rc_context(STYLE):
        places = compose_recovery("A title", table).axes
    assert len(places) == 4
    assert all(place.get_xscale() == place.get_yscale() == "log" for place in places)
    # Legends name every line that is drawn, once.
    for place in places:
        named = [text.get_text() for text in place.get_legend().get_texts()]
        assert len(named) == len(set(named)) >= 2
