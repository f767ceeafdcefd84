"""The file of an optimum f*, of an objective on pooled training rows; see `solver`."""

from pathlib import Path

from fedatlas.errors import FedatlasError
from fedatlas.files import canonical_json, text_digest, write_text
from fedatlas.schema.models import Model, read_json, validated
from fedatlas.schema.runs import RunSpec


class Optimum(Model):
    """What a solver found.

    objective: f there. gradient_norm: ‖∇f‖ there. gap: an upper bound of f − f*, ‖∇f‖²/2μ for a
    μ-strongly convex objective; None for others, where `objective` is that of the stationary point
    which the solver reaches from w = 0. digest: SHA-256 of the rest in its file; None unless it was
    read from a file, and of files of versions that wrote none, which are taken as they are.
    """

    objective: float
    gradient_norm: float
    gap: float | None
    solver: str
    digest: str | None = None

    def found_digest(self) -> str:
        """What `digest` must be."""
        return text_digest(canonical_json(self.model_dump(mode="json", exclude={"digest"})))


def write_optimum(optimum: Optimum, path: Path) -> None:
    """Write as JSON, whole or not at all."""
    found = optimum.model_copy(update={"digest": optimum.found_digest()})
    write_text(path, canonical_json(found.model_dump(mode="json")) + "\n")


def read_optimum(path: Path) -> Optimum:
    """Read back; FedatlasError names a file that cannot be read or was changed."""
    found = validated(Optimum, read_json(path), str(path))
    if found.digest not in (None, found.found_digest()):
        raise FedatlasError(
            f"{path}: is damaged or was changed since it was written: its digest is not that of "
            "its values. Move it away and run again."
        )
    return found


def read_optima(spec: RunSpec, folder: Path | None) -> dict[int, float]:
    """f* of every trial, by seed; empty where sub-optimality is not measured.

    folder: holds the split's optima.
    """
    if spec.optimum and folder is None:
        raise FedatlasError(f"{spec.name}: measures sub-optimality: give --optima, too")
    files = {seed: spec.optimum_file(folder or Path(), seed) for seed in spec.seeds}
    read = {file: read_optimum(file).objective for file in set(files.values()) if file}
    return {seed: read[file] for seed, file in files.items() if file}
