"""Versions of libraries, and what else decides how sums are rounded."""

import platform
from importlib.metadata import version

import threadpoolctl

from fedatlas.federations.setting import Setting


def versions(setting: Setting) -> dict[str, str]:
    """Of Python, the platform and the libraries that compute."""
    names = ["fedatlas", "numpy", "numba", "scipy", "pyarrow", "xarray"]
    if setting.uses_torch:
        names.append("torch")
    # Mathematical libraries choose their instructions by the machine.
    machine = {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
    }
    return machine | {name: version(name) for name in names}


def environment(setting: Setting) -> dict[str, str]:
    """What a resumed run must share with its first attempt, besides its identity.

    Not the model of the processor or GPU: a preempted run may go on elsewhere.
    """
    # Sums are split over threads.
    pools = threadpoolctl.threadpool_info()
    threads = str(max((pool["num_threads"] for pool in pools), default=1))
    if setting.uses_torch:
        import torch

        threads += f", torch {torch.get_num_threads()}"
    device = setting.device.partition(":")[0]
    return versions(setting) | {"device": device, "threads": threads}
