"""How far a training is, for those who watch."""

import logging
import sys

from tqdm import tqdm

log = logging.getLogger(__name__)


class Progress:
    """A bar on a terminal, otherwise a plain line every tenth of the way."""

    def __init__(self, name: str, rounds: int) -> None:
        """name: of the run. rounds: of all its seeds."""
        self._name, self._rounds, self._reported = name, rounds, 0
        self._bar = tqdm(total=rounds, desc=name, unit="round", disable=None, file=sys.stderr)

    def advance_to(self, done: int) -> None:
        """Rounds done so far."""
        self._bar.update(done - self._bar.n)
        tenth = 10 * done // self._rounds
        if self._bar.disable and tenth > self._reported:
            log.info("%s: %d of %d rounds", self._name, done, self._rounds)
            self._reported = tenth

    def close(self) -> None:
        """Leave the line to what is printed next."""
        self._bar.close()
