"""The reference of the command line, as typer writes it."""

import typer
from typer.cli import get_docs_for_click
from typer.main import get_command

from fedatlas.cli import app


def page() -> str:
    """The page in Markdown, for the folder docs/reference."""
    group = get_command(app)
    told = get_docs_for_click(obj=group, ctx=typer.Context(group), name="fedatlas")
    return told.replace("# `fedatlas`", "# Command line", 1).replace("```console", "```text")
