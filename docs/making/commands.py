"""The reference of the command line, as typer writes it."""

import typer
from typer.cli import get_docs_for_click
from typer.main import get_command

from fedatlas.cli import app

_WIDEST = 10_000


def page() -> str:
    """The page in Markdown, for the folder docs/reference."""
    group = get_command(app)
    reference = get_docs_for_click(obj=group, ctx=typer.Context(group), name="fedatlas")
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        # Its list cuts what it says of commands.
        whole = command.get_short_help_str(_WIDEST)
        reference = reference.replace(
            f"`{name}`: {command.get_short_help_str()}", f"`{name}`: {whole}"
        )
    return reference.replace("# `fedatlas`", "# Command line", 1).replace("```console", "```text")
