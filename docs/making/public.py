"""Docstrings of the public surface for autodoc: paragraphs "name: …" become lists of parameters."""

import inspect
from typing import Any

from fedatlas.schema.described import parted


def as_restructured_text(
    app: Any, what: str, name: str, of: Any, options: Any, lines: list[str]
) -> None:
    """For Sphinx's event `autodoc-process-docstring`: rewrites the lines in place."""
    del app, what, name, options
    try:
        parameters = [each for each in inspect.signature(of).parameters if each != "self"]
    except (TypeError, ValueError):
        return
    # A star of a formula, or of arguments, would begin emphasis.
    prose = "\n".join(lines).partition(">>>")[0].count("\n")
    lines[:prose] = [line.replace("*", r"\*") for line in lines[:prose]]
    general, described = parted("\n".join(lines), parameters)
    if not described:
        return
    before, mark, after = general.partition("\n\n>>>")
    fields = [
        f":param {each}: {' '.join(described[each].split())}"
        for each in parameters
        if each in described
    ]
    lines[:] = [*before.splitlines(), "", *fields, "", *(mark + after).splitlines(), ""]
