"""Hyper-parameters of methods, some of which are mappings: `scheme.gamma` lies within `scheme`."""

from collections.abc import Mapping
from typing import Any

from fedatlas.errors import FedatlasError


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Also list nested keys, as `scheme.gamma`."""
    found = dict(values)
    for outer, within in values.items():
        if isinstance(within, Mapping):
            found |= {f"{outer}.{inner}": value for inner, value in within.items()}
    return found


def at_point(declared: Mapping[str, Any], point: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The declared hyper-parameters together with those of a grid point, whose names may be dotted.

    where: the run, as errors name it. FedatlasError if a dotted name lies in no mapping, or is
    declared already.
    """
    values = dict(declared)
    for name, value in point.items():
        outer, dot, inner = name.partition(".")
        if not dot:
            values[name] = value
            continue
        within = values.get(outer)
        if not isinstance(within, Mapping) or inner in within:
            raise FedatlasError(
                f"{where}: grid '{name}' needs hyper_parameters with a mapping '{outer}' that does "
                f"not state '{inner}'"
            )
        values[outer] = {**within, inner: value}
    return values
