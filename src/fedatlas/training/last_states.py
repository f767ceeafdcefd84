"""Last states of seeds, from which longer runs continue shorter ones.

A file is named by what a seed's numbers follow from but for rounds, records and what ends a run, so
that each course of a seed has one, of the longest run. Those of seeds that took next to no time are
not kept, and of the others no more than a folder holds: the oldest go first.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedatlas.schema.endings import Ending
from fedatlas.training.seeds import (
    Position,
    SeedResult,
    header_of,
    packed,
    read_checkpoint,
    seed_file,
    unpacked,
    write_checkpoint,
)

#: Seconds of rounds from which on a state is kept: others are trained as fast as they are found.
WORTH_SECONDS = 1.0
#: Bytes that all states together may take.
MOST_BYTES = 2**30

log = logging.getLogger(__name__)


class LastStates:
    """The last states of a run's seeds."""

    def __init__(self, folder: Path, courses: Mapping[int, Mapping[str, str]]) -> None:
        """folder: of results of seeds. courses: see `SeedFiles`."""
        self._folder, self._identities = folder / "last", courses

    def keep(self, seed: int, result: SeedResult, position: Position) -> None:
        """Keep where a seed ended, unless a longer run has ended further on."""
        if position.wall_time < WORTH_SECONDS or result.status != "ok":
            return
        identity, file = self._identities[seed], self._file(seed)
        kept = header_of(file)
        # One as long is written again, as its arrays may be damaged.
        if kept.get("identity") == identity and kept["round"] > position.round:
            return
        header, arrays = packed(result, position)
        if sum(array.nbytes for array in arrays.values()) <= MOST_BYTES:
            write_checkpoint(file, identity, header, arrays)
            self._make_room()

    def find(
        self, seed: int, schedule: np.ndarray, ending: Ending
    ) -> tuple[SeedResult, Position] | None:
        """Records and position of a shorter run that is a part of this one; None if none is.

        schedule: rounds at which this run is recorded, all of which the other must have recorded
        until its end. ending: of this run, which must lie behind that.
        """
        found = read_checkpoint(self._file(seed), self._identities[seed], {}, quiet=True)
        if found is None:
            return None
        result, position = unpacked(*found)
        rounds, wanted = result.variables["round"], schedule[schedule <= position.round]
        places = np.searchsorted(rounds, wanted)
        if position.round >= schedule[-1] or not np.array_equal(rounds[places], wanted):
            return None
        records = [{name: of[place] for name, of in result.variables.items()} for place in places]
        at_end = {name: of[-1] for name, of in result.variables.items()}
        if ending.has_spent(at_end) or any(map(ending.has_reached, records[1:])):
            return None
        variables = {}
        for name, values in result.variables.items():
            variables[name] = np.full(len(schedule), np.nan)
            variables[name][: len(wanted)] = values[places]
        return SeedResult(variables), replace(position, record=len(wanted))

    def _file(self, seed: int) -> Path:
        return seed_file(self._folder, self._identities[seed])

    def _make_room(self) -> None:
        """Remove the oldest states while all together are too large."""
        files = []
        for file in self._folder.glob("*/[!.]*.npz"):
            try:
                files.append((file.stat().st_mtime, file.stat().st_size, file))
            except FileNotFoundError:  # another process has removed it
                continue
        too_many = sum(size for _, size, _ in files) - MOST_BYTES
        for _, size, file in sorted(files):
            if too_many <= 0:
                break
            file.unlink(missing_ok=True)
            too_many -= size
