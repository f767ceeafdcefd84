"""Options that several commands have."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fedatlas.plan.places import shipped_configuration, where_published
from fedatlas.schema.config import MIRROR_VARIABLE, SEEDS_VARIABLE, home_expanded


def _folder(purpose: str, variable: str) -> Any:
    """An option that names a folder; an environment variable may name it, too."""
    return typer.Option(help=purpose, envvar=variable, parser=home_expanded, metavar="DIR")


Lock = Annotated[
    Path, typer.Option(help="File that keeps checksums of raw files without a declared one.")
]
Mirror = Annotated[
    Path | None,
    _folder("Folder of raw files; a file found here is not downloaded.", MIRROR_VARIABLE),
]
Seeds = Annotated[
    Path | None,
    _folder("Folder of finished seeds; several projects may share it.", SEEDS_VARIABLE),
]
Output = Annotated[Path, typer.Option(help="File to write.")]
Configuration = Annotated[
    Path,
    typer.Option(
        help="Configuration folder; by default the workflow's. Projects are added to it.",
        default_factory=shipped_configuration,
        show_default=False,
    ),
]
ResultsFolder = Annotated[
    Path,
    typer.Argument(help="Results folder, or a published one.", callback=where_published),
]
