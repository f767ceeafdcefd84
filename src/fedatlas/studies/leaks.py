"""Facts that honest-but-curious parties of VFB² learn, measured on the numbers that are sent.

VFB² (arXiv:2103.00958), Theorem 7: semi-honest parties, colluding or not, cannot infer another
party's features or weights, or the labels. Passive parties receive ϑ = ∂loss/∂z at the margin
z = w·x of every sample. The attacks here turn ϑ into labels and margins.
`federations.vertical.secure_sum.collusion` tells what the secure sum reveals. Labels, margins and ϑ
are (n,) in one order.

Lemma 1 assumes that the loss is secret; findings name the attacks that know it. Histories of shares
and of ϑ reveal more, see `studies.recovery`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from fedatlas.federations.vertical.secure_sum import collusion, two_trees
from fedatlas.schema.objectives import LinearObjective, Loss

_RECOVERED = 1e-9  # a label within this of the truth is recovered
_ALL_GROUPS = 8  # parties, up to which groups of any number are looked at
_LARGEST_GROUP = 3  # colluders among more
# What attackers know, and what the paper claims against several attacks.
_FALLING = "a loss that falls with the margin"
_FORM = "the form of the loss"
_LABELS_ARE_SAFE = "Theorem 7: it is impossible to exactly infer the labels"


def derivatives(loss: Loss, margins: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """ϑ = ∂loss/∂z, which a dominator sends to the other parties."""
    residuals = margins - labels
    if loss is Loss.SQUARE:
        return 2.0 * residuals
    if loss is Loss.ROBUST:
        return residuals / (1.0 + 0.5 * residuals**2)
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


def labels_at_zero(loss: Loss, derivatives: np.ndarray) -> np.ndarray:
    """Labels from ϑ at z = 0, which is where a model w = 0 starts.

    The robust loss has the same ϑ for y and 2/y; the one in [-√2, √2] is returned.
    """
    if loss is Loss.LOGISTIC:
        return -2.0 * derivatives
    if loss is Loss.SQUARE:
        return -0.5 * derivatives
    # Rounding may lift |ϑ| above its largest value, 1/√2.
    return -2.0 * derivatives / (1.0 + np.sqrt(np.maximum(1.0 - 2.0 * derivatives**2, 0.0)))


class Recovery(NamedTuple):
    """Share of labels recovered within 1e-9, and the root mean square error over all labels."""

    share: float
    rmse: float


def labels_from_first_snapshot(loss: Loss, derivatives: np.ndarray, labels: np.ndarray) -> Recovery:
    """How well ϑ at w = 0 tells labels; SVRG and SAGA send it for every sample at the start."""
    errors = labels_at_zero(loss, derivatives) - labels
    recovered = np.abs(errors) <= _RECOVERED
    return Recovery(float(recovered.mean()), float(np.sqrt(np.mean(errors**2))))


class Groups(NamedTuple):
    """How many groups of `size` colluders there are, and how many of them unmask a share.

    largest: the most shares that one group unmasks. example: the first group that unmasks a share,
    such as "1 and 2 unmask 3 in sums of 0", or empty.
    """

    size: int
    groups: int
    unmasking: int
    largest: int
    example: str


def collusion_table(parties: int, active: int = 1) -> list[Groups]:
    """Numbers that groups of any number of colluders, or of 1 to 3 among more than 8 parties, unmask from
    the sums of all dominators.
    """
    most = parties - 1 if parties <= _ALL_GROUPS else _LARGEST_GROUP
    pairs = [two_trees(parties, root) for root in range(active)]
    table = []
    for size in range(1, most + 1):
        unmasked = {
            group: sorted({share for trees in pairs for share in collusion(trees, group).shares})
            for group in combinations(range(parties), size)
        }
        found = {group: shares for group, shares in unmasked.items() if shares}
        example = ""
        if found:
            group, shares = next(iter(found.items()))
            (root, *_) = (r for r, pair in enumerate(pairs) if collusion(pair, group).shares)
            example = f"{_listed(group)} unmask {_listed(shares)} in sums of {root}"
        largest = max(len(shares) for shares in unmasked.values())
        table.append(Groups(size, len(unmasked), len(found), largest, example))
    return table


def _listed(parties: Sequence[int]) -> str:
    return " and ".join(str(party) for party in parties)


@dataclass(frozen=True)
class AttackResult:
    """One attack: who learns what, how well, and whether the paper's claim survives it.

    assumes: what the attacker knows besides what it is sent; by the paper, passive parties do not
    know the form of the loss. measured: what `value` is. Surviving one attack proves nothing.
    """

    attack: str
    who: str
    learns: str
    assumes: str
    measured: str
    value: float
    paper_claim: str
    verdict: Literal["stands", "does not stand"]


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
    return [*findings, *map(_collusion_finding, collusion_table(parties, active))]


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


def _snapshot_finding(loss: Loss, sent: np.ndarray, labels: np.ndarray) -> AttackResult:
    recovery = labels_from_first_snapshot(loss, sent, labels)
    either = " (y or 2/y if some exceed √2 in size)" if loss is Loss.ROBUST else ""
    return AttackResult(
        attack="ϑ of all samples at the start, sent by SVRG and SAGA",
        who="any passive party",
        learns=f"labels{either}",
        assumes=_FALLING if loss is Loss.LOGISTIC else _FORM,
        measured=f"share recovered within {_RECOVERED:g} (RMSE over all: {recovery.rmse:.3g})",
        value=recovery.share,
        paper_claim=_LABELS_ARE_SAFE,
        verdict=_verdict(survives=recovery.share == 0),
    )


def _collusion_finding(table: Groups) -> AttackResult:
    alone = table.size == 1
    return AttackResult(
        attack="what was seen of a secure sum",
        who="one party alone" if alone else f"{table.size} colluding parties",
        learns="another party's share w_ℓ·x_ℓ" + (f" ({table.example})" if table.unmasking else ""),
        assumes="nothing" if alone else "what the others of the group were sent",
        measured=f"share of the {table.groups} groups that can compute one, from the sums of any "
        f"dominator (at most {table.largest} shares each)",
        value=table.unmasking / table.groups,
        paper_claim="Theorem 7: a party without allies cannot access another's share"
        if alone
        else "Theorem 7: allies may remove a mask; one share does not determine w_ℓ and x_ℓ",
        verdict=_verdict(survives=not alone or table.unmasking == 0),
    )


def _verdict(survives: bool) -> Literal["stands", "does not stand"]:
    return "stands" if survives else "does not stand"
