"""Commands: whether results are still true, and whether they agree."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fedatlas.cli.options import Configuration, Lock, Mirror, ResultsFolder
from fedatlas.data.raw_files import LOCK
from fedatlas.errors import FedatlasError
from fedatlas.plain_text import say


def verify(
    config: Configuration,
    results: ResultsFolder = Path("results"),
    lock: Lock = LOCK,
    mirror: Mirror = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check all digests again. Exit status: 0 as recorded, 1 drift, 2 a file cannot be read."""
    from rich.console import Console
    from rich.progress import track

    from fedatlas.provenance import findings, printing, verification

    terminal = Console(stderr=True)
    progress = partial(
        track,
        description="Verifying",
        console=terminal,
        transient=True,
        disable=not terminal.is_terminal,
    )
    with _unreadable_is_two():
        files = verification.verify(results, config, lock, progress, mirror)
    if as_json:
        say(json.dumps(findings.as_plain(files), indent=2))
    else:
        printing.print_verification(files, printing.wide_console())
    raise typer.Exit(findings.exit_status(files))


def diff(
    first: Annotated[Path, typer.Argument(help="Trace, atlas, experiment's or results folder.")],
    second: Annotated[Path, typer.Argument(help="What to compare it with, of any such kind.")],
    relative_tolerance: Annotated[
        float, typer.Option(min=0, help="Of the larger of two values.")
    ] = 0.0,
    absolute_tolerance: Annotated[
        float, typer.Option(min=0, help="In the variable's units.")
    ] = 0.0,
    wall_time: Annotated[
        bool, typer.Option("--wall-time", help="Compare times measured here, too.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare results value by value. Exit status: 0 equal, 1 different, 2 cannot be read."""
    from fedatlas.provenance import difference, printing

    if not math.isfinite(relative_tolerance + absolute_tolerance):
        raise typer.BadParameter("tolerances must be finite numbers")
    tolerance = difference.Tolerance(relative_tolerance, absolute_tolerance, wall_time)
    with _unreadable_is_two():
        found = difference.compare(first, second, tolerance)
    if as_json:
        say(json.dumps(printing.comparison_as_plain(found), indent=2))
    else:
        printing.print_comparison(found, printing.wide_console())
    raise typer.Exit(found.exit_status)


@contextmanager
def _unreadable_is_two() -> Iterator[None]:
    """Of commands whose exit status 1 means something else than an error."""
    try:
        yield
    except FedatlasError as error:
        say(f"error: {error}", to_errors=True)
        raise typer.Exit(2) from None
