"""Among how many points the one of a run was chosen."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fedatlas.atlas.runs import Atlas, AtlasRun
from fedatlas.errors import FedatlasError
from fedatlas.schema.models import read_json


class Tried:
    """Numbers of points that were tried, of the runs of an atlas."""

    def __init__(self, atlas: Atlas) -> None:
        self._atlas = atlas
        self._record = cache(self._read)

    def points(self, run: AtlasRun) -> int | None:
        """How many; None if nothing says it.

        By the record of the selection, of results or published, as a run that is tuned elsewhere
        has one point here. Without a record, the points that are there.
        """
        entry = self._record(run.experiment).get(run.run)
        if entry is not None:
            return int(entry.get("tried", len(entry.get("candidates", ())))) or None
        there = len(self._atlas.names(f"{run.paper}/{run.experiment}/{run.run}"))
        return None if run.point == "tuned" else there

    def _read(self, experiment: str) -> Mapping[str, Any]:
        """The runs of an experiment's record; empty if there is none that can be read."""
        for file in _records(self._atlas.path, experiment):
            if file.is_file():
                try:
                    runs: Mapping[str, Any] = read_json(file)["runs"]
                except (FedatlasError, KeyError, TypeError):
                    continue
                return runs
        return {}


def _records(path: Path, experiment: str) -> list[Path]:
    """Where the record may lie, of results, their atlas, or one or several published folders."""
    folder = path if path.is_dir() else path.parent
    results = path if path.is_dir() else path.resolve().parent.parent
    return [
        results / "experiments" / experiment / "selection.json",
        folder / "selections" / f"{experiment}.json",
        *sorted(folder.glob(f"*/selections/{experiment}.json")),
    ]
