"""Networks that map samples to outputs, by name: one file for each family of them.

Files lie here, or in the folder of the same name of a project (see `fedatlas.extensions`). Every
function `NAME(shape, outputs)` or, with a number of hidden units, `NAME(shape, outputs, hidden)` of
a file builds the network NAME; one that is called `build` bears the name of its file. It makes a
torch module from (n, *shape) to (n, outputs), initialised by torch's global generator, and raises
FedatlasError for a shape that it cannot take. The module is not random in its forward pass, treats
each sample on its own, and changes no buffer. Methods over silos alone allow BatchNorm and its
running statistics.
"""

import ast
import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from fedatlas.errors import FedatlasError, error_context
from fedatlas.extensions import code_folders, import_extension

if TYPE_CHECKING:  # the plan needs names, not torch
    import torch
    from torch import nn

__path__ += code_folders("architectures")

# Outputs agree within this share of the largest: far more than rounding, far less than a fault.
_AGREEMENT = 1e-3
# By how much parameters are larger than at the start, with random signs: outputs that stay between
# 0 and 1 then do so by the network's last layer.
_LARGER = (1, 10, 30, 1, 10, 30)


def architecture_names() -> list[str]:
    """Every network there is; files called `_shared` hold none."""
    return sorted(_files(tuple(__path__)))


@cache
def _files(folders: tuple[str, ...]) -> dict[str, Path]:
    """The file of each network; FedatlasError names two files with networks of one name.

    A file without any stands under its own name, so that whoever means it learns what it lacks.
    """
    found: dict[str, Path] = {}
    for file in (file for folder in folders for file in sorted(Path(folder).glob("*.py"))):
        if file.name.startswith("_"):
            continue
        for name in _networks(file) or [file.stem]:
            if found.setdefault(name, file) != file:
                raise FedatlasError(f"{file}: {found[name]} has a network '{name}': rename it")
    return found


def _networks(file: Path) -> list[str]:
    try:
        statements = ast.parse(file.read_text(encoding="utf-8")).body
    except (SyntaxError, ValueError):
        return []
    return [
        file.stem if item.name == "build" else item.name
        for item in statements
        if isinstance(item, ast.FunctionDef)
        and not item.name.startswith("_")
        and [argument.arg for argument in item.args.args[:2]] == ["shape", "outputs"]
    ]


def architecture_module(name: str) -> str:
    """The module that defines the network; FedatlasError names those there are."""
    files = _files(tuple(__path__))
    if name not in files:
        raise FedatlasError(f"unknown network '{name}'; there are: {', '.join(sorted(files))}")
    return f"{__name__}.{files[name].stem}"


def architecture(name: str) -> "Callable[..., nn.Module]":
    """The function that builds the network; FedatlasError names those there are."""
    module = import_extension(architecture_module(name))
    build: Callable[..., nn.Module] | None = getattr(module, name, getattr(module, "build", None))
    if build is None:
        raise FedatlasError(f"{module.__file__}: must define build(shape, outputs)")
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
        module = build()
        with error_context(f"network '{name}'"):
            _try_out(module, shape, outputs, batch_statistics)
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


def _is_batch_norm(layer: "nn.Module") -> bool:
    from torch import nn

    return isinstance(layer, nn.modules.batchnorm._BatchNorm)


def _require(sound: bool, otherwise: str) -> None:
    if not sound:
        raise FedatlasError(otherwise)


