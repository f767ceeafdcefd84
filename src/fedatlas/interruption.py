"""Delay signals that end a process until its work is saved."""

import os
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Any, Self

# Sent by a cluster that wants its node back, and by Ctrl-C.
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interruption:
    """Within its block the first signal is only recorded; a second one ends the process at once.

    Only the main thread gets signals: in other threads nothing changes.
    """

    def __init__(self) -> None:
        """Nothing has been asked for yet."""
        self._asked: signal.Signals | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """Note signals from now on."""
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the previous handlers."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @property
    def asked(self) -> str | None:
        """The signal that came, by its name."""
        return None if self._asked is None else self._asked.name

    def end(self) -> None:
        """End as the signal asked: KeyboardInterrupt, or exit with 128 + its number."""
        assert self._asked is not None
        if self._asked is signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + self._asked)

    def hand_on(self) -> None:
        """After the block: raise the signal again, if one came."""
        if self._asked is not None:
            signal.raise_signal(self._asked)

    def _note(self, number: int, frame: FrameType | None) -> None:
        again = self._asked is not None
        self._asked = signal.Signals(number)
        if again:
            self.end()


class HandingOn(Interruption):
    """Within its block every signal is passed to a group of processes, for which the caller waits.

    The end of a terminal asks them to end, too. Signals that this process was started to ignore,
    as by `nohup`, it still ignores.
    """

    def __init__(self) -> None:
        """No group yet: signals wait for it."""
        super().__init__()
        self._group = 0

    def __enter__(self) -> Self:
        """Hand on signals from now on."""
        for number in (*_SIGNALS, signal.SIGHUP, signal.SIGTSTP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._note)
        return self

    def reach(self, group: int) -> None:
        """Name the group; what came before reaches it now."""
        self._group = group
        if self._asked is not None:
            self._send(self._asked)

    def end(self) -> None:
        """Exit with 128 + the number of the signal that came, if one did."""
        if self._asked is not None:
            raise SystemExit(128 + self._asked)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGTSTP:
            self._send(signal.SIGSTOP)
            signal.raise_signal(signal.SIGSTOP)
            self._send(signal.SIGCONT)
        else:
            self._asked = signal.Signals(number)
            self._send(self._asked)

    def _send(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # all have ended
            if self._group:
                os.killpg(self._group, signal.SIGTERM if number == signal.SIGHUP else number)
