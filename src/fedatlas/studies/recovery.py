"""Reconstruct features, weights, shares and labels from a training's history: attacks, table.

VFB² (arXiv:2103.00958), Definition 3, Lemma 1 and Theorem 7. Lemma 1 speaks of one share
o = w_ℓ·x_{i,ℓ}, which has infinitely many solutions. A history of shares has few. Every party is
sent all ϑ and their samples, so it knows the numbers c_s of w_ℓ^s = X_ℓᵀ c_s from the start w = 0
on, though neither X_ℓ nor w_ℓ. Shares at S snapshots of SVRG are then O = G C with known C (n, S)
and the unknown Gram matrix G = X_ℓ X_ℓᵀ of rank r ≤ d_ℓ: nS equations, nr − r(r − 1)/2 unknowns.
As soon as S ≥ r, O spans what the columns of X_ℓ span; with a basis B of it G = B M Bᵀ, and M
follows from Bᵀ O = M Bᵀ C, a linear system. G gives the features up to an orthogonal matrix, the
very ambiguity in the proof of Lemma 1. No more can follow, as w = 0 and l2 single out no axes. The
attacker takes a nonconvex regulariser for its quadratic part. Where the order in which a party
applies updates is not known, as with delays, C is off by γλ of each update out of order.

Attacks on a small problem of real rows, by what is seen:

- Shares of a party that colluders unmasked: features up to a rotation from r snapshots on.
- Sums, which need no collusion. Every party knows z = w·x from ϑ and the loss, or as dominator, and
  subtracts its own share: the share of all others together is left, with their d features.
- Masked shares of a party, sent to the one above it in the tree. Real masks are noise that
  averages out. In the ring a masked share is a uniform number.
- Masked shares of one sample while the model rests. Real masks are bounded: the middle of the
  largest and the smallest masked share is off by about scale / k after k sums.
- ϑ of the square loss, ϑ/2 = z − y. At w = 0 it is the label. Who arrives later sees changes of z
  exactly, which tell G; shrinkage by γλ changes what is left of the unknown z at the arrival, so
  that it follows as well, and the label with it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.linalg import qr

from fedatlas.evaluation.tables import (
    FIRST,
    KNOWN,
    LATE,
    MASKED,
    REFUTED,
    REPEATS,
    SHARES,
    SUMS,
    UNKNOWN,
    AttackResult,
    RecoveryRow,
    to_csv,
)
from fedatlas.federations.vertical.secure_sum import Ring
from fedatlas.federations.vertical.shards import PartyRows
from fedatlas.files import write_text
from fedatlas.schema.losses import Loss, Regulariser
from fedatlas.schema.network_model import RealMasks, RingMasks
from fedatlas.schema.objectives import LinearObjective
from fedatlas.studies.leaks import derivatives, find_leaks, labels_at_zero

_SAMPLES, _MOST_FEATURES = 128, 64
_PRECISION = 1e-13  # of float64, in singular values over the largest


@dataclass(frozen=True)
class SmallProblem:
    """Some rows, and of every party the columns that vary most: features (n, d), labels (n,).

    starts: (q + 1,) first column of every party, and d.
    """

    features: np.ndarray
    labels: np.ndarray
    starts: np.ndarray
    objective: LinearObjective

    @classmethod
    def of(cls, rows: PartyRows, objective: LinearObjective, seed: int = 0) -> "SmallProblem":
        """Rows drawn at random, by a seed."""
        drawn = np.sort(np.random.default_rng(seed).permutation(len(rows))[:_SAMPLES])
        chosen = rows.features[drawn]
        blocks = []
        for start, stop in zip(rows.starts[:-1], rows.starts[1:], strict=True):
            block = chosen[:, start:stop]
            dense = block if isinstance(block, np.ndarray) else block.toarray()
            varied = np.argsort(-dense.std(axis=0), kind="stable")[:_MOST_FEATURES]
            blocks.append(dense[:, varied])
        starts = np.cumsum([0, *(block.shape[1] for block in blocks)])
        return cls(np.hstack(blocks), rows.label[drawn], starts, objective)

    @property
    def parties(self) -> int:
        """q."""
        return len(self.starts) - 1

    @property
    def step_size(self) -> float:
        """1/L of the sample with the steepest gradient."""
        steepest = float((self.features**2).sum(axis=1).max())
        return 1.0 / (self.objective.loss.curvature * steepest)

    @property
    def shrinkage(self) -> float:
        """The share by which an update shrinks w near 0."""
        objective = self.objective
        return self.step_size * objective.regularisation_weight * objective.regulariser.curvature

    def block(self, party: int) -> slice:
        """The columns of a party, those that vary most first."""
        return slice(int(self.starts[party]), int(self.starts[party + 1]))

    def slope(self, w: np.ndarray, i: int) -> float:
        """ϑ of a sample at w."""
        margin, label = self.features[i] @ w, self.labels[i : i + 1]
        return float(derivatives(self.objective.loss, np.array([margin]), label)[0])

    def penalty(self, w: np.ndarray) -> np.ndarray:
        """λ∇g(w)."""
        weight = self.objective.regularisation_weight
        if self.objective.regulariser is Regulariser.NONCONVEX:
            return np.asarray(2.0 * weight * w / (1.0 + w**2) ** 2)
        return weight * self.objective.regulariser.curvature * w


class History(NamedTuple):
    """Snapshots of SVRG after the one at w = 0: w (d, S), coefficients C (n, S), ϑ (n, S)."""

    w: np.ndarray
    coefficients: np.ndarray
    slopes: np.ndarray


def train(
    problem: SmallProblem, snapshots: int, *, reordered: bool = False, seed: int = 0
) -> History:
    """VFB²-SVRG with one dominator from w = 0, n updates between two snapshots.

    reordered: parties apply every second update after the next one, and the attacker does not know.
    """
    features, n = problem.features, len(problem.labels)
    random = np.random.default_rng([seed, 1])
    w, c = np.zeros(features.shape[1]), np.zeros(n)
    found: list[tuple[np.ndarray, ...]] = []
    for _ in range(snapshots + 1):
        margins = features @ w
        reference = derivatives(problem.objective.loss, margins, problem.labels)
        found.append((w, c, reference))
        mean, late = features.T @ reference / n, 0.0 * w
        for number, i in enumerate(random.integers(n, size=n)):
            change = problem.slope(w, i) - reference[i]
            step = problem.step_size * (change * features[i] + mean)
            waits = reordered and number % 2 == 0 and number < n - 1
            w = w - problem.step_size * problem.penalty(w) - (0.0 if waits else step + late)
            late = step if waits else 0.0 * w
            # What every party knows, from the ϑ and the samples that it was sent.
            c = (1 - problem.shrinkage) * c - problem.step_size * reference / n
            c[i] -= problem.step_size * change
    w_s, coefficients, slopes = (np.array(parts[1:]).T for parts in zip(*found, strict=True))
    return History(w_s, coefficients, slopes)


def first_slopes(problem: SmallProblem, seed: int = 0) -> np.ndarray:
    """(n,) ϑ of every sample when VFB²-SGD first draws it in an epoch from w = 0; or NaN."""
    n = len(problem.labels)
    w, found = np.zeros(problem.features.shape[1]), np.full(n, np.nan)
    for i in np.random.default_rng([seed, 2]).integers(n, size=n):
        slope = problem.slope(w, i)
        found[i] = slope if np.isnan(found[i]) else found[i]
        w = w - problem.step_size * (slope * problem.features[i] + problem.penalty(w))
    return found


class Recovered(NamedTuple):
    """points: P (n, r), with P Pᵀ the Gram matrix. constant: (n,) what `kept` multiplies."""

    points: np.ndarray
    constant: np.ndarray


def recover(
    shares: np.ndarray,
    coefficients: np.ndarray,
    noise: float = 0.0,
    kept: np.ndarray | None = None,
) -> Recovered:
    """Solve O = G C, or O = G C + v kᵀ, for G = X Xᵀ and v in the span of X.

    shares: O (n, S). coefficients: C (n, S). noise: size of errors of the shares; directions that
    stand no higher than noise are left out, r = 0 if all are. kept: k (S,).
    """
    n, observed = shares.shape
    basis, sizes, _ = np.linalg.svd(shares, full_matrices=False)
    floor = max(noise * (np.sqrt(n) + np.sqrt(observed)), _PRECISION * sizes[0])
    basis = basis[:, sizes > floor]
    known = coefficients.T @ basis
    if kept is not None:
        known = np.hstack([known, kept[:, np.newaxis]])
    solved = np.linalg.lstsq(known, shares.T @ basis, rcond=None)[0]
    rank = basis.shape[1]
    middle, constant = solved[:rank], basis @ solved[rank:].sum(axis=0)
    values, vectors = np.linalg.eigh((middle + middle.T) / 2)
    return Recovered(basis @ (vectors * np.sqrt(np.maximum(values, 0.0))), constant)


Masking: TypeAlias = RealMasks | RingMasks
#: TimeDistributions of masks that are compared, by their names in tables.
LAWS: dict[str, Masking] = {
    "real, scale 1": RealMasks(),
    "ring, 32 fraction bits": RingMasks(kind="ring", fraction_bits=32),
    "ring, 40 fraction bits": RingMasks(kind="ring", fraction_bits=40),
}
_OBSERVED = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)  # snapshots
_REPEATED = (1, 10, 100, 1000, 10_000)  # sums over one sample
_WIDTHS = (1, 2, 4, 8)  # features of the victim; and all that it has
_MISSED = 3  # snapshots, by who arrives late
_RECOVERED = 1e-3  # a relative error below it is a recovery
_NOTHING_MORE = "Theorem 7: even unmasked shares do not determine w_ℓ and x_ℓ"
_ALONE = "Theorem 7: a party without allies cannot access another's share"


def tabulate_recovery(problem: SmallProblem) -> list[RecoveryRow]:
    """Every attack, for several lengths of the history and, where they matter, laws of masks.

    The victim is the last party, which has no labels; the attacker on sums is the first.
    """
    rows: list[RecoveryRow] = []
    histories = {
        KNOWN: train(problem, _OBSERVED[-1]),
        UNKNOWN: train(problem, _OBSERVED[-1], reordered=True),
    }
    for order, history in histories.items():
        for name, law in LAWS.items():
            if order == UNKNOWN and not isinstance(law, RealMasks):
                continue
            for features in _widths(problem):
                rows += _on_a_party(problem, history, name, order, features)
            rows += _on_sums(problem, history, name, order)
        rows += _on_late_labels(problem, history, order)
    for name in LAWS:
        rows += _on_repeats(problem, histories[KNOWN], name)
    return [*rows, *_on_first_labels(problem)]


def _widths(problem: SmallProblem) -> list[int]:
    block = problem.block(problem.parties - 1)
    own = block.stop - block.start
    return [*(width for width in _WIDTHS if width < own), own]


def _on_a_party(
    problem: SmallProblem, history: History, name: str, order: str, features: int
) -> Iterator[RecoveryRow]:
    """Shares that colluders unmasked, and masked ones that one party sees."""
    start = problem.block(problem.parties - 1).start
    own, w = (part[..., start : start + features] for part in (problem.features, history.w.T))
    unmasked, masked, rounding, noise = _seen(own @ w.T, LAWS[name], problem.parties, features)
    yield from _on_shares(
        (SHARES, "colluding parties", name, order), own, w, unmasked, rounding, history
    )
    if order == KNOWN and features in (1, _widths(problem)[-1]):
        yield from _on_shares((MASKED, "one party", name, order), own, w, masked, noise, history)


def _on_sums(
    problem: SmallProblem, history: History, name: str, order: str
) -> Iterator[RecoveryRow]:
    """Knowledge of any party: sums, less its own share."""
    blocks = [problem.block(party) for party in range(1, problem.parties)]
    shares = np.array([problem.features[:, block] @ history.w[block] for block in blocks])
    unmasked, _, rounding, _ = _seen(shares, LAWS[name], problem.parties, 0)
    seen, noise = unmasked.sum(axis=0), rounding * problem.parties**0.5
    start = blocks[0].start
    others, w = problem.features[:, start:], history.w.T[:, start:]
    return _on_shares((SUMS, "one party", name, order), others, w, seen, noise, history)


def _on_shares(
    names: tuple[str, str, str, str],
    own: np.ndarray,
    w: np.ndarray,
    seen: np.ndarray,
    noise: float,
    history: History,
) -> Iterator[RecoveryRow]:
    """A row for every length of the history: the Gram matrix, and what some known rows add.

    own: features (n, d_ℓ) of the victim. w: its weights (S, d_ℓ). seen: shares (n, S), with errors
    of the size of the noise; of noise alone nothing is inferred.
    """
    gram, (n, features) = own @ own.T, own.shape
    rank = int(np.linalg.matrix_rank(own))
    order = qr(own.T, pivoting=True, mode="r")[1]
    known, others = order[:rank], order[rank:]
    for observed in _OBSERVED:
        points = recover(seen[:, :observed], history.coefficients[:, :observed], noise).points
        feature_error = weight_error = 1.0
        if points.shape[1] and len(others):
            turn = np.linalg.lstsq(points[known], own[known], rcond=None)[0]
            feature_error = _relative(points[others] @ turn, own[others])
            told = np.linalg.lstsq(own[known], seen[known, observed - 1], rcond=None)[0]
            weight_error = _relative(told, w[observed - 1])
        yield RecoveryRow(
            *names,
            features=features,
            rank=rank,
            observed=observed,
            equations=n * observed,
            unknowns=n * rank - rank * (rank - 1) // 2,
            found_rank=points.shape[1],
            error=_relative(points @ points.T, gram),
            known_rows=rank,
            feature_error=feature_error,
            weight_error=weight_error,
        )


def _relative(told: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(told - truth) / np.linalg.norm(truth))


def _on_repeats(problem: SmallProblem, history: History, name: str) -> Iterator[RecoveryRow]:
    """Fresh masks of one share, which training no longer changes."""
    block, law = problem.block(problem.parties - 1), LAWS[name]
    n, features = len(problem.labels), block.stop - block.start
    spread = float((problem.features[:, block] @ history.w[block, -1]).std())
    random = np.random.default_rng(1)
    for observed in _REPEATED:
        error = 1.0
        if isinstance(law, RealMasks):
            masks = random.uniform(-law.scale, law.scale, (n, observed))
            middle = (masks.max(axis=1) + masks.min(axis=1)) / 2
            error = min(1.0, float(np.sqrt(np.mean(middle**2))) / spread)
        yield RecoveryRow(
            REPEATS, "one party", name, KNOWN, features, 1, observed, observed, 1,
            int(error < 1.0), error,
        )  # fmt: skip


def _on_first_labels(problem: SmallProblem) -> Iterator[RecoveryRow]:
    """Labels from the ϑ with which SGD first draws a sample, taken for ϑ at z = 0."""
    if problem.objective.loss is Loss.LOGISTIC:
        return  # the sign of any ϑ tells it
    told = labels_at_zero(problem.objective.loss, first_slopes(problem))
    drawn = np.isfinite(told)
    count, features = int(drawn.sum()), problem.features.shape[1]
    yield RecoveryRow(
        FIRST, "a passive party", "any", KNOWN, features, 1, 1, count, count, 1,
        _label_error(told[drawn], problem.labels[drawn]),
    )  # fmt: skip


def _on_late_labels(problem: SmallProblem, history: History, order: str) -> Iterator[RecoveryRow]:
    """Labels of the square loss, by a party that missed the start."""
    if problem.objective.loss is not Loss.SQUARE:
        return
    labels, rank = problem.labels, int(np.linalg.matrix_rank(problem.features))
    n, features = problem.features.shape
    residuals = history.slopes[:, _MISSED:] / 2
    updates = n * np.arange(1, residuals.shape[1])
    kept = (1 - problem.shrinkage) ** updates
    missed, later = history.coefficients[:, [_MISSED]], history.coefficients[:, _MISSED + 1 :]
    for observed in (count for count in _OBSERVED if 1 < count <= residuals.shape[1]):
        used = observed - 1
        found = recover(
            residuals[:, 1:observed] - residuals[:, [0]],
            (later - kept * missed)[:, :used],
            kept=kept[:used] - 1,
        )
        yield RecoveryRow(
            LATE, "a passive party", "any", order, features, rank, observed, n * observed,
            n + n + n * rank - rank * (rank - 1) // 2, found.points.shape[1],
            _label_error(found.constant - residuals[:, 0], labels),
        )  # fmt: skip


def _label_error(told: np.ndarray, labels: np.ndarray) -> float:
    return float(np.sqrt(np.mean((told - labels) ** 2)) / labels.std())


def _seen(
    shares: np.ndarray, law: Masking, parties: int, seed: int
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Unmasked shares as they arrive, masked shares, and the size of either's errors."""
    random = np.random.default_rng([seed, 3])
    if isinstance(law, RealMasks):
        masks = random.uniform(-law.scale, law.scale, shares.shape)
        masked = shares + masks
        return masked - masks, masked, 2.0**-53 * law.scale, law.scale / 3**0.5
    ring = Ring(law.fraction_bits, parties)
    uniform = random.integers(0, 2**64, shares.shape, dtype=np.uint64)
    hidden = ring.to_ring(shares) + uniform
    return (
        ring.from_ring(hidden - uniform),
        ring.from_ring(hidden),
        0.5 / ring.steps,
        2.0**63 / 3**0.5 / ring.steps,
    )