def _try_out(module: object, shape: tuple[int, ...], outputs: int, batch_statistics: bool) -> None:
    """Pass two samples forward and back."""
    import torch

    if not isinstance(module, torch.nn.Module):
        raise FedatlasError(f"build must return a torch.nn.Module, not {type(module).__name__}")
    _check_as_built(module)
    module = module.float()  # also of a float64 one; engines choose what they compute in
    kept = bool(running_statistics(module))
    _require(
        batch_statistics or not kept,
        "has running statistics, as BatchNorm keeps them, which only methods over silos send and "
        "average; use GroupNorm or LayerNorm",
    )
    # Zeros would hide randomness and samples that influence each other.
    samples = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))
    before = torch.random.get_rng_state()
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    found = _outputs(module, samples)
    _require(
        found.shape == (2, outputs),
        f"gives outputs of shape {tuple(found.shape)} for samples of shape "
        f"{tuple(samples.shape)}, expected {(2, outputs)}",
    )
    if not found.isfinite().all():  # some networks take positive numbers only
        _require(
            bool(_outputs(module, samples.abs().clamp(max=1)).isfinite().all()),
            "gives outputs that are NaN or infinite, for standard normal samples and those between "
            "0 and 1: look for divisions by zero, logarithms and large parameters",
        )
    layers = filter(_is_batch_norm, module.modules())
    normalising = {id(buffer) for layer in layers for buffer in layer.buffers(recurse=False)}
    for name, buffer in module.named_buffers():
        _require(
            id(buffer) in normalising or torch.equal(buffer, buffers[name]),
            f"changes its buffer '{name}' in its forward pass; only the running statistics of "
            "BatchNorm may change, and only over silos",
        )
    again = _outputs(module, samples)
    _require(
        torch.equal(before, torch.random.get_rng_state()) and _agree(found, again),
        "draws random numbers in its forward pass, as Dropout does: remove that layer; randomness "
        "is the methods'",
    )
    alone = _outputs(module, samples[:1])  # a client may have a single one
    _require(
        kept or _agree(found[:1], alone),
        "gives a sample other outputs alone than beside another, as BatchNorm does; use GroupNorm "
        "or LayerNorm",
    )
    last = _last_layer(module, samples)
    _require(not last, f"ends in a {last}: remove it, as objectives apply their own to its outputs")
    parameters = dict(module.named_parameters())
    _require(bool(parameters), "has no parameters to train")
    for name, parameter in parameters.items():
        _require(parameter.requires_grad, f"its parameter '{name}' is frozen; methods train all")
    if found.requires_grad:
        found.sum().backward()
    for name, parameter in parameters.items():
        _require(
            parameter.grad is not None,
            f"no output depends on its parameter '{name}', or not by operations that have a "
            "gradient; remove it",
        )


def _check_as_built(module: "nn.Module") -> None:
    """Refuse what would not be, in training, what the file says."""
    import torch

    for name, parameter in module.named_parameters():
        _require(
            parameter.dtype in (torch.float32, torch.float64),
            f"its parameter '{name}' is {parameter.dtype}, but networks are trained in float32: "
            "remove .half(), .bfloat16() or .to(…)",
        )
        _require(
            bool(parameter.isfinite().all()),
            f"its parameter '{name}' is NaN or infinite at the start: initialise it, as "
            "torch.empty does not",
        )
    known = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
    for place, part in module.named_modules():
        _require(
            part.training,
            f"{f'its layer {place!r}' if place else 'it'} is in evaluation mode, in which Dropout "
            "does nothing and BatchNorm keeps what it has: remove .eval()",
        )
        for name, value in vars(part).items():
            for tensor in value if isinstance(value, list | tuple) else [value]:
                # What has a gradient function is computed from parameters, as by weight_norm.
                _require(
                    not (isinstance(tensor, torch.Tensor) and tensor.is_leaf)
                    or id(tensor) in known,
                    f"keeps a tensor in its attribute '{name}', which no GPU finds and nothing "
                    f"trains: write self.register_buffer('{name}', …) if it is constant, "
                    f"self.{name} = nn.Parameter(…) if it is to be trained",
                )


def _last_layer(module: "nn.Module", samples: "torch.Tensor") -> str:
    """The function at the network's end that is the objectives' to apply; empty if none is."""
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


def _outputs(module: "nn.Module", samples: "torch.Tensor") -> "torch.Tensor":
    import torch

    try:
        found = module(samples)
    # What layers raise for samples that are not theirs; other errors are not about samples.
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        raise FedatlasError(
            f"does not take float32 samples of shape {tuple(samples.shape)}: {error}"
        ) from error
    if not isinstance(found, torch.Tensor):
        raise FedatlasError(f"must give a tensor, not {type(found).__name__}")
    _require(
        found.dtype == samples.dtype or not found.is_floating_point(),
        f"gives outputs that are {found.dtype}: remove .half(), .double() or .to(…) from the "
        "forward pass, as samples and parameters are float32",
    )
    return found


def _agree(first: "torch.Tensor", second: "torch.Tensor") -> bool:
    # NaN agrees: numbers that are not finite have their own error when they are measured.
    return not bool((first - second).abs().max() > _AGREEMENT * first.abs().max())
