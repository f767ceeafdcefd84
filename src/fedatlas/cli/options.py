"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

from fedatlas.plan.places import shipped_configuration
from fedatlas.schema.config import MIRROR_VARIABLE, home_expanded

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
Configuration = Annotated[
    Path,
    typer.Option(
        help="Configuration folder; the workflow's by default, and projects' besides.",
        default_factory=shipped_configuration,
        show_default=False,
    ),
]
ResultsFolder = Annotated[Path, typer.Argument(help="Results folder.")]
