"""How loops are compiled, and kept on disk for as long as their code means the same."""

import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import njit
from numba.core.caching import FunctionCache
from numba.core.serialize import dumps

from fedatlas.code import code_digest
from fedatlas.errors import FedatlasError
from fedatlas.files import text_digest, write_atomically

_SUM = sha256().digest_size


class _SummedFiles:
    """One file for each signature of a function: a SHA-256, and the code that it vouches for.

    numba itself would run damaged code, which may compute other numbers. Its index of signatures is
    no longer right when two processes compile at once.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name

    def load(self, key: tuple[Any, ...]) -> Any:
        """The code of this signature and processor; None if there is none, or it is damaged."""
        try:
            content = self._file(key).read_bytes()
        except OSError:
            return None
        told, code = content[:_SUM], content[_SUM:]
        if told != sha256(code).digest():
            return None
        kept, data = pickle.loads(code)
        return data if kept == key else None

    def save(self, key: tuple[Any, ...], data: Any) -> None:
        """Write it whole or not at all; what cannot be kept is compiled again."""
        code = dumps((key, data))
        with suppress(FedatlasError, OSError), write_atomically(self._file(key)) as temporary:
            temporary.write_bytes(sha256(code).digest() + code)

    def _file(self, key: tuple[Any, ...]) -> Path:
        return self._folder / f"{self._name}.{text_digest(repr(key), 16)}.nbc"


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
        self._cache_file = _SummedFiles(Path(self._cache_path), name)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, and remove what older code was compiled to."""
        with suppress(OSError):  # the folder cannot be made, say on a full disk
            super().save_overload(sig, data)
        for file in Path(self._cache_path).glob(f"{self._base}*.nb[ci]"):
            if not file.name.startswith(self._own):
                with suppress(OSError):  # another process removes it, too
                    file.unlink()

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return numba.__version__, *super()._index_key(sig, codegen)


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
