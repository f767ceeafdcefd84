"""Options that several commands have, and how their values are read."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fedatlas.errors import FedatlasError
from fedatlas.plan.places import catalogue_files, shipped_configuration
from fedatlas.schema import models
from fedatlas.schema.config import MIRROR_VARIABLE, home_expanded


def read_json(text: str) -> Any:
    """Parse JSON from an argument, or from a file named after an @."""
    if text.startswith("@"):
        return models.read_json(Path(text[1:]))
    try:
        return json.loads(text)
    except ValueError as error:
        raise FedatlasError(f"--spec: cannot be read as JSON: {error}") from None


def json_with(*keys: str, what: str = "JSON") -> Any:
    """The option --spec: JSON, an object with these keys if there are any."""

    def read(text: str) -> Any:
        content = read_json(text)
        missing = [key for key in keys if not isinstance(content, dict) or key not in content]
        if missing:
            raise FedatlasError(f"--spec: missing {', '.join(missing)}")
        return content

    described = f"{what}{' with ' if keys else ''}{', '.join(keys)}; or @FILE that holds it."
    return typer.Option("--spec", parser=read, metavar="JSON", help=described)


Specification = Annotated[Any, json_with()]
ObjectiveSpecification = Annotated[
    Any, json_with(what='Objective as JSON: {"name": "logistic_l2", "weight": 1e-4}')
]
Catalogues = Annotated[
    list[Path],
    typer.Option(
        "--catalogue",
        help="Catalogue of data sets; the workflow's and projects' by default.",
        exists=True,
        default_factory=catalogue_files,
        show_default=False,
    ),
]
Lock = Annotated[Path, typer.Option(help="Where sums of raw files without one are kept.")]
Mirror = Annotated[
    Path | None,
    typer.Option(
        help="Folder that raw files are taken from first.",
        envvar=MIRROR_VARIABLE,
        parser=home_expanded,
        metavar="DIR",
    ),
]
Output = Annotated[Path, typer.Option(help="File to write.")]


def _listed(files: list[Path] | None) -> list[Path]:
    """The files, in place of @FILE those that FILE names, one a line."""
    found: list[Path] = []
    for file in files or ():
        if str(file).startswith("@"):
            try:
                lines = Path(str(file)[1:]).read_text(encoding="utf-8").split("\n")
            except (OSError, ValueError) as error:
                raise FedatlasError(f"{file}: cannot be read as a list of files: {error}") from None
            found += map(Path, filter(None, lines))
        else:
            found.append(file)
    return found


_TRACES = "Trace files (.nc) of the experiment, or @FILE that lists them"
TraceFiles = Annotated[list[Path], typer.Argument(help=f"{_TRACES}.", callback=_listed)]
AnyTraceFiles = Annotated[
    list[Path] | None, typer.Argument(help=f"{_TRACES}, if it has any.", callback=_listed)
]
Configuration = Annotated[
    Path,
    typer.Option(
        help="Configuration folder; the workflow's by default, and projects' besides.",
        default_factory=shipped_configuration,
        show_default=False,
    ),
]
Drawings = Annotated[list[Path], typer.Option(help="Files to write, .svg or .png.")]
ResultsFolder = Annotated[Path, typer.Argument(help="Results folder.")]
SelectionRecord = Annotated[Path, typer.Option("--selection", help="Selection record.")]


Titles = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="Configuration folder with titles of a results folder's runs; the workflow's by "
        "default, and projects' besides.",
    ),
]


def read_choices(selection: Path) -> Any:
    """The chosen points by run, of a selection record."""
    from fedatlas.evaluation.selection import choices

    return choices(models.read_json(selection))


def read_traces(files: list[Path], *, tuning: bool = False) -> Any:
    """The traces by run, of the seeds that are judged or that tune; xarray is loaded by this."""
    from fedatlas.evaluation.selection import by_run
    from fedatlas.store import trace

    of_seeds = trace.tuning if tuning else trace.judged
    return by_run([of_seeds(trace.read_trace(file)) for file in files])
