"""Settings whose arithmetic is done by one engine."""

from typing import Any

import numpy as np

from fedatlas.federations.setting import Setting
from fedatlas.schema.objectives import LinearObjective
from fedatlas.schema.runs import RunSpec


class EngineSetting(Setting):
    """The same data for all seeds, in an engine of one device."""

    def __init__(self, spec: RunSpec, engine: Any, device: str) -> None:
        """device: where the engine computes, claimed if it is a GPU."""
        self._engine, self.device, self.memory = engine, device, engine.memory
        self._networks = not isinstance(spec.objective, LinearObjective)
        if device != "cpu":
            from fedatlas.arithmetic.torch_device import gpu_versions

            self.accelerator = gpu_versions(device)

    @property
    def uses_torch(self) -> bool:
        return self._networks or self.device != "cpu"

    def array(self, values: np.ndarray) -> Any:
        return self._engine.array(values)

    def numpy(self, array: Any) -> np.ndarray:
        values: np.ndarray = self._engine.numpy(array)
        return values


def claimed_for_networks(spec: RunSpec, device: str) -> str:
    """The device, claimed for this process; linear models always use the CPU.

    torch is imported only for networks.
    """
    if isinstance(spec.objective, LinearObjective):
        return "cpu"
    from fedatlas.arithmetic.torch_device import claimed

    return claimed(device, spec.name)
