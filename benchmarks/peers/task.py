"""What a task is: work that several peers do, and how their results are known to be equal."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


class DifferentResult(Exception):
    """A peer has computed something else: its time means nothing."""


@dataclass(frozen=True)
class Peer:
    """Who does the work.

    script: a file of scripts/. environment: a folder of .venv-peers, None for the project's own.
    values: parameters of its own, such as fewer rounds for those that are slow.
    """

    name: str
    script: str
    environment: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


class Task(ABC):
    """unit: what the work is counted in. peers: fedatlas first, whose results others must match."""

    name: str
    title: str
    unit: str
    peers: tuple[Peer, ...]

    @abstractmethod
    def write(self, folder: Path) -> None:
        """Write parameters.json and arrays.npz, from which all peers work."""

    @abstractmethod
    def check(self, peer: Peer, output: Path, ours: Path) -> str:
        """What `peer` left in `output`, in words, or DifferentResult; ours: fedatlas' own."""


def write_job(folder: Path, values: Mapping[str, Any], **arrays: np.ndarray) -> None:
    """Write what scripts read."""
    (folder / "parameters.json").write_text(json.dumps(values))
    np.savez(folder / "arrays.npz", **arrays)


def require_equal(name: str, value: float, expected: float, tolerance: float) -> None:
    """DifferentResult unless the values agree within a share of the expected one."""
    # NaN is no result.
    if not abs(value - expected) <= tolerance * abs(expected):
        raise DifferentResult(
            f"{name}: the final loss is {value:.10g}, that of fedatlas {expected:.10g}; they may "
            f"differ by {tolerance:g} of it"
        )
