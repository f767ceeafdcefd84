"""Networks that map samples to outputs: one file each, named as the network.

Files lie here, or in the folder of the same name of a project (see `fedatlas.projects`).
A file has one function, `build(shape, outputs)` or, with a number of hidden units,
`build(shape, outputs, hidden)`. It makes a torch module from (n, *shape) to (n, outputs),
initialised by torch's global generator, and raises FedatlasError for a shape that it cannot take.
The module is not random in its forward pass, treats each sample on its own, and changes no buffer.
Methods over silos alone allow BatchNorm and its running statistics.
"""

import inspect
import pkgutil
import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from fedatlas.errors import FedatlasError
from fedatlas.extensions import import_extension
from fedatlas.projects import code_folders

if TYPE_CHECKING:  # the plan needs names, not torch
    import torch
    from torch import nn
    from typing_extensions import TypeIs

__path__ += code_folders("architectures")

# Outputs agree within this share of the largest: far more than rounding, far less than a fault.
_AGREEMENT = 1e-3
_CONVERTED = (
    "samples and parameters are float32, so remove what makes them another type in the forward "
    "pass, such as .half(), .double() or .to(…)"
)
# By how much parameters are larger than at the start, with random signs: outputs that stay between
# 0 and 1 then do so by the network's last layer.
_LARGER = (1, 10, 30, 1, 10, 30)


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
    shape or that are not finite, ends in a softmax or sigmoid, draws random numbers, lets samples
    influence each other, has a parameter without a gradient, or a tensor that no GPU finds.
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
    """Running means and variances by name; other buffers are constants.

    FedatlasError for BatchNorm without a momentum.
    """
    found = {}
    for name, buffer in module.named_buffers():
        parent, _, own = name.rpartition(".")
        layer = module.get_submodule(parent)
        if not _is_batch_norm(layer):
            continue
        if layer.momentum is None:
            raise FedatlasError(
                f"a network has the buffer '{name}' of a BatchNorm without a momentum, which "
                "nobody averages; give the layer a momentum"
            )
        # The number of batches is not read where there is a momentum.
        if own != "num_batches_tracked":
            found[name] = buffer
    return found


def _is_batch_norm(layer: "nn.Module") -> "TypeIs[nn.modules.batchnorm._BatchNorm]":
    from torch import nn

    return isinstance(layer, nn.modules.batchnorm._BatchNorm)


