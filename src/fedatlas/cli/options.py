"""Options that several commands have."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fedatlas.plan.places import shipped_configuration
from fedatlas.schema.config import MIRROR_VARIABLE, SEEDS_VARIABLE, home_expanded


def _folder(purpose: str, variable: str) -> Any:
    """An option that names a folder, as an environment variable may."""
    return typer.Option(help=purpose, envvar=variable, parser=home_expanded, metavar="DIR")


Lock = Annotated[Path, typer.Option(help="Where sums of raw files without one are kept.")]
Mirror = Annotated[
    Path | None,
    _folder("Folder with raw files, used before any download.", MIRROR_VARIABLE),
]
Seeds = Annotated[
    Path | None,
    _folder("Folder of finished seeds, which projects may share.", SEEDS_VARIABLE),
]
Output = Annotated[Path, typer.Option(help="File to write.")]
Configuration = Annotated[
    Path,
    typer.Option(
        help="Configuration folder; the workflow's by default, and projects' besides.",
        default_factory=shipped_configuration,
        show_default=False,
    ),
]
ResultsFolder = Annotated[Path, typer.Argument(help="Results folder.")]