def summarised(rows: list[RecoveryRow]) -> Iterator[AttackResult]:
    """The longest histories as findings of the audit, with real masks where masks matter."""
    real, ring, _ = LAWS
    # Of each kind the last row has most features and the longest history.
    last = {(row.sees, row.masks): row for row in rows if row.order == KNOWN}
    whole, sums = last[SHARES, real], last[SUMS, real]
    single = [row for row in rows if row[:4] == whole[:4] and row.features == 1][-1]
    yield _finding(
        f"the history of unmasked shares, {single.observed} snapshots, one feature",
        single, "a party's only feature, up to its sign", "γ and λ", "Gram matrix",
        single.error, _NOTHING_MORE,
    )  # fmt: skip
    yield _finding(
        f"the history of unmasked shares, {whole.observed} snapshots, some rows known",
        whole, f"all {whole.features} features of a party",
        f"γ, λ and the features of {whole.known_rows} samples", "features of other samples",
        whole.feature_error, _NOTHING_MORE,
    )  # fmt: skip
    yield _finding(
        f"the history of sums, {sums.observed} snapshots, some rows known",
        sums, f"all {sums.features} features of all other parties",
        f"γ, λ, the loss, and the features of {sums.known_rows} samples",
        f"features of other samples; of the Gram matrix, without known samples, {sums.error:.2g}",
        sums.feature_error, "Theorem 7: a party without allies cannot infer features",
    )  # fmt: skip
    for masks, kind in ((real, "real masks"), (ring, "masks in a ring")):
        rest = last[REPEATS, masks]
        yield _finding(
            f"masked shares of one sample while the model rests, {kind}",
            rest, "another party's share w_ℓ·x_ℓ", f"the scale of masks; {rest.observed} sums",
            "shares", rest.error, _ALONE,
        )  # fmt: skip
    if late := last.get((LATE, "any")):
        yield _finding(
            f"the history of ϑ, {late.observed} snapshots after the third",
            late, "labels", "γ, λ and the loss", "labels",
            late.error, "Theorem 7: it is impossible to exactly infer the labels",
        )  # fmt: skip


