"""How loops are compiled, and kept on disk for as long as their code means the same."""

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile

from fedatlas.plan.closure import code_digest


class _MeaningCache(FunctionCache):
    """numba's cache on disk, in numba's folders, by the meaning of all that a module imports.

    numba itself goes by the time stamp of a function's own file, and would run stale code after an
    edit of a file from which that takes formulas or constants.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        digest = code_digest(function.__module__)
        self._base = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}-"
        self._own = f"{self._base}{digest[:16]}."
        name = self._own + sys.implementation.cache_tag
        self._cache_file = IndexDataCacheFile(self._cache_path, name, digest)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, and remove what older code was compiled to."""
        super().save_overload(sig, data)
        for file in Path(self._cache_path).glob(f"{self._base}*.nb[ci]"):
            if not file.name.startswith(self._own):
                with suppress(OSError):  # another process removes it, too
                    file.unlink()


def compiled(
    function: Callable[..., Any] | None = None, *, inline: str = "never", allocates: bool = True
) -> Any:
    """Compile a function by numba when it is first called; cached on disk.

    allocates: whether it, or what it calls, makes arrays. Otherwise no references to arrays are
    counted, which in loops of short steps takes longer than the steps.
    """
    if function is None:
        return partial(compiled, inline=inline, allocates=allocates)
    dispatcher = njit(inline=inline, _nrt=allocates)(function)
    dispatcher._cache = _MeaningCache(function)
    return dispatcher


def frozen(array: np.ndarray) -> np.ndarray:
    """A read-only view. Arrays out of files may be read-only or not: each would be compiled for."""
    view = array.view()
    view.flags.writeable = False
    return view
