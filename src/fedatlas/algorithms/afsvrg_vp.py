"""AFSVRG-VP: asynchronous SVRG over parties without backward updating."""

from dataclasses import replace
from typing import ClassVar

from fedatlas.algorithms.vfb2_svrg import Vfb2Svrg
from fedatlas.federations.vertical.problem import UpdateRule


class AfsvrgVp(Vfb2Svrg):
    """AFSVRG-VP (Gu et al. 2020, arXiv:2008.06233), where only active parties know labels.

    Snapshots and inner loop as VFB²-SVRG, but ϑ stays with active parties (that of a snapshot) or
    with the dominator, who alone updates its block: blocks of passive parties stay at w⁰ = 0,
    though they take part in the sums. Every active block has n/m of an epoch's n updates.
    """

    title: ClassVar[str] = "AFSVRG-VP"
    source: ClassVar[str] = (
        "Gu, Xu, Deng, Huang 2020, as Zhang et al. 2021 use it: only active parties have labels "
        "and update their blocks; the others' stay at w⁰ = 0, our choice (the paper is silent)"
    )

    @property
    def rule(self) -> UpdateRule:
        """Update as VFB²-SVRG does, on the dominator's block only."""
        return replace(super().rule, backward=False)
