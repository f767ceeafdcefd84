"""What honest-but-curious parties of VFB² learn from messages, alone and in groups.

VFB² (arXiv:2103.00958), Algorithm 1 and Theorem 7: semi-honest parties, colluding or not, cannot
infer another party's features or weights, or the labels. Passive parties receive ϑ = ∂loss/∂z at
the margin z = w·x of every sample. The attacks here turn ϑ into labels and margins. Labels, margins
and ϑ are (n,) in one order. Lemma 1 assumes that the loss is secret; attacks that know it are
named. Histories of shares and of ϑ reveal more, see `studies.recovery`.

`unmasked_shares` tells what a group computes from the messages of one sum. It is the same for real
masks and for masks in a ring: the parties below the nodes of two trees are the rows of a totally
unimodular matrix (Edmonds 1970), so elimination needs no division (tested modulo 2). Tables count
groups. Three ways to choose the two trees are compared. `one dominator`: the same pair for every
sum. `every dominator`: q dominators, equally often, each with the pair that ends at itself. `drawn
for each sum`: the pair of one dominator with places dealt to parties at random every time; a group
then unmasks in the share of sums that is the share of groups that unmask in one.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from fedatlas.errors import FedatlasError
from fedatlas.evaluation.tables import REFUTED, AttackResult, to_csv
from fedatlas.federations.vertical.secure_sum import (
    AggregationTree,
    Trees,
    two_trees,
)
from fedatlas.files import write_text
from fedatlas.schema.losses import Loss, MarginLoss
from fedatlas.schema.objectives import LinearObjective

_TOLERANCE = 1e-9  # between 0/1 vectors: far above rounding, far below any true difference
_RECOVERED = 1e-9  # a label within this of the truth is recovered
_ALL_GROUPS = 8  # parties, up to which groups of any number are looked at
_LARGEST_GROUP = 3  # colluders among more
# What attackers know, and what the paper claims against several attacks.
_FALLING = "a loss that falls with the margin"
_FORM = "the form of the loss"
_LABELS_ARE_SAFE = "Theorem 7: it is impossible to exactly infer the labels"


def derivatives(loss: MarginLoss, margins: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """ϑ = ∂loss/∂z, which a dominator sends; FedatlasError of a loss that no attack knows."""
    residuals = margins - labels
    if loss is Loss.SQUARE:
        return 2.0 * residuals
    if loss is Loss.ROBUST:
        return residuals / (1.0 + 0.5 * residuals**2)
    if loss is not Loss.LOGISTIC:
        raise FedatlasError(f"no attack knows the loss {loss.name}: remove 'audit', or add one")
    with np.errstate(over="ignore"):  # an overflow leaves a zero of the right sign
        return -labels / (1.0 + np.exp(labels * margins))


def labels_from_sign(derivatives: np.ndarray, labels: np.ndarray) -> float:
    """Share of labels ±1 that equal -sign ϑ; of other labels, the share on that side of the mean.

    A ϑ that underflowed keeps its sign.
    """
    return float(np.mean(np.where(np.signbit(derivatives), 1, -1) == _sides(labels)))


def _sides(labels: np.ndarray) -> np.ndarray:
    """Labels ±1 as they are; of others, 1 for those above their mean and -1 for the rest."""
    if _are_signs(labels):
        return labels
    return np.where(labels > labels.mean(), 1, -1)


def _are_signs(labels: np.ndarray) -> bool:
    return bool(np.all(np.abs(labels) == 1))


def scores_from_derivative(derivatives: np.ndarray) -> np.ndarray:
    """Margins of the whole model from ϑ of the logistic loss: z = y log(1/|ϑ| - 1).

    Infinite, with the right sign, where float64 rounded |ϑ| to 0 (yz > 745) or 1 (yz < -37).
    """
    size = np.abs(derivatives)
    with np.errstate(divide="ignore"):
        return np.where(np.signbit(derivatives), 1, -1) * (np.log1p(-size) - np.log(size))


def labels_at_zero(loss: MarginLoss, derivatives: np.ndarray) -> np.ndarray:
    """Labels from ϑ at z = 0, which is where a model w = 0 starts.

    The robust loss has the same ϑ for y and 2/y; the one in [-√2, √2] is returned.
    """
    if loss is Loss.LOGISTIC:
        return -2.0 * derivatives
    if loss is Loss.SQUARE:
        return -0.5 * derivatives
    # Rounding may lift |ϑ| above its largest value, 1/√2.
    return -2.0 * derivatives / (1.0 + np.sqrt(np.maximum(1.0 - 2.0 * derivatives**2, 0.0)))


def labels_from_first_snapshot(
    loss: MarginLoss, derivatives: np.ndarray, labels: np.ndarray
) -> tuple[float, float]:
    """Share of labels that ϑ at w = 0 tells within 1e-9, and the root mean square error of all.

    SVRG and SAGA send it for every sample at the start.
    """
    errors = labels_at_zero(loss, derivatives) - labels
    return float(np.mean(np.abs(errors) <= _RECOVERED)), float(np.sqrt(np.mean(errors**2)))


def find_leaks(
    objective: LinearObjective,
    labels: np.ndarray,
    margins_at_start: np.ndarray,
    margins_trained: np.ndarray,
    parties: int,
    active: int,
) -> list[AttackResult]:
    """Every attack on a model; FedatlasError for fewer than 2 parties."""
    loss = objective.loss
    trained = derivatives(loss, margins_trained, labels)
    findings = [_sign_finding(trained, labels)]
    if loss is Loss.LOGISTIC:
        findings.append(_score_finding(trained, margins_trained))
    findings.append(_snapshot_finding(loss, derivatives(loss, margins_at_start, labels), labels))
    return [*findings, *find_collusion(parties, active)]


def _sign_finding(sent: np.ndarray, labels: np.ndarray) -> AttackResult:
    sides, told = _sides(labels), labels_from_sign(sent, labels)
    binary = _are_signs(labels)
    usual = max(float(np.mean(sides == 1)), float(np.mean(sides == -1)))
    return AttackResult(
        attack="the sign of ϑ, at the optimum",
        who="any passive party",
        learns="labels" if binary else "whether a label lies above the mean",
        assumes=_FALLING if binary else "nothing",
        measured=f"share guessed right (always the more frequent side: {usual:.3f})",
        value=told,
        paper_claim=_LABELS_ARE_SAFE,
        verdict=_verdict(survives=not binary or told <= usual),
    )


def _score_finding(sent: np.ndarray, margins: np.ndarray) -> AttackResult:
    errors = np.abs(scores_from_derivative(sent) - margins)
    finite = errors[np.isfinite(errors)]
    return AttackResult(
        attack="the size of ϑ, at the optimum",
        who="any passive party",
        learns="the margin w·x of every sample, to which all parties contribute",
        assumes=_FORM,
        measured=f"largest error ({len(finite)} of {len(errors)} samples; rounding |ϑ| to 0 or 1 "
        "hides the others)",
        value=float(finite.max(initial=0.0)),
        paper_claim="Lemma 1: w·x is unknown",
        verdict=_verdict(survives=not (finite <= _RECOVERED).any()),
    )


def _snapshot_finding(loss: MarginLoss, sent: np.ndarray, labels: np.ndarray) -> AttackResult:
    share, rmse = labels_from_first_snapshot(loss, sent, labels)
    either = " (y or 2/y if some exceed √2 in size)" if loss is Loss.ROBUST else ""
    return AttackResult(
        attack="ϑ of all samples at the start, sent by SVRG and SAGA",
        who="any passive party",
        learns=f"labels{either}",
        assumes=_FALLING if loss is Loss.LOGISTIC else _FORM,
        measured=f"share recovered within {_RECOVERED:g} (RMSE over all: {rmse:.3g})",
        value=share,
        paper_claim=_LABELS_ARE_SAFE,
        verdict=_verdict(survives=share == 0),
    )


def unmasked_shares(
    trees: Trees, colluders: Iterable[int], *, reused_masks: bool = False
) -> frozenset[int]:
    """The parties whose shares colluders compute from their own shares and masks and what they saw.

    reused_masks: where two sums have the same masks, which a difference of messages is rid of;
    unmasked is then by how much shares changed from one sum to the other.

    The sum of all shares counts as known to everyone: the root has it, and the derivative that is
    sent to the others tells them (exactly, for the logistic loss). So one share is always unmasked
    where only one party does not collude.
    """
    pool = set(colluders)
    others = sorted(set(range(trees[0].parties)) - pool)

    def received(tree: AggregationTree) -> np.ndarray:
        """A basis of the sums over others that were sent to the pool, (rank, others)."""
        sums = [
            [party in leaves for party in others]
            for (receiver, _), leaves in zip(tree.steps, tree.sent, strict=True)
            if receiver in pool
        ]
        return _span(np.array(sums, dtype=np.float64)) if sums else np.zeros((0, len(others)))

    # A combination of masked sums is rid of its masks if the same combination of masks was seen.
    masked = received(trees[0])
    masks = np.eye(len(others)) if reused_masks else received(trees[1])
    if not (len(masked) and len(masks)):
        return frozenset(others if len(others) == 1 else ())
    left, cosines, _ = np.linalg.svd(masked @ masks.T)
    unmasked = left.T[: len(cosines)][cosines > 1 - _TOLERANCE] @ masked
    known = _span(np.vstack([unmasked, np.ones((1, len(others)))]))
    away = np.abs(np.eye(len(others)) - known.T @ known).max(axis=0, initial=0.0)
    return frozenset(
        party for party, distance in zip(others, away, strict=True) if distance < _TOLERANCE
    )


def _span(rows: np.ndarray) -> np.ndarray:
    """An orthonormal basis (rank, n) of the span of `rows` (m, n)."""
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    return basis[sizes > _TOLERANCE]


def find_collusion(parties: int, active: int = 1) -> Iterator[AttackResult]:
    """Shares of others that groups of colluders unmask from the sums of all dominators, by size.

    Groups are of any size, or of 1 to 3 among more than 8 parties.
    """
    most = parties - 1 if parties <= _ALL_GROUPS else _LARGEST_GROUP
    pairs = [two_trees(parties, root) for root in range(active)]
    for size in range(1, most + 1):
        unmasked = {  # group → root → shares
            group: [unmasked_shares(trees, group) for trees in pairs]
            for group in combinations(range(parties), size)
        }
        found = {group: shares for group, shares in unmasked.items() if any(shares)}
        example = ""
        if found:
            group, shares = next(iter(found.items()))
            root = next(root for root, own in enumerate(shares) if own)
            told = _listed(sorted(frozenset().union(*shares)))
            example = f" ({_listed(group)} unmask {told} in sums of {root})"
        largest = max(len(frozenset().union(*shares)) for shares in unmasked.values())
        alone = size == 1
        yield AttackResult(
            attack="what was seen of a secure sum",
            who="one party alone" if alone else f"{size} colluding parties",
            learns=f"another party's share w_ℓ·x_ℓ{example}",
            assumes="nothing" if alone else "what the others of the group were sent",
            measured=f"share of the {len(unmasked)} groups that can compute one, from the sums of "
            f"any dominator (at most {largest} shares each)",
            value=len(found) / len(unmasked),
            paper_claim="Theorem 7: a party without allies cannot access another's share"
            if alone
            else "Theorem 7: allies may remove a mask; one share does not determine w_ℓ and x_ℓ",
            verdict=_verdict(survives=not (alone and found)),
        )


def _listed(parties: Iterable[int]) -> str:
    return " and ".join(map(str, parties))


def _verdict(survives: bool) -> Literal["stands", "does not stand"]:
    return "stands" if survives else REFUTED


#: Ways to choose the trees of a sum.
ONE, EVERY, DRAWN = "one dominator", "every dominator", "drawn for each sum"
FRESH, REUSED = "fresh", "reused"
SIZES = range(2, 9)  # numbers of parties
_LARGEST_EXHAUSTIVE = 5  # parties; beyond, pairs of trees are drawn
_DRAWN_PAIRS = 1000


class GroupRow(NamedTuple):
    """All groups of one size, by one way to choose trees and masks.

    masks: drawn anew for each sum, or reused, where the change of a share is what is unmasked.
    unmasking: groups that unmask a share of an honest party in some sum. group_share: of all
    groups. sums_share: share of sums in which a group unmasks a share, mean over groups.
    worst_group: the same of the group that does most often. honest_share: share of honest parties'
    shares that a group unmasks in a sum, mean over groups and sums.
    """

    parties: int
    colluders: int
    trees: str
    masks: str
    groups: int
    unmasking: int
    group_share: float
    sums_share: float
    worst_group: float
    honest_share: float


def tabulate_groups(sizes: Sequence[int] = SIZES) -> list[GroupRow]:
    """A row for every number of parties and colluders, and every way to choose trees and masks."""
    return [
        _row(parties, colluders, trees, masks)
        for parties in sizes
        for colluders in range(1, parties)
        for trees in (ONE, EVERY, DRAWN)
        for masks in (FRESH, REUSED)
    ]


def _row(parties: int, colluders: int, trees: str, masks: str) -> GroupRow:
    groups = list(combinations(range(parties), colluders))
    roots = range(parties) if trees == EVERY else (0,)
    found = np.array(  # how many shares each group unmasks, by root
        [
            # Another root has the same trees, with parties in one another's places.
            [
                _unmasked(parties, frozenset((p - root) % parties for p in group), masks)
                for root in roots
            ]
            for group in groups
        ]
    )
    often = (found > 0).mean(axis=1)
    if trees == DRAWN:
        often = np.full(len(groups), often.mean())
    unmasking = int((often > 0).sum())
    return GroupRow(
        parties=parties,
        colluders=colluders,
        trees=trees,
        masks=masks,
        groups=len(groups),
        unmasking=unmasking,
        group_share=unmasking / len(groups),
        sums_share=float(often.mean()),
        worst_group=float(often.max()),
        honest_share=float(found.mean()) / (parties - colluders),
    )


@cache
def _unmasked(parties: int, places: frozenset[int], masks: str) -> int:
    """Number of shares that colluders at these places of the pair of party 0 unmask."""
    return len(unmasked_shares(two_trees(parties), places, reused_masks=masks == REUSED))


class PairRow(NamedTuple):
    """Pairs of trees that end at one party, and those that Definition 4 calls different.

    exhaustive: whether all pairs were looked at, up to the parties' names. different: pairs that
    satisfy Definition 4. exposing: of these, how many let a party alone unmask another's share.
    ours_different, ours_exposing: the same of the pair that is used, for all roots.
    """

    parties: int
    pairs: int
    exhaustive: bool
    different: int
    exposing: int
    ours_different: bool
    ours_exposing: bool


def tabulate_pairs(sizes: Sequence[int] = SIZES, seed: int = 0) -> list[PairRow]:
    """A row for every number of parties; larger numbers have pairs drawn by random merges."""
    rows = []
    for parties in sizes:
        exhaustive = parties <= _LARGEST_EXHAUSTIVE
        pairs = list(_every_pair(parties) if exhaustive else _drawn_pairs(parties, seed))
        different = list(filter(are_different, pairs))
        ours = [two_trees(parties, root) for root in range(parties)]
        rows.append(
            PairRow(
                parties=parties,
                pairs=len(pairs),
                exhaustive=exhaustive,
                different=len(different),
                exposing=sum(map(exposes_a_share, different)),
                ours_different=all(map(are_different, ours)),
                ours_exposing=any(map(exposes_a_share, ours)),
            )
        )
    return rows


def are_different(trees: Trees) -> bool:
    """Definition 4: no proper subtree of several nodes has the same leaves in both trees."""
    everyone = frozenset(range(trees[0].parties))
    return trees[0].leaf_sets() & trees[1].leaf_sets() <= {everyone}


def exposes_a_share(trees: Trees) -> bool:
    """Whether some party alone unmasks the share of another."""
    return any(unmasked_shares(trees, {party}) for party in range(trees[0].parties))


_Steps = tuple[tuple[int, int], ...]


def _every_pair(parties: int) -> Iterator[Trees]:
    """All pairs that end at the same party, but for the parties' names: one first tree a shape."""
    trees = list(_every_tree(tuple(range(parties))))
    first = {_shape(steps): steps for _, steps in trees if not steps or steps[-1][0] == 0}
    for steps in first.values():
        for root, others in trees:
            if root == 0:
                yield _tree(parties, steps), _tree(parties, others)


