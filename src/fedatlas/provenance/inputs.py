"""Checks of what traces are computed from: raw files, prepared data, shards, optima."""

from pathlib import Path
from typing import Any, cast

from fedatlas.data.checksums import ChecksumMismatch, verify
from fedatlas.data.parquet import PREPARED_KEYS, open_parquet, read_metadata
from fedatlas.data.raw_files import RawFile
from fedatlas.errors import FedatlasError
from fedatlas.federations.setting import shard_files
from fedatlas.plan.build import Plan
from fedatlas.provenance.digests import Digests, read_object, short
from fedatlas.provenance.findings import Finding, State
from fedatlas.schema.models import validated
from fedatlas.schema.partitions import Partition
from fedatlas.shards.manifests import vouched_digests
from fedatlas.training.optimum import read_optimum

MAKE_AGAIN = "delete it and run snakemake again"
_DELETE_FOLDER = "delete the folder and run snakemake again"
_UNKNOWN = "delete it if it is a leftover of an older configuration"


class Inputs:
    """Checks of the inputs of traces below a results folder."""

    def __init__(self, results: Path, lock: Path, plan: Plan, digests: Digests) -> None:
        """lock: where checksums of raw files without a known one are recorded."""
        self._results, self._lock, self._plan = results, lock, plan
        self._digests = digests
        self._damaged: set[Path] = set()  # folders of shards
        self._vouched: set[Path] = set()  # prepared and raw, by what was made of them
        self._prepared: dict[Path, FedatlasError | None] = {}

    def is_damaged(self, folder: Path) -> bool:
        """Whether a folder of shards was found damaged."""
        return folder in self._damaged

    def check_raw(self, raw: RawFile, file: Path) -> list[Finding]:
        """Compare the bytes as served with the checksum of the catalogue or of the lock.

        A file without one, or that was unpacked, is checked by the digest that prepared data hold.
        """
        recorded = read_object(self._lock) if self._lock.exists() else {}
        packed = raw.decompress or raw.unpack
        if packed or (raw.checksum is None and raw.path not in recorded):
            why = "of files as served" if packed else "not known"
            detail = f"checksums are {why}, and no prepared data vouch for it"
            vouched = file in self._vouched
            return [] if vouched else [Finding(State.UNCHECKED, "checksum", detail)]
        try:
            verify(raw, file, str(file), self._lock)
        except ChecksumMismatch as mismatch:
            sums = " ".join(str(mismatch).split("\n")[1:3])
            return [Finding(State.DAMAGED, "checksum", " ".join(sums.split()), MAKE_AGAIN)]
        except OSError as error:
            raise FedatlasError(f"{file}: cannot be read: {error.strerror}") from error
        return []

    def check_shards(self, folder: Path) -> list[Finding]:
        """Every silo's file against the manifest, and the manifest against the prepared data."""
        manifest = folder / "manifest.json"
        if not manifest.exists():
            self._damaged.add(folder)
            detail = "no manifest vouches for the files"
            return [Finding(State.DAMAGED, "manifest", detail, _DELETE_FOLDER)]
        content = read_object(manifest)
        findings = self._check_silos(folder, content)
        if findings:
            self._damaged.add(folder)
        if folder.name not in self._plan.partitions:
            detail = "no experiment has this partition"
            findings.append(Finding(State.STALE, "configuration", detail, _UNKNOWN))
        dataset = folder.parent.parent.name
        sources = {folder.parent.name: content.get("prepared_digest")}
        sources |= self._test_split(folder, content)
        for split, recorded in sources.items():
            findings += self._check_source(dataset, split, recorded)
        return findings

    def _check_silos(self, folder: Path, content: dict[str, Any]) -> list[Finding]:
        """The check that training makes before it reads the files."""
        split = folder.parent
        try:
            partition = validated(cast(Any, Partition), content.get("partition"), "partition")
            if partition.slug != folder.name:
                raise FedatlasError(f"is of {partition.slug}")
            files = shard_files(folder, partition.silos)
            digests = vouched_digests(files, split.parent.name, split.name, partition)
        except FedatlasError as error:
            return [Finding(State.DAMAGED, "manifest", str(error), _DELETE_FOLDER)]
        self._digests.remember(files, digests)
        return []

    def _test_split(self, folder: Path, content: dict[str, Any]) -> dict[str, Any]:
        """The split kept for testing and its digest, which the shards record."""
        test = content["partition"].get("test") if isinstance(content.get("partition"), dict) else 0
        if not isinstance(test, str) or folder in self._damaged:
            return {}
        with open_parquet(folder / "silo-0.parquet") as file:
            return {test: read_metadata(file, folder, ()).get("test_digest")}

    def _check_source(self, dataset: str, split: str, recorded: Any) -> list[Finding]:
        prepared = self._results / "data" / dataset / f"{split}.parquet"
        if not prepared.exists():
            return [Finding(State.UNCHECKED, "prepared", f"{prepared}: is not here")]
        found = self._digests.of(prepared)
        if found == recorded:
            self._vouched.add(prepared)
            return []
        if self._damage(prepared) is not None:
            return [Finding(State.UNCHECKED, "prepared", f"{prepared}: is damaged, see there")]
        detail = f"cut from other data than {split}.parquet: {short(recorded)} → {short(found)}"
        # Nothing vouches for a Parquet file's footer: the prepared file may be the one at fault.
        remedy = "delete the folder and the prepared file, and run snakemake again"
        return [Finding(State.STALE, "prepared", detail, remedy)]

    def check_prepared(self, file: Path) -> list[Finding]:
        """Whether it can be read, unless shards vouch for it, and was made of the raw files."""
        dataset, split = file.parent.name, file.stem
        damage = None if file in self._vouched else self._damage(file)
        if damage is not None:
            raise damage
        if dataset not in self._plan.catalogue or split not in self._plan.catalogue[dataset].splits:
            return [Finding(State.STALE, "configuration", "not in the catalogue", _UNKNOWN)]
        with open_parquet(file) as opened:
            listed = read_metadata(opened, file, PREPARED_KEYS).get("raw")
        entries = listed if isinstance(listed, list) else []
        recorded = [(e.get("file"), e.get("sha256")) for e in entries if isinstance(e, dict)]
        files = self._plan.catalogue[dataset].splits[split].files
        paths = [self._results / "raw" / raw.local_path for raw in files]
        if [name for name, _ in recorded] != [path.name for path in paths]:
            return [Finding(State.STALE, "raw", "made of other files", MAKE_AGAIN)]
        findings = []
        for (_, digest), path in zip(recorded, paths, strict=True):
            if not path.exists():
                findings.append(Finding(State.UNCHECKED, "raw", f"{path}: is not here"))
                continue
            found = self._digests.of_raw(path)
            if found == digest:
                self._vouched.add(path)
            else:
                detail = f"{path.name}: {short(digest)} → {short(found)}"
                findings.append(Finding(State.STALE, "raw", detail, MAKE_AGAIN))
        return findings

    def _damage(self, file: Path) -> FedatlasError | None:
        if file not in self._prepared:
            self._prepared[file] = _read_through(file)
        return self._prepared[file]

    def check_optimum(self, file: Path) -> list[Finding]:
        """Whether it can be read and the configuration asks for it."""
        read_optimum(file)
        rows, objective = file.parent.name, file.stem
        if rows not in self._plan.pooled or objective not in self._plan.objectives:
            detail = "no experiment measures against it"
            return [Finding(State.STALE, "configuration", detail, _UNKNOWN)]
        return []


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
