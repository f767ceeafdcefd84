"""An experiment's figure as data: its kind, whose module holds what it asks for and its drawing."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from fedatlas.schema.models import KindModel
from fedatlas.schema.quantities import Measurement

#: The step by which methods are compared, as a figure's `hyper_parameter` or `rows`.
EFFECTIVE_STEP_SIZE = "effective_step_size"


class Figure(KindModel):
    """The keys of a kind of figure, and its drawing.

    kind: what is drawn; see its module in `fedatlas.figures.kinds`.
    """

    package = "fedatlas.figures.kinds"
    usual = "convergence"

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """What all runs must measure: by default the key `measurement`, if there is one."""
        measurement = getattr(self, "measurement", None)
        return () if measurement is None else (measurement,)

    @property
    def counted(self) -> tuple[str, ...]:
        """Costs of which each is counted by one run at least."""
        return ()

    @property
    def runs(self) -> tuple[str, ...]:
        """Runs that the figure names."""
        return ()

    def draws(self, claim: Any) -> bool:
        """Whether it draws something of a claim."""
        return False

    @property
    def shows_every_point(self) -> bool:
        """Whether it draws all points of grids, not only the chosen ones."""
        return False

    @property
    def printed(self) -> Mapping[str, float]:
        """Numbers that the paper prints, by run."""
        return {}

    def check(self, experiment: Any) -> None:
        """Raise ValueError if the figure does not fit its `Experiment`."""

    @abstractmethod
    def compose(self, title: str, shown: Any) -> Any:
        """The figure of a `fedatlas.figures.style.Shown` as an object of matplotlib."""


def check_dashed(dashed: Mapping[str, str]) -> None:
    """Raise ValueError if a run is dashed whose colour another takes."""
    for run, other in dashed.items():
        if other in dashed:
            raise ValueError(f"dashed: '{run}' takes the colour of '{other}', dashed itself")
