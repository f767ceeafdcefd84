"""Check the inputs of traces: raw files, prepared data, shards, optima, seeds."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from fedatlas.data.raw_files import (
    ChecksumMismatch,
    RawFile,
    content_at,
    read_origin,
    recorded_sums,
    verify,
)
from fedatlas.data.tables import PREPARED_KEYS, open_parquet, read_metadata
from fedatlas.errors import FedatlasError
from fedatlas.federations.context import shard_files
from fedatlas.federations.shards import verify_manifest
from fedatlas.files import tree_digest
from fedatlas.plan.build import Plan
from fedatlas.provenance.expected import (
    LEFTOVER,
    CheckResult,
    SeedOrigin,
    damaged,
    short,
    stale,
    unchecked,
)
from fedatlas.schema.models import read_json
from fedatlas.schema.runs import RunSpec, read_optimum
from fedatlas.training.seeds import FINISHED, SEED_IDENTITY, read_seed, seed_file, seed_identity


class Digests(dict[Path, str]):
    """SHA-256 of files and folders, each computed on first use."""

    def __missing__(self, path: Path) -> str:
        try:
            self[path] = tree_digest(path)
        except OSError as error:
            raise FedatlasError(f"{path}: cannot be read: {error.strerror}") from error
        return self[path]


class Inputs:
    """Checks of the inputs of traces below a results folder.

    damaged: folders of shards that no manifest vouches for, as far as they were checked.
    """

    def __init__(
        self, results: Path, lock: Path, plan: Plan, mirror: Path | None, seeds: Path | None
    ) -> None:
        """lock: the recorded checksums of raw files without a known one.

        seeds: a folder of results of seeds that is shared, besides that in the results folder.
        """
        self.results, self.plan, self.digests = results, plan, Digests()
        self.damaged: set[Path] = set()
        self._lock, self._mirror = lock, mirror
        self._seeds = [results / "seeds", *([seeds] if seeds else [])]
        self._used: set[Path] = set()  # files of seeds whose results traces have
        self._vouched: set[Path] = set()  # prepared and raw, by what was made of them
        self._damage = cache(_read_through)

    def check_raw(self, raw: RawFile, file: Path) -> Iterator[CheckResult]:
        """Compare the bytes as served with the checksum of the catalogue or of the lock.

        A file without one, or that was unpacked, is checked by the digest that prepared data hold;
        a user's own file also against the one in the mirror.
        """
        packed = raw.decompress or raw.unpack
        origin = read_origin(file)
        received = origin.checksum if origin is not None else None
        if raw.is_own and origin is not None and origin.state is not None:
            place = self._mirror / raw.path if self._mirror else Path(origin.state[0])
            if place.is_file() and (found := content_at(place, origin)) != received:
                detail = f"{place}: {short(origin.checksum)} → {short(found)}"
                yield stale("mirror", detail, "run snakemake again, with that mirror")
        known = raw.checksum or received or recorded_sums(self._lock).get(raw.path)
        if packed or known is None:
            why = "of files as served" if packed else "not known"
            if file not in self._vouched:
                detail = f"checksums are {why}, and no prepared data vouch for it"
                yield unchecked("checksum", detail)
            return
        try:
            verify(raw, file, str(file), self._lock, received)
        except ChecksumMismatch as mismatch:
            yield damaged("checksum", " ".join(" ".join(str(mismatch).split("\n")[1:3]).split()))
        except OSError as error:
            raise FedatlasError(f"{file}: cannot be read: {error.strerror}") from error

    def check_shards(self, folder: Path) -> Iterator[CheckResult]:
        """Every silo's file against the manifest, and the manifest against the prepared data."""
        partition = self.plan.partitions.get(folder.name)
        if partition is None:
            yield stale("configuration", "no experiment has this partition", LEFTOVER)
            return
        dataset, split = folder.parts[-3:-1]
        files = shard_files(folder, partition.silos)
        try:
            digests = verify_manifest(files, dataset, split, partition)
        except FedatlasError as error:
            self.damaged.add(folder)
            remedy = "move the folder away and run snakemake again"
            yield damaged("manifest", str(error), remedy)
            return
        self.digests.update(zip(files, digests, strict=True))
        sources = {split: read_json(folder / "manifest.json").get("prepared_digest")}
        if partition.test_split:
            with open_parquet(files[0]) as file:
                metadata = read_metadata(file, folder, ())
            sources[partition.test_split] = metadata.get("test_digest")
        for source, recorded in sources.items():
            yield from self._check_source(dataset, source, recorded)

    def _check_source(self, dataset: str, split: str, recorded: Any) -> Iterator[CheckResult]:
        prepared = self.results / "data" / dataset / f"{split}.parquet"
        if not prepared.exists():
            yield unchecked("prepared", f"{prepared}: is not here")
        elif (found := self.digests[prepared]) == recorded:
            self._vouched.add(prepared)
        elif self._damage(prepared) is not None:
            yield unchecked("prepared", f"{prepared}: is damaged, see there")
        else:
            detail = f"cut from other data than {split}.parquet: {short(recorded)} → {short(found)}"
            # Nothing vouches for a Parquet file's footer: the prepared file may be at fault.
            remedy = "move the folder and the prepared file away, and run snakemake again"
            yield stale("prepared", detail, remedy)

    def check_prepared(self, file: Path) -> Iterator[CheckResult]:
        """Whether it can be read, unless shards vouch for it, and was made of the raw files."""
        dataset, split = file.parent.name, file.stem
        damage = None if file in self._vouched else self._damage(file)
        if damage is not None:
            raise damage
        if dataset not in self.plan.catalogue or split not in self.plan.catalogue[dataset].splits:
            yield stale("configuration", "not in the catalogue", LEFTOVER)
            return
        with open_parquet(file) as opened:
            listed = read_metadata(opened, file, (*PREPARED_KEYS, "raw"))["raw"]
            recorded = [(entry["file"], entry["sha256"]) for entry in listed]
        files = self.plan.catalogue[dataset].splits[split].files
        paths = [self.results / "raw" / raw.local_path for raw in files]
        if [name for name, _ in recorded] != [path.name for path in paths]:
            yield stale("raw", "made of other files")
            return
        for (_, digest), path in zip(recorded, paths, strict=True):
            if not path.exists():
                yield unchecked("raw", f"{path}: is not here")
            elif (found := self.digests[path]) == digest:
                self._vouched.add(path)
            else:
                yield stale("raw", f"{path.name}: {short(digest)} → {short(found)}")

    def check_optimum(self, file: Path) -> Iterator[CheckResult]:
        """Whether it can be read, is as it was written, and the configuration asks for it."""
        if read_optimum(file).digest is None:
            yield unchecked("digest", "was written by a version that kept none")
        if file.parent.name not in self.plan.pooled or file.stem not in self.plan.objectives:
            yield stale("configuration", "no experiment measures against it", LEFTOVER)

    def seeds_of(
        self, trace: xr.Dataset, recorded: Mapping[str, Any]
    ) -> tuple[dict[str, SeedOrigin], list[int]]:
        """Where the result of each seed of a trace comes from, and seeds whose results differ.

        Folders of results are looked at, by the digest of what the trace says it was computed from.
        recorded: the trace's attributes.
        """
        try:
            spec = RunSpec.model_validate(recorded["specification"])
        except (KeyError, ValueError):
            return {}, []  # of another version
        origins: dict[str, SeedOrigin] = {}
        differing = []
        for place, seed in enumerate(spec.seeds):
            identity = seed_identity(
                *(spec, seed, recorded["hyper_parameters"], recorded["source_digest"]),
                recorded.get("shard_digests", {}).get(str(seed), ""),
                recorded.get("optima", {}).get(str(seed)),
            )
            origins[str(seed)] = SeedOrigin()
            folders = [one for one in self._seeds if seed_file(one, identity).exists()]
            if not folders:
                continue
            file = seed_file(folders[0], identity)
            self._used.add(file)
            try:
                header, arrays = read_seed(file)
            except FedatlasError:  # told where the file itself is checked
                continue
            made, day = header.get("made", {}), datetime.fromtimestamp(file.stat().st_mtime, UTC)
            origins[str(seed)] = SeedOrigin(
                *(str(folders[0]), file.name, day.date().isoformat()),
                *(made.get("device", ""), made.get("versions", {})),
            )
            own = {name.partition("/")[2]: array for name, array in arrays.items()}
            if any(
                not np.array_equal(
                    array, trace[name].to_numpy()[place, : len(array)], equal_nan=True
                )
                for name, array in own.items()
                if name in trace
            ):
                differing.append(seed)
        return origins, differing

    def check_seed(self, file: Path) -> Iterator[CheckResult]:
        """Whether the file is whole, in its place, finished, and that of a trace.

        Traces must have been checked.
        """
        header, _ = read_seed(file)
        identity = {name: header["identity"].get(name) for name in SEED_IDENTITY}
        if seed_file(file.parents[1], identity) != file:
            yield damaged("place", "its name is not the digest of what its result follows from")
        elif FINISHED not in header:
            yield unchecked("result", "a run that goes on, or was stopped, left it")
        elif file not in self._used:
            yield unchecked("use", "no trace here has its result, which later runs may take")


def _read_through(file: Path) -> FedatlasError | None:
    """Why a prepared file cannot be read, or None; in batches, to bound memory."""
    try:
        with open_parquet(file) as opened:
            metadata = read_metadata(opened, file, PREPARED_KEYS)
            place = [metadata["dataset"], metadata["split"]]
            if place != [file.parent.name, file.stem]:
                return FedatlasError(f"{file}: holds {'/'.join(map(str, place))}")
            for _ in opened.iter_batches(batch_size=1024):
                pass
    except FedatlasError as error:
        return error
    return None
