"""Theorems about methods: a file for each method that has some, with its name.

Files lie here, or in the folder `theorems` of a project (see `fedatlas.extensions`). Each has one
function `theorems(method, constants, course)`, whose annotation of `constants` says of which
problems its theorems are. A file whose name begins with `_` is shared by others.
"""

import inspect
from functools import cache
from types import ModuleType
from typing import Any

from fedatlas.errors import FedatlasError
from fedatlas.extensions import CODE, code_folders, code_names, import_extension, relative_path
from fedatlas.theory.theorems import Course, Theorem

__path__ += code_folders("theorems")

_WANTED = "theorems(method, constants, course) -> list[Theorem]"


def theorems_on(method: Any, constants: Any, course: Course) -> list[Theorem]:
    """The theorems on a run of a method; none on methods without any, or on other problems.

    method: as `algorithms.build_algorithm` gives it. constants: those of the problem, such as
    `theory.constants.Constants`. FedatlasError names the file whose function is not as it must be.
    """
    package, _, name = type(method).__module__.rpartition(".")
    if package != CODE["methods"] or name not in code_names("theorems"):
        return []
    module = import_extension(f"{__name__}.{name}")
    if not isinstance(constants, _known_constants(module)):
        return []
    found = module.theorems(method, constants, course)
    if not isinstance(found, list) or not all(isinstance(each, Theorem) for each in found):
        raise FedatlasError(f"{_place(module)}: theorems must return a list of Theorem: {found!r}")
    return found


@cache
def _known_constants(module: ModuleType) -> Any:
    """The type of constants that the module's function takes."""
    function = getattr(module, "theorems", None)
    if not inspect.isfunction(function):
        raise FedatlasError(f"{_place(module)}: must define {_WANTED}")
    where = f"{_place(module)}, line {function.__code__.co_firstlineno}"
    try:
        taken = [*inspect.signature(function, eval_str=True).parameters.values()]
    except NameError as error:
        raise FedatlasError(
            f"{where}: {error}: import what annotations name, not only where types are checked"
        ) from error
    if len(taken) != 3:
        raise FedatlasError(f"{where}: must be {_WANTED}")
    known = taken[1].annotation
    try:
        isinstance(None, known)
    except TypeError:
        known = inspect.Parameter.empty
    if known in (inspect.Parameter.empty, Any):
        raise FedatlasError(
            f"{where}: annotate '{taken[1].name}' with the constants that the theorems need, such "
            "as fedatlas.theory.constants.Constants"
        )
    return known


def _place(module: ModuleType) -> str:
    return relative_path(str(module.__file__))
