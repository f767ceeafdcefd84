"""The methods: each has a file of its name, and a new file adds a method.

Files lie here, or in the folder `methods` of a project (see `fedatlas.extensions`).
`fedatlas.federations.algorithm` says what a file must define. A file whose name begins with `_` is
no method.
"""

import sys
from functools import cache
from pkgutil import resolve_name
from types import ModuleType

from fedatlas.errors import FedatlasError, error_context, similar
from fedatlas.extensions import code_folders, code_names, import_extension
from fedatlas.federations.algorithm import Algorithm
from fedatlas.schema.models import only_subclass, validated
from fedatlas.schema.runs import RunSpec

__path__ += code_folders("methods")


def algorithm_names() -> list[str]:
    """All methods, sorted."""
    return code_names("methods")


def algorithm_class(name: str) -> type[Algorithm]:
    """The class in the method's file; FedatlasError names the methods that exist.

    name: also "module:class", of one that is defined in a notebook.
    """
    if ":" in name:
        return _checked(resolve_name(name))
    if name not in algorithm_names():
        raise FedatlasError(
            f"unknown algorithm '{name}'{similar(name, algorithm_names())}: no project has a file "
            f"methods/{name}.py, and fedatlas has {', '.join(algorithm_names())}"
        )
    full_name = f"{__name__}.{name}"
    return _class_in(sys.modules.get(full_name) or import_extension(full_name))


def build_algorithm(spec: RunSpec, where: str | None = None) -> Algorithm:
    """The run's method, validated; FedatlasError names the hyper-parameter at fault.

    where: the key of the run in its experiment's file; by default errors call it by its name.
    """
    of_method = spec.name if where is None else f"{where}.algorithm"
    where = spec.name if where is None else f"{where}.hyper_parameters"
    with error_context(of_method):
        method = algorithm_class(spec.algorithm)
        method.check_setting(spec.partition, spec.objective, spec.graphs)
        method.federation.check_network(spec.network)
    algorithm = validated(method, spec.hyper_parameters, f"{where} ({spec.algorithm})")
    with error_context(where):
        algorithm.check_run(spec)
    return algorithm


@cache  # a plan asks some thousand times
def _class_in(module: ModuleType) -> type[Algorithm]:
    return _checked(only_subclass(module, Algorithm))  # type: ignore[type-abstract]


def _checked(method: type[Algorithm]) -> type[Algorithm]:
    """The class itself; FedatlasError names what it lacks."""
    missing = sorted(method.__abstractmethods__)
    missing += [name for name in ("title", "source") if not hasattr(method, name)]
    if missing:
        raise FedatlasError(
            f"{place_of(method)}: {method.__name__} must define {', '.join(missing)}"
        )
    return method


def place_of(method: type[Algorithm]) -> str:
    """The method's file, or the class itself, where a notebook defines it."""
    return getattr(sys.modules[method.__module__], "__file__", None) or method.__name__
