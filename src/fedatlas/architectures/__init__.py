"""Networks that map samples to outputs: one file each, named as the network.

A file has one function, `build(shape, outputs)`: a torch module from (n, *shape) to (n, outputs),
initialised by torch's global generator, without buffers and without randomness in its forward pass;
it raises FedatlasError for a shape that it cannot take.
"""

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from fedatlas.errors import FedatlasError

if TYPE_CHECKING:  # names are needed where the workflow is parsed, torch is not
    from torch import nn


@cache
def architecture_names() -> list[str]:
    """Every network there is: the files of this folder, but for `_shared` ones."""
    names = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(name for name in names if not name.startswith("_"))


def architecture(name: str) -> "Callable[[tuple[int, ...], int], nn.Module]":
    """The function that builds the network; FedatlasError names those there are."""
    if name not in architecture_names():
        raise FedatlasError(
            f"unknown network '{name}'; there are: {', '.join(architecture_names())}"
        )
    build: Callable[[tuple[int, ...], int], nn.Module] = importlib.import_module(
        f"{__name__}.{name}"
    ).build
    return build
