"""Additional measurements and costs: each has a file of its name.

Files lie here, or in the folder `measurements` of a project (see `fedatlas.extensions`). A file
whose name begins with `_` declares nothing. Runs record those that their experiments ask for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from fedatlas.extensions import code_folders

__path__ += code_folders("measurements")


class Quantity(ABC):
    """The common declarations of measurements and costs.

    title: in figures and tables. units: as CF conventions write them, "1" without any.
    federations, methods: those that have it, by the names of folders and files; all by default.
    """

    title: ClassVar[str]
    units: ClassVar[str] = "1"
    federations: ClassVar[tuple[str, ...]] = ()
    methods: ClassVar[tuple[str, ...]] = ()


class Measurement(Quantity):
    """A number that a model has at every record.

    best: 0 or 1, the value that is best; None where neither less nor more is better, so that
    nothing can be chosen or judged by it. logarithmic: whether it falls over orders of magnitude
    and is above 0: claims compare ratios then, and differences otherwise.
    """

    best: ClassVar[int | None] = None
    logarithmic: ClassVar[bool] = False

    @abstractmethod
    def measure(self, problem: Any, point: Any) -> float:
        """The number, finite; nothing that it asks of the problem is counted.

        problem: as methods of the federation know it. point: the method's, shaped as its start.
        """


class Cost(Quantity):
    """A cost that a run has spent by every record: an axis that never falls.

    unit: what evidence calls so many of it, such as "joules".
    """

    unit: ClassVar[str] = ""

    @abstractmethod
    def spent(self, counted: Mapping[str, float], problem: Any, state: Any) -> float:
        """The total so far, finite.

        counted: what is counted anyway, by the names of costs. problem: as methods know it.
        state: the method's, in which it may keep totals of its own.
        """
