"""Command: one step of the workflow. Rules call it, and so may a user."""

import inspect
import json
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from fedatlas.errors import FedatlasError, similar
from fedatlas.schema import models
from fedatlas.steps import STEPS

#: What each step does, for --help.
TABLE = "\n\n".join(f"{name}: {step.about}" for name, step in STEPS.items())


def step(
    name: Annotated[str, typer.Argument(help="The step, named after its rule.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[JSON]...",
            help='The step\'s arguments by name, such as \'{"traces": ["a.nc"], "output": '
            '"a.csv"}\', or @FILE for a file that holds them. Several objects are merged.',
        ),
    ] = None,
) -> None:
    """Run one step of the workflow, as its rules do."""
    if name not in STEPS:
        raise FedatlasError(f"there is no step '{name}'{similar(name, STEPS)}")
    given: dict[str, Any] = {}
    for argument in arguments or ():
        given |= _read(argument)
    module, _, function = STEPS[name].function.partition(":")
    work = getattr(import_module(module), function)
    work(**_typed(work, given, f"step {name}"))


def _read(argument: str) -> dict[str, Any]:
    """A JSON object from an argument, or from the file that stands after an @."""
    if argument.startswith("@"):
        found = models.read_json(Path(argument[1:]))
    else:
        try:
            found = json.loads(argument)
        except ValueError as error:
            raise FedatlasError(f"{argument[:40]}: cannot be read as JSON: {error}") from None
    if not isinstance(found, dict):
        raise FedatlasError(f"{argument[:40]}: must be a JSON object of arguments by name")
    return found


def _typed(work: Callable[..., None], given: dict[str, Any], where: str) -> dict[str, Any]:
    """The arguments, converted to the types that the function declares."""
    taken, types = inspect.signature(work).parameters, get_type_hints(work)
    if unknown := [name for name in given if name not in taken]:
        raise FedatlasError(
            f"{where}: takes no '{unknown[0]}'{similar(unknown[0], taken)}; it takes "
            f"{', '.join(taken)}"
        )
    lacking = [
        name for name, each in taken.items() if each.default is each.empty and name not in given
    ]
    if lacking:
        raise FedatlasError(f"{where}: missing {', '.join(lacking)}")
    return {
        name: models.validated(types[name], _files(types[name], value), f"{where}: {name}")
        for name, value in given.items()
    }


def _files(wanted: Any, value: Any) -> Any:
    """Fit files to the type: a list of one for many, the single one of a list for one."""
    many = get_origin(wanted) in (list, Sequence) and get_args(wanted) == (Path,)
    if many and isinstance(value, str):
        return [value]
    one = wanted is Path or wanted == Path | None
    if one and isinstance(value, list) and len(value) <= 1:
        return value[0] if value else None
    return value