def _finding(
    attack: str,
    row: RecoveryRow,
    learns: str,
    assumes: str,
    of: str,
    value: float | None,
    claim: str,
) -> AttackResult:
    assert value is not None
    return AttackResult(
        attack=attack,
        who=row.who,
        learns=learns,
        assumes=assumes,
        measured=f"relative error of {of} (answers of zeros, or of the mean, give 1)",
        value=value,
        paper_claim=claim,
        verdict=REFUTED if value < _RECOVERED else "stands",
    )


def tabulate_leaks(
    rows: list[Path], objective: LinearObjective, output: Path, recovery: Path
) -> None:
    """Tabulate what curious or colluding parties learn from a vertical method's messages.

    rows: the files of all parties, in order. recovery: the table of attacks on histories.
    """
    from fedatlas.federations.vertical.shards import read_party_shards
    from fedatlas.training.solver import solve

    data = read_party_shards(rows)
    train, active = data.train, data.metadata["partition"]["active"]
    w, _ = solve(train, objective)
    label = train.label
    findings = find_leaks(objective, label, 0 * label, train.features @ w, train.parties, active)
    recovered = tabulate_recovery(SmallProblem.of(train, objective))
    write_text(recovery, to_csv([row._asdict() for row in recovered]))
    findings += summarised(recovered)
    write_text(output, to_csv([finding._asdict() for finding in findings]))
