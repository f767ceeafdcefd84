"""What the arithmetic of all federations shares."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import Any, Self

import numpy as np


class FederatedEngine(ABC):
    """The arithmetic over all clients' samples, in an array type of its own.

    samples: training samples of all clients together.
    """

    samples: int
    _counters: Any

    def counting(self, counters: Any) -> Self:
        """The same engine for one seed, whose counters these are."""
        engine = copy(self)
        engine._counters = counters
        return engine

    @abstractmethod
    def array(self, values: np.ndarray) -> Any:
        """The values in the engine's own array type."""

    @abstractmethod
    def numpy(self, array: Any) -> np.ndarray:
        """The values as numpy; waits for the device."""

    @abstractmethod
    def repeated(self, array: Any, times: int) -> Any:
        """The array (…) repeated, (times, …)."""

    @abstractmethod
    def measure(self, point: Any) -> dict[str, float]:
        """Every measurement, over all training and test samples; never counted."""


class NumpyArrays:
    """Of engines whose own array type is numpy's."""

    def array(self, values: np.ndarray) -> np.ndarray:
        """The values themselves."""
        return values

    def numpy(self, array: Any) -> np.ndarray:
        """The array itself."""
        values: np.ndarray = array
        return values

    def repeated(self, array: np.ndarray, times: int) -> np.ndarray:
        """A view."""
        return np.broadcast_to(array, (times, *array.shape))
