"""Archives in memory, for tests that unpack them."""

import io
import tarfile
import zipfile


def tar_of(
    *entries: str | tuple[str, bytes] | tarfile.TarInfo,
    compression: str = "",
    form: int = tarfile.PAX_FORMAT,
) -> bytes:
    """A tar of empty files, of files with their contents, or of ready entries full of zeros."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{compression}", format=form) as archive:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                archive.addfile(entry, io.BytesIO(bytes(entry.size)))
                continue
            name, content = (entry, b"") if isinstance(entry, str) else entry
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """An entry of a tar that is no file."""
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def zip_of(*entries: str | tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip of files with their contents."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for entry in entries:
            name, content = (entry, b"content") if isinstance(entry, str) else entry
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return buffer.getvalue()


GOOD = (("./images/1.png", b"one"), ("images/deep/2.png", b"two"), ("empty", b""))
