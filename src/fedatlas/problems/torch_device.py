"""The device that torch computes on."""

import torch

from fedatlas.errors import FedatlasError


def available(name: str) -> torch.device:
    """The device of that name; FedatlasError says what to do when it cannot be used."""
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise FedatlasError(
            f"device '{name}' cannot be used: {str(error).splitlines()[0]}. Set device to cpu or "
            f"auto, or install a build of torch for it (this one is {torch.__version__})."
        ) from error
    return device


def chosen(name: str) -> str:
    """The device that "auto" stands for: a GPU where there is one; any other name itself."""
    if name != "auto":
        return name
    return "cuda" if torch.cuda.is_available() else "cpu"
