"""Data sets as netCDF-4 files with a seal at the end, and checksums of published folders.

The seal is the SHA-256 of all bytes before it. HDF5 ignores bytes after its own end, so any program
reads a sealed file. Its library may hang or crash on a damaged file; the seal is checked before the
library sees it. It is no signature: anyone can seal a file. Published folders list checksums of
their files as `sha256sum --check` reads them.
"""

import errno
import hashlib
import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import netCDF4
import xarray as xr

from fedatlas.errors import FedatlasError, NotReadNowError
from fedatlas.files import file_digest, write_atomically, write_text
from fedatlas.interruption import Interruption

_MARK = b"\nfedatlas seal sha256 "
_LENGTH = len(_MARK) + 64 + 1
_CHUNK = 1 << 20
# A file may claim so many bytes of values, or so many times its own size: HDF5 allocates what a
# file claims, and zlib packs at most a thousand bytes into one.
_MOST_BYTES, _MOST_TIMES = 1 << 30, 1000


def write_netcdf(
    dataset: xr.Dataset, path: Path, encoding: Mapping[str, Mapping[str, Any]] | None = None
) -> None:
    """Write the file whole or not at all, and seal it."""
    with write_atomically(path) as temporary:
        # A handler that ended the process here could wait forever for a lock of xarray's.
        with Interruption() as interruption, _numbered():
            dataset.to_netcdf(temporary, engine="netcdf4", format="NETCDF4", encoding=encoding)
        interruption.hand_on()
        seal(temporary)


@contextmanager
def _numbered() -> Iterator[None]:
    """Raise what HDF5 makes of a failed write, without the system's number, as an I/O error."""
    try:
        yield
    except RuntimeError as error:
        raise OSError(errno.EIO, str(error)) from error


def read_netcdf(path: Path, file_format: str, what: str) -> xr.Dataset:
    """Load a sealed file of this format; see `open_netcdf`."""
    with open_netcdf(path, file_format, what) as file, readable(path, Exception):
        return xr.open_dataset(xr.backends.NetCDF4DataStore(file)).load()


def open_netcdf(path: Path, file_format: str, what: str) -> netCDF4.Dataset:
    """Open a sealed file of this format, which the caller closes.

    what: the contents, as messages print them ("a trace"). FedatlasError names a file that is
    damaged, of another format, or claims far more values than it can hold.
    """
    check_seal(path)
    # The library can raise anything of what is no netCDF.
    with readable(path, Exception), ExitStack() as stack:
        refuse_links(path)
        file = stack.enter_context(netCDF4.Dataset(path))
        claimed = sum(map(_claimed_bytes, file.variables.values()))
        if claimed > max(_MOST_BYTES, _MOST_TIMES * path.stat().st_size):
            raise ValueError(f"claims {claimed} bytes of values, more than 1 GiB and than it holds")
        found = getattr(file, "format", None)
        if found != file_format:
            raise FedatlasError(
                f"{path}: is not {what} of this version (its format is {found!r}, expected "
                f"{file_format!r}). Move it away and run again."
            )
        stack.pop_all()
        return file


def refuse_links(path: Path, content: bytes | None = None) -> None:
    """FedatlasError for a file that shows others' content as its own, which HDF5 allows.

    content: of the file, if that is packed.
    """
    import h5py  # which jobs that only write do without
    from h5py import h5d, h5l, h5o

    with h5py.File(path if content is None else io.BytesIO(content)) as file:
        root, names, is_alone = file["/"].id, list[bytes](), True

        def look(name: bytes, link: Any) -> None:
            nonlocal is_alone
            is_alone &= link.type == h5l.TYPE_HARD
            names.append(name)

        root.links.visit(look, info=True)
        for each in (h5o.open(root, name) for name in names if is_alone):
            if isinstance(each, h5d.DatasetID):
                how = each.get_create_plist()
                is_alone &= how.get_layout() != h5d.VIRTUAL and not how.get_external_count()
    if not is_alone:
        raise FedatlasError(
            f"{path}: has links, which no result has and which may lead to other files. Do not "
            "use it; name another file."
        )


def _claimed_bytes(variable: netCDF4.Variable) -> int:
    each = 16 if variable.dtype is str else variable.dtype.itemsize
    return int(variable.size) * each


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
    except FedatlasError:
        raise
    except (FileNotFoundError, NotADirectoryError):
        raise FedatlasError(f"{path}: there is no such file; run snakemake to make it") from None
    except (IsADirectoryError, PermissionError) as error:
        raise FedatlasError(f"{path}: cannot be read: {error.strerror}") from None
    except errors as error:
        if isinstance(error, OSError | RuntimeError | MemoryError):
            raise NotReadNowError(path, error) from error
        raise FedatlasError(
            f"{path}: holds no traces ({error}). Move it away and run again."
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


SUMS = "SHA256SUMS"
# A space and a star before the name mark a file that was read as bytes.
_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)")


def write_sums(folder: Path) -> None:
    """List all files below the folder."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != SUMS)
    lines = [f"{file_digest(file)}  {file.relative_to(folder).as_posix()}\n" for file in files]
    write_text(folder / SUMS, "".join(lines))


def check_sums(folder: Path, files: Iterable[Path], suffix: str = "") -> None:
    """FedatlasError names a file that is not as the folder's list says, or a line that is damaged.

    files: must be listed. suffix: of files that must be there if they are listed; none by default.
    Without a list all pass.
    """
    listed = folder / SUMS
    if not listed.is_file():
        return
    sums = _read(listed)
    for name, (line, _) in sums.items():
        if suffix and name.endswith(suffix) and not (folder / name).is_file():
            raise FedatlasError(
                f"{listed}, line {line}: lists {name}, which is not there; fetch the folder again"
            )
    for file in files:
        name = file.relative_to(folder).as_posix()
        if name not in sums:
            raise FedatlasError(
                f"{listed}: has no line for {name}: the list is damaged, or the file does not "
                "belong to it; fetch both again, or keep files of your own elsewhere"
            )
        line, declared = sums[name]
        if declared != file_digest(file):
            raise FedatlasError(
                f"{file}: its SHA-256 is {file_digest(file)}, but {listed}, line {line}, says "
                f"{declared}: it is damaged or was changed; fetch both again"
            )


def not_vouched_for(folder: Path) -> list[str]:
    """Names of what lies in the folder besides its list and the files that are as it says.

    Links and empty folders are in no list. FedatlasError for a damaged list.
    """
    listed = folder / SUMS
    sums = {name: digest for name, (_, digest) in _read(listed).items()} if listed.exists() else {}

    def is_vouched_for(path: Path) -> bool:
        if path.is_symlink():
            return False
        if path.is_dir():
            return any(path.iterdir())
        name = path.relative_to(folder).as_posix()
        return name == SUMS or (name in sums and sums[name] == file_digest(path))

    found = (path for path in sorted(folder.rglob("*")) if not is_vouched_for(path))
    return [path.relative_to(folder).as_posix() for path in found]


def _read(listed: Path) -> dict[str, tuple[int, str]]:
    """By file: the line in which it stands, and its checksum."""
    sums = {}
    text = listed.read_bytes().decode("utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        found = _LINE.fullmatch(line)
        if found is None:
            raise FedatlasError(
                f"{listed}, line {number}: is no checksum and name of a file: '{line[:80]}'; fetch "
                "it again"
            )
        sums[found[2]] = number, found[1]
    return sums
