"""Checks of what traces are computed from: raw files, prepared data, shards, optima."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

from fedatlas.data.checksums import ChecksumMismatch, verify
from fedatlas.data.parquet import PREPARED_KEYS, open_parquet, read_metadata
from fedatlas.data.raw_files import RawFile
from fedatlas.errors import FedatlasError
from fedatlas.federations.setting import shard_files
from fedatlas.plan.build import Plan
from fedatlas.provenance.digests import Digests, read_object, short
from fedatlas.provenance.findings import Finding, damaged, stale, unchecked
from fedatlas.schema.models import validated
from fedatlas.schema.partitions import Partition
from fedatlas.shards.manifests import vouched_digests
from fedatlas.training.optimum import read_optimum

_DELETE_FOLDER = "delete the folder and run snakemake again"
_UNKNOWN = "delete it if it is a leftover of an older configuration"


class Inputs:
    """Checks of the inputs of traces below a results folder."""

    def __init__(self, results: Path, lock: Path, plan: Plan, digests: Digests) -> None:
        """lock: where checksums of raw files without a known one are recorded."""
        self._results, self._lock, self._plan = results, lock, plan
        self._digests = digests
        self.damaged: set[Path] = set()  # folders of shards
        self._vouched: set[Path] = set()  # prepared and raw, by what was made of them
        self._damage = cache(_read_through)

    def check_raw(self, raw: RawFile, file: Path) -> Iterator[Finding]:
        """Compare the bytes as served with the checksum of the catalogue or of the lock.

        A file without one, or that was unpacked, is checked by the digest that prepared data hold.
        """
        recorded = read_object(self._lock) if self._lock.exists() else {}
        packed = raw.decompress or raw.unpack
        if packed or (raw.checksum is None and raw.path not in recorded):
            why = "of files as served" if packed else "not known"
            if file not in self._vouched:
                detail = f"checksums are {why}, and no prepared data vouch for it"
                yield unchecked("checksum", detail)
            return
        try:
            verify(raw, file, str(file), self._lock)
        except ChecksumMismatch as mismatch:
            yield damaged("checksum", " ".join(" ".join(str(mismatch).split("\n")[1:3]).split()))
        except OSError as error:
            raise FedatlasError(f"{file}: cannot be read: {error.strerror}") from error

    def check_shards(self, folder: Path) -> Iterator[Finding]:
        """Every silo's file against the manifest, and the manifest against the prepared data."""
        if not (folder / "manifest.json").exists():
            self.damaged.add(folder)
            yield damaged("manifest", "no manifest vouches for the files", _DELETE_FOLDER)
            return
        content = read_object(folder / "manifest.json")
        try:
            self._check_silos(folder, content)
        except FedatlasError as error:
            self.damaged.add(folder)
            yield damaged("manifest", str(error), _DELETE_FOLDER)
        if folder.name not in self._plan.partitions:
            yield stale("configuration", "no experiment has this partition", _UNKNOWN)
        sources = {folder.parent.name: content.get("prepared_digest")}
        sources |= self._test_split(folder, content)
        for split, recorded in sources.items():
            yield from self._check_source(folder.parent.parent.name, split, recorded)

    def _check_silos(self, folder: Path, content: dict[str, Any]) -> None:
        """The check that training makes before it reads the files."""
        split = folder.parent
        partition = validated(cast(Any, Partition), content.get("partition"), "partition")
        if partition.slug != folder.name:
            raise FedatlasError(f"is of {partition.slug}")
        files = shard_files(folder, partition.silos)
        digests = vouched_digests(files, split.parent.name, split.name, partition)
        self._digests.remember(files, digests)

    def _test_split(self, folder: Path, content: dict[str, Any]) -> dict[str, Any]:
        """The split kept for testing and its digest, which the shards record."""
        test = content["partition"].get("test") if isinstance(content.get("partition"), dict) else 0
        if not isinstance(test, str) or folder in self.damaged:
            return {}
        with open_parquet(folder / "silo-0.parquet") as file:
            return {test: read_metadata(file, folder, ()).get("test_digest")}

    def _check_source(self, dataset: str, split: str, recorded: Any) -> Iterator[Finding]:
        prepared = self._results / "data" / dataset / f"{split}.parquet"
        if not prepared.exists():
            yield unchecked("prepared", f"{prepared}: is not here")
        elif (found := self._digests.of(prepared)) == recorded:
            self._vouched.add(prepared)
        elif self._damage(prepared) is not None:
            yield unchecked("prepared", f"{prepared}: is damaged, see there")
        else:
            detail = f"cut from other data than {split}.parquet: {short(recorded)} → {short(found)}"
            # Nothing vouches for a Parquet file's footer: the prepared file may be at fault.
            remedy = "delete the folder and the prepared file, and run snakemake again"
            yield stale("prepared", detail, remedy)

    def check_prepared(self, file: Path) -> Iterator[Finding]:
        """Whether it can be read, unless shards vouch for it, and was made of the raw files."""
        dataset, split = file.parent.name, file.stem
        damage = None if file in self._vouched else self._damage(file)
        if damage is not None:
            raise damage
        if dataset not in self._plan.catalogue or split not in self._plan.catalogue[dataset].splits:
            yield stale("configuration", "not in the catalogue", _UNKNOWN)
            return
        with open_parquet(file) as opened:
            listed = read_metadata(opened, file, PREPARED_KEYS).get("raw")
        entries = listed if isinstance(listed, list) else []
        recorded = [(e.get("file"), e.get("sha256")) for e in entries if isinstance(e, dict)]
        files = self._plan.catalogue[dataset].splits[split].files
        paths = [self._results / "raw" / raw.local_path for raw in files]
        if [name for name, _ in recorded] != [path.name for path in paths]:
            yield stale("raw", "made of other files")
            return
        for (_, digest), path in zip(recorded, paths, strict=True):
            if not path.exists():
                yield unchecked("raw", f"{path}: is not here")
            elif (found := self._digests.of_raw(path)) == digest:
                self._vouched.add(path)
            else:
                yield stale("raw", f"{path.name}: {short(digest)} → {short(found)}")

    def check_optimum(self, file: Path) -> Iterator[Finding]:
        """Whether it can be read and the configuration asks for it."""
        read_optimum(file)
        if file.parent.name not in self._plan.pooled or file.stem not in self._plan.objectives:
            yield stale("configuration", "no experiment measures against it", _UNKNOWN)


def _read_through(file: Path) -> FedatlasError | None:
    """Why a prepared file cannot be read, or None; in batches, to bound memory."""
    try:
        with open_parquet(file) as opened:
            metadata = read_metadata(opened, file, PREPARED_KEYS)
            place = [metadata["dataset"], metadata["split"]]
            if place != [file.parent.name, file.stem]:
                return FedatlasError(f"{file}: holds {'/'.join(map(str, place))}. Delete it.")
            for _ in opened.iter_batches(batch_size=1024):
                pass
    except FedatlasError as error:
        return error
    return None
