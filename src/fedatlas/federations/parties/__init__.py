"""Parties that are processes: each holds its own columns only and talks to others by messages.

`backend: processes` in an experiment. What is simulated in `federations.vertical` is done here, by
the same rules and the same secure sum; docs/parties.md says how to run it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from fedatlas.federations.vertical import Vertical, VerticalContext
from fedatlas.federations.vertical.problem import PartyProblem, ProcessCounters


class Processes(Vertical):
    """Parties with columns of all samples, each a process of its own, whose time is real."""

    backend = "processes"
    counters: ClassVar[type[Any]] = ProcessCounters
    instead: ClassVar[Mapping[str, str]] = {"simulated_time": "its time is real: name elapsed_time"}


class ProcessContext(VerticalContext):
    """Processes on the CPU, one group for all trials on the same shards.

    The engine holds all that they hold, side by side, and measures models. To measure is no part of
    the protocol: this process sees all blocks, no party does.
    """

    def _engine(self, files: Sequence[Path]) -> PartyProblem:
        from fedatlas.federations.parties.group import PartyGroup

        problem = super()._engine(files)
        self._group: Any = None  # those of other shards end before the next begin
        self._group = PartyGroup(files)
        self._group.set_up(problem.objective, self._spec.network)
        return problem

    def _party_network(self, counters: Any, seed: int) -> Any:
        from fedatlas.federations.parties.network import ProcessNetwork

        rows = self.engine.rows
        return ProcessNetwork(self._group, rows.starts, self._active, len(rows), counters)
