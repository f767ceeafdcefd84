"""A seal at the end of a netCDF file: the SHA-256 of all bytes before it.

HDF5 ignores bytes after its own end, so any program reads a sealed file. Its library may hang or
crash on a damaged file; the seal is checked before the library sees it. It is no signature: anyone
can seal a file.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedatlas.errors import FedatlasError, NotReadNowError

_MARK = b"\nfedatlas seal sha256 "
_LENGTH = len(_MARK) + 64 + 1
_CHUNK = 1 << 20


def seal(path: Path) -> None:
    """Add the seal of a file that is written and closed."""
    digest = _digest(path, path.stat().st_size)
    with path.open("ab") as stream:
        stream.write(_MARK + digest + b"\n")


@contextmanager
def readable(path: Path, *errors: type[Exception]) -> Iterator[None]:
    """Name the file where one of these errors shows that it cannot be read.

    What is read is sealed, so not damaged by accident: where libraries fail, memory may have run
    out, which netCDF calls "Unknown file format" or "HDF error".
    """
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise FedatlasError(f"{path}: there is no such file; run snakemake to make it") from None
    except (IsADirectoryError, PermissionError) as error:
        raise FedatlasError(f"{path}: cannot be read: {error.strerror}") from None
    except errors as error:
        if isinstance(error, OSError | RuntimeError | MemoryError):
            raise NotReadNowError(path, error) from error
        raise FedatlasError(
            f"{path}: holds no trace or atlas ({error}). Move it away and run again."
        ) from error


def check_seal(path: Path) -> None:
    """FedatlasError names a file that cannot be read, has no seal, or was changed since."""
    with readable(path, OSError):
        size = path.stat().st_size
        with path.open("rb") as stream:
            stream.seek(-min(size, _LENGTH), os.SEEK_END)
            found = stream.read()
        if not (found.startswith(_MARK) and found.endswith(b"\n")):
            raise FedatlasError(
                f"{path}: is not a readable netCDF file of fedatlas: it has no seal at its end. "
                "Another program wrote it, or it was cut off. Name another file; if it is a result "
                "of the workflow, move it away and run again."
            )
        if found != _MARK + _digest(path, size - _LENGTH) + b"\n":
            raise FedatlasError(
                f"{path}: is damaged or was changed since it was written: its seal does not match. "
                "Move it away and run again."
            )


def _digest(path: Path, length: int) -> bytes:
    """In hexadecimal digits, of the first bytes of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while length > 0 and (chunk := stream.read(min(length, _CHUNK))):
            digest.update(chunk)
            length -= len(chunk)
    return digest.hexdigest().encode()
