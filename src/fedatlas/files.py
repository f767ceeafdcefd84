"""Whole-or-nothing writes, digests and canonical JSON."""

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedatlas.errors import FedatlasError


@contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` only if the block succeeds.

    Raises FedatlasError when the folder cannot be written or the disk is full.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Hidden and with the final suffix: libraries that look at the suffix still work.
        handle, name = tempfile.mkstemp(path.suffix, f".{path.stem}.", path.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        # mkstemp makes private files; results follow the user's umask like any other output.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise FedatlasError(
                f"cannot write {path}: {error.strerror}. Make the folder {path.parent} writable "
                "or choose another results folder."
            ) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise FedatlasError(
                f"cannot write {path}: {error.strerror}. Free some space and run again."
            ) from error
        raise
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 `text` to `path`, whole or not at all."""
    with write_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def file_digest(path: Path, algorithm: str = "sha256") -> str:
    """Hexadecimal digest of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def text_digest(text: str, length: int = 64) -> str:
    """First `length` hexadecimal digits of the SHA-256 of `text`."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:length]
