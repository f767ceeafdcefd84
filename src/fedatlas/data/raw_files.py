"""Raw files of a catalogue: their addresses, checksums, and how they are unpacked."""

from pathlib import PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from fedatlas.schema.models import Model

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Url = Annotated[str, StringConstraints(pattern=r"^https?://[^\s]+$")]


def _without_braces(path: str) -> str:
    if "{" in path or "}" in path:
        raise ValueError("must hold no braces, which mean something to Snakemake: rename the file")
    return path


def _plain_relative(path: str) -> str:
    parts = PurePosixPath(path).parts
    if path != "/".join(parts) or path.startswith("/") or ".." in parts or "\\" in path:
        raise ValueError("must be a plain relative path with '/' between folders")
    return path


RelativePath = Annotated[Text, AfterValidator(_plain_relative)]
Checksum = Annotated[str, StringConstraints(pattern=r"^(md5:[0-9a-f]{32}|sha256:[0-9a-f]{64})$")]


class RawFile(Model):
    """One file as its publisher serves it, and how it is unpacked once it is verified.

    path: its place inside a mirror folder, with `/` as separator.
    urls: addresses in order of preference; a file without any comes from a mirror.
    checksum: of the bytes served, before any unpacking; None is recorded when the file was first
        read, and a later one must be the same. Of a user's own file the record follows what the
        mirror holds.
    decompress: remove this compression from a single file.
    unpack: unpack the whole archive; the download then leaves a folder.
    archive, member: this file is served only as `member` of `archive`.
    login: the exact steps for a file that needs an account.
    self_made: the user packs the file, as the last of those steps. No two copies are alike, so no
        checksum is kept.
    unpacked_limit_gib: refuse to download, or to unpack, more than this many GiB.
    """

    path: Annotated[RelativePath, AfterValidator(_without_braces)]
    urls: tuple[Url, ...] = ()
    checksum: Checksum | None = None
    decompress: Literal["gz", "bz2", "xz"] | None = None
    unpack: Literal["tar", "zip"] | None = None
    archive: "RawFile | None" = None
    member: Text | None = None
    login: Text | None = None
    self_made: bool = False
    unpacked_limit_gib: float = Field(default=8.0, gt=0)

    @model_validator(mode="after")
    def _can_be_had(self) -> Self:
        if (self.archive is None) != (self.member is None):
            raise ValueError("'archive' and 'member' belong together")
        if self.self_made and (self.urls or self.checksum or self.login is None):
            raise ValueError("'self_made' goes with 'login', and without 'urls' and 'checksum'")
        if sum(x is not None for x in (self.decompress, self.unpack, self.archive)) > 1:
            raise ValueError("give one of 'decompress', 'unpack' and 'archive', not several")
        if self.decompress is not None and not self.path.endswith(f".{self.decompress}"):
            raise ValueError(f"'path' must end in .{self.decompress} to be decompressed")
        if self.archive is not None:
            if self.urls:
                raise ValueError("the urls of a member belong to its archive")
            if self.archive.unpack is None:
                raise ValueError("the archive must say 'unpack: tar' or 'unpack: zip'")
        return self

    @property
    def is_own(self) -> bool:
        """Whether it is its user's own: a mirror alone has it, and its entry states no sum.

        A member is its user's own if its archive is.
        """
        declared = (self.urls, self.checksum, self.login)
        return not any(declared) and (self.archive is None or self.archive.is_own)

    @property
    def local_path(self) -> str:
        """The result's place below a folder of raw data: `path` without suffixes of packing."""
        if self.decompress is not None:
            return self.path.removesuffix(f".{self.decompress}")
        if self.unpack is not None:
            path = self.path
            for suffix in (".gz", ".bz2", ".xz", ".tgz", f".{self.unpack}"):
                path = path.removesuffix(suffix)
            # An archive without such a suffix must not collide with its own folder.
            return path if path != self.path else f"{path}.d"
        return self.path
