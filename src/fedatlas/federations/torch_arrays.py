"""Of engines whose own array type is torch's."""

import numpy as np
import torch


class TorchArrays:
    """Arrays are tensors on the engine's device."""

    _device: torch.device

    def array(self, values: np.ndarray) -> torch.Tensor:
        """The values on the device."""
        return torch.tensor(values, device=self._device)

    def numpy(self, array: torch.Tensor) -> np.ndarray:
        """The values as numpy; waits for the device."""
        values: np.ndarray = array.cpu().numpy()
        return values

    def repeated(self, array: torch.Tensor, times: int) -> torch.Tensor:
        """A view."""
        return array.expand(times, *array.shape)
