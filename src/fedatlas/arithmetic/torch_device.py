"""The device that torch computes on."""

import os

import torch

from fedatlas.arithmetic.gpus import Gpu, claim, driver_version
from fedatlas.errors import FedatlasError


def available(name: str) -> torch.device:
    """The device of that name; FedatlasError says what to do when it cannot be used."""
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
        if device.index is not None and device.type == "cuda":
            torch.cuda.set_device(device)  # so that nothing lands on another one
    except (RuntimeError, AssertionError) as error:
        raise FedatlasError(
            f"device '{name}' cannot be used: {str(error).splitlines()[0]}. Set device to cpu or "
            f"auto, or install a build of torch for it (this one is {torch.__version__})."
        ) from error
    return device


def claimed(name: str, purpose: str) -> str:
    """The device that is meant; a GPU is waited for and locked until the process ends.

    name: "cuda" is any visible GPU, "cuda:1" that one, "auto" any or, without one, the CPU; any
    other name is itself. purpose: for the logs of processes that wait for the GPU.
    """
    # SLURM names the GPUs that it gave to a job; others that are visible are not the job's.
    if name == "auto" and "SLURM_JOB_ID" in os.environ and "CUDA_VISIBLE_DEVICES" not in os.environ:
        return "cpu"
    if name != "auto" and not name.startswith("cuda"):
        return name
    gpus = visible_gpus()
    meant = [gpu for gpu in gpus if name in ("auto", "cuda", gpu.name)]
    if meant:
        return claim(meant, purpose).name
    if name == "auto":
        return "cpu"
    available(name)  # says why not
    raise FedatlasError(
        f"device '{name}' cannot be used: visible are {', '.join(gpu.name for gpu in gpus)}"
    )


def visible_gpus() -> list[Gpu]:
    """All GPUs that torch sees; CUDA_VISIBLE_DEVICES may limit them."""
    if not torch.cuda.is_available():
        return []
    return [Gpu(f"cuda:{index}", _identity(index)) for index in range(torch.cuda.device_count())]


def gpu_versions(name: str) -> dict[str, str]:
    """Model, driver and CUDA of a device that is a GPU; nothing of others."""
    if not name.startswith("cuda"):
        return {}
    return {
        "gpu": torch.cuda.get_device_name(name),
        "gpu_driver": driver_version() or "unknown",
        "cuda": torch.version.cuda or "none",
    }


def _identity(index: int) -> str:
    uuid = getattr(torch.cuda.get_device_properties(index), "uuid", None)
    if uuid is not None:
        return f"GPU-{uuid}"
    # The index counts visible GPUs only.
    listed = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return f"GPU-{listed[index].strip() if any(listed) else index}"
