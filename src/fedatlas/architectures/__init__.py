"""Networks that map samples to outputs: one file each, named as the network.

Files lie here, or in the folder of the same name of a project (see `fedatlas.projects`).
A file has one function, `build(shape, outputs)` or, with a number of hidden units,
`build(shape, outputs, hidden)`. It makes a torch module from (n, *shape) to (n, outputs),
initialised by torch's global generator, and raises FedatlasError for a shape that it cannot take.
The module is not random in its forward pass, treats each sample on its own and has no buffers.
Methods over silos alone allow BatchNorm and its running statistics.
"""

import inspect
import pkgutil
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from fedatlas.errors import FedatlasError
from fedatlas.extensions import import_extension
from fedatlas.projects import code_folders

if TYPE_CHECKING:  # the plan needs names, not torch
    import torch
    from torch import nn

__path__ += code_folders("architectures")

# Outputs agree within this share of the largest: far more than rounding, far less than a fault.
_AGREEMENT = 1e-3


def architecture_names() -> list[str]:
    """Every network there is, but for `_shared` files."""
    return _names(tuple(__path__))


@cache
def _names(folders: tuple[str, ...]) -> list[str]:
    names = (module.name for module in pkgutil.iter_modules(folders))
    return sorted(name for name in names if not name.startswith("_"))


def architecture(name: str) -> "Callable[..., nn.Module]":
    """The function that builds the network; FedatlasError names those there are."""
    if name not in architecture_names():
        raise FedatlasError(
            f"unknown network '{name}'; there are: {', '.join(architecture_names())}"
        )
    module = import_extension(f"{__name__}.{name}")
    if not hasattr(module, "build"):
        raise FedatlasError(f"{module.__file__}: must define build(shape, outputs)")
    build: Callable[..., nn.Module] = module.build
    return build


def checked_build(
    name: str,
    shape: tuple[int, ...],
    outputs: int,
    *,
    hidden: int | None = None,
    batch_statistics: bool = False,
) -> "Callable[[], nn.Module]":
    """A function that builds the network for samples of the shape, after a trial without fault.

    hidden: number of hidden units, of networks that take it. batch_statistics: whether BatchNorm
    is allowed. The trial leaves torch's global generator as it was.

    Raises FedatlasError for a network that does not take such samples, gives outputs of another
    shape, draws random numbers, lets samples influence each other, or has a parameter without a
    gradient.
    """
    import torch

    function = architecture(name)
    if (hidden is not None) != ("hidden" in inspect.signature(function).parameters):
        raise FedatlasError(
            f"network '{name}' {'needs' if hidden is None else 'takes no'} 'hidden', the number of "
            "hidden units"
        )
    options = {} if hidden is None else {"hidden": hidden}

    def build() -> "nn.Module":
        return function(shape, outputs, **options)

    with torch.random.fork_rng(devices=[]):
        _try_out(f"network '{name}'", build(), shape, outputs, batch_statistics)
    return build


def running_statistics(module: "nn.Module") -> "dict[str, torch.Tensor]":
    """Running means and variances by name; FedatlasError for any other state beside parameters."""
    import torch

    found = {}
    for name, buffer in module.named_buffers():
        parent, _, own = name.rpartition(".")
        layer = module.get_submodule(parent)
        if not isinstance(layer, torch.nn.modules.batchnorm._BatchNorm) or layer.momentum is None:
            raise FedatlasError(
                f"a network has the buffer '{name}', a state beside its parameters that is no "
                "running mean or variance of BatchNorm with a momentum; remove it"
            )
        # The number of batches is not read where there is a momentum.
        if own != "num_batches_tracked":
            found[name] = buffer
    return found


def _try_out(
    network: str, module: object, shape: tuple[int, ...], outputs: int, batch_statistics: bool
) -> None:
    """Pass two samples forward and back; network: what errors call it."""
    import torch

    if not isinstance(module, torch.nn.Module):
        raise FedatlasError(
            f"{network}: build must return a torch.nn.Module, not {type(module).__name__}"
        )
    module = module.float()  # whatever it is built in; engines choose what they compute in
    kept = bool(running_statistics(module))
    if kept and not batch_statistics:
        raise FedatlasError(
            f"{network} has running statistics, as BatchNorm keeps them, which only methods over "
            "silos send and average; use GroupNorm or LayerNorm"
        )
    # Zeros would hide randomness and samples that influence each other.
    samples = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))
    before = torch.random.get_rng_state()
    found = _outputs(network, module, samples)
    expected = (2, outputs)
    if found.shape != expected:
        raise FedatlasError(
            f"{network} gives outputs of shape {tuple(found.shape)} for samples of shape "
            f"{tuple(samples.shape)}, expected {expected}"
        )
    again = _outputs(network, module, samples)
    if not (torch.equal(before, torch.random.get_rng_state()) and _agree(found, again)):
        raise FedatlasError(
            f"{network} draws random numbers in its forward pass, as Dropout does: remove that "
            "layer; randomness is the methods'"
        )
    alone = _outputs(network, module, samples[:1])  # a client may have a single one
    if not kept and not _agree(found[:1], alone):
        raise FedatlasError(
            f"{network} gives a sample other outputs alone than beside another, as BatchNorm does; "
            "use GroupNorm or LayerNorm"
        )
    parameters = dict(module.named_parameters())
    if not parameters:
        raise FedatlasError(f"{network} has no parameters to train")
    for name, parameter in parameters.items():
        if not parameter.requires_grad:
            raise FedatlasError(f"{network}: its parameter '{name}' is frozen; methods train all")
    if found.requires_grad:
        found.sum().backward()
    for name, parameter in parameters.items():
        if parameter.grad is None:
            raise FedatlasError(
                f"{network}: no output depends on its parameter '{name}', or not by "
                "operations that have a gradient; remove it"
            )


def _outputs(network: str, module: "nn.Module", samples: "torch.Tensor") -> "torch.Tensor":
    import torch

    try:
        found = module(samples)
    # What layers raise for samples that are not theirs; other errors are not about samples.
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        raise FedatlasError(
            f"{network} does not take samples of shape {tuple(samples.shape)}: {error}"
        ) from error
    if not isinstance(found, torch.Tensor):
        raise FedatlasError(f"{network} must give a tensor, not {type(found).__name__}")
    return found


def _agree(first: "torch.Tensor", second: "torch.Tensor") -> bool:
    # NaN agrees: numbers that are not finite have their own error when they are measured.
    return not bool((first - second).abs().max() > _AGREEMENT * first.abs().max())
