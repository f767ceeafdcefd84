"""Engines and settings whose own array type is numpy's."""

from typing import Any

import numpy as np


class NumpyArrays:
    """Arrays come in and go out as they are."""

    def array(self, values: np.ndarray) -> np.ndarray:
        """The values themselves."""
        return values

    def numpy(self, array: Any) -> np.ndarray:
        """The array itself."""
        values: np.ndarray = array
        return values
