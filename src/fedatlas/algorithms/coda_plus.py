"""CODA+: CODA without the dual restart."""

from typing import ClassVar

from fedatlas.algorithms.coda import Coda


class CodaPlus(Coda):
    """CODA+ (Yuan et al. 2021, arXiv:2102.04635): a stage's averaged w goes on."""

    title: ClassVar[str] = "CODA+"
    source: ClassVar[str] = "Yuan et al. 2021, recalled; else as CODA here"
    restarts_dual: ClassVar[bool] = False