def _try_out(
    network: str, module: object, shape: tuple[int, ...], outputs: int, batch_statistics: bool
) -> None:
    """Pass two samples forward and back; network: what errors call it."""
    import torch

    if not isinstance(module, torch.nn.Module):
        raise FedatlasError(
            f"{network}: build must return a torch.nn.Module, not {type(module).__name__}"
        )
    _check_as_built(network, module)
    module = module.float()  # also of a float64 one; engines choose what they compute in
    kept = bool(running_statistics(module))
    if kept and not batch_statistics:
        raise FedatlasError(
            f"{network} has running statistics, as BatchNorm keeps them, which only methods over "
            "silos send and average; use GroupNorm or LayerNorm"
        )
    # Zeros would hide randomness and samples that influence each other.
    samples = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))
    before = torch.random.get_rng_state()
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    found = _outputs(network, module, samples)
    expected = (2, outputs)
    if found.shape != expected:
        raise FedatlasError(
            f"{network} gives outputs of shape {tuple(found.shape)} for samples of shape "
            f"{tuple(samples.shape)}, expected {expected}"
        )
    finite = bool(found.isfinite().all())  # some networks take positive numbers only
    if not finite and not _outputs(network, module, samples.abs().clamp(max=1)).isfinite().all():
        raise FedatlasError(
            f"{network} gives outputs that are NaN or infinite, for standard normal samples and "
            "those between 0 and 1: look for divisions by zero, logarithms and large parameters"
        )
    layers = [part for part in module.modules() if _is_batch_norm(part)]
    normalising = {id(buffer) for layer in layers for buffer in layer.buffers(recurse=False)}
    for name, buffer in module.named_buffers():
        if id(buffer) not in normalising and not torch.equal(buffer, buffers[name]):
            raise FedatlasError(
                f"{network} changes its buffer '{name}' in its forward pass; only the running "
                "statistics of BatchNorm may change, and only over silos"
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
    if last := _last_layer(module, samples):
        raise FedatlasError(
            f"{network} ends in a {last}: remove it, as objectives apply their own to its outputs"
        )
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


def _check_as_built(network: str, module: "nn.Module") -> None:
    """Refuse what would not be, in training, what the file says."""
    import torch

    known = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
    for name, parameter in module.named_parameters():
        if parameter.dtype not in (torch.float32, torch.float64):
            raise FedatlasError(
                f"{network}: its parameter '{name}' is {parameter.dtype}, but networks are trained "
                "in float32: remove .half(), .bfloat16() or .to(…)"
            )
        if not parameter.isfinite().all():
            raise FedatlasError(
                f"{network}: its parameter '{name}' is NaN or infinite at the start: initialise "
                "it, as torch.empty does not"
            )
    for place, part in module.named_modules():
        if not part.training:
            raise FedatlasError(
                f"{network}: {f'its layer {place!r}' if place else 'it'} is in evaluation mode, in "
                "which Dropout does nothing and BatchNorm keeps what it has: remove .eval()"
            )
        for name, value in vars(part).items():
            held = value if isinstance(value, list | tuple) else [value]
            for tensor in held:
                # What has a gradient function is computed from parameters, as by weight_norm.
                if isinstance(tensor, torch.Tensor) and tensor.is_leaf and id(tensor) not in known:
                    raise FedatlasError(
                        f"{network} keeps a tensor in its attribute '{name}', which no GPU finds "
                        f"and nothing trains: write self.register_buffer('{name}', …) if it is "
                        f"constant, self.{name} = nn.Parameter(…) if it is to be trained"
                    )


def _last_layer(module: "nn.Module", samples: "torch.Tensor") -> str:
    """What the network ends in that objectives apply: of all outputs alike; empty if nothing."""
    import torch

    signs = torch.Generator().manual_seed(0)
    found = []
    for larger in _LARGER:
        moved = {}
        for name, part in module.named_parameters():
            drawn = torch.rand(part.shape, generator=signs) - 0.5
            # A last layer that starts as 0 would hide what follows it.
            moved[name] = larger * torch.where(part == 0, drawn, part * drawn.sign())
        with torch.no_grad():
            found.append(torch.func.functional_call(module, moved, (samples,)))
    outputs = torch.cat(found)
    within = bool(((outputs >= 0) & (outputs <= 1)).all())
    if within and bool((outputs.sum(1) - 1).abs().max() < _AGREEMENT):
        return "softmax"
    if outputs.shape[1] > 1 and bool(outputs.logsumexp(1).abs().max() < _AGREEMENT):
        return "log-softmax"
    return "sigmoid" if within and bool(((outputs > 0) & (outputs < 1)).any()) else ""


def _outputs(network: str, module: "nn.Module", samples: "torch.Tensor") -> "torch.Tensor":
    import torch

    try:
        found = module(samples)
    # What layers raise for samples that are not theirs; other errors are not about samples.
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        types = re.search("dtype|scalar type|Input type", str(error))
        cause = f"{_CONVERTED}: " if types else ""
        raise FedatlasError(
            f"{network} does not take samples of shape {tuple(samples.shape)}: {cause}{error}"
        ) from error
    if not isinstance(found, torch.Tensor):
        raise FedatlasError(f"{network} must give a tensor, not {type(found).__name__}")
    if found.is_floating_point() and found.dtype != samples.dtype:
        raise FedatlasError(f"{network} gives outputs that are {found.dtype}: {_CONVERTED}")
    return found


def _agree(first: "torch.Tensor", second: "torch.Tensor") -> bool:
    # NaN agrees: numbers that are not finite have their own error when they are measured.
    return not bool((first - second).abs().max() > _AGREEMENT * first.abs().max())
