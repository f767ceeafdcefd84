"""What the repository publishes of each experiment: verdicts, and figures drawn from traces."""

from functools import cached_property
from pathlib import Path

import xarray as xr

from fedatlas.evaluation.verdicts import Verdict, read_verdicts, whole_claims
from fedatlas.plan.build import Plan
from fedatlas.rederiving import draw_published
from fedatlas.store.atlas import open_atlas
from fedatlas.store.trace import judged

#: Holds a folder for each publication.
FOLDER = Path(__file__).parents[2] / "published"
_CODE = Path(__file__).parents[2] / "src"


class Published:
    """All published folders as one."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._atlas = open_atlas(FOLDER)
        self._places = {
            name: f"{paper}/{name}" for paper in self._atlas for name in self._atlas.names(paper)
        }
        self._selections = {file.stem: file for file in FOLDER.glob("*/selections/*.json")}

    @cached_property
    def verdicts(self) -> dict[tuple[str, str], Verdict]:
        """Claims that were judged, by experiment and claim."""
        found: dict[tuple[str, str], Verdict] = {}
        for file in sorted(FOLDER.glob("*/verdicts.csv")):
            for verdict in whole_claims(read_verdicts(file)):
                experiment, _, claim = verdict.claim.partition("/")
                found[experiment, claim] = verdict
        return found

    def has_traces(self, name: str) -> bool:
        """Whether traces of all runs that an experiment shows are published."""
        place = self._places.get(self._owner(name))
        return place is not None and {*self._plan.experiments[name].runs} <= {
            *self._atlas.names(place)
        }

    def folder(self, name: str) -> Path | None:
        """The published folder that has the record of an experiment's selection."""
        return next(
            (file.parents[1] for key, file in self._selections.items() if key == name), None
        )

    @cached_property
    def drawable(self) -> list[str]:
        """Experiments whose figure can be drawn."""
        return [
            name
            for name in self._plan.experiments
            if self.has_traces(name) and {name, self._owner(name)} & {*self._selections}
        ]

    def draw_figures(self, folder: Path) -> None:
        """Draw the figure of each into the folder, as NAME.svg, unless it is there and newer."""
        folder.mkdir(parents=True, exist_ok=True)
        sources = [*FOLDER.rglob("*.*"), *_CODE.rglob("*.py")]
        newest = max(file.stat().st_mtime for file in sources)
        for name in self.drawable:
            file = folder / f"{name}.svg"
            if not file.exists() or file.stat().st_mtime < newest:
                draw_published(self._plan, name, self._shown(name), self._selection(name), file)

    def _owner(self, name: str) -> str:
        return self._plan.experiments[name].runs_of or name

    def _selection(self, name: str) -> Path:
        return self._selections.get(name) or self._selections[self._owner(name)]

    def _shown(self, name: str) -> dict[str, dict[str, xr.Dataset]]:
        """Traces of the runs that an experiment shows."""
        place = self._places[self._owner(name)]
        return {run: self._traces(f"{place}/{run}") for run in self._plan.experiments[name].runs}

    def _traces(self, place: str) -> dict[str, xr.Dataset]:
        points = self._atlas.names(place)
        return {point: judged(self._atlas.dataset(f"{place}/{point}")).load() for point in points}
