"""CODA+: CODA without the dual restart."""

from typing import Any, ClassVar

from fedatlas.algorithms.coda import Coda
from fedatlas.arithmetic.randomness import RoundRandom
from fedatlas.federations.min_max.problem import MinMaxProblem
from fedatlas.federations.star_network import StarNetwork


class CodaPlus(Coda):
    """CODA+ (Yuan et al. 2021, arXiv:2102.04635): a stage's averaged w goes on."""

    title: ClassVar[str] = "CODA+"
    source: ClassVar[str] = "Yuan et al. 2021, recalled; else as CODA here"

    def next_dual(
        self,
        theta: Any,
        w: Any,
        problem: MinMaxProblem,
        network: StarNetwork,
        random: RoundRandom,
    ) -> Any:
        """w as averaged over workers and steps of the stage."""
        return w