def _every_tree(places: tuple[int, ...]) -> Iterator[tuple[int, _Steps]]:
    """Every binary tree over these leaves, either child of a node as its receiver: root, steps."""
    first, *rest = places
    if not rest:
        yield first, ()
    for size in range(len(rest)):
        for beside in combinations(rest, size):
            left, right = (first, *beside), tuple(p for p in rest if p not in beside)
            for one, steps in _every_tree(left):
                for other, more in _every_tree(right):
                    yield one, (*steps, *more, (one, other))
                    yield other, (*steps, *more, (other, one))


def _shape(steps: _Steps) -> object:
    """A tree without names: receiver's subtree first."""
    held: dict[int, object] = {}
    for receiver, sender in steps:
        held[receiver] = (held.get(receiver), held.pop(sender, None))
    return held[steps[-1][0]]


def _drawn_pairs(parties: int, seed: int) -> Iterator[Trees]:
    random = np.random.default_rng([seed, parties])
    for _ in range(_DRAWN_PAIRS):
        first, second = (_merged(parties, random) for _ in range(2))
        # Both end at one party: it takes the place of the other's root.
        swapped = {first[-1][0]: second[-1][0], second[-1][0]: first[-1][0]}
        second = tuple((swapped.get(a, a), swapped.get(b, b)) for a, b in second)
        yield _tree(parties, first), _tree(parties, second)


def _merged(parties: int, random: np.random.Generator) -> _Steps:
    """A tree of random merges: two of those that still hold a sum, until one holds all."""
    holders, steps = list(range(parties)), []
    while len(holders) > 1:
        receiver, sender = random.choice(holders, 2, replace=False).tolist()
        steps.append((receiver, sender))
        holders.remove(sender)
    return tuple(steps)


def _tree(parties: int, steps: _Steps) -> AggregationTree:
    return AggregationTree(parties, tuple((step,) for step in steps))


def tabulate_collusion(output: Path, pairs: Path) -> None:
    """Tabulate which groups of parties unmask shares, and what Definition 4 of VFB² is worth."""
    write_text(output, to_csv([row._asdict() for row in tabulate_groups()]))
    write_text(pairs, to_csv([row._asdict() for row in tabulate_pairs()]))
