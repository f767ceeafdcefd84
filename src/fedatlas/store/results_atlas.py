"""The traces of a results folder, read as an atlas is."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import xarray as xr

from fedatlas.errors import FedatlasError
from fedatlas.plan.build import Plan
from fedatlas.provenance.expected import why_stale
from fedatlas.schema.models import read_json
from fedatlas.store import FORMAT
from fedatlas.store.atlas import ListedAtlas
from fedatlas.store.contents import check_format, names_in, opened_hdf5
from fedatlas.store.groups import text_of
from fedatlas.store.lazy_groups import attributes_of
from fedatlas.store.netcdf import check_seal
from fedatlas.store.trace import FORMAT as TRACE_FORMAT
from fedatlas.store.trace import read_trace


class ResultsAtlas(ListedAtlas):
    """Every trace that is there, selected points by the records of selections beside them."""

    def __init__(
        self,
        path: Path,
        described: Mapping[str, Mapping[str, Any]] | None = None,
        plan: Plan | None = None,
    ) -> None:
        """described: experiment → title, source, notes, dataset and `runs`, run → title.

        What is not described is called by its name. plan: by which traces are stale or not; without
        it their code alone decides. FedatlasError names a damaged trace.
        """
        self._plan = plan
        self._why_stale: dict[str, str] = {}  # by place; found when it is asked for
        self._files: dict[str, Path] = {}
        self._variables: dict[str, set[str]] = {}
        declared: dict[str, dict[str, Any]] = {}
        for folder in sorted((path / "experiments").iterdir()):
            own = (described or {}).get(folder.name, {})
            chosen = _selected(folder / "selection.json")
            files = [
                file
                for file in sorted(folder.glob("traces/*/*.nc"))
                if not file.name.startswith(".")  # being written, or left by an interruption
            ]
            sizes = Counter(file.parent.name for file in files)  # of runs, in points
            for file in files:
                run, point = file.parent.name, file.stem
                attributes, variables = _attributes_and_variables(file)
                experiment = f"{attributes['paper']}/{folder.name}"
                declared.setdefault(experiment, _experiment(folder.name, attributes, own))
                declared.setdefault(
                    f"{experiment}/{run}",
                    {
                        "title": own.get("runs", {}).get(run, run),
                        "selected": chosen.get(run, point if sizes[run] == 1 else ""),
                    },
                )
                declared[f"{experiment}/{run}/{point}"] = attributes
                self._files[f"{experiment}/{run}/{point}"] = file
                self._variables[f"{experiment}/{run}/{point}"] = variables
        if not self._files:
            raise FedatlasError(f"{path}: holds no trace (experiments/*/traces/*/*.nc)")
        super().__init__(path, {"format": FORMAT}, declared)

    def why_stale(self, place: str) -> str:
        place = place.strip("/")
        if place not in self._why_stale:
            _, experiment, run, point = place.split("/")
            changed = why_stale(
                (experiment, run, point), self._declared[place], self._plan, self.path
            )
            self._why_stale[place] = changed
        return self._why_stale[place]

    def variables(self, place: str) -> set[str]:
        return self._variables.get(place.strip("/"), set())

    def _trace(self, place: str) -> xr.Dataset:
        return read_trace(self._files[place])


def _selected(record: Path) -> dict[str, str]:
    """run → chosen point; nothing where nothing was selected yet."""
    if not record.exists():
        return {}
    found = read_json(record)
    try:
        return {run: entry["selected"] for run, entry in found["runs"].items()}
    except (TypeError, KeyError, AttributeError):
        raise FedatlasError(f"{record}: holds no selection. Move it away and run again.") from None


def _attributes_and_variables(file: Path) -> tuple[dict[str, Any], set[str]]:
    """Those of a trace, which must lie where they say, and the names of its variables."""
    check_seal(file)
    with opened_hdf5(file) as opened:
        check_format(file, text_of(opened, "format"), TRACE_FORMAT, "a trace")
        found = attributes_of(opened)
        variables = {name.decode() for name in names_in(opened.id)}
    own = (file.parents[2].name, file.parent.name, file.stem)
    if tuple(found.get(key) for key in ("experiment", "run", "point")) != own:
        raise FedatlasError(
            f"{file}: holds another trace than its place says: {found.get('experiment')}/"
            f"{found.get('run')}/{found.get('point')}. Move it to its own place, or elsewhere."
        )
    return found, variables


def _experiment(name: str, attributes: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    dataset = json.loads(attributes["specification"])["dataset"]
    usual = {"title": name, "source": "", "notes": "", "dataset": dataset}
    return usual | {key: own[key] for key in usual if key in own}
