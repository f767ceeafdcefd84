"""Digests of files, each computed once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedatlas.errors import FedatlasError
from fedatlas.federations.setting import shard_files
from fedatlas.files import file_digest, text_digest
from fedatlas.schema.models import read_json
from fedatlas.schema.runs import RunSpec


class Digests:
    """Remembers the digests of files by path."""

    def __init__(self) -> None:
        self._known: dict[Path, str] = {}

    def remember(self, files: Sequence[Path], digests: Sequence[str]) -> None:
        """Take over what has been computed elsewhere."""
        self._known |= zip(files, digests, strict=True)

    def of(self, file: Path) -> str:
        """SHA-256 of the file's bytes; FedatlasError if it cannot be read."""
        if file not in self._known:
            try:
                self._known[file] = file_digest(file)
            except OSError as error:
                raise FedatlasError(f"{file}: cannot be read: {error.strerror}") from error
        return self._known[file]

    def of_raw(self, path: Path) -> str:
        """The digest that prepared data record of a raw file or folder; see `data.prepare`."""
        if not path.is_dir():
            return self.of(path)
        files = {
            file.relative_to(path).as_posix(): file for file in path.rglob("*") if file.is_file()
        }
        listed = (f"{self.of(file)}  {name}\n" for name, file in sorted(files.items()))
        return text_digest("".join(listed))

    def of_shards(self, spec: RunSpec, folder: Path) -> str:
        """The digest that training records of its shards; see `federations.setting`.

        folder: that of the split's partitions.
        """
        trials = [spec.partition.of_trial(seed) for seed in spec.seeds]
        by_slug = {partition.slug: partition for partition in trials}
        digests = [
            self.of(file)
            for slug, partition in by_slug.items()
            for file in shard_files(folder / slug, partition.silos)
        ]
        if spec.partition.kind == "horizontal":
            return digests[0]
        ordered = sorted(digests) if spec.partition.kind == "vertical" else digests
        return text_digest("".join(ordered))


def read_object(file: Path) -> dict[str, Any]:
    """A JSON object; FedatlasError names a file that is none."""
    content: Any = read_json(file)
    if not isinstance(content, dict):
        raise FedatlasError(f"{file}: is no JSON object")
    return content


def short(digest: object) -> str:
    """The beginning of a digest, as messages print it."""
    return f"{str(digest)[:12]}…"
