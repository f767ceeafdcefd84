"""FedAvg that takes its time, so that faults hit it: rounds wait, and compute nothing more."""

import os
import time
from pathlib import Path
from typing import Any

from fedatlas.algorithms.fedavg import FedAvg, State


class SlowFedAvg(FedAvg):
    """FedAvg, rounds of which take half a second while the file FEDATLAS_TEST_SLOW is there."""

    def round(self, state: State, *more: Any) -> State:
        """FedAvg's, after a pause."""
        if Path(os.environ.get("FEDATLAS_TEST_SLOW", "")).is_file():
            time.sleep(0.5)
        return super().round(state, *more)
