"""Parties that are processes: each holds its own columns only and talks to others by messages.

`backend: processes` in an experiment. What is simulated in `federations.vertical` is done here, by
the same rules and the same secure sum; docs/parties.md says how to run it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from fedatlas.federations.vertical import Vertical
from fedatlas.federations.vertical.problem import PartyProblem, ProcessCounters


class Processes(Vertical):
    """Parties with columns of all samples, each a process of its own, whose time is real."""

    backend = "processes"
    counters: ClassVar[type[Any]] = ProcessCounters
    instead: ClassVar[Mapping[str, str]] = {"simulated_time": "its time is real: name elapsed_time"}

    @classmethod
    def engine(cls, spec: Any, files: Sequence[Path], device: str) -> PartyProblem:
        """One group of processes for all trials on the same shards.

        The problem holds all that they hold, side by side, and measures models. To measure is no
        part of the protocol: this process sees all blocks, no party does.
        """
        from fedatlas.federations.parties.group import PartyGroup

        problem = super().engine(spec, files, device)
        problem.group = PartyGroup(files)
        problem.group.set_up(problem.objective, spec.network)
        return problem

    @classmethod
    def network(cls, spec: Any, engine: Any, counters: Any, seed: int) -> Any:
        from fedatlas.federations.parties.network import ProcessNetwork

        rows, active = engine.rows, spec.partition.active
        return ProcessNetwork(engine.group, rows.starts, active, len(rows), counters)
